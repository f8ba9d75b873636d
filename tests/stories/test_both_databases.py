"""The main stories once on SQLite and once on PostgreSQL: nothing depends on which one it is."""

from __future__ import annotations

import threading
import time
import uuid

import pytest

from tests.live import GOOD_MAIN, NO_GRADER, Checkout, git, live_server, workspace_files
from tests.postgres import postgres_server
from tests.web.remote import Remote, bare, deliver, push_payload

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("sqlite", marks=pytest.mark.slow),  # everyday, the other tests use it
        pytest.param("postgresql", marks=pytest.mark.postgres),
    ],
)
def room(request, tmp_path_factory):
    """A server on either database, and a remote it may connect to."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "host").mkdir()
    with Remote(folder / "host") as host:
        allowed = {"allowed_hosts": (f"127.0.0.1:{host.port}",)}
        begin = live_server if request.param == "sqlite" else postgres_server
        with begin(folder, **allowed) as live:
            live.host = host
            yield live


def test_create_push_publish_resolve_and_fetch(room):
    workspace = room.create()
    checkout, path = room.checkout(workspace), f"/workspaces/{workspace['id']}"
    good = checkout.commit(workspace_files(), "Grüße \U0001f600\n\nmore")
    said = checkout.push("origin", "main").stderr
    assert f"gitsync: main {good[:7]} published" in said
    assert room.status(workspace, good)["state"] == "published"
    bad = checkout.commit({"rollouts/demo/main.py": NO_GRADER})
    checkout.push("-q", "origin", "main")
    assert room.status(workspace, bad)["state"] == "published_with_errors"
    answer = room.call("POST", f"{path}/resolve", json={"rollout": "demo"})
    assert answer.json()["last_good"]["commit_sha"] == good
    found = room.post(f"{path}/resolve", {"rollout": "demo", "commit_sha": good[:8]})
    tar = room.call("GET", f"{path}/artifacts/{found['digest']}.tar")
    assert tar.status_code == 200 and len(tar.content) == found["size"]
    listed = room.get(f"{path}/versions")
    assert [v["commit_sha"] for v in listed["items"]] == [bad, good]
    assert listed["items"][1]["message"] == "Grüße \U0001f600\n\nmore\n"
    assert room.call("GET", f"{path}/versions/{good}/archive.tar.gz").status_code == 200
    assert room.get(f"{path}/versions/{bad}/diff", params={"from": good})["rollouts"]["changed"]
    room.call("PUT", f"{path}/versions/{good}/pins/keep", json={})
    assert room.get(f"{path}/versions/{good}")["pins"][0]["name"] == "keep"


def test_workspaces_from_the_template_made_at_once(room):
    """Many at once, and one name wanted four times: each is made once, whole, or refused."""
    before = len(list((room.data_dir / "repos").glob("*.git")))
    names = [f"born-{n}-{uuid.uuid4().hex[:6]}" for n in range(4)] + ["wanted-by-all"] * 4
    answers = []

    def ask(name: str) -> None:
        body = {"name": name, "create": {"starters": ["minimal-local"]}}
        answers.append(room.call("POST", "/workspaces", json=body))

    threads = [threading.Thread(target=ask, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(a.status_code for a in answers) == [201] * 5 + [409] * 3
    made = [a.json() for a in answers if a.status_code == 201]
    for workspace in made:
        assert room.status(workspace, workspace["commit_sha"])["state"] == "published"
    assert len(list((room.data_dir / "repos").glob("*.git"))) == before + 5


def test_a_webhook_publishes_what_a_remote_has(room, tmp_path):
    name = f"acme/{uuid.uuid4().hex[:8]}"
    checkout = Checkout.new(tmp_path / "checkout", str(bare(room.host.root, f"{name}.git")))
    first = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    workspace = room.post(
        "/workspaces",
        {
            "name": name,
            "provider": "github",
            "connect": {
                "clone_url": room.host.url_of(f"{name}.git"),
                "credential": {"kind": "token", "secret": "canary-token-51c2"},
            },
        },
        status=201,
    )
    hook, path = workspace["webhook"], f"/workspaces/{workspace['id']}"
    assert room.status(workspace, first)["state"] == "published"
    shas = [first]
    for number in range(3):
        shas.append(checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + f"# {number}\n"}))
        checkout.push("-q", "origin", "main")
        payload = push_payload(shas[-2], shas[-1], repository=name)
        sent = [
            deliver(hook["url"], hook["secret"], payload, delivery_id=f"d{number}")
            for _ in range(2)
        ]
        assert [answer.status_code for answer in sent] == [202, 202]
        assert sent[1].json()["times"] == 2
        assert room.status(workspace, shas[-1])["state"] == "published"
    deliveries = room.get(f"{path}/deliveries")["items"]
    assert [d["times"] for d in deliveries] == [2, 2, 2]
    assert room.get(f"{path}/versions")["total_count"] == 4


def test_events_come_in_the_order_of_their_ids(room):
    begin = room.get("/events", params={"after": 0})["last_id"]
    while room.get("/events", params={"after": begin})["items"]:
        begin = room.get("/events", params={"after": begin})["last_id"]
    seen, stop = [], threading.Event()

    def follow():
        after = begin
        while not stop.is_set():
            page = room.get("/events", params={"after": after, "wait": 1})
            seen.extend(page["items"])
            after = page["last_id"]

    follower = threading.Thread(target=follow)
    follower.start()
    threads = [threading.Thread(target=room.create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if sum(event["type"] == "workspace.created" for event in seen) == 8:
            break
        time.sleep(0.05)
    stop.set()
    follower.join(30)
    ids = [event["id"] for event in seen]
    assert ids == sorted(set(ids))  # nothing came late, nothing twice
    assert sum(event["type"] == "workspace.created" for event in seen) == 8
    assert [e["id"] for e in room.get("/events", params={"after": begin})["items"]][:8] == ids[:8]


def test_the_same_request_at_once_is_done_once(room):
    headers, name = {"Idempotency-Key": uuid.uuid4().hex}, f"once-{uuid.uuid4().hex}"
    answers = []

    def ask():
        answers.append(room.call("POST", "/workspaces", json={"name": name}, headers=headers))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {a.status_code for a in answers} <= {201, 409}
    assert len({a.json()["id"] for a in answers if a.status_code == 201}) == 1
    replay = room.call("POST", "/workspaces", json={"name": name}, headers=headers)
    assert replay.status_code == 201 and replay.headers["idempotent-replay"] == "true"
    other = room.call("POST", "/workspaces", json={"name": "other"}, headers=headers)
    assert other.json()["code"] == "IDEMPOTENCY_MISMATCH"


def test_a_key_works_on_any_path(room):
    workspace = room.create()
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    noise = "".join(uuid.uuid4().hex for _ in range(100))
    for email in (f"{noise}@example.com", "\U0001f600" * 100 + "@example.com"):
        path = f"/workspaces/{workspace['id']}/members/{email}"
        answer = room.call("PUT", path, json={"role": "reader"}, headers=headers)
        assert answer.status_code == 404, answer.text


@pytest.mark.slow
def test_names_are_unique_under_contention(room):
    name, codes = f"race-{uuid.uuid4().hex}", []

    def ask():
        codes.append(room.call("POST", "/workspaces", json={"name": name}).status_code)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(codes) == [201] + [409] * 7


@pytest.mark.slow
def test_pushes_to_several_workspaces_at_once_all_arrive(room):
    made = []
    for number in range(4):
        workspace = room.create()
        checkout = room.checkout(workspace)
        sha = checkout.commit(workspace_files(**{f"r{number}": GOOD_MAIN}))
        made.append((workspace, checkout, sha))
    threads = [
        threading.Thread(target=lambda c=c: c.push("-q", "origin", "main")) for _, c, _ in made
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for workspace, _, sha in made:
        assert room.status(workspace, sha)["state"] == "published"


def test_two_owners_who_leave_at_once_leave_one(room):
    workspace = room.create()
    path = f"/workspaces/{workspace['id']}/members"
    email = f"{uuid.uuid4().hex}@example.com"
    room.user(email)
    room.call("PUT", f"{path}/{email}", json={"role": "owner"})
    owners = [m["email"] for m in room.get(path)["items"]]
    codes = []
    threads = [
        threading.Thread(
            target=lambda e=e: codes.append(room.call("DELETE", f"{path}/{e}").status_code)
        )
        for e in owners
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(codes) == [204, 409]


@pytest.mark.parametrize("text", ["\u0000", "\ud800", "\U0010ffff", "a'b\"c\\%_"])
def test_odd_text_is_stored_or_refused_alike(room, text):
    """Decision 30: what one database takes and the other does not is no difference of ours."""
    escaped = text.encode("utf-16-be", "surrogatepass").hex()
    quoted = "".join(f"\\u{escaped[i : i + 4]}" for i in range(0, len(escaped), 4))
    answer = room.call(
        "POST",
        "/tokens",
        content=f'{{"name": "x{quoted}"}}',
        headers={"Content-Type": "application/json"},
    )
    if "\0" in text or "\ud800" in text:
        assert answer.status_code == 400, answer.text
    else:
        assert answer.status_code == 201 and answer.json()["token"]["name"] == "x" + text
    # NUL in a path, a query and a webhook
    assert room.call("GET", "/workspaces?name=a%00b").status_code == 400


@pytest.mark.slow
def test_a_deleted_workspace_takes_everything_with_it(room):
    workspace = room.create()
    checkout, path = room.checkout(workspace), f"/workspaces/{workspace['id']}"
    sha = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    assert room.status(workspace, sha)["state"] == "published"
    git(checkout.path, "fetch", "-q", "origin")
    room.post(f"{path}/disconnect")
    assert room.call("DELETE", path).status_code == 204
    assert room.call("GET", path).status_code == 404
    assert room.call("GET", "/whoami").status_code == 200


@pytest.mark.slow
def test_readiness_and_metrics_work(room):
    import httpx

    assert httpx.get(f"{room.url}/readyz", trust_env=False, verify=False).status_code == 200
    text = httpx.get(f"{room.url}/metrics", trust_env=False, verify=False).text
    assert "gitsync_workspace_staleness_seconds" in text


def test_the_same_delivery_many_times_at_once_is_one_row_that_counts(room):
    workspace = room.post(
        "/workspaces",
        {
            "name": f"flood-{uuid.uuid4().hex}",
            "provider": "github",
            "connect": {"clone_url": room.host.url_of("acme/flood.git")},
        },
        status=201,
    )
    hook, codes = workspace["webhook"], []
    for ref, expected in (("refs/heads/main", 202), ("refs/tags/v1", 200)):
        payload = push_payload("0" * 40, "a" * 40, repository="acme/flood", ref=ref)

        def send(payload=payload, ref=ref):
            answer = deliver(hook["url"], hook["secret"], payload, delivery_id=ref[5:9])
            codes.append(answer.status_code)

        threads = [threading.Thread(target=send) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert codes == [expected] * 10
        codes.clear()
    rows = room.get(f"/workspaces/{workspace['id']}/deliveries")["items"]
    assert [row["times"] for row in rows] == [10, 10]
    room.post(f"/workspaces/{workspace['id']}/disconnect")


def test_a_change_is_committed_once(room):
    workspace = room.create()
    checkout, path = room.checkout(workspace), f"/workspaces/{workspace['id']}"
    first = checkout.commit(workspace_files(), "First")
    checkout.push("-q", "origin", "main")
    room.status(workspace, first)
    key = {"headers": {"Idempotency-Key": "one"}}
    where, body = f"{path}/templates/minimal-local/apply", {"rollout": "chess"}
    done = room.post(where, body, 200, **key)
    assert done["base_sha"] == first and room.post(where, body, 200, **key) == done
    assert room.status(workspace, done["commit_sha"])["live"]
    assert room.post(where, body, 409)["code"] == "PLAN_BLOCKED"
    assert [j["state"] for j in room.get(f"{path}/jobs")["items"]] == ["failed", "done"]
