"""Mirrors of honest and hostile remotes."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
import time

import pytest
import servers

from gitsync.git.child import MIB, Guard
from gitsync.git.failures import (
    AuthenticationFailed,
    FetchFailed,
    GitFailure,
    LimitHit,
    ObjectMissing,
    ObjectsRefused,
    RefMissing,
    RefUnusable,
    RemoteMalformed,
    RemoteMoved,
    RemoteThrottled,
    RemoteTimeout,
    RemoteUnreachable,
    RepositoryCorrupt,
)
from gitsync.git.lock import RepoLock
from gitsync.git.mirror import FetchLimits, Mirror, export_pack
from gitsync.git.objects import has_commit, is_ancestor, open_commit, read_commit
from gitsync.git.remote import Remote
from gitsync.model import Sha
from tests.git.conftest import proxy_apart
from tests.git.kit import checkout, commit, eventually, git, processes

MAIN = "refs/heads/main"
SHORT = FetchLimits(seconds=1, pack_bytes=20 * MIB)
PATIENT = FetchLimits(seconds=30, pack_bytes=20 * MIB)


@pytest.fixture
def mirror(tmp_path):
    mirror = Mirror(tmp_path / "mirrors/demo.git")
    assert mirror.ensure()
    assert not mirror.ensure()
    return mirror


@pytest.fixture
def upstream(tmp_path):
    """A working copy and the honest server of its repository."""
    work = checkout(tmp_path / "up/work")
    git("clone", "-q", "--bare", str(work), str(tmp_path / "up/demo.git"))
    git("remote", "add", "origin", str(tmp_path / "up/demo.git"), cwd=work)
    with servers.GitProxy(tmp_path / "up") as proxy:
        yield work, Remote.parse(proxy.url_of("demo.git")), proxy


def test_a_fetch_brings_the_watched_branches_and_no_more(mirror, upstream, loopback):
    work, remote, _ = upstream
    git("branch", "side", cwd=work)
    git("tag", "-a", "v1", "-m", "one", cwd=work)
    sha = commit(work, {"x": "1"})
    git("push", "-q", "origin", "main", "side", "v1", cwd=work)
    result = mirror.fetch(remote, [MAIN], loopback)
    assert result.tips == {MAIN: sha} and not result.shallow and result.bytes > 0
    assert mirror.tip(MAIN) == sha and mirror.tip("refs/heads/side") is None
    assert open_commit(mirror.path, sha).read("x", limit=9) == b"1"
    assert "v1" not in git("for-each-ref", cwd=mirror.path)
    again = mirror.fetch(remote, [MAIN, "refs/heads/side"], loopback)
    assert set(again.tips) == {MAIN, "refs/heads/side"} and again.bytes == 0
    mirror.fetch(remote, ["refs/heads/side"], loopback)
    assert mirror.tip(MAIN) is None


def test_one_branch_is_brought_beside_the_others(mirror, upstream, loopback):
    work, remote, _ = upstream
    first = mirror.fetch(remote, [MAIN], loopback).tips[MAIN]
    git("push", "-q", "origin", f"{commit(work, {'side': '1'})}:refs/heads/side", cwd=work)
    side = mirror.fetch_one(remote, "refs/heads/side", loopback)
    assert side != first and has_commit(mirror.path, side)
    assert mirror.tip(MAIN) == first and mirror.tip("refs/heads/side") == side
    with pytest.raises(RefMissing):
        mirror.fetch_one(remote, "refs/heads/none", loopback)
    with pytest.raises(RefUnusable):
        mirror.fetch_one(remote, "side", loopback)


def test_kill_points_are_passed(mirror, upstream, loopback):
    seen: list[str] = []
    mirror.fetch(upstream[1], [MAIN], loopback, at=seen.append)
    assert seen == ["fetch.start", "fetch.stored"]


def test_a_force_push_and_a_branch_below_a_former_branch(mirror, upstream, loopback):
    work, remote, _ = upstream
    first = mirror.fetch(remote, [MAIN], loopback).tips[MAIN]
    git("checkout", "-q", "--orphan", "fresh", cwd=work)
    sha = commit(work, {"y": "1"})
    git("push", "-q", "-f", "origin", "fresh:main", cwd=work)
    assert mirror.fetch(remote, [MAIN], loopback).tips[MAIN] == sha
    git("push", "-q", "origin", ":main", cwd=work, check=False)
    bare = work.parent / "demo.git"
    git("update-ref", "-d", MAIN, cwd=bare)
    git("update-ref", f"{MAIN}/deeper", sha, cwd=bare)
    result = mirror.fetch(remote, [f"{MAIN}/deeper"], loopback)
    assert result.tips == {f"{MAIN}/deeper": sha}
    assert has_commit(mirror.path, first)


def test_a_branch_that_vanished_is_looked_at_again(mirror, upstream, loopback):
    with pytest.raises(RefMissing) as caught:
        mirror.fetch(upstream[1], ["refs/heads/none"], loopback)
    assert caught.value.transient


@pytest.mark.parametrize("ref", ["main", "refs/tags/v1", "refs/heads/a:b", "--upload-pack=x", ""])
def test_only_full_branch_refs_are_fetched(mirror, loopback, ref):
    with pytest.raises(RefUnusable):
        mirror.fetch(Remote.parse("http://127.0.0.1:1/x"), [ref], loopback)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("ref-dash-default", None),
        ("ref-slash-default", None),
        ("ref-branch-named-head", None),
        ("ref-nested-name", None),
        ("path-dotdot", None),
        ("modes", None),
        ("commit-no-author", None),
        ("commit-date-overflow", None),
        ("commit-surrogates", None),
        ("ref-to-tag-object", RefUnusable),
        ("ref-to-blob", RefUnusable),
        ("tree-unsorted", ObjectsRefused),
        ("delta-bomb", LimitHit),
        ("missing-blob", GitFailure),
        ("missing-parent", GitFailure),
        ("loose-wrong-hash", GitFailure),
    ],
)
def test_hostile_repositories(kit, mirror, loopback, name, error):
    case = kit.cases[name]
    ref = case["states"][-1]["HEAD"].removeprefix("ref: ")
    # the odd server sends what an honest one would refuse to pack
    with servers.GitProxy(kit.out) as remote:
        parsed = Remote.parse(remote.url_of(case["repo"]))
        if error is None:
            assert mirror.fetch(parsed, [ref], loopback).tips == {ref: case["tip"]}
            return
        with pytest.raises(error) as caught:
            mirror.fetch(parsed, [ref], loopback)
    assert caught.value.message.isprintable()
    assert mirror.tip(ref) is None
    assert list((mirror.path / "objects/pack").glob("tmp_*")) == []


def test_unchecked_packs_are_checked(kit, mirror, loopback):
    """A host that opens nothing sends a pack with a missing blob."""
    with servers.Remote(kit.path("missing-blob")) as remote, pytest.raises(GitFailure):
        mirror.fetch(Remote.parse(remote.url), [MAIN], loopback)
    assert mirror.tip(MAIN) is None


def test_a_shallow_source_is_said_to_be_shallow(kit, mirror, loopback):
    with servers.GitProxy(kit.out) as remote:
        url = remote.url_of("source-shallow.git")
        result = mirror.fetch(Remote.parse(url), [MAIN], loopback)
    assert result.shallow


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options", "error"),
    [
        (servers.StallAfterAccept, None, RemoteTimeout),
        (servers.StallAfterHeaders, {}, RemoteTimeout),
        (servers.StallMidPack, {}, RemoteTimeout),
        (servers.DripPack, {}, RemoteTimeout),
        (servers.DripRefs, {}, RemoteTimeout),
        (servers.EndlessRefs, {}, GitFailure),
        (servers.EndlessProgress, {}, RemoteTimeout),
        (servers.EndlessPack, {}, LimitHit),
        (servers.EndlessHeaders, None, RemoteMalformed),
        pytest.param(servers.GzipBomb, {"inflated": 1 << 30}, LimitHit, marks=pytest.mark.slow),
        (servers.ResetMidPack, {}, RemoteUnreachable),
        (servers.LyingLength, {}, RemoteMalformed),
        (servers.BadPktLines, {}, RemoteMalformed),
        (servers.WrongType, {}, RemoteMalformed),
        (servers.Failing, {"times": 9}, RemoteUnreachable),
        (servers.Failing, {"times": 9, "status": 503}, RemoteThrottled),
        (servers.Failing, {"times": 9, "status": 401}, AuthenticationFailed),
        (servers.Failing, {"times": 1, "where": "upload-pack"}, RemoteUnreachable),
        (servers.Unfetchable, {"how": "error"}, RemoteMalformed),
        (servers.Unfetchable, {"how": "other"}, RemoteMalformed),
        (servers.Unfetchable, {"how": "empty"}, RemoteMalformed),
        (servers.Unfetchable, {"how": "close"}, RemoteMalformed),
        *((servers.GarbagePack, {"kind": kind}, GitFailure) for kind in servers.BAD_PACKS),
    ],
)
def test_misbehaving_servers(kit, mirror, loopback, kind, options, error):
    args = [] if options is None else [kit.path("path-colon")]
    # only servers without an end need the short deadline; a busy machine may make others slow
    limits = SHORT if error in (RemoteTimeout, GitFailure) else PATIENT
    begun = time.monotonic()
    with kind(*args, **(options or {})) as remote, pytest.raises(error) as caught:
        mirror.fetch(Remote.parse(remote.url), [MAIN], loopback, limits)
    assert time.monotonic() - begun < limits.seconds + 4
    assert caught.value.message.isprintable()
    if kind is servers.Unfetchable:
        assert caught.value.transient
    assert mirror.tip(MAIN) is None
    assert sum(f.stat().st_size for f in mirror.path.rglob("*") if f.is_file()) < 2 * MIB
    assert eventually(lambda: not processes(str(mirror.path)))


def test_the_mirror_works_after_any_failure(kit, mirror, loopback):
    repo = kit.path("path-colon")
    with servers.ResetMidPack(repo) as remote, pytest.raises(RemoteUnreachable):
        mirror.fetch(Remote.parse(remote.url), [MAIN], loopback)
    with servers.Remote(repo) as remote:
        result = mirror.fetch(Remote.parse(remote.url), [MAIN], loopback)
    assert result.tips == {MAIN: kit.cases["path-colon"]["tip"]}


@pytest.mark.parametrize("only_post", [False, True])
def test_redirects_are_not_followed(kit, mirror, loopback, only_post):
    with (
        servers.Catcher() as catcher,
        servers.Redirect(
            to=catcher.origin, only_post=only_post, repo=kit.path("path-colon")
        ) as remote,
    ):
        with pytest.raises(RemoteMoved):
            mirror.fetch(Remote.parse(remote.url), [MAIN], loopback)
        assert catcher.connections == 0
        remote.inner._loop.close()


def test_a_history_over_the_limit_is_fetched_shallow(mirror, upstream, loopback):
    work, remote, _ = upstream
    for n in range(4):
        (work / "blob").write_bytes(os.urandom(2 * MIB))
        commit(work, {"n": str(n)})
    tip = git("rev-parse", "HEAD", cwd=work)
    git("push", "-q", "origin", "main", cwd=work)
    limits = FetchLimits(pack_bytes=5 * MIB, depth=2)
    result = mirror.fetch(remote, [MAIN], loopback, limits)
    assert result.tips == {MAIN: tip} and result.shallow and mirror.is_shallow()
    assert git("rev-list", "--count", tip, cwd=mirror.path) == "2"
    sha = commit(work, {"n": "5"})
    git("push", "-q", "origin", "main", cwd=work)
    again = mirror.fetch(remote, [MAIN], loopback, limits)
    assert again.tips == {MAIN: sha} and again.shallow
    assert is_ancestor(mirror.path, Sha(tip), Sha(sha))


def test_a_cancelled_turn_ends_its_fetch(kit, mirror, loopback):
    stop = threading.Event()
    held = dataclasses.replace(mirror, guard=Guard(cancel=stop))
    with servers.StallMidPack(kit.path("path-colon")) as remote:
        threading.Timer(0.3, stop.set).start()
        begun = time.monotonic()
        with pytest.raises(FetchFailed, match="cancelled"):
            held.fetch(Remote.parse(remote.url), [MAIN], loopback)
    assert time.monotonic() - begun < 4


def test_the_children_of_a_fetch_hold_the_lock(kit, tmp_path, loopback):
    lock = RepoLock(tmp_path / "m.git")
    fd = lock.take()
    mirror = Mirror(tmp_path / "m.git", Guard(lock_fd=fd))
    mirror.ensure()
    with servers.StallMidPack(kit.path("path-colon")) as remote:
        url = remote.url
        thread = threading.Thread(
            target=lambda: pytest.raises(RemoteTimeout, mirror.fetch, *(
                Remote.parse(url), [MAIN], loopback, SHORT))
        )  # fmt: skip
        thread.start()
        assert eventually(lambda: processes("index-pack"))
        os.close(fd)
        with pytest.raises(GitFailure):
            lock.take()
        thread.join()
    os.close(lock.take(wait=3))


def test_leftovers_of_a_killed_git_are_removed(mirror, upstream, loopback):
    work, remote, _ = upstream
    sha = mirror.fetch(remote, [MAIN], loopback).tips[MAIN]
    packs = mirror.path / "objects/pack"
    [good] = packs.glob("*.pack")
    for path in (
        mirror.path / "HEAD.lock",
        mirror.path / "packed-refs.lock",
        mirror.path / "shallow.lock",
        mirror.path / "refs/gitsync/tips/x.lock",
        packs / "tmp_pack_1",
        packs / "tmp_idx_1",
        packs / "pack-1234.pack",
        packs / "pack-1234.keep",
        mirror.path / "objects/tmp_objdir-incoming-1/pack/x",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert mirror.cleanup_leftovers() == 9
    assert mirror.cleanup_leftovers() == 0
    assert good.exists() and read_commit(mirror.path, sha)
    commit(work, {"z": "1"})
    git("push", "-q", "origin", "main", cwd=work)
    assert mirror.fetch(remote, [MAIN], loopback).tips[MAIN] != sha


def test_pins_are_for_what_no_tip_reaches(mirror, upstream, loopback):
    work, remote, _ = upstream
    old = mirror.fetch(remote, [MAIN], loopback).tips[MAIN]
    newer = commit(work, {"a": "1"})
    git("push", "-q", "origin", "main", cwd=work)
    mirror.fetch(remote, [MAIN], loopback)
    mirror.keep([old, newer])
    assert "kept" not in git("for-each-ref", cwd=mirror.path)
    git("commit", "-q", "--amend", "-m", "other", cwd=work)
    git("push", "-q", "-f", "origin", "main", cwd=work)
    mirror.fetch(remote, [MAIN], loopback)
    mirror.keep([old, newer])
    mirror.keep([old, newer])
    assert f"refs/gitsync/kept/{newer}" in git("for-each-ref", cwd=mirror.path)
    mirror.pack_refs()
    mirror.gc(prune="now")
    assert has_commit(mirror.path, newer) and mirror.loose_weight() == 1
    mirror.keep([old])
    mirror.gc(prune="now")
    assert not has_commit(mirror.path, newer) and has_commit(mirror.path, old)
    with pytest.raises(ObjectMissing):
        mirror.keep(["1" * 40])


def test_a_lost_mirror_comes_back_from_packs(tmp_path, mirror, upstream, loopback):
    work, remote, _ = upstream
    shas = [mirror.fetch(remote, [MAIN], loopback).tips[MAIN]]
    packs = [b"".join(mirror.export_pack(shas))]
    for n in range(3):
        shas.append(Sha(commit(work, {"n": str(n)})))
        git("push", "-q", "origin", "main", cwd=work)
        mirror.fetch(remote, [MAIN], loopback)
        packs.append(b"".join(mirror.export_pack(shas[-1:], shas[-2:-1])))
    assert all(len(p) < 400 for p in packs[1:])
    assert packs[1] == b"".join(export_pack(mirror.path, shas[1:2], shas[:1]))
    mirror.remove()
    assert not mirror.path.exists()
    mirror.rebuild([p] for p in packs)
    for n, sha in enumerate(shas[1:]):
        assert open_commit(mirror.path, sha).read("n", limit=9) == str(n).encode()
    mirror.keep(shas)
    mirror.check()
    with pytest.raises(RepositoryCorrupt):
        mirror.rebuild([[packs[0][:-5]]])


def test_a_damaged_mirror_says_so(mirror, upstream, loopback):
    work, remote, _ = upstream
    mirror.fetch(remote, [MAIN], loopback)
    [pack] = (mirror.path / "objects/pack").glob("*.pack")
    [index] = (mirror.path / "objects/pack").glob("*.idx")
    pack.unlink()
    index.unlink()
    with pytest.raises(RepositoryCorrupt):
        mirror.check()
    # what the remote still has comes back by itself
    mirror.fetch(remote, [MAIN], loopback)
    mirror.check()
    (mirror.path / "HEAD").write_text("rubbish")
    with pytest.raises(RepositoryCorrupt):
        mirror.fetch(remote, [MAIN], loopback)


@pytest.mark.slow
def test_a_killed_fetch_leaves_a_mirror_that_works(tmp_path, mirror, loopback):
    work = checkout(tmp_path / "up/work")
    (work / "blob").write_bytes(os.urandom(30 * MIB))
    sha = commit(work, {})
    git("clone", "-q", "--bare", str(work), str(tmp_path / "up/demo.git"))
    with proxy_apart(tmp_path / "up") as origin:
        url = f"{origin}/demo.git"
        code = (
            "from pathlib import Path\n"
            "from gitsync.git.address import AddressPolicy\n"
            "from gitsync.git.mirror import Mirror\n"
            "from gitsync.git.remote import Network, Remote\n"
            f"Mirror(Path({str(mirror.path)!r})).fetch(Remote.parse({url!r}), [{MAIN!r}],\n"
            "    Network(policy=AddressPolicy.of(['127.0.0.1'])))\n"
        )
        for pause in (0.0, 0.05, 0.1, 0.2):
            server = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
            eventually(lambda: list((mirror.path / "objects/pack").iterdir()), seconds=3)
            time.sleep(pause)
            server.kill()
            server.wait()
            for pid in processes(str(mirror.path)):
                os.kill(pid, 9)
            assert eventually(lambda: not processes(str(mirror.path)))
            mirror.cleanup_leftovers()
        assert mirror.fetch(Remote.parse(url), [MAIN], loopback).tips[MAIN] == sha
    mirror.check()
