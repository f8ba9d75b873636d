"""Code versions and rollouts: manifests, history, diffs, pins, resolving."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field

from gitsync import catalogue, resolve
from gitsync.errors import InvalidInput
from gitsync.model import Sha
from gitsync.store import pins, versions
from gitsync.web import code_shapes, wire
from gitsync.web.answers import may
from gitsync.web.auth import CallerDep, InstanceDep, MemberOf, ReaderOf
from gitsync.web.idempotency import IdempotentRoute
from gitsync.web.query import DATED, Body, ShaDep, WindowDep, example
from gitsync.web.shapes import Page

router = APIRouter(tags=["versions"], route_class=IdempotentRoute)
PinName = Annotated[str, Path(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9._:-]+$")]
Branch = Annotated[
    str | None, Query(max_length=1000, description="A branch, by default the default one.")
]


class ResolveBody(Body):
    """Which rollout version is wanted."""

    model_config = example({"rollout": "chess"}, {"rollout": "chess", "commit_sha": "0123abc"})

    rollout: str = Field(max_length=1000)
    entrypoint: str | None = Field(None, max_length=1000)
    branch: str | None = Field(None, max_length=1000)
    commit_sha: str | None = Field(None, max_length=40)
    prefer: Literal["last_good"] | None = None


class PinBody(Body):
    """Why a version is kept, and how long."""

    reason: str = Field("", max_length=2000)
    expires_at: Annotated[datetime, DATED] | None = None


class CheckBody(Body):
    """What to check: a branch, or a commit that a watched branch contains."""

    ref: str = Field(max_length=1000)


@router.get("/workspaces/{workspace_id}/versions", response_model=Page[code_shapes.Version])
def list_versions(
    workspace: ReaderOf, instance: InstanceDep, window: WindowDep, branch: Branch = None
) -> dict[str, Any]:
    """Published versions, newest first."""
    ref = resolve.full_ref(branch) if branch is not None else None
    with instance.database.read() as db:
        page = versions.list_versions(
            db, workspace.id, limit=window.limit, after=window.after, branch=ref
        )
        seen = versions.branches_seen(db, [version.id for version in page.items])
    return wire.page_json(page, [catalogue.version_json(v, seen.get(v.id, [])) for v in page.items])


@router.get("/workspaces/{workspace_id}/versions/{sha}", response_model=code_shapes.Manifest)
def show_version(sha: ShaDep, workspace: ReaderOf, instance: InstanceDep) -> dict[str, Any]:
    """The manifest: everything of a version but the bytes."""
    return catalogue.manifest(instance, workspace.id, sha)


@router.get(
    "/workspaces/{workspace_id}/versions/{sha}/diff",
    response_model=code_shapes.Difference,
    responses=may(502),
)
def diff(
    sha: ShaDep,
    workspace: ReaderOf,
    instance: InstanceDep,
    base: Annotated[str, Query(alias="from", pattern="^[0-9a-fA-F]{40}$")],
) -> dict[str, Any]:
    """What changed between two versions: rollouts, classes, config keys, files."""
    return catalogue.difference(instance, workspace, Sha.parse(base), sha)


@router.post(
    "/workspaces/{workspace_id}/versions/{sha}/recheck",
    response_model=code_shapes.Manifest,
    responses=may(502),
)
def recheck(sha: ShaDep, workspace: MemberOf, instance: InstanceDep) -> dict[str, Any]:
    """Assess a version anew with the present checker; bytes and digests do not change."""
    catalogue.recheck(instance, workspace, sha)
    return catalogue.manifest(instance, workspace.id, sha)


@router.put(
    "/workspaces/{workspace_id}/versions/{sha}/pins/{name}",
    response_model=code_shapes.Manifest,
    responses=may(502),
)
def put_pin(
    sha: ShaDep,
    name: PinName,
    workspace: MemberOf,
    instance: InstanceDep,
    caller: CallerDep,
    body: PinBody | None = None,
) -> dict[str, Any]:
    """Keep a version; an older commit of a watched branch becomes one."""
    given = body or PinBody(reason="", expires_at=None)
    if given.expires_at is not None and given.expires_at.tzinfo is None:
        raise InvalidInput("expires_at needs a time zone.", field="expires_at")
    catalogue.pin(
        instance,
        workspace,
        sha,
        name,
        owner=caller.id,
        reason=given.reason,
        expires_at=given.expires_at,
    )
    return catalogue.manifest(instance, workspace.id, sha)


@router.delete("/workspaces/{workspace_id}/versions/{sha}/pins/{name}", status_code=204)
def delete_pin(sha: ShaDep, name: PinName, workspace: MemberOf, instance: InstanceDep) -> None:
    """Let go of a version."""
    with instance.database.write() as db:
        pins.drop_pin(db, versions.get_version(db, workspace.id, sha).id, name)


@router.get("/workspaces/{workspace_id}/rollouts", response_model=Page[code_shapes.ServedRollout])
def list_rollouts(
    workspace: ReaderOf, instance: InstanceDep, branch: Branch = None
) -> dict[str, Any]:
    """The rollouts a branch serves, each with its last good version."""
    items = catalogue.rollouts(instance, workspace.id, branch=branch)
    return {"items": items, "total_count": len(items), "has_more": False, "next": None}


@router.get("/workspaces/{workspace_id}/rollouts/{name}", response_model=code_shapes.RolloutHistory)
def show_rollout(
    name: Annotated[str, Path(max_length=1000)],
    workspace: ReaderOf,
    instance: InstanceDep,
    window: WindowDep,
    branch: Branch = None,
) -> dict[str, Any]:
    """One rollout: what is served, what was good last, and the versions that hold it."""
    return catalogue.rollout(
        instance, workspace.id, name, branch=branch, limit=window.limit, after=window.after
    )


@router.post("/workspaces/{workspace_id}/resolve", response_model=code_shapes.Resolved)
def resolve_rollout(
    body: ResolveBody, workspace: ReaderOf, instance: InstanceDep
) -> dict[str, Any]:
    """The one rollout version a run gets, or a precise refusal."""
    found = resolve.resolve(
        instance,
        workspace.id,
        body.rollout,
        entrypoint=body.entrypoint,
        branch=body.branch,
        commit_sha=body.commit_sha,
        prefer=body.prefer,
    )
    return catalogue.resolved_json(instance, workspace, found)


@router.post(
    "/workspaces/{workspace_id}/check", response_model=code_shapes.Report, responses=may(502)
)
def check(body: CheckBody, workspace: MemberOf, instance: InstanceDep) -> dict[str, Any]:
    """Check a branch or commit without publishing anything."""
    return catalogue.dry_run(instance, workspace, body.ref)
