"""`/live`: the events of a page, as they happen.

A stream has a task of its own for what concerns it alone: what it missed, whether its viewer may
still look, signs of life. In between the feed holds its line and tells what is new.

Promise: a page that comes back with `Last-Event-ID` gets every event it missed, in order, or
`reset` if some of them are gone for good, or are so many that loading the page anew is less work.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from gitsync.errors import GitSyncError, InvalidInput, NotFound
from gitsync.instance import Instance
from gitsync.records import Role
from gitsync.store import DatabaseFailed, events, glance
from gitsync.web.auth import InstanceDep
from gitsync.web.limits import unwrapped
from gitsync.web.pages.access import PageRoute, enter
from gitsync.web.pages.feed import KEPT, ROUND_S, Feed, Line, News, Sight, message
from gitsync.web.pages.fresh import LOOK, Look, PageQuery, is_page
from gitsync.web.session import Session, SessionDep, is_still_open

log = logging.getLogger(__name__)
GONE = b"event: gone\ndata: {}\n\n"  # the page is not for its viewer any more: loading it says why
router = APIRouter(include_in_schema=False, route_class=PageRoute)


def _sight(instance: Instance, viewer: Session, workspace: str | None) -> Sight:
    if workspace is not None:
        room = enter(instance, viewer, workspace, Role.READER)
        return Sight(frozenset({room.workspace.id}), room.role)
    if viewer.caller.is_admin:
        return Sight(None)
    with instance.database.read() as db:
        newest = events.last_event_id(db)
        return Sight(glance.member_of(db, viewer.user.id), read_at=newest)


@dataclass(frozen=True, slots=True)
class Missed:
    """What somebody did not hear of up to the event `last`; None if they have to load anew."""

    sight: Sight
    news: list[News] | None
    last: int

    @classmethod
    def read(cls, watch: Watch, after: int) -> Missed:
        """Events of theirs; none if some are gone, or they are too many."""
        database = watch.instance.database
        with database.read() as db:
            first, last = events.first_event_id(db), events.last_event_id(db)
        sight = watch.sight()  # later than `last`: nothing of a new workspace is left out
        if after > last or (first > 0 and after < first - 1):
            return cls(sight, None, last)
        with database.read() as db:
            mine = None if sight.workspaces is None else list(sight.workspaces)
            found = events.events_after(db, after, workspaces=mine, limit=KEPT + 1)
        if len(found) > KEPT:
            return cls(sight, None, last)
        return cls(sight, [News.of(event) for event in found if event.id <= last], last)


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

    def look(self, sight: Sight) -> Look | None:
        """At the page that comes with the events, if one does."""
        if self.page is None or not self.is_page:
            return None
        return Look(self.request, self.viewer, self.page, sight.role)

    async def message(
        self, feed: Feed, sight: Sight, *, since: float, shown: int
    ) -> tuple[bytes, int]:
        """The page as it is after news of this time; nothing for pages that only listen."""
        look = self.look(sight)
        if look is None:
            return (b"", shown) if self.page is None else (LOOK, 0)
        return await feed.fresh.message(look, since=since, shown=shown)


async def _stream(feed: Feed, watch: Watch, sight: Sight, after: int) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    line = Line(
        unwrapped(watch.request.scope), sight, after, watch.viewer.csrf, has_page=bool(watch.page)
    )
    checked = loop.time()
    feed.waits.enter(watch.viewer.user.id)
    try:
        await feed.enter()
        yield b"retry: 500\n: open\n\n"
        while not feed.is_closing:
            if not feed.knows(line.after):
                async with feed.late:
                    missed = await anyio.to_thread.run_sync(Missed.read, watch, line.after)
                line.sight, line.after, line.read_at = missed.sight, missed.last, loop.time()
                if missed.news is None:
                    line.missed, text = b"", json.dumps({"last_id": missed.last})
                    yield message(text, id=missed.last, event="reset")
                else:
                    line.missed += b"".join(n.text for n in missed.news if line.sight.sees(n))
            line.look = watch.look(line.sight)
            with feed.holding(line), suppress(TimeoutError):
                await asyncio.wait_for(line.returned.wait(), ROUND_S)
            if line.writing is not None:  # slow to take what it is sent
                await asyncio.wait([line.writing], timeout=ROUND_S)
                line.is_broken = not line.writing.done() or line.writing.exception() is not None
            if line.is_broken or feed.is_closing:
                return
            line.writing = None
            with suppress(DatabaseFailed):  # no news comes without it: the next round asks again
                line.sight = await anyio.to_thread.run_sync(watch.sight)
            if loop.time() - checked >= ROUND_S:
                checked = loop.time()
                yield b": still here\n\n"
    except GitSyncError as e:  # signed out, or no member any more
        log.info("page stream ended user=%s code=%s", watch.viewer.user.id, e.code)
        if isinstance(e, NotFound):
            yield GONE
    finally:
        if line.writing is not None:
            line.writing.cancel()
        feed.leave()
        feed.waits.leave(watch.viewer.user.id)
