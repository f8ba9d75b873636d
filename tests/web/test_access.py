"""Who may do what: every route against everybody (decisions 36 and 46).

The table below must have a row for each route; a new route without one fails the first test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi.routing import iter_route_contexts

from gitsync.web import api, cli_api, pages
from gitsync.web.app import create_app
from tests.runs.kit import Team
from tests.web.conftest import ROLES, people_of

pytestmark = pytest.mark.slow  # CI and `make test-all` run it

STRANGERS = ("no token", "unknown", "expired", "revoked")
MACHINES = tuple(
    f"machine {role} of {where}"
    for role in ("read", "push", "executor")
    for where in ("this", "another")
)
CALLERS = (*STRANGERS, "outsider", *ROLES, "instance admin", *MACHINES)


@dataclass(frozen=True)
class Row:
    """Who may call a route, what it answers them, and with what it is called.

    `who`: `all` known callers, `people`, `chiefs` (administrators of the instance), `executors`
    (`executors of this`: those of the workspace), or a role in the workspace; `reader, people` are
    readers who are no machines.
    """

    who: str
    status: int
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)
    spare: bool = False  # on a workspace that nobody else needs


WS = "/workspaces/{workspace_id}"
NOT_EMBEDDED = 409  # the workspace of these tests is on the embedded host
OVER = 409  # the run of these tests was stopped before anybody claimed it
HELD = {"claim_id": "claim_nobody"}
TABLE = {
    ("GET", "/workspaces"): Row("all", 200),
    ("POST", "/workspaces"): Row("people", 409, {"name": "{name}"}),
    ("POST", "/workspaces/test"): Row("people", 200, {"clone_url": "http://127.0.0.1:9/x.git"}),
    ("GET", WS): Row("reader", 200),
    ("PATCH", WS): Row("admin", 200, {}, spare=True),
    ("DELETE", WS): Row("owner", 409, spare=True),
    ("DELETE", WS + "/aliases/{owner}/{repo}"): Row("admin", 404),
    ("POST", WS + "/suspend"): Row("admin", 200, spare=True),
    ("POST", WS + "/resume"): Row("admin", 200, spare=True),
    ("POST", WS + "/disconnect"): Row("admin", 200, spare=True),
    ("POST", WS + "/test"): Row("admin", NOT_EMBEDDED),
    ("PUT", WS + "/credential"): Row(
        "admin", NOT_EMBEDDED, {"kind": "token", "secret": "not-a-secret"}
    ),
    ("POST", WS + "/webhook-secret/rotate"): Row("admin", 200, spare=True),
    ("GET", WS + "/members"): Row("reader, people", 200),
    ("PUT", WS + "/members/{email}"): Row("admin", 200, {"role": "reader"}),
    ("DELETE", WS + "/members/{email}"): Row("admin", 404),
    ("GET", WS + "/tokens"): Row("admin", 200),
    ("POST", WS + "/sync"): Row("member", 202),
    ("GET", WS + "/syncs"): Row("reader", 200),
    ("GET", WS + "/syncs/{sync_id}"): Row("reader", 200),
    ("GET", WS + "/commits/{sha}"): Row("reader", 200),
    ("GET", WS + "/deliveries"): Row("member", 200),
    ("GET", WS + "/deliveries/{delivery_id}"): Row("member", 200),
    ("POST", WS + "/deliveries/{delivery_id}/redeliver"): Row("member", 202),
    ("GET", WS + "/versions"): Row("reader", 200),
    ("GET", WS + "/versions/{sha}"): Row("reader", 200),
    ("GET", WS + "/versions/{sha}/diff"): Row("reader", 200, query={"from": "{bad}"}),
    ("POST", WS + "/versions/{sha}/recheck"): Row("member", 200),
    ("PUT", WS + "/versions/{sha}/pins/{name}"): Row("member", 200, {"reason": "a paper"}),
    ("DELETE", WS + "/versions/{sha}/pins/{name}"): Row("member", 404),
    ("GET", WS + "/versions/{sha}/archive.tar.gz"): Row("reader", 200),
    ("GET", WS + "/rollouts"): Row("reader", 200),
    ("GET", WS + "/rollouts/{name}"): Row("reader", 200),
    ("POST", WS + "/resolve"): Row("reader", 200, {"rollout": "alpha"}),
    ("POST", WS + "/check"): Row("member", 200, {"ref": "main"}),
    ("GET", WS + "/artifacts/{digest}.tar"): Row("reader", 200),
    ("HEAD", WS + "/artifacts/{digest}.tar"): Row("reader", 200),
    ("GET", WS + "/artifacts/{digest}.tar.gz"): Row("reader", 200),
    ("GET", WS + "/artifacts/{digest}.tar.zst"): Row("reader", 200),
    ("GET", "/templates"): Row("all", 200),
    ("GET", "/templates/{name}"): Row("all", 404),
    ("GET", WS + "/templates"): Row("reader", 200),
    ("GET", WS + "/templates/diff"): Row("reader", 200),
    # what readers may do dry; `test_changes` has who may write
    ("POST", WS + "/templates/update"): Row("reader", 404, {"dry_run": "true"}),
    ("POST", WS + "/templates/{name}/apply"): Row("reader", 404, {"dry_run": "true"}),
    ("POST", WS + "/adopt"): Row("reader", 200, {"message": "Adopt"}),
    ("GET", WS + "/skills"): Row("reader", 200),
    ("POST", WS + "/skills/install"): Row("reader", 400, {"dry_run": "true"}),
    ("POST", WS + "/skills/upgrade"): Row("reader", 200, {"dry_run": "true"}),
    ("POST", WS + "/skills/uninstall"): Row("reader", 400, {"dry_run": "true"}),
    ("POST", WS + "/skills/repair"): Row("reader", 200, {"dry_run": "true"}),
    ("GET", WS + "/jobs"): Row("reader", 200),
    ("GET", WS + "/jobs/{job_id}"): Row("reader", 404),
    ("GET", WS + "/datasets"): Row("reader", 200),
    ("POST", WS + "/datasets"): Row(
        "member, people", 400, {"name": "x", "format": "tsv", "size": "1"}
    ),
    ("GET", WS + "/datasets/{name}"): Row("reader", 404),
    ("DELETE", WS + "/datasets/{name}"): Row("member, people", 404),
    ("POST", WS + "/datasets/{name}/complete"): Row("member, people", 404, {}),
    ("POST", WS + "/datasets/{name}/abort"): Row("member, people", 404),
    ("GET", WS + "/datasets/{name}/logs"): Row("reader", 404),
    ("GET", WS + "/datasets/{name}/content"): Row("reader", 404),
    ("GET", WS + "/secrets"): Row("reader, people", 200),
    ("PUT", WS + "/secrets/{name}"): Row("member, people", 400, {"value": "x"}),
    ("DELETE", WS + "/secrets/{name}"): Row("member, people", 400),
    ("GET", WS + "/runs"): Row("reader", 200),
    ("GET", WS + "/runs/{run}"): Row("reader", 200),
    ("GET", WS + "/runs/{run}/logs"): Row("reader", 200),
    ("GET", WS + "/runs/{run}/samples"): Row("reader", 200),
    ("POST", WS + "/runs/{run}/stop"): Row("member", OVER),
    ("POST", "/runs/claim"): Row("executors", 200, {"kinds": ["eval"]}),
    ("GET", "/runs/{run_id}/dataset"): Row("executors of this", OVER),
    ("POST", "/runs/{run_id}/heartbeat"): Row("executors of this", OVER, HELD),
    ("POST", "/runs/{run_id}/logs"): Row(
        "executors of this", OVER, HELD | {"entries": [{"sequence": 0, "message": "x"}]}
    ),
    ("POST", "/runs/{run_id}/samples"): Row(
        "executors of this", OVER, HELD | {"samples": [{"row_index": 0}]}
    ),
    ("POST", "/runs/{run_id}/metrics"): Row(
        "executors of this", OVER, HELD | {"metrics": [{"key": "x", "step": 0, "value": 1}]}
    ),
    ("POST", "/runs/{run_id}/finish"): Row("executors of this", OVER, HELD | {"state": "failed"}),
    ("GET", "/whoami"): Row("all", 200),
    ("PUT", "/password"): Row("people", 204, {"password": "correct horse battery"}),
    ("GET", "/tokens"): Row("people", 200),
    ("POST", "/tokens"): Row("people", 201, {"name": "mine"}),
    ("DELETE", "/tokens/{token_id}"): Row("people", 404),
    ("GET", "/users"): Row("chiefs", 200),
    ("POST", "/users"): Row("chiefs", 409, {"email": "outsider@example.com"}),
    ("POST", "/users/{user_id}/login-link"): Row("chiefs", 404),
    ("DELETE", "/users/{user_id}"): Row("chiefs", 404),
    ("GET", "/events"): Row("all", 200),
}


def expected(who: str, caller: str, status: int) -> int:
    """The status the table gives a caller."""
    if caller in STRANGERS:
        return 401
    is_machine, is_chief = caller in MACHINES, caller == "instance admin"
    role, _, only = who.partition(", ")
    if role in ROLES:
        if caller == "outsider" or caller.endswith("of another"):
            return 404
        if is_machine:
            return status if role == "reader" and not only else 403
        return status if is_chief or ROLES.index(caller) >= ROLES.index(role) else 403
    if who == "people":
        return 403 if is_machine else status
    if who.startswith("executors"):
        if not caller.startswith("machine executor"):
            return 403
        return 404 if who.endswith("this") and caller.endswith("another") else status
    if who == "chiefs":
        return status if is_chief else 403
    return status


@pytest.fixture(scope="module")
def places(live, published, crowd):
    """What the placeholders of paths, queries and bodies stand for."""
    team = Team(live, published.workspace, published.checkout, published.bad, live.token, "")
    team.upload()
    stopped = team.submit()
    team.stop_all()
    return {
        "workspace_id": published.workspace["id"],
        "sha": published.good,
        "bad": published.bad,
        "digest": published.digest,
        "name": "alpha",
        "email": crowd.emails["reader"],
        "sync_id": live.get(published.path + "/syncs")["items"][0]["id"],
        "delivery_id": live.get(published.path + "/deliveries")["items"][0]["id"],
        "job_id": 404,
        "token_id": "tk_nobody",
        "run": stopped["name"],
        "run_id": stopped["id"],
        "user_id": "us_nobody",
        "owner": "some--local",
        "repo": "rollouts",
    }


# what lies outside /api/v1 and answers everybody alike: it needs no token, or another proof
OPEN = {
    ("GET", "/"): 200,  # a browser is led to the dashboard
    ("GET", "/healthz"): 200,
    ("GET", "/readyz"): 200,
    ("GET", "/metrics"): 200,
    ("GET", "/api/v1/openapi.json"): 200,
    ("HEAD", "/api/v1/openapi.json"): 200,
    ("GET", "/login/{code}"): 200,  # it only asks
    ("POST", "/login/{code}"): 410,
    ("GET", "/signin"): 200,
    ("POST", "/signin"): 403,  # without the token of the form
    ("POST", "/signout"): 401,  # tokens open no pages
    ("GET", "/device"): 401,
    ("POST", "/device"): 401,
    ("GET", "/account/security"): 401,
    ("POST", "/account/password"): 401,
    ("POST", "/account/sessions/end"): 401,
    ("POST", "/hooks/{provider}/{workspace_id}"): 401,
    ("PUT", "/uploads/{signed}"): 403,  # the link itself is the proof
    ("GET", "/downloads/{signed}"): 403,
}


def test_every_route_has_a_row(live):
    routes = {(method, path.removeprefix(api.PREFIX)) for method, path in api.routes()}
    assert routes == set(TABLE)
    every = {
        (method, found.path)
        for found in iter_route_contexts(create_app(live.running.instance).routes)
        for method in found.methods or {"any"}
    }
    ours = {(method, api.PREFIX + path) for method, path in TABLE}
    osmosis = {(method, cli_api.PREFIX + path) for method, path in cli_api.routes()}
    elsewhere = osmosis | pages.routes() | {("any", "/git")}  # they have tests of their own
    assert every == ours | set(OPEN) | elsewhere


@pytest.mark.parametrize("route", OPEN, ids=" ".join)
def test_an_open_route_answers_everybody_alike(live, crowd, places, route):
    (method, path), status = route, OPEN[route]
    here = places | {"provider": "github", "code": "x" * 43, "signed": "x.x"}
    found = {}
    with httpx.Client(trust_env=False, verify=False, timeout=30) as http:
        for caller in CALLERS:
            token = crowd.tokens.get(caller)
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            answer = http.request(method, live.url + path.format(**here), headers=headers)
            found[caller] = answer.status_code
    assert found == dict.fromkeys(CALLERS, status)


@pytest.mark.parametrize("route", TABLE, ids=" ".join)
def test_a_route_answers_each_caller_as_the_table_says(live, published, crowd, places, route):
    (method, path), row = route, TABLE[route]
    tokens, here = crowd.tokens, dict(places)
    if row.spare:
        spare = live.create()
        fresh, _ = people_of(live, spare)
        here["workspace_id"], tokens = spare["id"], tokens | fresh
        for role in ("read", "push", "executor"):
            body = {"name": role, "role": role, "workspaces": [spare["id"]]}
            tokens[f"machine {role} of this"] = live.post("/tokens", body)["secret"]
    if path.endswith("/members/{email}") and method == "DELETE":
        here["email"] = "outsider@example.com"
    if "/pins/" in path:
        here["name"] = "keep" if method == "PUT" else "none"
    if path == "/workspaces":
        here["name"] = published.workspace["name"]
    body = row.body and {
        key: value if isinstance(value, list) else str(value).format(**here)
        for key, value in row.body.items()
    }
    query = {key: value.format(**here) for key, value in row.query.items()}
    url = f"{live.url}{api.PREFIX}{path.format(**here)}"
    found, wanted = {}, {}
    with httpx.Client(trust_env=False, verify=False, timeout=30) as http:
        for caller in CALLERS:
            token = tokens.get(caller)
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            json = {} if body is None and method in ("PATCH",) else body
            answer = http.request(method, url, json=json, params=query, headers=headers)
            found[caller] = answer.status_code
            wanted[caller] = expected(row.who, caller, row.status)
            if answer.status_code >= 400 and method != "HEAD":
                assert set(answer.json()) >= {"error", "message", "code"}, caller
    assert found == wanted


def test_strangers_are_told_apart(live, crowd):
    codes = {}
    for caller in STRANGERS:
        token = crowd.tokens.get(caller)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = httpx.get(
            f"{live.url}/api/v1/whoami", headers=headers, trust_env=False, verify=False
        )
        assert answer.headers["www-authenticate"].startswith("Bearer")
        codes[caller] = answer.json()["code"]
    assert codes == {
        "no token": "AUTH_HEADER_MISSING",
        "unknown": "TOKEN_INVALID",
        "expired": "TOKEN_EXPIRED",
        "revoked": "TOKEN_REVOKED",
    }


@pytest.mark.parametrize("header", ["Bearer", "Basic eDp5", "Token abc", "Bearer \xff"])
def test_a_malformed_header_is_refused(live, header):
    answer = httpx.get(
        f"{live.url}/api/v1/whoami",
        headers={"Authorization": header.encode("latin-1")},
        trust_env=False,
        verify=False,
    )
    assert answer.status_code == 401


def test_who_is_asked_before_what(live, crowd, published):
    """Authentication, then the workspace, then the role, then the input."""
    path = f"{live.url}/api/v1{published.path}"
    for caller, status in (("no token", 401), ("outsider", 404), ("reader", 403), ("member", 400)):
        token = crowd.tokens.get(caller)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = httpx.post(
            f"{path}/check", json={"reff": 1}, headers=headers, trust_env=False, verify=False
        )
        assert answer.status_code == status, caller
    garbage = httpx.post(f"{path}/check", content=b"{" * 100, trust_env=False, verify=False)
    assert garbage.status_code == 401


@pytest.mark.parametrize("who", ["member", "machine push of this", "owner", "instance admin"])
def test_those_who_may_push_can(live, crowd, published, who):
    assert _refs(live, published, "git-receive-pack", crowd.tokens[who]) == 200


@pytest.mark.parametrize("who", ["reader", "machine read of this", "machine executor of this"])
def test_those_who_may_read_can_clone_and_not_push(live, crowd, published, who):
    assert _refs(live, published, "git-upload-pack", crowd.tokens[who]) == 200
    assert _refs(live, published, "git-receive-pack", crowd.tokens[who]) == 403


@pytest.mark.parametrize("who", ["outsider", "machine push of another", "machine read of another"])
def test_others_do_not_learn_that_a_repository_exists(live, crowd, published, who):
    assert _refs(live, published, "git-upload-pack", crowd.tokens[who]) == 404


@pytest.mark.parametrize("who", STRANGERS)
def test_strangers_are_asked_for_a_token_by_the_git_host(live, crowd, published, who):
    assert _refs(live, published, "git-upload-pack", crowd.tokens.get(who)) == 401


def _refs(live, published, service: str, token: str | None) -> int:
    return httpx.get(
        f"{published.workspace['clone_url']}/info/refs?service={service}",
        auth=("x", token) if token else None,
        trust_env=False,
        verify=False,
    ).status_code
