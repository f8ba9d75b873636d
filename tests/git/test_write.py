"""Commits written without a work tree, branches moved only from where they were."""

from __future__ import annotations

import pytest
import servers

from gitsync.errors import InvalidInput
from gitsync.git.child import ChildLimits, Ended
from gitsync.git.failure_text import failure
from gitsync.git.failures import AuthenticationFailed, PushRefused, RefMoved
from gitsync.git.host import create_repository
from gitsync.git.mirror import Mirror
from gitsync.git.objects import open_commit, read_commit
from gitsync.git.remote import Remote
from gitsync.git.write import Put, move_branch, push, write_commit
from gitsync.model import Sha, Signature
from gitsync.tree import Kind
from tests.git.kit import checkout, commit, git

MAIN = "refs/heads/main"
ROBIN = Signature("Robin", "robin@example.com", 1735689600, 120)


@pytest.fixture
def repo(tmp_path):
    create_repository(tmp_path / "r.git")
    return tmp_path / "r.git"


def write(repo, base, changes, message="Change"):
    puts = {p: Put(c) if isinstance(c, bytes) else c for p, c in changes.items()}
    return write_commit(repo, base=base, changes=puts, message=message, author=ROBIN)


def sound(repo):
    said = git("fsck", "--strict", "--no-dangling", cwd=repo)
    return all(line.startswith("notice:") for line in said.splitlines())


def listing(repo, sha):
    return git("ls-tree", "-r", "--format=%(objectmode) %(path)", sha, cwd=repo).splitlines()


def test_a_commit_is_what_git_would_have_made(repo, tmp_path):
    first = write(
        repo,
        None,
        {
            "a/b.txt": b"1\n",
            "a.txt": b"2\n",
            "a-b": b"3\n",
            "run": Put(b"#!/bin/sh\n", Kind.EXECUTABLE),
            ".claude/skills/x": Put(b"../../.agents/skills/x", Kind.LINK),
        },
    )
    assert listing(repo, first) == [
        "120000 .claude/skills/x",
        "100644 a-b",
        "100644 a.txt",
        "100644 a/b.txt",
        "100755 run",
    ]
    assert sound(repo)
    work = checkout(tmp_path / "w")
    git("fetch", "-q", str(repo), first, cwd=work)
    git("checkout", "-q", first, cwd=work)
    assert git("write-tree", cwd=work) == read_commit(repo, first).tree
    assert git("show", "-s", "--format=%an %ae %ad", first, cwd=repo) == (
        "Robin robin@example.com Wed Jan 1 02:00:00 2025 +0200"
    )


def test_the_same_arguments_give_the_same_commit(repo, tmp_path):
    create_repository(tmp_path / "other.git")
    both = [write(r, None, {"a/b": b"1", "c": b"2"}) for r in (repo, tmp_path / "other.git")]
    assert both[0] == both[1]
    assert write(repo, both[0], {"c": b"3"}) == write(repo, both[0], {"c": b"3"})


def test_changes_and_deletions_leave_the_rest_alone(kit, repo):
    first = write(repo, None, {"a/b/c": b"1", "a/d": b"2", "e": b"3"})
    second = write(repo, first, {"a/b/c": None, "e": b"4", "f/g": b"5", "none/at/all": None})
    assert listing(repo, second) == ["100644 a/d", "100644 e", "100644 f/g"]
    third = write(repo, second, {"a": None, "e": None, "e/now": b"6", "f/g": None, "f": b"7"})
    assert listing(repo, third) == ["100644 e/now", "100644 f"]
    empty = write(repo, third, {"e": None, "f": None})
    assert listing(repo, empty) == []
    # modes that git would not write today stay as they are when nothing asked for a change
    case = kit.cases["modes"]
    odd = kit.path("modes")
    new = write_commit(
        odd, base=Sha(case["tip"]), changes={"new": Put(b"x")}, message="m", author=ROBIN
    )
    for path in ("data", "rollouts/demo"):
        old_tree, new_tree = (open_commit(odd, s) for s in (case["tip"], new))
        assert new_tree.children(path) == old_tree.children(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"": b"x"},
        {"/a": b"x"},
        {"a//b": b"x"},
        {"a/../b": b"x"},
        {"./a": b"x"},
        {".git/config": b"x"},
        {"a/.GIT/x": b"x"},
        {"git~1": b"x"},
        {"a\0b": b"x"},
        {"a": b"x", "a/b": b"y"},
        {"a/b": b"y", "a": b"x"},
        {"there": b"x"},
        {"there/file/below": b"x"},
        {"a": Put(b"x", Kind.GITLINK)},
    ],
)
def test_what_cannot_be_written(repo, changes):
    base = write(repo, None, {"there/file": b"1"})
    with pytest.raises(InvalidInput):
        write(repo, base, changes)


