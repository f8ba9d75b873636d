"""`/workspaces/{id}/commits/{sha}`: why a commit is live, or not, and what to mend."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from gitsync.errors import GitSyncError
from gitsync.git.objects import read_commit
from gitsync.instance import Instance
from gitsync.model import Sha
from gitsync.records import CommitState, Sync, Workspace
from gitsync.store import events, syncs
from gitsync.sync.objects import is_usable, repository_of
from gitsync.sync.trace import commit_status
from gitsync.web.auth import InstanceDep
from gitsync.web.pages.access import PageRoute, ReaderRoom
from gitsync.web.pages.excerpt import explained
from gitsync.web.pages.render import page
from gitsync.web.pages.workspace import live_link
from gitsync.web.query import ShaDep

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_STEPS = {
    "look": "Asked the remote for its branches.",
    "fetch": "Took the new objects.",
    "rebuild": "Rebuilt the lost mirror.",
    "check": "Read and judged every rollout.",
    "store": "Stored the artifacts.",
    "pack": "Stored the commit's objects.",
    "publish": "One transaction made it visible.",
}


@router.get("/workspaces/{workspace_id}/commits/{sha}")
def commit(sha: ShaDep, room: ReaderRoom, request: Request, instance: InstanceDep) -> Response:
    """Delivery, look, fetch, check, publish: what happened when; the findings with their source."""
    with instance.database.read() as db:
        last = events.last_event_id(db)
    found = commit_status(instance, room.workspace.id, sha)
    sync = _sync(instance, room.workspace, found["sync_id"])
    findings = [*found["findings"], *(f for r in found["rollouts"] for f in r["findings"])]
    if not findings and sync is not None and found["state"] == CommitState.REFUSED.value:
        findings = list(sync.findings)
    shown = explained(instance, room.workspace, sha, findings)
    return page(
        request,
        "trace.html",
        viewer=room.viewer,
        room=room,
        ws=room.workspace,
        tab="",
        live=live_link(room),
        last=last,
        sha=str(sha),
        commit=found,
        about=_about(instance, room.workspace, sha),
        sync=sync,
        steps=_steps(found, sync),
        blocking=[s for s in shown if s.finding["severity"] in ("error", "unresolved")],
        advice=[s for s in shown if s.finding["severity"] not in ("error", "unresolved")],
    )


def _sync(instance: Instance, workspace: Workspace, sync_id: int | None) -> Sync | None:
    if sync_id is None:
        return None
    with instance.database.read() as db:
        return syncs.get_sync(db, workspace.id, sync_id)


def _about(instance: Instance, workspace: Workspace, sha: Sha) -> Any:
    """The commit itself, None as long as it is not here."""
    path = repository_of(instance, workspace)
    try:
        return read_commit(path, sha) if is_usable(path) else None
    except GitSyncError:
        return None


def _steps(found: dict[str, Any], sync: Sync | None) -> list[dict[str, Any]]:
    """The way of the push in order, with times where they are known."""
    shown = []
    for step in found["trace"]:
        if step["step"] == "delivery":
            text = step["text"].replace("_", " ")
            shown.append({"name": "Delivery", "at": step["at"], "ms": None, "text": text})
        elif step["step"] == "sync":
            waited = sync and sync.started_at and sync.started_at - sync.requested_at
            shown.append(
                {
                    "name": "Turn",
                    "at": step["at"],
                    "ms": waited.total_seconds() * 1000 if waited else None,
                    "text": step["text"],
                }
            )
        elif step["step"] == "finished":
            word = step["text"].replace("_", " ")
            shown.append({"name": "Finished", "at": step["at"], "ms": None, "text": word})
        else:
            name = step["step"]
            text = _STEPS.get(name, "")
            shown.append({"name": name.capitalize(), "at": None, "ms": step["ms"], "text": text})
    return shown
