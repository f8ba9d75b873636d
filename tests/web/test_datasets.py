"""Data sets over HTTP and with the real `osmosis` CLI: up, checked, shown, replaced, gone."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from gitsync import dataset_work, datasets
from gitsync.artifacts.bucket import dataset_key, upload_key
from gitsync.web import uploads
from tests.live import GOOD_MAIN, live_server, workspace_files
from tests.osmosis import Osmosis
from tests.runs.kit import make_team
from tests.s3 import BUCKET, s3_server

ROWS = [{"user_prompt": f"{n}*2=?", "ground_truth": str(n * 2)} for n in range(6)]
GOOD = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
MIB = 1024 * 1024


def big(size: int) -> bytes:
    """A good file of at least so many bytes."""
    row = json.dumps({"user_prompt": "x" * 1000, "ground_truth": "y"}) + "\n"
    return (row * (size // len(row) + 1)).encode()


@pytest.fixture(scope="module")
def small_parts(tmp_path_factory):
    """A server whose uploads go in parts of 1 MiB."""
    with live_server(tmp_path_factory.mktemp("parts"), upload_part_mb=1) as found:
        yield found


def announce(live, workspace, content: bytes, name="sums", status=201, **more):
    body = {"name": name, "format": "jsonl", "size": len(content), **more}
    return live.post(f"/workspaces/{workspace['id']}/datasets", body, status=status)


def put(part, content: bytes) -> httpx.Response:
    return httpx.put(part["url"], content=content, trust_env=False, verify=False, timeout=60)


def send(announced, content: bytes) -> list[dict]:
    """All parts; what completing the upload names."""
    sent, start = [], 0
    for part in announced["parts"]:
        answer = put(part, content[start : start + part["size"]])
        assert answer.status_code == 200, answer.text
        sent.append({"number": part["number"], "etag": answer.headers["etag"]})
        start += part["size"]
    return sent


def complete(live, workspace, dataset_id, parts=None, **more):
    body = {} if parts is None else {"parts": parts}
    path = f"/workspaces/{workspace['id']}/datasets/{dataset_id}/complete"
    return live.call("POST", path, json=body, **more)


def settled(live, workspace, name):
    """The data set, once its check has come to an end."""
    end = time.monotonic() + 30
    while True:
        found = live.get(f"/workspaces/{workspace['id']}/datasets/{name}")
        if found["state"] not in ("pending", "uploading", "processing"):
            return found
        assert time.monotonic() < end, found
        time.sleep(0.05)


def upload(live, workspace, content: bytes = GOOD, name="sums", **more):
    announced = announce(live, workspace, content, name, **more)
    dataset_id = announced["dataset"]["id"]
    answer = complete(live, workspace, dataset_id, send(announced, content))
    assert answer.status_code == 200, answer.text
    return settled(live, workspace, dataset_id)


def later(live, **more):
    """The server's instance as it will be then."""
    instance = live.running.instance
    return replace(instance, now=lambda: instance.now() + timedelta(**more))


def log_of(live, workspace, name) -> str:
    items = live.get(f"/workspaces/{workspace['id']}/datasets/{name}/logs")["items"]
    return "\n".join(f"{line['level']} {line['message']}" for line in items)


def test_an_upload_is_checked_shown_and_given_back(live):
    workspace = live.create()
    found = upload(live, workspace)
    assert (found["state"], found["row_count"], found["format"]) == ("uploaded", 6, "jsonl")
    assert found["preview"] == ROWS
    path = f"/workspaces/{workspace['id']}/datasets"
    assert [d["id"] for d in live.get(path)["items"]] == [found["id"]]
    assert live.call("GET", f"{path}/sums/content").content == GOOD
    assert "info Ready: 6 rows" in log_of(live, workspace, "sums")
    assert not (live.data_dir / "uploads" / found["id"]).exists()


