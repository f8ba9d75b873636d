"""The embedded host under a real uvicorn, used by the real git."""

from __future__ import annotations

import gzip
import http.client
import os
import socket
import subprocess
import time
from contextlib import closing

import pytest

from gitsync.errors import Forbidden
from gitsync.git.host import HostLimits, adopt_head, create_repository, sweep
from gitsync.git.lock import RepoLock
from gitsync.git.odb import open_repository
from tests.git.kit import ServedHost, checkout, commit, eventually, git, processes


@pytest.fixture(params=[pytest.param("h11", marks=pytest.mark.slow), "httptools"])
def served(request, tmp_path):
    with ServedHost(tmp_path / "repos", http=request.param) as host:
        host.make()
        yield host


@pytest.fixture
def one(tmp_path):
    with ServedHost(tmp_path / "repos") as host:
        host.make()
        yield host


def test_a_push_arrives_and_shows_what_became_of_it(served, tmp_path):
    work = checkout(tmp_path / "work")
    said = git("push", served.url(), "HEAD:refs/heads/main", cwd=work)
    assert "remote: gitsync: published main" in said
    sha = git("rev-parse", "HEAD", cwd=work)
    [pushed] = served.pushed
    assert pushed.complete
    assert [(c.ref, c.old, c.new) for c in pushed.done] == [("refs/heads/main", None, sha)]
    assert [c.ref for c in served.before[0]] == ["refs/heads/main"]
    assert git("ls-remote", served.url(), cwd=work).split() == [
        sha,
        "HEAD",
        sha,
        "refs/heads/main",
    ]


def test_a_quiet_push_shows_the_lines_and_nothing_else(served, tmp_path):
    work = checkout(tmp_path / "work")
    said = git("push", "-q", served.url(), "HEAD:refs/heads/main", cwd=work)
    assert [line.rstrip() for line in said.splitlines()] == ["remote: gitsync: published main"]


def test_a_push_does_not_wait_longer_than_the_limit(tmp_path):
    with ServedHost(tmp_path / "repos", limits=HostLimits(lines_seconds=0.5)) as host:
        host.make()
        host.line_delay = 30
        work = checkout(tmp_path / "work")
        begun = time.monotonic()
        said = git("push", host.url(), "HEAD:refs/heads/main", cwd=work)
        assert time.monotonic() - begun < 5
        assert "gitsync:" not in said
        assert "new branch" in said


def test_lines_are_made_harmless(one, tmp_path):
    one.lines = ["a\x1b[2Jb\nremote: forged", "x" * 5000]
    work = checkout(tmp_path / "work")
    said = git("push", one.url(), "HEAD:refs/heads/main", cwd=work)
    assert "\x1b[2J" not in said
    assert r"remote: gitsync: a\x1b[2Jb\x0aremote: forged" in said
    assert "x" * 800 in said


def test_clone_and_fetch_over_protocol_v2_and_v0(served, tmp_path):
    work = checkout(tmp_path / "work", {f"f{n}": f"{n}\n" for n in range(300)})
    git("push", "-q", served.url(), "HEAD:refs/heads/main", cwd=work)
    for version in ("0", "1", "2"):
        copy = tmp_path / f"copy{version}"
        git("-c", f"protocol.version={version}", "clone", "-q", served.url(), str(copy))
        assert (copy / "f299").read_text() == "299\n"
    sha = commit(work, {"f0": "new\n"})
    git("push", "-q", served.url(), "HEAD:refs/heads/main", cwd=work)
    git("fetch", "-q", cwd=copy)
    assert git("rev-parse", "origin/main", cwd=copy) == sha


