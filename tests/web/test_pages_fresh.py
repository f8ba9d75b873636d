"""Pages that come with their events: made once, each viewer's own, and only where they may look."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from contextlib import contextmanager, suppress
from urllib.parse import quote

import httpx
import pytest

from gitsync.web.pages import fresh
from gitsync.web.pages.feed import Sight
from tests.live import GOOD_MAIN, Live, workspace_files
from tests.web.browser import Browser
from tests.web.dashboard import enter, pages_of

CSRF = re.compile(r'name="csrf" value="(\w{64})"')


@contextmanager
def watching(browser: Browser, path: str, *, workspace: str | None = None, after: int = 0):
    """The messages of a page's stream, in order: what kind, and the text or the type of event."""
    scope = "" if workspace is None else f"&workspace={workspace}"
    url = f"/live?after={after}{scope}&page={quote(path, safe='')}"
    seen: list[tuple[str, str]] = []

    def read(lines) -> None:
        kind = "message"
        with suppress(httpx.HTTPError):  # until it is cut
            for line in lines:
                key, _, value = line.partition(": ")
                if key == "event":
                    kind = value
                elif key == "data":
                    found = json.loads(value)
                    seen.append((kind, found["type"] if kind == "message" else found))
                    kind = "message"

    with browser.http.stream("GET", url, timeout=40) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        assert next(lines) == "retry: 500"
        thread = threading.Thread(target=read, args=(lines,), daemon=True)
        thread.start()
        yield seen
        answer.extensions["network_stream"].get_extra_info("socket").shutdown(2)
        thread.join(10)
        assert not thread.is_alive()


def until(is_so, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def pages_in(seen) -> list[str]:
    return [text for kind, text in seen if kind == "page"]


@pytest.fixture
def place(live: Live):
    """A workspace with one version, and the id of the newest event."""
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha)
    return workspace["id"], checkout, _newest(live)


def _newest(live: Live) -> int:
    after = 0
    while found := live.get(f"/events?after={after}")["items"]:
        after = found[-1]["id"]
    return after


def test_two_viewers_share_one_text_with_their_own_tokens(live, place, monkeypatch):
    workspace, checkout, after = place
    made = []
    fetch = fresh._fetch

    async def counted(look):
        made.append(look.path)
        return await fetch(look)

    monkeypatch.setattr(fresh, "_fetch", counted)
    path = f"/workspaces/{workspace}"
    with enter(live) as one, enter(live) as two:
        tokens = [CSRF.search(b.get(path).text)[1] for b in (one, two)]
        assert tokens[0] != tokens[1]
        with (
            watching(one, path, workspace=workspace, after=after) as first,
            watching(two, path, workspace=workspace, after=after) as second,
        ):
            checkout.commit({"n.md": "1"}, "Told to both")
            checkout.push("-q", "origin", "main")
            for seen in (first, second):
                until(lambda seen=seen: any("Told to both" in p for p in pages_in(seen)))
                until(lambda seen=seen: ("message", "version.published") in seen)
        counts = len(pages_in(first)), len(pages_in(second))
        for seen, token in ((first, tokens[0]), (second, tokens[1])):
            for text in pages_in(seen):
                assert text.startswith("<title>") and text.endswith("</main>")
                assert text.count('<section id="room"') == 1 and "Sync now" in text
                assert set(CSRF.findall(text)) <= {token}
                assert not set(tokens) - {token} & set(re.findall(r"\w{64}", text))
            # the page is sent before the events it stands for
            assert [kind for kind, _ in seen][0] == "page"
    assert made and set(made) == {path}
    assert len(made) < sum(counts)


def test_the_page_of_a_role_is_for_that_role(live, place):
    workspace, checkout, after = place
    path = f"/workspaces/{workspace}/deliveries"
    live._count += 1
    email = f"reader-{live._count}@example.com"
    with enter(live) as chief, enter(live, email, is_admin=False) as reader:
        live.call("PUT", f"/workspaces/{workspace}/members/{email}", json={"role": "reader"})
        assert reader.get(path).status_code == 403
        with (
            watching(chief, path, workspace=workspace, after=after) as allowed,
            watching(reader, path, workspace=workspace, after=after) as refused,
        ):
            checkout.commit({"n.md": "1"})
            checkout.push("-q", "origin", "main")
            until(lambda: ("message", "version.published") in refused)
            until(lambda: ("message", "version.published") in allowed)
        assert pages_in(allowed) and not pages_in(refused)
        assert ("look", {}) in refused  # the browser asks by itself and is told why not