def test_pieces_of_the_list_do_not_shift_when_data_sets_come_and_go(live):
    workspace = live.create()
    for number in range(5):
        announce(live, workspace, GOOD, f"d{number}")

    def piece(query: str):
        scope = {"X-Osmosis-Workspace": workspace["name"]}
        return live.get(f"//api/cli/datasets{query}", headers=scope)

    first = piece("?limit=2")
    assert (first["total_count"], first["has_more"]) == (5, True)
    announce(live, workspace, GOOD, "later")
    path = f"/workspaces/{workspace['id']}/datasets/d4"
    assert live.call("DELETE", path).status_code == 204
    second = piece(f"?limit=2&offset={first['next_offset']}")
    third = piece(f"?limit=2&offset={second['next_offset']}")
    names = [d["file_name"] for found in (first, second, third) for d in found["datasets"]]
    assert names == ["d4", "d3", "d2", "d1", "d0"]
    assert (third["has_more"], third["next_offset"]) == (False, None)
    assert [d["file_name"] for d in piece("?limit=1&offset=1")["datasets"]] == ["d3"]


def test_parts_may_come_in_any_order_and_more_than_once(small_parts):
    live, workspace = small_parts, small_parts.create()
    content = big(3 * MIB + 500)
    announced = announce(live, workspace, content)
    assert [part["size"] for part in announced["parts"]][:3] == [MIB] * 3
    pieces = [content[n * MIB : (n + 1) * MIB] for n in range(len(announced["parts"]))]
    sent = {}
    for part in reversed(announced["parts"]):
        put(part, b"\0" * part["size"])  # another content first: the last one counts
        for _ in range(2):
            answer = put(part, pieces[part["number"] - 1])
            assert answer.status_code == 200
        sent[part["number"]] = answer.headers["etag"]
    parts = [{"number": number, "etag": etag} for number, etag in sent.items()]
    dataset_id = announced["dataset"]["id"]
    for _ in range(2):  # idempotent
        assert complete(live, workspace, dataset_id, parts).status_code == 200
    assert settled(live, workspace, dataset_id)["state"] == "uploaded"
    assert complete(live, workspace, dataset_id, parts).json()["state"] == "uploaded"
    path = f"/workspaces/{workspace['id']}/datasets/sums/content"
    assert live.call("GET", path).content == content


def test_completing_needs_every_part_and_the_right_ones(small_parts):
    live, workspace = small_parts, small_parts.create()
    content = big(MIB + 10)
    announced = announce(live, workspace, content)
    dataset_id = announced["dataset"]["id"]
    first, second = announced["parts"]
    sent = {"number": 1, "etag": put(first, content[:MIB]).headers["etag"]}
    refused = complete(live, workspace, dataset_id, [sent])
    assert (refused.status_code, refused.json()["code"]) == (409, "UPLOAD_INCOMPLETE")
    etag = put(second, content[MIB:]).headers["etag"]
    for parts in ([sent], [sent, sent], [sent, {"number": 2, "etag": "0" * 32}]):
        refused = complete(live, workspace, dataset_id, parts)
        assert (refused.status_code, refused.json()["field"]) == (400, "parts")
    parts = [sent, {"number": 2, "etag": etag}]
    assert complete(live, workspace, dataset_id, parts).status_code == 200


def test_a_part_is_not_replaced_while_the_upload_is_completed(live, monkeypatch):
    workspace = live.create()
    announced = announce(live, workspace, GOOD)
    [part] = announced["parts"]
    sent = send(announced, GOOD)
    check, late = datasets._check_parts, []

    def overtaken(*given):
        check(*given)
        late.append(pool.submit(put, part, GOOD.replace(b"0", b"1")))
        time.sleep(0.5)

    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(datasets, "_check_parts", overtaken)
        assert complete(live, workspace, announced["dataset"]["id"], sent).status_code == 200
        assert late[0].result().status_code in (200, 409)
    assert settled(live, workspace, announced["dataset"]["id"])["state"] == "uploaded"
    path = f"/workspaces/{workspace['id']}/datasets/sums/content"
    assert live.call("GET", path).content == GOOD


