"""`osmosis auth login` as a device and a browser see it: codes once, in time, for one person."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from gitsync.store import devices
from gitsync.web import rates
from tests.web.browser import Browser


@pytest.fixture
def person(live):
    live._count += 1
    return live.user(f"dana-{live._count}@example.com", name="Dana")


@pytest.fixture
def browser(live, person):
    """Of somebody who is signed in."""
    with Browser(live.url) as found:
        found.sign_in(live.post(f"/users/{person[0]['id']}/login-link")["url"])
        yield found


def post(live, path: str, body) -> httpx.Response:
    url = f"{live.url}/api/cli/device/{path}"
    return httpx.post(url, json=body, trust_env=False, verify=False)


def begin(live, name: str = "laptop") -> dict:
    answer = post(live, "authorize", {"deviceName": name})
    assert answer.status_code == 200, answer.text
    return answer.json()


def poll(live, codes: dict) -> dict:
    answer = post(live, "token", {"device_code": codes["device_code"]})
    assert answer.status_code in (200, 400), answer.text
    return answer.json()


def test_an_approved_device_gets_one_token(live, browser, person):
    codes = begin(live)
    assert codes["verification_uri_complete"] == f"{live.url}/device?code={codes['user_code']}"
    assert poll(live, codes)["error"] == "authorization_pending"
    page = browser.get(f"/device?code={codes['user_code']}").text
    assert codes["user_code"] in page and "laptop" in page and person[0]["email"] in page
    assert poll(live, codes)["error"] == "slow_down"  # looking decides nothing
    form = f"/device?code={codes['user_code']}"
    done = browser.send("/device", form_of=form, answer="approve")
    assert done.status_code == 200 and "Go back to your terminal" in done.text
    given = poll(live, codes)
    assert given["user"]["email"] == person[0]["email"] and given["expires_at"]
    assert poll(live, codes)["error"] == "expired_token"
    known = live.get("/whoami", token=given["token"])
    assert (known["user"]["id"], known["token"]["id"]) == (person[0]["id"], given["token_id"])
    assert known["token"]["name"] == "osmosis on laptop"
    assert known["token"]["id"] in {t["id"] for t in live.get("/tokens", token=person[1])["items"]}
    again = browser.send("/device", form_of=form, answer="approve", code=codes["user_code"])
    assert again.status_code in (403, 404)  # the page has no form any more


def test_a_denied_device_gets_nothing(live, browser):
    codes = begin(live)
    form = f"/device?code={codes['user_code']}"
    assert browser.send("/device", form_of=form, answer="deny").status_code == 200
    assert poll(live, codes)["error"] == "access_denied"
    assert browser.get(form).status_code == 404


def test_the_code_may_be_typed_as_people_type(live, browser):
    codes = begin(live)
    typed = codes["user_code"].lower().replace("-", " ")
    assert "laptop" in browser.http.get("/device", params={"code": typed}).text


@pytest.mark.parametrize("code", ["x", "BCDF-GHJK", "' OR 1=1 --", "<script>", "B" * 5000])
def test_an_unknown_code_says_what_to_do(browser, code):
    answer = browser.http.get("/device", params={"code": code})
    assert answer.status_code == 404 and "osmosis auth login" in answer.text
    assert "<script>" not in answer.text.partition("<main")[2]


def test_what_a_device_says_of_itself_is_escaped(live, browser):
    codes = begin(live, "<b>evil</b>\x1b[31m‮")
    page = browser.get(f"/device?code={codes['user_code']}").text
    assert "&lt;b&gt;evil" in page and "<b>evil" not in page
    assert "\x1b" not in page and "‮" not in page


def test_a_strangers_page_approves_nothing(live, browser):
    codes = begin(live)
    fields = {"code": codes["user_code"], "answer": "approve"}
    assert browser.http.post("/device", data=fields).status_code == 403
    browser.http.headers["Sec-Fetch-Site"] = "cross-site"
    form = f"/device?code={codes['user_code']}"
    assert browser.send("/device", form_of=form, **fields).status_code == 403
    assert poll(live, codes)["error"] == "authorization_pending"
    assert browser.http.cookies  # and still signed in


def test_a_person_who_is_locked_out_meanwhile_gets_no_token(live, browser, person):
    codes = begin(live)
    form = f"/device?code={codes['user_code']}"
    assert browser.send("/device", form_of=form, answer="approve").status_code == 200
    assert live.call("DELETE", f"/users/{person[0]['id']}").status_code == 204
    assert poll(live, codes)["error"] == "access_denied"


def test_codes_end_with_their_time(live, person):
    database, now = live.running.instance.database, live.running.instance.now()
    later = now + devices.LIFE
    with database.write() as db:
        device, user = devices.add_device_login(db, device_name="a", agent="", address="", now=now)
        assert devices.find_waiting(db, user, now=later) is None
        assert not devices.decide(db, user, user_id=person[0]["id"], is_approved=True, now=later)
        assert devices.poll(db, device, now=later)[0] == "expired"
        assert devices.poll(db, user, now=now)[0] == "expired"  # the code for people
        assert devices.decide(db, user, user_id=person[0]["id"], is_approved=True, now=now)
        assert devices.poll(db, device, now=later)[0] == "expired"  # approved, and too late


def test_a_device_that_asks_too_often_waits_longer_and_longer(live):
    database, now = live.running.instance.database, live.running.instance.now()
    second = timedelta(seconds=1)
    with database.write() as db:
        device, _ = devices.add_device_login(db, device_name="a", agent="", address="", now=now)
        said = [
            devices.poll(db, device, now=now + at * second)[0] for at in (0, 2, 3, 5, 17, 29, 41)
        ]
    # 2 s between, then 7 after the early one, then 12
    assert said == ["pending", "pending", "slow_down", "slow_down", "pending", "pending", "pending"]


def test_codes_are_stored_as_hashes_only(live):
    codes = begin(live)
    files = [p for p in live.data_dir.glob("gitsync.db*") if p.is_file()]
    stored = b"".join(path.read_bytes() for path in files)
    assert b"laptop" in stored
    assert codes["device_code"].encode() not in stored
    assert codes["user_code"].encode() not in stored


def test_too_many_logins_from_one_place_must_wait(live, monkeypatch):
    monkeypatch.setattr(rates, "DEVICE_START", rates.parse("2/minute"))
    answers = [post(live, "authorize", {"deviceName": "x"}) for _ in range(3)]
    assert answers[-1].status_code == 429 and int(answers[-1].headers["retry-after"]) >= 1
    assert answers[-1].json()["code"] == "RATE_LIMITED"


def test_somebody_who_tries_codes_is_stopped(browser, monkeypatch):
    monkeypatch.setattr(rates, "USER_CODE", rates.parse("3/minute"))
    said = [browser.get("/device?code=BCDF-GHJK").status_code for _ in range(4)]
    assert said == [404, 404, 404, 429]


@pytest.mark.parametrize("body", [{}, {"device_code": 5}, {"device_code": None}, [], "x"])
def test_a_malformed_poll_is_refused(live, body):
    answer = post(live, "token", body)
    assert answer.status_code == 400 and answer.json()["code"] == "VALIDATION"


def test_a_token_is_kept_in_no_cache(live):
    codes = begin(live)
    for what, body in (("authorize", {}), ("token", {"device_code": codes["device_code"]})):
        assert post(live, what, body).headers["cache-control"] == "no-store"
    assert live.call("GET", "/whoami").headers["cache-control"] == "no-store"
