"""`kill -9` at every named point: nothing lost, nothing half-published, nothing doubled."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from tests.crash.scene import SETTINGS, Scene
from tests.crash.service import Service, eventually
from tests.hostile_runs import kit

# point: the kit's number for it
POINTS = {
    "delivery.verified": "P2",
    "delivery.transaction": "P3",
    "delivery.committed": "P4",
    "turn.wanted": "P5",
    "turn.taken": "P6",
    "look.begin": "P6",
    "look.done": "P7",
    "fetch.start": "P8",
    "fetch.stored": "P10",
    "fetch.kept": "P10",
    "inspect.begin": "P11",
    "artifacts.built": "P13",
    "artifacts.stored": "P14",
    "pack.stored": "P14",
    "publish.begin": "P14",
    "publish.version": "P15",
    "publish.written": "P15",
    "publish.committed": "P16",
    "turn.ended": "P17",
}
MOVES = ("commit", "force", "unrelated")


def kill_at(scene: Scene, point: str, *, group: bool, move: str | None) -> None:
    """Bring the service to the point, kill it there, move the remote, start, look, start again."""
    scene.move("commit")
    scene.service.arm(point)
    sender = scene.deliver_later()
    assert scene.service.reached() == point, f"{point} was not reached"
    left = scene.kill(group=group)
    sender.join(20)
    if move:
        scene.move(move)
    scene.service.start()
    scene.check()
    scene.wait_gone(left)
    scene.restart_quietly()


def test_a_kill_in_the_publish_transaction_is_survived(scene):
    kill_at(scene, "publish.written", group=True, move=None)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_kills_at_a_named_point_are_survived(scene, point):
    number = list(POINTS).index(point)
    kill_at(scene, point, group=False, move=MOVES[number % 3])
    kill_at(scene, point, group=True, move=None)


@pytest.mark.slow
def test_p1_half_a_body_promises_nothing(scene):
    import socket
    from urllib.parse import urlsplit

    before = scene.snapshot()["rows"]
    scene.move("commit")
    where = urlsplit(scene.workspace["webhook"]["url"])
    with socket.create_connection((where.hostname, where.port), 10) as sock:
        head = f"POST {where.path} HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Length: 5000\r\n\r\n"
        sock.sendall(head.encode() + b"x" * 2000)
        time.sleep(0.3)
        scene.kill(group=True)
    assert scene.snapshot()["rows"]["deliveries"] == before["deliveries"]
    scene.service.start()
    scene.check()


@pytest.mark.slow
def test_p4_the_same_delivery_sent_again_is_one_row_and_one_version(scene):
    import webhook_clients as hooks

    tip = scene.move("commit")
    target = hooks.Target(
        scene.workspace["webhook"]["url"],
        scene.workspace["webhook"]["secret"],
        clone_url=scene.host.url_of("acme/demo.git"),
        after=tip,
    )
    item = hooks.delivery(target, hooks.payload(target), number=42)
    scene.service.arm("delivery.committed")
    import threading

    thread = threading.Thread(target=hooks.send, args=(target, item), daemon=True)
    thread.start()
    assert scene.service.reached() == "delivery.committed"
    scene.kill(group=True)
    thread.join(20)
    scene.service.start()
    assert hooks.send(target, item).status == 202
    scene.check()
    listed = scene.service.get(f"/workspaces/{scene.workspace['id']}/deliveries")["items"]
    assert [d["times"] for d in listed] == [2]
    assert listed[0]["outcome"] == "published" or listed[0]["settled_at"]


@pytest.mark.slow
@pytest.mark.parametrize("group", [True, False])
def test_p7_a_kill_while_the_remote_is_asked(scene, group):
    scene.host.hold()
    scene.move("commit")
    scene.deliver()
    eventually(lambda: scene.host.in_flight)
    left = scene.kill(group=group)
    scene.host.release()
    scene.service.start()
    scene.check()
    scene.wait_gone(left)
    scene.restart_quietly()


@pytest.mark.slow
@pytest.mark.parametrize("group", [True, False])
def test_p8_a_kill_while_a_pack_arrives(scene, group):
    mirror = scene.service.data / "mirrors" / f"{scene.workspace['id']}.git" / "objects/pack"
    scene.host.slow.add("acme/demo.git")
    scene.move("commit")
    scene.origin.bare("repack", "-adq")
    scene.deliver()
    half = eventually(lambda: list(mirror.glob("tmp_pack_*")), what="a half pack")
    left = scene.kill(group=group)
    assert half[0].exists(), "the marker: half a pack was on disk"
    assert bool(left) is not group, "alone, the leader leaves its git children behind"
    scene.host.slow.clear()
    scene.service.start()
    scene.check()
    scene.wait_gone(left)
    scene.restart_quietly()


@pytest.mark.slow
def test_p9_a_kill_between_the_pack_and_its_ref(scene):
    repo = scene.service.data / "mirrors" / f"{scene.workspace['id']}.git"
    packs = set((repo / "objects/pack").glob("*.idx"))
    # git waits for the lock of the ref; a folder is a lock that no clean-up takes away
    kit.git(f"--git-dir={repo}", "config", "core.filesRefLockTimeout", "-1")
    ref = kit.git(f"--git-dir={repo}", "for-each-ref", "--format=%(refname)").split()[0]
    held = repo / f"{ref}.lock"
    held.mkdir(parents=True)
    tip = scene.move("commit")
    scene.deliver()
    eventually(lambda: set((repo / "objects/pack").glob("*.idx")) > packs, what="a new pack")
    left = scene.kill(group=True)
    refs = kit.git(f"--git-dir={repo}", "for-each-ref", "--format=%(objectname)")
    assert tip not in refs.split(), "the marker: the pack is there without its ref"
    held.rmdir()
    scene.service.start()
    scene.check()
    scene.wait_gone(left)
    scene.restart_quietly()


@pytest.mark.slow
@pytest.mark.parametrize("status", [500, 404])
def test_p19_a_kill_while_a_failure_is_recorded(scene, status):
    scene.host.before = lambda _request: status
    good = scene.service.served(scene.workspace)
    scene.move("commit")
    scene.service.arm("failure.recording")
    scene.deliver()
    assert scene.service.reached() == "failure.recording"
    scene.kill(group=True)
    scene.service.start()
    eventually(lambda: scene.service.workspace(scene.workspace)["last_error"])
    assert scene.service.served(scene.workspace) == good
    scene.host.before = None
    if status == 404:  # waits for a person
        scene.service.sync(scene.workspace)
    scene.check()
    scene.restart_quietly()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["release", "leader", "group"])
@pytest.mark.parametrize("move", ["commit", "force"])
def test_p20_p21_a_push_during_a_sync_is_looked_at(scene, how, move):
    scene.move("commit")
    scene.service.arm("fetch.start" if move == "commit" else "inspect.begin")
    scene.deliver()
    assert scene.service.reached()
    scene.move(move)
    assert scene.deliver() == 202
    if how == "release":
        scene.service.disarm()
    else:
        scene.kill(group=how == "group")
        scene.service.start()
    scene.check()
    scene.restart_quietly()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["release", "group"])
def test_p22_a_disconnect_during_a_sync_refuses_its_publish(scene, how):
    good = scene.service.served(scene.workspace)
    late = scene.move("commit")
    scene.service.arm("publish.begin")
    scene.deliver()
    assert scene.service.reached() == "publish.begin"
    path = f"/workspaces/{scene.workspace['id']}"
    assert scene.service.post(f"{path}/disconnect")["state"] == "disconnected"
    if how == "release":
        scene.service.disarm()
    else:
        scene.kill(group=True)
        scene.service.start()
    time.sleep(1.0)
    now = scene.service.workspace(scene.workspace)
    assert now["state"] == "disconnected" and not now["is_waiting"]
    assert scene.service.served(scene.workspace) == good
    assert scene.service.call("GET", f"{path}/versions/{late}").status_code == 404
    assert scene.service.call("GET", f"{path}/versions/{good}").status_code == 200
    with closing(scene.database()) as db:
        assert db.execute("SELECT count(*) FROM credentials").fetchone() == (0,)
        assert db.execute(
            "SELECT count(*) FROM syncs WHERE status IN ('pending', 'syncing')"
        ).fetchone() == (0,)


@pytest.mark.slow
def test_p23_polls_go_on_after_a_kill_between_time_and_request(tmp_path, host):
    with Scene(tmp_path, host, poll_interval_s=1.0) as scene:
        scene.service.arm("poll.computed")
        assert scene.service.reached() == "poll.computed"
        scene.kill(group=True)
        tip = scene.move("commit")
        scene.service.start()
        eventually(lambda: scene.service.served(scene.workspace) == tip, what="a poll finds it")
        tip = scene.move("commit")
        eventually(lambda: scene.service.served(scene.workspace) == tip, what="and the next one")


@pytest.mark.slow
def test_p24_a_kill_while_the_schema_is_made(tmp_path):
    service = Service(tmp_path, **SETTINGS)
    service.arm("migration.written")
    service.start(wait=False)
    assert service.reached() == "migration.written"
    service.kill()
    service.disarm()
    with service:
        assert service.get("/workspaces")["items"] == []


@pytest.mark.slow
def test_a_crash_loop_is_no_fetch_loop(scene):
    """I12: failures and pauses are rows; each start may look once, not more."""
    scene.host.before = lambda _request: 500
    scene.move("commit")
    scene.deliver()
    eventually(lambda: scene.service.workspace(scene.workspace)["last_error"])
    with closing(scene.database()) as db:
        first = db.execute("SELECT failures FROM workspaces").fetchone()[0]
    before, begun = scene.host.count(""), time.monotonic()
    for _ in range(8):
        scene.kill(group=True)
        scene.service.start()
    with closing(scene.database()) as db:
        assert db.execute("SELECT failures FROM workspaces").fetchone()[0] >= first
    looks = scene.host.count("") - before
    assert looks <= 8 + 2 * (time.monotonic() - begun) / 0.75, looks
    scene.host.before = None
    scene.check()
