"""`kill -9` around an upload: what was promised is there, and the check comes to one end."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress

import httpx
import pytest

from tests.crash.service import Service, eventually

ROWS = "".join(
    json.dumps({"user_prompt": f"{n}?", "ground_truth": "x" * 200}) + "\n" for n in range(6000)
)
CONTENT = ROWS.encode()  # two parts of at most 1 MiB


@pytest.fixture
def service(tmp_path):
    with Service(tmp_path, upload_part_mb=1) as found:
        found.post("/workspaces", {"name": "team"})
        yield found


def path_of(service, rest: str = "") -> str:
    [workspace] = service.get("/workspaces")["items"]
    return f"/workspaces/{workspace['id']}/datasets{rest}"


def announce(service, **more):
    body = {"name": "sums", "format": "jsonl", "size": len(CONTENT), **more}
    return service.post(path_of(service), body)


def send(part) -> str:
    start = (part["number"] - 1) * 1024 * 1024
    piece = CONTENT[start : start + part["size"]]
    answer = httpx.put(part["url"], content=piece, trust_env=False, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.headers["etag"]


def later(work, *args) -> threading.Thread:
    """In a thread: the server may die before it answers."""

    def run() -> None:
        with suppress(httpx.HTTPError, AssertionError):
            work(*args)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def restart(service, *, group: bool) -> None:
    service.kill(group=group)
    service.disarm()
    service.start()


def finish(service, announced, parts) -> dict:
    """Complete (once more) and wait for the end of the check."""
    dataset_id = announced["dataset"]["id"]
    service.post(path_of(service, f"/{dataset_id}/complete"), {"parts": parts})

    def settled():
        found = service.get(path_of(service, f"/{dataset_id}"))
        return found["state"] not in ("pending", "uploading", "processing") and found

    return eventually(settled, seconds=60)


def check(service, found) -> None:
    """The one data set, whole, with nothing left over."""
    assert (found["state"], found["row_count"]) == ("uploaded", 6000)
    assert service.call("GET", path_of(service, "/sums/content")).content == CONTENT
    assert [d["id"] for d in service.get(path_of(service))["items"]] == [found["id"]]
    folder = service.data / "uploads"
    eventually(lambda: service.upkeep(wait=True) or not list(folder.iterdir()))
    assert not [p for p in (service.data / "staging").rglob("*") if p.is_file()]
    kept = [p.stem for p in (service.data / "artifacts/datasets").rglob("*.jsonl")]
    assert kept == [found["id"]]
    service.stop()
    service.start()
    assert service.get(path_of(service, "/sums"))["state"] == "uploaded"


@pytest.mark.slow
@pytest.mark.parametrize("group", [True, False])
def test_a_kill_before_a_part_is_promised(service, group):
    announced = announce(service)
    first, second = announced["parts"]
    etag = send(first)
    service.arm("dataset.part_kept")
    sender = later(send, second)
    assert service.reached() == "dataset.part_kept"
    restart(service, group=group)
    sender.join(20)
    refused = service.call(
        "POST", path_of(service, f"/{announced['dataset']['id']}/complete"), json={}
    )
    assert refused.json()["code"] == "UPLOAD_INCOMPLETE"
    parts = [{"number": 1, "etag": etag}, {"number": 2, "etag": send(second)}]
    check(service, finish(service, announced, parts))


@pytest.mark.slow
@pytest.mark.parametrize("group", [True, False])
@pytest.mark.parametrize(
    "point", ["dataset.claimed", "dataset.examined", "dataset.stored", "dataset.published"]
)
def test_a_kill_during_the_check(service, point, group):
    announced = announce(service)
    parts = [{"number": p["number"], "etag": send(p)} for p in announced["parts"]]
    service.arm(point)
    completing = later(finish, service, announced, parts)
    assert service.reached() == point
    restart(service, group=group)
    completing.join(20)
    check(service, finish(service, announced, parts))


@pytest.mark.slow
def test_a_kill_while_a_replaced_content_is_removed(service):
    announced = announce(service)
    parts = [{"number": p["number"], "etag": send(p)} for p in announced["parts"]]
    first = finish(service, announced, parts)
    assert service.call("DELETE", path_of(service, "/sums")).status_code == 204
    service.arm("dataset.swept")
    service.upkeep()
    assert service.reached() == "dataset.swept"
    restart(service, group=True)
    announced = announce(service)
    parts = [{"number": p["number"], "etag": send(p)} for p in announced["parts"]]
    found = finish(service, announced, parts)
    assert found["id"] != first["id"]
    check(service, found)


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.0, 0.3, 1.0])
def test_a_stop_during_the_check_is_quick_and_nothing_is_lost(tmp_path, pause):
    with Service(tmp_path) as service:
        service.post("/workspaces", {"name": "team"})
        content = CONTENT * 25
        announced = announce(service, size=len(content))
        [part] = announced["parts"]
        sent = httpx.put(part["url"], content=content, trust_env=False, timeout=60)
        service.post(path_of(service, f"/{announced['dataset']['id']}/complete"), {})
        time.sleep(pause)
        begun = time.monotonic()
        service.stop()
        assert time.monotonic() - begun < 8
        service.start()
        found = finish(service, announced, [{"number": 1, "etag": sent.headers["etag"]}])
        assert (found["state"], found["row_count"]) == ("uploaded", 6000 * 25)
        log = service.get(path_of(service, "/sums/logs"))["items"]
        assert not [line for line in log if line["level"] == "error"]