def test_a_page_made_with_new_rights_is_not_told_to_the_old_role(live, place):
    """Both follow as readers; one becomes an owner, whose page the other must not get."""
    workspace, checkout, after = place
    path = f"/workspaces/{workspace}/deliveries"
    live._count += 1
    emails = [f"{name}-{live._count}@example.com" for name in ("riser", "stayer")]
    people = [enter(live, email, is_admin=False) for email in emails]
    for email in emails:
        live.call("PUT", f"/workspaces/{workspace}/members/{email}", json={"role": "reader"})
    with (
        watching(people[0], path, workspace=workspace, after=after) as first,
        watching(people[1], path, workspace=workspace, after=after) as second,
    ):
        live.call("PUT", f"/workspaces/{workspace}/members/{emails[0]}", json={"role": "owner"})
        assert people[0].get(path).status_code == 200
        checkout.commit({"n.md": "1"})
        checkout.push("-q", "origin", "main")
        for seen in (first, second):
            until(lambda seen=seen: ("message", "version.published") in seen)
        assert not pages_in(first) and not pages_in(second)
        assert ("look", {}) in first and ("look", {}) in second
    for person in people:
        person.http.close()


def test_a_page_that_takes_long_is_told_all_the_same(live, place, monkeypatch):
    workspace, checkout, after = place
    fetch = fresh._fetch

    async def slow(look):
        await asyncio.sleep(0.5)
        return await fetch(look)

    monkeypatch.setattr(fresh, "_fetch", slow)
    monkeypatch.setattr(fresh, "KEPT_S", 0.1)
    path = f"/workspaces/{workspace}"
    with enter(live) as chief, watching(chief, path, workspace=workspace, after=after) as seen:
        checkout.commit({"n.md": "1"}, "Told late")
        checkout.push("-q", "origin", "main")
        until(lambda: any("Told late" in text for text in pages_in(seen)))
        until(lambda: ("message", "version.published") in seen)


def test_the_feed_goes_on_after_what_nobody_expected(live, place, monkeypatch):
    workspace, checkout, after = place
    feed = live.running._server.config.app.state.feed
    more, failed = feed._more, []

    def broken():
        if not failed:
            failed.append(True)
            raise RuntimeError("can't start new thread")
        return more()

    with (
        enter(live) as chief,
        watching(chief, "/workspaces", after=after) as seen,
    ):
        monkeypatch.setattr(feed, "_more", broken)
        for number in range(2):
            checkout.commit({"n.md": str(number)})
            checkout.push("-q", "origin", "main")
        until(lambda: seen.count(("message", "version.published")) == 2)
    assert failed


def test_a_list_of_workspaces_is_its_viewer_s_own(live, place):
    workspace, checkout, after = place
    other = live.create()
    with enter(live) as chief:
        people = []
        for allowed in (workspace, other["id"]):
            live._count += 1
            email = f"own-{live._count}@example.com"
            person = enter(live, email, is_admin=False)
            live.call("PUT", f"/workspaces/{allowed}/members/{email}", json={"role": "member"})
            people.append(person)
        with (
            watching(chief, "/workspaces", after=after) as every,
            watching(people[0], "/workspaces", after=after) as ours,
            watching(people[1], "/workspaces", after=after) as theirs,
        ):
            checkout.commit({"n.md": "1"})
            checkout.push("-q", "origin", "main")
            until(lambda: ("message", "version.published") in ours)
            until(lambda: ("message", "version.published") in every)
        assert all(other["id"] not in text for text in pages_in(ours))
        assert any(workspace in text for text in pages_in(ours))
        assert all(workspace not in text for text in pages_in(theirs))
        assert ("message", "version.published") not in theirs
        for person in people:
            person.http.close()


