"""Updates: three ways per path, over every kind of change."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitsync.errors import NotFound
from gitsync.template.catalogue import load_catalogue
from gitsync.template.disk import DiskTree
from gitsync.template.files import EmptyTree, blob_id
from gitsync.template.journal import apply_plan
from gitsync.template.lock import LOCK_PATH, parse_lock, read_lock
from gitsync.template.plan import Action
from gitsync.template.selection import Selection, use_starter
from gitsync.template.starter import plan_workspace
from gitsync.template.threeway import OnConflict
from gitsync.template.update import plan_update
from tests.template.builders import put, small_template, snapshot


class Case:
    """A workspace from version 1 of the small template, and version 2 with changes."""

    def __init__(self, tmp_path: Path, **changes: object) -> None:
        self.old = load_catalogue(small_template(tmp_path / "v1", changes.pop("v1", None)))
        self.new = load_catalogue(
            small_template(tmp_path / "v2", changes.pop("v2", None), version="2")
        )
        self.root = tmp_path / "ws"
        self.root.mkdir()
        use = use_starter(self.old, "tiny", rollout="chess")
        self.first = plan_workspace(EmptyTree(), self.old, Selection(workspace={}, starters=(use,)))
        apply_plan(
            self.root,
            plan_workspace(DiskTree(self.root), self.old, Selection(workspace={}, starters=(use,))),
        )
        self.blobs = {blob_id(d): d for _, d in self.first.changes.values() if d is not None}

    def plan(self, **kwargs):
        kwargs.setdefault("read_blob", self.blobs.get)
        return plan_update(DiskTree(self.root), self.new, **kwargs)

    def update(self, **kwargs) -> dict[str, Action]:
        plan = self.plan(**kwargs)
        apply_plan(self.root, plan)
        return {s.path: s.action for s in plan.steps}

    def text(self, path: str) -> str:
        return (self.root / path).read_text()


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for child in path.iterdir():
            remove(child)
        path.rmdir()
    else:
        path.unlink()


def test_untouched_files_follow_the_template(tmp_path):
    case = Case(
        tmp_path,
        v2={"README.md.jinja": "# {{ title }}, newer\n", "NEW.md": "new\n", "tool/run": None},
    )
    actions = case.update()
    assert case.text("README.md") == "# One, newer\n" and case.text("NEW.md") == "new\n"
    assert actions["tool/run"] is Action.DELETE and not (case.root / "tool").exists()
    lock = read_lock(DiskTree(case.root))
    assert lock.version == "2" and "tool/run" not in lock.files and "NEW.md" in lock.files
    assert case.plan().changes == {}


def test_an_update_of_an_untouched_workspace_is_a_fresh_one(tmp_path):
    v2 = {
        "README.md.jinja": "new\n",
        "link": ("link", "tool/run"),
        "rollouts/tiny/more.py": "x = 1\n",
    }
    case = Case(tmp_path, v2=v2)
    case.update()
    use = use_starter(case.new, "tiny", rollout="chess")
    fresh = plan_workspace(EmptyTree(), case.new, Selection(workspace={}, starters=(use,)))
    assert snapshot(case.root) == {p: (k.value, d) for p, (k, d) in fresh.changes.items()}


def test_edits_are_kept_where_the_template_did_not_change(tmp_path):
    case = Case(tmp_path)
    put(case.root, {"README.md": "mine\n"})
    assert case.update()["README.md"] is Action.SKIP
    assert case.text("README.md") == "mine\n"


def test_edits_on_both_sides_are_a_conflict_that_stops_nothing_else(tmp_path):
    case = Case(tmp_path, v2={"README.md.jinja": "theirs\n", "NEW.md": "new\n"})
    put(case.root, {"README.md": "mine\n"})
    plan = case.plan()
    (conflict,) = plan.conflicts
    assert conflict.path == "README.md"
    assert conflict.base == f"100644 {blob_id(b'# One\n')}"
    assert conflict.ours == f"100644 {blob_id(b'mine\n')}"
    assert conflict.theirs == f"100644 {blob_id(b'theirs\n')}"
    apply_plan(case.root, plan)
    assert case.text("README.md") == "mine\n" and case.text("NEW.md") == "new\n"
    assert [c.path for c in case.plan().conflicts] == ["README.md"], "it stays open"


def test_a_conflict_can_be_left_beside_the_file_and_is_then_settled(tmp_path):
    case = Case(tmp_path, v2={"README.md.jinja": "theirs\n"})
    put(case.root, {"README.md": "mine\n"})
    case.update(on_conflict=OnConflict.BESIDE)
    assert case.text("README.md") == "mine\n" and case.text("README.md.template-new") == "theirs\n"
    assert not case.plan().conflicts


def test_both_sides_with_the_same_change_agree(tmp_path):
    case = Case(tmp_path, v2={"README.md.jinja": "same\n"})
    put(case.root, {"README.md": "same\n"})
    plan = case.plan()
    assert not plan.conflicts and set(plan.changes) == {LOCK_PATH}


def test_deletions_stay_until_they_are_restored_by_name(tmp_path):
    case = Case(tmp_path, v2={"README.md.jinja": "newer\n"})
    remove(case.root / "README.md")
    assert case.update()["README.md"] is Action.SKIP
    assert case.update()["README.md"] is Action.SKIP
    assert not (case.root / "README.md").exists()
    assert case.update(restore=["README.md"])["README.md"] is Action.CREATE
    assert case.text("README.md") == "newer\n"
    with pytest.raises(NotFound):
        case.plan(restore=["nothing"])


def test_restore_also_throws_an_edit_away(tmp_path):
    case = Case(tmp_path)
    put(case.root, {"README.md": "mine\n"})
    case.update(restore=["README.md"])
    assert case.text("README.md") == "# One\n"


def test_a_file_the_template_dropped_stays_if_it_was_edited(tmp_path):
    case = Case(tmp_path, v2={"tool/run": None})
    put(case.root, {"tool/run": "mine\n"})
    case.update()
    assert case.text("tool/run") == "mine\n"
    assert "tool/run" not in read_lock(DiskTree(case.root)).files


def test_a_new_file_never_overwrites_one_of_yours(tmp_path):
    case = Case(tmp_path, v2={"NEW.md": "theirs\n", "tool/extra": "theirs\n"})
    put(case.root, {"NEW.md": "mine\n", "tool/extra": "mine\n"})
    plan = case.plan()
    assert {c.path for c in plan.conflicts} == {"NEW.md", "tool/extra"}
    apply_plan(case.root, plan)
    assert case.text("NEW.md") == "mine\n"


def test_modes_are_content(tmp_path):
    case = Case(
        tmp_path,
        v1={"a.sh": "x\n", "b.sh": ("exe", "x\n")},
        v2={"a.sh": ("exe", "x\n"), "b.sh": ("exe", "y\n")},
    )
    (case.root / "b.sh").chmod(0o644)
    actions = case.update()
    assert snapshot(case.root)["a.sh"] == ("100755", b"x\n")
    assert actions["b.sh"] is Action.CONFLICT and snapshot(case.root)["b.sh"] == ("100644", b"x\n")


TYPES = {
    "file": {"t": "content\n"},
    "link": {"t": ("link", "README.md")},
    "folder": {"t/inner": "content\n"},
}


@pytest.mark.parametrize("old", TYPES)
@pytest.mark.parametrize("new", TYPES)
def test_the_template_changes_a_type(tmp_path, old, new):
    case = Case(tmp_path, v1=TYPES[old], v2=TYPES[new])
    case.update()
    after = snapshot(case.root)
    expected = {
        p: ("120000", v[1].encode()) if isinstance(v, tuple) else ("100644", v.encode())
        for p, v in TYPES[new].items()
    }
    assert {p: f for p, f in after.items() if p == "t" or p.startswith("t/")} == expected
    assert case.plan().changes == {}


@pytest.mark.parametrize("old", TYPES)
@pytest.mark.parametrize("mine", TYPES)
@pytest.mark.parametrize("new", [*TYPES, "gone"])
def test_the_user_changes_a_type_and_keeps_it(tmp_path, old, mine, new):
    """Whatever the template does, what the user made of the path is not lost."""
    if old == mine:
        return
    case = Case(tmp_path, v1=TYPES[old], v2=TYPES.get(new))
    remove(case.root / "t")
    put(case.root, TYPES[mine])
    before = {p: f for p, f in snapshot(case.root).items() if p == "t" or p.startswith("t/")}
    case.update()
    after = {p: f for p, f in snapshot(case.root).items() if p == "t" or p.startswith("t/")}
    assert before.items() <= after.items()


def test_renames_follow_the_template(tmp_path):
    toml = small_template(tmp_path / "probe", version="2").joinpath("template.toml").read_text()
    renames = "[renames]\n" + "".join(f'"{n}.md" = "docs/{n}.md"\n' for n in "abcd")
    renamed = {
        "template.toml": toml.replace("[parameters.title]", f"{renames}\n[parameters.title]"),
        "docs/a.md": "a\n",
        "docs/b.md": "b, newer\n",
        "docs/c.md": "c\n",
        "docs/d.md": "d, newer\n",
    }
    case = Case(tmp_path, v1={f"{n}.md": f"{n}\n" for n in "abcd"}, v2=renamed)
    put(case.root, {"c.md": "c, mine\n", "d.md": "d, mine\n"})
    plan = case.plan()
    apply_plan(case.root, plan)
    after = snapshot(case.root)
    assert after["docs/a.md"][1] == b"a\n" and after["docs/b.md"][1] == b"b, newer\n"
    assert after["docs/c.md"][1] == b"c, mine\n"
    assert after["d.md"][1] == b"d, mine\n" and "docs/d.md" not in after
    assert [c.path for c in plan.conflicts] == ["docs/d.md"]
    assert not {"a.md", "b.md", "c.md"} & set(after)


def test_binary_files_are_compared_by_bytes(tmp_path):
    old, new = bytes(range(256)) * 10, bytes(reversed(range(256))) * 10
    case = Case(tmp_path, v1={"a.bin": old, "b.bin": old}, v2={"a.bin": new, "b.bin": new})
    put(case.root, {"b.bin": old + b"!"})
    actions = case.update()
    assert (case.root / "a.bin").read_bytes() == new
    assert actions["b.bin"] is Action.CONFLICT and (case.root / "b.bin").read_bytes() == old + b"!"


CONFIG = "configs/eval/chess.toml"


def test_a_parameter_changed_later_leaves_comments_order_and_format(tmp_path):
    case = Case(tmp_path)
    mine = (
        "# my notes\n[experiment]   # here\nlimit = 9            # nine\n"
        "model_path = 'openai/a'  # the model\n\n[env]\nX = 'y'\n"
    )
    put(case.root, {CONFIG: mine})
    case.update(parameters={"model": "openai/b"}, rollout="chess")
    assert case.text(CONFIG) == mine.replace("'openai/a'", '"openai/b"')
    assert read_lock(DiskTree(case.root)).selection.starters[0].parameters == {"model": "openai/b"}


def test_a_parameter_meets_an_edit_of_the_same_value(tmp_path):
    case = Case(tmp_path)
    put(case.root, {CONFIG: '[experiment]\nmodel_path = "openai/mine"\nlimit = 1\n'})
    plan = case.plan(parameters={"model": "openai/b"}, rollout="chess")
    (conflict,) = plan.conflicts
    assert conflict.path == CONFIG and "experiment.model_path" in conflict.reason


def test_configs_merge_key_by_key_across_versions(tmp_path):
    v2 = {
        "configs/eval/tiny.toml.jinja": "[experiment]\nmodel_path = {{ model | toml }}\nlimit = 1\n"
        "extra = true\n[new]\nx = 1\n"
    }
    case = Case(tmp_path, v2=v2)
    put(case.root, {CONFIG: '[experiment]\nmodel_path = "openai/a"\nlimit = 5 # mine\n'})
    case.update()
    text = case.text(CONFIG)
    assert "limit = 5 # mine" in text and "extra = true" in text and "[new]" in text
    case.blobs.clear()
    assert not case.plan().conflicts


def test_without_the_base_a_config_is_a_conflict_and_not_a_guess(tmp_path):
    v2 = {
        "configs/eval/tiny.toml.jinja": "[experiment]\nmodel_path = {{ model | toml }}\nlimit = 2\n"
    }
    case = Case(tmp_path, v2=v2)
    put(case.root, {CONFIG: '[experiment]\nmodel_path = "openai/mine"\nlimit = 1\n'})
    assert [c.path for c in case.plan(read_blob=None).conflicts] == [CONFIG]
    assert not case.plan().conflicts


def test_template_ignore_is_honoured(tmp_path):
    case = Case(tmp_path, v2={"README.md.jinja": "newer\n", "tool/run": None, "NEW.md": "x\n"})
    put(case.root, {".osmosis/template-ignore": "# mine\nREADME.md\ntool/\nNEW.md\n"})
    actions = case.update()
    assert {actions[p] for p in ("README.md", "tool/run", "NEW.md")} == {Action.SKIP}
    assert case.text("README.md") == "# One\n" and (case.root / "tool/run").exists()


def test_template_json_decides_what_is_only_added(tmp_path):
    case = Case(tmp_path, v2={"NEW.md": "theirs\n"})
    put(
        case.root,
        {
            "NEW.md": "mine\n",
            ".osmosis/template.json": '{"overwriteManaged": [], "additive": ["NEW.md"]}',
        },
    )
    plan = case.plan()
    assert not plan.conflicts and "NEW.md" not in plan.changes
    apply_plan(case.root, plan)
    again = plan_update(
        DiskTree(case.root),
        load_catalogue(small_template(tmp_path / "v3", {"NEW.md": "newer\n"}, version="3")),
    )
    assert not again.conflicts and "NEW.md" not in again.changes


def test_shared_data_of_the_user_is_never_replaced(tmp_path):
    case = Case(tmp_path, v2={"data/rows.jsonl": "{}\n{}\n"})
    put(case.root, {"data/rows.jsonl": "mine\n"})
    assert not case.plan().conflicts
    case.update()
    assert case.text("data/rows.jsonl") == "mine\n"


def test_a_starter_that_is_gone_releases_its_rollout(tmp_path):
    gone = {
        p: None
        for p in (
            "rollouts/tiny/template.toml",
            "rollouts/tiny/main.py.jinja",
            "configs/eval/tiny.toml.jinja",
        )
    }
    case = Case(tmp_path, v2=gone)
    plan = case.plan()
    apply_plan(case.root, plan)
    assert (case.root / "rollouts/chess/main.py").exists()
    assert any("chess stays" in note for note in plan.notes)
    assert not read_lock(DiskTree(case.root)).selection.starters


def test_nothing_to_update_without_a_lock(tmp_path):
    with pytest.raises(NotFound, match="adopt"):
        plan_update(DiskTree(tmp_path), load_catalogue(small_template(tmp_path / "t")))


def test_the_lock_is_deterministic_and_round_trips(tmp_path):
    case = Case(tmp_path)
    data = (case.root / LOCK_PATH).read_bytes()
    assert parse_lock(data).to_bytes() == data


def test_files_and_lock_are_one_change(tmp_path):
    case = Case(tmp_path, v2={"README.md.jinja": "newer\n"})
    changes = case.plan().changes
    assert set(changes) == {"README.md", LOCK_PATH}
    assert parse_lock(changes[LOCK_PATH][1]).files["README.md"].blob == blob_id(b"newer\n")


def test_crlf_and_odd_formatting_survive_a_merge(tmp_path):
    case = Case(tmp_path)
    mine = '# note\r\n[experiment]\r\nmodel_path="openai/a"\r\nlimit=7\r\n'
    put(case.root, {CONFIG: mine.encode()})
    case.update(parameters={"model": "openai/b"}, rollout="chess")
    assert (case.root / CONFIG).read_bytes() == mine.replace("openai/a", "openai/b").encode()


def test_a_parameter_takes_a_file_away_and_brings_it_back(tmp_path):
    from gitsync.template import select_workspace
    from gitsync.template.catalogue import builtin

    root, config = tmp_path / "ws", "configs/training/minimal-local.toml"
    root.mkdir()
    selection = select_workspace(builtin(), ["minimal-local"], [])
    apply_plan(root, plan_workspace(DiskTree(root), builtin(), selection))
    before = snapshot(root)

    def training(value: str) -> Action:
        plan = plan_update(
            DiskTree(root), builtin(), parameters={"training": value}, rollout="minimal-local"
        )
        apply_plan(root, plan)
        return {s.path: s.action for s in plan.steps}[config]

    assert training("false") is Action.DELETE and not (root / config).exists()
    assert training("true") is Action.CREATE and snapshot(root) == before
    put(root, {config: "# mine\n"})
    assert training("false") is Action.SKIP and (root / config).read_text() == "# mine\n"


def test_a_rename_into_a_place_that_is_taken_loses_nothing(tmp_path):
    toml = small_template(tmp_path / "probe", version="2").joinpath("template.toml").read_text()
    renamed = {
        "template.toml": toml.replace("[param", '[renames]\n"a.md" = "docs/a.md"\n\n[param'),
        "docs/a.md": "a\n",
    }
    case = Case(tmp_path, v1={"a.md": "a\n"}, v2=renamed)
    put(case.root, {"a.md": "a, mine\n", "docs": "a file of mine\n"})
    plan = case.plan()
    apply_plan(case.root, plan)
    assert case.text("a.md") == "a, mine\n" and case.text("docs") == "a file of mine\n"
    assert [c.path for c in plan.conflicts] == ["docs/a.md"]


def test_a_file_of_yours_beside_a_conflict_is_not_overwritten(tmp_path):
    case = Case(tmp_path, v2={"README.md.jinja": "theirs\n"})
    put(case.root, {"README.md": "mine\n", "README.md.template-new": "mine too\n"})
    plan = case.plan(on_conflict=OnConflict.BESIDE)
    apply_plan(case.root, plan)
    assert case.text("README.md.template-new") == "mine too\n"
    assert [c.path for c in case.plan().conflicts] == ["README.md"]
