"""Secrets over HTTP and with the real `osmosis` CLI: they go in and never come out."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import httpx
import pytest

from gitsync import secrets as story
from gitsync.store import secrets as stored
from tests.live import live_server
from tests.osmosis import Osmosis
from tests.web.conftest import people_of

CANARY = "sv-7d1f0c9b2e"


@pytest.fixture(scope="module")
def team(live):
    """A workspace and a person in each role."""
    workspace = live.create()
    tokens, _ = people_of(live, workspace)
    return workspace, tokens


def put(live, team, name, value=CANARY, scope="user", token="owner"):
    workspace, tokens = team
    path = f"/workspaces/{workspace['id']}/secrets/{name}"
    return live.call("PUT", path, json={"value": value, "scope": scope}, token=tokens[token])


def names(live, team, token="owner", scope="all") -> list[tuple[str, str]]:
    workspace, tokens = team
    found = live.get(f"/workspaces/{workspace['id']}/secrets?scope={scope}", token=tokens[token])
    return [(item["name"], item["scope"]) for item in found["items"]]


def test_one_name_in_both_scopes_and_the_value_in_no_answer(live, team):
    answers = [put(live, team, "BOTH", scope=scope) for scope in ("user", "workspace", "user")]
    assert [a.status_code for a in answers] == [200] * 3
    assert not any(CANARY in a.text for a in answers)
    assert names(live, team) == [("BOTH", "workspace"), ("BOTH", "user")]
    assert names(live, team, "member") == [("BOTH", "workspace")]
    workspace, tokens = team
    url = f"/workspaces/{workspace['id']}/secrets/BOTH"
    for scope, left in (("workspace", ["user"]), ("user", [])):
        assert live.call("DELETE", f"{url}?scope={scope}", token=tokens["owner"]).status_code == 204
        assert [s for _, s in names(live, team)] == left
    gone = live.call("DELETE", url, token=tokens["owner"])
    assert (gone.status_code, gone.json()["code"]) == (404, "SECRET_NOT_FOUND")


@pytest.mark.parametrize(
    ("role", "scope", "status"),
    [
        ("reader", "user", 403),
        ("member", "user", 200),
        ("member", "workspace", 403),
        ("admin", "workspace", 200),
    ],
)
def test_who_may_set_what(live, team, role, scope, status):
    answer = put(live, team, "ROLE", scope=scope, token=role)
    assert answer.status_code == status
    workspace, tokens = team
    identity = {"X-Osmosis-Git": workspace["identity"]}
    body = {"name": "ROLE", "value": CANARY, "scope": scope}
    same = live.call(
        "POST", "//api/cli/environment-secrets", json=body, token=tokens[role], headers=identity
    )
    assert same.status_code == status and CANARY not in same.text


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("lower", "x", "name"),
        ("1A", "x", "name"),
        ("_OSMOSIS_X", "x", "name"),
        ("A" * 256, "x", "name"),
        ("OK", "", "value"),
        ("OK", "x" * 40_000, "value"),
    ],
)
def test_what_is_no_secret(live, team, name, value, field):
    answer = put(live, team, name, value)
    assert answer.status_code == 400 and value[:20] not in answer.json()["message"].split()
    assert answer.json()["field"] == field


def test_a_value_is_sealed_and_found_nowhere(tmp_path):
    with live_server(tmp_path) as live:
        workspace = live.create()
        owner = live.get("/whoami")["user"]["id"]
        path = f"/workspaces/{workspace['id']}/secrets/KEY"
        headers = {"Idempotency-Key": "once"}
        for _ in range(2):
            live.call("PUT", path, json={"value": CANARY}, headers=headers).raise_for_status()
        events = live.get("/events?after=0")["items"]
        assert "secrets.changed" in {e["type"] for e in events} and "KEY" not in str(events)
        instance = live.running.instance
        with instance.database.read() as db:
            scopes = stored.resolve_secrets(db, workspace["id"], owner, ["KEY"])
            values = stored.open_secrets(db, instance.sealer, workspace["id"], owner, scopes)
        assert (scopes, values) == ({"KEY": "user"}, {"KEY": CANARY})
        with closing(sqlite3.connect(live.data_dir / "gitsync.db")) as db:
            assert CANARY not in "\n".join(db.iterdump())
    held = [
        p for p in live.data_dir.rglob("*") if p.is_file() and CANARY.encode() in p.read_bytes()
    ]
    assert held == []


def test_a_person_has_so_many_secrets_and_no_more(live, monkeypatch):
    monkeypatch.setattr(story, "MOST", 2)
    workspace = live.create()
    team = workspace, people_of(live, workspace)[0]
    assert [put(live, team, name).status_code for name in ("A", "B", "C", "A")] == [
        200,
        200,
        409,
        200,
    ]
    assert put(live, team, "C", token="member").status_code == 200
    assert put(live, team, "C", scope="workspace").status_code == 200
    assert names(live, team, scope="user") == [("A", "user"), ("B", "user")]


def test_personal_secrets_go_with_the_member(live):
    workspace = live.create()
    tokens, emails = people_of(live, workspace)
    team = workspace, tokens
    assert put(live, team, "MINE", token="member").status_code == 200
    path = f"/workspaces/{workspace['id']}/members/{emails['member']}"
    assert live.call("DELETE", path).status_code == 204
    assert live.call("PUT", path, json={"role": "member"}).status_code == 200
    assert names(live, team, "member") == []


@pytest.mark.slow
def test_osmosis_secret_commands(live, tmp_path):
    workspace = live.create()
    osmosis = Osmosis(live.url, live.token, workspace["name"], tmp_path / "me")
    for scope in ("personal", "workspace"):
        said = osmosis("secret", "set", "KEY", "--scope", scope, "--env", "V", env={"V": CANARY})
        assert said.data["resource"]["scope"] == scope and CANARY not in said.out + said.err
    listed = osmosis("secret", "list", "--all").data["items"]
    assert [(s["name"], s["scope"]) for s in listed] == [("KEY", "workspace"), ("KEY", "personal")]
    assert osmosis("secret", "delete", "KEY", "--scope", "workspace", "--yes").code == 0
    assert [s["scope"] for s in osmosis("secret", "list").data["items"]] == ["personal"]
    missing = osmosis("secret", "delete", "KEY", "--scope", "workspace", "--yes").error
    assert missing["code"] == "NOT_FOUND"


@pytest.mark.parametrize("scope", ["everything", "", "user,workspace"])
def test_an_unknown_scope_is_refused(live, team, scope):
    workspace, tokens = team
    answer = httpx.get(
        f"{live.url}/api/cli/environment-secrets",
        params={"scope": scope},
        headers={
            "Authorization": f"Bearer {tokens['owner']}",
            "X-Osmosis-Git": workspace["identity"],
        },
        trust_env=False,
        verify=False,
    )
    assert (answer.status_code, answer.json()["field"]) == (400, "scope")
