"""Bringing a workspace to the present template, or to other parameters.

Promise: `plan_update` looks at the lock, the tree and the catalogue only. Files and lock change
together; a conflict keeps the user's file and does not stop the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from gitsync.errors import GitSyncError, InvalidInput, NotFound
from gitsync.template.catalogue import Catalogue
from gitsync.template.lock import LOCK_PATH, Lock, read_lock
from gitsync.template.plan import Action, Draft, Plan
from gitsync.template.selection import (
    Rendered,
    Selection,
    StarterUse,
    render,
)
from gitsync.template.threeway import OnConflict, ReadBlob, ThreeWay
from gitsync.text import printable
from gitsync.tree import Tree


def plan_update(
    tree: Tree,
    catalogue: Catalogue,
    *,
    parameters: Mapping[str, object] | None = None,
    rollout: str | None = None,
    restore: Collection[str] = (),
    on_conflict: OnConflict = OnConflict.REPORT,
    read_blob: ReadBlob | None = None,
) -> Plan:
    """What an update would do; `parameters` belong to `rollout`, or to the workspace if None."""
    lock = read_lock(tree)
    if lock == Lock():
        raise NotFound(
            f"There is no {LOCK_PATH}: nothing here came from a template of gitsync. "
            "`gitsync template adopt` begins to keep one."
        )
    draft = Draft(tree, lock)
    selection = _with_parameters(lock.selection, catalogue, parameters or {}, rollout)
    selection = _known_parts(selection, catalogue, draft)
    wanted = render(catalogue, selection)
    unknown = [path for path in restore if path not in wanted]
    if unknown:
        raise NotFound(f"The template has no '{printable(unknown[0])}' to restore.")
    three = ThreeWay(
        draft,
        wanted,
        catalogue,
        base_files=_base_files(lock.selection, catalogue),
        read_blob=read_blob,
        on_conflict=on_conflict,
        restore=restore,
    )
    done: set[str] = set()
    for old, new in _renames(catalogue, selection).items():
        if three.rename(old, new):
            done |= {old, new}
    decided = [p for p in {*draft.locked, *wanted} if p not in done and p != LOCK_PATH]
    # What goes makes room for what comes: a file may become a folder and the reverse.
    for path in sorted(decided, key=lambda p: (p in wanted, p)):
        three.decide(path)
    after = Lock(catalogue.name, catalogue.version, selection, draft.locked)
    versions = f"{lock.version} to {catalogue.version}"
    return draft.finish(f"Update the template from {versions}", after, all_or_nothing=False)


def _with_parameters(
    selection: Selection, catalogue: Catalogue, given: Mapping[str, object], rollout: str | None
) -> Selection:
    """The selection with changed parameters; values are checked when it is rendered."""
    if not given and rollout is None:
        return selection
    if rollout is None:
        if selection.workspace is None:
            raise InvalidInput("Say with --rollout whose parameters these are.", field="rollout")
        values = catalogue.parameters.resolve({**selection.workspace, **given})
        return replace(selection, workspace=values)
    for use in selection.starters:
        if use.rollout == rollout:
            starter = catalogue.starter(use.starter)
            known = {p.name for p in starter.parameters.items}
            old = {name: value for name, value in use.parameters.items() if name in known}
            values = starter.parameters.resolve({**old, **given})
            return selection.with_starter(StarterUse(use.starter, use.rollout, values))
    raise NotFound(f"No rollout '{printable(rollout, limit=80)}' came from the template.")


def _known_parts(selection: Selection, catalogue: Catalogue, draft: Draft) -> Selection:
    """Drop what the catalogue no longer has: its files are removed if they are untouched.

    Parameters that are no longer declared fall away, those that became invalid go to the default.
    """
    starters = []
    for use in selection.starters:
        starter = catalogue.starters.get(use.starter)
        if starter is None:
            draft.note(f"The template has no starter {use.starter} any more; {use.rollout} stays.")
            _release(draft, f"starter:{use.rollout}")
            continue
        values = {}
        for parameter in starter.parameters.items:
            try:
                values[parameter.name] = parameter.check(
                    use.parameters.get(parameter.name, parameter.default)
                )
            except GitSyncError:
                values[parameter.name] = parameter.check(parameter.default)
                draft.note(f"{use.rollout}: parameter {parameter.name} went back to its default.")
        starters.append(StarterUse(use.starter, use.rollout, values))
    workspace = selection.workspace
    if workspace is not None:
        known = {p.name for p in catalogue.parameters.items}
        workspace = catalogue.parameters.resolve(
            {name: value for name, value in workspace.items() if name in known}
        )
    skills = tuple(s for s in selection.skills if s.name in catalogue.skills)
    return Selection(workspace, tuple(starters), skills)


def _release(draft: Draft, owner: str) -> None:
    """A rollout whose starter is gone belongs to the user from now on."""
    for path in [p for p, f in draft.locked.items() if f.owner == owner]:
        draft.hold(path, None)
        draft.step(Action.SKIP, path, "its starter is no longer part of the template")


def _base_files(selection: Selection, catalogue: Catalogue) -> dict[str, Rendered]:
    """The present template with the parameters of the lock: the base where versions are equal."""
    try:
        known = Selection(
            selection.workspace,
            tuple(s for s in selection.starters if s.starter in catalogue.starters),
            tuple(s for s in selection.skills if s.name in catalogue.skills),
        )
        return render(catalogue, known)
    except GitSyncError:
        return {}


def _renames(catalogue: Catalogue, selection: Selection) -> dict[str, str]:
    """Old path → new path, for the workspace's files and for each rollout."""
    out = dict(catalogue.renames)
    for use in selection.starters:
        starter = catalogue.starter(use.starter)
        for old, new in starter.renames.items():
            out[old.replace("{rollout}", use.rollout)] = new.replace("{rollout}", use.rollout)
    return out
