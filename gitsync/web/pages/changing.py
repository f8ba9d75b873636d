"""Templates and skills: what there is, what the workspace has, a preview as a diff, one commit.

Nothing is committed that was not shown: the form that commits names the commit it was planned on,
and carries the mark of the values it was planned for.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import RedirectResponse, Response

from gitsync import changes
from gitsync.errors import Conflict, Forbidden, GitSyncError, NotFound
from gitsync.git.failures import RefMoved
from gitsync.template.catalogue import builtin
from gitsync.template.operations import Operation
from gitsync.web import wire
from gitsync.web.api.changing import Asked, ChangeBody
from gitsync.web.auth import InstanceDep
from gitsync.web.pages.access import PageRoute, ReaderRoom, Room
from gitsync.web.pages.change_forms import mark_of, operation_of, wanted
from gitsync.web.pages.forms import checked
from gitsync.web.pages.plan_view import view
from gitsync.web.pages.render import page, path_to
from gitsync.web.session import CheckedForm, FormDep

router = APIRouter(include_in_schema=False, route_class=PageRoute)
Name = Annotated[str, Path(max_length=200)]
ZERO = "0" * 40


@router.get("/workspaces/{workspace_id}/templates")
def gallery(room: ReaderRoom, request: Request, instance: InstanceDep) -> Response:
    """Starters and skills: those there are, and what the workspace has of them."""
    state, skills, problem = None, None, None
    try:
        state = changes.template_state(instance, room.workspace)
        skills = changes.skills_state(instance, room.workspace)["items"]
    except GitSyncError as e:
        problem = e.message
    found = builtin()
    return page(
        request,
        "gallery.html",
        viewer=room.viewer,
        room=room,
        ws=room.workspace,
        tab="templates",
        starters=[starter.to_json() for starter in found.starters.values()],
        state=state,
        skills=skills,
        uses={skill.name: skill.use_when for skill in found.skills.values()},
        problem=problem,
    )


class PlanOutdated(Conflict):
    """The form asks for something else than the plan that was shown."""


@router.get("/workspaces/{workspace_id}/templates/{name}")
def starter(name: Name, room: ReaderRoom, request: Request) -> Response:
    """One starter with a form made from the schema of its parameters."""
    return _page(room, request, starter=builtin().starter(name).to_json())


@router.post("/workspaces/{workspace_id}/changes")
def change(form: FormDep, room: ReaderRoom, request: Request, instance: InstanceDep) -> Response:
    """Plan a change and show it; or commit what was shown."""
    is_commit = form.text("go") == "commit"
    if is_commit and not room.may("member"):
        raise Forbidden("This needs the role member in the workspace.")
    asked = Asked(request, instance, room.viewer.caller, room.workspace)
    try:
        operation = operation_of(form)
        if not is_commit:
            return _shown(room, request, form, _plan(asked, form, operation))
        try:
            found = _commit(asked, form, operation)
        except (RefMoved, PlanOutdated) as e:  # what is so now is one look away
            return _shown(room, request, form, _plan(asked, form, operation), late=e)
    except GitSyncError as e:
        return _shown(room, request, form, None, refused=e)
    if found["commit_sha"] is not None and found["outcome"] == "committed":
        return RedirectResponse(
            path_to("workspaces", room.workspace.id, "commits", found["commit_sha"]),
            status_code=303,
        )
    return _shown(room, request, form, found)


def _plan(asked: Asked, form: CheckedForm, operation: Operation) -> dict[str, Any]:
    body = checked(ChangeBody, branch=form.text("branch") or None, dry_run=True)
    return asked.change(body, operation)


def _commit(asked: Asked, form: CheckedForm, operation: Operation) -> dict[str, Any]:
    """Commit the plan that was shown, or `PlanOutdated`, or `RefMoved`."""
    if form.text("planned") != mark_of(form):
        raise PlanOutdated("The form was changed after its plan was made.")
    body = checked(
        ChangeBody,
        branch=form.text("branch") or None,
        expected_sha=form.text("base"),
        message=form.text("message") or None,
    )
    return asked.change(body, operation)


def _shown(
    room: Room,
    request: Request,
    form: CheckedForm,
    found: dict[str, Any] | None,
    *,
    refused: GitSyncError | None = None,
    late: GitSyncError | None = None,
) -> Response:
    # the live preview of a form shows what is wrong in its place: that is no failed request
    is_part = "hx-request" in request.headers
    problem = refused or late
    base = (found["base_sha"] or ZERO) if found else ""
    return _page(
        room,
        request,
        status=200 if problem is None or is_part else wire.status_of(problem),
        starter=_starter_of(form),
        given=dict(wanted(form)),
        wanted=wanted(form),
        message=form.text("message"),
        plan=view(found) if found else None,
        planned=mark_of(form),
        base=base,
        refused=refused.message if refused else None,
        wrong=_field_of(refused),
        late=late is not None and ("moved" if isinstance(late, RefMoved) else "changed"),
        is_behind=base == form.text("base"),
    )


def _starter_of(form: CheckedForm) -> dict[str, Any] | None:
    """The starter that a form is about, None for other changes."""
    if form.text("operation") != "apply":
        return None
    try:
        return builtin().starter(form.text("starter")).to_json()
    except NotFound:
        return None


def _field_of(error: GitSyncError | None) -> str:
    """The field of the form that an error is about, as the form calls it."""
    name = str(error.details.get("field", "")) if error else ""
    return name.replace("parameters.", "p.")


def _page(room: Room, request: Request, *, starter: dict[str, Any] | None, **more: Any) -> Response:
    """The form of a starter, or what a button asked for, with its plan once there is one."""
    here = path_to("workspaces", room.workspace.id, "templates")
    values = {
        "given": {},
        "wanted": [],
        "message": "",
        "plan": None,
        "planned": "",
        "base": "",
        "refused": None,
        "wrong": "",
        "late": "",
        "is_behind": False,
        **more,
    }
    return page(
        request,
        "change.html" if starter is None else "starter.html",
        viewer=room.viewer,
        here=f"{here}/{starter['name']}" if starter else here,
        room=room,
        ws=room.workspace,
        tab="templates",
        starter=starter,
        **values,
    )
