"""Skills in a workspace: install, upgrade, uninstall, list, check, repair.

Promise: only paths that the lock lists under `skill:NAME` are ever changed, and only while their
content is as the lock says; a skill of the user's own is never touched. The table in `AGENTS.md`
follows what is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gitsync.errors import NotFound
from gitsync.template.agents import AGENTS_PATH, replace_table
from gitsync.template.catalogue import Catalogue
from gitsync.template.files import MAX_FILE_BYTES, blob_id, walk
from gitsync.template.lock import Lock, LockedFile, read_lock
from gitsync.template.plan import Action, Draft, Plan, Side
from gitsync.template.selection import (
    LINKS_ROOT,
    SKILLS_ROOT,
    Rendered,
    Selection,
    SkillMode,
    SkillUse,
    render_skill,
    skills_table,
)
from gitsync.template.threeway import OnConflict, ReadBlob, ThreeWay
from gitsync.text import printable
from gitsync.tree import Kind, Tree

_LINK_BYTES = 4096


@dataclass(frozen=True, slots=True)
class SkillState:
    """One skill of a workspace or of the catalogue."""

    name: str
    is_installed: bool  # listed in the lock
    is_known: bool  # in the catalogue
    mode: SkillMode | None
    edited: tuple[str, ...]
    missing: tuple[str, ...]
    outdated: tuple[str, ...]
    damage: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "name": self.name,
            "installed": self.is_installed,
            "known": self.is_known,
            "mode": self.mode.value if self.mode else None,
            "edited": list(self.edited),
            "missing": list(self.missing),
            "outdated": list(self.outdated),
            "damage": list(self.damage),
        }


def plan_install(
    tree: Tree,
    catalogue: Catalogue,
    names: Sequence[str],
    *,
    mode: SkillMode = SkillMode.LINK,
    read_blob: ReadBlob | None = None,
) -> Plan:
    """Add skills; a path where something else stands is a conflict and nothing is done."""
    uses = [SkillUse(catalogue.skill(name).name, mode) for name in names]
    return _plan(tree, catalogue, uses, (), "Install", read_blob=read_blob)


def plan_upgrade(
    tree: Tree,
    catalogue: Catalogue,
    names: Sequence[str] = (),
    *,
    on_conflict: OnConflict = OnConflict.REPORT,
    read_blob: ReadBlob | None = None,
) -> Plan:
    """Bring installed skills (all if none is named) to the catalogue's version, three ways."""
    installed = {s.name: s for s in read_lock(tree).selection.skills}
    _must_be_installed(names, installed)
    uses = [installed[n] for n in (names or sorted(installed)) if n in catalogue.skills]
    return _plan(tree, catalogue, uses, (), "Upgrade", read_blob=read_blob, on_conflict=on_conflict)


def plan_uninstall(
    tree: Tree,
    catalogue: Catalogue,
    names: Sequence[str],
    *,
    force: bool = False,
    read_blob: ReadBlob | None = None,
) -> Plan:
    """Remove skills; an edited file is a conflict unless forced, files of your own stay."""
    installed = {s.name: s for s in read_lock(tree).selection.skills}
    _must_be_installed(names, installed)
    return _plan(tree, catalogue, (), names, "Uninstall", read_blob=read_blob, is_forced=force)


def _must_be_installed(names: Sequence[str], installed: dict[str, SkillUse]) -> None:
    for name in names:
        if name not in installed:
            listed = ", ".join(sorted(installed)) or "none"
            raise NotFound(
                f"Skill '{printable(name, limit=80)}' was not installed by gitsync. "
                f"Installed: {listed}."
            )


def _plan(
    tree: Tree,
    catalogue: Catalogue,
    uses: Sequence[SkillUse],
    removed: Sequence[str],
    verb: str,
    *,
    read_blob: ReadBlob | None,
    on_conflict: OnConflict = OnConflict.REPORT,
    is_forced: bool = False,
) -> Plan:
    draft = Draft(tree, read_lock(tree))
    selection = draft.lock.selection
    wanted: dict[str, Rendered] = {}
    for use in uses:
        selection = selection.with_skill(use)
        wanted |= render_skill(catalogue, use)
    for name in removed:
        selection = selection.without_skill(name)
    owners = {f"skill:{name}" for name in (*(u.name for u in uses), *removed)}
    three = ThreeWay(
        draft,
        wanted,
        catalogue,
        base_files={},
        read_blob=read_blob,
        on_conflict=on_conflict,
        is_forced=is_forced,
    )
    paths = {p for p, f in draft.locked.items() if f.owner in owners} | set(wanted)
    for path in sorted(paths, key=lambda p: (p in wanted, p)):
        if path not in wanted and not is_forced:
            _refuse_edited(draft, path, removed)
        if path in draft.locked or path in wanted:
            _decide(draft, three, path, wanted)
    _follow_table(draft, catalogue, selection, read_blob)
    lock = Lock(
        draft.lock.template or catalogue.name,
        draft.lock.version or catalogue.version,
        selection,
        draft.locked,
    )
    names = ", ".join((*(u.name for u in uses), *removed))
    return draft.finish(
        f"{verb} {names}" if names else f"{verb}: nothing to do",
        replace(lock, files=draft.locked),
        all_or_nothing=verb != "Upgrade",
    )


