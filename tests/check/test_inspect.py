"""The whole inspection: refusals, reuse, order, suppression, hints, limits, own failures."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gitsync.check.configs as configs_module
import gitsync.check.data as data_module
import gitsync.check.inspection as story
from gitsync.check import config_content, fingerprint, inspect, service_hints
from gitsync.check.cache import forget
from gitsync.errors import GitSyncError, NotFound
from gitsync.git.objects import open_commit
from gitsync.model import CheckOptions, EntrypointReport, Report, Severity, Verdict
from gitsync.tree import Entry, Kind
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
    gitlink,
    link,
    workspace,
)

HOSTILE = Path(__file__).parent.parent / "hostile"
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


# --- refusals -----------------------------------------------------------------------------------


class Odd(MemoryTree):
    """A tree with raw entries that a mapping cannot express."""

    def __init__(self, extra: dict[str, list[Entry]], files: dict[str, Content] | None = None):
        super().__init__({**GOOD, **(files or {})}, oids=False)
        self._extra = extra

    def children(self, path: str) -> list[Entry]:
        return [*super().children(path), *self._extra.get(path, [])]


NAMES = {
    "dotdot": "..",
    "dot": ".",
    "empty": "",
    "slash": "a/b",
    "absolute": "/etc/x",
    "nul": "a\0b",
    "dotgit": ".git",
    "upper": ".GiT",
    "short": "GIT~1",
    "stream": ".git::$INDEX_ALLOCATION",
    "dots": ".git . .",
    "hfs": ".g\u200cit",
    "backslash": "x\\..\\y",
    "backslash-git": "x\\.git\\y",
    "bytes": "caf\udce9",
    "long": "n" * 256,
}


@pytest.mark.parametrize("name", NAMES)
def test_dangerous_names_refuse_the_commit(name):
    entry = Entry(NAMES[name], Kind.FILE, "1" * 40, 0o100644)
    report = inspect(Odd({"": [entry]}))
    assert report.refused
    [found] = report.findings
    assert found.code == "unsafe-name"
    found.path.encode("utf-8")
    assert "\0" not in found.path + found.message


@pytest.mark.parametrize("name", ["git", ".gitignore", ".github", "a.git", "..a", "a..", ".git-x"])
def test_harmless_names_do_not(name):
    tree = workspace({f"{name}/x": ""})
    assert not inspect(tree).refused


def test_two_entries_of_one_name_refuse_the_commit():
    twin = Entry("demo.toml", Kind.FILE, "1" * 40, 0o100644)
    report = inspect(Odd({"configs/eval": [twin]}))
    assert (report.refused, codes(report)) == (True, ["duplicate-entry"])
    folder = Entry("demo.toml", Kind.FOLDER, "1" * 40, 0o40000)
    assert inspect(Odd({"configs/eval": [folder]})).refused


def test_odd_modes_and_missing_objects_refuse_the_commit():
    for entry in (
        Entry("x", Kind.FILE, "1" * 40, 0o100666),
        Entry("x", Kind.FILE, "1" * 40, 0o130000),
        Entry("x", Kind.FILE, "0" * 40, 0o100644),
    ):
        assert codes(inspect(Odd({"data": [entry]}))) == ["odd-mode"]
    assert not inspect(Odd({"data": [Entry("x", Kind.GITLINK, "1" * 40, 0o160000)]})).refused


def test_too_many_files_are_counted_and_told_once():
    options = CheckOptions(max_files=100)
    files: dict[str, Content] = {f"data/many/{n}": "" for n in range(200)}
    for oids in (True, False):
        report = inspect(workspace(files, oids=oids), options=options)
        assert report.refused
        [found] = report.findings
        assert (found.code, found.path) == ("too-many-files", "data/many")


def test_folders_that_nest_too_deep_and_long_paths_refuse_the_commit():
    deep: dict[str, Content] = {"/".join(["d"] * 90) + "/x": ""}
    report = inspect(workspace(deep))
    assert (report.refused, codes(report)) == (True, ["too-deep"])
    long: dict[str, Content] = {"/".join(["d" * 200] * 30) + "/x": ""}
    assert codes(inspect(workspace(long))) == ["too-deep"]


class Bomb(MemoryTree):
    """Ten levels of ten times the same folder."""

    def entry(self, path: str) -> Entry | None:
        if path.startswith("bomb"):
            depth = path.count("/")
            return Entry(path.rpartition("/")[2], Kind.FOLDER, f"b{depth:039}", 0o40000)
        return super().entry(path)

    def children(self, path: str) -> list[Entry]:
        if path.startswith("bomb"):
            depth = path.count("/") + 1
            kind = Kind.FOLDER if depth < 10 else Kind.FILE
            mode = 0o40000 if depth < 10 else 0o100644
            return [Entry(f"d{n}", kind, f"b{depth:039}", mode) for n in range(10)]
        more = [Entry("bomb", Kind.FOLDER, f"b{0:039}", 0o40000)] if not path else []
        return [*super().children(path), *more]


def test_a_bomb_of_equal_folders_ends_at_once():
    start = time.perf_counter()
    report = inspect(Bomb(GOOD))
    assert time.perf_counter() - start < 2
    assert report.refused
    assert report.findings[0].code == "too-many-files"
    assert report.findings[0].path.startswith("bomb")


LINKS = {
    "absolute": "/etc/passwd",
    "up": "../" * 5 + "x",
    "into-git": "../.git/hooks",
    "empty": "",
    "nul": "a\0b",
    "huge": "a/" * 5000,
}


@pytest.mark.parametrize("name", LINKS)
def test_links_that_leave_or_cannot_be_made_refuse_the_commit(name):
    report = inspect(workspace({"data/x": link(LINKS[name])}))
    assert report.refused
    assert codes(report)[0] in ("escaping-symlink", "unsafe-link")
    task: dict[str, Content] = {"rollouts/demo/t/task.toml": "", "rollouts/demo/t/x": link("/etc")}
    assert inspect(workspace(task)).refused


def test_files_that_are_no_data_sets_have_a_limit_alone_and_together():
    class Large(MemoryTree):
        def size(self, path: str) -> int:
            return 300 * 2**20 if path.startswith("data/big") else super().size(path)

    report = inspect(Large({**GOOD, "data/big.bin": "x"}))
    assert (report.refused, codes(report)) == (True, ["file-over-limit"])
    report = inspect(Large({**GOOD, **{f"data/big{n}.bin": "x" for n in range(4)}}))
    assert "tree-too-large" in codes(report)
    assert not inspect(Large({**GOOD, "data/big.jsonl": ROWS})).refused


def test_a_submodule_that_harms_old_clients_refuses_the_commit():
    for text in (
        '[submodule "../../evil"]\n\tpath = x\n\turl = ./x\n',
        '[submodule "a"]\n\tpath = x\n\turl = -u./run\n',
    ):
        report = inspect(workspace({".gitmodules": text, "x": gitlink()}))
        assert (report.refused, codes(report)) == (True, ["unsafe-submodule", "submodule"])
    good = '[submodule "a..b"]\n\tpath = x\n\turl = https://x.example/a-b.git\n'
    assert not inspect(workspace({".gitmodules": good, "x": gitlink()})).refused


HOSTILE_CASES = [
    "path-dotdot", "path-backslash", "path-not-utf8", "path-dotgit-hfs", "path-duplicate-entry",
    "path-file-and-folder", "tree-odd-modes", "link-absolute", "link-escape-through-link",
    "link-huge-target", "link-chain-short", "link-chain-long", "link-self-folder",
    "link-replaces-folder", "link-under-link", "link-loop-entrypoint", "link-entrypoint-outside",
    "gitlink-escaping-path", "gitmodules-link", "gitlink-as-rollout", "claude-link-newline",
    "lfs-pointer-code", "secrets-committed", "toml-deep-array", "toml-deep-inline",
    "toml-long-key", "toml-huge-integer", "toml-duplicate-key", "toml-not-utf8", "python-nul",
    "python-deep-parens", "python-long-sum", "tree-5000-deep", "tree-bomb", "tree-null-sha",
]  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("hostile")
    subprocess.run(
        [sys.executable, str(HOSTILE / "make_repos.py"), str(out), "--only", *HOSTILE_CASES],
        check=True,
        capture_output=True,
    )
    return out


@pytest.mark.parametrize("name", HOSTILE_CASES)
def test_hostile_repositories_end_as_they_must(hostile, name):
    manifest = json.loads((hostile / "manifest.json").read_text("utf-8"))
    case = next(r for r in manifest["repos"] if r["name"] == name)
    start = time.perf_counter()
    report = inspect(open_commit(hostile / case["repo"], case["tip"]))
    assert time.perf_counter() - start < 20
    found = (*report.findings, *(f for r in report.rollouts for f in r.findings))
    if case["must"] == "publish" and "refuse-with-finding" not in case["accept"]:
        assert not report.refused
        assert report.verdict is Verdict.OK
    if "publish" not in case["accept"]:
        assert report.refused or report.verdict is not Verdict.OK
        places = (case.get("finding") or {}).get("at") or []
        if name == "link-entrypoint-outside":
            places = ["configs/eval/demo.toml"]  # where the entrypoint is named
        assert not places or any(f.path.startswith(p) for f in found for p in places), found
    told = json.dumps(report.to_json())
    for secret in case.get("secrets") or []:
        assert secret not in told


# --- reuse --------------------------------------------------------------------------------------


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
        "shared/flow.py": MAIN,
        "rollouts/demo/main.py": "from flow import *\n",
        "rollouts/demo/flow.py": link("../../shared/flow.py"),
    }
    first = inspect(workspace(files))
    assert first.verdict is Verdict.OK
    broken = inspect(workspace({**files, "shared/flow.py": "x = 1\n"}))
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


def test_options_are_part_of_what_is_remembered():
    forget()
    assert inspect(workspace()).verdict is Verdict.OK
    small = CheckOptions(max_file_bytes=10)
    assert inspect(workspace(), options=small).verdict is not Verdict.OK
    assert inspect(workspace()).verdict is Verdict.OK


def test_the_fingerprint_names_checker_rules_and_python():
    version = f"py{sys.version_info.major}.{sys.version_info.minor}"
    assert fingerprint().endswith(version)
    assert fingerprint() == fingerprint()


# --- suppression --------------------------------------------------------------------------------


def suppressed(report: Report) -> set[tuple[str, str]]:
    inner = [f for r in report.rollouts for f in r.findings]
    return {(f.code, f.path) for f in [*report.findings, *inner] if f.suppressed}


def test_a_comment_on_the_line_suppresses_a_warning():
    text = EVAL.replace("limit = 4", "limit = 0  # gitsync: ignore[questionable-value]")
    report = inspect(workspace({EV: text}))
    assert suppressed(report) == {("questionable-value", EV)}
    assert "unused-suppression" not in codes(report)


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


# --- own failures -------------------------------------------------------------------------------


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
    assert figures["one_changed_ms"] < 50 or figures["times_faster"] > 60, figures


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
