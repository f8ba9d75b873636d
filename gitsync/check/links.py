"""Where symlinks lead, as a kernel would follow them, without following any on a disk."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gitsync.check.names import is_dotgit
from gitsync.tree import Entry, Kind, TooLarge, Tree

MAX_HOPS = 40
MAX_TEXT_BYTES = 4095


class End(Enum):
    """How following a path ends."""

    INSIDE = "inside"
    NOWHERE = "nowhere"
    OUTSIDE = "outside"


@dataclass(frozen=True, slots=True)
class Target:
    """The end of a path: `path` and `entry` only if it is inside."""

    end: End
    path: str = ""
    entry: Entry | None = None

    @property
    def is_folder(self) -> bool:
        """True if the end is a folder of the tree."""
        return self.end is End.INSIDE and (self.entry is None or self.entry.kind is Kind.FOLDER)

    @property
    def is_file(self) -> bool:
        """True if the end is a regular file of the tree."""
        return self.entry is not None and self.entry.is_file


NOWHERE = Target(End.NOWHERE)
OUTSIDE = Target(End.OUTSIDE)


class Links:
    """Follows paths of one tree; answers are kept for the life of the object."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._texts: dict[str, str | None] = {}
        self._ends: dict[str, Target] = {}

    def text(self, path: str) -> str | None:
        """The text of a link; None if it is longer than any system allows."""
        if path not in self._texts:
            try:
                data = self._tree.read(path, limit=MAX_TEXT_BYTES)
                self._texts[path] = data.decode("utf-8", "surrogateescape")
            except TooLarge:
                self._texts[path] = None
        return self._texts[path]

    def follow(self, path: str, *, base: str = "") -> Target:
        """The end of `path`, taken from the folder `base`, all links on the way followed."""
        key = f"{base}\0{path}"
        if key not in self._ends:
            self._ends[key] = self._walk(base, path)
        return self._ends[key]

    def _walk(self, base: str, path: str) -> Target:
        if path.startswith("/"):
            return OUTSIDE
        if "\0" in path:
            return NOWHERE
        here: list[str] = base.split("/") if base else []
        waiting = path.split("/")[::-1]
        entry: Entry | None = None
        hops = 0
        while waiting:
            step = waiting.pop()
            if step in ("", "."):
                continue
            if step == "..":
                if not here:
                    return OUTSIDE
                here.pop()
                continue
            if is_dotgit(step):
                return OUTSIDE
            here.append(step)
            entry = self._tree.entry("/".join(here))
            if entry is None:
                return self._lost(here, waiting)
            if entry.kind is Kind.GITLINK:
                return Target(End.INSIDE, "/".join(here), entry)
            if entry.kind is Kind.LINK:
                hops += 1
                text = self.text("/".join(here))
                if hops > MAX_HOPS or not text or "\0" in text:
                    return NOWHERE
                if text.startswith("/"):
                    return OUTSIDE
                here.pop()
                waiting.extend(text.split("/")[::-1])
            elif waiting and entry.kind is not Kind.FOLDER:
                return self._lost(here, waiting)
        joined = "/".join(here)
        return Target(End.INSIDE, joined, self._tree.entry(joined) if joined else None)

    @staticmethod
    def _lost(here: list[str], waiting: list[str]) -> Target:
        """Nothing is there; still outside if the rest would climb out once something is."""
        depth = len(here)
        for step in reversed(waiting):
            if step == "..":
                depth -= 1
            elif step not in ("", "."):
                depth += 1
            if depth < 0:
                return OUTSIDE
        return NOWHERE
