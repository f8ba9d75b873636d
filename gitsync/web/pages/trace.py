"""`/workspaces/{id}/commits/{sha}`: why a commit is live, or not, and what to mend."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from gitsync.errors import GitSyncError
from gitsync.git.objects import read_commit
from gitsync.instance import Instance
from gitsync.model import Sha
from gitsync.records import CommitState, Sync, VersionHead, Workspace
from gitsync.store import Connection, events, glance, heads, holdings, syncs, versions
from gitsync.sync.objects import is_usable, repository_of
from gitsync.sync.trace import commit_story, verdict_of
from gitsync.web.auth import InstanceDep
from gitsync.web.pages.access import PageRoute, ReaderRoom
from gitsync.web.pages.excerpt import explained, is_blocking
from gitsync.web.pages.render import page
from gitsync.web.pages.workspace import Start, live_link
from gitsync.web.query import ShaDep

router = APIRouter(include_in_schema=False, route_class=PageRoute)

PIECE, MOST_FINDINGS = 50, 100
_STEPS = {
    "look": "Asked the remote for its branches.",
    "fetch": "Took the new objects.",
    "rebuild": "Rebuilt the lost mirror.",
    "check": "Read and judged every rollout.",
    "store": "Stored the artifacts.",
    "pack": "Stored the commit's objects.",
    "publish": "One transaction made it visible.",
}
_REFUSED = "One transaction noted why it is not published."


@router.get("/workspaces/{workspace_id}/commits/{sha}")
def commit(
    sha: ShaDep, room: ReaderRoom, request: Request, instance: InstanceDep, start: Start = 0
) -> Response:
    """Delivery, look, fetch, check, publish: what happened when; the findings with their source."""
    with instance.database.read() as db:
        last = events.last_event_id(db)
        head = heads.find_head(db, room.workspace.id, sha)
        rollouts = [] if head is None else _rollouts(db, head, sha, start)
        serving = sum(b.published_sha == sha for b in glance.watched(db, room.workspace.id))
        total = 0 if head is None else holdings.count_rollouts(db, head)
        findings, unread = _findings(db, head)
    found = commit_story(instance, room.workspace.id, sha)
    sync = _sync(instance, room.workspace, found["sync_id"])
    if not findings and sync is not None and found["state"] == CommitState.REFUSED.value:
        findings = list(sync.findings)
    shown = explained(instance, room.workspace, sha, findings, unread=unread)
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
        serving=serving,
        rollouts=rollouts,
        total=total,
        start=start,
        next=start + PIECE if start + len(rollouts) < total else None,
        about=_about(instance, room.workspace, sha),
        sync=sync,
        steps=_steps(found, sync),
        found=shown,
    )


def _findings(
    db: Connection, head: VersionHead | None
) -> tuple[list[dict[str, Any]], tuple[int, int]]:
    """The findings of a version that are read for one page, and how many others there are."""
    if head is None:
        return [], (0, 0)
    read = holdings.inner_findings(db, head, limit=MOST_FINDINGS)
    blocking, advice = holdings.count_inner_findings(db, head)
    told = [f for f in read if not f.get("suppressed")]
    known = sum(map(is_blocking, told))
    return [*head.findings, *read], (blocking - known, advice - (len(told) - known))


def _rollouts(db: Connection, head: VersionHead, sha: Sha, start: int) -> list[dict[str, Any]]:
    """A piece of the commit's rollouts, the worst first; `changed` against its first parent."""
    found = holdings.worst_rollouts(db, head, limit=PIECE, offset=start)
    parents = versions.parents_of(db, head.id)
    before = (
        holdings.content_keys(db, head.workspace_id, parents[0], [r.name for r in found])
        if parents
        else {}
    )
    return [
        {
            "name": r.name,
            "verdict": verdict_of(r),
            "digest": r.digest,
            "changed": before.get(r.name) != r.content_key,
        }
        for r in found
    ]


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
            is_refused = name == "publish" and found["state"] == CommitState.REFUSED.value
            text = _REFUSED if is_refused else _STEPS.get(name, "")
            shown.append({"name": name.capitalize(), "at": None, "ms": step["ms"], "text": text})
    return shown