def test_shallow_and_partial_clones(served, tmp_path):
    work = checkout(tmp_path / "work")
    for n in range(5):
        commit(work, {"data/big": f"{n}\n" * 1000})
    git("push", "-q", served.url(), "HEAD:refs/heads/main", cwd=work)
    shallow, partial = tmp_path / "shallow", tmp_path / "partial"
    git("clone", "-q", "--depth=2", served.url(), str(shallow))
    assert git("rev-list", "--count", "HEAD", cwd=shallow) == "2"
    git("clone", "-q", "--filter=blob:none", "--no-checkout", served.url(), str(partial))
    missing = git("rev-list", "--objects", "--missing=print", "HEAD", cwd=partial)
    assert "?" in missing
    git("checkout", "-q", "main", cwd=partial)
    assert (partial / "data/big").read_text().startswith("4\n")


def test_a_gzipped_request_is_inflated(served, tmp_path):
    work = checkout(tmp_path / "work")
    git("push", "-q", served.url(), "HEAD:main", cwd=work)
    sha = git("rev-parse", "HEAD", cwd=work)
    client = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    client.request(
        "POST",
        "/demo.git/git-upload-pack",
        gzip.compress(f"0032want {sha}\n00000009done\n".encode()),
        {"Content-Type": "application/x-git-upload-pack-request", "Content-Encoding": "gzip"},
    )
    answer = client.getresponse()
    assert answer.status == 200
    assert b"PACK" in answer.read()
    client.close()


def test_a_gzip_bomb_is_refused(tmp_path):
    with ServedHost(tmp_path / "repos", limits=HostLimits(ask_bytes=1 << 20)) as host:
        host.make()
        bomb = gzip.compress(b"1" * (64 << 20))  # no flush: git would end well before the limit
        with closing(http.client.HTTPConnection("127.0.0.1", host.port, timeout=20)) as client:
            client.request(
                "POST",
                "/demo.git/git-upload-pack",
                bomb,
                {
                    "Content-Type": "application/x-git-upload-pack-request",
                    "Content-Encoding": "gzip",
                },
            )
            assert client.getresponse().status in (413, 500)
        assert eventually(lambda: not processes(str(tmp_path / "repos")))


def test_expect_100_continue(served, tmp_path):
    body = b"0000"
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as client:
        client.sendall(
            b"POST /demo.git/git-receive-pack HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
            b"Content-Type: application/x-git-receive-pack-request\r\nContent-Length: 4\r\n\r\n"
        )
        assert client.recv(1000).startswith(b"HTTP/1.1 100")
        client.sendall(body)
        assert b"200" in client.recv(1000)
    assert served.pushed == []


def test_a_large_push_uses_chunks_and_a_probe(served, tmp_path):
    work = checkout(tmp_path / "work")
    (work / "blob").write_bytes(os.urandom(3 << 20))
    commit(work, {})
    git("-c", "http.postBuffer=65536", "push", "-q", served.url(), "HEAD:main", cwd=work)
    assert len(served.pushed) == 1


def test_the_first_pushed_branch_becomes_head(one, tmp_path):
    work = checkout(tmp_path / "work", branch="trunk")
    git("push", "-q", one.url(), "trunk", cwd=work)
    git("push", "-q", one.url(), "trunk:main", cwd=work)
    assert git("symbolic-ref", "HEAD", cwd=one.root / "demo.git") == "refs/heads/trunk"


def test_head_keeps_the_name_it_was_made_with_if_that_is_pushed_too(one, tmp_path):
    work = checkout(tmp_path / "work")
    git("branch", "aaa", cwd=work)
    git("push", "-q", one.url(), "aaa", "main", cwd=work)
    assert git("symbolic-ref", "HEAD", cwd=one.root / "demo.git") == "refs/heads/main"


def test_a_push_without_the_right_is_refused(one, tmp_path):
    one.can_push = False
    work = checkout(tmp_path / "work")
    said = git("push", one.url(), "HEAD:main", cwd=work, check=False)
    assert "403" in said
    assert one.pushed == []


def test_a_push_can_be_refused_with_a_reason(one, tmp_path):
    one.before_error = Forbidden("the workspace is suspended")
    work = checkout(tmp_path / "work")
    said = git("push", one.url(), "HEAD:main", cwd=work, check=False)
    assert "! [remote rejected] HEAD -> main (the workspace is suspended)" in said
    assert one.pushed == []
    assert git("ls-remote", one.url(), cwd=work) == ""


