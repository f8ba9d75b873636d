"""What refuses a commit: names, links, modes, sizes; and the hostile repositories."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from gitsync.check import inspect
from gitsync.git.objects import open_commit
from gitsync.model import CheckOptions, Report, Verdict
from gitsync.tree import Entry, Kind
from tests.check.trees import (
    GOOD,
    ROWS,
    Content,
    MemoryTree,
    gitlink,
    link,
    workspace,
)

HOSTILE = Path(__file__).parent.parent / "hostile"


def codes(report: Report) -> list[str]:
    return [f.code for f in report.findings]


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


def test_a_folder_of_a_million_entries_is_not_even_read(tmp_path):
    def git(*args: str, data: bytes = b"") -> str:
        done = subprocess.run(
            ["git", *args], cwd=tmp_path, input=data, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    git("init", "-q")
    blob = bytes.fromhex(git("hash-object", "-w", "--stdin", data=b"x"))
    rows = b"".join(b"100644 file-%07d.txt\0%b" % (n, blob) for n in range(400_000))
    wide = git("hash-object", "-t", "tree", "-w", "--stdin", data=rows)
    data = git("mktree", data=f"040000 tree {wide}\tmany\n".encode())
    root = git("mktree", data=f"040000 tree {data}\tdata\n".encode())
    sha = git("commit-tree", "-m", "Wide", root)
    tracemalloc.start()
    report = inspect(open_commit(tmp_path / ".git", sha))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.refused
    [found] = report.findings
    assert (found.code, found.path) == ("too-many-files", "data/many")
    assert "50000" in found.message and most < 20 * 1024 * 1024


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
