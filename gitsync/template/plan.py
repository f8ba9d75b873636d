"""A plan: every create, replace, delete, skip and conflict with its reason, and the changes.

Promise: a plan is a value; making one writes nothing. `changes` holds exactly what a commit or a
checkout must take so that its tree equals the plan, the lock file included; with a conflict that
stops the whole operation it is empty. A `Draft` refuses what would leave the tree's shape: writing
through a link, over a folder, below a file, or beside a name that differs only in case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gitsync.template.files import (
    MAX_FILE_BYTES,
    Changes,
    OverlayTree,
    blob_id,
    check_existing,
    check_path,
    entry_id,
    parents,
    walk,
)
from gitsync.template.globs import Globs
from gitsync.template.lock import LOCK_PATH, Lock, LockedFile
from gitsync.template.selection import Rendered
from gitsync.tree import Kind, Tree

_MAX_IGNORE_BYTES = 256 * 1024


class Action(StrEnum):
    """What happens to one path."""

    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"
    SKIP = "skip"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Step:
    """One path of a plan. `base`, `ours`, `theirs` are `MODE BLOB` of an update's three sides."""

    action: Action
    path: str
    reason: str
    base: str | None = None
    ours: str | None = None
    theirs: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The wire form; sides are there only where they are known."""
        out = {"action": self.action.value, "path": self.path, "reason": self.reason}
        sides = {"base": self.base, "ours": self.ours, "theirs": self.theirs}
        return out | {key: side for key, side in sides.items() if side is not None}


@dataclass(frozen=True, slots=True)
class Side:
    """What stands at a path: a file or link with its blob, or a folder or submodule (`blob` "")."""

    kind: Kind
    blob: str

    @property
    def is_content(self) -> bool:
        """True for what a template can have written: a file or a link."""
        return self.kind in (Kind.FILE, Kind.EXECUTABLE, Kind.LINK)

    def __str__(self) -> str:
        return f"{self.kind.value} {self.blob}".rstrip()

    @classmethod
    def of(cls, file: Rendered | LockedFile) -> Side:
        """The side of a rendered file or of a lock's entry."""
        return cls(file.kind, blob_id(file.data) if isinstance(file, Rendered) else file.blob)


@dataclass(frozen=True, slots=True)
class Plan:
    """What an operation would do to a tree."""

    summary: str
    steps: tuple[Step, ...]
    changes: Changes = field(repr=False)
    notes: tuple[str, ...] = ()
    before: Mapping[str, Side | None] = field(default_factory=dict, repr=False)

    @property
    def conflicts(self) -> tuple[Step, ...]:
        """The steps that could not be decided."""
        return tuple(s for s in self.steps if s.action is Action.CONFLICT)

    @property
    def is_blocked(self) -> bool:
        """True if nothing will be done because of a conflict."""
        return bool(self.conflicts) and not self.changes

    def overlay(self, tree: Tree) -> OverlayTree:
        """The tree as it will be."""
        return OverlayTree(tree, self.changes)

    def to_json(self) -> dict[str, Any]:
        """The wire form without contents."""
        counts = {a.value: sum(s.action is a for s in self.steps) for a in Action}
        return {
            "summary": self.summary,
            "blocked": self.is_blocked,
            "counts": counts,
            "steps": [s.to_json() for s in self.steps],
            "notes": list(self.notes),
        }


def side_of(tree: Tree, path: str) -> Side | None:
    """What stands at `path` of a tree."""
    entry = tree.entry(path)
    if entry is None:
        return None
    if not entry.is_file and entry.kind is not Kind.LINK:
        return Side(entry.kind, "")
    return Side(entry.kind, entry_id(tree, path, entry))


