"""An artifact's tar unpacked into an empty private folder.

Promise: nothing outside the folder is created, read or changed, whatever the archive holds; only
regular files and symlinks that stay inside are made; links are made last and none is ever followed.
"""

from __future__ import annotations

import errno
import os
import tarfile
from pathlib import Path
from typing import IO

from gitsync.client.failures import ArtifactUnsafe
from gitsync.text import printable

MAX_PATH_BYTES = 4096
MAX_MEMBERS = 200_000
MAX_HOPS = 40  # Linux gives up after as many links
PIECE = 1024 * 1024
_NAMES_REFUSED = {errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL}
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)


class _Names:
    """What the archive has named so far: folders, files and links, by path."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.links: dict[str, str] = {}
        self.folders: set[str] = set()

    def add(self, name: str) -> None:
        """Note a file or link and the folders above it; refuse what contradicts the rest."""
        parts = name.split("/")
        if (
            not name
            or "\0" in name
            or any(part in {"", ".", ".."} for part in parts)
            or len(os.fsencode(name)) > MAX_PATH_BYTES
        ):
            raise _unsafe(name, "is no plain relative path")
        if name in self.files or name in self.links or name in self.folders:
            raise _unsafe(name, "is there twice")
        for end in range(1, len(parts)):
            folder = "/".join(parts[:end])
            if folder in self.files or folder in self.links:
                raise _unsafe(name, "lies below something that is no folder")
            self.folders.add(folder)
        if len(self.files) + len(self.links) >= MAX_MEMBERS:
            raise _unsafe(name, f"is one member more than {MAX_MEMBERS}")

    def leaves(self, link: str) -> bool:
        """True if following this link could end outside, through whatever other links."""
        here: list[str] = []
        pending = list(reversed(link.split("/")))
        hops = 0
        while pending:
            part = pending.pop()
            if part in {"", "."}:
                continue
            if part == "..":
                if not here:
                    return True
                here.pop()
                continue
            path = "/".join([*here, part])
            target = self.links.get(path)
            if target is None:
                here.append(part)
                continue
            hops += 1
            if target.startswith("/"):
                return True
            if hops > MAX_HOPS:
                return False  # a loop: the system refuses to follow it
            pending.extend(reversed(target.split("/")))
        return False


def _unsafe(name: str, why: str) -> ArtifactUnsafe:
    return ArtifactUnsafe(f"The archive's member {printable(name, limit=200)!r} {why}.", path=name)


def extract(archive: IO[bytes], folder: Path) -> int:
    """Unpack into `folder`, which is empty and ours; the number of members."""
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    names = _Names()
    made: set[str] = set()
    try:
        archive.seek(0)
        with tarfile.open(
            fileobj=archive, mode="r:", encoding="utf-8", errors="surrogateescape"
        ) as tar:
            while (member := tar.next()) is not None:
                names.add(member.name)
                if member.issym():
                    target = member.linkname
                    if not target or target.startswith("/") or "\0" in target:
                        raise _unsafe(member.name, "is a link that leaves the archive")
                    names.links[member.name] = target
                elif member.type in _PLAIN and not member.issparse():
                    names.files.add(member.name)
                    _make_folders(root, member.name, made)
                    _write(root, tar, member)
                else:
                    raise _unsafe(member.name, "is neither a file nor a link")
        for name in names.links:
            if names.leaves(name):
                raise _unsafe(name, "is a link that leaves the archive")
        # all folders first: a name that differs only in case must not lead through a link
        for name in names.links:
            _make_folders(root, name, made)
        for name, target in names.links.items():
            os.symlink(os.fsencode(target), os.fsencode(name), dir_fd=root)
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as e:
        # tarfile reads numbers and chains of headers as they come
        raise ArtifactUnsafe(f"The archive is damaged: {printable(str(e))}") from e
    except FileExistsError as e:
        raise ArtifactUnsafe(
            "Two members of the archive have names that this file system takes for one."
        ) from e
    except OSError as e:
        if e.errno not in _NAMES_REFUSED:
            raise
        raise ArtifactUnsafe(f"A name in the archive cannot exist here: {e.strerror}.") from e
    finally:
        os.close(root)
    return len(names.files) + len(names.links)


def _make_folders(root: int, name: str, made: set[str]) -> None:
    parts = name.split("/")[:-1]
    for end in range(1, len(parts) + 1):
        folder = "/".join(parts[:end])
        if folder not in made:
            os.mkdir(os.fsencode(folder), 0o777, dir_fd=root)
            made.add(folder)


def _write(root: int, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    source = tar.extractfile(member)
    mode = 0o777 if member.mode & 0o111 else 0o666  # what the umask leaves of it
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(os.fsencode(member.name), flags, mode, dir_fd=root)
    with os.fdopen(descriptor, "wb") as out:
        left = member.size
        while source is not None and left:
            piece = source.read(min(PIECE, left))
            if not piece:
                raise _unsafe(member.name, "is cut off")
            out.write(piece)
            left -= len(piece)