def _decide(draft: Draft, three: ThreeWay, path: str, wanted: dict[str, Rendered]) -> None:
    """An install over a foreign file is a conflict even where paths are additive."""
    theirs = wanted.get(path)
    ours = draft.side(path)
    is_foreign = path not in draft.locked and ours is not None and theirs is not None
    if (
        is_foreign
        and theirs is not None
        and ours != Side.of(theirs)
        and draft.obstacle(path) is None
    ):
        draft.step(
            Action.CONFLICT,
            path,
            "it was not installed by gitsync and differs",
            ours=ours,
            theirs=Side.of(theirs),
        )
        return
    if draft.is_in_conflict(path):
        return
    three.decide(path)


def _refuse_edited(draft: Draft, path: str, removed: Sequence[str]) -> None:
    """Uninstalling would lose an edit: that needs force."""
    locked, ours = draft.locked[path], draft.side(path)
    name = locked.owner.removeprefix("skill:")
    if name in removed and ours is not None and ours != Side.of(locked):
        draft.step(
            Action.CONFLICT,
            path,
            "edited here; --force removes it all the same",
            base=Side.of(locked),
            ours=ours,
        )


def _follow_table(
    draft: Draft, catalogue: Catalogue, selection: Selection, read_blob: ReadBlob | None
) -> None:
    """Put the table of installed skills into AGENTS.md, and its base into the lock."""
    ours = draft.side(AGENTS_PATH)
    if ours is None or ours.kind is not Kind.FILE:
        return
    mine = draft.read(AGENTS_PATH)
    table = skills_table(catalogue, [s.name for s in selection.skills])
    new = replace_table(mine, table)
    if new is None:
        draft.note("AGENTS.md has no table of skills between gitsync's markers; it stays as it is.")
        return
    locked = draft.locked.get(AGENTS_PATH)
    if new != mine:
        file = Rendered(Kind.FILE, new, locked.owner if locked else "workspace")
        draft.write(AGENTS_PATH, file, "the table follows the installed skills")
    if locked is None:
        return
    base = mine if ours.blob == locked.blob else read_blob(locked.blob) if read_blob else None
    base_new = replace_table(base, table) if base is not None else None
    if base_new is not None:
        draft.locked[AGENTS_PATH] = LockedFile(locked.owner, locked.kind, blob_id(base_new))


def list_skills(tree: Tree, catalogue: Catalogue) -> tuple[SkillState, ...]:
    """Every skill that is installed, present or available, and what is wrong with it."""
    lock = read_lock(tree)
    draft = Draft(tree, lock)
    uses = {s.name: s for s in lock.selection.skills}
    present = {e.name for e in tree.children(SKILLS_ROOT) if e.kind is Kind.FOLDER}
    states = []
    for name in sorted({*uses, *present, *catalogue.skills}):
        use = uses.get(name)
        owned = {p: f for p, f in lock.files.items() if f.owner == f"skill:{name}"}
        edited, missing, outdated = [], [], []
        wanted = render_skill(catalogue, use) if use and name in catalogue.skills else {}
        for path, locked in sorted(owned.items()):
            side = draft.side(path)
            if side is None:
                missing.append(path)
            elif side != Side.of(locked):
                edited.append(path)
        for path, file in wanted.items():
            if path not in owned or Side.of(owned[path]) != Side.of(file):
                outdated.append(path)
        damage = _damage(draft, name, use) if name in present or use else ()
        if (name in present or use) and not _has_file(tree, name):
            told = f"{SKILLS_ROOT}/{name}/SKILL.md is missing, so no agent sees the skill"
            damage = (("unseen", told), *damage)
        state = SkillState(
            name=name,
            is_installed=use is not None,
            is_known=name in catalogue.skills,
            mode=use.mode if use else None,
            edited=tuple(edited),
            missing=tuple(missing),
            outdated=tuple(outdated),
            damage=tuple(told for _, told in damage),
        )
        states.append(state)
    return tuple(states)


def _has_file(tree: Tree, name: str) -> bool:
    """True if agents find the skill; how its file is spelt is for the check to tell."""
    return any(e.name.lower() == "skill.md" for e in tree.children(f"{SKILLS_ROOT}/{name}"))


