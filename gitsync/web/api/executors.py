"""For those who carry runs out: claim one, say what happens, end it (`docs/executors.md`)."""

from __future__ import annotations

import asyncio
import math
import re
import time
from hashlib import sha256
from typing import Annotated, Any, Literal

import anyio.to_thread
from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import AfterValidator, AwareDatetime, Field

from gitsync.errors import Forbidden, InvalidInput, NotFound
from gitsync.instance import Instance
from gitsync.records import Token
from gitsync.run_records import Run, RunState
from gitsync.runs import life, output
from gitsync.store import datasets, runs
from gitsync.text import storable
from gitsync.web import run_json, run_shapes
from gitsync.web.answers import Responses, may
from gitsync.web.auth import Caller, CallerDep, InstanceDep, Waits
from gitsync.web.idempotency import IdempotentRoute, KnownRoute
from gitsync.web.query import DATED, Body, example
from gitsync.web.shapes import plain
from gitsync.web.wire import when

router = APIRouter(tags=["executors"], route_class=IdempotentRoute)

_KEY = re.compile(r"[ -~]{1,200}")
_SOME = 1000  # items of one request
_BYTES: Responses = {
    200: {"content": {"application/octet-stream": {}}, "description": "The bytes."}
}


def require_executor(caller: CallerDep) -> Caller:
    """Only machine tokens with the role executor."""
    if caller.token.role != "executor":
        raise Forbidden("Only a machine token with the role executor carries out runs.")
    return caller


ExecutorDep = Annotated[Caller, Depends(require_executor)]
RunId = Annotated[str, Path(max_length=60, pattern="^[a-z0-9_]+$")]


# bounded, so that neither a mean nor a variance of them overflows, here or in a database
Number = Annotated[float, Field(ge=-1e100, le=1e100, allow_inf_nan=False)]
Time = Annotated[AwareDatetime, DATED]
Index = Annotated[int, Field(ge=0, le=2**31 - 1)]
Amount = Annotated[int, Field(ge=0, le=2**53)]
Tokens = Annotated[int, Field(ge=0, le=2**45)]  # all of a run's fit into 64 bits
Text = Annotated[str, AfterValidator(storable)]
Details = Annotated[dict[str, Any], AfterValidator(plain)]


class ClaimBody(Body):
    """Which runs the executor carries out."""

    model_config = example({"kinds": ["eval"], "wait": 30, "name": "gpu-7"})

    kinds: list[Literal["eval", "training"]] = Field(min_length=1, max_length=2)
    wait: float = Field(0, ge=0, le=3600, description="Seconds to wait for one; 60 count.")
    name: str = Field("", max_length=200, description="Which machine this is, for the log.")


class HeldBody(Body):
    """What everything about a held run says."""

    claim_id: str = Field(max_length=40)


class HeartbeatBody(HeldBody):
    """The executor is alive; how far it is, if that is known."""

    current_step: Amount | None = None
    total_steps: Amount | None = None
    examples: Amount | None = None
    reward: Number | None = None


class LogEntry(Body):
    """One entry; `sequence` counts the entries of this claim, so that a repeat is known."""

    sequence: Amount
    timestamp: Time | None = None
    level: Literal["debug", "info", "warning", "error"] = "info"
    step: str = Field("run", max_length=80)
    message: str = Field(min_length=1, max_length=16_000)
    details: Details | None = None


class LogsBody(HeldBody):
    """Entries in order."""

    entries: list[LogEntry] = Field(min_length=1, max_length=_SOME)


class Sample(Body):
    """What one try of one row of the data set gave; saying it again replaces it."""

    row_index: Index
    run_index: Index = Field(0, description="Which of the `n` tries of the row.")
    status: Literal["completed", "failed", "skipped"] = "completed"
    reward: Number | None = None
    tokens: Tokens | None = None
    duration_ms: Amount | None = None
    error: Text | None = Field(None, max_length=4000)
    details: Details | None = None


class SamplesBody(HeldBody):
    """Samples in any order."""

    samples: list[Sample] = Field(min_length=1, max_length=_SOME)


class Metric(Body):
    """One value of a metric at one step; saying it again replaces it."""

    key: Text = Field(min_length=1, max_length=200)
    title: Text | None = Field(None, max_length=200)
    step: Amount
    value: Number
    timestamp: Time | None = None


