"""The files of one commit as the import system would see them: links followed, limits kept.

Promise: only paths inside the tree are ever read; a link that leaves it does not exist.
"""

from __future__ import annotations

from collections.abc import Sequence

from gitsync.tree import Entry, Kind, Tree

MAX_LINKS = 40


class Files:
    """Path resolution and listings over a `Tree`, each asked at most once."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._resolved: dict[str, str | None] = {"": ""}
        self._listings: dict[str, dict[str, Entry]] = {}

    def resolve(self, path: str) -> str | None:
        """The real path behind `path`, every link followed; None if it does not exist."""
        known = self._resolved.get(path, "?")
        if known != "?":
            return known
        found = self._walk(path.split("/"))
        self._resolved[path] = found
        return found

    def _walk(self, parts: Sequence[str]) -> str | None:
        pending = list(reversed(parts))
        real: list[str] = []
        links = 0
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not real:
                    return None
                real.pop()
                continue
            entry = self.listing("/".join(real)).get(part)
            if entry is None:
                return None
            if entry.kind is not Kind.LINK:
                real.append(part)
                continue
            links += 1
            if links > MAX_LINKS:
                return None
            at = "/".join([*real, part])
            target = self._tree.read(at, limit=4096).decode("utf-8", "surrogateescape")
            if target.startswith("/") or not target:
                return None
            pending.extend(reversed(target.split("/")))
        return "/".join(real)

    def listing(self, folder: str) -> dict[str, Entry]:
        """The entries of a real folder by name; empty if it is none."""
        known = self._listings.get(folder)
        if known is None:
            known = {e.name: e for e in self._tree.children(folder)}
            self._listings[folder] = known
        return known

    def _entry(self, real: str) -> Entry | None:
        if not real:
            return Entry("", Kind.FOLDER, None, 0o40000)
        folder, _, name = real.rpartition("/")
        return self.listing(folder).get(name)

    def is_file(self, path: str) -> bool:
        """True if `path` leads to a regular file."""
        real = self.resolve(path)
        entry = self._entry(real) if real is not None else None
        return entry is not None and entry.is_file

    def is_folder(self, path: str) -> bool:
        """True if `path` leads to a folder."""
        real = self.resolve(path)
        entry = self._entry(real) if real is not None else None
        return entry is not None and entry.kind is Kind.FOLDER

    def names(self, folder: str) -> dict[str, Entry]:
        """The entries of the folder behind `folder`."""
        real = self.resolve(folder)
        return {} if real is None else self.listing(real)

    def size(self, path: str) -> int:
        """Bytes of the file behind `path`, which must exist."""
        real = self.resolve(path)
        return 0 if real is None else self._tree.size(real)

    def read(self, path: str, *, limit: int) -> bytes:
        """The bytes of the file behind `path`, which must exist."""
        real = self.resolve(path)
        return b"" if real is None else self._tree.read(real, limit=limit)
