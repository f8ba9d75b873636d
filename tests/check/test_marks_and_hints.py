"""Suppressed findings, and the hints that only the service gives."""

from __future__ import annotations

from gitsync.check import inspect, service_hints
from gitsync.model import Report, Severity, Verdict
from tests.check.trees import (
    EVAL,
    MAIN,
    PYPROJECT,
    TRAINING,
    Content,
    workspace,
)

EV, TR = "configs/eval/demo.toml", "configs/training/demo.toml"


def codes(report: Report) -> list[str]:
    return [f.code for f in report.findings]


def suppressed(report: Report) -> set[tuple[str, str]]:
    inner = [f for r in report.rollouts for f in r.findings]
    return {(f.code, f.path) for f in [*report.findings, *inner] if f.suppressed}


def test_a_comment_on_the_line_suppresses_a_warning():
    text = EVAL.replace("limit = 4", "limit = 0  # gitsync: ignore[questionable-value]")
    report = inspect(workspace({EV: text}))
    assert suppressed(report) == {("questionable-value", EV)}
    assert "unused-suppression" not in codes(report)


def test_spaces_in_a_mark_do_not_matter():
    for mark in (
        "#gitsync:ignore[questionable-value]",
        "#  gitsync:  ignore[ questionable-value ]",
    ):
        report = inspect(workspace({EV: EVAL.replace("limit = 4", f"limit = 0 {mark}")}))
        assert suppressed(report) == {("questionable-value", EV)}, mark


def test_a_code_that_cannot_be_one_is_told_as_unused():
    text = EVAL.replace("limit = 4", "limit = 4  # gitsync: ignore[Dead_Link, é]")
    found = inspect(workspace({EV: text})).findings
    assert [(f.code, f.line, f.subject) for f in found] == [
        ("unused-suppression", 8, "Dead_Link"),
        ("unused-suppression", 8, "é"),
    ]


def test_several_codes_and_several_lines():
    text = TRAINING.replace(
        "lr = 1e-5",
        "lr = 1  # why not # gitsync: ignore[questionable-value, twin-timeouts-differ]\n"
        "total_epochs = 0",
    )
    report = inspect(workspace({TR: text}))
    assert [(f.code, f.line, f.suppressed) for f in report.findings] == [
        ("questionable-value", 8, True),
        ("unused-suppression", 8, False),
        ("questionable-value", 9, False),
    ]


def test_the_project_of_a_rollout_suppresses_for_all_its_files():
    project = PYPROJECT.replace(",<0.4", "") + (
        '\n[tool.gitsync]\nignore = ["sdk-unbounded", "env-file", "dead-link"]\n'
    )
    report = inspect(
        workspace({"rollouts/demo/pyproject.toml": project, "rollouts/demo/.env": "", ".env": ""})
    )
    assert suppressed(report) == {
        ("sdk-unbounded", "rollouts/demo/pyproject.toml"),
        ("env-file", "rollouts/demo/.env"),
    }
    [unused] = [f for f in report.findings if f.code == "unused-suppression"]
    assert (unused.path, unused.line, unused.subject) == (
        "rollouts/demo/pyproject.toml",
        12,
        "dead-link",
    )


def test_warnings_of_the_entrypoint_can_be_suppressed_in_python():
    code = MAIN.replace(
        "import uvicorn", "import numpy  # gitsync: ignore[undeclared-dependency]\nimport uvicorn"
    )
    report = inspect(workspace({"rollouts/demo/main.py": code}))
    assert suppressed(report) == {("undeclared-dependency", "rollouts/demo/main.py")}
    assert report.verdict is Verdict.OK