def test_names_and_messages_are_made_harmless(repo):
    nasty = Signature("A <x>\nauthor B", "a>\nb", 0, -90)
    sha = write_commit(
        repo, base=None, changes={"a": Put(b"x")}, message="one\0two\ud800\n\n", author=nasty
    )
    found = read_commit(repo, sha)
    assert found.author.name == "A xauthor B" and found.author.offset == -90
    assert found.message == "one�two�\n"
    assert sound(repo)


def test_an_embedded_branch_moves_by_compare_and_swap(repo):
    first = write(repo, None, {"a": b"1"})
    move_branch(repo, MAIN, first, expected=None)
    second, rival = write(repo, first, {"a": b"2"}), write(repo, first, {"a": b"3"})
    move_branch(repo, MAIN, rival, expected=first)
    for expected in (first, None):
        with pytest.raises(RefMoved):
            move_branch(repo, MAIN, second, expected=expected)
    assert git("rev-parse", MAIN, cwd=repo) == rival
    with pytest.raises(InvalidInput, match="not forced"):
        move_branch(repo, MAIN, first, expected=rival)
    with pytest.raises(InvalidInput):
        move_branch(repo, "main", second, expected=None)


def test_a_push_carries_the_expected_tip(tmp_path, loopback):
    work = checkout(tmp_path / "up/work")
    bare = tmp_path / "up/demo.git"
    git("clone", "-q", "--bare", str(work), str(bare))
    mirror = Mirror(tmp_path / "m.git")
    mirror.ensure()
    with servers.GitProxy(tmp_path / "up", allow_push=True) as proxy:
        remote = Remote.parse(proxy.url_of("demo.git"))
        base = mirror.fetch(remote, [MAIN], loopback).tips[MAIN]
        ours = write(mirror.path, base, {"ours": b"1"})
        git("push", "-q", str(bare), f"{commit(work, {'theirs': '1'})}:{MAIN}", cwd=work)
        theirs = git("rev-parse", MAIN, cwd=bare)
        with pytest.raises(RefMoved) as caught:
            push(mirror.path, remote, MAIN, ours, loopback, expected=base)
        assert caught.value.transient
        assert git("rev-parse", MAIN, cwd=bare) == theirs
        base = mirror.fetch(remote, [MAIN], loopback).tips[MAIN]
        again = write(mirror.path, base, {"ours": b"1"})
        push(mirror.path, remote, MAIN, again, loopback, expected=base)
        assert git("rev-parse", MAIN, cwd=bare) == again
        # the answer to the first push was lost: saying it again changes nothing
        push(mirror.path, remote, MAIN, again, loopback, expected=base)
        with pytest.raises(RefMoved):
            push(
                mirror.path,
                remote,
                MAIN,
                write(mirror.path, base, {"x": b"1"}),
                loopback,
                expected=None,
            )
        push(mirror.path, remote, "refs/heads/new", again, loopback, expected=None)
        with pytest.raises(InvalidInput, match="not forced"):
            push(mirror.path, remote, MAIN, ours, loopback, expected=again)
        (bare / "hooks").mkdir(exist_ok=True)
        (bare / "hooks/pre-receive").write_text("#!/bin/sh\necho protected >&2\nexit 1\n")
        (bare / "hooks/pre-receive").chmod(0o755)
        next_one = write(mirror.path, again, {"ours": b"2"})
        with pytest.raises(PushRefused):
            push(mirror.path, remote, MAIN, next_one, loopback, expected=again)


@pytest.mark.parametrize(
    "said",
    [
        "ERROR: The key you are authenticating with has been marked as read only.",
        "ERROR: Permission to acme/demo.git denied to deploy key",
        "GitLab: You are not allowed to push code to this project.",
        "fatal: unable to access 'https://x/': The requested URL returned error: 403",
    ],
)
def test_a_credential_that_may_only_read_is_told_from_a_remote_that_is_away(said):
    ended = Ended(128, b"", f"{said}\nfatal: Could not read from remote repository.", 0.1)
    assert isinstance(failure(ended, limits=ChildLimits(), action="push"), AuthenticationFailed)
