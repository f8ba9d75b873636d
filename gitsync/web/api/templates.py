"""Templates: what there is, what a workspace has of it, apply, update, adopt; the jobs of these."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field

from gitsync import changes, resolve
from gitsync.records import Job
from gitsync.store import jobs
from gitsync.sync.moves import short
from gitsync.template.catalogue import Starter, builtin
from gitsync.template.operations import Adopt, ApplyStarter, UpdateTemplate
from gitsync.template.selection import render_starter, use_starter
from gitsync.template.threeway import OnConflict
from gitsync.text import printable
from gitsync.web import template_shapes, wire
from gitsync.web.answers import may
from gitsync.web.api.changing import MAY, AskedDep, ChangeBody
from gitsync.web.auth import CallerDep, InstanceDep, ReaderOf
from gitsync.web.idempotency import IdempotentRoute
from gitsync.web.query import Parameters, WindowDep, example
from gitsync.web.shapes import Page

router = APIRouter(tags=["templates"], route_class=IdempotentRoute)
Name = Annotated[str, Path(max_length=200, description="Of a starter.")]
Branch = Annotated[
    str | None, Query(max_length=1_000, description="A branch, by default the default one.")
]
MANY = 1_000


class ApplyBody(ChangeBody):
    """A starter to add."""

    model_config = example(
        {"rollout": "chess", "parameters": {"max_concurrent": 4}},
        {"rollout": "chess", "dry_run": True},
    )

    rollout: str | None = Field(None, max_length=200, description="By default the starter's name.")
    parameters: Parameters = Field({}, max_length=200)
    force: bool = Field(False, description="Replace the rollout's folder and its two configs.")


class UpdateBody(ChangeBody):
    """An update to the present template, or to other parameters."""

    model_config = example({}, {"rollout": "chess", "parameters": {"max_concurrent": 8}})

    rollout: str | None = Field(None, max_length=200, description="Whose parameters are meant.")
    parameters: Parameters = Field({}, max_length=200)
    restore: list[Annotated[str, Field(max_length=1_024)]] = Field(
        [], max_length=MANY, description="Files to bring back as the template has them."
    )
    on_conflict: OnConflict = OnConflict.REPORT


class AdoptBody(ChangeBody):
    """What an existing repository is to get."""

    model_config = example({}, {"dry_run": False, "skills": ["plan-training"]})

    skills: list[Annotated[str, Field(max_length=200)]] | None = Field(
        None, max_length=MANY, description="Default: the standard ones; an empty list: none."
    )
    parameters: Parameters = Field({}, max_length=200)
    dry_run: bool = Field(True, description="False: really commit it.")


def _starter_json(starter: Starter) -> dict[str, Any]:
    return {
        **starter.to_json(),
        "owned": list(starter.at(starter.owned, starter.name)),
        "files": list(starter.at(starter.files, starter.name)),
        "shared": list(starter.shared),
    }


@router.get("/templates", response_model=template_shapes.Templates)
def list_templates(caller: CallerDep) -> dict[str, Any]:
    """Starters, skills, and the parameters of a whole workspace."""
    found = builtin()
    items = [_starter_json(starter) for starter in found.starters.values()]
    return {
        "items": items,
        "total_count": len(items),
        "has_more": False,
        "next": None,
        "template": found.name,
        "version": found.version,
        "description": found.description,
        "parameters": found.parameters.schema(),
        "skills": [
            {"name": skill.name, "use_when": skill.use_when, "optional": skill.optional}
            for skill in found.skills.values()
        ],
    }


@router.get("/templates/{name}", response_model=template_shapes.WholeTemplate)
def show_template(name: Name, caller: CallerDep) -> dict[str, Any]:
    """One starter, with the paths it writes."""
    found = builtin()
    starter = found.starter(name)
    files = render_starter(found, use_starter(found, name))
    return {**_starter_json(starter), "writes": sorted(files)}


@router.get(
    "/workspaces/{workspace_id}/templates",
    response_model=template_shapes.TemplateState,
    responses=may(409, 502),
)
def show_state(workspace: ReaderOf, instance: InstanceDep, branch: Branch = None) -> dict[str, Any]:
    """What came from the template: applied, edited, missing and outdated files."""
    return changes.template_state(instance, workspace, _ref(branch))


@router.get(
    "/workspaces/{workspace_id}/templates/diff",
    response_model=template_shapes.Edits,
    responses=may(409, 502),
)
def show_edits(workspace: ReaderOf, instance: InstanceDep, branch: Branch = None) -> dict[str, Any]:
    """What was changed of the template's files, as a patch from its version."""
    return changes.template_edits(instance, workspace, _ref(branch))


def _ref(branch: str | None) -> str | None:
    return None if branch is None else resolve.full_ref(branch)


@router.post(
    "/workspaces/{workspace_id}/templates/update",
    response_model=template_shapes.Change,
    responses=MAY,
)
def update(body: UpdateBody, asked: AskedDep) -> dict[str, Any]:
    """Bring the files to the present template; edits and deletions stay (members; readers dry)."""
    operation = UpdateTemplate(body.parameters, body.rollout, tuple(body.restore), body.on_conflict)
    return asked.change(body, operation)


@router.post(
    "/workspaces/{workspace_id}/templates/{name}/apply",
    response_model=template_shapes.Change,
    responses=MAY,
)
def apply(name: Name, body: ApplyBody, asked: AskedDep) -> dict[str, Any]:
    """Add a starter as one commit (members; readers with `dry_run`)."""
    operation = ApplyStarter(name, body.rollout, body.parameters, body.force)
    return asked.change(body, operation)


@router.post(
    "/workspaces/{workspace_id}/adopt",
    response_model=template_shapes.Change,
    responses=MAY,
)
def adopt(body: AdoptBody, asked: AskedDep) -> dict[str, Any]:
    """What the repository lacks of a workspace; nothing that is there is replaced."""
    skills = None if body.skills is None else tuple(body.skills)
    operation = Adopt(skills, body.parameters)
    return asked.change(body, operation)


# -- jobs -----------------------------------------------------------------------------------------


def _job_json(job: Job) -> dict[str, Any]:
    ref = job.target or job.branch
    return {
        "id": job.id,
        "operation": job.operation["name"],
        "state": job.state.value,
        "requested_by": job.requested_by,
        "branch": None if ref is None else printable(short(ref)),
        "base_sha": job.base_sha,
        "commit_sha": job.commit_sha,
        "sync_id": job.sync_id,
        "attempts": job.attempts,
        "error": job.error,
        "created_at": wire.when(job.created_at),
        "finished_at": wire.when(job.finished_at),
    }


@router.get("/workspaces/{workspace_id}/jobs", response_model=Page[template_shapes.Job])
def list_jobs(workspace: ReaderOf, instance: InstanceDep, window: WindowDep) -> dict[str, Any]:
    """The changes that gitsync was asked to make, newest first."""
    with instance.database.read() as db:
        page = jobs.list_jobs(db, workspace.id, limit=window.limit, after=window.after)
    return wire.page_json(page, [_job_json(job) for job in page.items])


@router.get("/workspaces/{workspace_id}/jobs/{job_id}", response_model=template_shapes.Job)
def show_job(
    job_id: Annotated[int, Path(ge=1, lt=2**53)], workspace: ReaderOf, instance: InstanceDep
) -> dict[str, Any]:
    """One change, and what came of it."""
    with instance.database.read() as db:
        return _job_json(jobs.get_job(db, workspace.id, job_id))
