"""One plan, three ways to carry it out: overlay, commit and checkout agree on every byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitsync.apply import commit_plan
from gitsync.git.objects import open_commit
from gitsync.model import Sha, Signature
from gitsync.template import select_workspace
from gitsync.template.catalogue import builtin
from gitsync.template.disk import DiskTree
from gitsync.template.files import EmptyTree, walk
from gitsync.template.journal import apply_plan
from gitsync.template.plan import Plan, side_of
from gitsync.template.selection import use_starter
from gitsync.template.starter import plan_starter, plan_workspace
from tests.template.builders import commit_all, git, put, repository, snapshot
from tests.template.test_files import FILES, consistent
from tests.template.test_journal import CHANGES, OLD, expected_new

AUTHOR = Signature("Robin Tester", "robin@example.com", 1_700_000_000)


def tree_of(root: Path, sha: str) -> dict[str, tuple[str, bytes]]:
    tree = open_commit(root / ".git", sha)
    return {p: (e.kind.value, tree.read(p, limit=10**7)) for p, e in walk(tree, "")}


def test_modes_links_deletions_and_changed_types_reach_the_commit(tmp_path: Path):
    root = put(repository(tmp_path / "ws"), OLD)
    base = Sha(commit_all(root))
    made = commit_plan(
        root / ".git", base=base, plan=Plan("", (), CHANGES), message="x", author=AUTHOR
    )
    assert tree_of(root, made) == expected_new()
    assert git(root, "rev-parse", f"{made}^").strip() == base
    git(root, "fsck", "--strict", "--no-dangling")


def test_a_first_commit_is_the_whole_workspace(tmp_path: Path):
    root = repository(tmp_path / "ws")
    selection = select_workspace(builtin(), list(builtin().starters), None)
    plan = plan_workspace(EmptyTree(), builtin(), selection)
    made = commit_plan(root / ".git", base=None, plan=plan, message="First", author=AUTHOR)
    assert tree_of(root, made) == {p: (k.value, d) for p, (k, d) in plan.changes.items()}


def test_planning_on_a_commit_is_planning_on_its_checkout(tmp_path: Path):
    root = repository(tmp_path / "ws")
    selection = select_workspace(builtin(), ["minimal-local"], None)
    apply_plan(root, plan_workspace(DiskTree(root), builtin(), selection))
    base = Sha(commit_all(root))
    use = use_starter(builtin(), "multiply-local-openai", rollout="chess")
    on_commit = plan_starter(open_commit(root / ".git", base), builtin(), use)
    on_disk = plan_starter(DiskTree(root), builtin(), use)
    assert on_commit == on_disk
    made = commit_plan(root / ".git", base=base, plan=on_commit, message="x", author=AUTHOR)
    apply_plan(root, on_disk)
    assert tree_of(root, made) == snapshot(root)
    assert git(root, "rev-parse", f"{made}^{{tree}}") == git(
        root, "rev-parse", f"{commit_all(root)}^{{tree}}"
    )


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(FILES, FILES, st.randoms())
def test_any_plan_gives_one_tree_in_all_three_places(tmp_path_factory, before, after, rng):
    tmp_path = tmp_path_factory.mktemp("p")
    before, after = consistent(before), consistent(after)
    root = repository(tmp_path / "ws")
    start = Plan("", (), dict(before), (), {})
    apply_plan(root, start)
    base = Sha(commit_all(root))
    changes = {p: (k, None) for p, (k, _) in before.items() if p not in after}
    changes |= {p: f for p, f in after.items() if before.get(p) != f}
    tree = DiskTree(root)
    plan = Plan("", (), changes, (), {p: side_of(tree, p) for p in changes})
    overlay = plan.overlay(tree)
    seen = {p: (e.kind.value, overlay.read(p, limit=100)) for p, e in walk(overlay, "")}
    made = commit_plan(root / ".git", base=base, plan=plan, message="x", author=AUTHOR)
    apply_plan(root, plan)
    assert (
        seen
        == tree_of(root, made)
        == {p: f for p, f in snapshot(root).items() if not p.endswith("/")}
    )
