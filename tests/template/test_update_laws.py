"""Laws of an update over any template, any edit and any new template."""

from __future__ import annotations

from zlib import crc32

from hypothesis import HealthCheck, given, settings

from gitsync.template.catalogue import Catalogue, SourceFile
from gitsync.template.files import EmptyTree, OverlayTree, walk
from gitsync.template.lock import LOCK_PATH
from gitsync.template.parameters import Parameters
from gitsync.template.selection import Selection
from gitsync.template.starter import plan_workspace
from gitsync.template.threeway import OnConflict
from gitsync.template.update import plan_update
from gitsync.tree import Kind
from tests.template.test_files import FILES, consistent


def catalogue(files, version: str) -> Catalogue:
    """A template of plain files; links become files, since theirs would have to lead somewhere."""
    sources = {
        p: SourceFile(Kind.FILE if k is Kind.LINK else k, d, False) for p, (k, d) in files.items()
    }
    return Catalogue("t", version, "", Parameters(), ("**",), (), {}, sources, {}, {})


def contents(tree) -> dict:
    return {p: (e.kind, tree.read(p, limit=10**6)) for p, e in walk(tree, "")}


def fits(files) -> dict:
    """No two names that differ only in case: such a tree is refused, and not what this is about."""
    seen: set[str] = set()
    out = {}
    for path, file in consistent(files).items():
        parts = path.split("/")
        heads = {"/".join(parts[:n]) for n in range(1, len(parts) + 1)}
        folded = {s.lower() for s in seen}
        if all(head in seen or head.lower() not in folded for head in heads):
            seen |= heads
            out[path] = file
    return out


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(FILES, FILES, FILES)
def test_no_edit_is_lost_and_no_deletion_undone(before, edits, after):
    old, new = catalogue(fits(before), "1"), catalogue(fits(after), "2")
    first = plan_workspace(EmptyTree(), old, Selection(workspace={}))
    given_files = dict(first.changes)
    # The user deletes a third of it, and writes the edits over the rest.
    mine = {p: f for p, f in given_files.items() if crc32(p.encode()) % 3 or p == LOCK_PATH}
    for path, file in fits(edits).items():
        below = [p for p in mine if p.startswith(f"{path}/")]
        above = [p for p in mine if path.startswith(f"{p}/")]
        if LOCK_PATH in (*below, *above):
            continue
        for gone in (*below, *above):
            del mine[gone]
        mine[path] = file
    tree = OverlayTree(EmptyTree(), mine)
    assert contents(tree) == mine

    plan = plan_update(tree, new)
    result = contents(plan.overlay(tree))
    template = {p: (s.kind, s.data) for p, s in new.files.items()}
    for path, file in mine.items():
        if path == LOCK_PATH:
            continue
        untouched = given_files.get(path) == file
        if not untouched:
            assert result.get(path) == file, f"the edit of {path} is lost"
        elif path in template:
            assert result[path] in (template[path], file)
    for path in given_files:
        if path not in mine and path in result:
            assert result[path] != template.get(path), "a deletion was undone"
    for path, file in result.items():
        assert path == LOCK_PATH or file in (mine.get(path), template.get(path))
    settled = {p for p in template if p not in mine and p not in given_files}
    taken = {c.path for c in plan.conflicts}
    assert all(result.get(p) == template[p] for p in settled - taken)

    again = plan_update(plan.overlay(tree), new)
    assert again.changes == {}, [s.to_json() for s in again.steps]
    assert {c.path for c in again.conflicts} == taken
    beside = plan_update(tree, new, on_conflict=OnConflict.BESIDE)
    kept = contents(beside.overlay(tree))
    assert all(kept.get(p) == f for p, f in mine.items() if given_files.get(p) != f)
