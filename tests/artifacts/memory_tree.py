"""A tree of plain values, for tests of what reads trees."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from gitsync.tree import Entry, Kind, TooLarge


class MemoryTree:
    """`{path: bytes}`, `{path: ("120000", b"target")}` or `{path: ("100755", b"…")}`."""

    def __init__(self, files: Mapping[str, bytes | tuple[str, bytes]]) -> None:
        self.files = {
            path: value if isinstance(value, tuple) else ("100644", value)
            for path, value in files.items()
        }

    def _folder(self, path: str) -> dict[str, str]:
        prefix = path + "/" if path else ""
        return {
            full.removeprefix(prefix).split("/")[0]: full
            for full in self.files
            if full.startswith(prefix)
        }

    def entry(self, path: str) -> Entry | None:
        name = path.rpartition("/")[2]
        if path in self.files:
            mode, data = self.files[path]
            return Entry(name, Kind(mode), hashlib.sha1(data).hexdigest(), int(mode, 8))
        if path == "" or self._folder(path):
            below = sorted((p, v) for p, v in self.files.items() if p.startswith(path))
            oid = hashlib.sha1(repr(below).encode()).hexdigest()
            return Entry(name, Kind.FOLDER, oid, 0o40000)
        return None

    def children(self, path: str) -> list[Entry]:
        if path in self.files:
            return []
        prefix = path + "/" if path else ""
        found = (self.entry(prefix + name) for name in sorted(self._folder(path)))
        return [entry for entry in found if entry is not None]

    def size(self, path: str) -> int:
        return len(self.files[path][1])

    def read(self, path: str, *, limit: int) -> bytes:
        if self.size(path) > limit:
            raise TooLarge("too large", size=self.size(path))
        return self.files[path][1]

    def stream(self, path: str) -> Iterator[bytes]:
        data = self.files[path][1]
        for start in range(0, len(data), 64 * 1024):
            yield data[start : start + 64 * 1024]
