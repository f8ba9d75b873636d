"""Who may see and change what on the dashboard: every route of the pages against everybody."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest

from gitsync.web import pages
from tests.web.browser import Browser
from tests.web.conftest import ROLES
from tests.web.dashboard import enter

pytestmark = pytest.mark.slow  # CI and `make test-all` run it

VIEWERS = ("outsider", *ROLES, "chief")


@dataclass(frozen=True)
class Row:
    """`who`: `any` browser, `signed in`, `chief`, or the least role in the workspace."""

    who: str
    status: int = 200
    fields: dict[str, str] = field(default_factory=dict)


WS = "/workspaces/{workspace_id}"
SETTINGS = WS + "/settings"
REFUSED = 400  # a form that asks for something that cannot be: who may ask was settled before
TABLE = {
    ("GET", "/static/{digest}/{name}"): Row("any", 200),
    ("GET", "/"): Row("any", 307),
    ("POST", "/theme"): Row("any", 303, {"theme": "auto"}),
    ("GET", "/workspaces"): Row("signed in"),
    ("GET", "/account"): Row("signed in"),
    ("POST", "/account/tokens"): Row("signed in", REFUSED, {"name": ""}),
    ("POST", "/account/tokens/revoke"): Row("signed in", 404, {"token": "tk_none"}),
    ("GET", "/admin"): Row("chief"),
    ("GET", WS): Row("reader"),
    ("GET", WS + "/rollouts"): Row("reader"),
    ("GET", WS + "/rollouts/{name}"): Row("reader", 404),
    ("GET", WS + "/syncs"): Row("reader"),
    ("POST", WS + "/sync"): Row("member", 303),
    ("GET", WS + "/commits/{sha}"): Row("reader"),
    ("GET", WS + "/versions"): Row("reader"),
    ("GET", WS + "/versions/{sha}"): Row("reader"),
    ("GET", WS + "/versions/{sha}/diff"): Row("reader"),
    ("GET", WS + "/versions/{sha}/archive.tar.gz"): Row("reader"),
    ("GET", WS + "/artifacts/{digest}.tar"): Row("reader"),
    ("POST", WS + "/versions/{sha}/recheck"): Row("member", 303),
    ("POST", WS + "/versions/{sha}/pin"): Row("member", REFUSED, {"name": "a b"}),
    ("POST", WS + "/versions/{sha}/unpin"): Row("member", 404, {"name": "none"}),
    ("GET", WS + "/templates"): Row("reader"),
    ("GET", WS + "/templates/{name}"): Row("reader", 404),
    ("POST", WS + "/changes"): Row("reader", REFUSED, {"operation": "none"}),
    ("GET", WS + "/deliveries"): Row("member"),
    ("POST", WS + "/deliveries/{delivery_id}/redeliver"): Row("member", 404),
    ("GET", WS + "/runs"): Row("reader"),
    ("GET", WS + "/runs/compare"): Row("reader"),
    ("GET", WS + "/runs/{run}"): Row("reader", 404),
    ("GET", WS + "/runs/{run}/live"): Row("reader", 404),
    ("POST", WS + "/runs/{run}/stop"): Row("member", 404),
    ("GET", WS + "/datasets"): Row("reader"),
    ("GET", WS + "/datasets/{name}"): Row("reader", 404),
    ("GET", WS + "/datasets/{name}/content"): Row("reader", 404),
    ("POST", WS + "/datasets/{name}/delete"): Row("member", 404),
    ("POST", WS + "/datasets/{name}/abort"): Row("member", 404),
    ("GET", WS + "/secrets"): Row("reader"),
    ("POST", WS + "/secrets"): Row("member", REFUSED, {"name": "no", "scope": "user"}),
    ("POST", WS + "/secrets/delete"): Row("member", 404, {"name": "NO", "scope": "user"}),
    ("GET", SETTINGS): Row("admin"),
    ("POST", SETTINGS): Row("admin", REFUSED, {"name": "x", "identity": "x", "watch": "default"}),
    ("POST", SETTINGS + "/test"): Row("admin", 409),
    ("POST", SETTINGS + "/credential"): Row("admin", 409, {"kind": "token", "secret": "x"}),
    ("POST", SETTINGS + "/rotate"): Row("admin", REFUSED, {"overlap": "7"}),
    ("POST", SETTINGS + "/members"): Row("admin", 404, {"email": "no@no.no", "role": "reader"}),
    ("POST", SETTINGS + "/members/remove"): Row("admin", 404, {"email": "no@no.no"}),
    ("POST", SETTINGS + "/tokens"): Row("admin", REFUSED, {"name": "", "role": "read"}),
    ("POST", SETTINGS + "/tokens/revoke"): Row("admin", 404, {"token": "tk_none"}),
    ("POST", SETTINGS + "/suspend"): Row("admin", 303),
    ("POST", SETTINGS + "/resume"): Row("admin", 303),
    ("POST", SETTINGS + "/disconnect"): Row("admin", REFUSED, {"identity": "wrong"}),
    ("POST", SETTINGS + "/delete"): Row("owner", REFUSED, {"identity": "wrong"}),
}
STREAM = ("GET", "/live")  # it does not end: tested with the streams


def test_every_page_has_a_row():
    assert pages.routes() == set(TABLE) | {STREAM}


@pytest.fixture(scope="module")
def viewers(live, published):
    """A browser per role, all signed in."""
    found = {}
    for who in VIEWERS:
        live._count += 1
        email = f"viewer-{live._count}@example.com"
        user = live.post("/users", {"email": email, "is_admin": who == "chief"}, status=201)
        if who in ROLES:
            path = f"/workspaces/{published.workspace['id']}/members/{email}"
            assert live.call("PUT", path, json={"role": who}).status_code == 200
        found[who] = Browser(live.url)
        found[who].sign_in(user["login_url"])
        page = found[who].get("/workspaces")
        found[who].csrf = re.search(r'name="csrf" value="(\w+)"', page.text)[1]
    yield found
    for browser in found.values():
        browser.http.close()


@pytest.fixture(scope="module")
def places(published, live):
    page = live.call("GET", "//signin").text
    digest, name = re.search(r"/static/(\w+)/(app\.css)", page).groups()
    return {
        "workspace_id": published.workspace["id"],
        "sha": published.good,
        "name": "nothing",
        "run": "nothing",
        "delivery_id": 10**12,
        "static": digest,
        "digest": published.digest,
        "file": name,
    }


def expected(row: Row, who: str) -> int:
    if row.who in ("any", "signed in") or who == "chief":
        return row.status
    if row.who == "chief" or who == "outsider":
        return 404
    return row.status if ROLES.index(who) >= ROLES.index(row.who) else 403


@pytest.mark.parametrize("route", TABLE, ids=" ".join)
def test_a_page_answers_each_viewer_as_the_table_says(live, published, viewers, places, route):
    (method, path), row = route, TABLE[route]
    here = dict(places)
    if path.startswith("/static/"):
        here |= {"digest": places["static"], "name": places["file"]}
    url = path.format(**here)
    if path.endswith("/diff"):
        url += f"?from={published.bad}"
    found = {}
    for who in VIEWERS:
        browser = viewers[who]
        if method == "GET":
            found[who] = browser.get(url).status_code
        else:
            data = {**row.fields, "csrf": browser.csrf}
            found[who] = browser.http.post(url, data=data).status_code
    assert found == {who: expected(row, who) for who in VIEWERS}


@pytest.mark.parametrize("route", TABLE, ids=" ".join)
def test_a_stranger_gets_no_page(live, places, route):
    (method, path), row = route, TABLE[route]
    if row.who == "any":
        return
    with Browser(live.url) as stranger:
        answer = stranger.http.request(method, path.format(**places))
    assert answer.status_code == 303 and answer.headers["location"].startswith("/signin")


def test_a_member_sees_only_their_workspaces(published, viewers):
    name = published.workspace["name"]
    assert name in viewers["reader"].get(f"/workspaces?q={name}").text
    assert name not in viewers["outsider"].get("/workspaces").text
    assert "Settings" not in viewers["member"].get(f"/workspaces/{published.workspace['id']}").text
    assert "Sync now" not in viewers["reader"].get(f"/workspaces/{published.workspace['id']}").text


def test_a_member_who_was_removed_sees_nothing_more(live, published):
    live._count += 1
    email = f"gone-{live._count}@example.com"
    user = live.post("/users", {"email": email}, status=201)
    path = f"/workspaces/{published.workspace['id']}"
    live.call("PUT", f"{path}/members/{email}", json={"role": "admin"})
    with Browser(live.url) as browser:
        browser.sign_in(user["login_url"])
        assert browser.get(path).status_code == 200
        live.call("DELETE", f"{path}/members/{email}")
        assert browser.get(path).status_code == 404
        live.call("DELETE", f"/users/{user['id']}")
        assert browser.get("/workspaces").status_code == 303


def test_what_a_suspended_workspace_refuses_says_who_can_resume_it(live):
    workspace = live.create()
    here = f"/workspaces/{workspace['id']}"
    said = {}
    for role in ("member", "admin"):
        live._count += 1
        email = f"halted-{role}-{live._count}@example.com"
        with enter(live, email, is_admin=False) as browser:
            live.call("PUT", f"{here}/members/{email}", json={"role": role})
            csrf = re.search(r'name="csrf" value="(\w+)"', browser.get("/account").text)[1]
            live.post(f"{here}/suspend")
            answer = browser.http.post(f"{here}/sync", data={"csrf": csrf})
            live.post(f"{here}/resume")
        assert answer.status_code == 409 and f'href="{here}"' in answer.text
        said[role] = answer.text
    assert f'href="{here}/settings"' in said["admin"]
    assert f'href="{here}/settings"' not in said["member"]
    assert "An administrator of the workspace can resume it." in said["member"]
