"""A working copy is seen as the commit it would become, without git and without its config."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gitsync.check import WorkingCopy, inspect
from gitsync.check.gitindex import parse_index, read_index
from gitsync.check.ignore import Rules, add_rules
from gitsync.check.lfs import Filters
from gitsync.errors import InvalidInput
from gitsync.git.objects import open_commit
from gitsync.tree import Kind, TooLarge
from tests.check.corpus import git
from tests.check.trees import GOOD, SKILL


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def repository(root: Path, files: dict[str, str] | None = None) -> Path:
    write(root, {**{p: str(t) for p, t in GOOD.items()}, **(files or {})})
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


def paths(tree: WorkingCopy) -> set[str]:
    found: set[str] = set()
    waiting = [""]
    while waiting:
        here = waiting.pop()
        for entry in tree.children(here):
            path = f"{here}/{entry.name}" if here else entry.name
            if entry.kind is Kind.FOLDER:
                waiting.append(path)
            else:
                found.add(path)
    return found


def listed(root: Path) -> set[str]:
    """What git itself would commit: tracked files and untracked ones that are not ignored."""
    done = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return {p for p in done.split("\0") if p and (root / p).is_file()}


IGNORES = """\
# comment
*.log
!keep.log
/build
docs/*.txt
cache/
**/deep/*.tmp
\\#odd
a[bc]d
trail\\ 
.osmosis/*
!.osmosis/template.lock.toml
[broken
[z-a]x
[a--z]y
"""


def test_ignore_rules_agree_with_git(tmp_path):
    repository(tmp_path)
    write(
        tmp_path,
        {
            ".gitignore": IGNORES,
            "x.log": "",
            "keep.log": "",
            "sub/x.log": "",
            "sub/keep.log": "",
            "build/a": "",
            "sub/build": "",
            "docs/a.txt": "",
            "docs/b/a.txt": "",
            "cache/a": "",
            "sub/cache/a": "",
            "x/deep/a.tmp": "",
            "x/deep/y/a.tmp": "",
            "#odd": "",
            "abd": "",
            "axd": "",
            "trail ": "",
            ".osmosis/evals/x": "",
            ".osmosis/template.lock.toml": "",
            "sub/.gitignore": "!x.log\ninner\n/rooted\n",
            "sub/inner/a": "",
            "sub/more/inner": "",
            "sub/rooted": "",
            "sub/more/rooted": "",
            "only/.gitignore": "*\n",
            "only/a": "",
            "nega/.gitignore": "*\n!.gitignore\n!a\n",
            "nega/a": "",
            "nega/b": "",
            "[broken": "",
        },
    )
    assert paths(WorkingCopy(tmp_path)) == listed(tmp_path)


PIECES = (
    *("a", "b", "/", "/", "*", "**", "***", "?", "[", "]", "[ab]", "[!a]", "[^b]", "\\", "-", " "),
    *(
        "**/",
        "/**",
        "/**/",
        "[a-b]",
        "[]]",
        "[!]]",
        "[[:alpha:]]",
        "[[:x:]]",
        "[:a]",
        "\\*",
        "[\\]]",
    ),
    *("[a\\-b]", "é", "!", "[[:", "[b-a]", "[a-]", "#", "\r", "\t", "\x0b", "\u2028", "**\\/"),
)


def test_single_lines_agree_with_git(tmp_path):
    """Every byte counts: `?` is half of an `é`, and only a line feed ends a line."""
    git(tmp_path, "init", "-q")
    chance = random.Random(4)
    names = ["".join(chance.choices("aab-]é[* ", k=chance.randint(1, 3))) for _ in range(30)]
    tried = sorted({"/".join(chance.choices(names, k=chance.randint(1, 4))) for _ in range(150)})
    found = 0
    for _ in range(250):
        line = "".join(chance.choices(PIECES, k=chance.randint(1, 5)))
        start = "\ufeff" * (chance.random() < 0.1)
        (tmp_path / ".gitignore").write_text(f"{start}{line}\n", encoding="utf-8", newline="")
        done = subprocess.run(
            ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "-z", "--stdin"],
            input="\0".join(tried).encode(),
            capture_output=True,
        )
        theirs = set(done.stdout.decode().split("\0")) - {""}
        rules = add_rules(None, "", (tmp_path / ".gitignore").read_bytes())
        ours = {path for path in tried if rules is not None and hides(rules, path)}
        assert ours == theirs, repr(line)
        found += len(theirs)
    assert found > 1000


