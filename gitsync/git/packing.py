"""Store new objects as one pack: three syncs in all, where loose ones take two each.

Promise: when `store` returns, the objects are durable and can be read; before that none of them is
visible. The caller holds the repository's lock (shared or not), so that nobody takes the pack
without its index for a leftover.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
import zlib
from pathlib import Path

from pygit2.enums import ObjectType

from gitsync.git.failures import LimitHit, RepositoryCorrupt
from gitsync.git.storage import sync_folder

MAX_PACK_BYTES = 2**31 - 1  # beyond it an index needs offsets of another kind
_LEVEL = 1  # `gc` packs anew what stays
_NAMES = {ObjectType.COMMIT: b"commit", ObjectType.TREE: b"tree", ObjectType.BLOB: b"blob"}


class NewPack:
    """Objects on their way into a repository, each once."""

    def __init__(self, repo: Path) -> None:
        self._folder = repo / "objects" / "pack"
        self._objects: dict[bytes, tuple[ObjectType, bytes]] = {}

    def add(self, kind: ObjectType, data: bytes) -> str:
        """Put an object in; its name."""
        name = hashlib.sha1(b"%s %d\0" % (_NAMES[kind], len(data)), usedforsecurity=False)
        name.update(data)
        self._objects.setdefault(name.digest(), (kind, data))
        return name.hexdigest()

    def store(self) -> None:
        """Write pack and index to disk, the index last: it is what makes objects visible."""
        if not self._objects:
            return
        pack, rows = self._packed()
        path = self._folder / f"pack-{pack[-20:].hex()}.pack"
        if path.exists() and path.with_suffix(".idx").exists():
            return  # the same objects were stored before
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _place(path, pack)
            _place(path.with_suffix(".idx"), _index(rows, pack[-20:]))
            sync_folder(self._folder)
        except OSError as e:
            raise RepositoryCorrupt(
                f"{self._folder.parent.parent.name} cannot be written to: {e.strerror}."
            ) from e

    def _packed(self) -> tuple[bytes, list[tuple[bytes, int, int]]]:
        """The bytes of the pack, and (name, checksum, offset) of each object by name."""
        parts = [struct.pack(">4sII", b"PACK", 2, len(self._objects))]
        size = len(parts[0])
        rows = []
        for name, (kind, data) in self._objects.items():
            entry = _head(kind, len(data)) + zlib.compress(data, _LEVEL)
            rows.append((name, zlib.crc32(entry), size))
            parts.append(entry)
            size += len(entry)
            if size > MAX_PACK_BYTES:
                raise LimitHit("A commit of ours would be larger than 2 GiB.", limit="bytes")
        body = b"".join(parts)
        return body + hashlib.sha1(body, usedforsecurity=False).digest(), sorted(rows)


def _head(kind: ObjectType, size: int) -> bytes:
    """Type and size, seven bits a byte after the first four."""
    byte, size = int(kind) << 4 | size & 15, size >> 4
    out = bytearray()
    while size:
        out.append(byte | 0x80)
        byte, size = size & 127, size >> 7
    out.append(byte)
    return bytes(out)


def _index(rows: list[tuple[bytes, int, int]], checksum: bytes) -> bytes:
    """An index of version 2."""
    counts = [0] * 256
    for name, _, _ in rows:
        counts[name[0]] += 1
    total, fanout = 0, []
    for count in counts:
        total += count
        fanout.append(total)
    body = b"".join(
        (
            b"\xfftOc",
            struct.pack(">I256I", 2, *fanout),
            *(name for name, _, _ in rows),
            struct.pack(f">{len(rows)}I", *(crc for _, crc, _ in rows)),
            struct.pack(f">{len(rows)}I", *(offset for _, _, offset in rows)),
            checksum,
        )
    )
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _place(path: Path, data: bytes) -> None:
    """A synced file under its name at once; what a kill leaves is swept by its name."""
    scratch = path.with_name(f"tmp_{path.suffix[1:]}_{secrets.token_hex(6)}")
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        scratch.rename(path)
    finally:
        scratch.unlink(missing_ok=True)
