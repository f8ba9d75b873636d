"""The door for deliveries: who is let in, what is answered, how fast."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import time
from urllib.parse import urlencode, urlsplit

import httpx
import pytest

from tests.web.remote import deliver, push_payload

SHA = "a" * 40


@pytest.fixture(scope="module")
def hook(live):
    """A workspace of the provider github; nothing listens at its remote."""
    made = live.post(
        "/workspaces",
        {
            "name": "hooked",
            "provider": "github",
            "connect": {"clone_url": "https://github.com/acme/hooked.git"},
        },
        status=201,
    )
    yield made
    live.post(f"/workspaces/{made['id']}/disconnect")


def payload(**more):
    return push_payload("0" * 40, SHA, repository="acme/hooked") | more


def test_strangers_all_get_the_same_answer(live, hook):
    other = live.create()
    base = f"{live.url}/hooks"
    answers = [
        deliver(url, secret, payload())
        for url, secret in (
            (hook["webhook"]["url"], "wrong"),
            (f"{base}/github/ws_0000000000000000", hook["webhook"]["secret"]),
            (f"{base}/gitlab/{hook['id']}", hook["webhook"]["secret"]),
            (f"{base}/generic/{hook['id']}", hook["webhook"]["secret"]),
            (f"{base}/embedded/{other['id']}", other["webhook"]["secret"]),
            (f"{base}/github/{other['id']}", other["webhook"]["secret"]),
        )
    ]
    assert {a.status_code for a in answers} == {401}
    assert len({a.content for a in answers}) == 1
    assert answers[0].json()["code"] == "SIGNATURE_INVALID"
    log = live.get(f"/workspaces/{hook['id']}/deliveries")
    assert not [d for d in log["items"] if d["after_sha"] == SHA]


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Hub-Signature-256": ""},
        {"X-Hub-Signature-256": "sha256="},
        {"X-Hub-Signature-256": "sha256=" + "0" * 64},
        {"X-Hub-Signature-256": "sha1=" + "0" * 40},
        {"X-Hub-Signature-256": "sha256=" + "\u00e9" * 64},
    ],
)
def test_a_signature_that_does_not_fit_is_refused(hook, headers):
    raw = {k: v.encode("latin-1") for k, v in headers.items()}
    answer = deliver(hook["webhook"]["url"], hook["webhook"]["secret"], payload(), headers=raw)
    assert answer.status_code == 401


def test_the_length_and_name_of_the_path_cost_nothing(live):
    for name in ("x" * 5000, "%00", "..%2f..", "ws_\u00e9"):
        answer = httpx.post(
            f"{live.url}/hooks/github/{name}", content=b"{}", trust_env=False, verify=False
        )
        assert answer.status_code in (400, 401, 404), name


@pytest.mark.parametrize(
    ("body", "event"),
    [
        (b"", "push"),
        (b"{", "push"),
        (b"[1]", "push"),
        (json.dumps({"ref": 7}).encode(), "push"),
        (json.dumps(payload(after="x")).encode(), "push"),
        (json.dumps(payload()).encode(), "no such event"),
    ],
)
def test_what_is_signed_but_malformed_gets_400(hook, body, event):
    answer = deliver(
        hook["webhook"]["url"], hook["webhook"]["secret"], None, body=body, event=event
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "DELIVERY_MALFORMED")


@pytest.mark.parametrize("event", ["installation", "meta", "star", "check_suite", "new_kind"])
def test_an_event_that_is_not_known_is_taken_and_ignored(hook, event):
    answer = deliver(
        hook["webhook"]["url"], hook["webhook"]["secret"], {"action": "created"}, event=event
    )
    assert answer.status_code == 200 and answer.json()["outcome"] == "ignored"


def test_a_foreign_repository_is_refused(hook):
    foreign = push_payload("0" * 40, SHA, repository="acme/other", number=8)
    answer = deliver(hook["webhook"]["url"], hook["webhook"]["secret"], foreign)
    assert (answer.status_code, answer.json()["code"]) == (404, "FOREIGN_REPOSITORY")


def test_a_rename_is_known_by_the_name_before(live, hook):
    renamed = {
        "action": "renamed",
        "repository": {"full_name": "acme/renamed", "id": 7},
        "changes": {"repository": {"name": {"from": "hooked"}}},
    }
    url, secret = hook["webhook"]["url"], hook["webhook"]["secret"]
    answer = deliver(url, secret, renamed, event="repository")
    assert answer.status_code == 202 and answer.json()["event"] == "repository.renamed"
    foreign = renamed | {"changes": {"repository": {"name": {"from": "else"}}}}
    foreign["repository"] = {"full_name": "acme/other", "id": 8}
    assert deliver(url, secret, foreign, event="repository").status_code == 404


def test_a_form_is_taken_like_json(hook):
    body = urlencode({"payload": json.dumps(payload(ref="refs/tags/v1"))}).encode()
    answer = deliver(
        hook["webhook"]["url"],
        hook["webhook"]["secret"],
        None,
        body=body,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert answer.status_code == 200 and "no branch" in answer.json()["reason"]


def test_odd_refs_are_shown_escaped(hook):
    for ref in (
        "refs/heads/\u202egnp",
        "refs/heads/\x1b[31m",
        "refs/heads/功能",
        "refs/heads/\ud800",
    ):
        answer = deliver(hook["webhook"]["url"], hook["webhook"]["secret"], payload(ref=ref))
        assert answer.status_code in (200, 202), answer.text
        shown = answer.json()["ref"]
        assert shown.isprintable() and shown.startswith("refs/heads/")


def test_a_large_body_is_cut_off_before_it_is_read(live, hook):
    parts = urlsplit(live.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
        path = urlsplit(hook["webhook"]["url"]).path
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {26 * 2**20}\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_a_body_of_twenty_megabytes_is_verified(hook):
    secret = hook["webhook"]["secret"]
    raw = json.dumps(payload(ref="refs/tags/big", filler="x" * (20 * 2**20))).encode()
    signature = hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()
    assert len(signature) == 64
    answer = deliver(hook["webhook"]["url"], secret, None, body=raw)
    assert answer.status_code == 200, answer.text


def test_answers_are_quick_and_never_wait_for_the_remote(hook):
    url, secret = hook["webhook"]["url"], hook["webhook"]["secret"]
    took = []
    for _ in range(20):
        begin = time.monotonic()
        assert deliver(url, secret, payload()).status_code == 202
        took.append(time.monotonic() - begin)
    assert sorted(took)[10] < 0.5, took