def hides(rules: Rules, path: str) -> bool:
    """True if the path or a folder above it is ignored."""
    parts = path.split("/")
    return any(
        rules.ignores("/".join(parts[:n]), is_folder=n < len(parts))
        for n in range(1, len(parts) + 1)
    )


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("*a" * 40 + "b", "a" * 255),
        ("**/a/" * 15 + "b", "a/" * 50 + "c"),
        ("**/*a*a*a*a*a*b/**/*a*a*a*c", "/".join(["a" * 80] * 40)),
        ("[a-z]*" * 30 + "0", "a" * 255),
    ],
)
def test_a_hostile_pattern_is_not_slow(line, path):
    rules = add_rules(None, "", line.encode())
    start = time.process_time()
    assert rules is not None
    assert not rules.ignores(path, is_folder=False)
    assert time.process_time() - start < 0.5


def test_the_exclude_file_of_the_repository_counts_too(tmp_path):
    repository(tmp_path)
    (tmp_path / ".git/info").mkdir(exist_ok=True)
    (tmp_path / ".git/info/exclude").write_text(".env\n")
    write(tmp_path, {".env": "A=1\n"})
    assert paths(WorkingCopy(tmp_path)) == listed(tmp_path)
    assert inspect(WorkingCopy(tmp_path)).findings == ()


def test_tracked_files_count_even_if_ignored_and_untracked_ones_do_not(tmp_path):
    repository(tmp_path, {".gitignore": ".env\nout/\n", "out/a/b.pyc": "", "out/c.txt": ""})
    write(tmp_path, {".env": "A=1\n"})
    assert inspect(WorkingCopy(tmp_path)).findings == ()
    git(tmp_path, "add", "-f", ".env", "out/a/b.pyc")
    found = [(f.code, f.path) for f in inspect(WorkingCopy(tmp_path)).findings]
    assert found == [("env-file", ".env"), ("generated-file", "out/a/b.pyc")]
    assert paths(WorkingCopy(tmp_path)) == listed(tmp_path)


def test_uncommitted_edits_new_files_and_deletions_are_seen(tmp_path):
    repository(tmp_path)
    (tmp_path / "configs/eval/demo.toml").write_text("[")
    (tmp_path / "AGENTS.md").unlink()
    write(tmp_path, {"data/new.csv": "a,b\n"})
    codes = {f.code for f in inspect(WorkingCopy(tmp_path)).findings}
    assert codes == {"toml-syntax", "missing-agent-file", "missing-column", "too-few-rows"}


def test_empty_folders_do_not_exist(tmp_path):
    repository(tmp_path)
    (tmp_path / "rollouts/empty/inner").mkdir(parents=True)
    (tmp_path / "data/sums.jsonl").unlink()
    found = [(f.code, f.path) for f in inspect(WorkingCopy(tmp_path)).findings]
    assert found == [("missing-directory", "data")]


def test_a_folder_needs_no_repository(tmp_path):
    write(tmp_path, {p: str(t) for p, t in GOOD.items()})
    write(tmp_path, {".gitignore": ".env\n", ".env": "A=1\n"})
    assert inspect(WorkingCopy(tmp_path)).findings == ()


def test_a_repository_around_it_counts_only_if_it_tracks_something_in_it(tmp_path):
    outer = repository(tmp_path / "outer")
    write(outer, {".gitignore": "*.pyc\nspace/\n"})
    inner = outer / "space"
    write(inner, {p: str(t) for p, t in GOOD.items()})
    assert inspect(WorkingCopy(inner)).findings == ()
    git(outer, "add", "-f", "space/AGENTS.md")
    codes = {f.code for f in inspect(WorkingCopy(inner)).findings}
    assert "missing-directory" in codes
    (outer / ".gitignore").write_text("*.pyc\n")
    write(inner, {"docs/a.pyc": ""})
    assert inspect(WorkingCopy(inner)).findings == ()


