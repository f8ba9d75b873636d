"""`gitsync template` and `gitsync skills` on a checkout, as a person or a program runs them."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitsync import cli
from gitsync.template import workspace_files
from gitsync.template.lock import LOCK_PATH
from tests.template.builders import commit_all, git, lay_out, put, repository, snapshot


@dataclass
class Done:
    stdout: str
    stderr: str


def run(root: Path, *args: str, code: int = 0) -> Done:
    """One command line, in this process: an interpreter per command would cost a minute."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(root), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        got = cli.execute(list(args))
    done = Done(out.getvalue(), err.getvalue())
    assert got == code, done
    return done


def run_json(root: Path, *args: str, code: int = 0) -> dict:
    done = run(root, *args, "--json", code=code)
    return json.loads(done.stdout if code == 0 or done.stdout else done.stderr)


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    root = repository(tmp_path / "ws")
    lay_out(root, workspace_files(["minimal-local"], None, {}))
    commit_all(root)
    return root


def test_list_and_show(ws):
    names = [i["name"] for i in run_json(ws, "template", "list")["items"]]
    assert names == [
        "minimal-local",
        "multiply-harbor-strands",
        "multiply-local-openai",
        "multiply-local-strands",
    ]
    shown = run_json(ws, "template", "show", "minimal-local")
    assert shown["parameters"]["properties"]["max_concurrent"]["type"] == "integer"
    assert "minimal-local" in run(ws, "template", "list").stdout
    assert "--set eval_model=" in run(ws, "template", "show", "minimal-local").stdout
    assert run_json(ws, "template", "show", "nope", code=1)["error"]["code"] == "NOT_FOUND"


def test_apply_under_a_new_name_from_a_subfolder(ws):
    done = run_json(
        ws / "configs",
        "template",
        "apply",
        "multiply-local-openai",
        "--rollout",
        "chess",
        "--set",
        "max_concurrent=3",
    )
    assert done["written"] and done["counts"]["create"] == 10
    assert "max_concurrent=3" in (ws / "rollouts/chess/multiply_rollout/workflow.py").read_text()
    assert any("chess" in step for step in done["next_steps"])


def test_a_dry_run_shows_diffs_and_findings_and_writes_nothing(ws):
    before = snapshot(ws)
    put(ws, {"data/other.jsonl": "{}\n"})
    done = run_json(ws, "template", "apply", "minimal-local", "--rollout", "two", "--dry-run")
    assert not done["written"]
    assert any('+rollout = "two"' in d["patch"] for d in done["diffs"])
    assert {f["code"] for f in done["findings"]} >= {"too-few-rows", "missing-column"}
    assert {p: f for p, f in snapshot(ws).items() if p != "data/other.jsonl"} == before
    text = run(ws, "template", "apply", "minimal-local", "--rollout", "two", "--dry-run").stdout
    assert "create   configs/eval/two.toml" in text and "too-few-rows" in text


def test_the_findings_are_those_of_the_planned_tree(ws):
    """An unused folder is a hint now; the starter that replaces it has none."""
    put(ws, {"rollouts/two/main.py": "x = (\n"})
    plain = run_json(
        ws, "template", "apply", "minimal-local", "--rollout", "two", "--dry-run", "--force"
    )
    assert plain["findings"] == []


def test_conflicts_exit_1_and_write_nothing(ws):
    before = snapshot(ws)
    done = run_json(ws, "template", "apply", "minimal-local", code=1)
    assert done["blocked"] and done["counts"]["conflict"] == 3
    assert "Nothing was written" in run(ws, "template", "apply", "minimal-local", code=1).stdout
    assert snapshot(ws) == before
    assert run_json(ws, "template", "apply", "minimal-local", "--force")["counts"]["conflict"] == 0


@pytest.mark.parametrize(
    "args",
    [
        ["--rollout", "Bad Name"],
        ["--rollout", "../x"],
        ["--set", "novalue"],
        ["--set", "eval_model=x"],
        ["--set", "nope=1"],
        ["--set", "dataset=../x"],
    ],
)
def test_bad_values_are_usage_errors(ws, args):
    before = snapshot(ws)
    error = run_json(ws, "template", "apply", "minimal-local", *args, code=2)["error"]
    assert error["code"] == "VALIDATION"
    assert snapshot(ws) == before


def test_outside_a_checkout_is_an_error(tmp_path):
    error = run_json(tmp_path, "template", "apply", "minimal-local", code=1)["error"]
    assert error["code"] == "NOT_FOUND" and "checkout" in error["message"]


def test_hooks_and_configuration_of_git_take_no_part(ws):
    put(
        ws,
        {
            ".git/hooks/post-checkout": ("exe", "#!/bin/sh\ntouch HOOKED\n"),
            ".git/hooks/pre-commit": ("exe", "#!/bin/sh\ntouch HOOKED\n"),
        },
    )
    git(ws, "config", "core.fsmonitor", "touch HOOKED")
    git(ws, "config", "filter.x.clean", "touch HOOKED")
    put(ws, {".gitattributes": "* filter=x\n"})
    put(ws, {"README.md": "mine\n"})
    run(ws, "template", "update", "--restore", "README.md")
    run(ws, "template", "apply", "minimal-local", "--rollout", "two")
    run(ws, "template", "diff")
    assert not (ws / "HOOKED").exists()


