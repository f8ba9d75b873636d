"""Skills in a workspace: only what the lock lists is ever touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitsync.errors import NotFound
from gitsync.template import select_workspace
from gitsync.template.agents import find_table
from gitsync.template.catalogue import Catalogue, builtin, load_catalogue
from gitsync.template.disk import DiskTree
from gitsync.template.files import blob_id
from gitsync.template.journal import apply_plan
from gitsync.template.lock import read_lock
from gitsync.template.plan import Action, Plan
from gitsync.template.selection import SkillMode
from gitsync.template.skills import (
    list_skills,
    plan_install,
    plan_repair,
    plan_uninstall,
    plan_upgrade,
)
from gitsync.template.starter import plan_workspace
from gitsync.template.update import plan_update
from tests.template.builders import put, small_template, snapshot

CATALOGUE = builtin()
HOME, LINKS = ".agents/skills", ".claude/skills"


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """A whole workspace with the default skills and one of the user's own."""
    root = tmp_path / "ws"
    root.mkdir()
    selection = select_workspace(CATALOGUE, ["minimal-local"], None)
    apply_plan(root, plan_workspace(DiskTree(root), CATALOGUE, selection))
    put(root, {f"{HOME}/mine/SKILL.md": "---\nname: mine\n---\n"})
    return root


def do(root: Path, plan: Plan) -> Plan:
    apply_plan(root, plan)
    return plan


def tree(root: Path) -> DiskTree:
    return DiskTree(root)


def table(root: Path) -> str:
    return find_table((root / "AGENTS.md").read_bytes()) or ""


def under(root: Path, *names: str) -> dict[str, tuple[str, bytes]]:
    return {
        p: f for p, f in snapshot(root).items() if p.split("/")[2:3] and p.split("/")[2] in names
    }


def test_install_adds_folder_exact_link_and_table_line(ws):
    do(ws, plan_install(tree(ws), CATALOGUE, ["plan-eval"]))
    assert snapshot(ws)[f"{LINKS}/plan-eval"] == ("120000", b"../../.agents/skills/plan-eval")
    assert (ws / LINKS / "plan-eval/SKILL.md").read_text().startswith("---")
    assert "`plan-eval`" in table(ws)
    assert [s.name for s in read_lock(tree(ws)).selection.skills].count("plan-eval") == 1
    assert do(ws, plan_install(tree(ws), CATALOGUE, ["plan-eval"])).changes == {}


def test_install_then_uninstall_gives_the_same_bytes(ws):
    before = snapshot(ws)
    do(ws, plan_install(tree(ws), CATALOGUE, ["plan-eval", "submit-eval"]))
    do(ws, plan_uninstall(tree(ws), CATALOGUE, ["plan-eval", "submit-eval"]))
    assert snapshot(ws) == before


def test_the_table_follows_in_an_edited_agents_file_too(ws):
    put(ws, {"AGENTS.md": (ws / "AGENTS.md").read_text().replace("# Rules", "# My rules")})
    do(ws, plan_install(tree(ws), CATALOGUE, ["plan-eval"]))
    text = (ws / "AGENTS.md").read_text()
    assert "# My rules" in text and "`plan-eval`" in table(ws)


def test_an_update_after_install_and_edit_has_no_conflict(ws):
    blobs = {blob_id(d): d for p, (_, d) in snapshot(ws).items()}
    put(ws, {"AGENTS.md": (ws / "AGENTS.md").read_text().replace("# Rules", "# My rules")})
    do(ws, plan_install(tree(ws), CATALOGUE, ["plan-eval"], read_blob=blobs.get))
    plan = plan_update(tree(ws), CATALOGUE)
    assert not plan.conflicts and plan.changes == {}


def test_without_markers_the_agents_file_is_left_alone(ws):
    put(ws, {"AGENTS.md": "my own\n"})
    plan = do(ws, plan_install(tree(ws), CATALOGUE, ["plan-eval"]))
    assert (ws / "AGENTS.md").read_text() == "my own\n"
    assert any("no table" in note for note in plan.notes)


def test_a_skill_of_your_own_is_never_touched(ws):
    own = {f"{HOME}/plan-eval/SKILL.md": "my own skill of that name\n"}
    put(ws, own)
    before = snapshot(ws)
    plan = plan_install(tree(ws), CATALOGUE, ["plan-eval"])
    assert plan.is_blocked
    apply_plan(ws, plan)
    with pytest.raises(NotFound, match="not installed by gitsync"):
        plan_uninstall(tree(ws), CATALOGUE, ["mine"], force=True)
    with pytest.raises(NotFound):
        plan_upgrade(tree(ws), CATALOGUE, ["plan-eval"])
    for plan in (
        plan_upgrade(tree(ws), CATALOGUE),
        plan_repair(tree(ws), CATALOGUE, mode=SkillMode.COPY, force=True),
        plan_uninstall(tree(ws), CATALOGUE, ["plan-training"], force=True),
    ):
        assert not [p for p in plan.changes if "/mine" in p or "/plan-eval" in p]
    assert snapshot(ws) == before


