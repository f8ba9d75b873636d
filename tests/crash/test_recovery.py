"""What a start puts right, and what a bug in a turn does to those who wait."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from contextlib import contextmanager

import pytest

from gitsync import quickstart
from gitsync.settings import Settings
from gitsync.store import objects, turns
from gitsync.web.server import start
from tests.crash.service import eventually
from tests.live import QUIET, Live, live_server, workspace_files

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


@contextmanager
def stopped_at(folder, at, **settings):
    """A server in this process whose points call `at`."""
    data_dir, scratch = folder / "data", folder / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    running = start(Settings(**{**QUIET, "data_dir": data_dir, **settings}), at=at)
    try:
        yield Live(running, quickstart.prepare_admin(running.instance), data_dir, scratch)
    finally:
        running.stop()


@pytest.mark.slow
def test_a_bug_in_a_turn_is_told_and_tried_again(tmp_path):
    broken = True

    def at(point: str) -> None:
        if point == "inspect.begin" and broken:
            raise RuntimeError("a bug")

    with stopped_at(tmp_path, at, backoff_max_s=0.5) as live:
        workspace = live.create()
        checkout = live.checkout(workspace)
        sha = checkout.commit(workspace_files())
        checkout.push()
        status = live.status(workspace, sha)
        assert status["state"] == "error" and "operator's log" in status["reason"]
        now = live.get(f"/workspaces/{workspace['id']}")
        assert now["last_error"]["code"] == "INTERNAL" and now["last_error"]["transient"]
        broken = False
        eventually(lambda: live.status(workspace, sha, wait=0)["state"] == "published", seconds=30)


def test_a_workspace_that_is_deleted_while_its_pack_is_stored_leaves_nothing(tmp_path):
    """The pack of an embedded repository follows the publish: by then nobody may want it."""

    def at(point: str) -> None:
        if point == "pack.late":
            live.post(f"/workspaces/{workspace['id']}/disconnect")
            assert live.call("DELETE", f"/workspaces/{workspace['id']}").status_code == 204
        reached.add(point)

    reached: set[str] = set()
    with stopped_at(tmp_path, at) as live:
        workspace = live.create()
        checkout = live.checkout(workspace)
        checkout.commit(workspace_files())
        checkout.push()
        eventually(lambda: {"pack.late", "turn.ended"} <= reached)
        stored = (live.data_dir / "artifacts").rglob("*.pack")
        assert [p for p in stored if workspace["id"] in str(p)] == []


def test_the_lease_of_a_turn_that_does_not_run_is_not_renewed(tmp_path):
    with live_server(tmp_path) as live:
        one, two = live.create()["id"], live.create()["id"]
        database = live.running.instance.database
        live.running.engine.stop()
        with database.write() as db:
            for workspace_id in (one, two):
                turns.take_over(db, None)
                turns.bump(db, workspace_id)
            taken = [turns.take(db, w, owner="me", lease_s=0.2) for w in (one, two)]
            assert all(taken)
            assert turns.renew(db, [one], owner="me", lease_s=60) == 1
        time.sleep(0.4)
        with database.write() as db:
            assert turns.take(db, one, owner="other", lease_s=1) is None
            assert turns.take(db, two, owner="other", lease_s=1) is not None


def test_a_repetition_after_a_crash_is_not_told_that_it_still_runs(tmp_path):
    body = {"name": "twice"}
    with live_server(tmp_path) as live:
        caller = live.get("/whoami")
        instance = live.running.instance
        sent = json.dumps(body).encode()
        key = instance.sealer.derive("idempotency")
        with instance.database.write() as db:
            objects.begin_idempotent(
                db,
                user_id=caller["user"]["id"],
                method="POST",
                path="/api/v1/workspaces",
                key="k1",
                body_hash=hmac.new(key, sent, hashlib.sha256).hexdigest(),
                boot="boot_of_a_dead_one",
                now=instance.now(),
            )
        more = {"headers": {"Idempotency-Key": "k1", "Content-Type": "application/json"}}
        running = live.call("POST", "/workspaces", content=sent, **more)
        assert running.json()["code"] == "IN_PROGRESS"
    with live_server(tmp_path) as live:
        first = live.call("POST", "/workspaces", content=sent, **more)
        again = live.call("POST", "/workspaces", content=sent, **more)
        assert first.status_code == again.status_code == 201
        assert first.json()["id"] == again.json()["id"]


def test_stored_objects_that_no_row_names_go_after_a_day(tmp_path):
    with live_server(tmp_path) as live:
        workspace = live.create()
        checkout = live.checkout(workspace)
        sha = checkout.commit(workspace_files())
        checkout.push()
        assert live.status(workspace, sha)["state"] == "published"
    store = tmp_path / "data" / "artifacts"
    needed = [p for p in store.rglob("*") if p.is_file()]
    old = store / "artifacts" / "ab" / ("ab" * 32 + ".tar")
    young = store / "packs" / workspace["id"] / "000009-young.pack"
    for path in (old, young):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    two_days_ago = time.time() - 2 * 86400
    for path in (old, *needed):
        os.utime(path, (two_days_ago, two_days_ago))
    with live_server(tmp_path) as live:
        assert not old.exists() and young.exists()
        assert all(path.exists() for path in needed)


@pytest.mark.slow
def test_cleaning_up_takes_nothing_that_a_version_needs(scene):
    """P18: killed between the mark, the object and the row; the same content can come back."""
    other = scene.service.post("/workspaces", {"name": "other"})
    origin = scene.origin
    url = other["clone_url"].replace("://", f"://x:{scene.service.token}@")
    origin.git("remote", "add", "other", url)
    origin.git("checkout", "-q", "-b", "side")
    sha = origin.commit({"rollouts/demo/main.py": "# only here\n" + _main(origin)})
    origin.git("push", "-q", "other", "HEAD:refs/heads/main")
    manifest = scene.service.get(f"/workspaces/{other['id']}/versions/{sha}")
    digest = manifest["rollouts"][0]["digest"]
    stored = scene.service.data / "artifacts" / "artifacts" / digest[:2] / f"{digest}.tar"
    assert stored.exists()
    origin.git("checkout", "-q", "main")
    path = f"/workspaces/{other['id']}"
    scene.service.post(f"{path}/disconnect")
    assert scene.service.call("DELETE", path).status_code == 204
    for point in ("sweep.marked", "sweep.deleted"):
        scene.service.arm(point)
        scene.service.upkeep()
        assert scene.service.reached() == point
        scene.kill(group=point == "sweep.marked")
        assert stored.exists() is (point == "sweep.marked")
        scene.service.start()
        scene.check()
    scene.service.upkeep(wait=True)
    with scene.database() as db:
        rows = db.execute("SELECT digest FROM artifacts WHERE digest = ?", (digest,)).fetchall()
    assert rows == [] and not stored.exists()
    again = scene.service.post("/workspaces", {"name": "again"})
    origin.git(
        "push",
        "-q",
        again["clone_url"].replace("://", f"://x:{scene.service.token}@"),
        "side:refs/heads/main",
    )
    assert scene.service.status(again, sha)["live"] and stored.exists()
    scene.check()


def _main(origin) -> str:
    return (origin.work / "rollouts/demo/main.py").read_text()