def test_the_dumb_protocol_and_other_paths_are_refused(one):
    client = http.client.HTTPConnection("127.0.0.1", one.port, timeout=20)
    for method, path, status in (
        ("GET", "/demo.git/info/refs", 403),
        ("GET", "/demo.git/info/refs?service=git-upload-archive", 403),
        ("GET", "/demo.git/HEAD", 404),
        ("GET", "/demo.git/objects/info/packs", 404),
        ("GET", "/demo.git/config", 404),
        ("POST", "/demo.git/git-upload-pack", 415),
        ("POST", "/demo.git/git-upload-archive", 404),
        ("DELETE", "/demo.git/git-upload-pack", 404),
    ):
        client.request(method, path)
        answer = client.getresponse()
        answer.read()
        assert (path, answer.status) == (path, status)
    client.close()


def test_internal_refs_are_hidden_and_cannot_be_pushed(one, tmp_path):
    work = checkout(tmp_path / "work")
    git("push", "-q", one.url(), "HEAD:main", cwd=work)
    sha = git("rev-parse", "HEAD", cwd=work)
    git("update-ref", f"refs/gitsync/kept/{sha}", sha, cwd=one.root / "demo.git")
    assert "gitsync" not in git("ls-remote", one.url(), cwd=work)
    said = git("push", one.url(), "HEAD:refs/gitsync/kept/x", cwd=work, check=False)
    assert "rejected" in said
    [_, pushed] = one.pushed
    assert pushed.done == () and len(pushed.refused) == 1


def test_no_hook_of_the_repository_runs(one, tmp_path):
    repo = one.root / "demo.git"
    (repo / "hooks").mkdir()
    for name in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction"):
        hook = repo / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-{name}\n")
        hook.chmod(0o755)
    work = checkout(tmp_path / "work")
    git("push", "-q", one.url(), "HEAD:main", cwd=work)
    assert list(tmp_path.glob("ran-*")) == []


def test_a_push_over_the_size_limit_says_so(tmp_path):
    limits = HostLimits(push_bytes=1 << 20)
    with ServedHost(tmp_path / "repos", limits=limits) as host:
        repo = host.make()
        work = checkout(tmp_path / "work")
        (work / "blob").write_bytes(os.urandom(3 << 20))
        commit(work, {})
        said = git("push", host.url(), "HEAD:main", cwd=work, check=False)
        assert "maximum allowed size" in said or "413" in said, said
        assert list(open_repository(repo).references) == []
        assert host.pushed == [] or host.pushed[0].done == ()
        assert list((repo / "objects").glob("tmp*")) == []


@pytest.mark.parametrize(
    ("pieces", "status", "said"), [(30, b"200", b"unpack"), (100, b"413", b"larger than")]
)
def test_who_pushes_too_much_gets_to_read_why(tmp_path, pieces, status, said):
    """Git reads the answer only after it has sent everything."""
    with ServedHost(tmp_path / "repos", limits=HostLimits(push_bytes=1 << 20)) as host:
        host.make()
        line = b"0" * 40 + b" " + b"1" * 40 + b" refs/heads/main\0 report-status"
        head = b"%04x%b0000" % (len(line) + 4, line)

        def chunk(data: bytes) -> bytes:
            return b"%x\r\n%b\r\n" % (len(data), data)

        with socket.create_connection(("127.0.0.1", host.port), timeout=20) as client:
            client.sendall(
                b"POST /demo.git/git-receive-pack HTTP/1.1\r\nHost: h\r\n"
                b"Content-Type: application/x-git-receive-pack-request\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n" + chunk(head + b"PACK")
            )
            for _ in range(pieces):
                client.sendall(chunk(os.urandom(64 * 1024)))
                time.sleep(0.01)
            client.sendall(b"0\r\n\r\n")
            answer = b""
            while said not in answer and (data := client.recv(65536)):
                answer += data
        assert answer.startswith(b"HTTP/1.1 " + status) and said in answer, answer
        assert b"unpack ok" not in answer
        assert host.pushed == [] or host.pushed[0].done == ()


