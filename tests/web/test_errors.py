"""Errors have one shape everywhere, the framework's own included, and show no secrets."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import time
from urllib.parse import urlsplit

import httpx
import pytest

from gitsync.errors import GitSyncError
from gitsync.web import auth, hooks, wire
from gitsync.web.api import tokens


def shape(response: httpx.Response) -> dict:
    assert response.headers["content-type"] == "application/json", response.text
    body = response.json()
    assert body["error"] == body["message"] and body["message"]
    assert body["code"].isupper()
    assert response.headers["x-content-type-options"] == "nosniff"
    return body


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v1/nothing", 404, "NOT_FOUND"),
        ("GET", "/nothing", 404, "NOT_FOUND"),
        ("GET", "/api/v1/workspaces/", 404, "NOT_FOUND"),
        ("PUT", "/api/v1/workspaces", 405, "METHOD_NOT_ALLOWED"),
        ("PATCH", "/api/v1/whoami", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/hooks/github/ws_1", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/api/v1/workspaces/none", 404, "NOT_FOUND"),
        ("GET", "/api/v1/workspaces?limit=0", 400, "VALIDATION"),
        ("GET", "/api/v1/workspaces?limit=1000", 400, "VALIDATION"),
        ("GET", "/api/v1/workspaces?after=%00", 400, "VALIDATION"),
        ("GET", "/api/v1/workspaces/a%00b", 400, "VALIDATION"),
        ("GET", "/api/v1/workspaces/none/commits/abc", 404, "NOT_FOUND"),
    ],
)
def test_an_error_has_its_shape(live, method, path, status, code):
    body = shape(answer := live.call(method, "/" + path))
    assert (answer.status_code, body["code"]) == (status, code)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b"\xff\xfe",
        b"[" * 50_000,
        b'{"name": ' + b"9" * 10_000 + b"}",
        b'{"name": "a\\u0000b"}',
        b'{"name": "\\ud800"}',
        b'{"name": 5}',
        b'{"name": "x", "nmae": "y"}',
        b'{"name": "x", "connect": {"clone_url": "http://a\\u0000b/c.git"}}',
        b"name=x",
    ],
    ids=range(13),
)
def test_a_malformed_body_is_refused(live, content):
    headers = {"Content-Type": "application/json"}
    answer = live.call("POST", "/workspaces", content=content, headers=headers)
    assert answer.status_code == 400, answer.text
    assert shape(answer)["code"] == "VALIDATION"


def test_a_malformed_value_is_named_with_all_others(live):
    answer = live.call("POST", "/tokens", json={"name": "", "expires_in_days": -1})
    body = shape(answer)
    assert answer.status_code == 400 and body["field"] == "name"
    assert {issue["key"] for issue in body["issues"]} == {"name", "expires_in_days"}


def test_a_body_over_the_limit_is_cut_off(live):
    large = live.call("POST", "/workspaces", content=b" " * (4 * 2**20 + 1))
    assert (large.status_code, shape(large)["code"]) == (413, "BODY_TOO_LARGE")

    def pieces():
        for _ in range(5):
            yield b" " * 2**20

    piecewise = live.call("POST", "/workspaces", content=pieces())
    assert (piecewise.status_code, shape(piecewise)["code"]) == (413, "BODY_TOO_LARGE")
    hook = httpx.post(
        f"{live.url}/hooks/github/ws_1", content=b" " * (5 * 2**20), trust_env=False, verify=False
    )
    assert (hook.status_code, shape(hook)["code"]) == (401, "SIGNATURE_INVALID")


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "99999999999999999999"])
def test_an_odd_length_is_refused(live, length):
    parts = urlsplit(live.url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    connection.putrequest("POST", "/api/v1/workspaces")
    connection.putheader("Content-Length", length)
    connection.endheaders()
    assert connection.getresponse().status in (400, 413)
    connection.close()


def test_a_client_that_never_sends_its_body_is_let_go(tmp_path):
    from gitsync.web.limits import BodyLimit

    sent = []

    async def app(scope, receive, send):
        await receive()

    async def never():
        await asyncio.sleep(60)

    async def send(message):
        sent.append(message)

    import asyncio

    limit = BodyLimit(app, most=10, seconds=0.05, other={})
    scope = {"type": "http", "path": "/api/v1/x", "headers": [(b"content-length", b"5")]}
    begin = time.monotonic()
    asyncio.run(limit(scope, never, send))
    assert time.monotonic() - begin < 5
    assert sent[0]["status"] == 408 and json.loads(sent[1]["body"])["code"] == "REQUEST_TIMEOUT"


def test_an_unhandled_exception_shows_no_detail(live, monkeypatch, caplog):
    def broken(*args, **kwargs):
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(tokens.people, "list_tokens", broken)
    with caplog.at_level(logging.CRITICAL):
        answer = live.call("GET", "/tokens")
    assert answer.status_code == 500
    assert shape(answer)["code"] == "INTERNAL" and "hunter2" not in answer.text


def test_a_database_that_is_away_is_told_as_such(live, monkeypatch, caplog):
    from sqlalchemy.exc import OperationalError

    def broken(*args, **kwargs):
        raise OperationalError("SELECT secret", {}, Exception("disk full"))

    monkeypatch.setattr(tokens.people, "list_tokens", broken)
    with caplog.at_level(logging.CRITICAL):
        answer = live.call("GET", "/tokens")
    assert (answer.status_code, shape(answer)["code"]) == (503, "STORE_UNAVAILABLE")
    assert answer.headers["retry-after"] == "5" and "SELECT" not in answer.text


def test_a_header_block_without_end_is_refused(live):
    parts = urlsplit(live.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ")
        try:
            for _ in range(1400):
                connection.sendall(b"a" * 1024)
            answer = connection.recv(100)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
    assert answer == b"" or b" 400 " in answer
    assert httpx.get(f"{live.url}/healthz", trust_env=False, verify=False).status_code == 200


def _classes(kind: type) -> set[type]:
    return {kind} | {deeper for sub in kind.__subclasses__() for deeper in _classes(sub)}


STATUSES = {400, 401, 403, 404, 409, 426, 429, 500, 501, 502, 503}


def test_every_error_class_has_a_stable_code_and_a_status():
    assert auth and hooks
    for kind in _classes(GitSyncError):
        assert kind.code.isupper(), kind
        if kind.__module__.startswith(("gitsync.client", "gitsync.cli", "tests")):
            continue  # never raised in a server
        assert wire.status_of(kind("x")) in STATUSES, kind


def test_text_from_repositories_is_escaped_in_errors():
    answer = wire.error_response(
        GitSyncError("a\x1b[31m\udcff", issues=[{"key": "\udcfe", "message": "\ud800"}])
    )
    assert json.loads(answer.body)["message"] == "a\\x1b[31m\\xff"


def test_a_client_that_never_sends_its_head_is_let_go(live, monkeypatch):
    from gitsync.web import protocol

    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    parts = urlsplit(live.url)
    for start in (b"", b"GET /healthz HTTP/1.1\r\nHost:"):
        with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
            connection.sendall(start)
            assert connection.recv(100) == b""


def test_a_head_may_come_slowly_and_connections_are_kept(live):
    parts = urlsplit(live.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
        for _ in range(3):
            for piece in (b"GET /healthz HT", b"TP/1.1\r\nHost: x\r\nX-Filler: ", b"a" * 60_000):
                connection.sendall(piece)
                time.sleep(0.02)
            connection.sendall(b"\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