class Draft:
    """A plan in the making, over one tree and its lock."""

    def __init__(self, tree: Tree, lock: Lock) -> None:
        self.tree = tree
        self.lock = lock
        self.locked: dict[str, LockedFile] = dict(lock.files)
        self._steps: dict[str, Step] = {}
        self._changes: dict[str, tuple[Kind, bytes | None]] = {}
        self._notes: list[str] = []
        self._ignores: dict[str, Globs] = {}
        self._hidden: dict[str, bool] = {}
        self._sides: dict[str, Side | None] = {}
        self._folded: dict[str, dict[str, list[str]]] = {}

    def side(self, path: str) -> Side | None:
        """What stands at `path`; read once, so that a plan is about one moment of it."""
        if path not in self._sides:
            self._sides[path] = side_of(self.tree, path)
        return self._sides[path]

    def planned(self) -> OverlayTree:
        """The tree as it would be with the steps so far."""
        return OverlayTree(self.tree, self._changes)

    def read(self, path: str) -> bytes:
        """The bytes that stand at `path` now."""
        return self.tree.read(path, limit=MAX_FILE_BYTES)

    def step(
        self,
        action: Action,
        path: str,
        reason: str,
        *,
        base: Side | None = None,
        ours: Side | None = None,
        theirs: Side | None = None,
    ) -> None:
        """Record what happens to `path`; a later word about the same path replaces the earlier."""
        sides = (str(s) if s is not None else None for s in (base, ours, theirs))
        self._steps[path] = Step(action, path, reason, *sides)

    def is_in_conflict(self, path: str) -> bool:
        """True if `path` has been found to be in conflict."""
        step = self._steps.get(path)
        return step is not None and step.action is Action.CONFLICT

    def write(self, path: str, file: Rendered, reason: str) -> None:
        """Create or replace `path` with a rendered file."""
        is_new = self.tree.entry(path) is None
        self._changes[check_path(path)] = (file.kind, file.data)
        self.step(Action.CREATE if is_new else Action.REPLACE, path, reason)

    def delete(self, path: str, reason: str) -> None:
        """Delete the file or link at `path`."""
        entry = self.tree.entry(path)
        self._changes[check_existing(path)] = (entry.kind if entry else Kind.FILE, None)
        self.step(Action.DELETE, path, reason)

    def note(self, text: str) -> None:
        """Something the person should know that stops nothing."""
        self._notes.append(text)

    def hold(self, path: str, file: Rendered | None) -> None:
        """Remember in the lock what the template gives at `path`; None forgets it."""
        if file is None:
            self.locked.pop(path, None)
        else:
            self.locked[path] = LockedFile(file.owner, file.kind, blob_id(file.data))

    def obstacle(self, path: str) -> str | None:
        """Why nothing can be written at `path` whatever is forced, or None."""
        for folder in parents(path):
            entry = self.tree.entry(folder)
            if entry is not None and entry.kind is not Kind.FOLDER:
                if self._changes.get(folder, (None, b""))[1] is None:
                    continue  # it is deleted by this very plan
                return f"{folder} is {_called(entry.kind)} where a folder belongs"
            twin = self._twin(folder) if entry is None else None
            if twin:
                return f"{twin} differs from {folder} only in case"
        entry = self.tree.entry(path)
        if entry is None:
            twin = self._twin(path)
            return f"{twin} differs from it only in case" if twin else None
        if entry.kind is Kind.FOLDER:
            stays = [
                p
                for p, _ in walk(self.tree, path)
                if self._changes.get(p, (None, b""))[1] is not None
            ]
            return f"a folder with {stays[0]} stands there" if stays else None
        return "a submodule stands there" if entry.kind is Kind.GITLINK else None

    def _twin(self, path: str) -> str | None:
        """An entry beside `path` that a case-insensitive file system takes for the same."""
        folder, _, name = path.rpartition("/")
        if folder not in self._folded:
            names: dict[str, list[str]] = {}
            for entry in self.tree.children(folder):
                names.setdefault(entry.name.casefold(), []).append(entry.name)
            self._folded[folder] = names
        for other in self._folded[folder].get(name.casefold(), ()):
            beside = f"{folder}/{other}" if folder else other
            if other != name and self.planned().entry(beside) is not None:
                return beside
        return None

    def is_ignored(self, path: str) -> bool:
        """True if a `.gitignore` of the planned tree hides `path` from `git add`."""
        folders = parents(path)
        for number, folder in enumerate(folders):
            if folder not in self._hidden:
                self._hidden[folder] = self._is_named(folder, folders[:number], is_folder=True)
            if self._hidden[folder]:
                return True  # nothing below a folder that is left out can be let in again
        return self._is_named(path, folders, is_folder=False)

    def _is_named(self, path: str, folders: list[str], *, is_folder: bool) -> bool:
        """True if the `.gitignore` files of `folders` and the root, the last word first, say so."""
        for above in [*reversed(folders), ""]:
            inner = path[len(above) + 1 :] if above else path
            decided = self._gitignore(above).decides(inner, is_folder=is_folder)
            if decided is not None:
                return decided
        return False

    def _gitignore(self, folder: str) -> Globs:
        if folder not in self._ignores:
            path = f"{folder}/.gitignore" if folder else ".gitignore"
            data = self._planned_file(path)
            text = data.decode("utf-8", "replace") if len(data) <= _MAX_IGNORE_BYTES else ""
            self._ignores[folder] = Globs.parse(text.splitlines())
        return self._ignores[folder]

    def _planned_file(self, path: str) -> bytes:
        """What a regular file will hold; empty if there will be none, or a very large one."""
        if path in self._changes:
            kind, data = self._changes[path]
            return b"" if data is None or kind is Kind.LINK else data
        entry = self.tree.entry(path)
        if entry is None or not entry.is_file or self.tree.size(path) > _MAX_IGNORE_BYTES:
            return b""
        return self.tree.read(path, limit=_MAX_IGNORE_BYTES)

    def finish(self, summary: str, lock: Lock, *, all_or_nothing: bool) -> Plan:
        """The plan; with `all_or_nothing` a single conflict means that nothing changes."""
        self._settle()
        steps = dict(self._steps)
        conflicts = [s for s in steps.values() if s.action is Action.CONFLICT]
        if conflicts and all_or_nothing:
            kept = tuple(s for _, s in sorted(steps.items()))
            return Plan(summary, kept, {}, tuple(self._notes))
        data = lock.to_bytes()
        if lock != Lock() and (self.tree.entry(LOCK_PATH) is None or self.read(LOCK_PATH) != data):
            self.write(LOCK_PATH, Rendered(Kind.FILE, data, "workspace"), "records this operation")
            obstacle = self.obstacle(LOCK_PATH)
            if obstacle:
                self.step(Action.CONFLICT, LOCK_PATH, obstacle)
                self._changes.clear()
        self._ignores.clear()
        self._hidden.clear()
        for path, (_, content) in sorted(self._changes.items()):
            if content is not None and self.is_ignored(path):
                self._notes.append(f"{path} is hidden by .gitignore: `git add` needs -f for it.")
        ordered = tuple(step for _, step in sorted(self._steps.items()))
        changes = dict(sorted(self._changes.items()))
        before = {path: self.side(path) for path in changes}
        return Plan(summary, ordered, changes, tuple(self._notes), before)

    def _settle(self) -> None:
        """Turn writes that the tree's shape forbids into conflicts."""
        for path, (_, data) in list(self._changes.items()):
            if data is None:
                continue
            obstacle = self.obstacle(path)
            if obstacle:
                del self._changes[path]
                self.step(Action.CONFLICT, path, obstacle)
                before = self.lock.files.get(path)
                if before is None:
                    self.locked.pop(path, None)
                else:
                    self.locked[path] = before


def _called(kind: Kind) -> str:
    return {Kind.LINK: "a link", Kind.GITLINK: "a submodule"}.get(kind, "a file")
