"""A folder on disk as a `Tree`: all files, ignored ones too, Git's own folder hidden.

Promise: no component of a path is followed if it is a link, whatever happens to the folder
meanwhile; nested repositories and special files appear as submodules, so nothing is planned there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gitsync.template.files import is_git_name
from gitsync.text import printable
from gitsync.tree import Entry, Kind, TooLarge

JOURNAL = ".gitsync-apply"
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 64 * 1024


@contextmanager
def open_folder(root: int | str | Path, path: str) -> Iterator[int]:
    """The descriptor of a folder below `root`; a link on the way raises `OSError`."""
    here = os.open(root, FOLDER_FLAGS) if not isinstance(root, int) else os.dup(root)
    try:
        for part in path.split("/") if path else ():
            inner = os.open(part, FOLDER_FLAGS, dir_fd=here)
            os.close(here)
            here = inner
        yield here
    finally:
        os.close(here)


class DiskTree:
    """The files under `root` as they are when they are asked for."""

    def __init__(self, root: Path) -> None:
        self._root = Path(root).resolve()

    def _hidden(self, path: str) -> bool:
        first = path.split("/", 1)[0]
        return is_git_name(first) or first == JOURNAL

    def entry(self, path: str) -> Entry | None:
        """See `Tree`."""
        if path == "":
            return Entry("", Kind.FOLDER, None, 0o40000)
        if self._hidden(path):
            return None
        folder, _, name = path.rpartition("/")
        try:
            with open_folder(self._root, folder) as here:
                return _entry(here, name)
        except OSError:
            return None

    def children(self, path: str) -> Sequence[Entry]:
        """See `Tree`."""
        if path and self._hidden(path):
            return ()
        try:
            with open_folder(self._root, path) as here:
                with os.scandir(here) as entries:
                    names = [e.name for e in entries if path or not self._hidden(e.name)]
                found = [entry for name in names if (entry := _entry(here, name)) is not None]
        except OSError:
            return ()
        return sorted(found, key=_order)

    def size(self, path: str) -> int:
        """See `Tree`."""
        folder, _, name = path.rpartition("/")
        with open_folder(self._root, folder) as here:
            return os.stat(name, dir_fd=here, follow_symlinks=False).st_size

    def read(self, path: str, *, limit: int) -> bytes:
        """See `Tree`."""
        folder, _, name = path.rpartition("/")
        with open_folder(self._root, folder) as here:
            if stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
                data = os.fsencode(os.readlink(name, dir_fd=here))
            else:
                with os.fdopen(_open_file(here, name), "rb") as file:
                    data = file.read(limit + 1)
        if len(data) > limit:
            raise TooLarge(f"'{printable(path)}' is larger than {limit} bytes.", size=len(data))
        return data

    def stream(self, path: str) -> Iterator[bytes]:
        """See `Tree`."""
        folder, _, name = path.rpartition("/")
        with (
            open_folder(self._root, folder) as here,
            os.fdopen(_open_file(here, name), "rb") as file,
        ):
            while piece := file.read(_PIECE):
                yield piece


def _open_file(folder: int, name: str) -> int:
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)


def _entry(folder: int, name: str) -> Entry | None:
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return None
    if stat.S_ISLNK(mode):
        return Entry(name, Kind.LINK, None, 0o120000)
    if stat.S_ISREG(mode):
        kind = Kind.EXECUTABLE if mode & 0o100 else Kind.FILE
        return Entry(name, kind, None, int(kind.value, 8))
    if stat.S_ISDIR(mode) and not _is_repository(folder, name):
        return Entry(name, Kind.FOLDER, None, 0o40000)
    return Entry(name, Kind.GITLINK, None, 0o160000)


def _is_repository(folder: int, name: str) -> bool:
    try:
        os.stat(f"{name}/.git", dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _order(entry: Entry) -> bytes:
    name = os.fsencode(entry.name)
    return name + b"/" if entry.kind is Kind.FOLDER else name
