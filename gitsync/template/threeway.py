"""Three ways per path: what the lock says was given, what stands there, what the template wants.

Promise: an edit of the user is kept, a deletion of the user stays one until it is restored by
name, a file that the template no longer has goes only if it is untouched. Where both sides
changed, a config is merged key by key; everything else is a conflict that names its three sides
and leaves the user's file alone. The decision depends on the tree, the lock, the catalogue and
the arguments, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gitsync.errors import InvalidInput
from gitsync.template.agents import AGENTS_PATH, find_table, replace_table
from gitsync.template.catalogue import Catalogue
from gitsync.template.files import MAX_FILE_BYTES, blob_id
from gitsync.template.globs import Globs
from gitsync.template.lock import LockedFile
from gitsync.template.ownership import Ownership, read_ownership
from gitsync.template.plan import Action, Draft, Side
from gitsync.template.selection import Rendered
from gitsync.template.toml import merge_values
from gitsync.tree import Kind

BESIDE = ".template-new"

type ReadBlob = Callable[[str], bytes | None]


class OnConflict(StrEnum):
    """What to do about a file that both sides changed."""

    REPORT = "report"
    BESIDE = "beside"


@dataclass(frozen=True, slots=True)
class _Sides:
    """One path, seen three ways; `theirs_path` differs from `path` if the template renamed it."""

    path: str
    base: LockedFile | None
    ours: Side | None
    theirs: Rendered | None

    @property
    def base_side(self) -> Side | None:
        return Side.of(self.base) if self.base else None

    @property
    def theirs_side(self) -> Side | None:
        return Side.of(self.theirs) if self.theirs else None


class ThreeWay:
    """Decides path by path over one draft."""

    def __init__(
        self,
        draft: Draft,
        wanted: Mapping[str, Rendered],
        catalogue: Catalogue,
        *,
        base_files: Mapping[str, Rendered],
        read_blob: ReadBlob | None = None,
        on_conflict: OnConflict = OnConflict.REPORT,
        restore: Collection[str] = (),
        is_forced: bool = False,
    ) -> None:
        self._draft = draft
        self._wanted = wanted
        self._base_files = base_files
        self._read_blob = read_blob
        self._on_conflict = on_conflict
        self._restore = set(restore)
        self._is_forced = is_forced
        self._ignored = _read_globs(draft, ".osmosis/template-ignore")
        self._ownership: Ownership = read_ownership(draft.tree, catalogue)

    def rename(self, old: str, new: str) -> bool:
        """Follow a rename of the template if the old path is still what the lock lists."""
        draft = self._draft
        base, theirs = draft.locked.get(old), self._wanted.get(new)
        ours = draft.side(old)
        if base is None or theirs is None or new in draft.locked or ours is None:
            return False
        if draft.side(new) is not None or draft.obstacle(new) or not ours.is_content:
            return False
        if self._is_left_alone(old) or self._is_left_alone(new):
            return False
        draft.hold(old, None)
        if ours == Side.of(base):
            draft.delete(old, f"renamed to {new}")
            draft.write(new, theirs, f"renamed from {old}")
        elif Side.of(theirs) == Side.of(base):
            draft.delete(old, f"renamed to {new}")
            mine = Rendered(ours.kind, draft.read(old), theirs.owner)
            draft.write(new, mine, f"renamed from {old} with your edits")
        else:
            draft.step(
                Action.CONFLICT,
                new,
                f"renamed from {old}, which you edited; yours stays there",
                base=Side.of(base),
                ours=ours,
                theirs=Side.of(theirs),
            )
            draft.locked[old] = base
            return True
        draft.hold(new, theirs)
        return True

    def decide(self, path: str) -> None:
        """Give `path` its step; see the module's promise."""
        ours = self._draft.side(path)
        if ours is not None and ours.kind is Kind.FOLDER and not self._draft.obstacle(path):
            ours = None  # this plan empties it
        sides = _Sides(path, self._draft.locked.get(path), ours, self._wanted.get(path))
        if self._is_left_alone(path):
            self._draft.step(Action.SKIP, path, "listed in .osmosis/template-ignore")
        elif sides.theirs is None:
            self._drop(sides)
        elif sides.base is None:
            self._arrive(sides, sides.theirs)
        elif sides.ours is None:
            self._missing(sides, sides.theirs)
        else:
            self._both(sides, sides.theirs)

    def _is_left_alone(self, path: str) -> bool:
        return self._ignored.covers(path) and path not in self._restore

    def _drop(self, sides: _Sides) -> None:
        """The template has no such file any more."""
        draft, path = self._draft, sides.path
        draft.hold(path, None)
        if sides.ours is None:
            draft.step(Action.SKIP, path, "gone on both sides")
        elif sides.ours == sides.base_side or (self._is_forced and sides.ours.is_content):
            draft.delete(path, "no longer part of the template, and untouched")
        else:
            draft.step(Action.SKIP, path, "no longer part of the template; edited, so it stays")

    def _arrive(self, sides: _Sides, theirs: Rendered) -> None:
        """New in the template."""
        draft, path = self._draft, sides.path
        obstacle = draft.obstacle(path)
        if sides.ours == Side.of(theirs):
            draft.step(Action.SKIP, path, "already as in the template")
            draft.hold(path, theirs)
        elif sides.ours is None and obstacle is None:
            draft.write(path, theirs, "new in the template")
            draft.hold(path, theirs)
        elif theirs.is_shared or self._ownership.is_additive(path):
            draft.step(Action.SKIP, path, f"yours, kept{f' ({obstacle})' if obstacle else ''}")
        else:
            reason = obstacle or "new in the template, but a file of yours has that name"
            draft.step(Action.CONFLICT, path, reason, ours=sides.ours, theirs=Side.of(theirs))
            self._put_beside(path, theirs)

    def _missing(self, sides: _Sides, theirs: Rendered) -> None:
        """You deleted it, or something stands in the way."""
        draft, path = self._draft, sides.path
        obstacle = draft.obstacle(path)
        if path in self._restore and obstacle is None:
            draft.write(path, theirs, "restored as you asked")
            draft.hold(path, theirs)
        elif path in self._restore:
            draft.step(Action.CONFLICT, path, obstacle or "it cannot be restored")
        else:
            reason = f"deleted here ({obstacle})" if obstacle else "deleted here, stays deleted"
            draft.step(Action.SKIP, path, f"{reason}; --restore {path} brings it back")

    def _both(self, sides: _Sides, theirs: Rendered) -> None:
        draft, path = self._draft, sides.path
        ours, base, new = sides.ours, sides.base_side, Side.of(theirs)
        if ours == new:
            draft.step(Action.SKIP, path, "already as in the template")
            draft.hold(path, theirs)
        elif ours == base:
            draft.write(path, theirs, "changed in the template, untouched here")
            draft.hold(path, theirs)
        elif path in self._restore and ours is not None and ours.is_content:
            draft.write(path, theirs, "restored as you asked; your edits are gone")
            draft.hold(path, theirs)
        elif base == new:
            draft.step(Action.SKIP, path, "edited here, unchanged in the template")
            draft.hold(path, theirs)
        elif not self._merge(sides, theirs):
            self._clash(sides, theirs)

    def _clash(self, sides: _Sides, theirs: Rendered) -> None:
        draft, path = self._draft, sides.path
        if theirs.is_shared:
            draft.step(Action.SKIP, path, "edited here; shared data is never overwritten")
            return
        draft.step(
            Action.CONFLICT,
            path,
            "changed here and in the template",
            base=sides.base_side,
            ours=sides.ours,
            theirs=sides.theirs_side,
        )
        if self._put_beside(path, theirs):
            draft.hold(path, theirs)

    def _put_beside(self, path: str, theirs: Rendered) -> bool:
        beside = path + BESIDE
        if self._on_conflict is not OnConflict.BESIDE or self._draft.obstacle(beside):
            return False
        if self._draft.side(beside) not in (None, Side.of(theirs)):
            return False  # something of yours has that name
        self._draft.write(beside, theirs, f"the template's version of {path}")
        return True

    def base_bytes(self, path: str) -> bytes | None:
        """The content the lock speaks of, if it can still be had."""
        locked = self._draft.lock.files.get(path)
        if locked is None:
            return None
        again = self._base_files.get(path)
        if again is not None and blob_id(again.data) == locked.blob:
            return again.data
        data = self._read_blob(locked.blob) if self._read_blob else None
        return data if data is not None and blob_id(data) == locked.blob else None

    def _merge(self, sides: _Sides, theirs: Rendered) -> bool:
        """Merge what can be merged without guessing; True if `path` got its step."""
        draft, path = self._draft, sides.path
        ours, base = sides.ours, self.base_bytes(sides.path)
        if base is None or ours is None or Kind.LINK in (ours.kind, theirs.kind):
            return False
        if not ours.is_content:
            return False
        mine = draft.read(path)
        if path == AGENTS_PATH:
            merged = _merge_table(base, mine, theirs.data)
            if merged is None:
                return False
            what = "the table of skills follows what is installed; your edits stay"
        elif path.endswith(".toml") and path.startswith("configs/"):
            try:
                merged, clashes = merge_values(base, mine, theirs.data, name=path)
            except InvalidInput:
                return False
            if clashes:
                draft.step(
                    Action.CONFLICT,
                    path,
                    f"both sides changed {', '.join(clashes)}",
                    base=sides.base_side,
                    ours=ours,
                    theirs=sides.theirs_side,
                )
                if self._put_beside(path, theirs):
                    draft.hold(path, theirs)
                return True
            what = "values changed in the template; your edits and comments stay"
        else:
            return False
        if merged == mine:
            draft.step(Action.SKIP, path, "edited here; the template's change is in it already")
        else:
            draft.write(path, Rendered(ours.kind, merged, theirs.owner), f"merged: {what}")
        draft.hold(path, theirs)
        return True


def _merge_table(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """AGENTS.md with a new table of skills, if the table is all that the template changed."""
    table = find_table(theirs)
    if table is None or replace_table(base, table) != theirs:
        return None
    return replace_table(ours, table)


def _read_globs(draft: Draft, path: str) -> Globs:
    entry = draft.tree.entry(path)
    if entry is None or not entry.is_file or draft.tree.size(path) > MAX_FILE_BYTES:
        return Globs()
    return Globs.parse(draft.read(path).decode("utf-8", "replace").splitlines())
