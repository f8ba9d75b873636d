"""The canonical tar: sorted, without times, owners or umask; version 1, frozen.

Promise: the bytes depend only on paths, contents, kinds and links. `docs/artifact-format.md`
describes the form and recomputes a digest with plain Python; golden digests are in the tests.
Extraction creates nothing outside the target and never follows a link it made.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable, Iterator
from typing import IO

from gitsync.errors import GitSyncError
from gitsync.tree import Entry, Kind, Tree

FORMAT = 1
BLOCK = tarfile.BLOCKSIZE
RECORD = tarfile.RECORDSIZE


class ArtifactTooLarge(GitSyncError):
    """The members are larger than the limit; details: `size` and `limit` in bytes."""

    code = "ARTIFACT_TOO_LARGE"


def header(path: str, entry: Entry, *, size: int, link: str = "") -> bytes:
    """The header blocks of one member (PAX where ustar does not suffice)."""
    info = tarfile.TarInfo(path)
    info.mtime = info.uid = info.gid = 0
    info.uname = info.gname = ""
    if entry.kind is Kind.LINK:
        info.type, info.linkname, info.size, info.mode = tarfile.SYMTYPE, link, 0, 0o777
    else:
        info.size = size
        info.mode = 0o755 if entry.kind is Kind.EXECUTABLE else 0o644
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def tar_pieces(
    tree: Tree, members: Iterable[tuple[str, Entry]], *, limit: int | None = None
) -> Iterator[bytes]:
    """The tar in pieces of at most 64 KiB; `ArtifactTooLarge` past `limit` bytes of content."""
    written = content = 0
    for path, entry in members:
        if entry.kind is Kind.LINK:
            text = tree.read(path, limit=1 << 20).decode("utf-8", "surrogateescape")
            block = header(path, entry, size=0, link=text)
            written += len(block)
            yield block
            continue
        size = tree.size(path)
        content += size
        if limit is not None and content > limit:
            raise ArtifactTooLarge(
                f"The files are larger than {limit // 1024 // 1024} MiB in all.",
                size=content,
                limit=limit,
            )
        block = header(path, entry, size=size)
        yield block
        yield from tree.stream(path)
        padding = -size % BLOCK
        if padding:
            yield b"\0" * padding
        written += len(block) + size + padding
    end = 2 * BLOCK
    end += -(written + end) % RECORD
    yield b"\0" * end


def write_tar(
    tree: Tree,
    members: Iterable[tuple[str, Entry]],
    out: IO[bytes],
    *,
    limit: int | None = None,
) -> tuple[str, int]:
    """Write the tar; its sha256 and its size in bytes."""
    digest, size = hashlib.sha256(), 0
    for piece in tar_pieces(tree, members, limit=limit):
        digest.update(piece)
        size += len(piece)
        out.write(piece)
    return digest.hexdigest(), size
