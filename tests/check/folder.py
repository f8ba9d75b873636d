"""A `Tree` over a folder on disk, for the entrypoint tests."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from gitsync.tree import Entry, Kind, TooLarge


class Folder:
    """Everything below a folder, links as links."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def _entry(self, path: Path) -> Entry:
        if path.is_symlink():
            return Entry(path.name, Kind.LINK, None, 0o120000)
        if path.is_dir():
            return Entry(path.name, Kind.FOLDER, None, 0o40000)
        return Entry(path.name, Kind.FILE, None, 0o100644)

    def entry(self, path: str) -> Entry | None:
        full = self._root / path
        return self._entry(full) if os.path.lexists(full) else None

    def children(self, path: str) -> Sequence[Entry]:
        full = self._root / path
        if full.is_symlink() or not full.is_dir():
            return ()
        return tuple(self._entry(p) for p in sorted(full.iterdir()))

    def size(self, path: str) -> int:
        return (self._root / path).lstat().st_size

    def read(self, path: str, *, limit: int) -> bytes:
        full = self._root / path
        data = os.readlink(full).encode() if full.is_symlink() else full.read_bytes()
        if len(data) > limit:
            raise TooLarge("too large", size=len(data))
        return data

    def stream(self, path: str) -> Iterator[bytes]:
        yield self.read(path, limit=1 << 30)


class Memory:
    """Files given as a dict of path to text, bytes or (for links) a `Link`."""

    def __init__(self, files: dict[str, str | bytes | Link]) -> None:
        self._files = {
            k: v.encode("utf-8", "surrogateescape")
            if isinstance(v, str) and not isinstance(v, Link)
            else v
            for k, v in files.items()
        }
        self._folders: dict[str, dict[str, Entry]] = {"": {}}
        for path, data in self._files.items():
            parts = path.split("/")
            for depth in range(len(parts) - 1):
                here, name = "/".join(parts[:depth]), parts[depth]
                self._folders.setdefault(here, {})[name] = Entry(name, Kind.FOLDER, None, 0o40000)
                self._folders.setdefault("/".join(parts[: depth + 1]), {})
            kind = Kind.LINK if isinstance(data, Link) else Kind.FILE
            self._folders["/".join(parts[:-1])][parts[-1]] = Entry(
                parts[-1], kind, None, int(kind.value, 8)
            )

    def entry(self, path: str) -> Entry | None:
        folder, _, name = path.rpartition("/")
        return self._folders.get(folder, {}).get(name)

    def children(self, path: str) -> Sequence[Entry]:
        return tuple(self._folders.get(path, {}).values())

    def _data(self, path: str) -> bytes:
        data = self._files[path]
        return str(data).encode() if isinstance(data, Link) else data

    def size(self, path: str) -> int:
        return len(self._data(path))

    def read(self, path: str, *, limit: int) -> bytes:
        data = self._data(path)
        if len(data) > limit:
            raise TooLarge("too large", size=len(data))
        return data

    def stream(self, path: str) -> Iterator[bytes]:
        yield self._data(path)


class Link(str):
    """The text of a symbolic link."""