class MetricsBody(HeldBody):
    """Values in any order."""

    metrics: list[Metric] = Field(min_length=1, max_length=_SOME)


class FinishBody(HeldBody):
    """How the run ended."""

    state: Literal["finished", "failed"]
    results: Details | None = None
    reason: str | None = Field(None, max_length=4000, description="Why it failed.")


def _held_json(run: Run) -> dict[str, Any]:
    return {
        "stop": run.state is not RunState.RUNNING,
        "state": run.state.value,
        "lease_expires_at": when(run.lease_expires_at),
    }


# -- claiming -------------------------------------------------------------------------------------


class _Asking:
    """One request for a run: looks once, or again and again while it waits."""

    def __init__(self, instance: Instance, token: Token, body: ClaimBody, key: str | None) -> None:
        self._instance, self._token, self._key = instance, token, key
        self._kinds = life.allowed_kinds(token, body.kinds)
        self._name = body.name or token.name
        self._every = instance.settings.executor_lease_s / 3
        self._noted = -math.inf
        self.has_left = False

    async def watch(self, request: Request) -> None:
        """Notice that the executor went away: nobody would carry out what it gets now."""
        while (await request.receive())["type"] != "http.disconnect":
            continue
        self.has_left = True
        self._instance.signals.notify()

    def look(self) -> life.Claimed | None:
        """A run, if one waits; and the executor counts as there."""
        if time.monotonic() - self._noted >= self._every:
            self._noted = time.monotonic()
            life.note_presence(self._instance, self._token, self._kinds, name=self._name)
        return life.claim(
            self._instance, self._token, kinds=self._kinds, key=self._key, name=self._name
        )


async def claim_run(
    body: ClaimBody, request: Request, instance: InstanceDep, caller: ExecutorDep
) -> dict[str, Any]:
    """The oldest waiting run of these kinds, with everything that is needed to carry it out.

    A repeat with the same Idempotency-Key gives the same run again while it is held.
    """
    given = request.headers.get("idempotency-key")
    if given is not None and not _KEY.fullmatch(given):
        raise InvalidInput(
            "An Idempotency-Key has 1 to 200 printable characters.", field="Idempotency-Key"
        )
    key = None if given is None else sha256(given.encode()).hexdigest()
    asking = _Asking(instance, caller.token, body, key)
    found = await anyio.to_thread.run_sync(asking.look)
    seconds = min(body.wait, instance.settings.wait_max_s)
    if found is None and seconds > 0:
        waits: Waits = request.app.state.waits
        waits.enter(caller.token.id)
        try:
            found = await _waited(request, instance, asking, waits, seconds=seconds)
        finally:
            waits.leave(caller.token.id)
    return {"claim": None if found is None else _claim_json(instance, found)}


async def _waited(
    request: Request, instance: Instance, asking: _Asking, waits: Waits, *, seconds: float
) -> life.Claimed | None:
    """A run once there is one; None if there is none in time, or nobody is left to get it."""

    def look() -> tuple[life.Claimed | None] | None:
        if waits.is_closed or asking.has_left:
            return (None,)
        found = asking.look()
        return None if found is None else (found,)

    watcher = asyncio.ensure_future(asking.watch(request))
    try:
        answer = await instance.signals.wait_for(look, seconds=seconds)
    finally:
        watcher.cancel()
    found = None if answer is None else answer[0]
    if found is not None and asking.has_left:
        await anyio.to_thread.run_sync(life.give_back, instance, found.run)
        return None
    return found


router.add_api_route(
    "/runs/claim",
    claim_run,
    methods=["POST"],
    response_model=run_shapes.Claimed,
    responses=may(403, 429),
    # the answer holds secrets: it is kept nowhere, and a repeat is told by its key
    route_class_override=KnownRoute,
)


