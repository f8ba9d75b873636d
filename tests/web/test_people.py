"""Users, members, tokens: who gets in, who is let go, who must stay."""

from __future__ import annotations

import threading
import uuid

import httpx
import pytest

from gitsync.store import DatabaseFailed
from gitsync.web import login
from tests.live import workspace_files
from tests.web.browser import Browser
from tests.web.conftest import people_of


def address() -> str:
    return f"p-{uuid.uuid4().hex[:12]}@example.com"


# -- users ----------------------------------------------------------------------------------------


def test_a_new_user_gets_a_link_that_works_once(live):
    email = address()
    user = live.post("/users", {"email": email, "name": "Kim <b>"}, status=201)
    assert (user["email"], user["name"], user["is_admin"]) == (email, "Kim <b>", False)
    link = user["login_url"]
    assert link.startswith(f"{live.url}/login/")
    for _ in range(2):  # programs that follow links do not use it up
        page = httpx.get(link, trust_env=False, verify=False)
        assert page.status_code == 200 and "gs_" not in page.text
    page = httpx.post(link, trust_env=False, verify=False)
    assert page.status_code == 200 and page.headers["cache-control"] == "no-store"
    assert "Kim &lt;b&gt;" in page.text and "default-src" in page.headers["content-security-policy"]
    secret = page.text.partition('<pre id="token"')[2].partition(">")[2].partition("</pre>")[0]
    assert live.get("/whoami", token=secret)["user"]["id"] == user["id"]
    again = httpx.post(link, trust_env=False, verify=False)
    assert again.status_code == 410 and "gs_" not in again.text
    other = live.post(f"/users/{user['id']}/login-link", status=201)["url"]
    assert other != link
    assert httpx.post(other, trust_env=False, verify=False).status_code == 200


@pytest.mark.parametrize("code", ["x" * 43, "x", "x" * 200, "a%00b", "..%2f..%2fetc"])
def test_a_link_nobody_made_signs_nobody_in(live, code):
    answer = httpx.post(f"{live.url}/login/{code}", trust_env=False, verify=False)
    assert answer.status_code in (400, 404, 410) and "gs_" not in answer.text


def test_a_link_is_not_in_the_log_when_the_database_is_away(live, monkeypatch, caplog):
    def away(*_):
        raise DatabaseFailed("SELECT 1", None, Exception("gone"))

    made = live.post("/users", {"email": "away@example.com"}, status=201)["login_url"]
    path, code = made.removeprefix(live.url), made.rpartition("/")[2]
    with monkeypatch.context() as patch, Browser(live.url) as browser:
        patch.setattr(login, "visitor_of", away)
        assert browser.get(path).status_code == 503
    assert "path=/login/…" in caplog.text and code not in caplog.text


def test_a_login_link_ends_after_a_day(live):
    from datetime import timedelta

    from gitsync.store import people

    user = live.post("/users", {"email": address()}, status=201)
    code = user["login_url"].rsplit("/", 1)[1]
    instance = live.running.instance
    with instance.database.write() as db:
        late = instance.now() + timedelta(hours=24, seconds=1)
        assert people.use_login_link(db, code, now=late) is None


def test_a_login_link_is_stored_as_a_hash(live):
    user = live.post("/users", {"email": address()}, status=201)
    code = user["login_url"].rsplit("/", 1)[1].encode()
    assert not any(code in path.read_bytes() for path in live.data_dir.glob("gitsync.db*"))


def test_addresses_are_unique_whatever_their_case(live):
    email = address()
    live.post("/users", {"email": email}, status=201)
    again = live.call("POST", "/users", json={"email": email.upper()})
    assert again.status_code == 409 and again.json()["field"] == "email"


@pytest.mark.parametrize("email", ["", "x", "nobody", "a@b\x07", "\u202e@x.y", "@" + "x" * 400])
def test_an_odd_address_is_refused(live, email):
    answer = live.call("POST", "/users", json={"email": email})
    assert answer.status_code == 400 and answer.json()["field"] == "email"


def test_a_disabled_user_is_out_at_once_with_all_tokens_and_links(live):
    user, secret = live.user(address())
    second = live.post("/tokens", {"name": "second"}, token=secret)["secret"]
    link = live.post(f"/users/{user['id']}/login-link", status=201)["url"]
    assert live.call("DELETE", f"/users/{user['id']}").status_code == 204
    for token in (secret, second):
        answer = live.call("GET", "/whoami", token=token)
        assert (answer.status_code, answer.json()["code"]) == (401, "TOKEN_REVOKED")
    assert httpx.post(link, trust_env=False, verify=False).status_code == 410
    assert live.call("POST", f"/users/{user['id']}/login-link").status_code == 409


