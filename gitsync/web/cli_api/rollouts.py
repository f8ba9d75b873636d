"""`osmosis rollout list`: what a branch serves, those that cannot run included.

A suspended or disconnected workspace goes on listing what it published.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request

from gitsync.catalogue import served
from gitsync.errors import NotFound
from gitsync.instance import Instance
from gitsync.records import RolloutVersion, VersionHead, Workspace
from gitsync.resolve import BranchNotFound, issues_of
from gitsync.store import listing, versions
from gitsync.sync.trace import verdict_of
from gitsync.text import printable
from gitsync.web import wire
from gitsync.web.auth import InstanceDep
from gitsync.web.cli_api.answers import Piece, PieceDep
from gitsync.web.cli_api.scope import CliRoute, ScopedReader

router = APIRouter(route_class=CliRoute)
routers = (router,)
type Good = tuple[str, str]  # commit sha and digest


@router.get("/rollouts")
def list_rollouts(
    request: Request, scoped: ScopedReader, instance: InstanceDep, piece: PieceDep
) -> dict[str, Any]:
    """The rollouts of the default branch, or of `?branch=`; unknown branches are 404."""
    branch = request.query_params.get("branch")
    try:
        version, ref = served(instance, scoped.workspace.id, branch)
    except NotFound:
        if branch is None:
            return piece.answer("rollouts", [], 0)
        raise BranchNotFound(
            f"Nothing is published on branch {branch!r}.", field="branch"
        ) from None
    return _listed(instance, scoped.workspace, version, ref, piece)


def _listed(
    instance: Instance, workspace: Workspace, version: VersionHead, ref: str, piece: Piece
) -> dict[str, Any]:
    with instance.database.read() as db:
        found, total = listing.rollouts_in(db, version, limit=piece.limit, offset=piece.offset)
        since = listing.first_published(db, workspace.id, [r.name for r in found])
        synced = listing.last_seen(db, version, ref)
        broken = {r.name: pair for r in found if (pair := _broken(r)) is not None}
        good = versions.last_good(db, workspace.id, ref, broken.values()) if broken else {}
    items = []
    for rollout in found:
        row: dict[str, Any] = {
            "id": rollout_id(workspace.id, rollout.name),
            "name": printable(rollout.name),
            "description": None,
            "last_synced_at": wire.when(synced),
            "last_synced_commit_sha": version.commit_sha,
            "repo_full_name": workspace.identity,
            "created_at": wire.when(_first(since, rollout, version)),
        }
        if rollout.name in broken:
            last = good.get(broken[rollout.name])
            row["description"] = _why(version, rollout, broken[rollout.name][1], last)
            row["last_good"] = last and {"commit_sha": last[0], "digest": last[1]}
        items.append(row)
    return piece.answer("rollouts", items, total)


def _first(since: dict[str, datetime], rollout: RolloutVersion, version: VersionHead) -> datetime:
    return since.get(rollout.name, version.published_at)


def rollout_id(workspace_id: str, name: str) -> str:
    """The same for every version and branch: a rollout is its name in its workspace."""
    text = f"{workspace_id}\0{name}".encode("utf-8", "surrogateescape")
    return f"ro_{hashlib.sha256(text).hexdigest()[:16]}"


def _broken(rollout: RolloutVersion) -> tuple[str, str] | None:
    """Name and first entrypoint that cannot run, None if all can."""
    if verdict_of(rollout) == "ok":
        return None
    bad = (a.entrypoint for a in rollout.assessments if not rollout.is_ok(a.entrypoint))
    return rollout.name, next(bad, "main.py")


def _why(version: VersionHead, rollout: RolloutVersion, entrypoint: str, last: Good | None) -> str:
    """`INVALID at 1a2b3c4: no-grader rollouts/x/main.py:1; last good 9f8e7d6`."""
    assessment = rollout.assessment(entrypoint)
    issues = [] if assessment is None else issues_of(version, rollout, assessment)
    first = f"{issues[0]['code']} {issues[0]['key']}" if issues else "not-checked"
    text = f"INVALID at {version.commit_sha[:7]}: {first}"
    if len(issues) > 1:
        text += f" and {len(issues) - 1} more"
    return printable(text + (f"; last good {last[0][:7]}" if last else "; never good so far"))