def test_ignore_files_above_the_folder_count_from_where_they_stand(tmp_path):
    outer = repository(tmp_path / "outer")
    write(
        outer, {".gitignore": "/deep/er/one\n/two\ner/three\n", "deep/.gitignore": "!one\nfour\n"}
    )
    inner = outer / "deep/er"
    write(inner, dict.fromkeys(("kept", "one", "two", "three", "four", "er/three"), ""))
    git(outer, "add", "deep/er/kept")
    assert paths(WorkingCopy(inner)) == {
        p.removeprefix("deep/er/") for p in listed(outer) if p.startswith("deep/er/")
    }
    assert "one" in paths(WorkingCopy(inner))


def test_submodules_come_from_the_index_and_nested_repositories_count_as_such(tmp_path):
    root = repository(tmp_path / "w")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},third/party/lib")
    nested = root / "rollouts/nested"
    write(nested, {"main.py": "x = 1\n"})
    git(nested, "init", "-q")
    git(nested, "add", "-A")
    git(nested, "commit", "-q", "-m", "inner")
    found = [(f.code, f.severity.value, f.path) for f in inspect(WorkingCopy(root)).findings]
    assert found == [
        ("submodule", "error", "rollouts/nested"),
        ("submodule", "warning", "third/party/lib"),
    ]


def test_a_worktree_has_its_own_index(tmp_path):
    main = repository(tmp_path / "main", {".gitignore": "*.pyc\n"})
    git(main, "worktree", "add", "-q", str(tmp_path / "tree"))
    write(tmp_path / "tree", {"docs/x.pyc": ""})
    assert inspect(WorkingCopy(tmp_path / "tree")).findings == ()
    git(tmp_path / "tree", "add", "-f", "docs/x.pyc")
    codes = [f.code for f in inspect(WorkingCopy(tmp_path / "tree")).findings]
    assert codes == ["generated-file"]


_seen: list[tuple[str, str]] | None = None


def _watch(event: str, args: tuple[object, ...]) -> None:
    if _seen is not None and event in ("open", "subprocess.Popen", "os.posix_spawn", "os.system"):
        name = args[0]
        _seen.append((event, os.fsdecode(name) if isinstance(name, str | bytes) else ""))


sys.addaudithook(_watch)


def test_git_is_not_started_and_the_configuration_not_read(tmp_path):
    global _seen
    root = repository(tmp_path / "w")
    canary = tmp_path / "canary"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {canary}\n")
    trap.chmod(0o755)
    (root / ".git/config").write_text(
        f'[core]\n\tfsmonitor = "{trap}"\n\thooksPath = {tmp_path}\n\texcludesFile = {root}/all\n'
        f'[include]\n\tpath = {tmp_path}/more\n[filter "x"]\n\tclean = {trap}\n'
    )
    write(root, {".gitattributes": "* filter=x\n", "all": "*\n"})
    _seen = []
    try:
        report = inspect(WorkingCopy(root))
    finally:
        seen, _seen = _seen, None
    assert report.findings == ()
    assert not canary.exists()
    assert {event for event, _ in seen} == {"open"}
    inside = {path.split("/.git/", 1)[1] for _, path in seen if "/.git/" in path}
    assert "index" in inside
    assert inside <= {"index", "info/exclude", "commondir"}


def test_a_clone_without_symlinks_is_seen_as_the_commit_it_makes(tmp_path):
    skill = ".agents/skills/plan-work/SKILL.md"
    origin = tmp_path / "origin"
    (origin / ".claude/skills").mkdir(parents=True)
    (origin / ".claude/skills/plan-work").symlink_to("../../.agents/skills/plan-work")
    repository(origin, {skill: SKILL})
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "-c", "core.symlinks=false", str(origin), str(clone))
    text = clone / ".claude/skills/plan-work"
    assert not text.is_symlink()
    assert inspect(WorkingCopy(clone)).findings == ()
    text.write_text(text.read_text() + "\n")
    [found] = inspect(WorkingCopy(clone)).findings
    git(clone, "commit", "-q", "-a", "-m", "An editor adds a line end")
    assert inspect(open_commit(clone / ".git", "HEAD")).findings == (found,)
    assert found.code == "dangling-skill-link"