def test_the_last_administrator_stays(live, tmp_path):
    from tests.live import live_server

    with live_server(tmp_path) as fresh:
        me = fresh.get("/whoami")["user"]
        refused = fresh.call("DELETE", f"/users/{me['id']}")
        assert refused.status_code == 409, refused.text
        other, token = fresh.user(address(), is_admin=True)
        assert fresh.call("DELETE", f"/users/{me['id']}", token=token).status_code == 204
        assert fresh.call("GET", "/whoami").status_code == 401
        assert fresh.call("DELETE", f"/users/{other['id']}", token=token).status_code == 409


# -- members --------------------------------------------------------------------------------------


def test_members_come_change_and_go(live):
    workspace, email = live.create(), address()
    _, token = live.user(email)
    path = f"/workspaces/{workspace['id']}"
    assert live.call("GET", path, token=token).status_code == 404
    put = live.call("PUT", f"{path}/members/{email.upper()}", json={"role": "reader"})
    assert (put.status_code, put.json()["role"], put.json()["email"]) == (200, "reader", email)
    assert live.call("GET", path, token=token).status_code == 200
    assert live.call("POST", f"{path}/sync", token=token).status_code == 403
    live.call("PUT", f"{path}/members/{email}", json={"role": "member"})
    assert live.call("POST", f"{path}/sync", token=token).status_code == 202
    roles = {m["email"]: m["role"] for m in live.get(f"{path}/members")["items"]}
    assert roles[email] == "member" and "owner" in roles.values()
    assert live.call("DELETE", f"{path}/members/{email}").status_code == 204
    assert live.call("GET", path, token=token).status_code == 404
    assert live.call("DELETE", f"{path}/members/{email}").status_code == 404


def test_only_owners_make_and_unmake_owners_and_the_last_one_stays(live):
    workspace = live.create()
    path = f"/workspaces/{workspace['id']}/members"
    tokens, emails = people_of(live, workspace)
    admin = tokens["admin"]
    for role in ("owner", "admin"):
        answer = live.call("PUT", f"{path}/{emails['member']}", json={"role": role}, token=admin)
        assert answer.status_code == (403 if role == "owner" else 200)
    demoted = live.call("PUT", f"{path}/{emails['owner']}", json={"role": "reader"}, token=admin)
    assert demoted.status_code == 403
    assert live.call("DELETE", f"{path}/{emails['owner']}", token=admin).status_code == 403
    # two owners: the creator and the one of the crowd
    (creator,) = [
        m["email"]
        for m in live.get(path)["items"]
        if m["role"] == "owner" and m["email"] != emails["owner"]
    ]
    owner = tokens["owner"]
    assert live.call("DELETE", f"{path}/{creator}", token=owner).status_code == 204
    for change in (
        lambda: live.call("DELETE", f"{path}/{emails['owner']}", token=owner),
        lambda: live.call("PUT", f"{path}/{emails['owner']}", json={"role": "admin"}, token=owner),
        lambda: live.call("DELETE", f"{path}/{emails['owner']}"),
    ):
        assert change().status_code == 409