def test_other_texts_have_marks_too():
    report = inspect(
        workspace(
            {
                "AGENTS.md": "[a](gone.md) <!-- # gitsync: ignore[dead-link] -->\r\n"
                "```sh\r\nosmosis deploy  # gitsync: ignore[unknown-osmosis-command]\r\n```\r\n",
                ".env.test": "# gitsync: ignore[env-file]\nA=1\n",
            }
        )
    )
    assert suppressed(report) == {
        ("dead-link", "AGENTS.md"),
        ("unknown-osmosis-command", "AGENTS.md"),
        ("env-file", ".env.test"),
    }
    assert "unused-suppression" not in codes(report)


def test_marks_in_prose_are_no_marks_in_vain():
    mark = "x # gitsync: ignore[dead-link]\n"
    files: dict[str, Content] = {"notes.txt": mark, "AGENTS.md": f"Write `# {mark}`.\n{mark}"}
    assert codes(inspect(workspace(files))) == []
    files = {"run.sh": mark, "ci.yaml": f"a:\n  {mark}", "CLAUDE.md": f"@AGENTS.md <!--{mark}-->"}
    found = inspect(workspace(files)).findings
    assert [(f.path, f.line, f.column) for f in found] == [
        ("CLAUDE.md", 1, 18),
        ("ci.yaml", 2, 5),
        ("run.sh", 1, 3),
    ]


def test_a_misspelled_code_gets_a_suggestion():
    text = EVAL.replace("limit = 4", "limit = 4  # gitsync: ignore[questionable-valeu]")
    [found] = inspect(workspace({EV: text})).findings
    assert "Did you mean `questionable-value`?" in found.message


def test_errors_cannot_be_suppressed_and_text_is_no_comment():
    broken = EVAL.replace('"sums"', '""  # gitsync: ignore[empty-value]')
    report = inspect(workspace({EV: broken}))
    assert {(f.code, f.suppressed) for f in report.findings} == {
        ("empty-value", False),
        ("unused-suppression", False),
    }
    assert report.verdict is Verdict.ERROR
    text = MAIN + 'X = """\n# gitsync: ignore[dead-link]\n"""\n'
    assert inspect(workspace({"rollouts/demo/main.py": text})).findings == ()


# --- hints of the service -----------------------------------------------------------------------


def hints(files: dict[str, Content], datasets=None, secrets=None) -> list[str]:
    tree = workspace(files)
    found = service_hints(inspect(tree), tree, datasets=datasets, secrets=secrets)
    assert all(f.severity is Severity.HINT for f in found)
    return [f"{f.code} {f.path}" for f in found]


def test_hints_of_the_service():
    assert hints({}) == []
    assert hints({TR: None, "configs/training/.gitkeep": ""}) == ["missing-twin rollouts/demo"]
    assert hints({EV: None, "configs/eval/.gitkeep": ""}) == ["missing-twin rollouts/demo"]
    assert hints({}, datasets=frozenset({"sums"})) == []
    assert hints({}, datasets=frozenset({"other"})) == [
        f"unknown-dataset {EV}",
        f"unknown-dataset {TR}",
    ]
    harbor = MAIN + "\nfrom osmosis_ai.rollout.backend.harbor import HarborBackend as H\nH()\n"
    needs = [f"sandbox-key-missing {EV}", f"sandbox-key-missing {TR}"]
    assert hints({"rollouts/demo/main.py": harbor}) == needs
    assert hints({"rollouts/demo/main.py": harbor}, secrets=frozenset({"DAYTONA_API_KEY"})) == []
    key = EVAL.replace('KEY"]', 'KEY", "OPENSANDBOX_API_KEY"]')
    assert hints({"rollouts/demo/main.py": harbor, EV: key}) == needs[1:]
    busy = EVAL.replace("limit = 4", "batch_size = 33")
    assert hints({EV: busy}) == [f"server-overload {EV}"]
    assert hints({EV: busy.replace("33", "32")}) == []
    wide = MAIN.replace("grader=Exact", "grader=Exact, workflow_config=dict(max_concurrent=99)")
    assert hints({EV: busy, "rollouts/demo/main.py": wide}) == []
