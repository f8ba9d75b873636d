"""Reading commits, trees and history."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput, NotFound
from gitsync.git.commits import decoded
from gitsync.git.failures import (
    ObjectFormatUnsupported,
    ObjectMissing,
    RefUnusable,
    RepositoryCorrupt,
)
from gitsync.git.objects import (
    count_history,
    diff,
    has_commit,
    is_ancestor,
    merge_base,
    open_commit,
    read_commit,
    resolve,
)
from gitsync.model import Sha
from gitsync.tree import Kind, TooLarge, Tree
from tests.git.kit import checkout, commit, git


def bare(work):
    return work / ".git"


def test_a_tree_is_read_whole(tmp_path):
    work = checkout(tmp_path / "w", {"a/b/c.txt": "deep\n", "top": "x", "run.sh": "#!/bin/sh\n"})
    (work / "run.sh").chmod(0o755)
    (work / "link").symlink_to("a/b")
    sha = commit(work, {})
    tree: Tree = open_commit(bare(work), sha)
    assert [(e.name, e.kind) for e in tree.children("")] == [
        ("a", Kind.FOLDER),
        ("link", Kind.LINK),
        ("run.sh", Kind.EXECUTABLE),
        ("top", Kind.FILE),
    ]
    assert tree.read("a/b/c.txt", limit=100) == b"deep\n"
    assert tree.read("link", limit=100) == b"a/b"
    assert tree.size("a/b/c.txt") == 5
    assert b"".join(tree.stream("top")) == b"x"
    assert tree.entry("link/c.txt") is None and tree.entry("nothing") is None
    assert tree.entry("").kind is Kind.FOLDER
    assert tree.children("top") == () and tree.children("nothing") == ()
    assert tree.entry("top").oid == git("rev-parse", "HEAD:top", cwd=work)
    with pytest.raises(TooLarge) as caught:
        tree.read("a/b/c.txt", limit=4)
    assert caught.value.details["size"] == 5
    for path in ("a", "nothing", "a/b/c.txt/x"):
        with pytest.raises(NotFound):
            tree.read(path, limit=10)


def test_a_root_folder_narrows_the_tree(tmp_path):
    work = checkout(tmp_path / "w", {"sub/a": "1", "b": "2"})
    tree = open_commit(bare(work), "HEAD", root="sub")
    assert [e.name for e in tree.children("")] == ["a"]
    with pytest.raises(NotFound):
        open_commit(bare(work), "HEAD", root="b")


def test_attributes_and_filters_have_no_effect(tmp_path):
    work = checkout(tmp_path / "w", {".gitattributes": "* text eol=crlf ident\n", "f": "$Id$\n"})
    assert open_commit(bare(work), "HEAD").read("f", limit=10) == b"$Id$\n"


@pytest.mark.slow
def test_large_blobs_are_streamed_in_constant_memory(tmp_path):
    work = checkout(tmp_path / "w")
    block = os.urandom(1 << 20)
    digest = hashlib.sha256()
    with (work / "big").open("wb") as file:
        for _ in range(64):
            file.write(block)
            digest.update(block)
    git("config", "core.bigFileThreshold", "1m", cwd=work)
    commit(work, {})
    code = (
        "import hashlib, resource, sys\n"
        "from pathlib import Path\n"
        "from gitsync.git.objects import open_commit\n"
        "d = hashlib.sha256()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"for piece in open_commit(Path({str(bare(work))!r}), 'HEAD').stream('big'):\n"
        "    assert len(piece) <= 65536\n"
        "    d.update(piece)\n"
        "print(d.hexdigest(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before,\n"
        "      resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    got, grown, child = out.stdout.split()
    assert got == digest.hexdigest()
    assert int(grown) < 20_000 and int(child) < 50_000


def test_odd_modes_stay_visible(kit):
    case = kit.cases["tree-odd-modes"]
    tree = open_commit(kit.path("tree-odd-modes"), case["tip"])
    found = [tree.children("")]
    modes = {e.mode for entries in found for e in entries}
    for folder in ("data", "rollouts/demo"):
        modes |= {e.mode for e in tree.children(folder)}
    assert modes & {0o100666, 0o130000, 0o100000}


def test_names_keep_their_bytes_and_duplicates_show(kit):
    case = kit.cases["path-not-utf8"]
    tree = open_commit(kit.path("path-not-utf8"), case["tip"])
    names = [e.name for f in ("", "data", "rollouts/demo") for e in tree.children(f)]
    [odd] = [n for n in names if any(0xDC80 <= ord(c) <= 0xDCFF for c in n)]
    assert odd.encode("utf-8", "surrogateescape")
    case = kit.cases["path-duplicate-entry"]
    tree = open_commit(kit.path("path-duplicate-entry"), case["tip"])
    names = [e.name for e in tree.children("rollouts/demo")]
    assert names.count("main.py") == 2


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("tree-truncated-entry", RepositoryCorrupt),
        ("missing-blob", ObjectMissing),
        ("loose-wrong-hash", RepositoryCorrupt),
        ("pack-bit-flip", RepositoryCorrupt),
        ("format-sha256", ObjectFormatUnsupported),
    ],
)
def test_damaged_objects_are_refused(kit, name, error):
    with pytest.raises(error):
        _read_all(open_commit(kit.path(name), kit.cases[name]["tip"][:40]))


def _read_all(tree, at=""):
    for entry in tree.children(at):
        path = f"{at}/{entry.name}" if at else entry.name
        if entry.kind is Kind.FOLDER:
            _read_all(tree, path)
        elif entry.kind is not Kind.GITLINK:
            tree.read(path, limit=1 << 20)


@pytest.mark.parametrize(
    ("name", "author", "time", "subject"),
    [
        ("commit-latin1", "René", 1735689600, "Résumé"),
        ("commit-bad-encoding", "Robin Example", 1735689660, None),
        ("commit-surrogates", "Robin Example", 1735689660, None),
        ("commit-date-overflow", "Robin Example", 2**63 - 1, "Update workspace"),
        ("commit-date-missing", "Robin Example", 0, "Update workspace"),
        ("commit-no-author", "", 0, "No author"),
    ],
)
def test_odd_commits_are_read(kit, name, author, time, subject):
    sha = kit.cases[name]["tip"]
    found = read_commit(kit.path(name), sha)
    assert found.sha == sha and len(found.parents) == 1
    assert (found.author.name, found.author.time) == (author, time)
    text = found.message + found.author.name + found.committer.name
    assert "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)
    text.encode()
    if subject is not None:
        assert found.subject == subject
    assert count_history(kit.path(name), Sha(sha)) == 2
    assert is_ancestor(kit.path(name), Sha(kit.cases[name]["good"]), Sha(sha))


def test_signatures_are_seen_not_believed(kit):
    case = kit.cases["commit-signed-ssh"]
    assert read_commit(kit.path("commit-signed-ssh"), case["tip"]).signature == "unverified"
    assert read_commit(kit.path("commit-signed-ssh"), case["good"]).signature == "none"


def test_encodings_that_are_no_text_are_not_used():
    assert decoded(b"68656c6c6f", "hex") == "68656c6c6f"
    assert decoded(b"caf\xe9", "iso-8859-1") == "café"
    assert decoded(b"caf\xc3\xa9", "no-such") == "café"
    assert len(decoded(b"x" * 10_000_000).encode()) <= 64 * 1024


def test_refs_are_full_and_tags_are_followed(kit, tmp_path):
    case = kit.cases["ref-branch-named-head"]
    repo = kit.path("ref-branch-named-head")
    assert read_commit(repo, "HEAD").sha == case["tip"]
    assert read_commit(repo, "refs/heads/HEAD").sha != case["tip"]
    with pytest.raises(InvalidInput):
        read_commit(repo, "main")
    with pytest.raises(NotFound):
        read_commit(repo, "refs/heads/none")
    assert read_commit(kit.path("ref-to-tag-object"), "refs/heads/main").parents
    with pytest.raises(RefUnusable):
        read_commit(kit.path("ref-to-blob"), "refs/heads/main")


def test_ancestry(tmp_path):
    work = checkout(tmp_path / "w")
    base = Sha(git("rev-parse", "HEAD", cwd=work))
    one = Sha(commit(work, {"a": "1"}))
    git("checkout", "-q", "-b", "side", base, cwd=work)
    two = Sha(commit(work, {"b": "1"}))
    git("checkout", "-q", "--orphan", "other", cwd=work)
    alone = Sha(commit(work, {"c": "1"}))
    repo = bare(work)
    assert is_ancestor(repo, base, one) and is_ancestor(repo, one, one)
    assert not is_ancestor(repo, one, base) and not is_ancestor(repo, one, two)
    assert merge_base(repo, one, two) == base and merge_base(repo, one, alone) is None
    assert count_history(repo, one) == 2 and count_history(repo, one, limit=1) == 1
    assert has_commit(repo, one) and not has_commit(repo, "1" * 40)
    with pytest.raises(ObjectMissing):
        is_ancestor(repo, base, Sha("1" * 40))


def test_short_shas(tmp_path):
    work = checkout(tmp_path / "w")
    sha = git("rev-parse", "HEAD", cwd=work)
    repo = bare(work)
    assert resolve(repo, sha) == resolve(repo, sha[:7]) == resolve(repo, sha[:12].upper()) == sha
    for text in (sha[:6], "xyz1234", "HEAD~1", "main", sha + "0"):
        with pytest.raises(InvalidInput):
            resolve(repo, text)
    with pytest.raises(NotFound):
        resolve(repo, "1234567" if not sha.startswith("1234567") else "7654321")
    tree = git("rev-parse", "HEAD^{tree}", cwd=work)
    with pytest.raises(NotFound):
        resolve(repo, tree[:10])


def test_an_ambiguous_sha_says_so(tmp_path):
    work = checkout(tmp_path / "w")
    tree = git("rev-parse", "HEAD^{tree}", cwd=work)
    pair = _two_commits_that_begin_alike(tree)
    for raw in pair:
        subprocess.run(
            ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
            cwd=work,
            input=raw,
            check=True,
            capture_output=True,
        )
    one = hashlib.sha1(b"commit %d\0" % len(pair[0]) + pair[0]).hexdigest()
    with pytest.raises(InvalidInput, match="ambiguous"):
        resolve(bare(work), one[:7])


def _two_commits_that_begin_alike(tree):
    seen = {}
    for n in range(200_000):
        who = b"R <r@example.com> 1735689600 +0000"
        raw = b"tree %s\nauthor %s\ncommitter %s\n\n%d\n" % (tree.encode(), who, who, n)
        start = hashlib.sha1(b"commit %d\0" % len(raw) + raw).hexdigest()[:7]
        if start in seen:
            return seen[start], raw
        seen[start] = raw
    raise AssertionError("no two commits begin alike")


def test_differences(tmp_path):
    work = checkout(tmp_path / "w", {"same/x": "1", "gone/y": "1", "edit": "1", "turn": "1"})
    before = git("rev-parse", "HEAD", cwd=work)
    git("rm", "-q", "gone/y", "turn", cwd=work)
    (work / "edit").chmod(0o755)
    after = commit(work, {"turn/z": "1", "new": "1"})
    repo = bare(work)
    old, new = open_commit(repo, before), open_commit(repo, after)
    changes = {c.path: (bool(c.old), bool(c.new)) for c in diff(old, new)}
    assert changes == {
        "edit": (True, True),
        "gone/y": (True, False),
        "new": (False, True),
        "turn": (True, False),
        "turn/z": (False, True),
    }
    assert {c.path for c in diff(None, new)} == {"same/x", "edit", "turn/z", "new"}
    with pytest.raises(TooLarge):
        list(diff(None, new, limit=2))


def test_a_repack_under_a_reader_is_noticed(tmp_path):
    work = checkout(tmp_path / "w", {"a": "1", "b": "2"})
    commit(work, {"a": "3"})
    git("repack", "-adq", cwd=work)
    tree = open_commit(bare(work), "HEAD")
    tree.children("")
    commit(work, {"c": "4"})
    git("repack", "-adfq", "--depth=1", cwd=work)
    assert tree.read("b", limit=10) == b"2"


def test_no_configuration_of_the_user_is_read(tmp_path):
    (tmp_path / ".gitconfig").write_text("[core]\n\tbare = not a value\n[user]\n\tname = Canary\n")
    code = (
        "from pathlib import Path\n"
        "import gitsync.git.objects as o\n"
        f"r = o.open_repository(Path({str(tmp_path / 'r.git')!r}))\n"
        "print('user.name' in r.config)\n"
    )
    git("init", "-q", "--bare", str(tmp_path / "r.git"))
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert out.stdout.strip() == "False", out.stderr


def test_relative_paths_and_working_copies(tmp_path, monkeypatch):
    work = checkout(tmp_path / "w", {"big": "x" * (2 << 20)})
    monkeypatch.chdir(tmp_path)
    sha = git("rev-parse", "HEAD", cwd=work)
    for place in (Path("w"), Path("w/.git"), work):
        tree = open_commit(place, sha)
        assert len(tree.read("big", limit=4 << 20)) == 2 << 20
        assert resolve(place, sha[:8]) == sha
