"""`/workspaces/{id}/settings`: connection, webhook, members, tokens, and how a workspace ends.

Every change calls the function of the API: same checks, same words.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from gitsync import connect
from gitsync.errors import GitSyncError, InvalidInput
from gitsync.instance import Instance
from gitsync.records import Role
from gitsync.store import people, workspaces
from gitsync.sync import triggers
from gitsync.sync.moves import short
from gitsync.web import wire
from gitsync.web.api import tokens
from gitsync.web.api import workspaces as api
from gitsync.web.auth import InstanceDep
from gitsync.web.pages.access import AdminRoom, OwnerRoom, PageRoute, Room, back_to, notice_of
from gitsync.web.pages.forms import Refused, checked
from gitsync.web.pages.handed import Handed, hand_over, handed
from gitsync.web.pages.render import page, path_to
from gitsync.web.session import CheckedForm, FormDep

router = APIRouter(include_in_schema=False, route_class=PageRoute)
OVERLAPS = {"0": "at once", "86400": "for 24 hours", "604800": "for 7 days"}


# where on the page it is told what a form did
_PLACES = {
    "saved": "general",
    "credential": "connection",
    "member": "members",
    "member-gone": "members",
    "revoked": "tokens",
    "suspended": "end",
    "resumed": "end",
    "disconnected": "end",
}


def _path(room: Room) -> str:
    return path_to("workspaces", room.workspace.id, "settings")


def _page(
    room: Room,
    request: Request,
    instance: Instance,
    *,
    trial: dict[str, Any] | None = None,
    refused: Refused | None = None,
) -> Response:
    with instance.database.read() as db:
        workspace = workspaces.get_workspace(db, room.workspace.id)
        credential = workspaces.get_credential(db, workspace.id)
        members = people.list_members(db, workspace.id)
        machines = people.list_machine_tokens(db, workspace.id)
    place = _PLACES.get(request.query_params.get("done", ""), "")
    notice = notice_of(request)
    return page(
        request,
        "settings.html",
        viewer=room.viewer,
        status=200 if refused is None else refused.status,
        room=room,
        ws=workspace,
        tab="settings",
        notice=None if place else notice,
        place=place,
        told=notice,
        given=handed(request, instance, room.viewer, at=_path(room)),
        trial=trial,
        refused=refused,
        credential=credential,
        members=members,
        machines=machines,
        chosen="" if workspace.chosen_branch is None else short(workspace.chosen_branch),
        followed=None if workspace.default_branch is None else short(workspace.default_branch),
        clone_url=wire.clone_url(instance.settings.url, workspace),
        webhook=api.webhook_url(instance, workspace),
        roles=list(Role),
        overlaps=OVERLAPS,
    )


def _done(room: Room, word: str) -> RedirectResponse:
    return RedirectResponse(f"{_path(room)}?done={word}#{_PLACES[word]}", status_code=303)


def _refused(
    room: Room,
    request: Request,
    instance: Instance,
    form: CheckedForm,
    name: str,
    error: GitSyncError,
    **called: str,
) -> Response:
    return _page(room, request, instance, refused=Refused.of(name, form, error, **called))


@router.get("/workspaces/{workspace_id}/settings")
def show(room: AdminRoom, request: Request, instance: InstanceDep) -> Response:
    """All settings of a workspace."""
    return _page(room, request, instance)


@router.post("/workspaces/{workspace_id}/settings")
def change(form: FormDep, room: AdminRoom, request: Request, instance: InstanceDep) -> Response:
    """Name, identity, branches, check options."""
    try:
        body = checked(
            api.ChangeBody,
            name=form.text("name"),
            identity=form.text("identity"),
            watch=form.text("watch"),
            default_branch=form.text("default_branch") or None,
            accept_harbor_native=form.text("accept_harbor_native") == "yes",
        )
        api.change(body, room.workspace, instance)
    except GitSyncError as e:
        return _refused(room, request, instance, form, "general", e)
    return _done(room, "saved")


@router.post("/workspaces/{workspace_id}/settings/test")
def test(form: FormDep, room: AdminRoom, request: Request, instance: InstanceDep) -> Response:
    """Try the remote: DNS, TCP, TLS, authentication and ref."""
    try:
        trial = connect.try_workspace(instance, room.workspace)
    except GitSyncError as e:
        return _refused(room, request, instance, form, "connection", e)
    return _page(room, request, instance, trial=trial)


@router.post("/workspaces/{workspace_id}/settings/credential")
def credential(form: FormDep, room: AdminRoom, request: Request, instance: InstanceDep) -> Response:
    """Replace the credential; the remote is tried at once."""
    kind = form.text("kind")
    try:
        body = checked(
            api.CredentialBody,
            kind=kind,
            username=form.text("username") or None,
            secret=None if kind == "ssh" else form.text("secret") or None,
            known_hosts=form.text("known_hosts") or None,
            generate_key=kind == "ssh",
        )
        connect.set_credential(instance, room.workspace, body.given())
    except GitSyncError as e:
        return _refused(room, request, instance, form, "credential", e)
    return _done(room, "credential")


@router.post("/workspaces/{workspace_id}/settings/rotate")
def rotate(form: FormDep, room: AdminRoom, request: Request, instance: InstanceDep) -> Response:
    """A new webhook secret, shown this once."""
    overlap = form.text("overlap")
    if overlap not in OVERLAPS:
        raise InvalidInput("Choose how long the present secret stays valid.", field="overlap")
    triggers.active(room.workspace)
    secret = connect.rotate_webhook_secret(
        instance, room.workspace, overlap=timedelta(seconds=float(overlap))
    )
    given, at = Handed("webhook", secret), _path(room)
    return hand_over(request, instance, room.viewer, given, at=at, anchor="webhook")


@router.post("/workspaces/{workspace_id}/settings/members")
def set_member(form: FormDep, room: AdminRoom, request: Request, instance: InstanceDep) -> Response:
    """Add a member, or change a role."""
    caller = room.viewer.caller
    try:
        body = checked(api.MemberBody, role=form.text("role"))
        api.put_member(form.text("email"), body, room.workspace, instance, caller)
    except GitSyncError as e:
        return _refused(room, request, instance, form, "member", e)
    return _done(room, "member")


@router.post("/workspaces/{workspace_id}/settings/members/remove")
def remove_member(
    form: FormDep, room: AdminRoom, request: Request, instance: InstanceDep
) -> Response:
    """Take a member away."""
    try:
        api.delete_member(form.text("email"), room.workspace, instance, room.viewer.caller)
    except GitSyncError as e:
        return _refused(room, request, instance, form, "member-gone", e)
    return _done(room, "member-gone")


@router.post("/workspaces/{workspace_id}/settings/tokens")
def make_token(form: FormDep, room: AdminRoom, request: Request, instance: InstanceDep) -> Response:
    """A machine token for this workspace, shown this once."""
    try:
        body = checked(
            tokens.TokenBody,
            name=form.text("name"),
            role=form.text("role"),
            expires_in_days=form.text("days") or None,
            workspaces=[room.workspace.id],
        )
        made = tokens.create(body, instance, room.viewer.caller)
    except GitSyncError as e:
        called = {"expires_in_days": "days"}
        return _refused(room, request, instance, form, "token", e, **called)
    given, at = Handed("token", made["secret"]), _path(room)
    return hand_over(request, instance, room.viewer, given, at=at, anchor="tokens")


@router.post("/workspaces/{workspace_id}/settings/tokens/revoke")
def revoke_token(form: FormDep, room: AdminRoom, instance: InstanceDep) -> Response:
    """Revoke a machine token."""
    tokens.revoke(form.text("token"), instance, room.viewer.caller)
    return _done(room, "revoked")


@router.post("/workspaces/{workspace_id}/settings/suspend")
def suspend(form: FormDep, room: AdminRoom, instance: InstanceDep) -> Response:
    """Stop following."""
    connect.suspend(instance, room.workspace)
    return _done(room, "suspended")


@router.post("/workspaces/{workspace_id}/settings/resume")
def resume(form: FormDep, room: AdminRoom, instance: InstanceDep) -> Response:
    """Follow again."""
    connect.resume(instance, room.workspace)
    return _done(room, "resumed")


@router.post("/workspaces/{workspace_id}/settings/disconnect")
def disconnect(form: FormDep, room: AdminRoom, request: Request, instance: InstanceDep) -> Response:
    """End for good; the identity is typed, so that nobody does it in passing."""
    if form.text("identity").lower() != room.workspace.identity.lower():
        text = f"Type {room.workspace.identity} to disconnect."
        error = InvalidInput(text, field="identity")
        return _refused(room, request, instance, form, "end", error)
    connect.disconnect(instance, room.workspace)
    return _done(room, "disconnected")


@router.post("/workspaces/{workspace_id}/settings/delete")
def delete(form: FormDep, room: OwnerRoom, request: Request, instance: InstanceDep) -> Response:
    """Remove a disconnected workspace with its versions."""
    if form.text("identity").lower() != room.workspace.identity.lower():
        text = f"Type {room.workspace.identity} to delete."
        error = InvalidInput(text, field="identity")
        return _refused(room, request, instance, form, "end", error)
    connect.delete(instance, room.workspace)
    return back_to("/workspaces", "deleted")