def test_uninstall_keeps_edits_unless_forced_and_foreign_files_always(ws):
    put(
        ws,
        {f"{HOME}/plan-training/SKILL.md": "edited\n", f"{HOME}/plan-training/notes.md": "mine\n"},
    )
    plan = plan_uninstall(tree(ws), CATALOGUE, ["plan-training"])
    assert plan.is_blocked and [c.path for c in plan.conflicts] == [
        f"{HOME}/plan-training/SKILL.md"
    ]
    do(ws, plan_uninstall(tree(ws), CATALOGUE, ["plan-training"], force=True))
    assert under(ws, "plan-training") == {f"{HOME}/plan-training/notes.md": ("100644", b"mine\n")}
    assert "plan-training" not in table(ws)


def skills(root: Path, version: str, **texts: str) -> Catalogue:
    rows = "".join(f'[skills.{n}]\nuse_when = "of {n}"\n' for n in texts)
    put(
        root / "s",
        {"skills.toml": f"schema = 1\n{rows}", **{f"{n}/SKILL.md": t for n, t in texts.items()}},
    )
    return load_catalogue(small_template(root / "t", version=version), root / "s")


def test_upgrade_is_three_way(tmp_path):
    old = skills(tmp_path / "1", "1", a="a1", b="b1", c="c1", d="d1")
    new = skills(tmp_path / "2", "2", a="a2", b="b2", c="c1", d="d2")
    root = tmp_path / "ws"
    root.mkdir()
    do(root, plan_install(tree(root), old, ["a", "b", "c", "d"]))
    put(root, {f"{HOME}/b/SKILL.md": "mine", f"{HOME}/c/SKILL.md": "mine"})
    (root / HOME / "d/SKILL.md").unlink()
    plan = do(root, plan_upgrade(tree(root), new))
    text = {n: (root / HOME / n / "SKILL.md").read_text() for n in "abc"}
    assert text == {"a": "a2", "b": "mine", "c": "mine"}
    assert [c.path for c in plan.conflicts] == [f"{HOME}/b/SKILL.md"]
    assert not (root / HOME / "d/SKILL.md").exists(), "a deletion stays"
    only = plan_upgrade(tree(root), new, ["a"])
    assert set(only.changes) <= {".osmosis/template.lock.toml"}


DAMAGE = {
    "newline": lambda link: relink(link, "../../.agents/skills/plan-training\n"),
    "dangling": lambda link: relink(link, "../nowhere"),
    "text": lambda link: retext(link, "../../.agents/skills/plan-training"),
    "text-newline": lambda link: retext(link, "../../.agents/skills/plan-training\n"),
    "missing": lambda link: link.unlink(),
    "copy": lambda link: recopy(link),
}


def relink(link: Path, text: str) -> None:
    link.unlink()
    os.symlink(text, link)


def retext(link: Path, text: str) -> None:
    link.unlink()
    link.write_text(text)


def recopy(link: Path) -> None:
    import shutil

    target = link.resolve()
    link.unlink()
    shutil.copytree(target, link)


@pytest.mark.parametrize("kind", DAMAGE)
def test_both_kinds_of_damage_are_seen_and_repaired(ws, kind):
    before = snapshot(ws)
    DAMAGE[kind](ws / LINKS / "plan-training")
    (state,) = [s for s in list_skills(tree(ws), CATALOGUE) if s.name == "plan-training"]
    assert state.damage
    plan = do(ws, plan_repair(tree(ws), CATALOGUE))
    assert not plan.conflicts
    assert snapshot(ws) == before
    assert plan_repair(tree(ws), CATALOGUE).changes == {}


def test_an_edited_copy_is_not_thrown_away(ws):
    recopy(ws / LINKS / "plan-training")
    put(ws, {f"{LINKS}/plan-training/SKILL.md": "edited in the copy\n"})
    plan = do(ws, plan_repair(tree(ws), CATALOGUE))
    assert [c.path for c in plan.conflicts] == [f"{LINKS}/plan-training/SKILL.md"]
    assert (ws / LINKS / "plan-training/SKILL.md").read_text() == "edited in the copy\n"
    do(ws, plan_repair(tree(ws), CATALOGUE, force=True))
    assert (ws / LINKS / "plan-training").is_symlink()


