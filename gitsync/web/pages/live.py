"""`/live`: the events of a page, as they happen.

All open pages share one reader: each commit costs one look at the events, however many people
watch. Promise: a page that comes back with `Last-Event-ID` gets every event it missed, in order,
or `reset` if some of them are gone for good.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from sse_starlette import EventSourceResponse

from gitsync.errors import GitSyncError, InvalidInput, NotFound
from gitsync.instance import Instance
from gitsync.records import Event, Role
from gitsync.store import DatabaseFailed, events, glance
from gitsync.web import wire
from gitsync.web.auth import InstanceDep, Waits
from gitsync.web.pages.access import PageRoute, enter
from gitsync.web.session import Session, SessionDep, is_still_open

log = logging.getLogger(__name__)
router = APIRouter(include_in_schema=False, route_class=PageRoute)

ROUND_S = 15.0
KEPT = 1000
STREAMS = 60  # of one person at once


class Feed:
    """The newest events, read once for all pages of this process."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self._start = 0  # every event after this id is in `_kept`
        self._last = 0
        self._changed = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._watchers = 0
        self.waits = Waits(most=STREAMS)

    def after(self, last: int) -> list[Event] | None:
        """Events after an id; None if they must be read from the store."""
        if self._reader is None or not self._start <= last <= self._last:
            return None
        return [event for event in self._kept if event.id > last] if last < self._last else []

    async def enter(self) -> None:
        """One more page watches."""
        self._watchers += 1
        if self._reader is None or self._reader.done():
            read = await anyio.to_thread.run_sync(self._newest)
            if self._reader is None or self._reader.done():
                self._start = self._last = read
                self._kept.clear()
                self._reader = asyncio.create_task(self._read(), name="events of pages")

    def leave(self) -> None:
        """One less."""
        self._watchers -= 1
        if not self._watchers and self._reader is not None:
            self._reader.cancel()
            self._reader = None

    @property
    def ticket(self) -> asyncio.Event:
        """Set as soon as there is something new; take it before looking."""
        return self._changed

    def _newest(self) -> int:
        with self._instance.database.read() as db:
            return events.last_event_id(db)

    def _more(self) -> list[Event] | None:
        with self._instance.database.read() as db:
            return events.events_after(db, self._last, workspaces=None, limit=KEPT // 2) or None

    async def _read(self) -> None:
        while True:
            try:
                found = await self._instance.signals.wait_for(self._more, seconds=ROUND_S)
            except DatabaseFailed:
                log.exception("events of pages cannot be read")
                await asyncio.sleep(1)
                continue
            for event in found or ():
                if len(self._kept) == KEPT:
                    self._start = self._kept[0].id
                self._kept.append(event)
                self._last = event.id
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()


def _scope(instance: Instance, viewer: Session, workspace: str | None) -> frozenset[str] | None:
    """The workspaces whose events the viewer sees; None is all."""
    if workspace is not None:
        return frozenset({enter(instance, viewer, workspace, Role.READER).workspace.id})
    if viewer.caller.is_admin:
        return None
    with instance.database.read() as db:
        return glance.member_of(db, viewer.user.id)


def _from_store(instance: Instance, after: int) -> tuple[list[Event], int | None]:
    """Events after an id; the newest id instead if some of them are gone."""
    with instance.database.read() as db:
        first, last = events.first_event_id(db), events.last_event_id(db)
        if after > last or (first > 0 and after < first - 1):
            return [], last
        return events.events_after(db, after, workspaces=None, limit=KEPT), None


@router.get("/live")
async def live(
    request: Request,
    instance: InstanceDep,
    viewer: SessionDep,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    workspace: Annotated[str | None, Query(max_length=60)] = None,
) -> EventSourceResponse:
    """Events after `Last-Event-ID`, or after `after`."""
    resumed = request.headers.get("last-event-id")
    if resumed:
        if not resumed.isascii() or not resumed.isdigit() or len(resumed) > 15:
            raise InvalidInput("Last-Event-ID must be the id of an event.")
        after = int(resumed)
    scope = await anyio.to_thread.run_sync(_scope, instance, viewer, workspace)
    feed: Feed = request.app.state.feed
    feed.waits.enter(viewer.user.id)
    return EventSourceResponse(
        _stream(request, instance, feed, viewer, scope, workspace, after),
        ping=15,
        send_timeout=30,
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _stream(
    request: Request,
    instance: Instance,
    feed: Feed,
    viewer: Session,
    scope: frozenset[str] | None,
    workspace: str | None,
    after: int,
) -> AsyncIterator[dict[str, Any]]:
    loop = asyncio.get_running_loop()
    checked = loop.time()
    waits: Waits = request.app.state.waits
    try:
        await feed.enter()
        yield {"comment": "open", "retry": 500}
        while not waits.is_closed:
            ticket = feed.ticket
            found = feed.after(after)
            if found is None:
                found, newest = await anyio.to_thread.run_sync(_from_store, instance, after)
                if newest is not None:
                    after = newest
                    told = json.dumps({"last_id": after})
                    yield {"event": "reset", "id": str(after), "data": told}
            for event in found:
                after = event.id
                if event.type == "workspace.created" and scope is not None and workspace is None:
                    scope = await anyio.to_thread.run_sync(_still, instance, viewer, None)
                if scope is None or event.workspace_id in scope:
                    yield {"id": str(event.id), "data": json.dumps(wire.event_json(event))}
            with suppress(TimeoutError):
                await asyncio.wait_for(ticket.wait(), 0 if found else ROUND_S)
            if loop.time() - checked >= ROUND_S:
                checked = loop.time()
                scope = await anyio.to_thread.run_sync(_still, instance, viewer, workspace)
    except GitSyncError as e:  # signed out, or no member any more: the page learns it when it asks
        log.info("page stream ended user=%s code=%s", viewer.user.id, e.code)
    finally:
        feed.leave()
        feed.waits.leave(viewer.user.id)


def _still(instance: Instance, viewer: Session, workspace: str | None) -> frozenset[str] | None:
    if not is_still_open(instance, viewer):
        raise NotFound("The session ended.")
    return _scope(instance, viewer, workspace)
