"""`/workspaces/{id}/rollouts/{name}`: what is served, what was good last, and how it got there."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from gitsync import catalogue
from gitsync.errors import GitSyncError, NotFound
from gitsync.git.objects import open_commit
from gitsync.instance import Instance
from gitsync.model import Sha
from gitsync.records import Workspace
from gitsync.store import events, holdings, run_pages
from gitsync.sync.objects import is_usable, repository_of
from gitsync.web.auth import InstanceDep
from gitsync.web.pages import run_charts
from gitsync.web.pages.access import PageRoute, ReaderRoom
from gitsync.web.pages.excerpt import explained
from gitsync.web.pages.render import page
from gitsync.web.pages.workspace import BranchQuery, live_link
from gitsync.web.query import WindowDep

router = APIRouter(include_in_schema=False, route_class=PageRoute)
README_BYTES = 64 * 1024
IN_CHART = 40


@router.get("/workspaces/{workspace_id}/rollouts/{name}")
def show(
    name: Annotated[str, Path(max_length=1000)],
    room: ReaderRoom,
    request: Request,
    instance: InstanceDep,
    window: WindowDep,
    branch: BranchQuery = None,
) -> Response:
    """One rollout over time."""
    workspace = room.workspace
    with instance.database.read() as db:
        last = events.last_event_id(db)
        held = holdings.rollout_history(
            db, workspace.id, name, limit=window.limit, after=window.after
        )
        scored = run_pages.scored(db, workspace.id, name, limit=IN_CHART)
    if not held.total_count:
        raise NotFound(f"No version has a rollout {name!r}.")
    try:
        current = catalogue.served_rollout(instance, workspace.id, name, branch=branch)
    except NotFound:
        current = None
    findings = [f for e in current["entrypoints"] for f in e["findings"]] if current else []
    sha = None if current is None else Sha(current["commit_sha"])
    return page(
        request,
        "rollout.html",
        viewer=room.viewer,
        room=room,
        ws=workspace,
        tab="rollouts",
        live=live_link(room),
        last=last,
        name=name,
        served=current,
        held=held,
        rewards=run_charts.reward_line(scored),
        changes=_changes(held.items),
        found=None if sha is None else explained(instance, workspace, sha, findings),
        readme=None if sha is None else _readme(instance, workspace, sha, name),
        server=instance.settings.url,
    )


def _changes(items: tuple[holdings.Held, ...]) -> list[bool]:
    """For each version: did the rollout change with it? Of the oldest shown nobody knows."""
    keys = [held.content_key for held in items]
    return [*(one != two for one, two in pairwise(keys)), True]


def _readme(instance: Instance, workspace: Workspace, sha: Sha, name: str) -> str | None:
    path = repository_of(instance, workspace)
    try:
        if not is_usable(path):
            return None
        tree = open_commit(path, sha)
        entry = tree.entry(f"rollouts/{name}/README.md")
        if entry is None or not entry.is_file:
            return None
        data = tree.read(f"rollouts/{name}/README.md", limit=README_BYTES)
    except GitSyncError:
        return None
    return data.decode("utf-8", "replace")