def test_something_else_at_the_link_is_not_replaced(ws):
    retext(ws / LINKS / "plan-training", "notes of mine\n")
    plan = do(ws, plan_repair(tree(ws), CATALOGUE))
    assert plan.conflicts and (ws / LINKS / "plan-training").read_text() == "notes of mine\n"


def test_copy_mode_and_back(ws):
    before = snapshot(ws)
    do(ws, plan_repair(tree(ws), CATALOGUE, mode=SkillMode.COPY))
    copies = {p: f for p, f in snapshot(ws).items() if p.startswith(LINKS)}
    homes = {
        p.replace(HOME, LINKS): f
        for p, f in snapshot(ws).items()
        if p.startswith(HOME) and "/mine/" not in p
    }
    assert copies == homes
    assert not any(s.damage for s in list_skills(tree(ws), CATALOGUE) if s.is_installed)
    assert plan_update(tree(ws), CATALOGUE).changes == {}
    do(ws, plan_repair(tree(ws), CATALOGUE, mode=SkillMode.LINK))
    assert snapshot(ws) == before


def test_install_as_copies_and_uninstall(ws):
    before = snapshot(ws)
    do(ws, plan_install(tree(ws), CATALOGUE, ["plan-eval"], mode=SkillMode.COPY))
    assert not (ws / LINKS / "plan-eval").is_symlink()
    assert (ws / LINKS / "plan-eval/SKILL.md").exists()
    do(ws, plan_uninstall(tree(ws), CATALOGUE, ["plan-eval"]))
    assert snapshot(ws) == before


def test_install_switches_an_installed_skill_to_copies(ws):
    plan = do(ws, plan_install(tree(ws), CATALOGUE, ["plan-training"], mode=SkillMode.COPY))
    assert not plan.conflicts
    assert (ws / LINKS / "plan-training").is_dir() and not (
        ws / LINKS / "plan-training"
    ).is_symlink()


@pytest.mark.parametrize("where", [".claude", ".claude/skills", ".agents", ".agents/skills"])
def test_whole_folders_as_links_are_a_conflict(tmp_path, where):
    root = put(tmp_path / "ws", {f"{where}.x": "x"})
    outside = put(tmp_path / "outside", {"keep": "x"})
    os.symlink(outside, root / where)
    plan = plan_install(tree(root), CATALOGUE, ["plan-training"])
    assert plan.is_blocked
    assert snapshot(outside) == {"keep": ("100644", b"x")}


def test_states_tell_everything(ws):
    put(ws, {f"{HOME}/plan-training/SKILL.md": "edited\n"})
    states = {s.name: s for s in list_skills(tree(ws), CATALOGUE)}
    assert states["plan-training"].edited and states["plan-training"].is_installed
    assert not states["mine"].is_installed and not states["mine"].is_known
    assert states["plan-eval"].is_known and not states["plan-eval"].is_installed


def test_installing_twice_the_same_bytes_adopts_them(ws, tmp_path):
    """A skill that somebody copied by hand, byte for byte, is adopted by the install."""
    skill = CATALOGUE.skill("plan-eval")
    put(ws, {f"{HOME}/plan-eval/{p}": f.data for p, f in skill.files.items()})
    plan = do(ws, plan_install(tree(ws), CATALOGUE, ["plan-eval"]))
    actions = {s.path: s.action for s in plan.steps}
    assert actions[f"{HOME}/plan-eval/SKILL.md"] is Action.SKIP
    assert f"{HOME}/plan-eval/SKILL.md" in read_lock(tree(ws)).files


def test_missing_files_of_a_skill_are_brought_back(ws):
    before = snapshot(ws)
    (ws / HOME / "create-rollouts/references/entrypoints.md").unlink()
    (ws / HOME / "plan-training/SKILL.md").unlink()
    states = {s.name: s for s in list_skills(tree(ws), CATALOGUE)}
    assert states["create-rollouts"].missing and states["plan-training"].missing
    do(ws, plan_repair(tree(ws), CATALOGUE))
    assert snapshot(ws) == before


def test_a_whole_skill_that_was_deleted_comes_back_as_copies_too(ws):
    import shutil

    shutil.rmtree(ws / HOME / "plan-training")
    do(ws, plan_repair(tree(ws), CATALOGUE, mode=SkillMode.COPY))
    assert (ws / LINKS / "plan-training/SKILL.md").read_bytes() == (
        ws / HOME / "plan-training/SKILL.md"
    ).read_bytes()
