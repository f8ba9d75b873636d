"""Signing in and out: by link, by password; forms that only our own pages can send."""

from __future__ import annotations

import re
import threading
from datetime import timedelta

import httpx
import pytest

from gitsync.store import people, sessions
from gitsync.web import rates
from gitsync.web.security import browser_name
from gitsync.web.session import safe_next
from tests.cli.kit import gitsync
from tests.live import live_server
from tests.web.browser import Browser

PASSWORD = "correct horse battery"


@pytest.fixture
def browser(live):
    with Browser(live.url) as found:
        yield found


@pytest.fixture
def person(live):
    """Somebody with a token."""
    live._count += 1
    return live.user(f"robin-{live._count}@example.com", name="Robin")


@pytest.fixture
def member(live, person):
    """Somebody with a password too: it takes its time, on purpose."""
    assert live.call("PUT", "/password", token=person[1], json={"password": PASSWORD}).is_success
    return person


def link(live, user) -> str:
    return live.post(f"/users/{user['id']}/login-link")["url"]


def is_signed_in(browser: Browser) -> bool:
    return browser.get("/device").status_code == 200


def test_a_link_signs_a_browser_in_once(live, browser, person):
    url = link(live, person[0])
    path = url.removeprefix(live.url)
    asked = browser.get(path)
    assert asked.status_code == 200 and asked.headers["referrer-policy"] == "no-referrer"
    assert not is_signed_in(browser)  # a mail scanner may follow the link
    browser.sign_in(url)
    assert is_signed_in(browser)
    with Browser(live.url) as other:
        assert other.send(path, then="dashboard").status_code == 410
        assert not is_signed_in(other)


def test_a_link_gives_a_token_for_the_command_line(live, browser, person):
    page = browser.send(link(live, person[0]).removeprefix(live.url), then="token")
    secret = page.text.partition('<pre id="token"')[2].partition(">")[2].partition("</pre>")[0]
    assert live.get("/whoami", token=secret)["user"]["id"] == person[0]["id"]
    assert not is_signed_in(browser)


def test_a_strangers_page_cannot_sign_a_browser_in(live, browser, person):
    path = link(live, person[0]).removeprefix(live.url)
    browser.get(path)
    for fields in ({}, {"csrf": ""}, {"csrf": "0" * 64}):
        answer = browser.http.post(path, data={"then": "dashboard", **fields})
        assert answer.status_code == 403 and "nothing was changed" in answer.text
    assert browser.send(path, then="dashboard").status_code == 303  # the link was not used up


def test_the_cookie_is_kept_from_scripts_and_other_sites(live, browser, person):
    path = link(live, person[0]).removeprefix(live.url)
    cookie = browser.send(path, then="dashboard").headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=lax" in cookie and "path=/" in cookie
    assert "secure" not in cookie  # plain http, here


def test_the_cookie_is_secure_behind_https(tmp_path):
    with live_server(tmp_path, public_url="https://gitsync.example.com") as live:
        made = live.post("/users", {"email": "a@example.com"}, status=201)["login_url"]
        path = made.removeprefix("https://gitsync.example.com")
        page = httpx.get(live.url + path, trust_env=False, verify=False)
        cookie = page.headers["set-cookie"]
        assert cookie.startswith("__Host-gitsync_visitor=") and "Secure" in cookie
        fields = {"theme": "dark", "next": "/signin"}
        themed = httpx.post(live.url + "/theme", data=fields, trust_env=False, verify=False)
        assert themed.status_code == 303 and "Secure" in themed.headers["set-cookie"]


def test_a_password_signs_in_and_leads_back(browser, member):
    wanted = "/device?code=BCDF-GHJK"
    asked = browser.get(wanted)
    assert asked.status_code == 303
    assert asked.headers["location"] == "/signin?next=%2Fdevice%3Fcode%3DBCDF-GHJK"
    done = browser.send(
        "/signin",
        form_of=asked.headers["location"],
        email=member[0]["email"].upper(),
        password=PASSWORD,
    )
    assert (done.status_code, done.headers["location"]) == (303, wanted)
    assert is_signed_in(browser)
    assert browser.get("/signin?next=/x").headers["location"] == "/x"


@pytest.mark.parametrize("email", ["", "röbin@example.com"])
def test_a_wrong_password_says_what_to_do(browser, member, email):
    fields = {"email": email or member[0]["email"], "password": "not the password"}
    answer = browser.send("/signin", **fields)
    assert answer.status_code == 403 and "is wrong" in answer.text
    assert not is_signed_in(browser)


def test_too_many_wrong_passwords_must_wait(browser, member, monkeypatch):
    monkeypatch.setattr(rates, "SIGN_IN_BY_PERSON", rates.parse("3/15 minute"))
    email = member[0]["email"]
    for _ in range(3):
        assert browser.send("/signin", email=email, password="wrong").status_code == 403
    answer = browser.send("/signin", email=email, password=PASSWORD)
    assert answer.status_code == 429 and 0 < int(answer.headers["retry-after"]) <= 900
    assert "Try again in" in answer.text and not is_signed_in(browser)


