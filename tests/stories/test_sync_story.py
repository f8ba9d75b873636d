"""From a moved remote to what is served: one defined outcome for each, on both stores."""

from __future__ import annotations

import shutil
import threading
import time

import pytest

from tests.crash.service import Service, eventually
from tests.hostile_runs import kit
from tests.hostile_runs.kit import servers
from tests.postgres import fresh_postgres

import webhook_clients as hooks  # isort: skip (from the folder that the kit puts on the path)

FAST = {"backoff_max_s": 1.0, "poll_interval_s": 3600.0, "turn_lease_s": 10.0}


class Town:
    """A service and an honest Git host, shared by the tests of one store."""

    def __init__(self, service: Service, host: kit.Host) -> None:
        self.service, self.host = service, host
        self._count = 0

    def origin(self) -> kit.Origin:
        self._count += 1
        (self.host.root / "acme").mkdir(exist_ok=True)
        return kit.Origin(self.host.root / "acme", f"r{self._count}")

    def connect(self, origin: kit.Origin, url: str | None = None, **more) -> dict:
        name = origin.path.stem
        url = url or self.host.url_of(f"acme/{name}.git")
        self._count += 1
        workspace = self.service.connect(f"{name}-{self._count}", url, **more)
        return workspace

    def published(self, origin: kit.Origin, **more) -> tuple[dict, str]:
        """A workspace with its first commit published."""
        sha = origin.push()
        workspace = self.connect(origin, **more)
        assert self.service.status(workspace, sha)["state"] == "published"
        return workspace, sha

    def deliver(self, workspace: dict, after: str, *, branch: str = "main", name: str = "") -> int:
        """Announce a commit as GitHub does."""
        target = hooks.Target(
            workspace["webhook"]["url"],
            workspace["webhook"]["secret"],
            repo=name or workspace["clone_url"].split("/", 3)[3].removesuffix(".git"),
            branch=branch,
            before="0" * 40,
            after=after,
        )
        return hooks.send(target, hooks.delivery(target, hooks.payload(target))).status

    def branches(self, workspace: dict) -> dict[str, tuple[str, str | None]]:
        found = self.service.workspace(workspace)["branches"]
        return {b["name"]: (b["state"], b["published_sha"]) for b in found}


