"""Events of pages: at once, in order, after a cut connection, and only one's own."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import httpx
import pytest

from gitsync.store import DatabaseFailed
from gitsync.web.pages import live as live_page
from tests.live import GOOD_MAIN, Live, live_server, workspace_files
from tests.web.browser import Browser
from tests.web.dashboard import enter


@dataclass
class Listener:
    """One page's stream, read in a thread, that may be cut at any time."""

    http: httpx.Client
    path: str
    last: str | None = None
    seen: list[tuple[int, str, float]] = field(default_factory=list)
    cuts: int = 0
    _stop: bool = False
    _response: httpx.Response | None = None

    def run(self) -> None:
        while not self._stop:
            headers = {"Accept": "text/event-stream"}
            if self.last is not None:
                headers["Last-Event-ID"] = self.last
            try:
                with self.http.stream("GET", self.path, headers=headers, timeout=30) as answer:
                    assert answer.status_code == 200, answer.status_code
                    self._response = answer
                    self._read(answer)
            except httpx.HTTPError:
                self.cuts += 1

    def _read(self, answer: httpx.Response) -> None:
        event, number, data = "message", "", ""
        for line in answer.iter_lines():
            key, _, value = line.partition(": ")
            if key == "event":
                event = value
            elif key == "id":
                number = value
            elif key == "data":
                data = value
            elif not line and not number:
                event, data = "message", ""  # the page itself, which has no id
            elif not line:
                kind = event if event != "message" else json.loads(data)["type"]
                self.seen.append((int(number), kind, time.monotonic()))
                self.last, event, number, data = number, "message", "", ""
            if self._stop:
                return

    def cut(self) -> None:
        """Break the connection as a network does."""
        if self._response is not None:
            stream = self._response.extensions["network_stream"]
            with suppress(OSError):  # it may be closed already
                stream.get_extra_info("socket").shutdown(2)

    def published(self) -> list[int]:
        return [number for number, kind, _ in self.seen if kind == "version.published"]

    def wait(self, count: int, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while len(self.published()) < count and time.monotonic() < end:
            time.sleep(0.01)


@contextmanager
def listening(browser: Browser, path: str):
    found = Listener(browser.http, path)
    thread = threading.Thread(target=found.run, daemon=True)
    thread.start()
    end = time.monotonic() + 10
    while found._response is None and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.1)
    try:
        yield found
    finally:
        found._stop = True
        found.cut()
        thread.join(timeout=35)
        assert not thread.is_alive()


def newest(live: Live) -> int:
    """The id of the newest event."""
    after = 0
    while found := live.get(f"/events?after={after}")["items"]:
        after = found[-1]["id"]
    return after


def test_a_push_is_told_within_half_a_second(live):
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha)
    path = f"/live?workspace={workspace['id']}&after={newest(live)}"
    with enter(live) as browser, listening(browser, path) as page:
        took = [1.0]
        while min(took) >= 0.5 and len(took) < 8:  # the machine may be busy with other things
            checkout.commit({"n.md": str(len(took))})
            checkout.push("-q", "origin", "main")  # it returns once the outcome is known
            done = time.monotonic()
            page.wait(len(took), 5)
            assert len(page.published()) == len(took)
            took.append(page.seen[-1][2] - done)
        assert min(took) < 0.5, took


@pytest.mark.slow
def test_cut_connections_lose_none_of_twenty_publishes(live):
    workspace = live.create()
    checkout = live.checkout(workspace)
    path = f"/live?workspace={workspace['id']}&after={newest(live)}"
    with enter(live) as browser, listening(browser, path) as page:
        for number in range(20):
            checkout.commit({**workspace_files(), "n.md": str(number)})
            if number % 3 == 0:
                page.cut()
            checkout.push("-q", "origin", "main")
            if number % 4 == 0:
                page.cut()
        page.wait(20)
        published = page.published()
    assert page.cuts >= 5
    assert len(published) == 20 and published == sorted(set(published))
    everything = [number for number, _, _ in page.seen]
    assert everything == sorted(set(everything))


def test_a_viewer_hears_only_of_their_workspaces(live):
    ours, theirs = live.create(), live.create()
    live._count += 1
    email = f"ear-{live._count}@example.com"
    start = newest(live)
    with enter(live, email, is_admin=False) as browser:
        live.call("PUT", f"/workspaces/{ours['id']}/members/{email}", json={"role": "reader"})
        refused = browser.get(f"/live?workspace={theirs['id']}")
        assert refused.status_code == 404
        with listening(browser, f"/live?after={start}") as page:
            for workspace in (theirs, ours):
                checkout = live.checkout(workspace)
                sha = checkout.commit(workspace_files())
                checkout.push("-q", "origin", "main")
                live.status(workspace, sha)
            page.wait(1)
    found = {e["id"]: e["workspace_id"] for e in live.get(f"/events?after={start}")["items"]}
    assert page.published()
    assert {found[number] for number, _, _ in page.seen} == {ours["id"]}


