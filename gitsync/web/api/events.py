"""What happens, as it happens: Server-Sent Events, or the same as JSON (decision 34)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from sse_starlette import EventSourceResponse

from gitsync.errors import GitSyncError, InvalidInput
from gitsync.instance import Instance
from gitsync.records import Event, Role
from gitsync.store import events, workspaces
from gitsync.web import shapes, wire
from gitsync.web.answers import Responses, may
from gitsync.web.auth import (
    Caller,
    CallerDep,
    InstanceDep,
    TokenRevoked,
    Waits,
    check_access,
    is_still_known,
)
from gitsync.web.idempotency import IdempotentRoute
from gitsync.web.query import Wait

log = logging.getLogger(__name__)
router = APIRouter(tags=["events"], route_class=IdempotentRoute)

_BOTH: Responses = {
    200: {
        "description": "Events after an id, oldest first.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}
BATCH = 200
ROUND_S = 15.0


def _scope(instance: Instance, caller: Caller, workspace: str | None) -> list[str] | None:
    """The workspaces whose events the caller sees; None is all."""
    if workspace is not None:
        return [check_access(instance, caller, workspace, Role.READER).id]
    if caller.token.role is not None:
        return list(caller.token.workspaces)
    if caller.is_admin or caller.user is None:
        return None if caller.is_admin else []
    found: list[str] = []
    after: str | None = None
    with instance.database.read() as db:
        while True:
            page = workspaces.list_workspaces(db, limit=200, after=after, user_id=caller.user.id)
            found += [w.id for w in page.items]
            after = page.next
            if after is None:
                return found


@dataclass(frozen=True, slots=True)
class _Read:
    """The events after an id; `is_lost`: some of them are gone for good; `last` of all ids."""

    found: list[Event]
    is_lost: bool
    last: int


def _after(instance: Instance, scope: list[str] | None, after: int) -> _Read:
    with instance.database.read() as db:
        # `last` first: no event up to it can appear later
        first, last = events.first_event_id(db), events.last_event_id(db)
        found = events.events_after(db, after, workspaces=scope, limit=BATCH)
    return _Read(found, after > last or (first > 0 and 0 <= after < first - 1), last)


def _found(
    instance: Instance, waits: Waits, scope: list[str] | None, after: int
) -> list[Event] | None:
    """What ends a wait: an event, or that the server stops."""
    return _after(instance, scope, after).found or ([] if waits.is_closed else None)


@router.get(
    "/events",
    response_model=shapes.Events,
    responses=_BOTH | may(404),
)
async def stream(
    request: Request,
    instance: InstanceDep,
    caller: CallerDep,
    after: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    workspace: Annotated[str | None, Query(max_length=60)] = None,
    wait: Wait = 0,
) -> Any:
    """SSE for clients that accept `text/event-stream` (resumes after `Last-Event-ID`), else JSON.

    An id that is too old is answered by `reset`: load the state anew and go on from `last_id`.
    """
    scope = await anyio.to_thread.run_sync(_scope, instance, caller, workspace)
    is_sse = "text/event-stream" in request.headers.get("accept", "")
    resumed = request.headers.get("last-event-id") if is_sse else None
    if resumed is not None:
        if not resumed.isascii() or not resumed.isdigit() or len(resumed) > 15:
            raise InvalidInput("Last-Event-ID must be the id of an event.", field="Last-Event-ID")
        after = int(resumed)
    waits: Waits = request.app.state.waits
    if is_sse:
        if after is None:
            after = await anyio.to_thread.run_sync(_last, instance)
        waits.enter(caller.token.id)
        return EventSourceResponse(
            _events(instance, caller, waits, scope, workspace, after), ping=15, send_timeout=30
        )
    return await _as_json(instance, caller, waits, scope, after or 0, wait)


def _last(instance: Instance) -> int:
    with instance.database.read() as db:
        return events.last_event_id(db)


async def _as_json(
    instance: Instance,
    caller: Caller,
    waits: Waits,
    scope: list[str] | None,
    after: int,
    wait: float,
) -> dict[str, Any]:
    read = await anyio.to_thread.run_sync(_after, instance, scope, after)
    if not read.found and not read.is_lost and wait > 0:
        waits.enter(caller.token.id)
        try:
            await instance.signals.wait_for(
                partial(_found, instance, waits, scope, after),
                seconds=min(wait, instance.settings.wait_max_s),
            )
        finally:
            waits.leave(caller.token.id)
        read = await anyio.to_thread.run_sync(_after, instance, scope, after)
    return {
        "items": [wire.event_json(event) for event in read.found],
        "reset": read.is_lost,
        "last_id": read.found[-1].id if read.found else read.last,
    }


async def _events(
    instance: Instance,
    caller: Caller,
    waits: Waits,
    scope: list[str] | None,
    workspace: str | None,
    after: int,
) -> AsyncIterator[dict[str, str]]:
    loop = asyncio.get_running_loop()
    checked = loop.time()
    try:
        read = await anyio.to_thread.run_sync(_after, instance, scope, after)
        found = read.found
        if read.is_lost:
            after, found = read.last, []
            yield {"event": "reset", "id": str(after), "data": json.dumps({"last_id": after})}
        while not waits.is_closed:
            for event in found:
                after = event.id
                yield {
                    "event": event.type,
                    "id": str(event.id),
                    "data": json.dumps(wire.event_json(event)),
                }
            if loop.time() - checked >= ROUND_S:
                checked = loop.time()
                scope = await anyio.to_thread.run_sync(_still, instance, caller, workspace)
            late = await instance.signals.wait_for(
                partial(_found, instance, waits, scope, after), seconds=ROUND_S
            )
            found = late or []
    except GitSyncError as e:  # revoked, or no member any more: the client learns it when it asks
        log.info("stream ended token=%s code=%s", caller.token.id, e.code)
    finally:
        waits.leave(caller.token.id)


def _still(instance: Instance, caller: Caller, workspace: str | None) -> list[str] | None:
    if not is_still_known(instance, caller):
        raise TokenRevoked("This token was revoked or has expired.")
    return _scope(instance, caller, workspace)