def test_a_link_takes_its_part_and_nothing_else(live):
    workspace = live.create()
    [part] = announce(live, workspace, GOOD)["parts"]
    assert put(part, GOOD + b"x").status_code == 400
    assert put(part, GOOD[:-1]).status_code == 400
    base, _, signed = part["url"].rpartition("/")
    head, _, tail = signed.partition(".")
    other = announce(live, workspace, GOOD, "other")["parts"][0]["url"].rpartition("/")[2]
    for forged in ("x", f"{head}.", f"{other.partition('.')[0]}.{tail}", f"{head}.{tail[:-4]}AAAA"):
        answer = put({"url": f"{base}/{forged}"}, GOOD)
        assert (answer.status_code, answer.json()["code"]) == (403, "LINK_INVALID")
    download = f"{live.url}/downloads/{signed}"
    assert httpx.get(download, trust_env=False, verify=False).status_code == 404
    assert put(part, GOOD).status_code == 200


def test_slow_senders_of_one_upload_leave_room_for_others(live, monkeypatch):
    monkeypatch.setattr(uploads, "MOST_OF_ONE", 2)
    workspace = live.create()
    [part] = announce(live, workspace, GOOD, "slow")["parts"]
    parts = urlsplit(part["url"])
    head = f"PUT {parts.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(GOOD)}\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(2):
            address = (parts.hostname, parts.port)
            slow = stack.enter_context(socket.create_connection(address, timeout=10))
            slow.sendall(head.encode() + GOOD[:1])
        time.sleep(0.3)
        answer = put(part, GOOD)
        assert (answer.status_code, answer.json()["code"]) == (429, "RATE_LIMITED")
        assert answer.headers["retry-after"] == "5"
        assert upload(live, workspace, name="other")["state"] == "uploaded"
    time.sleep(0.3)
    assert put(part, GOOD).status_code == 200


def test_a_link_does_not_reach_the_log(live, caplog):
    workspace = live.create()
    [part] = announce(live, workspace, GOOD)["parts"]
    folder = live.data_dir / "uploads"
    folder.rename(folder.with_name("uploads.away"))  # as a full or broken disk would be
    try:
        answer = put(part, GOOD)
    finally:
        folder.with_name("uploads.away").rename(folder)
    assert (answer.status_code, answer.json()["code"]) == (503, "ARTIFACT_STORE_UNAVAILABLE")
    assert "path=/uploads/…" in caplog.text
    assert part["url"].rpartition("/")[2] not in caplog.text + answer.text
    assert put(part, GOOD).status_code == 200


def test_a_refused_content_says_where_and_can_be_dismissed(live):
    workspace = live.create()
    good = upload(live, workspace)
    bad = b'{"user_prompt": "a", "ground_truth": "b"}\n' * 4 + b"no json\n"
    found = upload(live, workspace, bad, overwrite=good["id"])
    assert found["state"] == "error" and found["error"]["code"] == "DATASET_INVALID"
    assert found["error"]["issues"][0]["key"] == "sums.jsonl:5"
    assert "error sums.jsonl:5: invalid-json" in log_of(live, workspace, found["id"])
    path = f"/workspaces/{workspace['id']}/datasets"
    assert live.get(f"{path}/sums")["state"] == "error"  # never silently the content before
    assert live.call("GET", f"{path}/sums/content").json()["code"] == "DATASET_NOT_READY"
    live.post(f"{path}/{found['id']}/abort")
    assert live.get(f"{path}/sums")["id"] == good["id"]
    assert live.call("GET", f"{path}/sums/content").content == GOOD


