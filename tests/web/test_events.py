"""Events: in order, resumable, the same over SSE and as JSON (decision 34)."""

from __future__ import annotations

import json
import threading
import time

import httpx
import pytest

from tests.live import live_server


def read_events(live, *, count: int, token=None, headers=None, params=None, begun=None):
    """The first `count` events of a stream, as (event, id, data)."""
    found, current = [], {}
    headers = {
        "Authorization": f"Bearer {token or live.token}",
        "Accept": "text/event-stream",
        **(headers or {}),
    }
    with (
        httpx.Client(trust_env=False, verify=False, timeout=30) as http,
        http.stream("GET", f"{live.url}/api/v1/events", headers=headers, params=params) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        if begun is not None:
            begun.set()
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if line == "":
                if "data" in current:
                    data = json.loads(current["data"])
                    found.append((current.get("event"), int(current["id"]), data))
                current = {}
                if len(found) >= count:
                    return found
            elif name:
                current[name] = value
    return found


def _last(live) -> int:
    after = 0
    while True:
        page = live.get("/events", params={"after": after})
        if not page["items"]:
            return page["last_id"]
        after = page["last_id"]


def idle(live) -> dict:
    """A workspace of which nothing is heard unless somebody does something."""
    workspace = live.create()
    path = f"/workspaces/{workspace['id']}/syncs/{workspace['sync_id']}"
    assert live.get(path, params={"wait": 20})["status"] == "success"
    return workspace


def test_a_stream_tells_what_happens_in_order(live):
    workspace, begun, found = idle(live), threading.Event(), []
    only = {"workspace": workspace["id"]}
    thread = threading.Thread(
        target=lambda: found.extend(read_events(live, count=3, begun=begun, params=only)),
        daemon=True,
    )
    thread.start()
    assert begun.wait(20)
    time.sleep(0.1)
    for what in ("suspend", "resume"):
        live.post(f"/workspaces/{workspace['id']}/{what}")
    thread.join(30)
    ids = [number for _, number, _ in found]
    assert len(found) == 3 and ids == sorted(set(ids))
    kinds = [event for event, _, _ in found]
    assert kinds == ["workspace.changed", "workspace.changed", "sync.finished"]
    for event, number, data in found:
        assert (data["type"], data["id"]) == (event, number)
        assert data["workspace_id"] == workspace["id"]


def test_json_gives_the_same_as_the_stream(live):
    workspace = idle(live)
    only = {"workspace": workspace["id"]}
    begin = live.get("/events", params=only | {"after": 0})["items"][0]["id"] - 1
    page = live.get("/events", params=only | {"after": begin})
    kinds = [item["type"] for item in page["items"]]
    assert kinds == ["workspace.created", "sync.finished"]
    streamed = read_events(live, count=2, params=only, headers={"Last-Event-ID": str(begin)})
    assert [data for _, _, data in streamed] == page["items"]
    assert page["last_id"] == page["items"][-1]["id"] and page["reset"] is False
    # going on from the middle
    middle = page["items"][0]["id"]
    assert live.get("/events", params=only | {"after": middle})["items"] == page["items"][1:]
    resumed = read_events(live, count=1, params=only, headers={"Last-Event-ID": str(middle)})
    assert resumed[0][2] == page["items"][1]


def test_waiting_for_the_next_event_as_json(live):
    workspace, found = idle(live), []
    only = {"workspace": workspace["id"], "after": _last(live)}
    thread = threading.Thread(
        target=lambda: found.append(live.get("/events", params=only | {"wait": 20}))
    )
    thread.start()
    time.sleep(0.3)
    live.post(f"/workspaces/{workspace['id']}/suspend")
    thread.join(20)
    assert [item["type"] for item in found[0]["items"]] == ["workspace.changed"]
    quiet = live.get("/events", params=only | {"after": found[0]["last_id"], "wait": 0.2})
    assert quiet["items"] == [] and quiet["last_id"] >= found[0]["last_id"]


def test_one_sees_only_the_events_of_ones_workspaces(live, crowd, published):
    begin = _last(live)
    hidden = live.create()
    live.post(f"{published.path}/sync")
    for caller in ("reader", "machine read of this"):
        page = live.get("/events", params={"after": begin, "wait": 20}, token=crowd.tokens[caller])
        assert {item["workspace_id"] for item in page["items"]} <= {published.workspace["id"]}
    narrowed = live.get("/events", params={"after": begin, "workspace": hidden["id"]})
    assert {item["workspace_id"] for item in narrowed["items"]} == {hidden["id"]}
    refused = live.call(
        "GET", "/events", params={"workspace": hidden["id"]}, token=crowd.tokens["reader"]
    )
    assert refused.status_code == 404


def test_an_id_that_is_too_old_is_answered_by_reset(tmp_path):
    from datetime import timedelta

    from gitsync.store import events

    with live_server(tmp_path) as live:
        for _ in range(3):
            live.create()
        instance = live.running.instance
        with instance.database.write() as db:
            events.drop_events(db, before=instance.now() + timedelta(days=1))
        page = live.get("/events", params={"after": 0})
        assert page["reset"] is True and page["last_id"] == _last(live)
        event, number, data = read_events(live, count=1, headers={"Last-Event-ID": "0"})[0]
        assert event == "reset" and data["last_id"] == number == page["last_id"]
        # an id from the future: the database was put back to an earlier state
        assert live.get("/events", params={"after": 10**6})["reset"] is True
        assert live.get("/events", params={"after": page["last_id"]})["reset"] is False


@pytest.mark.parametrize("text", ["x", "-1", "1.0", "9" * 16, "١"])
def test_an_odd_last_event_id_is_refused(live, text):
    headers = {"Accept": "text/event-stream", "Last-Event-ID": text.encode()}
    answer = live.call("GET", "/events", headers=headers)
    assert answer.status_code == 400 and answer.json()["field"] == "Last-Event-ID"


def test_streams_count_as_waits_and_are_given_back(live):
    secret = live.post("/tokens", {"name": "streams"})["secret"]
    headers = {"Authorization": f"Bearer {secret}", "Accept": "text/event-stream"}
    with httpx.Client(trust_env=False, verify=False, timeout=20) as http:
        request = http.build_request("GET", f"{live.url}/api/v1/events", headers=headers)
        open_ones = [http.send(request, stream=True) for _ in range(20)]
        assert {answer.status_code for answer in open_ones} == {200}
        assert http.send(request).status_code == 429
        for answer in open_ones:
            answer.close()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            answer = http.send(request, stream=True)
            answer.close()
            if answer.status_code == 200:
                break
            time.sleep(0.1)
        assert answer.status_code == 200


def test_a_stream_ends_when_the_server_stops(tmp_path):
    with live_server(tmp_path) as live:
        begun, ended = threading.Event(), []

        def listen():
            read_events(live, count=10**6, begun=begun)
            ended.append(time.monotonic())

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        assert begun.wait(20)
        begin = time.monotonic()
    assert time.monotonic() - begin < 15
    thread.join(10)
    assert ended, "the stream was not ended in order"


def test_a_revoked_token_ends_its_stream(live, monkeypatch):
    from gitsync.web.api import events

    monkeypatch.setattr(events, "ROUND_S", 0.3)
    made = live.post("/tokens", {"name": "short-lived"})
    begun, ended = threading.Event(), threading.Event()

    def listen():
        read_events(live, count=10**6, token=made["secret"], begun=begun)
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    assert begun.wait(20)
    assert live.call("DELETE", f"/tokens/{made['token']['id']}").status_code == 204
    assert ended.wait(10)


def test_names_in_events_are_escaped():
    from datetime import UTC, datetime

    from gitsync.records import Event
    from gitsync.web import wire

    data = {"branches": ["a\u202eb", "c\udcff"], "rollouts": 2}
    shown = wire.event_json(Event(1, "ws_1", "version.published", data, datetime.now(UTC)))
    assert shown["data"] == {"branches": ["a\\u202eb", "c\\xff"], "rollouts": 2}
