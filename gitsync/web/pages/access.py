"""What a signed-in person may do on a page; what went wrong, told as a page.

Order of checks: session, then the form's token, then the workspace (404 for those who may not know
of it), then the role (403), then the input.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

import anyio.to_thread
from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from gitsync.errors import Conflict, Forbidden, GitSyncError, InvalidInput, NotFound
from gitsync.instance import Instance
from gitsync.records import Role, Workspace
from gitsync.store import DatabaseFailed, RowExists, workspaces
from gitsync.web.auth import InstanceDep, instance_of, role_in
from gitsync.web.logs import loggable
from gitsync.web.pages.render import page, path_to
from gitsync.web.session import (
    FormRefused,
    MadeFor,
    Session,
    SessionDep,
    SignInNeeded,
    find_session,
    seen_session,
)
from gitsync.web.wire import status_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Room:
    """A workspace with what its viewer may do in it."""

    workspace: Workspace
    role: Role
    viewer: Session

    def may(self, role: str) -> bool:
        """True if the viewer has at least this role."""
        return self.role.rank >= Role(role).rank


class PageRoute(APIRoute):
    """A route for people: what goes wrong is told in a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's handler."""
        plain = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await plain(request)
            except SignInNeeded:
                raise  # the application sends them to the page where they can
            except GitSyncError as e:
                error = e
            except RequestValidationError as e:
                error = _as_error(e)
            except RowExists:
                error = Conflict("Somebody changed the same thing at this moment; repeat it.")
            except DatabaseFailed:
                log.exception("database failed path=%s", loggable(request.url.path))
                return _told(request, None, 503, "The database does not answer.", _HINTS[503])
            return await anyio.to_thread.run_sync(problem, request, error)

        return handler


def _as_error(error: RequestValidationError) -> GitSyncError:
    """A path that cannot be is a page that is not there."""
    first = error.errors()[0]
    if first["loc"][0] == "path":
        return NotFound("There is no such page.")
    return InvalidInput(f"{first['loc'][-1]}: {first['msg']}.")


_HEADINGS = {
    400: "That cannot be",
    403: "You may not do this",
    404: "Nothing here",
    409: "Not now",
    429: "Too many requests",
    502: "The repository cannot be read",
    503: "Something is away",
}
_HINTS = {
    403: "Ask an owner of the workspace for a higher role.",
    404: "It does not exist, or you are no member of its workspace. An administrator of the "
    "workspace can add you with `gitsync workspace member set`.",
    503: "Load the page again in a moment.",
}


def problem(request: Request, error: GitSyncError) -> Response:
    """An error as a page that says what to do."""
    status = status_of(error)
    hint = None if isinstance(error, FormRefused) else _HINTS.get(status)
    viewer, place = find_session(request), request.path_params.get("workspace_id")
    if status != 409 or viewer is None or place is None:
        return _told(request, viewer, status, error.message, hint)
    back, settings = path_to("workspaces", place), None
    if error.details.get("state") == "suspended":
        role = role_in(instance_of(request), viewer.caller, place)
        hint = "An administrator of the workspace can resume it."
        if role is not None and role.rank >= Role.ADMIN.rank:
            hint, settings = "Resume it in its settings.", f"{back}/settings"
    return _told(
        request,
        viewer,
        status,
        error.message,
        hint,
        back=back,
        back_text="To the workspace",
        settings=settings,
    )


def failure(request: Request) -> Response:
    """What nobody expected, as a page."""
    message = "This page could not be made. The operator's log says more."
    return _told(request, seen_session(request), 500, message, None)


def _told(
    request: Request,
    viewer: Session | None,
    status: int,
    message: str,
    hint: str | None,
    *,
    back: str = "/workspaces",
    back_text: str = "To the workspaces",
    settings: str | None = None,
) -> Response:
    return page(
        request,
        "error.html",
        viewer=viewer,
        status=status,
        heading=_HEADINGS.get(status, "Something went wrong"),
        message=message,
        hint=hint,
        back=back,
        back_text=back_text,
        settings=settings,
    )


def enter(instance: Instance, viewer: Session, workspace_id: str, needed: Role) -> Room:
    """The workspace, if the viewer may know of it and has the role."""
    role = role_in(instance, viewer.caller, workspace_id)
    if role is None:
        raise NotFound("There is no such workspace.")
    with instance.database.read() as db:
        workspace = workspaces.get_workspace(db, workspace_id)
    if role.rank < needed.rank:
        raise Forbidden(f"This needs the role {needed.value} in the workspace.")
    return Room(workspace, role, viewer)


class Enters:
    """A dependency: the workspace of the path, for viewers with at least this role."""

    def __init__(self, role: Role) -> None:
        self.role = role

    def __call__(
        self, request: Request, workspace_id: str, instance: InstanceDep, viewer: SessionDep
    ) -> Room:
        """Check and load."""
        room = enter(instance, viewer, workspace_id.replace("\0", ""), self.role)
        MadeFor.of(request).role = room.role
        return room


ReaderRoom = Annotated[Room, Depends(Enters(Role.READER))]
MemberRoom = Annotated[Room, Depends(Enters(Role.MEMBER))]
AdminRoom = Annotated[Room, Depends(Enters(Role.ADMIN))]
OwnerRoom = Annotated[Room, Depends(Enters(Role.OWNER))]


def require_chief(viewer: SessionDep) -> Session:
    """Administrators of the instance; for others the page is not there."""
    if not viewer.caller.is_admin:
        raise NotFound("There is no such page.")
    return viewer


ChiefDep = Annotated[Session, Depends(require_chief)]


def back_to(path: str, done: str | None = None) -> RedirectResponse:
    """After a form: to a page of ours, with a word of what was done."""
    return RedirectResponse(path + (f"?done={done}" if done else ""), status_code=303)


_DONE = {
    "sync": "A sync was asked for. It shows up below in a moment.",
    "suspended": "The workspace is suspended. What is published stays served.",
    "resumed": "The workspace is followed again.",
    "disconnected": "The workspace is disconnected. What is published stays readable.",
    "deleted": "The workspace and its versions were deleted.",
    "saved": "Saved.",
    "credential": "The credential was replaced, and the repository is looked at with it.",
    "member": "The member's role is set.",
    "member-gone": "The member was removed.",
    "revoked": "The token was revoked. It stopped working at once.",
    "pinned": "The version is pinned: it is kept while the pin lasts.",
    "unpinned": "The pin was removed.",
    "rechecked": "The version was assessed with the present checker.",
    "dataset-gone": "The data set was deleted.",
    "upload-gone": "The upload was ended.",
    "secret": "The secret is set. Runs that are claimed from now on get it.",
    "secret-gone": "The secret was deleted.",
    "stopped": "The run is stopped. Its executor is told at its next heartbeat.",
    "redelivered": "The delivery was taken again.",
}


def notice_of(request: Request) -> str | None:
    """What the form before this page did."""
    return _DONE.get(request.query_params.get("done", ""))