def test_a_name_is_taken_over_only_on_purpose(live):
    workspace = live.create()
    first = upload(live, workspace)
    taken = announce(live, workspace, GOOD, status=409)
    assert (taken["code"], taken["existing_dataset_id"]) == ("DATASET_EXISTS", first["id"])
    second = announce(live, workspace, GOOD, overwrite=first["id"])
    stale = announce(live, workspace, GOOD, status=409, overwrite=first["id"])
    assert stale["existing_dataset_id"] == second["dataset"]["id"]
    third = announce(live, workspace, GOOD, overwrite=second["dataset"]["id"])
    late = put(second["parts"][0], GOOD)
    assert (late.status_code, late.json()["code"]) == (409, "UPLOAD_ENDED")
    live.post(f"/workspaces/{workspace['id']}/datasets/{second['dataset']['id']}/abort")
    complete(live, workspace, third["dataset"]["id"], send(third, GOOD))
    assert settled(live, workspace, "sums")["id"] == third["dataset"]["id"]
    listed = live.get(f"/workspaces/{workspace['id']}/datasets")
    assert (listed["total_count"], listed["items"][0]["replaces"]) == (
        1,
        second["dataset"]["id"],
    )


def test_an_abandoned_overwrite_gives_the_name_back(live):
    workspace = live.create()
    good = upload(live, workspace)
    begun = announce(live, workspace, GOOD, overwrite=good["id"])["dataset"]["id"]
    assert dataset_work.end_expired(later(live, hours=25)) >= 1
    path = f"/workspaces/{workspace['id']}/datasets"
    assert live.get(f"{path}/{begun}")["state"] == "cancelled"
    assert live.get(f"{path}/sums")["id"] == good["id"]
    ended = complete(live, workspace, begun)
    assert (ended.status_code, ended.json()["code"]) == (409, "UPLOAD_ENDED")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "a/b"}, "file_name"),
        ({"name": ".."}, "file_name"),
        ({"name": " x"}, "file_name"),
        ({"name": "ds_" + "0" * 16}, "file_name"),
        ({"name": "a\u202eb"}, "file_name"),
        ({"format": "tsv"}, "extension"),
        ({"size": 0}, "file_size"),
        ({"size": 6 * 1024**3}, "file_size"),
    ],
)
def test_what_cannot_be_a_data_set_is_refused(live, published, change, field):
    body = {"name": "fine", "format": "csv", "size": 10, **change}
    answer = live.call("POST", f"{published.path}/datasets", json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


@pytest.mark.slow
def test_a_workspace_holds_so_much_and_no_more(tmp_path):
    with live_server(tmp_path, max_datasets_mb=2, upload_part_mb=1) as live:
        workspace = live.create()
        content = big(MIB)
        first = upload(live, workspace, content)
        refused = announce(live, workspace, content, "other", status=409)
        assert "GITSYNC_MAX_DATASETS_MB" in refused["message"]
        # what was replaced makes room for what replaces it
        second = upload(live, workspace, GOOD, overwrite=first["id"])
        announce(live, workspace, content, "third")
        dataset_work.sweep_datasets(later(live, hours=23))
        folder = live.data_dir / "artifacts/datasets" / workspace["id"]
        assert [p.stem for p in folder.iterdir()] == [second["id"]]


def test_a_workspace_has_so_many_names_and_no_more(live, monkeypatch):
    monkeypatch.setattr(datasets, "MOST", 2)
    workspace = live.create()
    first = announce(live, workspace, GOOD, "a")["dataset"]["id"]
    announce(live, workspace, GOOD, "b")
    announce(live, workspace, GOOD, "c", status=409)
    announce(live, workspace, GOOD, "a", overwrite=first)


def test_deleting_takes_all_contents_and_the_bytes_follow(live):
    workspace = live.create()
    first = upload(live, workspace)
    upload(live, workspace, GOOD * 2, overwrite=first["id"])
    path = f"/workspaces/{workspace['id']}/datasets"
    assert live.call("DELETE", f"{path}/sums").status_code == 204
    assert live.get(path)["items"] == []
    for name in ("sums", first["id"]):
        assert live.call("GET", f"{path}/{name}").status_code == 404
    dataset_work.sweep_datasets(later(live, hours=23))
    assert not list((live.data_dir / "artifacts/datasets" / workspace["id"]).iterdir())
    assert upload(live, workspace)["state"] == "uploaded"


def test_the_end_of_a_workspace_is_the_end_of_its_data(live):
    workspace = live.create()
    found = upload(live, workspace)
    live.post(f"/workspaces/{workspace['id']}/disconnect")
    refused = announce(live, workspace, GOOD, "more", status=409)
    assert refused["code"] == "CONFLICT"
    assert live.call("DELETE", f"/workspaces/{workspace['id']}").status_code == 204
    kept = live.data_dir / "artifacts/datasets" / workspace["id"] / f"{found['id']}.jsonl"
    assert not kept.exists()


def test_a_push_is_told_of_data_sets_and_secrets_that_are_not_there(live):
    workspace = live.create()
    checkout = live.checkout(workspace)
    harbor = "from osmosis_ai.rollout.backend.harbor import HarborBackend\nHarborBackend()\n"
    sha = checkout.commit(workspace_files(demo=GOOD_MAIN + harbor))
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha)
    version = f"/workspaces/{workspace['id']}/versions/{sha}"

    def hints() -> dict[str, str]:
        return {f["code"]: f["message"] for f in live.get(version)["findings"]}

    first = hints()
    assert "`osmosis dataset upload data/sums.jsonl`" in first["unknown-dataset"]
    assert "sandbox-key-missing" in first
    upload(live, workspace, (checkout.path / "data/sums.jsonl").read_bytes())
    live.call(
        "PUT",
        f"/workspaces/{workspace['id']}/secrets/DAYTONA_API_KEY",
        json={"value": "x", "scope": "workspace"},
    ).raise_for_status()
    live.post(f"{version}/recheck")
    assert not {"unknown-dataset", "sandbox-key-missing"} & hints().keys()


