"""Skills of a workspace: list, install, upgrade, uninstall, repair."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from gitsync import changes, resolve
from gitsync.template.operations import (
    InstallSkills,
    RepairSkills,
    UninstallSkills,
    UpgradeSkills,
)
from gitsync.template.selection import SkillMode
from gitsync.template.threeway import OnConflict
from gitsync.web import template_shapes
from gitsync.web.answers import may
from gitsync.web.api.changing import MAY, AskedDep, ChangeBody
from gitsync.web.auth import InstanceDep, ReaderOf
from gitsync.web.idempotency import IdempotentRoute
from gitsync.web.query import example

router = APIRouter(tags=["skills"], route_class=IdempotentRoute)
Names = list[Annotated[str, Field(max_length=200)]]
MANY = 1_000


class InstallBody(ChangeBody):
    """Skills to add."""

    model_config = example({"skills": ["plan-eval"]})

    skills: Names = Field(min_length=1, max_length=MANY)
    mode: SkillMode = Field(
        SkillMode.LINK, description="`copy` serves clones that cannot hold symlinks."
    )


class UpgradeBody(ChangeBody):
    """Skills to bring to the present version."""

    model_config = example({}, {"skills": ["plan-training"]})

    skills: Names = Field([], max_length=MANY, description="Default: all that are installed.")
    on_conflict: OnConflict = OnConflict.REPORT


class UninstallBody(ChangeBody):
    """Skills to remove."""

    model_config = example({"skills": ["plan-eval"]})

    skills: Names = Field(min_length=1, max_length=MANY)
    force: bool = Field(False, description="Also files that were edited.")


class RepairBody(ChangeBody):
    """How links are mended."""

    model_config = example({}, {"mode": "copy"})

    mode: SkillMode | None = Field(None, description="Switch all skills to copies or to links.")
    force: bool = False


@router.get(
    "/workspaces/{workspace_id}/skills",
    response_model=template_shapes.Skills,
    responses=may(409, 502),
)
def list_skills(
    workspace: ReaderOf,
    instance: InstanceDep,
    branch: Annotated[
        str | None, Query(max_length=1_000, description="By default the default one.")
    ] = None,
) -> dict[str, Any]:
    """Skills that are installed, outdated, damaged or available, and a user's own."""
    return changes.skills_state(
        instance, workspace, None if branch is None else resolve.full_ref(branch)
    )


@router.post(
    "/workspaces/{workspace_id}/skills/install",
    response_model=template_shapes.Change,
    responses=MAY,
)
def install(body: InstallBody, asked: AskedDep) -> dict[str, Any]:
    """Add skills, their links, and their rows in AGENTS.md (members; readers with `dry_run`)."""
    operation = InstallSkills(tuple(body.skills), body.mode)
    return asked.change(body, operation)


@router.post(
    "/workspaces/{workspace_id}/skills/upgrade",
    response_model=template_shapes.Change,
    responses=MAY,
)
def upgrade(body: UpgradeBody, asked: AskedDep) -> dict[str, Any]:
    """Bring installed skills to the present version; edits stay (members; readers dry)."""
    operation = UpgradeSkills(tuple(body.skills), body.on_conflict)
    return asked.change(body, operation)


@router.post(
    "/workspaces/{workspace_id}/skills/uninstall",
    response_model=template_shapes.Change,
    responses=MAY,
)
def uninstall(body: UninstallBody, asked: AskedDep) -> dict[str, Any]:
    """Remove skills that gitsync installed; a user's own files stay (members; readers dry)."""
    operation = UninstallSkills(tuple(body.skills), body.force)
    return asked.change(body, operation)


@router.post(
    "/workspaces/{workspace_id}/skills/repair",
    response_model=template_shapes.Change,
    responses=MAY,
)
def repair(body: RepairBody, asked: AskedDep) -> dict[str, Any]:
    """Mend links and bring missing files of installed skills back (members; readers dry)."""
    operation = RepairSkills(body.mode, body.force)
    return asked.change(body, operation)
