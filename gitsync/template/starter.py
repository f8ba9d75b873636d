"""Adding a starter to a workspace: conflict and force as the `osmosis` command means them.

Promise: the target is judged completely before anything is decided, so a forced apply never
deletes first and fails later. Force replaces the rollout's folder and its two configs when they
are a folder and regular files; it never writes through a link, never replaces a folder by a file,
and never touches shared data that somebody edited.
"""

from __future__ import annotations

from gitsync.template.catalogue import Catalogue
from gitsync.template.files import walk
from gitsync.template.lock import Lock, read_lock
from gitsync.template.plan import Action, Draft, Plan, Side
from gitsync.template.selection import (
    Rendered,
    Selection,
    StarterUse,
    complete,
    render,
    render_starter,
)
from gitsync.tree import Kind, Tree


def plan_starter(tree: Tree, catalogue: Catalogue, use: StarterUse, *, force: bool = False) -> Plan:
    """What applying one starter would do; any conflict means that nothing is done."""
    draft = Draft(tree, read_lock(tree))
    wanted = render_starter(catalogue, use)
    owner = f"starter:{use.rollout}"
    for path in [p for p, f in draft.locked.items() if f.owner == owner and p not in wanted]:
        draft.hold(path, None)
    owned = catalogue.starter(use.starter).at(catalogue.starter(use.starter).owned, use.rollout)
    for folder in owned:
        _clear_owned(draft, folder, wanted, force=force)
    for path, file in wanted.items():
        is_inside = any(path.startswith(f"{folder}/") for folder in owned)
        if file.is_shared:
            _place_shared(draft, path, file, force=force)
        else:
            _place(draft, path, file, force=force, is_inside=is_inside)
    lock = Lock(
        template=draft.lock.template or catalogue.name,
        version=draft.lock.version or catalogue.version,
        selection=draft.lock.selection.with_starter(use),
        files=draft.locked,
    )
    summary = f"Apply {use.starter} as rollout {use.rollout}"
    return draft.finish(summary, lock, all_or_nothing=True)


def _clear_owned(draft: Draft, folder: str, wanted: dict[str, Rendered], *, force: bool) -> None:
    """The folder that belongs to the starter alone: it must be absent, or is replaced whole."""
    entry = draft.tree.entry(folder)
    if entry is None:
        return
    if entry.kind is not Kind.FOLDER:
        draft.step(Action.CONFLICT, folder, "only a folder can be replaced; move it away")
        return
    if not force:
        draft.step(Action.CONFLICT, folder, "the rollout exists; --force replaces it")
        return
    for path, old in walk(draft.tree, folder):
        if path in wanted:
            continue
        if old.kind is Kind.GITLINK:
            draft.step(Action.CONFLICT, path, "a submodule stands there")
        elif draft.is_ignored(path):
            draft.step(Action.SKIP, path, "ignored by Git, left where it is")
        else:
            draft.delete(path, "not part of the starter")


def _place(draft: Draft, path: str, file: Rendered, *, force: bool, is_inside: bool) -> None:
    obstacle = draft.obstacle(path)
    ours = draft.side(path)
    if obstacle:
        draft.step(Action.CONFLICT, path, obstacle)
    elif ours is None:
        draft.write(path, file, "new")
    elif ours.kind is Kind.LINK and not is_inside:
        draft.step(Action.CONFLICT, path, "a link stands there; it is not written through")
    elif ours == Side.of(file) and (force or is_inside):
        draft.step(Action.SKIP, path, "already as in the template")
    elif not force:
        if not is_inside:  # the folder's own conflict says it for what lies inside
            draft.step(Action.CONFLICT, path, "the file exists; --force replaces it")
    else:
        draft.write(path, file, "forced")
    draft.hold(path, file)


def _place_shared(draft: Draft, path: str, file: Rendered, *, force: bool) -> None:
    obstacle = draft.obstacle(path)
    ours = draft.side(path)
    if obstacle:
        draft.step(Action.CONFLICT, path, obstacle)
    elif ours is None:
        draft.write(path, file, "new, shared by starters")
        draft.hold(path, file)
    elif ours.kind is Kind.LINK:
        draft.step(Action.CONFLICT, path, "a link stands there; it is not written through")
    elif ours == Side.of(file):
        draft.step(Action.SKIP, path, "already as in the template")
        draft.hold(path, file)
    elif path in draft.locked and ours == Side.of(draft.locked[path]):
        draft.write(path, file, "untouched since an earlier version")
        draft.hold(path, file)
    elif force:
        draft.step(Action.SKIP, path, "edited here; shared data is never overwritten")
    else:
        draft.step(Action.CONFLICT, path, "differs from the template's; --force keeps yours")


def plan_workspace(tree: Tree, catalogue: Catalogue, selection: Selection) -> Plan:
    """A whole workspace or, on a tree that has files, what is missing of it.

    Nothing that exists is replaced. What differs enters the lock as an edit of the template's
    file, so that later updates keep it too.
    """
    draft = Draft(tree, read_lock(tree))
    selection = complete(catalogue, selection)
    for path, file in render(catalogue, selection).items():
        obstacle = draft.obstacle(path)
        ours = draft.side(path)
        draft.hold(path, file)
        if ours is not None and ours == Side.of(file):
            draft.step(Action.SKIP, path, "already as in the template")
        elif ours is not None or obstacle:
            draft.step(Action.SKIP, path, f"yours ({obstacle})" if obstacle else "yours, kept")
        else:
            draft.write(path, file, "new")
    for use in draft.lock.selection.starters:
        selection = selection.with_starter(use)
    for skill in draft.lock.selection.skills:
        selection = selection.with_skill(skill)
    lock = Lock(catalogue.name, catalogue.version, selection, draft.locked)
    return draft.finish("Lay out the workspace", lock, all_or_nothing=False)