def _claim_json(instance: Instance, found: life.Claimed) -> dict[str, Any]:
    run, dataset = found.run, found.dataset
    with instance.database.read() as db:
        people = runs.people_of(db, [run])
    return {
        "claim_id": run.claim_id,
        "lease_s": instance.settings.executor_lease_s,
        "run": run_json.run_json(instance, run, people),
        "workspace": found.workspace.identity,
        "workflow": run.assessment["workflow"],
        "grader": run.assessment["grader"],
        "artifact": {
            "digest": run.digest,
            "size": run.size,
            "url": run_json.artifact_url(instance, run),
        },
        "dataset": {
            "id": dataset.id,
            "name": dataset.name,
            "format": dataset.format,
            "size": dataset.size,
            "digest": dataset.digest,
            "row_count": dataset.row_count,
            "url": f"{instance.settings.url}/api/v1/runs/{run.id}/dataset",
        },
        "config": {k: v for k, v in found.document.items() if k not in ("env", "secrets")},
        "env": found.document.get("env", {}),
        "secrets": found.secrets,
    }


@router.get(
    "/runs/{run_id}/dataset", response_class=Response, responses=_BYTES | may(403, 404, 409)
)
def dataset_of_run(run_id: RunId, instance: InstanceDep, caller: ExecutorDep) -> Response:
    """The rows of a run that this executor holds."""
    with instance.database.read() as db:
        run = life.held_by(db, caller.token, run_id)
        dataset = datasets.get_dataset(db, run.dataset_id)
    if dataset is None or dataset.object_key is None:
        raise NotFound("The data set is gone.")
    headers = {"Content-Length": str(dataset.size)}
    if dataset.digest:
        headers["ETag"] = f'"{dataset.digest}"'
    return StreamingResponse(
        instance.bucket.apieces(dataset.object_key),
        headers=headers,
        media_type="application/octet-stream",
    )


# -- while it runs --------------------------------------------------------------------------------


@router.post(
    "/runs/{run_id}/heartbeat", response_model=run_shapes.Held, responses=may(403, 404, 409)
)
def heartbeat(
    run_id: RunId, body: HeartbeatBody, instance: InstanceDep, caller: ExecutorDep
) -> dict[str, Any]:
    """Keep the run; `stop` says whether to stop working on it."""
    progress = body.model_dump(exclude={"claim_id"})
    run = life.heartbeat(instance, caller.token, run_id, body.claim_id, **progress)
    return _held_json(run)


@router.post(
    "/runs/{run_id}/logs", response_model=run_shapes.LogsTaken, responses=may(403, 404, 409)
)
def append_logs(
    run_id: RunId, body: LogsBody, instance: InstanceDep, caller: ExecutorDep
) -> dict[str, Any]:
    """Add to the log; entries whose sequence is known are passed over."""
    entries = [entry.model_dump() for entry in body.entries]
    run, added = output.append_logs(instance, caller.token, run_id, body.claim_id, entries)
    return {**_held_json(run), "added": added}


@router.post(
    "/runs/{run_id}/samples", response_model=run_shapes.SamplesTaken, responses=may(403, 404, 409)
)
def put_samples(
    run_id: RunId, body: SamplesBody, instance: InstanceDep, caller: ExecutorDep
) -> dict[str, Any]:
    """Results by row and try."""
    samples = [sample.model_dump() for sample in body.samples]
    run, total = output.put_samples(instance, caller.token, run_id, body.claim_id, samples)
    return {**_held_json(run), "samples": total}


@router.post("/runs/{run_id}/metrics", response_model=run_shapes.Held, responses=may(403, 404, 409))
def put_metrics(
    run_id: RunId, body: MetricsBody, instance: InstanceDep, caller: ExecutorDep
) -> dict[str, Any]:
    """Values by metric and step; `reward` is shown as the run's."""
    metrics = [{**m.model_dump(), "title": m.title or m.key} for m in body.metrics]
    return _held_json(output.put_metrics(instance, caller.token, run_id, body.claim_id, metrics))


@router.post("/runs/{run_id}/finish", response_model=run_shapes.Held, responses=may(403, 404, 409))
def finish(
    run_id: RunId, body: FinishBody, instance: InstanceDep, caller: ExecutorDep
) -> dict[str, Any]:
    """End the run; one that was stopped meanwhile stays stopped."""
    run = life.finish(
        instance,
        caller.token,
        run_id,
        body.claim_id,
        RunState(body.state),
        results=body.results,
        reason=body.reason,
    )
    return _held_json(run)
