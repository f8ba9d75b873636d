"""`/workspaces/{id}`: branches, rollouts, syncs; *Sync now*."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from gitsync import catalogue
from gitsync.errors import GitSyncError
from gitsync.git.objects import ObjectStore, read_commit
from gitsync.instance import Instance
from gitsync.records import Branch, CommitRecord, CommitState, Sync, Workspace
from gitsync.store import Connection, commits, events, glance, syncs
from gitsync.store.holdings import Brief
from gitsync.sync import triggers
from gitsync.sync.moves import short
from gitsync.sync.objects import is_usable, repository_of
from gitsync.web import wire
from gitsync.web.auth import InstanceDep
from gitsync.web.pages import charts
from gitsync.web.pages.access import MemberRoom, PageRoute, ReaderRoom, Room, back_to, notice_of
from gitsync.web.pages.render import page, path_to
from gitsync.web.query import WindowDep
from gitsync.web.session import FormDep

router = APIRouter(include_in_schema=False, route_class=PageRoute)
BranchQuery = Annotated[str | None, Query(max_length=1000)]
SHOWN_ROLLOUTS, SHOWN_SYNCS, SHOWN_BRANCHES, IN_CHART, PIECE = 30, 10, 11, 60, 100
Start = Annotated[int, Query(ge=0, le=10**6, description="How many are before these.")]


@dataclass(frozen=True, slots=True)
class SyncRow:
    """A sync in a list: what it found on one branch, and that commit in half a line."""

    sync: Sync
    branch: str | None
    sha: str | None
    brief: Brief | None
    others: int
    ms: float | None


def sync_rows(instance: Instance, workspace: Workspace, found: Iterable[Sync]) -> list[SyncRow]:
    """Syncs with their commits: from the versions, for refused ones from the repository."""
    shown = []
    for sync in found:
        moves = [move for move in wire.sync_json(sync)["branches"] if move["to_sha"]]
        shown.append((sync, moves))
    wanted = {moves[0]["to_sha"] for _, moves in shown if moves}
    with instance.database.read() as db:
        briefs = glance.briefs(db, workspace.id, wanted) if wanted else {}
    briefs |= _unpublished(instance, workspace, wanted - briefs.keys())
    return [
        SyncRow(
            sync=sync,
            branch=moves[0]["name"] if moves else None,
            sha=moves[0]["to_sha"] if moves else None,
            brief=briefs.get(moves[0]["to_sha"]) if moves else None,
            others=max(0, len(moves) - 1),
            ms=None
            if sync.started_at is None or sync.finished_at is None
            else (sync.finished_at - sync.started_at).total_seconds() * 1000,
        )
        for sync, moves in shown
    ]


def _unpublished(instance: Instance, workspace: Workspace, shas: set[str]) -> dict[str, Brief]:
    path = repository_of(instance, workspace)
    if not shas or not is_usable(path):
        return {}
    store, found = ObjectStore(path), {}
    for sha in shas:
        try:
            commit = read_commit(path, sha, store=store)
        except GitSyncError:
            continue
        found[sha] = Brief(sha, commit.message[:400], commit.author.name, instance.now())
    return found


def live_link(room: Room) -> str:
    """Where a page of a workspace hears of news."""
    return path_to("live", workspace=room.workspace.id)


def _stopped(db: Connection, workspace: Workspace, served: Branch | None) -> CommitRecord | None:
    """The tip of the served branch, if it could not be published."""
    if served is None or served.head_sha is None or served.head_sha == served.published_sha:
        return None
    found = commits.find_commit(db, workspace.id, served.head_sha)
    is_bad = found is not None and found.state in (CommitState.REFUSED, CommitState.ERROR)
    return found if is_bad else None


def _in_order(found: Iterable[Branch], served: Branch | None) -> list[Branch]:
    """Branches: the served one, then those that changed last."""
    newest = sorted(found, key=lambda b: b.updated_at, reverse=True)
    return sorted(newest, key=lambda b: b != served)


@router.get("/workspaces/{workspace_id}")
def overview(room: ReaderRoom, request: Request, instance: InstanceDep) -> Response:
    """What is live, what is failing, what happened lately."""
    workspace = room.workspace
    with instance.database.read() as db:
        last = events.last_event_id(db)
        branches = glance.watched(db, workspace.id)
        served = glance.served_branch(workspace, branches)
        stopped = _stopped(db, workspace, served)
        health = glance.glances(db, [workspace], {workspace.id: branches})[workspace.id]
        recent = syncs.list_syncs(db, workspace.id, limit=SHOWN_SYNCS, after=None)
        durations = glance.sync_points(db, workspace.id, limit=IN_CHART)
        pushes = glance.push_points(db, workspace.id, limit=IN_CHART)
    rollouts, _ = catalogue.worst_rollouts(
        instance, workspace.id, branch=None, limit=SHOWN_ROLLOUTS, offset=0
    )
    return page(
        request,
        "workspace.html",
        viewer=room.viewer,
        room=room,
        ws=workspace,
        tab="overview",
        live=live_link(room),
        last=last,
        branches=_in_order(branches, served),
        most_branches=SHOWN_BRANCHES,
        served=served,
        missing=short(workspace.chosen_branch or "") if health.misses_branch else None,
        stopped=stopped,
        health=health,
        rollouts=rollouts,
        more_rollouts=max(0, health.rollouts - len(rollouts)),
        recent=recent,
        rows=sync_rows(instance, workspace, recent.items),
        durations=charts.sync_bars(durations),
        pushes=charts.push_dots(pushes),
        legends=(charts.legend(durations), charts.legend(pushes)),
        clone_url=wire.clone_url(instance.settings.url, workspace),
        server=instance.settings.url,
        notice=notice_of(request),
    )


@router.get("/workspaces/{workspace_id}/rollouts")
def rollouts(
    room: ReaderRoom,
    request: Request,
    instance: InstanceDep,
    branch: BranchQuery = None,
    start: Start = 0,
) -> Response:
    """The rollouts a branch serves, those that cannot run first."""
    with instance.database.read() as db:
        last = events.last_event_id(db)
        branches = glance.watched(db, room.workspace.id)
    found, total = catalogue.worst_rollouts(
        instance, room.workspace.id, branch=branch, limit=PIECE, offset=start
    )
    served = glance.served_branch(room.workspace, branches)
    return page(
        request,
        "rollouts.html",
        viewer=room.viewer,
        room=room,
        ws=room.workspace,
        tab="rollouts",
        live=live_link(room),
        last=last,
        branches=branches,
        branch=branch or (None if served is None else wire.branch_json(served)["name"]),
        rollouts=found,
        total=total,
        start=start,
        next=start + PIECE if start + len(found) < total else None,
    )


@router.get("/workspaces/{workspace_id}/syncs")
def history(
    room: ReaderRoom, request: Request, instance: InstanceDep, window: WindowDep
) -> Response:
    """All syncs, newest first."""
    with instance.database.read() as db:
        last = events.last_event_id(db)
        found = syncs.list_syncs(db, room.workspace.id, limit=window.limit, after=window.after)
    return page(
        request,
        "syncs.html",
        viewer=room.viewer,
        room=room,
        ws=room.workspace,
        tab="syncs",
        live=live_link(room),
        last=last,
        found=found,
        rows=sync_rows(instance, room.workspace, found.items),
    )


@router.post("/workspaces/{workspace_id}/sync")
def sync_now(form: FormDep, room: MemberRoom, instance: InstanceDep) -> Response:
    """Look at the remote now."""
    triggers.request_sync(instance, room.workspace, by=room.viewer.user.id)
    return back_to(path_to("workspaces", room.workspace.id), "sync")