def _damage(draft: Draft, name: str, use: SkillUse | None) -> tuple[tuple[str, str], ...]:
    """What is wrong with the link: (what, told)."""
    link = f"{LINKS_ROOT}/{name}"
    exact = f"../../{SKILLS_ROOT}/{name}"
    side = draft.side(link)
    if use is not None and use.mode is SkillMode.COPY:
        return ()
    if side is None:
        absent = (("absent", f"{link} is missing"),)
        return absent if draft.tree.children(LINKS_ROOT) or use is not None else ()
    if side.kind is Kind.FOLDER:
        return (("copy", f"{link} is a copied folder instead of a link"),)
    if not side.is_content or draft.tree.size(link) > _LINK_BYTES:
        return (("foreign", f"{link} is something else than a link"),)
    text = draft.read(link).decode("utf-8", "surrogateescape")
    if side.kind is not Kind.LINK:
        what = "text" if text.strip() == exact else "foreign"
        return ((what, f"{link} is a text file instead of a link"),)
    if text == exact:
        return ()
    return (("inexact", f"{link} points to '{printable(text.strip(), limit=100)}'"),)


def plan_repair(
    tree: Tree, catalogue: Catalogue, *, mode: SkillMode | None = None, force: bool = False
) -> Plan:
    """Bring missing files of installed skills back and mend their links.

    `mode` switches to copies or back to links. A copied folder goes only if it is equal to the
    canonical one, or if forced.
    """
    draft = Draft(tree, read_lock(tree))
    selection = draft.lock.selection
    for use in draft.lock.selection.skills:
        new = SkillUse(use.name, mode or use.mode)
        if use.name in catalogue.skills:
            _restore_missing(draft, catalogue, new)
        if new.mode is SkillMode.COPY:
            _lay_copy(draft, new, force=force)
        else:
            _lay_link(draft, new, force=force)
        selection = selection.with_skill(new)
    lock = replace(draft.lock, selection=selection, files=draft.locked)
    return draft.finish("Repair the links of the skills", lock, all_or_nothing=False)


def _restore_missing(draft: Draft, catalogue: Catalogue, use: SkillUse) -> None:
    """What the lock lists under the canonical folder and is not there."""
    for path, file in render_skill(catalogue, use).items():
        is_listed = path in draft.locked and path.startswith(f"{SKILLS_ROOT}/")
        if is_listed and draft.side(path) is None and draft.obstacle(path) is None:
            draft.write(path, file, "it was missing")
            draft.hold(path, file)


def _lay_link(draft: Draft, use: SkillUse, *, force: bool) -> None:
    link, owner = f"{LINKS_ROOT}/{use.name}", f"skill:{use.name}"
    text = f"../../{SKILLS_ROOT}/{use.name}".encode()
    wanted = Rendered(Kind.LINK, text, owner)
    side = draft.side(link)
    kinds = {what for what, _ in _damage(draft, use.name, replace(use, mode=SkillMode.LINK))}
    if side == Side.of(wanted):
        draft.hold(link, wanted)
        return
    if "foreign" in kinds and not force:
        draft.step(Action.CONFLICT, link, "it is no damaged link; --force replaces it")
        return
    if side is not None and side.kind is Kind.FOLDER and not _empty_copy(draft, use, force=force):
        return
    draft.write(link, wanted, "link restored")
    draft.hold(link, wanted)


def _empty_copy(draft: Draft, use: SkillUse, *, force: bool) -> bool:
    """Delete a copied folder if nothing is lost; False if it must stay."""
    link, home = f"{LINKS_ROOT}/{use.name}", f"{SKILLS_ROOT}/{use.name}"
    for path, _ in walk(draft.tree, link):
        twin = draft.side(home + path[len(link) :])
        if draft.side(path) != twin and not force:
            draft.step(
                Action.CONFLICT, path, f"differs from {home}; move your edit there, or --force"
            )
            return False
    for path, _ in walk(draft.tree, link):
        draft.delete(path, "a copy; the link takes its place")
        draft.hold(path, None)
    return True


def _lay_copy(draft: Draft, use: SkillUse, *, force: bool) -> None:
    link, home, owner = f"{LINKS_ROOT}/{use.name}", f"{SKILLS_ROOT}/{use.name}", f"skill:{use.name}"
    side = draft.side(link)
    if side is not None and side.kind is not Kind.FOLDER:
        draft.delete(link, "a copy takes its place")
    draft.hold(link, None)
    planned = draft.planned()
    for path, entry in walk(planned, home):
        if entry.kind is Kind.GITLINK:
            continue
        target = link + path[len(home) :]
        file = Rendered(entry.kind, planned.read(path, limit=MAX_FILE_BYTES), owner)
        there = draft.side(target)
        if there == Side.of(file):
            draft.hold(target, file)
        elif there is None or force or _is_held(draft, target, there):
            draft.write(target, file, "copied for clones without symlinks")
            draft.hold(target, file)
        else:
            draft.step(Action.CONFLICT, target, "edited here; --force replaces it")


def _is_held(draft: Draft, path: str, side: Side) -> bool:
    locked = draft.locked.get(path)
    return locked is not None and Side.of(locked) == side


__all__ = [
    "SkillState",
    "list_skills",
    "plan_install",
    "plan_repair",
    "plan_uninstall",
    "plan_upgrade",
]
