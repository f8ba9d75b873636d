"""`Idempotency-Key`: the same request again gives the same answer (decision 33)."""

from __future__ import annotations

import threading
import time
import uuid

import pytest

from gitsync.web import wire


def key() -> dict[str, str]:
    return {"Idempotency-Key": uuid.uuid4().hex}


def test_a_repeated_request_creates_nothing_twice_and_shows_the_secret_again(live):
    headers, name = key(), f"once-{uuid.uuid4().hex}"
    first = live.call("POST", "/workspaces", json={"name": name}, headers=headers)
    again = live.call("POST", "/workspaces", json={"name": name}, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content and first.json()["webhook"]["secret"]
    assert again.headers["idempotent-replay"] == "true"
    assert "idempotent-replay" not in first.headers
    shown = live.get(f"/workspaces/{first.json()['id']}")
    assert "secret" not in shown["webhook"]  # only the replay shows it again


def test_a_stored_answer_is_not_readable_in_the_database(live):
    headers = key()
    secret = live.post("/tokens", {"name": "sealed"}, headers=headers)["secret"]
    data = b"".join(
        path.read_bytes() for path in live.data_dir.glob("gitsync.db*") if path.is_file()
    )
    assert headers["Idempotency-Key"].encode() in data and secret.encode() not in data


def test_another_body_with_the_same_key_is_refused(live):
    headers = key()
    assert live.call("POST", "/tokens", json={"name": "a"}, headers=headers).status_code == 201
    other = live.call("POST", "/tokens", json={"name": "b"}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_MISMATCH")


def test_a_key_belongs_to_its_caller_path_and_method(live, crowd, published):
    headers = key()
    mine = live.post("/tokens", {"name": "a"}, headers=headers)
    theirs = live.post("/tokens", {"name": "a"}, headers=headers, token=crowd.tokens["member"])
    assert mine["token"]["id"] != theirs["token"]["id"]
    elsewhere = live.call("POST", f"{published.path}/sync", headers=headers)
    assert elsewhere.status_code == 202


def test_a_request_that_still_runs_is_in_progress(live, monkeypatch):
    headers, gate, inside, found = key(), threading.Event(), threading.Event(), []
    real = wire.token_json

    def held(token):
        inside.set()
        assert gate.wait(20)
        return real(token)

    monkeypatch.setattr(wire, "token_json", held)
    thread = threading.Thread(
        target=lambda: found.append(
            live.call("POST", "/tokens", json={"name": "slow"}, headers=headers)
        )
    )
    thread.start()
    assert inside.wait(20)
    second = live.call("POST", "/tokens", json={"name": "slow"}, headers=headers)
    assert (second.status_code, second.json()["code"]) == (409, "IN_PROGRESS")
    gate.set()
    thread.join(20)
    third = live.call("POST", "/tokens", json={"name": "slow"}, headers=headers)
    assert found[0].status_code == third.status_code == 201
    assert found[0].json() == third.json()


def test_many_at_once_create_one(live):
    headers, name, answers = key(), f"race-{uuid.uuid4().hex}", []

    def ask():
        answers.append(live.call("POST", "/workspaces", json={"name": name}, headers=headers))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert {a.status_code for a in answers} <= {201, 409}
    assert {a.json().get("code") for a in answers if a.status_code == 409} <= {"IN_PROGRESS"}
    assert len({a.json()["id"] for a in answers if a.status_code == 201}) == 1
    listed = live.get("/workspaces", params={"name": name})
    assert listed["total_count"] == 1


def test_a_refused_request_may_be_repeated_once_it_can_succeed(live):
    headers = key()
    body = {"email": f"late-{uuid.uuid4().hex}@example.com"}
    workspace = live.create()
    path = f"/workspaces/{workspace['id']}/members/{body['email']}"
    assert live.call("PUT", path, json={"role": "reader"}, headers=headers).status_code == 404
    live.post("/users", body, status=201)
    assert live.call("PUT", path, json={"role": "reader"}, headers=headers).status_code == 200


def test_a_malformed_body_is_not_remembered(live):
    headers = key()
    assert live.call("POST", "/tokens", json={"name": ""}, headers=headers).status_code == 400
    assert live.call("POST", "/tokens", json={"name": "x"}, headers=headers).status_code == 201


@pytest.mark.parametrize("text", ["", "x" * 201, "caf\xe9"])
def test_a_malformed_key_is_refused(live, text):
    headers = {"Idempotency-Key": text.encode("latin-1")}
    answer = live.call("POST", "/tokens", json={"name": "x"}, headers=headers)
    assert answer.status_code == 400 and answer.json()["field"] == "Idempotency-Key"


def test_reading_ignores_the_key(live):
    headers = key()
    one = live.call("GET", "/whoami", headers=headers)
    two = live.call("GET", "/tokens", headers=headers)
    assert one.status_code == two.status_code == 200
    assert "idempotent-replay" not in two.headers


def test_an_empty_answer_is_replayed(live):
    made = live.post("/tokens", {"name": "gone"})
    headers, path = key(), f"/tokens/{made['token']['id']}"
    codes = [live.call("DELETE", path, headers=headers).status_code for _ in range(2)]
    assert codes == [204, 204]


def test_a_key_is_forgotten_after_a_day(live, monkeypatch):
    from datetime import timedelta

    from gitsync.web import idempotency

    headers = key()
    first = live.post("/tokens", {"name": "a"}, headers=headers)
    monkeypatch.setattr(idempotency, "KEPT", timedelta(seconds=0))
    time.sleep(0.01)
    second = live.post("/tokens", {"name": "a"}, headers=headers)
    assert first["token"]["id"] != second["token"]["id"]


def test_a_password_in_a_body_cannot_be_guessed_from_what_is_stored(live):
    """The digest of a body is keyed: a plain one could be found by trying passwords."""
    import hashlib
    import json

    live._count += 1
    _, token = live.user(f"idem-{live._count}@example.com")
    body = json.dumps({"password": "correct horse battery"}).encode()
    headers = key() | {"Content-Type": "application/json"}
    for _ in range(2):
        answer = live.call("PUT", "/password", content=body, headers=headers, token=token)
        assert answer.status_code == 204
    assert answer.headers["idempotent-replay"] == "true"
    digest = hashlib.sha256(body).hexdigest().encode()
    files = [path for path in live.data_dir.glob("gitsync.db*") if path.is_file()]
    assert all(digest not in path.read_bytes() for path in files)