def test_passwords_tried_at_once_are_no_more_than_one_after_another(
    live, browser, member, monkeypatch
):
    monkeypatch.setattr(rates, "SIGN_IN_BY_PERSON", rates.parse("3/15 minute"))
    email, verify = member[0]["email"], people.verify_password

    def overtaken(stored, password):
        if password == PASSWORD:  # while it is looked at, three others are refused
            with Browser(live.url) as other:
                for _ in range(3):
                    assert other.send("/signin", email=email, password="no").status_code == 403
        return verify(stored, password)

    monkeypatch.setattr(people, "verify_password", overtaken)
    assert browser.send("/signin", email=email, password=PASSWORD).status_code == 429
    assert not is_signed_in(browser)


def test_a_header_from_a_stranger_is_no_other_place(browser, member, monkeypatch):
    monkeypatch.setattr(rates, "SIGN_IN_BY_PLACE", rates.parse("3/15 minute"))
    statuses = []
    for number in range(4):
        browser.http.headers["X-Forwarded-For"] = f"203.0.113.{number}"
        email = f"nobody-{number}@example.com"
        statuses.append(browser.send("/signin", email=email, password="wrong").status_code)
    assert statuses[-1] == 429


def test_a_sign_in_form_needs_its_token(browser, member):
    fields = {"email": member[0]["email"], "password": PASSWORD}
    browser.get("/signin")
    assert browser.http.post("/signin", data=fields).status_code == 403
    browser.http.headers["Sec-Fetch-Site"] = "cross-site"
    assert browser.send("/signin", **fields).status_code == 403
    browser.http.headers["Sec-Fetch-Site"] = "same-origin"
    assert browser.send("/signin", **fields).status_code == 303


def test_signing_out_ends_the_session_on_the_server(live, browser, person):
    browser.sign_in(link(live, person[0]))
    kept = dict(browser.http.cookies)
    assert browser.http.post("/signout").status_code == 403  # without the token of the session
    assert is_signed_in(browser)
    assert browser.send("/signout", form_of="/device").status_code == 303
    assert not is_signed_in(browser)
    browser.http.cookies.update(kept)  # a stolen copy is as dead
    assert not is_signed_in(browser)


def test_a_new_sign_in_ends_the_session_before(live, browser, person):
    browser.sign_in(link(live, person[0]))
    with Browser(live.url) as thief:
        thief.http.cookies.update(browser.http.cookies)
        assert is_signed_in(thief)
        browser.sign_in(link(live, person[0]))
        assert is_signed_in(browser) and not is_signed_in(thief)


def test_a_new_password_ends_other_sessions_and_needs_the_present_one(live, browser, member):
    browser.sign_in(link(live, member[0]))
    for current in (None, "wrong"):
        body = {"password": PASSWORD + "!", "current": current}
        answer = live.call("PUT", "/password", token=member[1], json=body)
        assert (answer.status_code, answer.json()["field"]) == (403, "current")
    assert is_signed_in(browser)
    body = {"password": PASSWORD + "!", "current": PASSWORD}
    assert live.call("PUT", "/password", token=member[1], json=body).status_code == 204
    assert not is_signed_in(browser)


def test_the_command_sets_a_password(live, browser, person, tmp_path):
    def run(*args: str, given: str):
        env = {"GITSYNC_SERVER": live.url, "GITSYNC_TOKEN": person[1]}
        return gitsync("user", "password", *args, "--json", cwd=tmp_path, env=env, given=given)

    email = person[0]["email"]
    assert run(given=f"{PASSWORD}\n").json == {
        "schema_version": 1,
        "email": email,
        "password_set": True,
    }
    assert run(given="another password\n").error["code"] == "FORBIDDEN"
    assert run(given=f"another password\n{PASSWORD}\n").code == 0
    # on the server's own machine, for somebody who forgot it
    data = ("--data-dir", str(live.data_dir))
    assert run(email, *data, given="short").error["code"] == "VALIDATION"
    assert run("nobody@example.com", *data, given=PASSWORD).error["code"] == "NOT_FOUND"
    assert run(email, *data, given=PASSWORD).code == 0
    assert browser.send("/signin", email=email, password=PASSWORD).status_code == 303


def test_a_short_password_is_refused(live, person):
    answer = live.call("PUT", "/password", token=person[1], json={"password": "short"})
    assert (answer.status_code, answer.json()["field"]) == (400, "password")


def test_a_locked_out_person_is_signed_out(live, browser, member):
    browser.sign_in(link(live, member[0]))
    assert live.call("DELETE", f"/users/{member[0]['id']}").status_code == 204
    assert not is_signed_in(browser)
    answer = browser.send("/signin", email=member[0]["email"], password=PASSWORD)
    assert answer.status_code == 403