def test_a_run_that_is_not_over_keeps_its_content(live):
    team = make_team(live)
    dataset = live.get(f"{team.path}/datasets/sums")
    run = team.submit()
    assert live.call("DELETE", f"{team.path}/datasets/sums").status_code == 204
    kept = live.data_dir / "artifacts/datasets" / team.workspace["id"] / f"{dataset['id']}.jsonl"
    dataset_work.sweep_datasets(later(live, hours=23))
    assert kept.exists()
    assert team.cli("POST", f"eval-runs/{run['id']}/stop", json={}).status_code == 200
    dataset_work.sweep_datasets(later(live, hours=23))
    assert not kept.exists()


@pytest.mark.slow
def test_a_check_has_a_deadline_and_a_worker_that_dies_is_replaced(tmp_path):
    with live_server(tmp_path, dataset_deadline_s=0.001) as live:
        found = upload(live, live.create(), big(80 * MIB))
        assert found["state"] == "error"
        assert "GITSYNC_DATASET_DEADLINE_S" in found["error"]["message"]


@pytest.mark.slow
def test_a_worker_that_is_killed_is_no_fault_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset_work, "_PAUSE", timedelta(0))
    with live_server(tmp_path) as live:
        workspace = live.create()
        before = {process.pid for process in multiprocessing.active_children()}
        upload(live, workspace, GOOD, "first")  # now the worker runs
        [worker] = {process.pid for process in multiprocessing.active_children()} - before
        announced = announce(live, workspace, big(30 * MIB))
        sent = send(announced, big(30 * MIB))
        complete(live, workspace, announced["dataset"]["id"], sent)
        os.kill(worker, signal.SIGKILL)
        assert settled(live, workspace, "sums")["state"] == "uploaded"


# -- the real client ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def remote_store(tmp_path_factory):
    """The same with an S3 store, to which parts go straight."""
    with (
        s3_server() as endpoint,
        live_server(
            tmp_path_factory.mktemp("remote"),
            upload_part_mb=1,
            artifact_store=f"s3://{BUCKET}/team",
            s3_endpoint=endpoint,
            s3_access_key_id="a",
            s3_secret_access_key="b",
        ) as found,
    ):
        yield found


