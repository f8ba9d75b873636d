"""`/account`: a person's own tokens."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from gitsync.errors import GitSyncError
from gitsync.instance import Instance
from gitsync.store import people
from gitsync.web.api import tokens
from gitsync.web.auth import InstanceDep
from gitsync.web.pages.access import PageRoute, back_to, notice_of
from gitsync.web.pages.forms import Refused, checked
from gitsync.web.pages.handed import Handed, hand_over, handed
from gitsync.web.pages.render import page
from gitsync.web.session import FormDep, Session, SessionDep

router = APIRouter(include_in_schema=False, route_class=PageRoute)


def _page(
    request: Request, instance: Instance, viewer: Session, *, refused: Refused | None = None
) -> Response:
    with instance.database.read() as db:
        found = people.list_tokens(db, viewer.user.id)
    return page(
        request,
        "account.html",
        viewer=viewer,
        status=200 if refused is None else refused.status,
        tokens=found,
        server=instance.settings.url,
        given=handed(request, instance, viewer, at="/account"),
        refused=refused,
        notice=notice_of(request),
    )


@router.get("/account")
def show(request: Request, instance: InstanceDep, viewer: SessionDep) -> Response:
    """Tokens by when they were made."""
    return _page(request, instance, viewer)


@router.post("/account/tokens")
def make(form: FormDep, request: Request, instance: InstanceDep) -> Response:
    """A new token, shown this once."""
    viewer = form.session
    try:
        body = checked(
            tokens.TokenBody,
            name=form.text("name"),
            expires_in_days=form.text("days") or None,
        )
        made = tokens.create(body, instance, viewer.caller)
    except GitSyncError as e:
        refused = Refused.of("token", form, e, expires_in_days="days")
        return _page(request, instance, viewer, refused=refused)
    given = Handed("token", made["secret"])
    return hand_over(request, instance, viewer, given, at="/account", anchor="main")


@router.post("/account/tokens/revoke")
def revoke(form: FormDep, instance: InstanceDep) -> Response:
    """Revoke one."""
    tokens.revoke(form.text("token"), instance, form.session.caller)
    return back_to("/account", "revoked")