def test_sessions_slide_with_use_and_end_without(live, person):
    """The clock of the store functions is an argument: no test waits for weeks."""
    database, start = live.running.instance.database, live.running.instance.now()
    with database.write() as db:
        made, secret = sessions.add_session(
            db, person[0]["id"], how="link", agent="", address="", now=start
        )

    def find(at):
        with database.write() as db:
            found = sessions.find_session(db, secret, now=at)
            if found is not None and sessions.must_move(found[0], now=at):
                sessions.move(db, found[0], now=at)
        return found

    day = timedelta(days=1)
    moments = [start + 10 * day * n for n in range(1, 10)]
    assert [find(at) is not None for at in moments] == [True] * 8 + [False]  # 90 days at most
    assert find(start + day) is not None  # used in time, and not sooner moved than needed
    with database.read() as db:
        assert not sessions.is_open(db, made.id, now=start + 91 * day)
        assert sessions.find_session(db, made.id, now=start) is None  # the id is no secret
    with database.write() as db:
        sessions.drop_sessions(db, before=start + 200 * day)
        assert sessions.find_session(db, secret, now=start) is None


@pytest.mark.parametrize(
    "path",
    ["https://evil.example", "//evil.example", "/\\evil.example", "evil", "", "/a\r\nb", "/\x00"],
)
def test_nobody_is_led_to_another_server(path):
    assert safe_next(path) == "/"


def test_live_parts_of_a_page_are_told_to_sign_in(browser):
    answer = browser.http.get("/device", headers={"HX-Request": "true"})
    assert answer.status_code == 401
    assert answer.headers["hx-redirect"].startswith("/signin?next=")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/x-www-form-urlencoded", b"email=a%00b"),
        ("application/x-www-form-urlencoded", b"email=\xff"),
        ("application/x-www-form-urlencoded", b"a=b&" * 300),
        ("multipart/form-data; boundary=x", b"--x--"),
        ("application/json", b"{}"),
        ("", b"email=a"),
    ],
)
def test_what_is_no_form_is_refused_with_a_page(browser, kind, body):
    answer = browser.http.post("/signin", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 400 and "<h1>" in answer.text


def test_a_password_is_set_in_the_browser(live, browser, person):
    page = "/account/security"
    browser.sign_in(link(live, person[0]))
    assert "Set a password" in browser.get(page).text

    def send(**fields: str):
        return browser.send("/account/password", form_of=page, **fields)

    differ = send(password=PASSWORD, again=PASSWORD + "!")
    assert differ.status_code == 400 and "differ" in differ.text
    assert send(password="short", again="short").status_code == 400
    done = send(password=PASSWORD, again=PASSWORD)
    assert (done.status_code, done.headers["location"]) == (303, f"{page}?done=password")
    assert is_signed_in(browser) and "Replace the password" in browser.get(page).text
    refused = send(password=PASSWORD + "!", again=PASSWORD + "!", current="wrong")
    assert refused.status_code == 403 and "Nothing was changed" in refused.text
    assert send(password=PASSWORD + "!", again=PASSWORD + "!", current=PASSWORD).is_redirect


def test_another_browser_is_signed_out_from_here(live, browser, person):
    browser.sign_in(link(live, person[0]))
    with Browser(live.url) as other:
        other.http.headers["User-Agent"] = "<i>other</i>"
        other.sign_in(link(live, person[0]))
        page = browser.get("/account/security").text
        assert page.count("(this one)") == 1 and "&lt;i&gt;other" in page
        ids = set(re.findall(r'name="session" value="(se_\w+)"', page))
        assert len(ids) == 2
        before = {row: page.partition(row)[0].rpartition("<tr>")[2] for row in ids}
        (foreign,) = [row for row, text in before.items() if "(this one)" not in text]
        where = {"form_of": "/account/security", "session": foreign}
        assert browser.send("/account/sessions/end", **where).status_code == 303
        assert not is_signed_in(other) and is_signed_in(browser)
    live._count += 1
    user, _ = live.user(f"stranger-{live._count}@example.com")
    with Browser(live.url) as stranger:
        stranger.sign_in(link(live, user))
        for session_id in ids:
            where["session"] = session_id
            assert stranger.send("/account/sessions/end", **where).status_code == 404
    assert is_signed_in(browser)


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (
            "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            "Firefox on Linux",
        ),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 15) … Version/19 Safari/605.1", "Safari on macOS"),
        ("Mozilla/5.0 (Windows NT 10.0) … Chrome/150.0 Safari/537.36 Edg/150.0", "Edge on Windows"),
        ("Mozilla/5.0 (Linux; Android 16) … Chrome/150.0 Safari/537.36", "Chrome on Android"),
        ("curl/8", "curl/8"),
        ("", "Unknown browser"),
    ],
)
def test_browsers_are_called_as_people_call_them(agent, name):
    assert browser_name(agent) == name


def test_a_crowd_of_sign_ins_is_asked_to_come_back(browser, person, monkeypatch):
    """Each takes 64 MiB: only a few are worked on at once."""
    monkeypatch.setattr(people, "_few", threading.BoundedSemaphore(1))
    monkeypatch.setattr(people, "_PATIENCE_S", 0.01)
    with people._few:
        answer = browser.send("/signin", email=person[0]["email"], password=PASSWORD)
    assert answer.status_code == 429 and answer.headers["retry-after"] == "5"