@pytest.fixture(
    scope="module",
    params=["sqlite", pytest.param("postgres", marks=[pytest.mark.slow, pytest.mark.postgres])],
)
def town(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(f"town-{request.param}")
    root = folder / "root"
    root.mkdir()

    def run(**store):
        with kit.Host(root) as host:
            # odd servers come and go on any port
            settings = {**FAST, "allowed_hosts": ["127.0.0.1"], **store}
            with Service(folder / "service", **settings) as service:
                yield Town(service, host)

    if request.param == "sqlite":
        yield from run()
    else:
        with fresh_postgres() as url:
            yield from run(database_url=url.replace("+psycopg", ""))


def test_names_are_compared_whole(town):
    origin = town.origin()
    workspace, first = town.published(origin, watch="all")
    other = origin.commit({"README.md": "other\n"})
    origin.bare("fetch", "-q", str(origin.work), "+HEAD:refs/heads/refs/heads/main")
    for ref in ("refs/heads/HEAD", "refs/tags/main", "refs/heads/heads/main", "refs/heads/a/b/ü"):
        origin.bare("update-ref", ref, other)
    only_default = town.connect(origin)
    assert town.service.status(only_default, first)["live"]
    assert town.branches(only_default) == {"main": ("live", first)}
    town.service.sync(workspace)
    assert town.branches(workspace) == {
        "main": ("live", first),
        "HEAD": ("live", other),
        "refs/heads/main": ("live", other),
        "heads/main": ("live", other),
        "a/b/ü": ("live", other),
    }


def test_a_renamed_default_branch_is_followed(town):
    origin = town.origin()
    workspace, old = town.published(origin)
    new = origin.commit()
    origin.push("HEAD:refs/heads/trunk", ":refs/heads/main")
    origin.bare("symbolic-ref", "HEAD", "refs/heads/trunk")
    town.service.sync(workspace)
    found = town.branches(workspace)
    assert found["trunk"] == ("live", new)
    assert found["main"][0] != "live" and found["main"][1] == old
    found = town.service.get(f"/workspaces/{workspace['id']}/versions/{old}")
    assert found["commit_sha"] == old and found["rollouts"][0]["digest"]


def test_a_deleted_default_branch_is_told_and_its_versions_stay(town):
    origin = town.origin()
    workspace, old = town.published(origin)
    origin.push("HEAD:refs/heads/feature/x", ":refs/heads/main")
    sync = town.service.sync(workspace)
    assert sync["error"]["code"] == "DEFAULT_BRANCH_GONE"
    assert town.branches(workspace) == {"main": ("gone", old)}
    assert town.service.get(f"/workspaces/{workspace['id']}/versions/{old}")["commit_sha"] == old
    new = origin.push()
    town.service.sync(workspace)
    assert town.branches(workspace)["main"] == ("live", new)


def test_a_branch_that_comes_back_unrelated_takes_no_version_away(town):
    origin = town.origin()
    workspace, old = town.published(origin)
    archive = f"/workspaces/{workspace['id']}/versions/{old}/archive.tar.gz"
    before = kit.tar_content(town.service.call("GET", archive).content)
    origin.push("HEAD:refs/heads/feature/x", ":refs/heads/main")
    town.service.sync(workspace)
    origin.git("checkout", "-q", "--orphan", "anew")
    origin.commit({"README.md": "anew\n"})
    new = origin.push("HEAD:refs/heads/main", ":refs/heads/feature/x")
    town.service.sync(workspace)
    assert town.branches(workspace)["main"] == ("live", new)
    mirror = town.service.data / "mirrors" / f"{workspace['id']}.git"
    kit.git(f"--git-dir={mirror}", "reflog", "expire", "--all", "--expire=now")
    kit.git(f"--git-dir={mirror}", "gc", "-q", "--prune=now")
    assert kit.tar_content(town.service.call("GET", archive).content) == before


def test_stored_packs_bring_every_version_back_when_mirror_and_remote_are_gone(town):
    origin = town.origin()
    workspace, first = town.published(origin)
    shas = [first]
    # a commit that is refused leaves no pack, but the next fetch builds on it
    (origin.work / "out").symlink_to("/etc/hostname")
    refused = origin.push()
    town.service.sync(workspace)
    assert town.service.status(workspace, refused)["state"] == "refused"
    (origin.work / "out").unlink()
    for _ in range(2):
        shas.append(origin.push())
        town.service.sync(workspace)
    origin.git("checkout", "-q", "--orphan", "anew")
    shas.append(origin.push())
    town.service.sync(workspace)
    archives = [f"/workspaces/{workspace['id']}/versions/{s}/archive.tar.gz" for s in shas]
    before = [town.service.call("GET", path).content for path in archives]
    mirror = town.service.data / "mirrors" / f"{workspace['id']}.git"
    shutil.rmtree(mirror)
    shutil.rmtree(origin.path)
    assert [town.service.call("GET", path).content for path in archives] == before
    kit.git(f"--git-dir={mirror}", "fsck", "--strict")
    for sha in shas:
        kit.git(f"--git-dir={mirror}", "rev-list", "--objects", sha)


def test_an_empty_remote_waits_until_the_first_push(town):
    origin = town.origin()
    workspace = town.connect(origin)
    sync = town.service.ended(workspace, workspace["sync_id"])
    assert sync["outcome"] == "waiting" and sync["status"] == "success", sync
    sha = origin.push()
    town.service.sync(workspace)
    assert town.service.served(workspace) == sha


def test_an_unborn_head_beside_another_branch_waits_too(town):
    origin = town.origin()
    origin.commit()
    origin.push("HEAD:refs/heads/develop")
    workspace = town.connect(origin)
    sync = town.service.ended(workspace, workspace["sync_id"])
    assert sync["outcome"] == "waiting" and "main" in sync["error"]["message"]
    sha = origin.push("HEAD:refs/heads/main")
    town.service.sync(workspace)
    assert town.service.served(workspace) == sha


def test_a_force_push_supersedes_and_keeps_the_old_version(town):
    origin = town.origin()
    workspace, first = town.published(origin)
    second = origin.push()
    town.service.sync(workspace)
    origin.git("reset", "-q", "--hard", first)
    third = origin.commit({"README.md": "forced\n"})
    origin.push("+HEAD:refs/heads/main")
    town.service.sync(workspace)
    old = town.service.status(workspace, second)
    assert old["state"] == "published" and not old["live"] and old["superseded_by"] == third
    assert town.service.status(workspace, third)["live"]


@pytest.mark.slow
def test_a_then_b_then_a_serves_a_again(town):
    origin = town.origin()
    workspace, a = town.published(origin)
    b = origin.push()
    town.service.sync(workspace)
    assert town.service.served(workspace) == b
    origin.bare("update-ref", "refs/heads/main", a)
    begun = time.monotonic()
    town.service.sync(workspace)
    assert town.service.served(workspace) == a
    assert time.monotonic() - begun >= 1.9, "a backward move nobody announced is confirmed"
    assert town.service.status(workspace, b)["superseded_by"] == a


def test_an_announced_backward_move_is_taken_at_once(town):
    origin = town.origin()
    workspace, a = town.published(origin, provider="github")
    origin.push()
    town.service.sync(workspace)
    origin.bare("update-ref", "refs/heads/main", a)
    assert town.deliver(workspace, a) == 202
    eventually(lambda: town.service.served(workspace) == a)


@pytest.mark.slow
def test_a_lagging_remote_is_asked_again_until_it_shows_the_push(town):
    origin = town.origin()
    old = origin.push()
    origin.bare("repack", "-adq")
    with servers.LaggingRefs(origin.path, old=old, delay=2.0) as remote:
        workspace = town.connect(origin, remote.url, provider="github")
        assert town.service.status(workspace, old)["state"] == "published"
        new = origin.push()
        origin.bare("repack", "-adq")
        remote.push()
        assert town.deliver(workspace, new, name="repo") == 202
        status = town.service.status(workspace, new)
        assert status["state"] == "published" and status["live"]
        listed = town.service.get(f"/workspaces/{workspace['id']}/deliveries")["items"]
        assert [d["outcome"] for d in listed] == ["published"]


@pytest.mark.slow
def test_a_commit_that_never_shows_is_given_up(town):
    origin = town.origin()
    workspace, tip = town.published(origin, provider="github")
    ghost = "badc0ffe" * 5
    begun = time.monotonic()
    assert town.deliver(workspace, ghost) == 202
    status = town.service.status(workspace, ghost, wait=60)
    assert status["state"] == "unreachable" and 14 < time.monotonic() - begun < 50
    listed = town.service.get(f"/workspaces/{workspace['id']}/deliveries")["items"]
    assert listed[0]["outcome"] == "not_seen" and town.service.served(workspace) == tip


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
def test_a_flapping_remote_ends_at_the_newer_tip(town, first):
    origin = town.origin()
    old = origin.push()
    new = origin.push()
    origin.bare("repack", "-adq")
    with servers.FlappingRefs(origin.path, other=old) as remote:
        remote._turn = first
        workspace = town.connect(origin, remote.url, provider="github")
        town.service.ended(workspace, workspace["sync_id"])
        town.deliver(workspace, new, name="repo")
        eventually(lambda: town.service.served(workspace) == new, seconds=40)
        for _ in range(3):
            town.service.sync(workspace)
            assert town.service.served(workspace) == new, "an older tip replaced the newer one"


def test_a_suspended_workspace_publishes_nothing_until_it_is_resumed(town):
    origin = town.origin()
    workspace, first = town.published(origin, provider="github")
    service, path = town.service, f"/workspaces/{workspace['id']}"
    new = origin.push()
    service.arm("publish.begin")
    town.deliver(workspace, new)
    assert service.reached() == "publish.begin"
    assert service.post(f"{path}/suspend")["state"] == "suspended"
    service.disarm()
    time.sleep(0.5)
    now = service.workspace(workspace)
    assert service.served(workspace) == first and not now["is_waiting"]
    listed = service.get(f"{path}/deliveries")["items"]
    assert listed[0]["outcome"] == "error" and "suspended" in listed[0]["reason"]
    assert town.deliver(workspace, new) == 200, "taken, and told why nothing follows"
    service.post(f"{path}/resume")
    assert service.status(workspace, new)["live"]


def test_all_branches_are_followed_on_request(town):
    origin = town.origin()
    workspace, main = town.published(origin, watch="all")
    side = origin.commit({"README.md": "side\n"})
    origin.push("HEAD:refs/heads/feature/x", "HEAD:refs/heads/feature/y")
    town.service.sync(workspace)
    found = town.branches(workspace)
    assert found["feature/x"] == found["feature/y"] == ("live", side)
    assert found["main"] == ("live", main)
    origin.push(":refs/heads/feature/x")
    town.service.sync(workspace)
    found = town.branches(workspace)
    assert found["feature/x"] == ("gone", side) and found["feature/y"] == ("live", side)
    assert town.service.status(workspace, side)["live"]


def test_a_refused_credential_waits_for_a_person(town, tmp_path):
    with kit.Host(town.host.root, auth=("robin", "first-secret")) as closed:
        origin = town.origin()
        sha = origin.push()
        good = {"kind": "password", "username": "robin", "secret": "first-secret"}
        url = closed.url_of(f"acme/{origin.path.name}")
        workspace = town.connect(origin, url, provider="github", credential=good)
        assert town.service.status(workspace, sha)["live"]
        closed.auth = ("robin", "second-secret")
        new = origin.push()
        town.deliver(workspace, new)
        eventually(lambda: town.service.workspace(workspace)["last_error"])
        error = town.service.workspace(workspace)["last_error"]
        assert error["code"] == "AUTHENTICATION_FAILED" and not error["transient"]
        looks = closed.count("")
        for _ in range(3):  # pushes do not lift it
            assert town.deliver(workspace, new) == 202
        time.sleep(1.0)
        assert closed.count("") == looks, "a refused credential was tried again by itself"
        assert town.service.served(workspace) == sha
        body = {"kind": "password", "username": "robin", "secret": "second-secret"}
        path = f"/workspaces/{workspace['id']}/credential"
        assert town.service.call("PUT", path, json=body).status_code == 200
        eventually(lambda: town.service.served(workspace) == new)


@pytest.mark.slow
def test_retry_after_is_obeyed_though_pushes_come(town):
    origin = town.origin()
    sha = origin.push()
    origin.bare("repack", "-adq")
    with servers.Failing(origin.path, status=429, retry_after="3") as remote:
        workspace = town.connect(origin, remote.url, provider="github")
        eventually(lambda: town.service.workspace(workspace)["last_error"])
        failed = time.monotonic()
        while time.monotonic() - failed < 1.5:
            town.deliver(workspace, sha, name="repo")
            time.sleep(0.3)
        assert remote.count("") == 1, "asked before the time the remote gave"
        assert town.service.status(workspace, sha)["live"]


@pytest.mark.slow
def test_no_push_is_lost_when_fifty_race(town):
    origin = town.origin()
    workspace, _ = town.published(origin, provider="github")
    shas, threads = [], []
    for _ in range(50):
        shas.append(origin.push())
        threads.append(threading.Thread(target=town.deliver, args=(workspace, shas[-1])))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert town.service.status(workspace, shas[-1], wait=60)["live"]
    town.service.idle(workspace)
    states = [town.service.status(workspace, sha, wait=0)["state"] for sha in shas]
    assert set(states) <= {"published", "superseded"}, states
    page = town.service.get(f"/workspaces/{workspace['id']}/deliveries?limit=200")
    assert page["total_count"] == 50
    assert all(d["settled_at"] for d in page["items"])
    assert {d["outcome"] for d in page["items"]} <= {"published", "superseded"}


@pytest.mark.slow
def test_no_native_push_is_lost_when_many_race(town):
    service, origin = town.service, town.origin()
    workspace = service.post("/workspaces", {"name": f"race-{time.time_ns()}", "watch": "all"})
    url = workspace["clone_url"].replace("://", f"://x:{service.token}@")
    origin.git("remote", "set-url", "origin", url)
    shas = [origin.commit({"README.md": f"{n}\n"}) for n in range(20)]
    pushes = [
        threading.Thread(target=origin.push, args=(f"{sha}:refs/heads/b{n}",))
        for n, sha in enumerate(shas)
    ]
    for push in pushes:
        push.start()
    for push in pushes:
        push.join()
    for number, sha in enumerate(shas):
        assert service.status(workspace, sha, wait=60)["live"]
        assert town.branches(workspace)[f"b{number}"] == ("live", sha)
    service.idle(workspace)
    page = service.get(f"/workspaces/{workspace['id']}/deliveries?limit=200")
    assert page["total_count"] == 20 and all(d["settled_at"] for d in page["items"])


@pytest.mark.slow
def test_a_waiting_reader_finds_a_push_that_nothing_announced(town):
    origin = town.origin()
    workspace, _ = town.published(origin)
    time.sleep(2.1)  # a reader may ask for one look in two seconds
    sha = origin.push()
    begun = time.monotonic()
    status = town.service.status(workspace, sha, wait=20)
    assert status["live"] and time.monotonic() - begun < 15


def test_a_name_that_is_no_text_is_not_followed_and_stops_nothing(town):
    service = town.service
    workspace = service.post("/workspaces", {"name": f"odd-{time.time_ns()}", "watch": "all"})
    origin = town.origin()
    url = workspace["clone_url"].replace("://", f"://x:{service.token}@")
    origin.git("remote", "set-url", "origin", url)
    sha = origin.commit()
    origin.push(b"HEAD:refs/heads/caf\xe9".decode("utf-8", "surrogateescape"), "HEAD:main")
    assert service.status(workspace, sha)["live"]
    assert town.branches(workspace) == {"main": ("live", sha)}


@pytest.mark.slow
def test_a_poll_finds_what_a_dropped_webhook_would_have_told(tmp_path):
    root = tmp_path / "root"
    (root / "acme").mkdir(parents=True)
    with kit.Host(root) as host:
        allowed = [f"127.0.0.1:{host.port}"]
        settings = {**FAST, "poll_interval_s": 0.5, "allowed_hosts": allowed}
        with Service(tmp_path / "service", **settings) as service:
            town = Town(service, host)
            origin = town.origin()
            workspace, _ = town.published(origin, provider="github")
            sha = origin.push()
            eventually(lambda: service.served(workspace) == sha)