def test_broken_objects_are_refused_and_odd_authors_are_not(one, tmp_path):
    work = checkout(tmp_path / "work")
    tree = git("rev-parse", "HEAD^{tree}", cwd=work)
    raw = f"tree {tree}\nauthor Robin 1735689600 +0000\ncommitter R <r@x> 1735689600 +0000\n\nhi\n"
    write = ["hash-object", "-t", "commit", "-w", "--stdin", "--literally"]
    odd = git(*write, cwd=work, input=raw)
    git("push", "-q", one.url(), f"{odd}:refs/heads/odd", cwd=work)
    blob = git("rev-parse", "HEAD:README.md", cwd=work)
    listing = b"100644 ..\0" + bytes.fromhex(blob)
    ended = subprocess.run(
        ["git", "hash-object", "-t", "tree", "-w", "--stdin", "--literally"],
        cwd=work,
        input=listing,
        capture_output=True,
        check=True,
    )
    bad = git("commit-tree", "-m", "bad", ended.stdout.decode().strip(), cwd=work)
    said = git("push", one.url(), f"{bad}:refs/heads/bad", cwd=work, check=False)
    assert "hasDotdot" in said


def test_a_client_that_leaves_ends_the_children(one, tmp_path):
    work = checkout(tmp_path / "work")
    (work / "blob").write_bytes(os.urandom(40 << 20))
    commit(work, {})
    git("push", "-q", one.url(), "HEAD:main", cwd=work)
    sha = git("rev-parse", "HEAD", cwd=work)
    want = f"0032want {sha}\n00000009done\n".encode()
    with socket.create_connection(("127.0.0.1", one.port), timeout=10) as client:
        head = (
            "POST /demo.git/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Type: "
            f"application/x-git-upload-pack-request\r\nContent-Length: {len(want)}\r\n\r\n"
        )
        client.sendall(head.encode() + want)
        assert client.recv(4096)
        assert processes(str(one.root))
    assert eventually(lambda: not processes(str(one.root)))


def test_a_client_that_leaves_in_the_middle_of_a_push_changes_nothing(one):
    with socket.create_connection(("127.0.0.1", one.port), timeout=10) as client:
        client.sendall(
            b"POST /demo.git/git-receive-pack HTTP/1.1\r\nHost: x\r\n"
            b"Content-Type: application/x-git-receive-pack-request\r\n"
            b"Content-Length: 100000\r\n\r\n"
        )
        line = b"0" * 40 + b" " + b"1" * 40 + b" refs/heads/main\0report-status side-band-64k"
        client.sendall(b"%04x" % (len(line) + 4) + line + b"0000PACK")
        assert eventually(lambda: processes(str(one.root)))
    assert eventually(lambda: not processes(str(one.root)))
    assert eventually(lambda: len(one.pushed) == 1)
    assert one.pushed[0].done == () and not one.pushed[0].complete


def test_a_client_that_leaves_during_the_lines_has_pushed(one, tmp_path):
    one.line_delay = 2.0
    one.lines = ["one", "two"]
    work = checkout(tmp_path / "work")
    client = subprocess.Popen(
        ["git", "push", "-q", one.url(), "HEAD:main"], cwd=work, start_new_session=True
    )
    assert eventually(lambda: one.pushed)
    os.killpg(client.pid, 9)
    client.wait()
    time.sleep(2.5)
    assert one.told == []
    assert len(one.pushed[0].done) == 1
    assert git("ls-remote", one.url(), cwd=work)


