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
from starlette.types import Receive, Scope, Send

from gitsync.records import Role
from gitsync.web.logs import loggable
from gitsync.web.session import MadeFor, Session

log = logging.getLogger(__name__)
PAUSE_S = 0.2  # between two texts of one page
KEPT, KEPT_S = 64, 5.0
SECONDS = 5.0  # a page that takes longer is asked for by the browser instead

# pages that follow events, no downloads and no streams; the characters are those of our own links
_SEGMENT = r"/[\w.~%@+-]+"
_PATH = re.compile(
    r"/(admin|workspaces"
    rf"|workspaces{_SEGMENT}(/(rollouts|syncs|commits|versions|runs|datasets)({_SEGMENT})?"
    rf"|/versions{_SEGMENT}/diff|/secrets|/deliveries)?"
    r")(\?[\w.~%@+&=/-]*)?",
    re.ASCII,
)
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


def _fits(look: Look, made_for: MadeFor) -> bool:
    """True if the rights a page was made with are those of its key: they may have changed."""
    if look.role is not None:
        return made_for.role is look.role
    is_admin = look.viewer.caller.is_admin
    return made_for.is_admin == is_admin and (is_admin or made_for.user_id == look.viewer.user.id)


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


class Making:
    """A page that is being made, and who waits for it."""

    def __init__(self) -> None:
        self.begun: float | None = None  # when it was asked for; None until it is its turn
        self.waiting = 0
        self.done: asyncio.Future[Made | None] = asyncio.get_running_loop().create_future()


class Fresh:
    """The newest texts of the pages that people of this process look at."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Made] = {}
        self._making: dict[Hashable, Making] = {}
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
        key, now = look.key, asyncio.get_running_loop().time()
        made = self._made.get(key)
        if made is not None and made.begun >= max(since, now - KEPT_S):
            return made
        while True:
            making = self._making.get(key)
            if making is None:
                making = self._making[key] = Making()
                task = asyncio.create_task(self._make(look, making), name="page")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            making.waiting += 1
            try:
                made = await asyncio.shield(making.done)
            finally:
                making.waiting -= 1
            if making.begun is not None and making.begun >= since:
                return made
            # what another one asked for is too old for us

    async def _make(self, look: Look, making: Making) -> None:
        loop, key, made = asyncio.get_running_loop(), look.key, None
        try:
            before = self._made.get(key)
            if before is not None:
                await asyncio.sleep(max(0.0, before.begun + PAUSE_S - loop.time()))
            await self._turn.acquire()
            making.begun = loop.time()
            if not making.waiting:  # they all left
                self._turn.release()
                return
            try:
                text = await _fetch(look)
            finally:  # as long again for everybody else
                rest = min(loop.time() - making.begun, PAUSE_S)
                loop.call_later(rest, self._turn.release)
            if text is not None:  # the newest last
                made = Made.of(making.begun, text, look.viewer.csrf)
                self._made.pop(key, None)
                self._made[key] = made
                while len(self._made) > KEPT:
                    del self._made[next(iter(self._made))]
        except Exception:
            log.exception("page not made path=%s", loggable(look.path))
        finally:
            del self._making[key]
            making.done.set_result(made)


async def _fetch(look: Look) -> str | None:
    """The title, head and main part of a page as its viewer gets it; None if they get another."""
    made_for = MadeFor()

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        await look.request.app({**scope, MadeFor.KEY: made_for}, receive, send)

    inside = httpx.ASGITransport(
        inner, raise_app_exceptions=False, client=look.request.client or ("", 0)
    )
    cookies = [(b"cookie", v) for k, v in look.request.scope["headers"] if k == b"cookie"]
    headers = [*cookies, (b"hx-request", b"true")]
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
    if answer.status_code != 200 or not _fits(look, made_for):
        return None
    if " data-live=" not in answer.text:
        return None
    return "".join(_PARTS.findall(answer.text))
