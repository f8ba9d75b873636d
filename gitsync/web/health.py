"""`/healthz`, `/readyz`, `/metrics`: is it alive, does work flow, how much of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from gitsync import __version__
from gitsync.instance import Instance
from gitsync.runs import life
from gitsync.store import measures, run_life, runs, turns
from gitsync.web import shapes
from gitsync.web.answers import Responses, may
from gitsync.web.auth import InstanceDep

router = APIRouter(tags=["health"])

_METRICS: Responses = {200: {"description": "Metrics.", "content": {"text/plain": {}}}}
STUCK_AFTER = timedelta(minutes=2)


@router.get("/healthz", response_model=shapes.Health)
def healthz() -> dict[str, Any]:
    """The process answers."""
    return {"status": "ok", "version": __version__}


@router.get(
    "/readyz",
    response_model=shapes.Readiness,
    responses={
        503: {"description": "Work is stuck, or the store is away.", "model": shapes.Readiness}
    },
)
def readyz(instance: InstanceDep) -> JSONResponse:
    """Work flows: the database answers, and nothing that could be done waits for minutes."""
    with instance.database.read() as db:
        stuck = turns.stuck(db, older_than=STUCK_AFTER)
        depth = turns.depth(db)
        waits = run_life.waiting_counts(db)
    there = life.presence(instance)
    waiting = {kind: waits.get(kind, 0) for kind in there}
    is_ready = not stuck and not instance.stopping.is_set()
    return JSONResponse(
        {
            "status": "ready" if is_ready else "not ready",
            "queue_depth": depth,
            "stuck_workspaces": stuck,
            "executors": there,
            "waiting_runs": waiting,
            "remarks": [
                f"{waiting[kind]} {kind} run(s) wait, and no executor for them is connected."
                for kind, number in there.items()
                if not number and waiting[kind]
            ],
        },
        status_code=200 if is_ready else 503,
    )


@router.get(
    "/metrics",
    response_class=Response,
    responses=_METRICS | may(503),
)
def metrics(request: Request, instance: InstanceDep) -> Response:
    """Prometheus: read from the rows, so that all servers say the same."""
    registry = CollectorRegistry()
    _fill(registry, instance)
    running = request.app.state.running()
    Gauge("gitsync_syncs_running", "Turns being worked on.", registry=registry).set(running)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _fill(registry: CollectorRegistry, instance: Instance) -> None:
    now = instance.now()
    with instance.database.read() as db:
        stale = measures.staleness(db, now=now)
        outcomes = measures.deliveries(db)
        syncs = measures.syncs(db)
        steps = measures.steps(db)
        counts = measures.counts(db)
        depth = turns.depth(db)
        runs_now = runs.counts(db)
    of_runs = Gauge("gitsync_runs", "Runs by kind and state.", ["kind", "state"], registry=registry)
    for of_kind, number_of_runs in runs_now.items():
        of_runs.labels(*of_kind).set(number_of_runs)
    there = Gauge("gitsync_executors", "Executors heard of lately.", ["kind"], registry=registry)
    for kind, number_there in life.presence(instance).items():
        there.labels(kind).set(number_there)
    Gauge("gitsync_queue_depth", "Workspaces that are owed a look.", registry=registry).set(depth)
    age = Gauge(
        "gitsync_workspace_staleness_seconds",
        "Seconds since a look was asked for that did not happen yet.",
        ["workspace"],
        registry=registry,
    )
    looked = Gauge(
        "gitsync_workspace_last_look_seconds",
        "Seconds since the last look ended.",
        ["workspace"],
        registry=registry,
    )
    for workspace, owed, last in stale:
        age.labels(workspace).set(owed)
        if last is not None:
            looked.labels(workspace).set(last)
    for name, help_text, label, values in (
        ("gitsync_deliveries", "Deliveries by outcome.", "outcome", outcomes),
        ("gitsync_syncs", "Syncs by outcome.", "outcome", syncs),
        ("gitsync_rows", "Rows by kind.", "kind", counts),
    ):
        gauge = Gauge(name, help_text, [label], registry=registry)
        for key, value in values.items():
            gauge.labels(key).set(value)
    total = Gauge(
        "gitsync_step_seconds_sum", "Time by step, latest 1000 syncs.", ["step"], registry=registry
    )
    number = Gauge(
        "gitsync_step_seconds_count", "Steps in the latest 1000 syncs.", ["step"], registry=registry
    )
    for step, (seconds, times) in steps.items():
        total.labels(step).set(seconds)
        number.labels(step).set(times)