def test_too_many_requests_at_once_are_told_to_wait(tmp_path):
    limits = HostLimits(children=1, queue_seconds=0.3)
    with ServedHost(tmp_path / "repos", limits=limits) as host:
        host.make()
        with socket.create_connection(("127.0.0.1", host.port), timeout=10) as first:
            first.sendall(
                b"POST /demo.git/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Type: "
                b"application/x-git-upload-pack-request\r\nContent-Length: 100\r\n\r\n0"
            )
            assert eventually(lambda: processes(str(host.root)))
            second = http.client.HTTPConnection("127.0.0.1", host.port, timeout=20)
            second.request("GET", "/demo.git/info/refs?service=git-upload-pack")
            assert second.getresponse().status == 503
            second.close()


def test_a_silent_client_is_ended_at_the_idle_limit(tmp_path):
    with ServedHost(tmp_path / "repos", limits=HostLimits(idle_seconds=0.5)) as host:
        host.make()
        with socket.create_connection(("127.0.0.1", host.port), timeout=10) as client:
            client.sendall(
                b"POST /demo.git/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Type: "
                b"application/x-git-upload-pack-request\r\nContent-Length: 100\r\n\r\n0"
            )
            assert eventually(lambda: processes(str(host.root)))
            assert eventually(lambda: not processes(str(host.root)), seconds=8)
            assert b"408" in client.recv(1000)


def test_sweep_removes_leftovers_only_when_nobody_works(tmp_path):
    repo = tmp_path / "x.git"
    assert create_repository(repo)
    assert not create_repository(repo)
    (repo / "refs/heads/main.lock").touch()
    (repo / "objects/pack/tmp_pack_abc").touch()
    (repo / "objects/tmp_objdir-incoming-1").mkdir()
    (repo / "objects/tmp_object_git2_fresh").touch()
    (repo / "objects/tmp_object_git2_old").touch()
    os.utime(repo / "objects/tmp_object_git2_old", (1, 1))
    with RepoLock(repo).held(shared=True):
        assert sweep(repo) == 0
    assert sweep(repo) == 4
    assert (repo / "objects/tmp_object_git2_fresh").exists()
    assert adopt_head(repo, ["refs/heads/none"]) is None


def test_every_kind_of_update_is_told(one, tmp_path):
    work = checkout(tmp_path / "work")
    first = git("rev-parse", "HEAD", cwd=work)
    git("tag", "-a", "v1", "-m", "one", cwd=work)
    git("push", "-q", "--atomic", one.url(), "main", "main:side/a", "v1", cwd=work)
    git("commit", "-q", "--amend", "-m", "other", cwd=work)
    second = git("rev-parse", "HEAD", cwd=work)
    assert "rejected" in git("push", one.url(), "main", cwd=work, check=False)
    git("push", "-q", "-f", one.url(), "main", cwd=work)
    git("push", "-q", one.url(), ":side/a", cwd=work)
    said = git("push", one.url(), ":main", cwd=work, check=False)
    assert "deletion of the current branch prohibited" in said
    told = [[(c.ref, c.old, c.new) for c in p.done] for p in one.pushed]
    assert [ref for ref, _, _ in told[0]] == [
        "refs/heads/main",
        "refs/heads/side/a",
        "refs/tags/v1",
    ]
    assert told[1:] == [
        [("refs/heads/main", first, second)],
        [("refs/heads/side/a", first, None)],
        [],
    ]
    assert one.pushed[-1].refused[0][0].ref == "refs/heads/main"
    log = git("reflog", "show", "main", "--format=%gn", cwd=one.root / "demo.git")
    assert log.splitlines() == ["robin", "robin"]


