"""`gitsync check` and `gitsync explain` as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import typer
from rich.cells import cell_len
from typer.testing import CliRunner

from gitsync.check import inspect
from gitsync.check.explain import all_codes, page
from gitsync.check.render import to_github, to_json, to_sarif, to_text
from gitsync.cli.check import check, explain
from gitsync.model import Finding, Report, Severity
from tests.check.corpus import cases, git, materialise
from tests.check.trees import EVAL, GOOD, MAIN, MemoryTree, workspace

ROOT = Path(__file__).parent.parent.parent
SCHEMA = json.loads((Path(__file__).parent / "schemas/sarif-2.1.0-rtm.5.json").read_text("utf-8"))
app = typer.Typer()
app.command("check")(check)
app.command("explain")(explain)


def run(*args: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(a) for a in args], env={"NO_COLOR": "1"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def checkout(tmp_path) -> Path:
    for path, text in GOOD.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(text), "utf-8")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_a_good_workspace_leaves_with_zero(checkout):
    code, out, err = run("check", checkout)
    assert (code, err) == (0, "")
    assert "Ready to push" in out
    assert "demo/main.py  ok" in out


def test_json_has_the_documented_shape(checkout):
    (checkout / "configs/eval/demo.toml").write_text(EVAL + "[other]\n")
    code, out, _ = run("check", checkout, "--format", "json")
    assert code == 1
    report = json.loads(out)
    assert set(report) == {"schema_version", "verdict", "rollouts", "findings"}
    assert report["verdict"] == "error"
    [entry] = report["rollouts"]
    assert set(entry) == {"name", "entrypoint", "verdict", "workflow", "grader", "findings"}
    assert (entry["name"], entry["workflow"], entry["grader"]) == (
        "demo",
        "main:Adder",
        "main:Exact",
    )
    [found] = report["findings"]
    keys = {"code", "severity", "path", "line", "column", "subject", "message"}
    assert set(found) == keys
    assert (found["code"], found["line"], found["column"]) == ("unknown-section", 12, 1)


def test_text_quotes_the_line_with_a_caret_and_says_what_to_do(checkout):
    (checkout / "configs/eval/demo.toml").write_text(EVAL.replace("limit =", "limits ="))
    code, out, _ = run("check", checkout)
    assert code == 1
    assert "configs/eval/demo.toml\n  8:1  error unknown-key\n" in out
    assert "     8 │ limits = 4\n       │ ^\n" in out
    assert "Did you mean `limit`?" in out
    assert "Not ready: 1 error." in out


def test_rev_checks_a_commit_and_not_the_files_on_disk(checkout):
    (checkout / "configs/eval/demo.toml").write_text("[")
    git(checkout, "commit", "-q", "-a", "-m", "broken")
    git(checkout, "tag", "-a", "v1", "-m", "tag")
    git(checkout, "branch", "topic/x")
    (checkout / "configs/eval/demo.toml").write_text(EVAL)
    sha = git(checkout, "rev-parse", "HEAD")
    assert run("check", checkout)[0] == 0
    for rev in ("HEAD", sha, sha[:8], "v1", "topic/x", "refs/heads/main"):
        code, out, err = run("check", checkout, "--rev", rev, "--format", "json")
        assert (code, err) == (1, ""), rev
        assert [f["code"] for f in json.loads(out)["findings"]] == ["toml-syntax"]
    assert run("check", checkout / ".git", "--rev", "HEAD")[0] == 1
    first = git(checkout, "rev-list", "--max-parents=0", "HEAD")
    assert run("check", checkout, "--rev", first)[0] == 0


def test_rev_takes_steps_back_as_git_writes_them(checkout):
    git(checkout, "checkout", "-q", "-b", "side")
    (checkout / "configs/eval/demo.toml").write_text("[")
    git(checkout, "commit", "-q", "-a", "-m", "broken")
    git(checkout, "checkout", "-q", "main")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "second")
    git(checkout, "merge", "-q", "--no-ff", "-s", "ours", "-m", "merge", "side")
    revs = {"HEAD^2": 1, "@^2": 1, "main^2~0": 1, "main^2^0": 1, "side": 1}
    revs |= {"HEAD": 0, "HEAD^": 0, "HEAD~": 0, "HEAD~2": 0, "main^2~1": 0, "HEAD^^": 0}
    revs |= {"HEAD~9": 2, "HEAD^3": 2, "~1": 2, "^": 2, "": 2, "HEAD~x": 2, "HEAD~9999999": 2}
    for rev, expected in revs.items():
        assert run("check", checkout, "--rev", rev)[0] == expected, rev


def test_rollout_and_entrypoint_narrow_the_answer(checkout):
    (checkout / "rollouts/two").mkdir()
    (checkout / "rollouts/two/main.py").write_text("x = 1\n")
    (checkout / "rollouts/demo/other.py").write_text(MAIN.replace("Adder", "Other"))
    (checkout / "data/bad.csv").write_text("a,b\n")
    report = json.loads(run("check", checkout, "--format", "json")[1])
    assert [r["name"] for r in report["rollouts"]] == ["demo", "two"]
    code, out, _ = run("check", checkout, "--rollout", "two", "--format", "json")
    report = json.loads(out)
    assert code == 1
    assert [r["name"] for r in report["rollouts"]] == ["two"]
    assert {f["path"] for f in report["findings"]} == {"rollouts/two"}
    args = ("--rollout", "demo", "--entrypoint", "other.py", "--format", "json")
    report = json.loads(run("check", checkout, *args)[1])
    assert [(r["entrypoint"], r["workflow"]) for r in report["rollouts"]] == [
        ("other.py", "other:Other")
    ]


def test_options_reach_the_entrypoint_check(checkout):
    code, out, _ = run("check", checkout, "--max-file-bytes", 50, "--format", "json")
    assert code == 1
    assert "source-limit" in {f["code"] for f in json.loads(out)["rollouts"][0]["findings"]}
    native = (
        "from osmosis_ai.rollout import Grader\n"
        "from osmosis_ai.rollout.backend.harbor import HarborBackend\n"
        "from osmosis_ai.rollout.server import create_rollout_server\n\n\n"
        "class G(Grader):\n    async def grade(self, ctx):\n        ctx.set_reward(1.0)\n\n\n"
        'B = HarborBackend(orchestrator=None, tasks_dir=".", agent="terminus-2", grader=G)\n'
        "create_rollout_server(backend=B)\n"
    )
    (checkout / "rollouts/demo/main.py").write_text(native)
    assert run("check", checkout)[0] == 1
    assert run("check", checkout, "--accept-harbor-native")[0] == 0


@pytest.mark.parametrize(
    "args",
    [
        ["check", "/nowhere/at/all"],
        ["check", ".", "--format", "xml"],
        ["check", ".", "--entrypoint", "main.py"],
        ["check", ".", "--rollout", "a/b"],
        ["check", ".", "--max-file-bytes", "0"],
        ["check", ".", "--rev", "no-such-branch"],
        ["check", "/", "--rev", "HEAD"],
        ["check", ".", "--nonsense"],
        ["explain"],
        ["explain", "no-such-code"],
    ],
)
def test_wrong_usage_leaves_with_two(args, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert err


def test_a_bare_repository_needs_a_commit(checkout):
    code, _, err = run("check", checkout / ".git")
    assert (code, "--rev" in err) == (2, True)
    assert run("check", checkout / ".git", "--rev", "main")[::2] == (0, "")


def test_a_folder_inside_a_workspace_is_told_to_be_one(checkout):
    for args in ([], ["--rev", "HEAD"]):
        code, out, err = run("check", checkout / "rollouts/demo", "--format", "json", *args)
        assert code == 1
        assert json.loads(out)["verdict"] == "error"
        assert err == f"gitsync: this folder lies in the workspace {checkout}; check that one.\n"


def test_files_that_a_sparse_checkout_leaves_out_are_checked(checkout):
    (checkout / "data/sums.jsonl").write_text("[\n")
    git(checkout, "commit", "-q", "-a", "-m", "bad")
    git(checkout, "sparse-checkout", "set", "rollouts")
    code, out, _ = run("check", checkout, "--format", "json")
    found = [f["code"] for f in json.loads(out)["findings"]]
    assert (code, found) == (1, ["invalid-json", "too-few-rows"])
    assert out == run("check", checkout, "--format", "json", "--rev", "HEAD")[1]


def test_explain_tells_why_with_example_and_fix():
    code, out, _ = run("explain", "twin-rollout-differs")
    assert code == 0
    assert out.startswith("twin-rollout-differs (warning)\n")
    assert "For example:" in out and "Instead:" in out
    assert "Did you mean no-grader?" in run("explain", "no-graderr")[2]


def test_every_code_is_explained_in_full():
    for code in all_codes().values():
        assert code.summary.endswith("."), code.code
        assert len(code.why) > 20 and code.example and code.fix, code.code
        assert run("explain", code.code)[0] == 0


def test_the_page_of_findings_is_current():
    assert (ROOT / "docs/findings.md").read_text("utf-8") == page()


def test_every_code_that_is_given_is_explained():
    given = {f.code for c in cases() for f in _findings(c.folder)}
    assert given <= set(all_codes())


def _findings(folder: Path) -> tuple[Finding, ...]:
    files = {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }
    report = inspect(MemoryTree(files))
    return (*report.findings, *(f for r in report.rollouts for f in r.findings))


@pytest.mark.parametrize("name", ["skills-frontmatter", "hygiene-secrets", "bench-choices"])
def test_sarif_is_valid_by_the_official_schema(name, tmp_path):
    case = next(c for c in cases() if c.name == name)
    root = materialise(case, tmp_path / "w", commit=False)
    code, out, _ = run("check", root, "--format", "sarif")
    log = json.loads(out)
    jsonschema.Draft4Validator(SCHEMA).validate(log)
    assert code == 1
    results = log["runs"][0]["results"]
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert {r["ruleId"] for r in results} == {r["id"] for r in rules}
    assert all(rules[r["ruleIndex"]]["id"] == r["ruleId"] for r in results)


EVIL = "a\x1b[2J\u202e:,%\r\n::error::x\udcff.md"


def evil_report() -> Report:
    return Report(
        findings=(
            Finding("dead-link", Severity.WARNING, EVIL, 3, 2, EVIL, f"bad {EVIL}"),
            Finding("dead-link", Severity.HINT, "ok", 1, 1, "", "quiet", suppressed=True),
        )
    )


def test_what_the_repository_says_is_escaped_in_every_format():
    report = evil_report()
    for text in (to_text(report, None), to_github(report), to_json(report), to_sarif(report)):
        text.encode("utf-8")
        assert not set(text) & {"\x1b", "\u202e", "\r", "\udcff"}
    [line] = to_github(report).splitlines()
    assert line.startswith("::warning file=a\\x1b[2J\\u202e%3A%2C%25\\x0d\\x0a%3A%3Aerror%3A%3Ax")
    jsonschema.Draft4Validator(SCHEMA).validate(json.loads(to_sarif(report)))


@pytest.mark.parametrize("width", [40, 80, 100])
@pytest.mark.parametrize("before", ["x" * 80, "\u8bf4" * 40, "\u8bf4x\x01" * 100, ""])
def test_the_caret_stands_under_its_place_at_every_width(width, before):
    tree = workspace({"AGENTS.md": f"{before} [a](gone.md) {'y' * 90}\n"})
    lines = to_text(inspect(tree), tree, width=width).splitlines()
    quoted, caret = lines[3:5]
    place = caret.index("^")
    cut = cell_len(quoted[: quoted.index("[a]")])
    assert (cut, cell_len(quoted) <= width) == (place, True)


def test_source_lines_are_escaped_and_cut_around_the_caret():
    line = "x" * 300 + "\x1b[31m" + "日本" + "LOOK" + "y" * 300
    tree = workspace({"docs/a.md": f"\n{line}\n"})
    report = Report(
        findings=(Finding("dead-link", Severity.WARNING, "docs/a.md", 2, 308, "", "m."),)
    )
    text = to_text(report, tree)
    quoted, caret = text.splitlines()[3:5]
    assert "\\x1b[31m日本LOOK" in quoted
    cells = len(quoted[: quoted.index("LOOK")]) + 2
    assert caret.index("^") == cells
    assert max(len(x) for x in text.splitlines()) < 140


def test_a_line_with_a_credential_is_never_quoted():
    token = "ghp_" + "a8Kd0Lq2Zx9Vb3Nm7Wt5Ye1Rc6Uf4Hs8GJ2q"
    tree = workspace({"configs/eval/demo.toml": EVAL + f'[env]\nlower = "{token}"\n'})
    report = inspect(tree)
    assert {f.code for f in report.findings} == {"committed-secret", "invalid-env-name"}
    for text in (to_text(report, tree), to_github(report), to_json(report), to_sarif(report)):
        assert token[:8] not in text


@pytest.mark.parametrize("form", ["[{0}]\n[{0}]\n", '[execution.env]\nrequired = ["{0}"]\n'])
def test_nor_is_it_told_by_another_finding(form):
    token = "ghp_" + "a8Kd0Lq2Zx9Vb3Nm7Wt5Ye1Rc6Uf4Hs8GJ2q"
    tree = workspace({"configs/eval/demo.toml": EVAL + form.format(token)})
    report = inspect(tree)
    assert report.findings
    for text in (to_text(report, tree), to_github(report), to_json(report), to_sarif(report)):
        assert token[:8] not in text


def test_it_runs_as_a_program(checkout):
    """Import time and exit codes without a test runner around."""
    code = "import typer; from gitsync.cli.check import check; typer.run(check)"
    done = subprocess.run([sys.executable, "-c", code, str(checkout)], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Ready to push" in done.stdout


def test_color_is_used_only_where_it_is_wanted():
    report = inspect(workspace({"configs/eval/demo.toml": "["}))
    assert "\x1b[" not in to_text(report, None)
    assert "\x1b[" in to_text(report, None, color=True)