def test_a_link_that_became_a_file_is_one_where_links_are_possible(tmp_path):
    root = tmp_path / "w"
    (root / ".claude/skills").mkdir(parents=True)
    for name in ("plan-work", "other-work"):
        (root / ".claude/skills" / name).symlink_to(f"../../.agents/skills/{name}")
        write(root, {f".agents/skills/{name}/SKILL.md": SKILL.replace("plan-work", name)})
    repository(root)
    assert inspect(WorkingCopy(root)).findings == ()
    (root / ".claude/skills/plan-work").unlink()
    (root / ".claude/skills/plan-work").write_text("../../.agents/skills/plan-work")
    assert [f.code for f in inspect(WorkingCopy(root)).findings] == ["skill-link-as-text"]


ATTRIBUTES = """\
# comment
[attr]big filter=lfs -text
*.bin filter=lfs diff=lfs merge=lfs -text
  *.csv big
keep.csv -filter
other.csv filter=other
unset.csv !filter
/root.txt filter=lfs
data/**/*.jsonl filter=lfs
data/*.jsonl -filter filter=lfs
folder/ filter=lfs
!x.md filter=lfs
"with space.md" filter=lfs
"\\303\\274.md" filter=lfs
[broken filter=lfs
twice.bin filter=lfs filter=none
set.bin filter
"""


def test_the_files_of_lfs_agree_with_git(tmp_path):
    names = {
        *("a.bin", "x/a.bin", "a.csv", "x/keep.csv", "other.csv", "unset.csv", "root.txt"),
        *("x/root.txt", "data/a.jsonl", "data/x/y/a.jsonl", "x/data/a.jsonl", "folder/a", "x.md"),
        *("with space.md", "ü.md", "[broken", "twice.bin", "set.bin", "x/own.md", "x/deep/own.md"),
        *("x/deep/a.bin", "x/macro.md", "info.bin", "a.jsonl"),
    }
    git(tmp_path, "init", "-q")
    files = {
        ".gitattributes": ATTRIBUTES,
        "x/.gitattributes": "[attr]inner filter=lfs\nmacro.md inner\nown.md filter=lfs\n",
        "x/deep/.gitattributes": "*.bin filter=none\n",
    }
    write(tmp_path, {**dict.fromkeys(names, ""), **files})
    (tmp_path / ".git/info").mkdir(exist_ok=True)
    (tmp_path / ".git/info/attributes").write_text("info.bin -filter\n*.jsonl big\n")
    filters = Filters(
        lambda folder: (
            (tmp_path / folder / ".gitattributes").read_bytes()
            if (tmp_path / folder / ".gitattributes").is_file()
            else None
        ),
        own=(tmp_path / ".git/info/attributes").read_bytes(),
    )
    told = git(tmp_path, "check-attr", "-z", "filter", *sorted(names)).split("\0")
    theirs = {name for name, value in zip(told[::3], told[2::3], strict=False) if value == "lfs"}
    assert {name for name in names if filters.of(name) == b"lfs"} == theirs
    assert {"a.csv", "data/x/y/a.jsonl", "ü.md", "with space.md"} <= theirs


LFS = ".gitattributes", "data/*.jsonl filter=lfs diff=lfs merge=lfs -text\n"
CLEAN = (
    'python3 -c "import sys,hashlib as h;d=sys.stdin.buffer.read();'
    "print('version https://git-lfs.github.com/spec/v1\\noid sha256:'+h.sha256(d).hexdigest()"
    "+'\\nsize',len(d))\""
)


