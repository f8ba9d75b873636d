"""Waiting readers: prompt, bounded, and free for everybody else (decision 26)."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from gitsync.web import auth
from tests.live import GOOD_MAIN, live_server, workspace_files

pytestmark = pytest.mark.slow  # CI and `make test-all` run it

NOBODY = "1" * 40


def test_a_wait_ends_within_a_moment_of_the_commit(live):
    from gitsync.store import commits

    workspace = live.create()
    path = f"/workspaces/{workspace['id']}/syncs/{workspace['sync_id']}"
    assert live.get(path, params={"wait": 20})["status"] == "success"
    instance = live.running.instance
    sha = "2" * 40
    state = commits.CommitState
    with instance.database.write() as db:
        commits.put_commit(db, workspace["id"], sha, state.QUEUED, now=instance.now())
    delays = []
    for number in range(5):
        found = []
        thread = threading.Thread(
            target=lambda found=found: found.append(
                (live.status(workspace, sha, wait=20), time.monotonic())
            )
        )
        thread.start()
        time.sleep(0.25)
        with instance.database.write() as db:
            commits.put_commit(
                db, workspace["id"], sha, state.ERROR, reason=f"n {number}", now=instance.now()
            )
        done = time.monotonic()
        thread.join(20)
        begin = time.monotonic()
        live.get("/whoami")
        usual = time.monotonic() - begin
        ((status, at),) = found
        assert status["state"] == "error" and status["reason"] == f"n {number}"
        delays.append(at - done - 2 * usual)  # a request alone takes longer on a busy machine
        with instance.database.write() as db:
            commits.put_commit(db, workspace["id"], sha, state.QUEUED, now=instance.now())
    assert min(delays) < 0.1, delays


def test_a_wait_answers_in_time_when_nothing_happens(live, published):
    begin = time.monotonic()
    status = live.status(published.workspace, NOBODY, wait=0.5)
    assert status["state"] == "unknown" and 0.4 < time.monotonic() - begin < 5


def test_a_settled_commit_needs_no_waiting(live, published):
    begin = time.monotonic()
    assert live.status(published.workspace, published.good, wait=60)["state"] == "published"
    assert time.monotonic() - begin < 5


def test_waiting_for_a_sync(live):
    workspace = live.create()
    path = f"/workspaces/{workspace['id']}/syncs/{workspace['sync_id']}"
    sync = live.get(path, params={"wait": 20})
    assert (sync["status"], sync["outcome"]) == ("success", "waiting")
    assert sync["error"]["code"] == "NO_COMMITS" and sync["trigger"] == "connect"
    assert sync["finished_at"] >= sync["started_at"] >= sync["requested_at"]


def test_a_reader_who_waits_makes_the_service_look(live):
    """Decision 17: a push nobody told us of is found because somebody waits for it."""
    workspace = live.create()
    checkout = live.checkout(workspace)
    first = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, first)["state"] == "published"
    repo = live.data_dir / "repos" / f"{workspace['id']}.git"
    sha = checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + "# quiet\n"})
    checkout.push("-q", str(repo), "HEAD:refs/heads/main")  # behind the server's back
    time.sleep(2.1)  # a reader may ask for one look in two seconds
    assert live.status(workspace, sha, wait=25)["state"] == "published"


def test_a_token_may_wait_twenty_times_at_once(live):
    workspace = live.create()
    one, other = (live.post("/tokens", {"name": name})["secret"] for name in ("one", "other"))
    asyncio.run(_crowd_of_waiters(live, workspace, one, other))


async def _crowd_of_waiters(live, workspace, one, other) -> None:
    url = f"{live.url}/api/v1/workspaces/{workspace['id']}/commits/{NOBODY}"
    headers = {"Authorization": f"Bearer {one}"}
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=30, limits=limits) as http:
        waits = [
            asyncio.create_task(http.get(url, params={"wait": 2}, headers=headers))
            for _ in range(30)
        ]
        await asyncio.sleep(0.8)
        extra = await http.get(url, params={"wait": 2}, headers=headers)
        assert extra.status_code == 429 and extra.json()["code"] == "RATE_LIMITED"
        assert int(extra.headers["retry-after"]) >= 1
        free = await http.get(url, params={"wait": 0}, headers=headers)
        assert free.status_code == 200
        mine = {"Authorization": f"Bearer {other}"}
        assert (await http.get(url, params={"wait": 0.1}, headers=mine)).status_code == 200
        codes = sorted(answer.status_code for answer in await asyncio.gather(*waits))
        assert codes == [200] * 20 + [429] * 10
        again = await http.get(url, params={"wait": 0.1}, headers=headers)
        assert again.status_code == 200


@pytest.mark.slow
def test_a_hundred_waiting_readers_leave_the_server_free(live, published):
    tokens = [live.post("/tokens", {"name": f"w{n}"})["secret"] for n in range(5)]
    asyncio.run(_a_hundred(live, published, tokens))


async def _a_hundred(live, published, tokens) -> None:
    url = f"{live.url}/api/v1{published.path}/commits/{NOBODY}"
    limits = httpx.Limits(max_connections=200)
    before = threading.active_count()
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=30, limits=limits) as http:
        waits = [
            asyncio.create_task(
                http.get(url, params={"wait": 2}, headers={"Authorization": f"Bearer {token}"})
            )
            for token in tokens
            for _ in range(20)
        ]
        await asyncio.sleep(0.8)
        pool = live.running.instance.database.engine.pool
        took = []
        for _ in range(20):
            begin = time.monotonic()
            assert (await http.get(f"{live.url}/healthz")).status_code == 200
            took.append(time.monotonic() - begin)
        assert sorted(took)[10] < 0.1, took
        assert pool.checkedout() < 10  # no connection is held by those who wait
        assert threading.active_count() - before < 60  # nor a thread
        codes = {answer.status_code for answer in await asyncio.gather(*waits)}
        assert codes == {200}


def test_waits_end_in_order_when_the_server_stops(tmp_path):
    with live_server(tmp_path) as live:
        workspace, found = live.create(), []
        first = f"/workspaces/{workspace['id']}/syncs/{workspace['sync_id']}"
        assert live.get(first, params={"wait": 20})["status"] == "success"
        after = live.get("/events", params={"after": 0})["last_id"]
        threads = [
            threading.Thread(target=lambda p=path: found.append(live.call("GET", p)))
            for path in (
                f"/workspaces/{workspace['id']}/commits/{NOBODY}?wait=50",
                f"/events?after={after}&wait=50",
            )
        ]
        for thread in threads:
            thread.start()
        time.sleep(1.0)
        begin = time.monotonic()
    for thread in threads:
        thread.join(20)
    assert time.monotonic() - begin < 15
    assert sorted(answer.status_code for answer in found) == [200, 200]


def test_waits_of_many_threads_are_counted_right():
    waits = auth.Waits(most=1_000)

    def come_and_go(_):
        for _ in range(3_000):
            waits.enter("tk_1")
            waits.leave("tk_1")

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(come_and_go, range(8)))
    finally:
        sys.setswitchinterval(before)
    assert waits._open == {}