def test_an_id_that_is_too_old_or_unknown_resets_once(live):
    live.create()
    newest_id = newest(live)
    with enter(live) as browser:
        with listening(browser, f"/live?after={newest_id + 10**6}") as page:
            end = time.monotonic() + 5
            while not page.seen and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(0.3)
        assert [kind for _, kind, _ in page.seen] == ["reset"]
        assert page.seen[0][0] >= newest_id
        bad = browser.http.get("/live", headers={"Last-Event-ID": "x"})
        assert bad.status_code == 400


@pytest.mark.slow
def test_a_stream_ends_when_the_server_stops(tmp_path):
    with (
        live_server(tmp_path) as live,
        enter(live) as browser,
        listening(browser, "/live") as page,
    ):
        began = time.monotonic()
        page._stop = True
        live.running.stop()
        assert time.monotonic() - began < 10


@pytest.mark.slow
def test_two_hundred_pages_watch_one_push(live):
    """They share one reader: all hear of it soon, and webhooks and pushes stay quick."""
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha)
    path = f"/live?workspace={workspace['id']}&after={newest(live)}"
    browsers = [enter(live) for _ in range(4)]
    pages = [Listener(browsers[n % 4].http, path) for n in range(200)]
    for browser in browsers:
        browser.http._transport._pool._max_connections = 60
    threads = [threading.Thread(target=page.run, daemon=True) for page in pages]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 30
    while any(page._response is None for page in pages) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5)
    checkout.commit({"n.md": "1"})
    checkout.push("-q", "origin", "main")
    for page in pages:
        page.wait(1, 5)
    assert all(len(page.published()) == 1 for page in pages)
    times = sorted(page.seen[-1][2] for page in pages)
    assert times[-1] - times[0] < 2
    for page in pages:
        page._stop = True
        page.cut()
    for thread in threads:
        thread.join(timeout=35)
    for browser in browsers:
        browser.http.close()


def test_a_page_that_left_is_not_woken_for_ever(live):
    feed = live.running._server.config.app.state.feed
    with enter(live) as browser:
        before = feed.held
        for _ in range(5):
            with browser.http.stream("GET", "/live", timeout=30) as answer:
                next(answer.iter_lines())
        end = time.monotonic() + 5
        while feed.held > before and time.monotonic() < end:
            time.sleep(0.05)
        assert feed.held <= before


def test_a_page_hears_that_it_is_not_for_its_viewer_any_more(live, monkeypatch):
    monkeypatch.setattr(live_page, "ROUND_S", 0.2)
    workspace = live.create()
    for way in ("signed out", "removed"):
        live._count += 1
        email = f"gone-{live._count}@example.com"
        with enter(live, email, is_admin=False) as leaver:
            live.call(
                "PUT", f"/workspaces/{workspace['id']}/members/{email}", json={"role": "reader"}
            )
            path = f"/live?workspace={workspace['id']}&after={newest(live)}"
            with leaver.http.stream("GET", path, timeout=20) as answer:
                lines = answer.iter_lines()
                assert next(lines) == "retry: 500"
                if way == "removed":
                    live.call("DELETE", f"/workspaces/{workspace['id']}/members/{email}")
                else:
                    with Browser(live.url) as same:
                        same.http.cookies.update(leaver.http.cookies)
                        same.send("/signout", form_of="/account")
                told = list(lines)
            assert told[-3:] == ["event: gone", "data: {}", ""], (way, told)


def test_a_page_stays_open_while_the_database_is_away(live, monkeypatch):
    """Two hundred pages that all come back at once would not help it."""
    monkeypatch.setattr(live_page, "ROUND_S", 0.1)
    asked, sight = [], live_page.Watch.sight

    def away(self):
        asked.append(1)
        if len(asked) < 4:
            raise DatabaseFailed("SELECT 1", None, OSError("away"))
        return sight(self)

    workspace = live.create()
    with enter(live) as chief:
        monkeypatch.setattr(live_page.Watch, "sight", away)
        with listening(chief, f"/live?workspace={workspace['id']}&after={newest(live)}") as heard:
            end = time.monotonic() + 10
            while len(asked) < 6 and time.monotonic() < end:
                time.sleep(0.02)
            checkout = live.checkout(workspace)
            checkout.commit(workspace_files(alpha=GOOD_MAIN), "After it")
            checkout.push("-q", "origin", "main")
            heard.wait(1)
            assert len(heard.published()) == 1
            assert heard.cuts == 0
