"""Pages as their viewers should see them now, made once for all who look at the same one.

A page that follows events is sent its own new text in the stream. Whoever asks first has it made,
by a request of their own to this application; everybody with the same address and the same rights
gets that text with their own form token in it. So news costs one page, however many people watch.

Promise: texts are shared only among viewers for whom the page is the same: those with the same
role in the workspace of its path, administrators, or else nobody but the same person.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated

import httpx
from fastapi import Query, Request

from gitsync.records import Role
from gitsync.web.logs import loggable
from gitsync.web.session import Session

log = logging.getLogger(__name__)
PAUSE_S = 0.2  # between two texts of one page
KEPT, KEPT_S = 64, 5.0
SECONDS = 20.0  # a page that takes longer is asked for by the browser instead

# pages that follow events; the characters are those that our own links hold
_PATH = re.compile(r"/(admin|workspaces(/[\w.~%@+-]+)*)(\?[\w.~%@+&=/-]*)?", re.ASCII)
_DOTS = re.compile(r"/\.{1,2}(?=[/?]|\Z)|%2e", re.IGNORECASE)
_MOVING = re.compile(r' data-last="\d+"|>[^<>]*</time>')  # pages keep times fresh themselves
_PARTS = re.compile(
    r'<title>.*?</title>|<section id="room".*?</section>|<main .*</main>', re.DOTALL
)

PageQuery = Annotated[str | None, Query(max_length=2000, alias="page")]


@dataclass(frozen=True, slots=True)
class Look:
    """Who looks at which page, by which request."""

    request: Request
    viewer: Session
    path: str
    role: Role | None  # in the workspace of the path

    @property
    def key(self) -> Hashable:
        """The same for all to whom the page looks the same."""
        if self.role is not None:
            return self.path, self.role
        return self.path, "admin" if self.viewer.caller.is_admin else self.viewer.user.id


@dataclass(frozen=True, slots=True)
class Made:
    """A text and what it stands for."""

    begun: float
    text: str  # as JSON
    csrf: str
    number: int  # the same for texts that look the same

    @classmethod
    def of(cls, begun: float, text: str, csrf: str) -> Made:
        """From the parts of a page."""
        number = hash(_MOVING.sub("", text.replace(csrf, ""))) or 1
        return cls(begun, json.dumps(text), csrf, number)

    def message(self, csrf: str) -> bytes:
        """On the wire, with the token of one viewer."""
        return f"event: page\ndata: {self.text.replace(self.csrf, csrf)}\n\n".encode()


LOOK = b"event: look\ndata: {}\n\n"  # the browser should fetch the page by itself


def is_page(path: str | None, workspace_id: str | None) -> bool:
    """True for the address of a page that may follow the events of this workspace, or of all."""
    if path is None or not _PATH.fullmatch(path) or _DOTS.search(path):
        return False
    if workspace_id is None:
        return path.partition("?")[0] in ("/admin", "/workspaces")
    return f"{path.partition('?')[0]}/".startswith(f"/workspaces/{workspace_id}/")


class Fresh:
    """The newest texts of the pages that people of this process look at."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Made] = {}
        self._waiting: dict[Hashable, list[asyncio.Future[None]]] = {}  # for pages being made
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    async def message(self, look: Look, *, since: float, shown: int) -> tuple[bytes, int]:
        """What to send to a page, and a number for it: nothing if it shows that already.

        `shown` is the number of what was sent before, 0 for nothing.
        """
        made = await self.newest(look, since)
        if made is None:
            return LOOK, 0
        text = b"" if made.number == shown else made.message(look.viewer.csrf)
        return text, made.number

    async def newest(self, look: Look, since: float) -> Made | None:
        """A page made after the news of this time, in seconds of the event loop.

        None if it cannot be made, or is not for this viewer.
        """
        loop, key = asyncio.get_running_loop(), look.key
        while True:
            made = self._made.get(key)
            if made is not None and made.begun >= max(since, loop.time() - KEPT_S):
                return made
            waiting, done = self._waiting.get(key), loop.create_future()
            if waiting is not None:  # what another one asked for may serve us, or be too old
                waiting.append(done)
                await done
                continue
            self._waiting[key] = [done]
            task = asyncio.create_task(self._make(look), name="page")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await done
            if self._made.get(key) is made:
                return None

    async def _make(self, look: Look) -> None:
        loop = asyncio.get_running_loop()
        try:
            before = self._made.get(look.key)
            if before is not None:
                await asyncio.sleep(max(0.0, before.begun + PAUSE_S - loop.time()))
            await self._turn.acquire()
            begun = loop.time()
            try:
                text = await _fetch(look)
            finally:  # as long again for everybody else
                loop.call_later(loop.time() - begun, self._turn.release)
            if text is not None:  # the newest last
                self._made.pop(look.key, None)
                self._made[look.key] = Made.of(begun, text, look.viewer.csrf)
                while len(self._made) > KEPT:
                    del self._made[next(iter(self._made))]
        finally:
            waiting = self._waiting.pop(look.key)
            for done in waiting:
                if not done.done():  # or its viewer has left
                    done.set_result(None)


async def _fetch(look: Look) -> str | None:
    """The title, head and main part of a page as its viewer gets it; None if they get another."""
    inside = httpx.ASGITransport(
        look.request.app, raise_app_exceptions=False, client=look.request.client or ("", 0)
    )
    headers = {"Cookie": look.request.headers.get("cookie", ""), "HX-Request": "true"}
    url = str(look.request.base_url).rstrip("/") + look.path
    try:
        async with (
            httpx.AsyncClient(transport=inside, headers=headers, trust_env=False) as client,
            asyncio.timeout(SECONDS),
        ):
            answer = await client.get(url)
    except (TimeoutError, httpx.HTTPError, httpx.InvalidURL):
        log.warning("page not made path=%s", loggable(look.path))
        return None
    if answer.status_code != 200 or " data-live=" not in answer.text:
        return None
    return "".join(_PARTS.findall(answer.text))