@pytest.mark.parametrize(
    "path",
    [
        "/account",
        "/workspaces/ws_2",
        "/workspaces/ws_1/../ws_2",
        "/workspaces/ws_1/..",
        "/workspaces/ws_1/%2E%2e/ws_2",
        "/workspaces/ws_1x",
        "//127.0.0.1:9/workspaces/ws_1",
        "http://127.0.0.1:9/workspaces/ws_1",
        "/workspaces/ws_1\r\nX: y",
        "/workspaces/ws_1\n",
        "/workspaces/ws_1#x",
        "/workspaces/ws_1/runs/r/live",
        "/workspaces/ws_1/runs/r/live?n=1",
        "/workspaces/ws_1/versions/main/archive.tar.gz",
        "/workspaces/ws_1/artifacts/sha256:00.tar",
        "/workspaces/ws_1/datasets/big/content",
        "/workspaces",
        "/admin",
        "",
        None,
    ],
)
def test_what_is_no_page_of_the_workspace(path):
    assert not fresh.is_page(path, "ws_1")


def test_what_is_one():
    for path in ("", "/rollouts/a%20b", "/rollouts/x.y?branch=a%2Fb&start=100", "/versions/ab~1"):
        assert fresh.is_page(f"/workspaces/ws_1{path}", "ws_1")
    assert fresh.is_page("/admin", None) and fresh.is_page("/workspaces?q=a+b", None)
    assert not fresh.is_page("/workspaces/ws_1", None)


@pytest.mark.parametrize(
    "path",
    [
        "/account",
        "/workspaces/{workspace}/settings",
        "/workspaces/{workspace}/rollouts/none-such",
    ],
)
def test_other_pages_do_not_come_with_the_events(live, place, path):
    workspace, checkout, after = place
    with (
        enter(live) as chief,
        watching(chief, path.format(workspace=workspace), workspace=workspace, after=after) as seen,
    ):
        checkout.commit({"n.md": "1"})
        checkout.push("-q", "origin", "main")
        until(lambda: ("message", "version.published") in seen)
    assert not pages_in(seen) and ("look", {}) in seen


def test_a_page_that_did_not_change_is_not_sent_again(live, place):
    workspace, checkout, after = place
    with enter(live) as chief:
        path = f"/workspaces/{workspace}/versions"
        with watching(chief, path, workspace=workspace, after=after) as seen:
            for number in range(3):
                live.post(f"/workspaces/{workspace}/sync", {})
                until(lambda n=number: seen.count(("message", "sync.finished")) > n)
            assert len(pages_in(seen)) == 1
            checkout.commit({"n.md": "1"}, "Now it changed")
            checkout.push("-q", "origin", "main")
            until(lambda: any("Now it changed" in text for text in pages_in(seen)))


def test_a_server_that_cannot_make_the_page_says_so(live, place, monkeypatch):
    workspace, checkout, after = place
    path = f"/workspaces/{workspace}"
    monkeypatch.setattr(fresh, "SECONDS", 0.0)
    with (
        enter(live) as chief,
        watching(chief, path, workspace=workspace, after=after) as seen,
    ):
        checkout.commit({"n.md": "1"})
        checkout.push("-q", "origin", "main")
        until(lambda: ("message", "version.published") in seen)
        assert ("look", {}) in seen and not pages_in(seen)
        monkeypatch.undo()
        checkout.commit({"n.md": "2"}, "Afterwards")
        checkout.push("-q", "origin", "main")
        until(lambda: any("Afterwards" in text for text in pages_in(seen)))


