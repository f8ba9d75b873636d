"""What becomes of a run: claimed, kept by heartbeats, lost, finished or stopped.

Promise: one executor holds a run at a time, and what another one says of it changes nothing. A run
whose executor is gone waits again, a bounded number of times. Secrets leave only with a claim, and
those that came with the run are gone when it ends.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from gitsync.data_records import Dataset, DatasetState
from gitsync.errors import ConfigError, Conflict, Forbidden, InvalidInput, NotFound
from gitsync.instance import Instance
from gitsync.records import Token, User, Workspace
from gitsync.run_records import Run, RunKind, RunState
from gitsync.store import (
    Connection,
    RowExists,
    datasets,
    events,
    people,
    run_life,
    run_output,
    runs,
    secrets,
    workspaces,
)
from gitsync.store.run_life import ClaimLost
from gitsync.text import printable, storable

log = logging.getLogger(__name__)

KINDS = ("eval", "training")
MOST_RESULTS = 64 * 1024
_BATCH = 50


class RunNotStoppable(Conflict):
    """The run is over already."""

    code = "RUN_NOT_STOPPABLE"


@dataclass(frozen=True, slots=True)
class Claimed:
    """Everything an executor needs to carry a run out. `repr` shows no secret."""

    run: Run
    workspace: Workspace
    dataset: Dataset
    document: dict[str, Any]
    secrets: dict[str, str]

    def __repr__(self) -> str:
        return f"Claimed({self.run.name})"


class _Unfit(Exception):
    """Why a run cannot be carried out any more."""


def executor_window(instance: Instance) -> float:
    """An executor that was not heard of for so many seconds does not count as there."""
    return 1.5 * instance.settings.executor_lease_s


def allowed_kinds(token: Token, wanted: Sequence[str]) -> list[str]:
    """The kinds a claim is for; `Forbidden` if the token may not carry out one of them."""
    if token.role != "executor":
        raise Forbidden("Only a machine token with the role executor carries out runs.")
    kinds = list(dict.fromkeys(wanted))
    denied = [kind for kind in kinds if token.kinds is not None and kind not in token.kinds]
    if denied:
        raise Forbidden(f"This token may not carry out {', '.join(denied)} runs.")
    return kinds


# -- claiming -------------------------------------------------------------------------------------


def note_presence(instance: Instance, token: Token, kinds: Sequence[str], *, name: str) -> None:
    """This executor is there; a hint that needs no fsync, and that another may give as well."""
    with suppress(RowExists), instance.database.write(durable=False) as db:
        run_life.note_executor(db, token.id, kinds, name=storable(name, limit=200))


def claim(
    instance: Instance, token: Token, *, kinds: Sequence[str], key: str | None, name: str
) -> Claimed | None:
    """The oldest waiting run for this executor; None if there is none.

    A repeat with the same `key` gives the same run as long as it is held.
    """
    if key is not None:
        # reading only: each commit wakes whoever waits for a run, which would be this one again
        with instance.database.read() as db:
            is_repeat = run_life.claimed_before(db, token.id, key) is not None
        if is_repeat:
            with instance.database.write() as db:
                before = run_life.claimed_before(db, token.id, key)
                if before is not None:
                    return _fit(db, instance, before)
    take_back_lost(instance)
    with instance.database.read() as db:
        found = run_life.waiting(db, kinds=kinds, workspaces=token.workspaces)
    for run in found:
        try:
            contents = _claim_one(instance, token, run, key=key, name=name)
        except ConfigError as e:  # a key is missing, or the row is damaged: others can go on
            log.error("run cannot be given out run=%s reason=%s", run.id, e.message)
            continue
        if contents is not None:
            return contents
    return None


def _claim_one(
    instance: Instance, token: Token, run: Run, *, key: str | None, name: str
) -> Claimed | None:
    with instance.database.write() as db:
        if key is not None and (before := run_life.claimed_before(db, token.id, key)):
            return _fit(db, instance, before)  # the same request came twice at once
        held = run_life.claim(
            db,
            run,
            token_id=token.id,
            key=key,
            lease_s=instance.settings.executor_lease_s,
            now=instance.now(),
        )
        return None if held is None else _begin(db, instance, held, name)


def _begin(db: Connection, instance: Instance, run: Run, name: str) -> Claimed | None:
    now = instance.now()
    contents = _fit(db, instance, run)
    if contents is None:
        return None
    if run.results is None and run.kind is RunKind.EVAL:
        run_output.note_samples(db, run, _planned(contents))
    run_output.add_log(
        db,
        run,
        "info",
        "claim",
        f"Executor {printable(name, limit=100)} carries out the run"
        + (f", attempt {run.attempt}." if run.attempt > 1 else "."),
        now=now,
        details={"executor_token_id": run.executor_token_id, "attempt": run.attempt},
    )
    _tell(db, instance, "run.started", run)
    return contents


def _fit(db: Connection, instance: Instance, run: Run) -> Claimed | None:
    """The same; None if something of it is gone, and the run has failed for that."""
    try:
        return _contents(db, instance, run)
    except _Unfit as e:
        _end(db, instance, run, RunState.FAILED, reason=str(e))
        return None


def _contents(db: Connection, instance: Instance, run: Run) -> Claimed:
    dataset = datasets.get_dataset(db, run.dataset_id)
    if dataset is None or dataset.state is not DatasetState.UPLOADED or dataset.object_key is None:
        raise _Unfit(f"The data set {run.dataset_name} was deleted after the run was submitted.")
    hidden: dict[str, Any] = {}
    sealed = runs.find_vault(db, run)
    if sealed is not None:
        hidden = json.loads(instance.sealer.open(sealed, runs.vault_place(run.id)))
    values = secrets.open_secrets(
        db, instance.sealer, run.workspace_id, run.created_by, run.secret_scopes
    )
    gone = sorted(run.secret_scopes.keys() - values.keys())
    if gone:
        raise _Unfit(f"Deleted after the run was submitted: secret(s) {', '.join(gone)}.")
    shown = {**run.config, **({"env": run.env_config} if run.env_config else {})}
    return Claimed(
        run=run,
        workspace=workspaces.get_workspace(db, run.workspace_id),
        dataset=dataset,
        document=hidden.get("document", shown),
        secrets=values | hidden.get("provided", {}),
    )


def _planned(contents: Claimed) -> dict[str, Any]:
    """What is known of the size of the run before its first sample."""
    rows = contents.dataset.row_count
    found: dict[str, Any] = {"total_runs": 0, "skipped": 0}
    if rows is not None:
        limit = contents.document.get("evaluation", {}).get("limit")
        is_limited = isinstance(limit, int) and 0 < limit < rows
        found |= {"total_dataset_rows": rows, "sampled_rows": limit if is_limited else rows}
    return found


# -- while it runs --------------------------------------------------------------------------------


def held(db: Connection, instance: Instance, token: Token, run_id: str, claim_id: str) -> Run:
    """First statement of each write of an executor; it counts as a heartbeat."""
    run = _reachable(db, token, run_id)
    run_life.touch_executor(db, token.id)
    return run_life.hold(
        db,
        run.id,
        claim_id,
        token_id=token.id,
        renew_s=instance.settings.executor_lease_s,
    )


def held_by(db: Connection, token: Token, run_id: str) -> Run:
    """The run, if this executor holds it."""
    run = _reachable(db, token, run_id)
    if run.state is not RunState.RUNNING or run.executor_token_id != token.id:
        raise ClaimLost("This executor does not hold the run.")
    return run


def _reachable(db: Connection, token: Token, run_id: str) -> Run:
    run = runs.get_run(db, run_id)
    allowed_kinds(token, [])
    if run.workspace_id not in token.workspaces or not run_life.kinds_of(token, [run.kind.value]):
        raise NotFound("There is no such run.")
    return run


def heartbeat(instance: Instance, token: Token, run_id: str, claim_id: str, **progress: Any) -> Run:
    """Keep the run; the caller looks at its state to see whether it was stopped."""
    with instance.database.write(durable=False) as db:
        run = held(db, instance, token, run_id, claim_id)
        given = {key: value for key, value in progress.items() if value is not None}
        return run_life.set_progress(db, run, **given) if given else run


def finish(
    instance: Instance,
    token: Token,
    run_id: str,
    claim_id: str,
    state: RunState,
    *,
    results: dict[str, Any] | None,
    reason: str | None,
) -> Run:
    """End the run; to say it again changes nothing, and a stopped run stays stopped."""
    if state not in (RunState.FINISHED, RunState.FAILED):
        raise InvalidInput("state must be finished or failed.", field="state")
    if results is not None and len(json.dumps(results)) > MOST_RESULTS:
        raise InvalidInput(f"results has more than {MOST_RESULTS} bytes.", field="results")
    with instance.database.write() as db:
        run = _reachable(db, token, run_id)
        is_ours = run.claim_id == claim_id and run.executor_token_id == token.id
        if is_ours and run.state.is_over:
            run_life.release(db, run)
            return run
        run = run_life.hold(db, run_id, claim_id, token_id=token.id)
        if run.state.is_over:  # somebody stopped it between the two statements (PostgreSQL)
            run_life.release(db, run)
            return run
        reason = None if state is RunState.FINISHED else reason or "The executor gave no reason."
        return _end(db, instance, run, state, reason=reason, said=results) or runs.get_run(
            db, run_id
        )


def threshold_of(run: Run) -> float:
    """The reward from which a sample passes."""
    value = run.config.get("evaluation", {}).get("pass_threshold", 1.0)
    return float(value) if isinstance(value, int | float) else 1.0


def _end(
    db: Connection,
    instance: Instance,
    run: Run,
    state: RunState,
    *,
    reason: str | None = None,
    said: dict[str, Any] | None = None,
    **values: Any,
) -> Run | None:
    """The last state, what the samples come to, and no more secrets."""
    now = instance.now()
    results = (run.results or {}) | (said or {})
    sums = run_output.sums(db, run, threshold=threshold_of(run))
    if sums is not None:
        stats = sums["reward_stats"]
        at_k = {str(point["k"]): point["value"] for point in sums["pass_at_k"]}
        results |= run_output.progress(db, run, threshold=threshold_of(run))
        results["reward_stats"] = None if stats is None else {**stats, "pass_at_k": at_k or None}
    is_rewarded = state is RunState.FINISHED and run_output.is_all_rewarded(db, run)
    ended = run_life.end(
        db,
        run,
        state,
        now=now,
        results=results or None,
        reason=None if reason is None else storable(reason, limit=4000),
        all_rewarded=is_rewarded,
        **values,
    )
    if ended is None:
        return None
    runs.let_go(db, ended)
    if state is RunState.FINISHED:
        run_output.add_log(db, ended, "info", "finish", "The run is finished.", now=now)
    elif state is RunState.FAILED:
        run_output.add_log(db, ended, "error", "finish", f"The run failed. {reason}", now=now)
    _tell(db, instance, f"run.{state.value}", ended)
    return ended


def stop(instance: Instance, run: Run, *, by: User) -> Run:
    """End a run because a person says so; its executor is told at its next heartbeat."""
    with instance.database.write() as db:
        current, stopped = runs.lock_run(db, run.id), None
        if not current.state.is_over:
            stopped = _end(db, instance, current, RunState.STOPPED, stopped_by=by.id)
        if stopped is None:
            raise RunNotStoppable(
                f"The run {run.name} cannot be stopped: it is {current.state.value}.",
                state=current.state.value,
            )
        told = " Its executor is told at its next heartbeat." if current.claim_id else ""
        run_output.add_log(
            db,
            stopped,
            "warning",
            "stop",
            f"Stopped by {printable(by.name, limit=100)}.{told}",
            now=instance.now(),
        )
        return runs.get_run(db, run.id)


# -- what nobody asks for -------------------------------------------------------------------------


def take_back_lost(instance: Instance) -> int:
    """Runs whose executor fell silent wait again, or fail after too many of them; how many."""
    with instance.database.read() as db:
        found = run_life.lost(db, limit=_BATCH)
    done = 0
    for run in found:
        with instance.database.write() as db:
            done += _take_back(db, instance, run)
    return done


def give_back(instance: Instance, run: Run) -> None:
    """The executor left before it heard of its claim: the run waits as if nothing had been."""
    with instance.database.write() as db:
        if run_life.take_back(db, run, is_unheard=True):
            run_output.add_log(
                db,
                run,
                "info",
                "claim",
                "The executor left before it got the run, which waits for another one.",
                now=instance.now(),
            )


def _take_back(db: Connection, instance: Instance, run: Run) -> bool:
    most, lease_s = instance.settings.run_attempts, instance.settings.executor_lease_s
    silent = f"Its executor was not heard of for {lease_s:g} seconds"
    if not run_life.is_lost(db, run):
        return False
    if run.attempt >= most:
        reason = f"{silent}, in attempt {run.attempt} of {most}."
        return _end(db, instance, run, RunState.FAILED, reason=reason) is not None
    if not run_life.take_back(db, run):
        return False
    run_output.add_log(
        db,
        run,
        "warning",
        "claim",
        f"{silent}; the run waits for another one (attempt {run.attempt} of {most}).",
        now=instance.now(),
    )
    _tell(db, instance, "run.lost", run)
    return True


def tell_lonely(instance: Instance) -> int:
    """Say in the log of waiting runs that no executor is there; once per wait."""
    now = instance.now()
    window = executor_window(instance)
    with instance.database.read() as db:
        found = [
            run
            for run in run_life.lonely(db, before=now - timedelta(seconds=window))
            if not run_life.is_anybody_there(db, run.workspace_id, run.kind.value, within_s=window)
        ]
    for run in found:
        with instance.database.write() as db:
            if runs.get_run(db, run.id).state is RunState.PENDING:
                say_lonely(db, run, instance=instance)
    return len(found)


def say_lonely(db: Connection, run: Run, *, instance: Instance) -> None:
    """The log says that the run waits for an executor that is not there."""
    now = instance.now()
    run_output.add_log(
        db,
        run,
        "warning",
        "queue",
        f"No executor for {run.kind.value} runs of this workspace is connected. The run waits; "
        "start one (see docs/executors.md of gitsync).",
        now=now,
    )
    run_life.note_lonely(db, run, now=now)


def presence(instance: Instance) -> dict[str, int]:
    """How many executors are there, by kind."""
    with instance.database.read() as db:
        found = run_life.present(db, within_s=executor_window(instance))
    return {kind: found.get(kind, 0) for kind in KINDS}


def executor_name(db: Connection, run: Run) -> str | None:
    """The name of the token that carries the run out, or did."""
    if run.executor_token_id is None:
        return None
    return people.get_token(db, run.executor_token_id).name


def _tell(db: Connection, instance: Instance, kind: str, run: Run) -> None:
    data = {"run": run.id, "name": run.name, "kind": run.kind.value, "state": run.state.value}
    events.add_event(db, kind, data, workspace_id=run.workspace_id, now=instance.now())


# run by the engine like `upkeep.JOBS`
JOBS = (("take_back_lost_runs", 5.0, take_back_lost), ("tell_lonely_runs", 15.0, tell_lonely))

__all__ = ["ClaimLost", "Claimed", "RunNotStoppable", "claim", "finish", "heartbeat", "stop"]
