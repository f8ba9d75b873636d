"""The whole inspection: refusals, reuse, order, suppression, hints, limits, own failures."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gitsync
import gitsync.check.configs as configs_module
import gitsync.check.data as data_module
import gitsync.check.inspection as story
from gitsync.check import config_content, fingerprint, inspect
from gitsync.check.cache import forget
from gitsync.errors import GitSyncError, NotFound
from gitsync.model import CheckOptions, EntrypointReport, Finding, Report, Severity, Verdict
from tests.check.trees import (
    EVAL,
    GOOD,
    MAIN,
    PYPROJECT,
    ROWS,
    SKILL,
    TRAINING,
    Content,
    MemoryTree,
    link,
    workspace,
)

EV, TR = "configs/eval/demo.toml", "configs/training/demo.toml"


def codes(report: Report) -> list[str]:
    return [f.code for f in report.findings]


def test_the_good_workspace_has_no_findings():
    report = inspect(workspace())
    assert report.findings == ()
    assert report.verdict is Verdict.OK
    assert [(r.rollout, r.entrypoint, r.workflow) for r in report.rollouts] == [
        ("demo", "main.py", "main:Adder")
    ]


def test_an_empty_tree_is_no_failure():
    report = inspect(MemoryTree({}))
    assert set(codes(report)) == {"missing-directory", "missing-agent-file"}
    assert not report.refused


def test_findings_are_in_order_and_unique():
    report = inspect(
        workspace({"b.pyc": "", "B/x.pyc": "", EV: EVAL + "[z]\n[a]\n", "é.pyc": "", "a~.pyc": ""})
    )
    order = [f.order for f in report.findings]
    assert order == sorted(set(order))
    assert report == inspect(
        workspace(
            {"b.pyc": "", "B/x.pyc": "", EV: EVAL + "[z]\n[a]\n", "é.pyc": "", "a~.pyc": ""},
            oids=False,
        )
    )


def test_pairs_are_those_of_configs_and_main_of_the_others():
    report = inspect(
        workspace(
            {
                "configs/eval/default.toml": EVAL.replace('"demo"', '"gone"'),
                "configs/eval/x.toml": EVAL.replace('"main.py"', '"other.py"'),
                "configs/eval/y.toml": EVAL.replace('"main.py"', '"<file>"'),
                "configs/eval/z.toml": EVAL.replace('"demo"', '"absent"'),
                "configs/benchmark/b.toml": "[experiment]\nrollout = 'bench'\n",
                "rollouts/demo/other.py": MAIN,
                "rollouts/two/main.py": MAIN,
                "rollouts/three/pyproject.toml": PYPROJECT,
                "rollouts/notes/readme.md": "x",
                "rollouts/y/z/main.py": MAIN,
            }
        )
    )
    assert [(r.rollout, r.entrypoint) for r in report.rollouts] == [
        ("absent", "main.py"),
        ("demo", "main.py"),
        ("demo", "other.py"),
        ("three", "main.py"),
        ("two", "main.py"),
    ]
    [gone] = report.rollouts[0].findings
    assert (gone.code, gone.path, gone.line) == ("rollout-missing", "configs/eval/z.toml", 2)


def test_what_did_not_change_is_not_read_again():
    forget()
    files: dict[str, Content] = {
        f"rollouts/r{n}/{name}": text
        for n in range(5)
        for name, text in (("main.py", MAIN + f"# {n}\n"), ("pyproject.toml", PYPROJECT))
    }
    inspect(workspace(files))
    again = workspace(files)
    report = inspect(again)
    assert set(again.reads) <= {"CLAUDE.md"}
    changed = workspace({**files, "rollouts/r3/main.py": MAIN + "# new\n"})
    assert inspect(changed).rollouts == report.rollouts
    assert {p for p in changed.reads if p.startswith("rollouts/")} == {
        "rollouts/r3/main.py",
        "rollouts/r3/pyproject.toml",
    }
    assert not [p for p in changed.reads if p.startswith("data/")]


def test_a_rollout_that_needs_something_outside_is_checked_again():
    forget()
    files: dict[str, Content] = {
        "rollouts/demo/pyproject.toml": PYPROJECT.replace("setuptools.build_meta", "flit_core.api"),
        "common/flow.py": MAIN,
        "rollouts/demo/main.py": "from flow import *\n",
        "rollouts/demo/flow.py": link("../../common/flow.py"),
    }
    first = inspect(workspace(files))
    assert first.verdict is Verdict.OK
    broken = inspect(workspace({**files, "common/flow.py": "x = 1\n"}))
    assert broken.rollouts[0].verdict is Verdict.ERROR


class Stored:
    """Assessments that a service kept."""

    def __init__(self, report: EntrypointReport) -> None:
        self.report = report
        self.asked: list[tuple[str, str, str]] = []

    def lookup(self, rollout: str, tree_oid: str, entrypoint: str) -> EntrypointReport | None:
        self.asked.append((rollout, tree_oid, entrypoint))
        return self.report


def test_known_assessments_are_used_instead_of_reading_the_code():
    forget()
    kept = EntrypointReport("demo", "main.py", Verdict.OK, "kept:Flow", "kept:Grader")
    known = Stored(kept)
    tree = workspace({"rollouts/demo/main.py": MAIN + "# never seen before\n"})
    report = inspect(tree, known=known)
    assert report.rollouts == (kept,)
    [(rollout, oid, entrypoint)] = known.asked
    entry = tree.entry("rollouts/demo")
    assert (rollout, entrypoint) == ("demo", "main.py")
    assert entry is not None and oid == entry.oid
    forget()


def test_a_known_assessment_that_points_into_a_config_is_made_anew():
    forget()
    at = Finding("entrypoint-missing", Severity.ERROR, EV, 99, 1, "", "stale")
    known = Stored(EntrypointReport("demo", "other.py", Verdict.ERROR, None, None, (at,)))
    text = EVAL.replace('"main.py"', '"other.py"')
    report = inspect(
        workspace({EV: text, TR: TRAINING.replace('"main.py"', '"other.py"')}), known=known
    )
    assert [(f.path, f.line) for f in report.rollouts[0].findings] == [(EV, 3)]
    forget()


def test_options_are_part_of_what_is_remembered():
    forget()
    assert inspect(workspace()).verdict is Verdict.OK
    small = CheckOptions(max_file_bytes=10)
    assert inspect(workspace(), options=small).verdict is not Verdict.OK
    assert inspect(workspace()).verdict is Verdict.OK


def test_the_fingerprint_names_checker_rules_and_python():
    version = f"py{sys.version_info.major}.{sys.version_info.minor}"
    assert fingerprint().endswith(version)


def test_a_changed_line_of_the_checker_changes_the_fingerprint(tmp_path):
    copy = tmp_path / "gitsync"
    shutil.copytree(Path(gitsync.__file__).parent, copy)
    line = "from gitsync.check import fingerprint; print(fingerprint())"

    def said() -> str:
        command = [sys.executable, "-c", line]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert said() == fingerprint()
    changed = copy / "check/python/sets.py"
    changed.write_text(changed.read_text() + "# more\n")
    assert said() != fingerprint()


def test_a_failure_of_one_part_is_one_finding_and_stops_nothing_else(monkeypatch):
    def broken(*args: object) -> Iterator[object]:
        raise RuntimeError("a bug with \x1b details")

    monkeypatch.setattr(story, "check_package", broken)
    monkeypatch.setattr(story, "check_across", broken)
    forget()
    report = inspect(workspace({EV: EVAL + "[other]\n"}))
    assert [(f.code, f.path) for f in report.findings] == [
        ("check-failed", "configs"),
        ("unknown-section", EV),
        ("check-failed", "rollouts/demo"),
    ]
    assert report.rollouts[0].verdict is Verdict.OK
    assert "\x1b" not in str(report)


def test_a_failure_on_one_file_leaves_the_others(monkeypatch):
    def broken(real):
        def read(path: str, *args: object) -> object:
            if "/bad" in str(path):
                raise RuntimeError("a bug")
            return real(path, *args)

        return read

    monkeypatch.setattr(configs_module, "read_config", broken(configs_module.read_config))
    monkeypatch.setattr(data_module, "check_rows", broken(data_module.check_rows))
    forget()
    report = inspect(
        workspace(
            {
                "configs/eval/bad.toml": EVAL,
                "configs/eval/worse.toml": "[",
                "data/bad.jsonl": ROWS,
                "data/worse.csv": "",
            }
        )
    )
    assert [(f.code, f.path) for f in report.findings] == [
        ("check-failed", "configs/eval/bad.toml"),
        ("toml-syntax", "configs/eval/worse.toml"),
        ("check-failed", "data/bad.jsonl"),
        ("too-few-rows", "data/worse.csv"),
    ]
    assert [c["valid"] for c in report.configs] == [False, True, False, True]
    forget()


def test_an_error_of_the_reader_is_raised_because_nothing_can_be_said():
    class Damaged(MemoryTree):
        def stream(self, path: str) -> Iterator[bytes]:
            raise NotFound("the blob is missing")

    forget()
    with pytest.raises(GitSyncError):
        inspect(Damaged({**GOOD, "docs/new": "text that nobody has seen yet"}))


MEMORY = """
import resource, sys
from gitsync.check import inspect
from tests.check.trees import GOOD, MemoryTree
row = b'{"user_prompt": "What is seven times six?", "ground_truth": "42"}\\n'
piece = row * (65536 // len(row))
class Long(MemoryTree):
    def size(self, path):
        return 200 * 2**20 if path in BIG else super().size(path)
    def stream(self, path):
        if path in BIG:
            for _ in range(200 * 2**20 // len(piece)):
                yield BIG[path](piece)
        else:
            yield from super().stream(path)
BIG = {
    "data/long.jsonl": lambda p: p,
    "data/one-line.jsonl": lambda p: b"x" * len(p),
    "data/one-field.csv": lambda p: b'"' + b"x" * len(p),
    "docs/text.txt": lambda p: b"a" * len(p),
}
inspect(Long(GOOD))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
report = inspect(Long({**GOOD, **{path: "" for path in BIG}}))
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
print(grown, sorted({f.code for f in report.findings}))
"""


@pytest.mark.slow
def test_long_files_cost_constant_memory():
    done = subprocess.run(
        [sys.executable, "-c", MEMORY],
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    grown, found = done.stdout.split(" ", 1)
    assert int(grown) < 40, done.stdout
    assert "row-too-long" in found


@pytest.mark.slow
def test_a_thousand_rollouts_with_one_changed():
    from benchmarks.check_workspace import many_rollouts

    figures = many_rollouts(1000, changes=5)
    changed = figures["one_changed_ms"]
    assert changed < 50 or figures["cold_seconds"] * 1000 > 60 * changed, figures


def test_skills_reach_the_report_once():
    report = inspect(workspace({".agents/skills/plan-work/SKILL.md": SKILL + "[x](gone.md)\n"}))
    assert codes(report) == ["dead-link"]
    assert report.skills[0]["linked"] is False


def test_content_of_configs_holds_no_credential():
    token = "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNm12345678"
    text = EVAL + f'[env]\nPLAIN = "x"\nMY_TOKEN = "abc"\nURL = "https://x/{token}"\n'
    [fact] = [c for c in inspect(workspace({EV: text})).configs if c["kind"] == "eval"]
    env = fact["content"]["env"]
    assert env["PLAIN"] == "x"
    assert env["MY_TOKEN"].startswith("sha256:")
    assert env["URL"].startswith("sha256:")
    assert fact["content"]["secrets"] == {"required": ["OPENAI_API_KEY"]}
    submitted = {"env": {"MY_TOKEN": "abc", "PLAIN": "x", "URL": f"https://x/{token}"}}
    assert config_content(submitted)["env"] == env