def test_pages_are_the_same_for_all_with_the_same_rights(live, published):
    """What is shared must not hold anything of the person it was made for."""
    workspace = published.workspace["id"]
    groups = [[enter(live), enter(live)]]
    for role in ("reader", "owner"):
        group = []
        for _ in range(2):
            live._count += 1
            email = f"same-{live._count}@example.com"
            group.append(enter(live, email, is_admin=False))
            live.call("PUT", f"/workspaces/{workspace}/members/{email}", json={"role": role})
        groups.append(group)
    compared = 0
    for group in groups:
        for name, path in pages_of(published).items():
            answers = [browser.get(path) for browser in group]
            if answers[0].status_code != 200 or " data-live=" not in answers[0].text:
                continue
            texts = []
            for answer in answers:
                text = "".join(fresh._PARTS.findall(answer.text))
                token = CSRF.search(answer.text)
                text = text.replace(token[1], "") if token else text
                texts.append(fresh._MOVING.sub("", text))
            assert texts[0] == texts[1], name
            compared += 1
    assert compared >= 20
    for browser in sum(groups, []):
        browser.http.close()


def test_many_pages_are_made_one_after_the_other(live, place, monkeypatch):
    """Different pages of one workspace: never two at once, and each gets its own."""
    workspace, checkout, after = place
    names = [f"r{number}" for number in range(8)]
    sha = checkout.commit(workspace_files(**dict.fromkeys(names, GOOD_MAIN)))
    checkout.push("-q", "origin", "main")
    live.status({"id": workspace}, sha)
    at_once, most = 0, 0
    fetch = fresh._fetch

    async def counted(look):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            return await fetch(look)
        finally:
            at_once -= 1

    monkeypatch.setattr(fresh, "_fetch", counted)
    after = _newest(live)
    with enter(live) as chief:
        chief.http._transport._pool._max_connections = 60
        opened = [
            watching(
                chief, f"/workspaces/{workspace}/rollouts/{n}", workspace=workspace, after=after
            )
            for n in names
        ]
        seen = [one.__enter__() for one in opened]
        checkout.commit({"rollouts/r3/main.py": GOOD_MAIN + "\n# more\n"}, "More of it")
        checkout.push("-q", "origin", "main")
        for name, one in zip(names, seen, strict=True):
            until(lambda one=one: pages_in(one))
            assert f"<title>{name}" in pages_in(one)[-1]
        for one in opened:
            one.__exit__(None, None, None)
    assert most == 1


@pytest.mark.slow
def test_a_page_that_reads_slowly_holds_nobody_up_and_misses_nothing(live):
    workspace = live.create()
    checkout = live.checkout(workspace)
    names = [f"a-rollout-with-a-long-name-{number:03}" for number in range(60)]
    sha = checkout.commit(workspace_files(**dict.fromkeys(names, GOOD_MAIN)))
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha, wait=60)
    path, after = f"/workspaces/{workspace['id']}", _newest(live)
    feed = live.running._server.config.app.state.feed

    def rename(number: int) -> None:
        live.call("PATCH", path, json={"name": f"Name {number:03}"}).raise_for_status()

    with enter(live) as chief, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)  # so that little is buffered
        slow.settimeout(20)
        slow.connect(("127.0.0.1", int(live.url.rpartition(":")[2])))
        cookie = "; ".join(f"{k}={v}" for k, v in chief.http.cookies.items())
        query = f"workspace={workspace['id']}&after={after}&page={quote(path, safe='')}"
        slow.sendall(f"GET /live?{query} HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\n\r\n".encode())
        with watching(chief, path, workspace=workspace["id"], after=after) as seen:
            until(lambda: feed.held >= 2)
            held, count = feed.held, 0
            while feed.held == held:
                assert count < 200, "the connection took everything"
                rename(count)
                until(lambda n=count: any(f"Name {n:03}" in text for text in pages_in(seen)))
                count += 1
            for number in range(count, count + 3):  # these are told to the other one meanwhile
                rename(number)
                until(lambda n=number: any(f"Name {n:03}" in text for text in pages_in(seen)))
            events = [kind for kind, _ in seen].count("message")
            got = b""
            until(lambda: feed.held < held)
            while f"Name {count + 2:03}".encode() not in got or got.count(b"\nid: ") < events:
                got += slow.recv(1 << 20)
    ids = [int(number) for number in re.findall(rb"^id: (\d+)$", got, re.MULTILINE)]
    assert len(ids) == events and ids == sorted(set(ids))
    assert feed.text(ids[-1], Sight(None)) == b""
