"""`/live`: the events of a page, as they happen.

All open pages share one reader: each commit costs one look at the events and one text per event,
however many people watch, and they are woken a few at a time, so that other requests pass between.

Promise: a page that comes back with `Last-Event-ID` gets every event it missed, in order, or
`reset` if some of them are gone for good, or are so many that loading the page anew is less work.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from gitsync.errors import GitSyncError, InvalidInput, NotFound
from gitsync.instance import Instance
from gitsync.records import Event, Role
from gitsync.store import DatabaseFailed, events, glance
from gitsync.web import wire
from gitsync.web.auth import InstanceDep, Waits
from gitsync.web.pages.access import PageRoute, enter
from gitsync.web.pages.fresh import LOOK, Fresh, Look, PageQuery, is_page
from gitsync.web.session import Session, SessionDep, is_still_open

log = logging.getLogger(__name__)
router = APIRouter(include_in_schema=False, route_class=PageRoute)

ROUND_S = 15.0
KEPT = 1000
STREAMS = 60  # of one person at once
# What comes in this time after news is told together: longer, the more pages have to be told, so
# that telling them takes the same share of the server's time.
PAUSE_S, PER_PAGE_S, LONGEST_S = 0.1, 0.002, 0.38
GROUP, STEP_S = 2, 0.001  # pages woken at once, and the pause before the next ones


@dataclass(frozen=True, slots=True)
class News:
    """An event and its text on the wire."""

    id: int
    workspace_id: str | None
    type: str
    text: bytes

    @classmethod
    def of(cls, event: Event) -> News:
        """Made once for all pages."""
        data = json.dumps(wire.event_json(event))
        return cls(event.id, event.workspace_id, event.type, _message(data, id=event.id))


def _message(data: str, *, id: int, event: str | None = None) -> bytes:
    head = "" if event is None else f"event: {event}\n"
    return f"{head}id: {id}\ndata: {data}\n\n".encode()


class Feed:
    """The newest events, read once for all pages of this process."""

    def __init__(self, instance: Instance, closing: Waits) -> None:
        self._instance = instance
        self._closing = closing
        self._kept: deque[News] = deque(maxlen=KEPT)
        self._start = 0  # every event after this id is in `_kept`
        self._last = 0
        self._waiting: set[asyncio.Event] = set()
        self.told_at = 0.0  # when the newest were read, by the clock of the event loop
        self._reader: asyncio.Task[None] | None = None
        self._watchers = 0
        self.waits = Waits(most=STREAMS)
        self.fresh = Fresh()
        self.late = asyncio.Lock()  # pages far behind read the store one after the other

    def after(self, last: int) -> list[News] | None:
        """Events after an id; None if they must be read from the store."""
        if self._reader is None or not self._start <= last <= self._last:
            return None
        return [news for news in self._kept if news.id > last] if last < self._last else []

    async def enter(self) -> None:
        """One more page watches."""
        self._watchers += 1
        if self._reader is None or self._reader.done():
            read = await anyio.to_thread.run_sync(self._latest)
            if self._reader is None or self._reader.done():
                self._kept = deque(read, maxlen=KEPT)
                self.told_at = asyncio.get_running_loop().time()
                self._start = read[0].id - 1 if read else 0
                self._last = read[-1].id if read else 0
                self._reader = asyncio.create_task(self._read(), name="events of pages")

    def leave(self) -> None:
        """One less."""
        self._watchers -= 1
        if not self._watchers and self._reader is not None:
            self._reader.cancel()
            self._reader = None

    @property
    def is_closing(self) -> bool:
        """True once the server stops."""
        return self._closing.is_closed

    def ticket(self) -> asyncio.Event:
        """Set as soon as there is something new; take it before looking."""
        made = asyncio.Event()
        self._waiting.add(made)
        return made

    def forget(self, ticket: asyncio.Event) -> None:
        """The ticket is not waited for any more."""
        self._waiting.discard(ticket)

    def _latest(self) -> list[News]:
        """After a start of the server all pages come back at once, each a little behind."""
        with self._instance.database.read() as db:
            found = events.latest_events(db, limit=KEPT // 2)
        return [News.of(event) for event in found]

    def _more(self) -> list[News] | None:
        with self._instance.database.read() as db:
            found = events.events_after(db, self._last, workspaces=None, limit=KEPT // 2)
        return [News.of(event) for event in found] or ([] if self._closing.is_closed else None)

    async def _read(self) -> None:
        while not self._closing.is_closed:
            try:
                found = await self._instance.signals.wait_for(self._more, seconds=ROUND_S)
            except DatabaseFailed:
                log.exception("events of pages cannot be read")
                await asyncio.sleep(1)
                continue
            for news in found or ():
                if len(self._kept) == KEPT:
                    self._start = self._kept[0].id
                self._kept.append(news)
                self._last = news.id
            if found is not None:
                loop = asyncio.get_running_loop()
                self.told_at = loop.time()
                await self._wake()
                pause = min(max(PAUSE_S, PER_PAGE_S * self._watchers), LONGEST_S)
                await asyncio.sleep(max(0.0, self.told_at + pause - loop.time()))
        await self._wake()

    async def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for number, ticket in enumerate(waiting, 1):
            ticket.set()
            if number % GROUP == 0:
                await asyncio.sleep(STEP_S)


@dataclass(frozen=True, slots=True)
class Sight:
    """The workspaces whose events a viewer sees, None for all; the role in it if it is one."""

    workspaces: frozenset[str] | None
    role: Role | None = None

    def sees(self, news: News) -> bool:
        """True if the event is theirs to know."""
        return self.workspaces is None or news.workspace_id in self.workspaces


def _sight(instance: Instance, viewer: Session, workspace: str | None) -> Sight:
    if workspace is not None:
        room = enter(instance, viewer, workspace, Role.READER)
        return Sight(frozenset({room.workspace.id}), room.role)
    if viewer.caller.is_admin:
        return Sight(None)
    with instance.database.read() as db:
        return Sight(glance.member_of(db, viewer.user.id))


def _from_store(instance: Instance, after: int) -> tuple[list[News], int | None]:
    """Events after an id; the newest id instead if some are gone, or they are too many."""
    with instance.database.read() as db:
        first, last = events.first_event_id(db), events.last_event_id(db)
        if after > last or (first > 0 and after < first - 1):
            return [], last
        found = events.events_after(db, after, workspaces=None, limit=KEPT + 1)
    if len(found) > KEPT:
        return [], last
    return [News.of(event) for event in found], None


@router.get("/live")
async def live(
    request: Request,
    instance: InstanceDep,
    viewer: SessionDep,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    workspace: Annotated[str | None, Query(max_length=60)] = None,
    page: PageQuery = None,
) -> StreamingResponse:
    """Events after `Last-Event-ID`, or after `after`; before them the page, if it changed.

    `page` is the address of the page: it comes as `event: page` with the new title and main part
    as a JSON string, or as `event: look` if the browser should fetch it by itself.
    """
    resumed = request.headers.get("last-event-id")
    if resumed:
        if not resumed.isascii() or not resumed.isdigit() or len(resumed) > 15:
            raise InvalidInput("Last-Event-ID must be the id of an event.")
        after = int(resumed)
    sight = await anyio.to_thread.run_sync(_sight, instance, viewer, workspace)
    feed: Feed = request.app.state.feed
    feed.waits.enter(viewer.user.id)  # or the answer says that there are too many
    feed.waits.leave(viewer.user.id)
    return StreamingResponse(
        _stream(feed, Watch.of(instance, request, viewer, workspace, page), sight, after),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


@dataclass(frozen=True, slots=True)
class Watch:
    """An open page: of whom, of which workspace, at which address."""

    instance: Instance
    request: Request
    viewer: Session
    workspace: str | None
    page: str | None
    is_page: bool = False

    @classmethod
    def of(
        cls,
        instance: Instance,
        request: Request,
        viewer: Session,
        workspace: str | None,
        page: str | None,
    ) -> Watch:
        """Judges the address once."""
        return cls(instance, request, viewer, workspace, page, is_page(page, workspace))

    def sight(self) -> Sight:
        """What its viewer may see now; `NotFound` once they are signed out or no member."""
        if not is_still_open(self.instance, self.viewer):
            raise NotFound("The session ended.")
        return _sight(self.instance, self.viewer, self.workspace)

    async def message(
        self, feed: Feed, sight: Sight, *, since: float, shown: int
    ) -> tuple[bytes, int]:
        """The page as it is after news of this time; nothing for pages that only listen."""
        if self.page is None:
            return b"", shown
        if not self.is_page:
            return LOOK, 0
        look = Look(self.request, self.viewer, self.page, sight.role)
        return await feed.fresh.message(look, since=since, shown=shown)


async def _stream(feed: Feed, watch: Watch, sight: Sight, after: int) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    checked, ticket, shown = loop.time(), None, 0
    feed.waits.enter(watch.viewer.user.id)
    try:
        await feed.enter()
        yield b"retry: 500\n: open\n\n"
        while not feed.is_closing:
            ticket, since = feed.ticket(), feed.told_at
            known = feed.after(after)
            found = known or []
            if known is None:
                async with feed.late:
                    since = loop.time()
                    found, newest = await anyio.to_thread.run_sync(
                        _from_store, watch.instance, after
                    )
                if newest is not None:
                    after = newest
                    yield _message(json.dumps({"last_id": after}), id=after, event="reset")
            if sight.role is None and any(news.type == "workspace.created" for news in found):
                sight = await anyio.to_thread.run_sync(watch.sight)
            ours = [news.text for news in found if sight.sees(news)]
            after = found[-1].id if found else after
            if ours:  # the page first: a cut between the two repeats it, instead of losing it
                text, shown = await watch.message(feed, sight, since=since, shown=shown)
                yield text + b"".join(ours)
            if not found:
                with suppress(TimeoutError):
                    await asyncio.wait_for(ticket.wait(), ROUND_S)
            feed.forget(ticket)
            if loop.time() - checked >= ROUND_S:
                checked = loop.time()
                sight = await anyio.to_thread.run_sync(watch.sight)
                yield b": still here\n\n"
    except GitSyncError as e:  # signed out, or no member any more: the page learns it when it asks
        log.info("page stream ended user=%s code=%s", watch.viewer.user.id, e.code)
    finally:
        if ticket is not None:
            feed.forget(ticket)
        feed.leave()
        feed.waits.leave(watch.viewer.user.id)
