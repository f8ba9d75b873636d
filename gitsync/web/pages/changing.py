"""Templates and skills: what there is, what the workspace has, a preview as a diff, one commit.

Nothing is committed that was not shown: the form that commits names the commit it was planned on.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import RedirectResponse, Response

from gitsync import changes
from gitsync.errors import Forbidden, GitSyncError, InvalidInput
from gitsync.template.catalogue import builtin
from gitsync.template.operations import (
    ApplyStarter,
    InstallSkills,
    Operation,
    RepairSkills,
    UninstallSkills,
    UpdateTemplate,
    UpgradeSkills,
)
from gitsync.template.selection import SkillMode
from gitsync.template.threeway import OnConflict
from gitsync.web import wire
from gitsync.web.api.changing import Asked, ChangeBody
from gitsync.web.auth import InstanceDep
from gitsync.web.pages.access import PageRoute, ReaderRoom, Room
from gitsync.web.pages.render import page, path_to
from gitsync.web.pages.settings import checked
from gitsync.web.session import CheckedForm, FormDep

router = APIRouter(include_in_schema=False, route_class=PageRoute)
Name = Annotated[str, Path(max_length=200)]
SHOWN_DIFFS, DIFF_LINES = 40, 400
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


@router.get("/workspaces/{workspace_id}/templates/{name}")
def starter(name: Name, room: ReaderRoom, request: Request) -> Response:
    """One starter with a form made from the schema of its parameters."""
    return page(
        request,
        "starter.html",
        viewer=room.viewer,
        room=room,
        ws=room.workspace,
        tab="templates",
        starter=builtin().starter(name).to_json(),
    )


@router.post("/workspaces/{workspace_id}/changes")
def change(form: FormDep, room: ReaderRoom, request: Request, instance: InstanceDep) -> Response:
    """Plan a change and show it; or commit what was shown."""
    is_commit = form.text("go") == "commit"
    if is_commit and not room.may("member"):
        raise Forbidden("This needs the role member in the workspace.")
    try:
        operation = _operation(form)
        body = checked(
            ChangeBody,
            branch=form.text("branch") or None,
            expected_sha=(form.text("base") or None) if is_commit else None,
            message=form.text("message") or None,
            dry_run=not is_commit,
        )
        found = Asked(request, instance, room.viewer.caller, room.workspace).change(body, operation)
    except GitSyncError as e:
        return _shown(room, request, form, None, refused=e)
    if found["commit_sha"] is not None and found["outcome"] == "committed":
        return RedirectResponse(
            path_to("workspaces", room.workspace.id, "commits", found["commit_sha"]),
            status_code=303,
        )
    return _shown(room, request, form, found)


def _shown(
    room: Room,
    request: Request,
    form: CheckedForm,
    found: dict[str, Any] | None,
    *,
    refused: GitSyncError | None = None,
) -> Response:
    # the live preview of a form shows what is wrong in its place: that is no failed request
    is_part = "hx-request" in request.headers
    status = 200 if refused is None or is_part else wire.status_of(refused)
    return page(
        request,
        "change.html",
        viewer=room.viewer,
        status=status,
        room=room,
        ws=room.workspace,
        tab="templates",
        plan=found,
        base=(found["base_sha"] or ZERO) if found else "",
        diffs=[_diff(patch) for patch in (found.get("diffs") or [])[:SHOWN_DIFFS]] if found else [],
        hidden=[
            (key, value)
            for key, value in form.fields.multi_items()
            if isinstance(value, str) and key not in ("csrf", "go", "base", "message")
        ],
        refused=refused.message if refused else None,
    )


def _diff(patch: dict[str, Any]) -> dict[str, Any]:
    """A unified diff as lines with their kind."""
    lines = [line for line in str(patch["patch"]).splitlines() if not line.startswith(_HEADS)]
    return {
        "path": patch["path"],
        "lines": [(_kind(line), line) for line in lines[:DIFF_LINES]],
        "more": max(0, len(lines) - DIFF_LINES),
    }


_HEADS = ("+++ ", "--- ", "diff --git ", "index ", "new file mode ", "deleted file mode ")


def _kind(line: str) -> str:
    return {"+": "plus", "-": "gone", "@": "place"}.get(line[:1], "")


# -- forms ----------------------------------------------------------------------------------------


def _operation(form: CheckedForm) -> Operation:
    kind, names = (
        form.text("operation"),
        tuple(v for v in form.fields.getlist("skill") if isinstance(v, str)),
    )
    if kind == "apply":
        name = form.text("starter")
        schema = builtin().starter(name).to_json()["parameters"]
        given = parameters_of(form, schema)
        return ApplyStarter(name, form.text("rollout") or None, given, form.text("force") == "yes")
    if kind == "update":
        return UpdateTemplate({}, None, (), OnConflict.REPORT)
    if kind == "install":
        return InstallSkills(names, SkillMode.LINK)
    if kind == "upgrade":
        return UpgradeSkills(names, OnConflict.REPORT)
    if kind == "uninstall":
        return UninstallSkills(names, False)
    if kind == "repair":
        return RepairSkills(None, False)
    raise InvalidInput("There is no such change.", field="operation")


def parameters_of(form: CheckedForm, schema: dict[str, Any]) -> dict[str, bool | int | float | str]:
    """The fields `p.NAME` by the types of a JSON Schema; what is not sent keeps its default."""
    found: dict[str, bool | int | float | str] = {}
    for name, rule in schema["properties"].items():
        text = form.fields.get(f"p.{name}")
        if not isinstance(text, str):
            continue
        if rule["type"] == "boolean":
            found[name] = text == "yes"
        elif rule["type"] in ("integer", "number"):
            try:
                found[name] = int(text) if rule["type"] == "integer" else float(text)
            except ValueError:
                title = rule.get("title", name)
                raise InvalidInput(f"{title} must be a number.", field=name) from None
        else:
            found[name] = text.strip()
    return found
