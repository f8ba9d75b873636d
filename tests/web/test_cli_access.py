"""Who may do what below /api/cli: every route against everybody, and what is asked first.

The table must have a row for each route; a new route without one fails the first test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from gitsync.web import cli_api
from tests.live import live_server
from tests.web.conftest import ROLES
from tests.web.test_access import CALLERS, MACHINES, STRANGERS

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


@dataclass(frozen=True)
class Row:
    """Who may call a route, what it answers them, and with what it is called.

    `who`: a role in the workspace of the scope header (`reader, people` are no machines), or in
    the one `of the query` or `of the body`; `all` known callers, `people`, or `open`.
    """

    who: str
    status: int
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)


NO_RUN, NO_SET = Row("reader", 404), Row("reader", 404)
GONE = Row("reader", 501)
RUN_BODY = {"experiment_config": {}}
TABLE = {
    ("POST", "/device/authorize"): Row("open", 200, {"deviceName": "x"}),
    ("POST", "/device/token"): Row("open", 400, {"device_code": "x"}),
    ("GET", "/verify"): Row("people", 200),
    ("DELETE", "/tokens/{token_id:segment}"): Row("people", 404),
    ("GET", "/workspaces"): Row("all", 200),
    ("GET", "/quickstart"): Row("reader of the query", 200, query={"organizationId": "{id}"}),
    ("POST", "/quickstart"): Row(
        "member of the body", 200, {"organizationId": "{id}", "intent": "train"}
    ),
    ("GET", "/rollouts"): Row("reader", 200),
    ("GET", "/models/base"): Row("reader", 200),
    ("GET", "/models/lora"): Row("reader", 200),
    ("GET", "/models/base/{name:segment}"): Row("reader", 404),
    ("GET", "/models/{name:segment}"): Row("reader", 404),
    ("POST", "/models/{name:segment}/deploy"): GONE,
    ("POST", "/models/{name:segment}/undeploy"): GONE,
    ("GET", "/datasets"): Row("reader", 200),
    ("POST", "/datasets"): Row("member", 400, {}),
    ("GET", "/datasets/{name:segment}"): NO_SET,
    ("GET", "/datasets/{name:segment}/logs"): NO_SET,
    ("GET", "/datasets/{name:segment}/download"): NO_SET,
    ("POST", "/datasets/{name:segment}/abort"): Row("member", 404, {}),
    ("POST", "/datasets/{name:segment}/complete"): Row("member", 404, {"file_extension": "csv"}),
    ("GET", "/environment-secrets"): Row("reader, people", 200),
    ("POST", "/environment-secrets"): Row(
        "member", 200, {"name": "MATRIX", "value": "x", "scope": "user"}
    ),
    ("DELETE", "/environment-secrets"): Row("member", 404, {"name": "NONE", "scope": "user"}),
    ("POST", "/eval-runs/imports"): GONE,
    ("POST", "/eval-runs/imports/{rest:path}"): GONE,
    ("POST", "/eval-runs/{ref:segment}/retry"): GONE,
    ("GET", "/eval-runs/{ref:segment}/samples/manifest"): GONE,
    ("GET", "/eval-runs/{ref:segment}/samples/download-urls"): GONE,
    ("POST", "/eval-runs/{ref:segment}/samples/download-urls"): GONE,
    ("GET", "/training-runs/{ref:segment}/checkpoints"): NO_RUN,
    **{
        (method, f"/{kind}{rest}"): row
        for kind in ("eval-runs", "training-runs")
        for (method, rest), row in {
            ("GET", ""): Row("reader", 200),
            ("POST", ""): Row("member", 400, RUN_BODY),
            ("GET", "/{ref:segment}"): NO_RUN,
            ("GET", "/{ref:segment}/logs"): NO_RUN,
            ("GET", "/{ref:segment}/metrics"): NO_RUN,
            ("POST", "/{ref:segment}/stop"): Row("member", 404, {}),
        }.items()
    },
    **{
        (method, path): GONE
        for path in ("/benchmarks", "/benchmark-runs")
        for path in (path, path + "/{rest:path}")
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
    },
}


def expected(row: Row, caller: str) -> int:
    """The status the table gives a caller."""
    if row.who == "open":
        return row.status
    if caller in STRANGERS:
        return 401
    is_machine = caller in MACHINES
    who, _, by_id = row.who.partition(" of ")
    role, _, only = who.partition(", ")
    if role in ROLES:
        if is_machine and (only or by_id == "the body"):
            return 403
        if caller == "outsider" or caller.endswith("of another"):
            return 404 if by_id else 403
        has = 3 if caller == "instance admin" else 0 if is_machine else ROLES.index(caller)
        return row.status if has >= ROLES.index(role) else 403
    return 403 if row.who == "people" and is_machine else row.status


def ask(http: httpx.Client, live, token: str | None, method: str, path: str, **more):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= more.pop("headers", {})
    return http.request(method, f"{live.url}/api/cli{path}", headers=headers, **more)


@pytest.fixture(scope="module")
def http():
    with httpx.Client(trust_env=False, verify=False, timeout=30) as found:
        yield found


def test_every_route_has_a_row():
    assert set(cli_api.routes()) == set(TABLE)


@pytest.mark.parametrize("route", TABLE, ids=" ".join)
def test_a_route_answers_each_caller_as_the_table_says(live, crowd, http, route):
    (method, path), row = route, TABLE[route]
    for name in ("token_id", "name", "ref"):
        path = path.replace(f"{{{name}:segment}}", "no-such")
    path = path.replace("{rest:path}", "a/b")
    here = {"id": crowd.workspace["id"]}
    body = row.body and {
        key: value.format(**here) if isinstance(value, str) else value
        for key, value in row.body.items()
    }
    query = {key: value.format(**here) for key, value in row.query.items()}
    is_scoped = row.who.partition(",")[0] in ROLES
    headers = {"X-Osmosis-Git": crowd.workspace["identity"]} if is_scoped else {}
    found, wanted = {}, {}
    for caller in CALLERS:
        token = crowd.tokens.get(caller)
        answer = ask(http, live, token, method, path, json=body, params=query, headers=headers)
        found[caller], wanted[caller] = answer.status_code, expected(row, caller)
        if answer.status_code >= 400:
            told = answer.json()
            assert told["error"] and told["message"] and told["code"].isupper(), caller
            assert "subscription" not in answer.text
    assert found == wanted


@pytest.mark.parametrize("caller", ["outsider", "reader", "machine read of this"])
def test_a_workspace_by_its_name_is_open_to_the_same(live, crowd, http, caller):
    headers = {"X-Osmosis-Workspace": crowd.workspace["name"]}
    answer = ask(http, live, crowd.tokens[caller], "GET", "/rollouts", headers=headers)
    assert answer.status_code == (403 if caller == "outsider" else 200)


def test_unknown_and_foreign_workspaces_look_alike(live, crowd, http):
    """No oracle: whoever is no member learns nothing."""
    for header, real in (("Git", "identity"), ("Workspace", "name")):
        told = [
            ask(
                http,
                live,
                crowd.tokens["outsider"],
                "GET",
                "/rollouts",
                headers={f"X-Osmosis-{header}": value},
            )
            for value in (crowd.workspace[real], "nobody--local/nothing")
        ]
        assert told[0].status_code == 403 and told[0].json() == told[1].json()


def test_what_is_asked_first(live, crowd, http):
    """Authentication, scope, role, input."""
    git = {"X-Osmosis-Git": crowd.workspace["identity"]}
    garbage = {"content": b"{" * 100, "headers": git}
    for caller, status in (("no token", 401), ("outsider", 403), ("reader", 403), ("member", 400)):
        token = crowd.tokens.get(caller)
        assert ask(http, live, token, "POST", "/eval-runs", **garbage).status_code == status, caller
    member = crowd.tokens["member"]
    for headers, code in (
        ({}, "GIT_SCOPE_HEADER_REQUIRED"),
        ({"X-Osmosis-Git": "a/b/c"}, "GIT_SCOPE_HEADER_INVALID"),
        ({"X-Osmosis-Git": "a/.."}, "GIT_SCOPE_HEADER_INVALID"),
        ({"X-Osmosis-Git": ""}, "GIT_SCOPE_HEADER_INVALID"),
        ({"X-Osmosis-Git": "a" * 9000 + "/b"}, "GIT_SCOPE_HEADER_INVALID"),
        ({**git, "X-Osmosis-Workspace": "x"}, "WORKSPACE_SCOPE_HEADER_CONFLICT"),
    ):
        answer = ask(http, live, member, "POST", "/eval-runs", content=b"{", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_a_client_that_is_too_old_is_told_before_all_else(tmp_path, http):
    with live_server(tmp_path, min_cli_version="0.3.8", advised_cli_version="0.4.0") as live:

        def call(version: str | None, path: str, method: str = "GET", token: str | None = None):
            headers = {} if version is None else {"X-Osmosis-CLI-Version": version}
            return ask(http, live, token, method, path, headers=headers, json={})

        for method, path in (("GET", "/verify"), ("POST", "/device/authorize")):
            old = call("0.3.7", path, method)
            assert old.status_code == 426
            assert (old.json()["status"], old.json()["code"]) == ("unsupported", "UPGRADE_REQUIRED")
        assert call("0.3.8", "/verify").status_code == 401
        for unknown in (None, "", "new", "1" * 9000):
            assert call(unknown, "/verify", token=live.token).status_code == 200
        advised = call("0.3.8", "/verify", token=live.token)
        assert advised.headers["x-osmosis-version-status"] == "upgrade_available"
        assert "0.4.0" in advised.headers["x-osmosis-version-message"]
        assert "x-osmosis-version-status" not in call("0.4", "/verify", token=live.token).headers


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/no-such", 404),
        ("/rollouts/", 404),
        ("/models/base/a%2Fb%2Fc", 404),
        ("/models/base/%ff", 404),
        ("/models/base/..%2f..%2fhealthz", 404),
        ("/models/base/a/b", 404),
        ("/models/base/a%00b", 400),
    ],
)
def test_odd_paths_get_an_answer_in_the_usual_shape(live, crowd, http, path, status):
    headers = {"X-Osmosis-Git": crowd.workspace["identity"]}
    answer = ask(http, live, crowd.tokens["member"], "GET", path, headers=headers)
    assert answer.status_code == status and answer.json()["code"].isupper()


def test_a_wrong_method_gets_an_answer_in_the_usual_shape(live, crowd, http):
    answer = ask(http, live, crowd.tokens["member"], "PATCH", "/rollouts")
    assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
