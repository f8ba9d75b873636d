"""What executors say while a run goes on: log entries, samples, metrics.

Promise: to say it again changes nothing, so that an executor may repeat after any failure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gitsync.errors import Conflict, InvalidInput
from gitsync.instance import Instance
from gitsync.records import Token
from gitsync.run_records import Run
from gitsync.runs.life import held, threshold_of
from gitsync.store import run_life, run_output

MOST_LOG_ENTRIES = 200_000
MOST_SAMPLES = 200_000  # all are looked at when the run ends
MOST_METRICS = run_output.MOST_METRICS
MOST_DETAILS = 16 * 1024


class RunLogFull(Conflict):
    """The log of this run takes no more."""

    code = "RUN_LOG_FULL"


class RunOutputFull(Conflict):
    """The run has as many samples or values of metrics as are kept."""

    code = "RUN_OUTPUT_FULL"


def append_logs(
    instance: Instance,
    token: Token,
    run_id: str,
    claim_id: str,
    entries: Sequence[dict[str, Any]],
) -> tuple[Run, int]:
    """The run, and how many of the entries were new."""
    _check_details("entries", entries)
    with instance.database.write() as db:
        run = held(db, instance, token, run_id, claim_id)
        if run.log_entries + len(entries) > MOST_LOG_ENTRIES:
            raise RunLogFull(f"The log of a run has at most {MOST_LOG_ENTRIES} entries.")
        return run, run_output.append_logs(db, run, entries, now=instance.now())


def put_samples(
    instance: Instance,
    token: Token,
    run_id: str,
    claim_id: str,
    samples: Sequence[dict[str, Any]],
) -> tuple[Run, int]:
    """The run, and how many samples it has now; lists show the progress at once."""
    _check_details("samples", samples)
    with instance.database.write() as db:
        run = held(db, instance, token, run_id, claim_id)
        run_output.put_samples(db, run, samples, now=instance.now())
        progress = run_output.progress(db, run, threshold=threshold_of(run))
        if progress["total_runs"] + progress["skipped"] > MOST_SAMPLES:
            raise RunOutputFull(f"A run has at most {MOST_SAMPLES} samples.")
        run_output.note_samples(db, run, {**(run.results or {}), **progress})
        return run, int(progress["total_runs"] + progress["skipped"])


def put_metrics(
    instance: Instance,
    token: Token,
    run_id: str,
    claim_id: str,
    metrics: Sequence[dict[str, Any]],
) -> Run:
    """Values by metric and step; the metric `reward` is what lists show as the run's reward."""
    with instance.database.write() as db:
        run = held(db, instance, token, run_id, claim_id)
        run_output.put_metrics(
            db, run, [m | {"timestamp": m["timestamp"] or instance.now()} for m in metrics]
        )
        if run_output.count_metrics(db, run) > MOST_METRICS:
            raise RunOutputFull(f"A run has at most {MOST_METRICS} values of metrics.")
        progress: dict[str, Any] = {
            "current_step": max([run.current_step or 0, *(m["step"] for m in metrics)])
        }
        rewards = [m for m in metrics if m["key"] == "reward"]
        if rewards:
            progress["reward"] = max(rewards, key=lambda m: int(m["step"]))["value"]
        return run_life.set_progress(db, run, **progress)


def _check_details(where: str, items: Sequence[dict[str, Any]]) -> None:
    for number, item in enumerate(items):
        if item["details"] is not None and len(json.dumps(item["details"])) > MOST_DETAILS:
            field = f"{where}.{number}.details"
            raise InvalidInput(f"{field} has more than {MOST_DETAILS} bytes.", field=field)
