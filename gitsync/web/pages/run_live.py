"""`/workspaces/{id}/runs/{run}/live`: tells the page of a run that it should look again.

What executors say is no event of the workspace, as there is far too much of it. So the page of a
run that is not over follows a stream of its own: a number that differs whenever the page would.
"""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import AsyncIterator
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from gitsync.errors import GitSyncError, InvalidInput, NotFound
from gitsync.instance import Instance
from gitsync.run_records import Run, RunState
from gitsync.runs import life
from gitsync.store import Connection, run_pages, runs
from gitsync.web.api import runs as api
from gitsync.web.auth import InstanceDep
from gitsync.web.pages.access import PageRoute, ReaderRoom
from gitsync.web.pages.feed import ROUND_S, Feed, Sight
from gitsync.web.pages.fresh import PageQuery
from gitsync.web.pages.live import GONE, Watch

log = logging.getLogger(__name__)
router = APIRouter(include_in_schema=False, route_class=PageRoute)
PAUSE_S = 0.4  # what happens in this time after news is told together


def mark_of(db: Connection, instance: Instance, run: Run) -> int:
    """A number for what the page of this run would show now."""
    waits = None
    if run.state is RunState.PENDING:
        waits = run_pages.waiting(db, run, within_s=life.executor_window(instance))
    told = (
        run.state,
        run.attempt,
        run.log_entries,
        run.samples,
        run.results,
        run.current_step,
        run.total_steps,
        run.examples,
        run.reward,
        run.lease_expires_at,  # every word of the executor moves it
        waits,
    )
    return zlib.crc32(repr(told).encode())


@router.get("/workspaces/{workspace_id}/runs/{run}/live")
def follow(
    run: api.Ref,
    room: ReaderRoom,
    request: Request,
    instance: InstanceDep,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    page: PageQuery = None,
) -> StreamingResponse:
    """A message whenever the number is another one than the page's; before it the new page."""
    resumed = request.headers.get("last-event-id") or str(after)
    if not resumed.isascii() or not resumed.isdigit() or len(resumed) > 15:
        raise InvalidInput("Last-Event-ID must be the id of a message.")
    found = api.find(instance, room.workspace, run)
    feed: Feed = request.app.state.feed
    feed.waits.enter(room.viewer.user.id)  # or the answer says that there are too many
    feed.waits.leave(room.viewer.user.id)
    watch = Watch.of(instance, request, room.viewer, room.workspace.id, page)
    return StreamingResponse(
        _stream(
            feed, watch, Sight(frozenset({room.workspace.id}), room.role), found.id, int(resumed)
        ),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _stream(
    feed: Feed, watch: Watch, sight: Sight, run_id: str, seen: int
) -> AsyncIterator[bytes]:
    loop, instance = asyncio.get_running_loop(), watch.instance
    checked, is_over, shown = loop.time(), False, 0
    feed.waits.enter(watch.viewer.user.id)

    def look() -> tuple[int, bool] | None:
        with instance.database.read() as db:
            run = runs.get_run(db, run_id)
            mark = mark_of(db, instance, run)
        return (mark, run.state.is_over) if mark != seen or feed.is_closing else None

    try:
        yield b"retry: 500\n: open\n\n"
        while not feed.is_closing:
            if is_over:  # nothing more comes; the browser would open an ended stream again
                await asyncio.sleep(1)
            else:
                left = max(0.1, checked + ROUND_S - loop.time())
                found = await instance.signals.wait_for(look, seconds=left)
                if found is not None and found[0] != seen:
                    seen, is_over = found
                    since = loop.time()
                    text, shown = await watch.message(feed, sight, since=since, shown=shown)
                    data = json.dumps({"type": "run.changed", "run": run_id})
                    yield text + f"id: {seen}\ndata: {data}\n\n".encode()
                    await asyncio.sleep(PAUSE_S)
            if loop.time() - checked >= ROUND_S:
                checked = loop.time()
                sight = await anyio.to_thread.run_sync(watch.sight)
                yield b": still here\n\n"
    except GitSyncError as e:  # signed out, no member any more, or the workspace is gone
        log.info("page stream ended user=%s code=%s", watch.viewer.user.id, e.code)
        if isinstance(e, NotFound):
            yield GONE
    finally:
        feed.waits.leave(watch.viewer.user.id)
