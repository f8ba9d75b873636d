"""What a worker process does with one operation on one commit: plan it, show it, check it.

Runs in the pool (see `gitsync.pool`) under an address-space limit and a deadline, since locks and
configs of a repository are parsed. Promise: reads the repository, writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gitsync.errors import GitSyncError
from gitsync.git.objects import CommitTree, ObjectStore, read_commit
from gitsync.model import CheckOptions, EntrypointReport, Finding, Report
from gitsync.template.catalogue import Catalogue, builtin
from gitsync.template.diff import file_patches
from gitsync.template.files import MAX_FILE_BYTES, EmptyTree, blob_id
from gitsync.template.lock import Lock, read_lock
from gitsync.template.operations import Operation
from gitsync.template.plan import Plan, side_of
from gitsync.template.selection import Selection, render
from gitsync.template.skills import list_skills
from gitsync.template.threeway import ReadBlob
from gitsync.tree import Kind, Tree


@dataclass(frozen=True, slots=True)
class Ask:
    """One operation on one commit; `sha` None: on a repository without any."""

    repo: str
    sha: str | None
    operation: Operation
    options: CheckOptions
    known: Mapping[str, tuple[EntrypointReport, ...]] = field(default_factory=dict)
    with_diffs: bool = False
    with_check: bool = True


@dataclass(frozen=True, slots=True)
class Planned:
    """The answer: the plan, its diffs if they were asked for, what the check says of the result."""

    plan: Plan
    diffs: tuple[tuple[str, bytes], ...]
    findings: tuple[Finding, ...]


def open_tree(repo: Path, sha: str | None) -> tuple[Tree, ReadBlob]:
    """The files of a commit, and the blobs of its repository."""
    if sha is None:
        return EmptyTree(), lambda _: None
    store = ObjectStore(repo)

    def read(oid: str) -> bytes | None:
        try:
            return store.read_blob(oid, limit=MAX_FILE_BYTES)
        except GitSyncError:
            return None

    return CommitTree(store, read_commit(repo, sha, store=store).tree), read


def plan_operation(ask: Ask) -> Planned:
    """Plan, and look at the tree as it would be."""
    tree, read_blob = open_tree(Path(ask.repo), ask.sha)
    plan = ask.operation.plan(tree, builtin(), read_blob)
    if plan.is_blocked:
        return Planned(plan, (), ())
    diffs = tuple(file_patches(tree, plan)) if ask.with_diffs else ()
    if not ask.with_check:
        return Planned(plan, diffs, ())
    report = review(tree, plan, options=ask.options, known=ask.known)
    return Planned(plan, diffs, all_findings(report))


def review(
    tree: Tree,
    plan: Plan,
    *,
    options: CheckOptions | None = None,
    known: Mapping[str, tuple[EntrypointReport, ...]] | None = None,
) -> Report:
    """What the check says of the tree as the plan would make it.

    `known` are stored assessments of the tree's rollouts, which hold for those the plan spares.
    """
    from gitsync.check import inspect  # half a second that only those who check need
    from gitsync.inspection import KnownReports

    return inspect(plan.overlay(tree), options=options, known=KnownReports(dict(known or {})))


def all_findings(report: Report) -> tuple[Finding, ...]:
    """Outer findings and those of the entrypoints, in one order."""
    inner = [f for r in report.rollouts for f in r.findings]
    return tuple(sorted((*report.findings, *inner), key=lambda f: f.order))


def edits(tree: Tree, catalogue: Catalogue) -> tuple[tuple[str, bytes], ...]:
    """What the user changed of the template's files: a patch per path from its version."""
    theirs, lock = _given(tree, catalogue)
    given = {p: f for p, f in theirs.items() if p in lock.files}
    mine: dict[str, tuple[Kind, bytes | None]] = {}
    for path, (kind, data) in given.items():
        side = side_of(tree, path)
        if side is None or not side.is_content:
            mine[path] = (kind, None)
        elif (side.kind, content := tree.read(path, limit=MAX_FILE_BYTES)) != (kind, data):
            mine[path] = (side.kind, content)
    base = Plan("", (), given).overlay(EmptyTree())
    return tuple(file_patches(base, Plan("", (), mine)))


def _given(tree: Tree, catalogue: Catalogue) -> tuple[dict[str, tuple[Kind, bytes]], Lock]:
    """The present template with the lock's parameters, as far as it still has the parts."""
    lock = read_lock(tree)
    known = Selection(
        lock.selection.workspace,
        tuple(s for s in lock.selection.starters if s.starter in catalogue.starters),
        tuple(s for s in lock.selection.skills if s.name in catalogue.skills),
    )
    return {path: file.file for path, file in render(catalogue, known).items()}, lock


def edits_of(repo: str, sha: str | None) -> tuple[tuple[str, bytes], ...]:
    """`edits` of a commit."""
    return edits(open_tree(Path(repo), sha)[0], builtin())


def skills_of(repo: str, sha: str | None) -> list[dict[str, Any]]:
    """Every skill that a commit has or could have, and what is wrong with it."""
    tree, _ = open_tree(Path(repo), sha)
    return [state.to_json() for state in list_skills(tree, builtin())]


def state_of(repo: str, sha: str | None) -> dict[str, Any]:
    """What of the template a commit holds: from the lock, compared with files and catalogue."""
    tree, _ = open_tree(Path(repo), sha)
    catalogue = builtin()
    theirs, lock = _given(tree, catalogue)
    edited, missing, outdated = [], [], []
    for path, locked in sorted(lock.files.items()):
        side = side_of(tree, path)
        if side is None:
            missing.append(path)
        elif (side.kind, side.blob) != (locked.kind, locked.blob):
            edited.append(path)
        new = theirs.get(path)
        if new is None or (new[0], blob_id(new[1])) != (locked.kind, locked.blob):
            outdated.append(path)
    outdated += sorted(p for p in theirs if p not in lock.files)
    return {
        "template": lock.template or None,
        "version": lock.version or None,
        "available_version": catalogue.version,
        "workspace": None if lock.selection.workspace is None else dict(lock.selection.workspace),
        "starters": [
            {
                "starter": use.starter,
                "rollout": use.rollout,
                "parameters": dict(use.parameters),
                "known": use.starter in catalogue.starters,
            }
            for use in lock.selection.starters
        ],
        "skills": [
            {"name": use.name, "mode": use.mode.value, "known": use.name in catalogue.skills}
            for use in lock.selection.skills
        ],
        "tracked": len(lock.files),
        "edited": edited,
        "missing": missing,
        "outdated": outdated,
    }
