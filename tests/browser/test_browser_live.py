"""A page that stays open while somebody else changes what its viewer may see or do."""

from __future__ import annotations

import pytest

from gitsync.web.pages import live as live_page
from tests.browser.conftest import person, window
from tests.web.browser import Browser


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Rights are looked at again after this time."""
    monkeypatch.setattr(live_page, "ROUND_S", 0.3)


def place_of(live, email: str, role: str = "member") -> dict:
    workspace = live.create()
    path = f"/workspaces/{workspace['id']}/members/{email}"
    assert live.call("PUT", path, json={"role": role}).status_code == 200
    return workspace


@pytest.mark.slow
def test_browser_a_stale_page_is_left_at_once(chromium, live):
    email, link = person(live, name="Sam")
    workspace = place_of(live, email)
    here = f"/workspaces/{workspace['id']}"
    with window(chromium, live) as sam:
        sam.expected = ("401", "404")
        sam.sign_in(link)
        sam.go(here)
        sam.is_live()
        assert live.call("DELETE", f"{here}/members/{email}").status_code == 204
        sam.says("Nothing here")
        assert live.call("PUT", f"{here}/members/{email}", json={"role": "reader"}).is_success
        sam.page.wait_for_timeout(100)
        sam.go(here)
        sam.is_live()
        with Browser(live.url) as same:  # signs out in another tab
            for cookie in sam.page.context.cookies():
                same.http.cookies.set(cookie["name"], cookie["value"])
            same.send("/signout", form_of="/account")
        sam.page.wait_for_url("**/signin?next=*", timeout=20_000)


@pytest.mark.slow
def test_browser_a_page_that_was_hidden_is_left_when_seen(chromium, live):
    email, link = person(live, name="Tom")
    workspace = place_of(live, email)
    here = f"/workspaces/{workspace['id']}"
    with window(chromium, live) as tom:
        tom.expected = ("401", "404", "EventSource")
        tom.sign_in(link)
        tom.go(here)
        tom.is_live()
        hide = """value => {
          Object.defineProperty(document, "hidden", { value, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }"""
        tom.page.evaluate(hide, True)
        assert live.call("DELETE", f"{here}/members/{email}").status_code == 204
        tom.page.evaluate(hide, False)  # its stream is refused now
        tom.says("Nothing here")


def test_browser_the_head_of_a_workspace_is_live_too(chromium, live):
    email, link = person(live, name="Uma")
    workspace = place_of(live, email, "admin")
    here = f"/workspaces/{workspace['id']}"
    with window(chromium, live) as uma:
        uma.sign_in(link)
        uma.go(here)
        uma.is_live()
        uma.mark()
        button = uma.page.get_by_role("button", name="Sync now")
        button.focus()
        name = f"Renamed {workspace['id']}"
        assert live.call("PATCH", here, json={"name": name}).is_success
        live.post(f"{here}/suspend")
        uma.page.locator("#room .tag", has_text="Suspended").wait_for()
        assert button.count() == 0
        uma.page.get_by_role("heading", name=name, level=1).wait_for()
        uma.is_live()
        live.post(f"{here}/resume")
        button.wait_for()
        assert uma.stands()


@pytest.mark.slow
def test_browser_an_answer_that_comes_late_does_not_replace_a_newer_page(chromium, live):
    email, link = person(live, name="Vic")
    workspace = place_of(live, email, "admin")
    here = f"/workspaces/{workspace['id']}"
    with window(chromium, live) as vic:
        vic.sign_in(link)
        vic.go(here)
        vic.is_live()
        held = []
        is_own = {"hx-request": "true"}.items()

        def hold(route):
            if is_own <= route.request.headers.items():
                held.append((route, route.fetch()))
            else:
                route.continue_()

        vic.page.route(f"**{here}", hold)
        vic.page.evaluate("htmx.trigger(document.querySelector('main'), 'live')")
        while not held:
            vic.page.wait_for_timeout(20)
        name = f"Renamed {workspace['id']}"
        assert live.call("PATCH", here, json={"name": name}).is_success
        heading = vic.page.get_by_role("heading", name=name, level=1)
        heading.wait_for()
        route, answer = held[0]
        with vic.page.expect_event("requestfinished", lambda one: one.url.endswith(here)):
            route.fulfill(response=answer)
        vic.page.wait_for_timeout(200)
        assert heading.count() == 1