def test_update_diff_and_restore(ws):
    assert run(ws, "template", "diff").stdout == ""
    put(ws, {"README.md": "mine\n"})
    (ws / "CLAUDE.md").unlink()
    patch = run(ws, "template", "diff").stdout
    assert "+mine" in patch and "deleted file mode 100644" in patch
    assert run_json(ws, "template", "update")["counts"]["conflict"] == 0
    assert not (ws / "CLAUDE.md").exists()
    run(ws, "template", "update", "--restore", "CLAUDE.md")
    assert (ws / "CLAUDE.md").read_text() == "@AGENTS.md\n"


def test_a_parameter_is_changed_later(ws):
    config = ws / "configs/eval/minimal-local.toml"
    config.write_text(config.read_text().replace("limit = 20 ", "limit = 3 # mine "))
    run(
        ws,
        "template",
        "update",
        "--rollout",
        "minimal-local",
        "--set",
        "eval_model=groq/x",
        "--set",
        "eval_secret=GROQ_API_KEY",
    )
    text = config.read_text()
    assert "limit = 3 # mine" in text and '"groq/x"' in text and '["GROQ_API_KEY"]' in text
    assert 'eval_model = "groq/x"' in (ws / LOCK_PATH).read_text()


def test_base_contents_come_from_the_repository(ws):
    """AGENTS.md edited, then a skill: the base of the table is found among Git's objects."""
    put(ws, {"AGENTS.md": (ws / "AGENTS.md").read_text().replace("# Rules", "# My rules")})
    run(ws, "skills", "install", "plan-eval")
    done = run_json(ws, "template", "update")
    assert done["counts"]["conflict"] == 0
    assert "# My rules" in (ws / "AGENTS.md").read_text()


def test_a_linked_work_tree_is_a_checkout(ws, tmp_path):
    git(ws, "worktree", "add", "-q", str(tmp_path / "linked"))
    put(tmp_path / "linked", {})
    readme = tmp_path / "linked/AGENTS.md"
    readme.write_text(readme.read_text().replace("# Rules", "# My rules"))
    run(tmp_path / "linked", "skills", "install", "plan-eval")
    assert run_json(tmp_path / "linked", "template", "update")["counts"]["conflict"] == 0


def test_adopt_in_a_foreign_repository(tmp_path):
    root = put(repository(tmp_path / "ws"), {"README.md": "mine\n", "src/x.py": "x = 1\n"})
    assert not run_json(root, "template", "adopt", "--dry-run")["written"]
    run(root, "template", "adopt", "--no-skills")
    assert (root / "README.md").read_text() == "mine\n" and (root / "configs/AGENTS.md").exists()
    assert not (root / ".agents").exists()
    report = json.loads(run(root, "check", ".", "--format", "json").stdout)
    assert report["verdict"] == "ok" and report["findings"] == []


def test_export_refuses_a_folder_that_is_not_empty(ws, tmp_path):
    done = run_json(ws, "template", "export", str(tmp_path / "out"))
    assert done["files"] > 50 and (tmp_path / "out/rollouts/minimal-local/main.py").exists()
    assert not (tmp_path / "out" / LOCK_PATH).exists()
    assert (
        run_json(ws, "template", "export", str(tmp_path / "out"), code=1)["error"]["code"]
        == "CONFLICT"
    )


def test_skills_on_the_command_line(ws):
    states = {s["name"]: s for s in run_json(ws, "skills", "list")["items"]}
    assert states["plan-training"]["installed"] and not states["plan-eval"]["installed"]
    run(ws, "skills", "install", "plan-eval", "submit-eval")
    assert "submit-eval" in run(ws, "skills", "list").stdout
    assert run_json(ws, "skills", "check")["ok"]
    link = ws / ".claude/skills/plan-eval"
    link.unlink()
    link.write_text("../../.agents/skills/plan-eval\n")
    assert run_json(ws, "skills", "check", code=1)["ok"] is False
    run(ws, "skills", "repair", "--dry-run")
    run(ws, "skills", "repair")
    assert link.is_symlink()
    run(ws, "skills", "upgrade")
    run(ws, "skills", "uninstall", "plan-eval", "submit-eval")
    assert git(ws, "status", "--short") == ""
    assert (
        run_json(ws, "skills", "repair", "--copy", "--link", code=2)["error"]["code"]
        == "VALIDATION"
    )


def test_hostile_names_are_escaped(ws):
    put(ws, {"rollouts/two/\x1b[31mred\u202e.py": "x = 1\n"})
    text = run(ws, "template", "apply", "minimal-local", "--rollout", "two", "--force").stdout
    assert "\x1b" not in text and "\u202e" not in text and "\\x1b" in text


def test_a_checkout_that_was_killed_recovers_with_the_next_command(ws):
    from tests.template.test_journal import CHANGES, OLD, run_killed
    from tests.template.test_journal import snapshot as seen

    assert CHANGES
    root = put(repository(ws.parent / "killed"), OLD)
    before = seen(root)
    assert run_killed(root, 40)[0]
    run(root, "template", "apply", "minimal-local", "--dry-run")
    assert seen(root) == before


def test_the_installed_command_works(ws):
    command = str(Path(sys.executable).parent / "gitsync")
    done = subprocess.run([command, "template", "list", "--json"], cwd=ws, capture_output=True)
    assert done.returncode == 0 and json.loads(done.stdout)["total_count"] == 4
