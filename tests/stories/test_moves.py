"""What a look means, as values."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gitsync.git.lsrefs import Tips
from gitsync.model import Sha
from gitsync.records import Branch, Workspace, WorkspaceState
from gitsync.sync.moves import Move, default_branch, picture

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B, C = (Sha(letter * 40) for letter in "abc")
MAIN, TRUNK, SIDE = "refs/heads/main", "refs/heads/trunk", "refs/heads/side/way"


def workspace(**more):
    values = dict(
        id="ws_1", name="n", identity="o/r", provider="generic", clone_url="http://x/y", root="",
        state=WorkspaceState.ACTIVE, watch="default", default_branch=MAIN, chosen_branch=None,
        settings={}, created_at=NOW, requested=1, done=0, owed_since=None, fence=1,
        not_before=None, hold=None, failures=0, lag_looks=0, suspect=None, last_look_at=None,
        last_error=None,
    )  # fmt: skip
    return Workspace(**(values | more))


def row(name, sha, state="live"):
    return Branch(name, sha, sha, state, None, NOW)


def tips(default=MAIN, **heads):
    named = {"main": MAIN, "trunk": TRUNK, "side": SIDE}
    found = {named.get(key, key): sha for key, sha in heads.items()}
    return Tips(default, found, unborn=default not in found)


def test_nothing_new_is_no_move():
    seen = picture(workspace(), tips(main=A), [row(MAIN, A)], most=10)
    assert seen.moves == () and seen.watched == {MAIN: A}


def test_a_new_tip_is_one_move():
    seen = picture(workspace(), tips(main=B), [row(MAIN, A)], most=10)
    assert seen.moves == (Move(MAIN, A, B),)


def test_a_renamed_default_branch_is_followed():
    seen = picture(workspace(), tips(TRUNK, trunk=B), [row(MAIN, A)], most=10)
    assert seen.default_branch == TRUNK
    assert seen.moves == (Move(TRUNK, None, B),)
    assert seen.unwatched == (MAIN,), "a narrow look cannot tell whether main is gone"


def test_a_look_at_everything_tells_gone_from_unwatched():
    rows = [row(MAIN, A), row(SIDE, B)]
    seen = picture(workspace(watch="all"), tips(main=A), rows, most=10)
    assert seen.moves == (Move(SIDE, B, None),) and seen.unwatched == ()
    embedded = workspace(provider="embedded")
    seen = picture(embedded, tips(main=A, side=B), rows, most=10)
    assert seen.moves == () and seen.unwatched == (SIDE,)


def test_a_deleted_default_branch_is_gone():
    seen = picture(workspace(), tips(), [row(MAIN, A)], most=10)
    assert seen.watched == {} and seen.moves == (Move(MAIN, A, None),)


def test_the_default_branch_comes_first_and_the_limit_holds():
    many = {f"refs/heads/b{n:03}": A for n in range(300)}
    seen = picture(workspace(watch="all"), tips(main=A, **many), [], most=200)
    assert next(iter(seen.watched)) == MAIN and len(seen.watched) == 200
    assert seen.too_many == 101


@pytest.mark.parametrize(
    ("more", "found", "expected"),
    [
        ({"chosen_branch": SIDE}, tips(main=A), SIDE),
        ({}, tips(TRUNK, main=A), TRUNK),
        ({"default_branch": TRUNK}, Tips(None, {TRUNK: A, MAIN: B}, False, A), TRUNK),
        ({"default_branch": None}, Tips(None, {SIDE: A, MAIN: B}, False, A), MAIN),
        ({"default_branch": None}, Tips(None, {SIDE: A}, False, A), SIDE),
        ({"default_branch": None}, Tips(None, {SIDE: A, TRUNK: B}, False, A), None),
    ],
)
def test_which_branch_is_the_default(more, found, expected):
    assert default_branch(workspace(**more), found) == expected


def test_a_branch_called_head_and_a_nested_name_are_only_themselves():
    odd = {"refs/heads/HEAD": B, "refs/heads/refs/heads/main": C}
    seen = picture(workspace(), tips(main=A, **odd), [], most=10)
    assert seen.watched == {MAIN: A}
