"""Applying a starter: conflict and force as the CLI means them, without its six weak spots."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitsync.template.catalogue import builtin
from gitsync.template.disk import DiskTree
from gitsync.template.files import EmptyTree
from gitsync.template.journal import apply_plan
from gitsync.template.lock import LOCK_PATH, read_lock
from gitsync.template.plan import Action
from gitsync.template.selection import use_starter
from gitsync.template.starter import plan_starter
from tests.template.builders import put, snapshot

CATALOGUE = builtin()
NAME = "minimal-local"


def plan(root: Path, *, force=False, name=NAME, rollout=None, **parameters):
    use = use_starter(CATALOGUE, name, parameters, rollout=rollout)
    return plan_starter(DiskTree(root), CATALOGUE, use, force=force)


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    root.mkdir()
    return root


def blocked(root: Path, **kwargs) -> dict[str, str]:
    """Plan, check that it does nothing, and give the conflicts."""
    before = snapshot(root)
    made = plan(root, **kwargs)
    assert made.is_blocked and made.changes == {}
    apply_plan(root, made)
    assert snapshot(root) == before
    return {s.path: s.reason for s in made.conflicts}


def test_a_fresh_apply_writes_rollout_configs_data_and_lock(ws):
    made = plan(ws)
    assert {s.action for s in made.steps} == {Action.CREATE}
    apply_plan(ws, made)
    assert set(snapshot(ws)) == {
        LOCK_PATH,
        "configs/eval/minimal-local.toml",
        "configs/training/minimal-local.toml",
        "data/multiply.jsonl",
        "rollouts/minimal-local/README.md",
        "rollouts/minimal-local/main.py",
        "rollouts/minimal-local/pyproject.toml",
    }
    lock = read_lock(DiskTree(ws))
    assert [u.rollout for u in lock.selection.starters] == [NAME]
    assert set(lock.files) == set(snapshot(ws)) - {LOCK_PATH}


def test_one_starter_under_two_names(ws):
    apply_plan(ws, plan(ws, rollout="one"))
    apply_plan(ws, plan(ws, rollout="two", max_concurrent="3"))
    assert b"max_concurrent=3" in snapshot(ws)["rollouts/two/main.py"][1]
    assert b'name = "two"' in snapshot(ws)["rollouts/two/pyproject.toml"][1]
    assert len(read_lock(DiskTree(ws)).selection.starters) == 2


def test_existing_rollout_and_configs_are_conflicts(ws):
    apply_plan(ws, plan(ws))
    assert set(blocked(ws)) == {
        "rollouts/minimal-local",
        "configs/eval/minimal-local.toml",
        "configs/training/minimal-local.toml",
    }


def test_an_empty_rollout_folder_is_one_too(ws):
    put(ws, {"rollouts/minimal-local/notes.txt": "mine"})
    assert set(blocked(ws)) == {"rollouts/minimal-local"}


def test_shared_data_conflicts_only_if_it_differs(ws):
    apply_plan(ws, plan(ws, rollout="one"))
    made = plan(ws, rollout="two")
    assert not made.conflicts
    (ws / "data/multiply.jsonl").write_text("{}\n")
    assert set(blocked(ws, rollout="two")) == {"data/multiply.jsonl"}


def test_force_replaces_the_whole_folder_and_both_configs(ws):
    apply_plan(ws, plan(ws))
    fresh = snapshot(ws)
    put(ws, {"rollouts/minimal-local/extra/module.py": "x = 1\n"})
    (ws / "rollouts/minimal-local/main.py").write_text("broken")
    (ws / "configs/eval/minimal-local.toml").write_text("broken")
    made = plan(ws, force=True)
    actions = {s.path: s.action for s in made.steps}
    assert actions["rollouts/minimal-local/extra/module.py"] is Action.DELETE
    assert actions["configs/eval/minimal-local.toml"] is Action.REPLACE
    apply_plan(ws, made)
    assert snapshot(ws) == fresh


def test_force_leaves_ignored_files_alone(ws):
    apply_plan(ws, plan(ws))
    put(ws, {".gitignore": ".venv/\n*.egg-info/\n", "rollouts/minimal-local/.venv/pyvenv.cfg": "x"})
    apply_plan(ws, plan(ws, force=True))
    assert (ws / "rollouts/minimal-local/.venv/pyvenv.cfg").exists()


def test_force_judges_everything_before_it_deletes(ws):
    """Weak spot 1: with `data` being a file the old rollout must survive."""
    apply_plan(ws, plan(ws))
    (ws / "data/multiply.jsonl").unlink()
    (ws / "data").rmdir()
    (ws / "data").write_text("a plain file")
    assert blocked(ws, force=True) == {
        "data/multiply.jsonl": "data is a file where a folder belongs"
    }


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_where_a_config_belongs_is_a_conflict(ws, force):
    """Weak spot 2."""
    put(ws, {"configs/eval/minimal-local.toml/inside": "x"})
    reasons = blocked(ws, force=force)
    assert "a folder with" in reasons["configs/eval/minimal-local.toml"]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "path",
    [
        "configs/eval/minimal-local.toml",
        "configs/training/minimal-local.toml",
        "data/multiply.jsonl",
    ],
)
def test_a_link_is_never_written_through(ws, path, force):
    """Weak spot 3: it overwrote AGENTS.md."""
    put(ws, {"AGENTS.md": "precious\n", path: ("link", "../" * path.count("/") + "AGENTS.md")})
    assert "link" in blocked(ws, force=force)[path]
    assert (ws / "AGENTS.md").read_text() == "precious\n"


def test_force_keeps_shared_data_that_was_edited(ws):
    """Weak spot 6."""
    apply_plan(ws, plan(ws))
    (ws / "data/multiply.jsonl").write_text("my rows\n")
    apply_plan(ws, plan(ws, force=True))
    assert (ws / "data/multiply.jsonl").read_text() == "my rows\n"


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "path", ["rollouts", "configs", "configs/eval", "data", "rollouts/minimal-local", ".osmosis"]
)
@pytest.mark.parametrize("kind", ["direct", "chained", "dangling", "file"])
def test_links_and_files_in_the_way_of_folders(ws, tmp_path, path, force, kind):
    outside = put(tmp_path / "outside", {"keep": "x"})
    put(ws, {f"{path}.aside": "x"})
    if kind == "file":
        (ws / path).write_text("a file")
    elif kind == "chained":
        os.symlink(outside, ws / "hop")
        os.symlink(ws / "hop", ws / path)
    else:
        os.symlink(outside if kind == "direct" else "/nowhere/at/all", ws / path)
    assert blocked(ws, force=force)
    assert snapshot(outside) == {"keep": ("100644", b"x")}


def test_a_submodule_in_the_folder_is_a_conflict(ws):
    put(ws, {"rollouts/minimal-local/sub/.git": "gitdir: x"})
    assert "submodule" in blocked(ws, force=True)["rollouts/minimal-local/sub"]


@pytest.mark.parametrize(
    "path", ["Rollouts/x", "rollouts/Minimal-Local/x", "configs/EVAL/x", "DATA/x"]
)
def test_names_that_differ_only_in_case_are_a_conflict(ws, path):
    put(ws, {path: "x"})
    assert any("case" in reason for reason in blocked(ws).values())


def test_hidden_paths_are_reported(ws):
    put(ws, {".gitignore": "data/\n.osmosis/\n"})
    made = plan(ws)
    assert any(n.startswith("data/multiply.jsonl is hidden") for n in made.notes)
    assert any(n.startswith(LOCK_PATH) for n in made.notes)
    assert len(made.notes) == 2


def test_a_damaged_lock_stops_everything(ws):
    from gitsync.errors import InvalidInput

    for text in [
        "x = [",
        "schema = 2",
        "schema = 1\ntemplate = 'x'\nversion = '1'\n[files]\n'../x' = {owner='workspace'}",
    ]:
        put(ws, {LOCK_PATH: text})
        with pytest.raises(InvalidInput, match=r"template\.lock\.toml"):
            plan(ws)
        (ws / LOCK_PATH).unlink()


def test_all_starters_fit_into_one_workspace():
    from gitsync.template import select_workspace
    from gitsync.template.starter import plan_workspace

    selection = select_workspace(CATALOGUE, list(CATALOGUE.starters), list(CATALOGUE.skills))
    made = plan_workspace(EmptyTree(), CATALOGUE, selection)
    assert not made.conflicts and not made.notes


def test_adopting_replaces_nothing(ws):
    from gitsync.template import select_workspace
    from gitsync.template.starter import plan_workspace
    from gitsync.template.update import plan_update

    mine = {
        "AGENTS.md": "my own rules\n",
        "README.md": "my project\n",
        "configs": "a file where a folder belongs\n",
        "src/app.py": "x = 1\n",
        ".gitignore": "*.log\n",
    }
    put(ws, mine)
    made = plan_workspace(DiskTree(ws), CATALOGUE, select_workspace(CATALOGUE, [], None))
    apply_plan(ws, made)
    after = snapshot(ws)
    assert all(after[p] == ("100644", t.encode()) for p, t in mine.items())
    assert "CLAUDE.md" in after and ".claude/skills/plan-training" in after
    again = plan_update(DiskTree(ws), CATALOGUE)
    assert not again.conflicts and again.changes == {}
