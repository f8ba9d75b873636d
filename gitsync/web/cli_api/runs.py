"""`osmosis eval|train submit|list|info|logs|stop`: the same for both kinds, with other names."""

from __future__ import annotations

from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Request
from limits import RateLimitItemPerMinute

from gitsync.errors import NotFound
from gitsync.instance import Instance
from gitsync.run_records import Run, RunKind
from gitsync.runs import life, ready
from gitsync.runs import request as submitted
from gitsync.runs.submit import submit
from gitsync.store import run_output, runs
from gitsync.web import run_json
from gitsync.web.auth import InstanceDep
from gitsync.web.cli_api.answers import Anchored, AnchoredDep, LogPageDep
from gitsync.web.cli_api.scope import CliRoute, Scoped, ScopedMember, ScopedReader
from gitsync.web.rates import Rates, RatesDep


class RunNotFound(NotFound):
    """No run of this name or id."""

    code = "RUN_NOT_FOUND"


def _find(instance: Instance, scoped: Scoped, kind: RunKind, ref: str) -> Run:
    with instance.database.read() as db:
        found = runs.find_run(db, scoped.workspace.id, ref.replace("\0", ""), kind=kind)
    if found is None:
        what = "evaluation" if kind is RunKind.EVAL else "training"
        raise RunNotFound(f"There is no {what} run {ref[:200]!r} in this workspace.", field="ref")
    return found


async def _submit(
    request: Request, scoped: Scoped, instance: Instance, rates: Rates, kind: RunKind
) -> dict[str, Any]:
    person = scoped.person
    most = RateLimitItemPerMinute(instance.settings.submits_per_minute)
    rates.spend(most, "submit", person.id)
    wanted = submitted.parse(kind, submitted.read_body(await request.body()))
    awaited = ready.Awaited(instance, scoped.workspace, wanted)
    if await instance.signals.wait_for(awaited.look, seconds=ready.WAIT_S) is None:
        raise ready.not_yet(wanted)

    def add() -> Run:
        return submit(instance, scoped.workspace, wanted, by=person)

    return run_json.submitted_json(instance, await anyio.to_thread.run_sync(add))


def _list(
    instance: Instance, scoped: Scoped, piece: Anchored, kind: RunKind, key: str
) -> dict[str, Any]:
    with instance.database.read() as db:
        found, total, newest = runs.list_runs(
            db,
            scoped.workspace.id,
            kind,
            limit=piece.limit,
            offset=piece.offset,
            newest=piece.anchor,
        )
        people = runs.people_of(db, found)
    items = [run_json.cli_row(instance, run, people) for run in found]
    end = piece.offset + len(items)
    has_more = bool(items) and end < total
    return piece.answer(key, items, total, anchor=newest, end=end, has_more=has_more)


def _show(instance: Instance, scoped: Scoped, kind: RunKind, ref: str) -> dict[str, Any]:
    run = _find(instance, scoped, kind, ref)
    with instance.database.read() as db:
        people = runs.people_of(db, [run])
    return run_json.cli_detail(instance, run, people)


def _logs(
    instance: Instance, scoped: Scoped, page: LogPageDep, kind: RunKind, ref: str
) -> dict[str, Any]:
    run = _find(instance, scoped, kind, ref)
    with instance.database.read() as db:
        entries, first = run_output.logs_of(db, run, limit=page.limit, before=page.before)
    return page.answer([run_json.log_json(entry) for entry in entries], first)


def _stop(instance: Instance, scoped: Scoped, kind: RunKind, ref: str) -> dict[str, Any]:
    run = life.stop(instance, _find(instance, scoped, kind, ref), by=scoped.person)
    return run_json.submitted_json(instance, run)


def _metrics(instance: Instance, scoped: Scoped, kind: RunKind, ref: str) -> dict[str, Any]:
    run = _find(instance, scoped, kind, ref)
    with instance.database.read() as db:
        if kind is RunKind.EVAL:
            sums = run_output.sums(db, run, threshold=life.threshold_of(run))
            if sums is not None:
                return run_json.eval_metrics(run, sums)
        else:
            found = run_output.metrics_of(db, run)
            if found:
                return run_json.training_metrics(run, found)
    raise NotFound(f"The run {run.name} has no metrics (yet).")


def _routes(kind: RunKind, prefix: str, key: str) -> APIRouter:
    """The paths of one kind; `key` holds the runs in a list."""
    router = APIRouter(prefix=prefix, route_class=CliRoute)

    @router.post("", status_code=201)
    async def submit_run(
        request: Request, scoped: ScopedMember, instance: InstanceDep, rates: RatesDep
    ) -> dict[str, Any]:
        """Add a run."""
        return await _submit(request, scoped, instance, rates, kind)

    @router.get("")
    def list_runs(
        scoped: ScopedReader, instance: InstanceDep, piece: AnchoredDep
    ) -> dict[str, Any]:
        """Runs, newest first."""
        return _list(instance, scoped, piece, kind, key)

    @router.get("/{ref:segment}")
    def show_run(ref: str, scoped: ScopedReader, instance: InstanceDep) -> dict[str, Any]:
        """One run."""
        return _show(instance, scoped, kind, ref)

    @router.get("/{ref:segment}/logs")
    def run_logs(
        ref: str, scoped: ScopedReader, instance: InstanceDep, page: LogPageDep
    ) -> dict[str, Any]:
        """Its log."""
        return _logs(instance, scoped, page, kind, ref)

    @router.get("/{ref:segment}/metrics")
    def run_metrics(ref: str, scoped: ScopedReader, instance: InstanceDep) -> dict[str, Any]:
        """What it measured."""
        return _metrics(instance, scoped, kind, ref)

    @router.post("/{ref:segment}/stop")
    def stop_run(ref: str, scoped: ScopedMember, instance: InstanceDep) -> dict[str, Any]:
        """End it."""
        return _stop(instance, scoped, kind, ref)

    return router


training = _routes(RunKind.TRAINING, "/training-runs", "training_runs")


@training.get("/{ref:segment}/checkpoints")
def checkpoints(ref: str, scoped: ScopedReader, instance: InstanceDep) -> dict[str, Any]:
    """Checkpoints stay with whoever trains: none is stored here."""
    run = _find(instance, scoped, RunKind.TRAINING, ref)
    return {"training_run_name": run.name, "checkpoints": []}


routers = (_routes(RunKind.EVAL, "/eval-runs", "eval_runs"), training)