@pytest.mark.parametrize("objects", ["sha1", "sha256"])
def test_what_lfs_replaces_is_the_pointer_that_the_commit_holds(tmp_path, objects):
    git(tmp_path, "init", "-q", "-b", "main", f"--object-format={objects}")
    git(tmp_path, "config", "filter.lfs.clean", CLEAN)
    root = repository(tmp_path, dict([LFS]))
    tree = WorkingCopy(root)
    pointer = git(root, "cat-file", "blob", "HEAD:data/sums.jsonl") + "\n"
    assert tree.read("data/sums.jsonl", limit=1000).decode() == pointer
    assert tree.size("data/sums.jsonl") == len(pointer)
    found = [("lfs-pointer", "data/sums.jsonl")]
    assert [(f.code, f.path) for f in inspect(tree).findings] == found
    (root / "data/sums.jsonl").write_text(pointer)  # not smudged
    assert [(f.code, f.path) for f in inspect(WorkingCopy(root)).findings] == found
    write(root, {"data/new.jsonl": str(GOOD["data/sums.jsonl"]), "data/empty.jsonl": ""})
    assert [(f.code, f.path) for f in inspect(WorkingCopy(root)).findings] == [
        ("too-few-rows", "data/empty.jsonl"),
        ("lfs-pointer", "data/new.jsonl"),
        *found,
    ]


def test_without_lfs_the_bytes_are_committed_whatever_the_attributes_say(tmp_path):
    root = repository(tmp_path, dict([LFS]))
    assert inspect(WorkingCopy(root)).findings == ()
    outer = repository(tmp_path / "outer")
    write(outer / "team", {p: str(t) for p, t in GOOD.items()})
    (outer / "team/.gitattributes").write_text(LFS[1])
    git(outer, "add", "-A")
    assert inspect(WorkingCopy(outer / "team")).findings == ()
    (outer / "team/data/sums.jsonl").write_text("changed\n")
    found = [(f.code, f.path) for f in inspect(WorkingCopy(outer / "team")).findings]
    assert found == [("lfs-pointer", "data/sums.jsonl")]


@pytest.mark.parametrize("index", ["full", "sparse"])
def test_what_a_sparse_checkout_leaves_out_comes_from_the_commit(tmp_path, index):
    files = {"docs/deep/aux": "", "data/bad.jsonl": "{", "data/x/y.txt": "1"}
    root = repository(tmp_path / "w", files)
    (root / "docs/link").symlink_to("deep/aux")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "link")
    whole = inspect(open_commit(root / ".git", "HEAD"))
    git(root, "sparse-checkout", "init", "--cone", f"--{'no-' * (index == 'full')}sparse-index")
    git(root, "sparse-checkout", "set", "rollouts", "configs")
    assert not (root / "data").exists()
    seen = WorkingCopy(root, head=lambda: open_commit(root / ".git", "HEAD"))
    assert inspect(seen) == whole
    assert seen.read("docs/link", limit=100) == b"deep/aux"
    write(root, {"data/bad.jsonl": str(GOOD["data/sums.jsonl"])})
    seen = WorkingCopy(root, head=lambda: open_commit(root / ".git", "HEAD"))
    assert [f.path for f in inspect(seen).findings] == ["docs/deep/aux"]
    assert "missing-directory" not in {f.code for f in inspect(seen).findings}


def test_links_are_not_followed_and_odd_files_do_not_exist(tmp_path):
    write(tmp_path / "w", {p: str(t) for p, t in GOOD.items()})
    write(tmp_path, {"secret/x": "top secret"})
    root = tmp_path / "w"
    (root / "docs").symlink_to("../secret")
    os.mkfifo(root / "data/pipe.jsonl")
    tree = WorkingCopy(root)
    assert tree.entry("docs/x") is None
    assert tree.entry("data/pipe.jsonl") is None
    assert tree.read("docs", limit=100) == b"../secret"
    assert tree.entry("../secret/x") is None
    with pytest.raises(FileNotFoundError):
        tree.read("docs/x", limit=100)
    assert [f.code for f in inspect(tree).findings] == ["escaping-symlink"]
    assert inspect(tree).refused


def test_a_file_over_the_limit_is_not_read_into_memory(tmp_path):
    (tmp_path / "big").write_bytes(b"")
    os.truncate(tmp_path / "big", 10 * 2**30)
    tree = WorkingCopy(tmp_path)
    with pytest.raises(TooLarge) as caught:
        tree.read("big", limit=100_000)
    assert caught.value.details["size"] == 10 * 2**30


def test_a_path_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(InvalidInput):
        WorkingCopy(tmp_path / "gone")


