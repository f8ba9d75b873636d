"""Runs of a workspace: who submitted what, how far it is, what it said."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from gitsync.errors import InvalidInput, NotFound
from gitsync.instance import Instance
from gitsync.records import Workspace
from gitsync.run_records import Run, RunKind, RunState
from gitsync.runs import life
from gitsync.store import run_output, runs
from gitsync.web import run_json, run_shapes, wire
from gitsync.web.auth import CallerDep, InstanceDep, MemberOf, ReaderOf
from gitsync.web.idempotency import IdempotentRoute
from gitsync.web.query import WindowDep
from gitsync.web.shapes import Page

router = APIRouter(tags=["runs"], route_class=IdempotentRoute)
Ref = Annotated[str, Path(max_length=100, pattern="^[a-z0-9_-]+$", description="Name or id.")]


def find(instance: Instance, workspace: Workspace, ref: str) -> Run:
    """A run by name or id."""
    with instance.database.read() as db:
        found = runs.find_run(db, workspace.id, ref)
    if found is None:
        raise NotFound(f"There is no run {ref!r} in this workspace.", field="run")
    return found


def shown(instance: Instance, run: Run) -> dict[str, Any]:
    """A run with who submitted it."""
    with instance.database.read() as db:
        return run_json.run_json(instance, run, runs.people_of(db, [run]))


@router.get("/workspaces/{workspace_id}/runs", response_model=Page[run_shapes.Run])
def list_runs(
    workspace: ReaderOf,
    instance: InstanceDep,
    window: WindowDep,
    kind: Annotated[RunKind | None, Query()] = None,
    state: Annotated[RunState | None, Query()] = None,
) -> dict[str, Any]:
    """Runs, newest first."""
    with instance.database.read() as db:
        page = runs.page_runs(
            db, workspace.id, kind=kind, state=state, limit=window.limit, after=window.after
        )
        people = runs.people_of(db, page.items)
    return wire.page_json(page, [run_json.run_json(instance, run, people) for run in page.items])


@router.get("/workspaces/{workspace_id}/runs/{run}", response_model=run_shapes.Run)
def show_run(run: Ref, workspace: ReaderOf, instance: InstanceDep) -> dict[str, Any]:
    """One run."""
    return shown(instance, find(instance, workspace, run))


@router.get("/workspaces/{workspace_id}/runs/{run}/logs", response_model=run_shapes.RunLogs)
def run_logs(
    run: Ref, workspace: ReaderOf, instance: InstanceDep, window: WindowDep
) -> dict[str, Any]:
    """The newest entries, oldest first; `next` leads to older ones."""
    before = window.after
    if before is not None and not (before.isascii() and before.isdigit() and len(before) < 19):
        raise InvalidInput("after must be the value of `next`.", field="after")
    found = find(instance, workspace, run)
    with instance.database.read() as db:
        entries, first = run_output.logs_of(
            db, found, limit=window.limit, before=None if before is None else int(before)
        )
    return {
        "items": [run_json.log_json(entry) for entry in entries],
        "total_count": found.log_entries,
        "has_more": first is not None,
        "next": None if first is None else str(first),
    }


@router.get(
    "/workspaces/{workspace_id}/runs/{run}/samples", response_model=Page[run_shapes.RunSample]
)
def run_samples(
    run: Ref, workspace: ReaderOf, instance: InstanceDep, window: WindowDep
) -> dict[str, Any]:
    """What each try of each row gave, the latest first."""
    found = find(instance, workspace, run)
    with instance.database.read() as db:
        page = run_output.page_samples(db, found, limit=window.limit, after=window.after)
    return wire.page_json(page, [run_json.sample_json(sample) for sample in page.items])


@router.post("/workspaces/{workspace_id}/runs/{run}/stop", response_model=run_shapes.Run)
def stop_run(
    run: Ref, workspace: MemberOf, instance: InstanceDep, caller: CallerDep
) -> dict[str, Any]:
    """End a run; its executor is told at its next heartbeat."""
    return shown(instance, life.stop(instance, find(instance, workspace, run), by=caller.person))
