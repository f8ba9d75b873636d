"""`/account/security`: one's password, and the browsers one is signed in with."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from gitsync.errors import GitSyncError
from gitsync.instance import Instance
from gitsync.store import people, sessions
from gitsync.web.api.tokens import change_password
from gitsync.web.auth import InstanceDep
from gitsync.web.pages.access import PageRoute
from gitsync.web.pages.render import page
from gitsync.web.rates import RatesDep
from gitsync.web.session import FormDep, Session, SessionDep
from gitsync.web.wire import status_of

router = APIRouter(include_in_schema=False, route_class=PageRoute)
_HERE = "/account/security"
_DONE = {
    "password": "The password is set. Other browsers were signed out.",
    "ended": "That browser is signed out.",
}


# the first that is named counts: browsers name those they descend from too
_PROGRAMS = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("Firefox", "Firefox"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
)
_SYSTEMS = (
    ("Windows", "Windows"),
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def browser_name(agent: str) -> str:
    """`Firefox on Linux` for what a browser says of itself; unknown ones as they say it."""
    program = next((name for mark, name in _PROGRAMS if mark in agent), None)
    system = next((name for mark, name in _SYSTEMS if mark in agent), None)
    if program is None:
        return agent[:60] or "Unknown browser"
    return program if system is None else f"{program} on {system}"


def _page(
    request: Request, instance: Instance, viewer: Session, *, status: int = 200, **more: Any
) -> Response:
    with instance.database.read() as db:
        found = sessions.list_sessions(db, viewer.user.id, now=instance.now())
        has_password = people.has_password(db, viewer.user.id)
    values = {"refused": None, "notice": _DONE.get(request.query_params.get("done", "")), **more}
    return page(
        request,
        "security.html",
        viewer=viewer,
        status=status,
        sessions=[(session, browser_name(session.agent)) for session in found],
        has_password=has_password,
        **values,
    )


@router.get("/account/security")
def show(request: Request, instance: InstanceDep, viewer: SessionDep) -> Response:
    """The form, and the browsers by when they were last used."""
    return _page(request, instance, viewer)


@router.post("/account/password")
def set_password(
    request: Request, form: FormDep, instance: InstanceDep, counted: RatesDep
) -> Response:
    """Set or replace the password."""
    given = [form.fields.get(name, "") for name in ("password", "again", "current")]
    password, again, current = (value if isinstance(value, str) else "" for value in given)
    if password != again:
        text = "The two new passwords differ."
        return _page(request, instance, form.session, status=400, refused=text)
    try:
        change_password(
            instance, counted, form.session.caller, password=password, current=current or None
        )
    except GitSyncError as e:
        return _page(request, instance, form.session, status=status_of(e), refused=e.message)
    return RedirectResponse(f"{_HERE}?done=password", status_code=303)


@router.post("/account/sessions/end")
def end(form: FormDep, instance: InstanceDep) -> Response:
    """Sign another browser out, or this one."""
    with instance.database.write() as db:
        sessions.end_session(db, form.session.user.id, form.text("session"), now=instance.now())
    return RedirectResponse(f"{_HERE}?done=ended", status_code=303)