def test_two_owners_who_leave_at_once_leave_one(live):
    workspace = live.create()
    path = f"/workspaces/{workspace['id']}/members"
    tokens, _ = people_of(live, workspace)
    owners = [m["email"] for m in live.get(path)["items"] if m["role"] == "owner"]
    assert len(owners) == 2
    codes = []
    threads = [
        threading.Thread(
            target=lambda e=e: codes.append(live.call("DELETE", f"{path}/{e}").status_code)
        )
        for e in owners
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(codes) == [204, 409]


# -- tokens ---------------------------------------------------------------------------------------


def test_a_token_is_shown_once_kept_as_a_hash_and_notes_its_use(live):
    made = live.post("/tokens", {"name": "laptop", "expires_in_days": 30}, status=201)
    assert made["secret"].startswith("gs_") and len(made["secret"]) >= 43
    assert made["token"]["last_used_at"] is None and made["token"]["expires_at"] is not None
    assert live.get("/whoami", token=made["secret"])["token"]["id"] == made["token"]["id"]
    listed = {t["id"]: t for t in live.get("/tokens")["items"]}[made["token"]["id"]]
    assert listed["last_used_at"] is not None and "secret" not in listed
    data = [path.read_bytes() for path in live.data_dir.glob("gitsync.db*")]
    assert not any(made["secret"].encode() in blob for blob in data)


def test_one_revokes_ones_own_tokens_and_no_others(live, crowd):
    mine = live.post("/tokens", {"name": "mine"})["token"]["id"]
    theirs = live.call("DELETE", f"/tokens/{mine}", token=crowd.tokens["owner"])
    assert theirs.status_code == 404
    codes = [live.call("DELETE", f"/tokens/{mine}").status_code for _ in range(2)]
    assert codes == [204, 204]


def test_machine_tokens_are_made_by_administrators_of_all_their_workspaces(live, crowd, published):
    body = {"name": "ci", "role": "read", "workspaces": [published.workspace["id"]]}
    codes = {
        who: live.call("POST", "/tokens", json=body, token=crowd.tokens[who]).status_code
        for who in ("outsider", "reader", "member", "admin", "owner")
    }
    assert codes == {"outsider": 404, "reader": 403, "member": 403, "admin": 201, "owner": 201}
    two = body | {"workspaces": [published.workspace["id"], live.create()["id"]]}
    refused = live.call("POST", "/tokens", json=two, token=crowd.tokens["owner"])
    assert refused.status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x", "role": "read"},
        {"name": "x", "role": "read", "workspaces": []},
        {"name": "x", "role": "owner", "workspaces": []},
        {"name": "x", "workspaces": ["{ws}"]},
        {"name": "x", "expires_in_days": 0},
        {"name": "x", "expires_in_days": 1e300},
    ],
)
def test_a_token_that_makes_no_sense_is_refused(live, published, body):
    if body.get("workspaces"):
        body = body | {"workspaces": [published.workspace["id"]]}
    assert live.call("POST", "/tokens", json=body).status_code == 400


def test_a_machine_token_for_two_workspaces_sees_exactly_these(live):
    one, two, three = (live.create() for _ in range(3))
    body = {"name": "cluster", "role": "read", "workspaces": [one["id"], two["id"]]}
    secret = live.post("/tokens", body)["secret"]
    listed = live.get("/workspaces", token=secret)
    assert {w["id"] for w in listed["items"]} == {one["id"], two["id"]}
    assert live.call("GET", f"/workspaces/{three['id']}", token=secret).status_code == 404
    who = live.get("/whoami", token=secret)
    assert who["user"] is None and who["token"]["role"] == "read"
    (shown,) = [
        t
        for t in live.get(f"/workspaces/{one['id']}/tokens")["items"]
        if t["id"] == who["token"]["id"]
    ]
    assert set(shown["workspaces"]) == {one["id"], two["id"]}


def test_an_administrator_of_a_workspace_revokes_any_machine_token_that_reaches_it(live, crowd):
    body = {"name": "ci", "role": "read", "workspaces": [crowd.workspace["id"]]}
    made = live.post("/tokens", body)  # by somebody else
    path = f"/tokens/{made['token']['id']}"
    assert live.call("DELETE", path, token=crowd.tokens["member"]).status_code == 404
    assert live.call("DELETE", path, token=crowd.tokens["admin"]).status_code == 204
    assert live.call("GET", "/whoami", token=made["secret"]).status_code == 401


def test_a_machine_token_belongs_to_its_workspace_and_outlives_its_maker(live):
    workspace = live.create()
    tokens, emails = people_of(live, workspace)
    body = {"name": "ci", "role": "read", "workspaces": [workspace["id"]]}
    secret = live.post("/tokens", body, token=tokens["owner"])["secret"]
    (user,) = [
        m
        for m in live.get(f"/workspaces/{workspace['id']}/members")["items"]
        if m["email"] == emails["owner"]
    ]
    assert live.call("DELETE", f"/users/{user['id']}").status_code == 204
    assert live.call("GET", "/whoami", token=secret).status_code == 200  # a cluster goes on
    path = f"/workspaces/{workspace['id']}/tokens"
    (shown,) = live.get(path, token=tokens["admin"])["items"]
    gone = live.call("DELETE", f"/tokens/{shown['id']}", token=tokens["admin"])
    assert gone.status_code == 204
    assert live.call("GET", "/whoami", token=secret).status_code == 401


def test_a_push_token_pushes_and_says_who_it_was(live):
    workspace = live.create()
    body = {"name": "bot", "role": "push", "workspaces": [workspace["id"]]}
    secret = live.post("/tokens", body)["secret"]
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files())
    checkout.push("-q", live.git_url(workspace, secret), "HEAD:main")
    assert live.status(workspace, sha)["state"] == "published"
