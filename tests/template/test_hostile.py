"""Workspaces made to harm: whatever they hold, nothing outside is read or written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitsync.errors import GitSyncError, InvalidInput
from gitsync.template import select_workspace
from gitsync.template.catalogue import builtin
from gitsync.template.disk import DiskTree
from gitsync.template.files import blob_id
from gitsync.template.journal import apply_plan
from gitsync.template.lock import LOCK_PATH, parse_lock
from gitsync.template.selection import SkillMode
from gitsync.template.skills import list_skills, plan_repair, plan_uninstall, plan_upgrade
from gitsync.template.starter import plan_workspace
from gitsync.template.update import plan_update
from tests.template.builders import put, snapshot

CATALOGUE = builtin()


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    root.mkdir()
    selection = select_workspace(CATALOGUE, ["minimal-local"], None)
    apply_plan(root, plan_workspace(DiskTree(root), CATALOGUE, selection))
    return root


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return put(tmp_path / "outside", {"secret": "s3cret\n", "SKILL.md": "outside\n", "eval/x": "y"})


def operations(root: Path):
    tree = DiskTree(root)
    yield lambda: plan_update(tree, CATALOGUE)
    yield lambda: plan_update(
        tree, CATALOGUE, parameters={"dataset": "other"}, rollout="minimal-local"
    )
    yield lambda: plan_upgrade(tree, CATALOGUE)
    yield lambda: plan_repair(tree, CATALOGUE, mode=SkillMode.COPY, force=True)
    yield lambda: plan_repair(tree, CATALOGUE, mode=SkillMode.LINK, force=True)
    yield lambda: plan_uninstall(tree, CATALOGUE, ["plan-training"], force=True)


def lock_with(root: Path, path: str, owner: str, data: bytes) -> None:
    text = (root / LOCK_PATH).read_text()
    line = f'"{path}" = {{ owner = "{owner}", mode = "100644", blob = "{blob_id(data)}" }}\n'
    (root / LOCK_PATH).write_text(text + line)


@pytest.mark.parametrize("owner", ["workspace", "skill:plan-training", "starter:minimal-local"])
def test_a_lock_that_lists_files_behind_a_link_deletes_nothing_there(ws, outside, owner):
    """The blob in the lock is right, so the file would count as untouched and no longer wanted."""
    os.symlink(outside, ws / "hop")
    lock_with(ws, "hop/secret", owner, b"s3cret\n")
    before = snapshot(outside)
    for make in operations(ws):
        plan = make()
        assert "hop/secret" not in plan.changes
        apply_plan(ws, plan)
    assert snapshot(outside) == before


@pytest.mark.parametrize(
    "where",
    [
        ".agents",
        ".agents/skills",
        ".agents/skills/plan-training",
        ".claude",
        ".claude/skills",
        "configs",
        "configs/eval",
        "rollouts",
        "data",
        ".osmosis",
    ],
)
def test_folders_that_became_links_to_the_outside(ws, outside, where):
    os.rename(ws / where, ws / "aside")
    os.symlink(outside, ws / where)
    before = snapshot(outside)
    for make in operations(ws):
        try:
            plan = make()
            apply_plan(ws, plan)
        except GitSyncError:
            continue
    list_skills(DiskTree(ws), CATALOGUE)
    assert snapshot(outside) == before


def test_a_lock_that_is_a_link_is_refused(ws, outside):
    os.rename(ws / LOCK_PATH, outside / "lock")
    os.symlink(outside / "lock", ws / LOCK_PATH)
    with pytest.raises(InvalidInput, match="no regular file"):
        plan_update(DiskTree(ws), CATALOGUE)


HEAD = 'schema = 1\ntemplate = "workspace"\nversion = "1.0.0"\n'
LINE = '{ owner = "workspace", mode = "100644", blob = "' + "0" * 40 + '" }'


@pytest.mark.parametrize(
    "text",
    [
        f'{HEAD}[files]\n"../x" = {LINE}',
        f'{HEAD}[files]\n"/etc/passwd" = {LINE}',
        f'{HEAD}[files]\n".git/config" = {LINE}',
        f'{HEAD}[files]\n"a/.GIT/hooks/x" = {LINE}',
        f'{HEAD}[files]\n"a\\nb" = {LINE}',
        f'{HEAD}[files]\n"a" = {LINE.replace("100644", "160000")}',
        f'{HEAD}[files]\n"a" = {LINE.replace("workspace", "root")}',
        f'{HEAD}[files]\n"a" = 1',
        f"{HEAD}files = 1",
        f'{HEAD}[starters."../x"]\nstarter = "minimal-local"',
        f'{HEAD}[starters.x]\nstarter = "../../etc"',
        f'{HEAD}[starters.x]\nstarter = "minimal-local"\nparameters = {{ a = [1] }}',
        f"{HEAD}[starters.x]\nstarter = 1",
        f'{HEAD}[skills."../x"]\nmode = "link"',
        f'{HEAD}[skills.x]\nmode = "hardlink"',
        f"{HEAD}[skills]\nx = 1",
        f"{HEAD}skills = []",
        f"{HEAD}workspace = 1",
        'schema = 1\ntemplate = "x"\nversion = "1; rm -rf"',
        "schema = 1",
        "a" + ".a" * 60_000 + " = 1",
        "x = " + "[" * 100_000,
        "\x00",
        "é".encode("latin-1").decode("latin-1") + "\udcff",
        "#" * 600_000,
    ],
    ids=range(25),
)
def test_damaged_and_hostile_locks_are_refused_with_one_sentence(text):
    with pytest.raises(InvalidInput, match=r"template\.lock\.toml"):
        parse_lock(text.encode("utf-8", "surrogateescape"))


def test_parameters_of_a_hostile_lock_are_checked_again(ws):
    text = (ws / LOCK_PATH).read_text()
    evil = text.replace('dataset = "multiply"', 'dataset = "x\\"\\n[env]\\nA = \\"b"')
    (ws / LOCK_PATH).write_text(evil)
    plan = plan_update(DiskTree(ws), CATALOGUE)
    assert any("went back to its default" in note for note in plan.notes)
    assert all(
        b"[env]" not in (d or b"").replace(b"# [env]", b"") for _, d in plan.changes.values()
    )


@pytest.mark.parametrize(
    "config",
    [
        "[experiment",
        "[experiment]\n" + "a" + ".b" * 60_000 + " = 1\n",
        "experiment = 1\n",
        "\x00",
        "[experiment]\ndataset = 1\n[experiment]\n",
    ],
)
def test_a_broken_config_is_a_conflict_and_stays(ws, config):
    path = ws / "configs/eval/minimal-local.toml"
    path.write_text(config)
    plan = plan_update(
        DiskTree(ws), CATALOGUE, parameters={"dataset": "other"}, rollout="minimal-local"
    )
    assert [c.path for c in plan.conflicts] == ["configs/eval/minimal-local.toml"]
    apply_plan(ws, plan)
    assert path.read_text() == config


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"overwriteManaged": 1}', '{"additive": [1]}', "[" * 100_000, "\udcff"]
)
def test_a_broken_template_json_means_the_defaults(ws, text):
    (ws / ".osmosis/template.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert not plan_update(DiskTree(ws), CATALOGUE).conflicts


def test_huge_files_in_the_way_are_not_read_into_memory(ws):
    import tracemalloc

    big = ws / "README.md"
    big.unlink()
    with big.open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    tracemalloc.start()
    plan_update(DiskTree(ws), CATALOGUE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30 * 2**20
