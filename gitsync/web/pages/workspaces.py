"""`/workspaces`: the health of all workspaces at a glance; `/theme` and the way in."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from gitsync.records import Workspace
from gitsync.store import events, glance, workspaces
from gitsync.web.auth import InstanceDep
from gitsync.web.health import STUCK_AFTER
from gitsync.web.pages.access import PageRoute, notice_of
from gitsync.web.pages.render import THEMES, page
from gitsync.web.pages.workspace import Start
from gitsync.web.query import WindowDep
from gitsync.web.session import FormRefused, SessionDep, read_form, safe_next

router = APIRouter(include_in_schema=False, route_class=PageRoute)
A_YEAR = 365 * 86400
SHOWN_TROUBLE = 20


@router.get("/workspaces")
def overview(
    request: Request,
    instance: InstanceDep,
    viewer: SessionDep,
    window: WindowDep,
    q: Annotated[str, Query(max_length=200)] = "",
    trouble: Start = 0,
) -> Response:
    """What is live, what is failing, what is stuck."""
    user_id = None if viewer.caller.is_admin else viewer.user.id
    with instance.database.read() as db:
        last = events.last_event_id(db)
        found = glance.search_workspaces(
            db, q.strip(), limit=window.limit, after=window.after, user_id=user_id
        )
        is_first = window.after is None and not q.strip()
        stuck = instance.now() - STUCK_AFTER
        troubled: list[Workspace] = []
        in_trouble = 0
        if is_first:
            troubled, in_trouble = glance.troubled(
                db, limit=SHOWN_TROUBLE, offset=trouble, user_id=user_id, owed_before=stuck
            )
        shown = {w.id: w for w in (*troubled, *found.items)}
        branches = workspaces.branches_of(db, shown)
        health = glance.glances(db, list(shown.values()), branches)
    return page(
        request,
        "workspaces.html",
        viewer=viewer,
        found=found,
        troubled=troubled,
        in_trouble=in_trouble,
        start=trouble,
        next=trouble + SHOWN_TROUBLE if trouble + len(troubled) < in_trouble else None,
        health=health,
        stuck=stuck,
        q=q.strip(),
        last=last,
        notice=notice_of(request),
        server=instance.settings.url,
    )


@router.get("/", name="home")
async def home(request: Request, instance: InstanceDep) -> Response:
    """The way in: people go on to their workspaces, a program learns where everything is."""
    varies = {"Vary": "Accept"}
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse("/workspaces", status_code=307, headers=varies)
    url = instance.settings.url
    known = {
        "name": "gitsync",
        "dashboard": f"{url}/workspaces",
        "api": f"{url}/api/v1",
        "openapi": f"{url}/api/v1/openapi.json",
        "health": f"{url}/healthz",
        "ready": f"{url}/readyz",
    }
    return JSONResponse(known, headers=varies)


@router.post("/theme")
async def theme(request: Request, instance: InstanceDep) -> RedirectResponse:
    """Light, dark, or as the system says; remembered by the browser alone, so it needs no token."""
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise FormRefused("This form was not sent from a page of this server.")
    form = await read_form(request)
    answer = RedirectResponse(safe_next(str(form.get("next", ""))), status_code=303)
    wanted = form.get("theme")
    if wanted in THEMES:
        answer.set_cookie(
            "theme",
            str(wanted),
            max_age=A_YEAR,
            samesite="lax",
            httponly=True,
            secure=instance.settings.url.startswith("https://"),
        )
    return answer