@pytest.mark.slow
def test_parts_go_straight_to_a_remote_store(remote_store):
    live, workspace = remote_store, remote_store.create()
    content = big(2 * MIB + 500)
    announced = announce(live, workspace, content)
    dataset_id = announced["dataset"]["id"]
    assert all(live.url not in part["url"] for part in announced["parts"])
    refused = complete(live, workspace, dataset_id)
    assert refused.json()["code"] == "UPLOAD_INCOMPLETE"
    parts = send(announced, content)
    wrong = [*parts[:-1], {**parts[-1], "etag": parts[0]["etag"]}]
    assert complete(live, workspace, dataset_id, wrong).json()["field"] == "parts"
    assert complete(live, workspace, dataset_id, parts).status_code == 200
    put(announced["parts"][0], b"\0" * MIB)  # the link still works: it must change nothing
    assert settled(live, workspace, dataset_id)["state"] in ("uploaded", "error")
    again = upload(live, workspace, content, overwrite=dataset_id)
    put(announced["parts"][0], b"\0" * MIB)
    assert again["state"] == "uploaded"
    path = f"/workspaces/{workspace['id']}/datasets/sums"
    assert live.call("GET", f"{path}/content").content == content
    bucket = live.running.instance.bucket
    assert bucket.etag(upload_key(again["id"], 1)) is None
    assert live.call("DELETE", path).status_code == 204
    dataset_work.sweep_datasets(later(live, hours=23))
    for old in (dataset_id, again["id"]):
        assert bucket.size(dataset_key(workspace["id"], old, "jsonl")) is None
        assert bucket.etag(upload_key(old, 1)) is None


@pytest.fixture(params=["simple", "multipart", "remote store"])
def client(request, live, small_parts, tmp_path):
    servers = {"simple": live, "multipart": small_parts}
    server = servers.get(request.param) or request.getfixturevalue("remote_store")
    workspace = server.create()
    return server, workspace, Osmosis(server.url, server.token, workspace["name"], tmp_path / "me")


def wait_for(osmosis, name: str) -> dict:
    end = time.monotonic() + 30
    while True:
        data = osmosis("dataset", "info", name).data["data"]
        if data["status"] not in ("pending", "uploading", "processing"):
            return data
        assert time.monotonic() < end, data


@pytest.mark.slow
def test_osmosis_dataset_commands(client, tmp_path):
    server, workspace, osmosis = client
    path: Path = tmp_path / "sums v1.jsonl"
    is_multipart = server.running.instance.settings.upload_part_mb == 1
    path.write_bytes(big(2 * MIB) if is_multipart else GOOD)
    made = osmosis("dataset", "upload", str(path), "--yes").data["resource"]
    assert (made["file_name"], made["file_size"]) == (path.stem, path.stat().st_size)
    info = wait_for(osmosis, path.stem)
    assert (info["status"], info["id"]) == ("uploaded", made["id"])
    listed = osmosis("dataset", "list", "--all").data
    assert [(i["file_name"], i["status"]) for i in listed["items"]] == [(path.stem, "uploaded")]
    shown = osmosis("dataset", "preview", path.stem, "--rows", "2").data["data"]
    assert shown["returned_rows"] == 2 and set(shown["rows"][0]) == {"user_prompt", "ground_truth"}
    logs = osmosis("dataset", "logs", path.stem).data
    assert logs["items"][-1]["message"].startswith("Ready: ")
    got = tmp_path / "back.jsonl"
    assert osmosis("dataset", "download", path.stem, "--output", str(got)).code == 0
    assert got.read_bytes() == path.read_bytes()
    twice = osmosis("dataset", "upload", str(path), "--yes").error
    assert (twice["code"], twice["details"]["existing_dataset_id"]) == ("CONFLICT", made["id"])
    again = osmosis("dataset", "upload", str(path), "--yes", "--overwrite").data["resource"]
    assert again["id"] != made["id"]
    assert wait_for(osmosis, path.stem)["id"] == again["id"]
    assert osmosis("dataset", "info", "nothing").error["code"] == "NOT_FOUND"
