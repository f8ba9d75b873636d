"""`/workspaces/{id}/deliveries`: webhook calls and pushes, and what became of each."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from gitsync.store import events, syncs
from gitsync.sync import triggers
from gitsync.web import wire
from gitsync.web.auth import InstanceDep
from gitsync.web.pages.access import MemberRoom, PageRoute, back_to, notice_of
from gitsync.web.pages.render import page, path_to
from gitsync.web.pages.workspace import live_link
from gitsync.web.query import WindowDep
from gitsync.web.session import FormDep

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/workspaces/{workspace_id}/deliveries")
def show(room: MemberRoom, request: Request, instance: InstanceDep, window: WindowDep) -> Response:
    """Newest first."""
    with instance.database.read() as db:
        last = events.last_event_id(db)
        found = syncs.list_deliveries(db, room.workspace.id, limit=window.limit, after=window.after)
    return page(
        request,
        "deliveries.html",
        viewer=room.viewer,
        room=room,
        ws=room.workspace,
        tab="deliveries",
        live=live_link(room),
        last=last,
        found=found,
        items=[wire.delivery_json(delivery) for delivery in found.items],
        notice=notice_of(request),
    )


@router.post("/workspaces/{workspace_id}/deliveries/{delivery_id}/redeliver")
def redeliver(
    form: FormDep,
    delivery_id: Annotated[int, Path(ge=1, le=2**53)],
    room: MemberRoom,
    instance: InstanceDep,
) -> Response:
    """Take a delivery again."""
    triggers.redeliver(instance, room.workspace, delivery_id)
    return back_to(path_to("workspaces", room.workspace.id, "deliveries"), "redelivered")
