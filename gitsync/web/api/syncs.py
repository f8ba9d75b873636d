"""Syncs, commits and deliveries: what happened, and what a reader may wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Depends, Path, Request

from gitsync.instance import Instance
from gitsync.records import Role, SyncStatus, Workspace
from gitsync.store import syncs
from gitsync.sync import triggers
from gitsync.sync.trace import commit_mark, commit_status, is_settled
from gitsync.web import shapes, wire
from gitsync.web.auth import CallerDep, InstanceDep, MemberOf, Needs, ReaderOf, Waits
from gitsync.web.idempotency import IdempotentRoute
from gitsync.web.query import ShaDep, Wait, WindowDep

router = APIRouter(tags=["syncs"], route_class=IdempotentRoute)
RowId = Annotated[int, Path(ge=1, le=2**53)]


async def waited[T](
    request: Request,
    instance: Instance,
    look: Callable[[], T],
    is_over: Callable[[T], bool],
    *,
    token_id: str,
    seconds: float,
) -> T:
    """What `look` gives once it is over, or as it is when the time has passed."""
    waits: Waits = request.app.state.waits
    found = await anyio.to_thread.run_sync(look)
    if seconds <= 0 or is_over(found):
        return found
    waits.enter(token_id)
    try:

        def settled() -> T | None:
            now = look()
            return now if is_over(now) or waits.is_closed else None

        seconds = min(seconds, instance.settings.wait_max_s)
        late = await instance.signals.wait_for(settled, seconds=seconds)
        return late if late is not None else await anyio.to_thread.run_sync(look)
    finally:
        waits.leave(token_id)


@router.post("/workspaces/{workspace_id}/sync", status_code=202, response_model=shapes.SyncAsked)
def sync_now(workspace: MemberOf, instance: InstanceDep, caller: CallerDep) -> dict[str, Any]:
    """Look at the remote now."""
    return {"sync_id": triggers.request_sync(instance, workspace, by=caller.id)}


@router.get("/workspaces/{workspace_id}/syncs", response_model=shapes.Page[shapes.Sync])
def list_syncs(workspace: ReaderOf, instance: InstanceDep, window: WindowDep) -> dict[str, Any]:
    """Syncs, newest first."""
    with instance.database.read() as db:
        page = syncs.list_syncs(db, workspace.id, limit=window.limit, after=window.after)
    return wire.page_json(page, [wire.sync_json(sync) for sync in page.items])


@router.get("/workspaces/{workspace_id}/syncs/{sync_id}", response_model=shapes.Sync)
async def show_sync(
    sync_id: RowId,
    request: Request,
    workspace: Annotated[Workspace, Depends(Needs(Role.READER))],
    instance: InstanceDep,
    caller: CallerDep,
    wait: Wait = 0,
) -> dict[str, Any]:
    """One sync; with `wait` once it has ended."""

    def look() -> Any:
        with instance.database.read() as db:
            return syncs.get_sync(db, workspace.id, sync_id)

    found = await waited(
        request,
        instance,
        look,
        lambda sync: sync.status in (SyncStatus.SUCCESS, SyncStatus.FAILED),
        token_id=caller.token.id,
        seconds=wait,
    )
    return wire.sync_json(found)


@router.get("/workspaces/{workspace_id}/commits/{sha}", response_model=shapes.Commit)
async def show_commit(
    sha: ShaDep,
    request: Request,
    workspace: Annotated[Workspace, Depends(Needs(Role.READER))],
    instance: InstanceDep,
    caller: CallerDep,
    wait: Wait = 0,
) -> dict[str, Any]:
    """Why a commit is live, or not; an unknown one makes the service look at the remote."""
    asked = False
    last: tuple[tuple[object, ...], dict[str, Any]] | None = None

    def look() -> dict[str, Any]:
        nonlocal asked, last
        mark = commit_mark(instance, workspace.id, sha)
        if last is None or last[0] != mark:
            last = mark, commit_status(instance, workspace.id, sha)
        status = last[1]
        if wait > 0 and status["state"] in ("unknown", "unreachable") and not asked:
            asked = triggers.request_look(instance, workspace.id)
        return status

    found = await waited(
        request,
        instance,
        look,
        is_settled,
        token_id=caller.token.id,
        seconds=wait,
    )
    return commit_json(instance, workspace, found)


def commit_json(instance: Instance, workspace: Workspace, status: dict[str, Any]) -> dict[str, Any]:
    """The status of a commit on the wire."""
    return {
        **status,
        "url": f"{instance.settings.url}/workspaces/{workspace.id}/commits/{status['commit_sha']}",
        "trace": [{**step, "at": wire.when(step["at"])} for step in status["trace"]],
    }


@router.get("/workspaces/{workspace_id}/deliveries", response_model=shapes.Page[shapes.Delivery])
def list_deliveries(
    workspace: MemberOf, instance: InstanceDep, window: WindowDep
) -> dict[str, Any]:
    """Webhook calls and native pushes, newest first."""
    with instance.database.read() as db:
        page = syncs.list_deliveries(db, workspace.id, limit=window.limit, after=window.after)
    return wire.page_json(page, [wire.delivery_json(delivery) for delivery in page.items])


@router.get("/workspaces/{workspace_id}/deliveries/{delivery_id}", response_model=shapes.Delivery)
def show_delivery(delivery_id: RowId, workspace: MemberOf, instance: InstanceDep) -> dict[str, Any]:
    """One delivery and what became of it."""
    with instance.database.read() as db:
        return wire.delivery_json(syncs.get_delivery(db, workspace.id, delivery_id))


@router.post(
    "/workspaces/{workspace_id}/deliveries/{delivery_id}/redeliver",
    status_code=202,
    response_model=shapes.Delivery,
)
def redeliver(delivery_id: RowId, workspace: MemberOf, instance: InstanceDep) -> dict[str, Any]:
    """Take a delivery again."""
    return wire.delivery_json(triggers.redeliver(instance, workspace, delivery_id))