def test_a_client_without_messages_is_served_too(one, tmp_path):
    """Some clients do not ask for the side band: the answer is the bare report."""
    work = checkout(tmp_path / "work")
    sha = git("rev-parse", "HEAD", cwd=work)
    pack = subprocess.run(
        ["git", "pack-objects", "--revs", "--stdout", "-q"],
        cwd=work,
        input=f"{sha}\n".encode(),
        capture_output=True,
        check=True,
    ).stdout
    line = f"{'0' * 40} {sha} refs/heads/main\0 report-status\n".encode()
    client = http.client.HTTPConnection("127.0.0.1", one.port, timeout=20)
    client.request(
        "POST",
        "/demo.git/git-receive-pack",
        b"%04x" % (len(line) + 4) + line + b"0000" + pack,
        {"Content-Type": "application/x-git-receive-pack-request"},
    )
    answer = client.getresponse().read()
    client.close()
    assert answer == b"000eunpack ok\n0017ok refs/heads/main\n0000"
    assert len(one.pushed) == 1 and one.pushed[0].complete


def test_nothing_of_a_refused_push_is_kept(one, tmp_path):
    one.before_error = Forbidden("no")
    work = checkout(tmp_path / "work")
    (work / "blob").write_bytes(os.urandom(3 << 20))
    commit(work, {})
    said = git("push", one.url(), "HEAD:main", "HEAD:other", cwd=work, check=False)
    assert said.count("[remote rejected]") == 2
    assert list((one.root / "demo.git/objects/pack").iterdir()) == []


def test_malformed_pushes_are_refused(one):
    client = http.client.HTTPConnection("127.0.0.1", one.port, timeout=20)
    for body in (b"zzzz", b"0003", b"PACK" * 100):
        client.request(
            "POST",
            "/demo.git/git-receive-pack",
            body,
            {"Content-Type": "application/x-git-receive-pack-request"},
        )
        answer = client.getresponse()
        answer.read()
        assert answer.status == 400
    client.close()
    assert one.pushed == [] and one.before == []


def test_a_server_that_stops_ends_its_children(tmp_path):
    with ServedHost(tmp_path / "repos") as host:
        host.make()
        client = socket.create_connection(("127.0.0.1", host.port), timeout=10)
        line = b"0" * 40 + b" " + b"1" * 40 + b" refs/heads/main\0report-status side-band-64k"
        client.sendall(
            b"POST /demo.git/git-receive-pack HTTP/1.1\r\nHost: x\r\n"
            b"Content-Type: application/x-git-receive-pack-request\r\n"
            b"Content-Length: 100000\r\n\r\n" + b"%04x" % (len(line) + 4) + line + b"0000PACK"
        )
        assert eventually(lambda: processes(str(host.root)))
    assert not processes(str(host.root))
    assert len(host.pushed) == 1 and not host.pushed[0].complete
    client.close()


def test_a_missing_repository_is_an_error_of_the_server(one):
    client = http.client.HTTPConnection("127.0.0.1", one.port, timeout=20)
    client.request("GET", "/none.git/info/refs?service=git-upload-pack")
    assert client.getresponse().status == 500
    client.close()


def test_a_stale_lock_of_a_killed_git_does_not_refuse_pushes(one, tmp_path):
    repo = one.root / "demo.git"
    work = checkout(tmp_path / "work")
    git("push", "-q", one.url(), "HEAD:main", cwd=work)
    for name in ("refs/heads/main.lock", "HEAD.lock", "packed-refs.lock"):
        (repo / name).touch()
    commit(work, {"x": "1"})
    git("push", "-q", one.url(), "HEAD:main", cwd=work)
    assert not list(repo.rglob("*.lock"))
    with RepoLock(repo).held(shared=True):
        (repo / "refs/heads/main.lock").touch()
        commit(work, {"x": "2"})
        said = git("push", one.url(), "HEAD:main", cwd=work, check=False)
        assert "failed to update ref" in said or "cannot lock ref" in said, said


def test_pushes_at_once(one, tmp_path):
    work = checkout(tmp_path / "work")
    git("push", "-q", one.url(), "HEAD:main", cwd=work)
    clients = [
        subprocess.Popen(["git", "push", "-q", one.url(), f"HEAD:refs/heads/b{n}"], cwd=work)
        for n in range(8)
    ]
    assert [c.wait(60) for c in clients] == [0] * 8
    assert len(git("ls-remote", "--heads", one.url(), cwd=work).splitlines()) == 9