@pytest.mark.parametrize("version", [2, 3, 4])
def test_every_version_of_the_index_is_read(tmp_path, version):
    root = repository(tmp_path, {"a/b/c/d.txt": "", "a/b/c/e.txt": "", "a/b.txt": "", "ü.md": ""})
    git(root, "update-index", f"--index-version={version}")
    if version == 3:
        git(root, "update-index", "--skip-worktree", "a/b.txt")
    index = read_index(root / ".git")
    assert index is not None
    lines = git(root, "-c", "core.quotePath=false", "ls-files", "-s").splitlines()
    wanted = {line.split("\t", 1)[1]: int(line.split()[0], 8) for line in lines}
    assert {path: entry.mode for path, entry in index.items()} == wanted
    assert {path: entry.oid for path, entry in index.items()} == {
        line.split("\t", 1)[1]: line.split()[1] for line in lines
    }
    assert {p for p, entry in index.items() if entry.is_left_out} == (
        {"a/b.txt"} if version == 3 else set()
    )
    assert parse_index((root / ".git/index").read_bytes()) == index


def test_a_split_index_is_read(tmp_path):
    root = repository(tmp_path)
    git(root, "update-index", "--split-index")
    write(root, {"late.md": ""})
    git(root, "add", "late.md")
    assert set(read_index(root / ".git") or ()) == set(git(root, "ls-files").splitlines())


def test_a_damaged_index_is_none_and_never_an_exception(tmp_path):
    root = repository(tmp_path)
    data = (root / ".git/index").read_bytes()
    for cut in range(0, len(data), 7):
        assert parse_index(data[:cut]) is None
    for at in range(0, len(data) - 20, 3):
        parse_index(data[:at] + b"\xff\x00" + data[at + 2 :])
    (root / ".git/index").write_bytes(data[:50])
    assert inspect(WorkingCopy(root)).findings == ()


def test_disk_and_commit_agree_on_modes_and_order(tmp_path):
    root = repository(tmp_path, {"a.b": "", "a/b": "", "a-b": "", "tests/run.sh": ""})
    (root / "tests/run.sh").chmod(0o755)
    git(root, "commit", "-q", "-a", "-m", "mode")
    commit = open_commit(root / ".git", "HEAD")
    disk = WorkingCopy(root)
    for path in ("", "a", "tests", "rollouts/demo"):
        ours = [(e.name, e.kind, e.mode) for e in disk.children(path)]
        theirs = [(e.name, e.kind, e.mode) for e in commit.children(path)]
        assert ours == theirs


def test_a_file_that_cannot_be_read_is_one_finding(tmp_path, monkeypatch):
    write(tmp_path, {p: str(t) for p, t in GOOD.items()})
    write(tmp_path, {"docs/locked.txt": "x", "configs/eval/locked.toml": "x"})
    tree = WorkingCopy(tmp_path)
    real = tree.stream

    def refusing(path):
        if "locked" in path:
            raise PermissionError(path)
        return real(path)

    monkeypatch.setattr(tree, "stream", refusing)
    report = inspect(tree)
    assert [(f.code, f.path) for f in report.findings] == [
        ("check-failed", "configs/eval/locked.toml"),
        ("check-failed", "docs/locked.txt"),
    ]
    assert [r.verdict for r in report.rollouts] == ["ok"]


def test_a_file_that_vanishes_while_it_is_listed_is_not_there(tmp_path, monkeypatch):
    root = repository(tmp_path, {"docs/a.md": "", "docs/aux": ""})
    real = os.scandir

    class Vanished:
        def __init__(self, item: os.DirEntry[bytes]) -> None:
            self.name, self.path = item.name, item.path
            self.is_dir = item.is_dir

        def stat(self, **_: object) -> os.stat_result:
            raise FileNotFoundError(self.path)

    monkeypatch.setattr(
        os, "scandir", lambda path: [Vanished(i) if i.name == b"aux" else i for i in real(path)]
    )
    assert [e.name for e in WorkingCopy(root).children("docs")] == ["a.md"]


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    root = repository(tmp_path)
    (root / "volume").mkdir()
    real = os.scandir

    def refusing(path):
        if path.endswith(b"/volume"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(InvalidInput, match=r"'volume' .*Permission denied"):
        inspect(WorkingCopy(root))
    write(root, {".gitignore": "volume/\n"})
    assert inspect(WorkingCopy(root)).findings == ()
