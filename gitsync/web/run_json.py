"""Runs as JSON: the forms that the `osmosis` client reads, and those of the service's own API."""

from __future__ import annotations

from typing import Any

from gitsync.instance import Instance
from gitsync.run_records import Run, RunKind, RunLog, RunMetric, RunSample
from gitsync.text import printable
from gitsync.web.wire import when

type People = dict[str, tuple[str, str]]


def run_url(instance: Instance, run: Run) -> str:
    """The page of a run."""
    return f"{instance.settings.url}/workspaces/{run.workspace_id}/runs/{run.name}"


def artifact_url(instance: Instance, run: Run) -> str:
    """Where the code of a run is."""
    return (
        f"{instance.settings.url}/api/v1/workspaces/{run.workspace_id}/artifacts/{run.digest}.tar"
    )


def log_json(entry: RunLog) -> dict[str, Any]:
    """A log entry; its text is escaped where it is shown."""
    shown: dict[str, Any] = {
        "timestamp": when(entry.timestamp),
        "level": entry.level,
        "step": entry.step,
        "message": entry.message,
    }
    if entry.details is not None:
        shown["details"] = entry.details
    return shown


# -- for the osmosis client -----------------------------------------------------------------------


def _head(instance: Instance, run: Run, people: People) -> dict[str, Any]:
    name, email = people.get(run.created_by, (None, None))
    shown: dict[str, Any] = {
        "id": run.id,
        "name": run.name,
        "status": run.state.value,
        "created_at": when(run.created_at),
        "started_at": when(run.started_at),
        "completed_at": when(run.completed_at),
        "creator_name": name,
        "creator_email": email,
        "platform_url": run_url(instance, run),
    }
    if run.kind is RunKind.TRAINING:
        shown |= {
            "current_step": run.current_step,
            "total_steps": run.total_steps,
            "reward": run.reward,
        }
    return shown


def submitted_json(instance: Instance, run: Run) -> dict[str, Any]:
    """The answer to a submit."""
    shown = _head(instance, run, {})
    return {key: shown[key] for key in ("id", "name", "status", "created_at", "platform_url")}


def cli_row(instance: Instance, run: Run, people: People) -> dict[str, Any]:
    """A row of `osmosis eval list` or `osmosis train list`; their key names differ."""
    head = _head(instance, run, people)
    if run.kind is RunKind.EVAL:
        return head | {
            "model": {"name": run.model_path},
            "dataset": {"id": run.dataset_id, "name": run.dataset_name},
            "rollout": {"name": printable(run.rollout)},
            "results": run.results,
            "config": cli_config(run),
        }
    return head | {
        "model": {"id": None, "model_name": run.model_path},
        "dataset": {"id": run.dataset_id, "file_name": run.dataset_name},
        "rollout": {"id": None, "name": printable(run.rollout)},
    }


def cli_detail(instance: Instance, run: Run, people: People) -> dict[str, Any]:
    """`osmosis eval info` or `osmosis train info`."""
    head = _head(instance, run, people)
    shown: dict[str, Any] = {
        "dataset": {"id": run.dataset_id, "name": run.dataset_name},
        "rollout": {"id": None, "name": printable(run.rollout)},
        "config": cli_config(run),
        "entrypoint": printable(run.entrypoint),
        "branch": None if run.branch is None else printable(run.branch),
        "commit_sha": run.commit_sha,
        "env_config": run.env_config,
        "resolved_secret_scopes": run.secret_scopes,
        "is_internal_user": False,
    }
    if run.kind is RunKind.EVAL:
        return {"eval_run": head, **shown, "results": run.results}
    head |= {"examples_processed_count": run.examples, "notes": run.reason}
    return {
        "training_run": head,
        **shown,
        "model": {"id": None, "name": run.model_path},
        "results": run.results,
    }


def cli_config(run: Run) -> dict[str, Any]:
    """The settings of a run in one flat object, as the client shows them."""
    config: dict[str, Any] = {"model_path": run.model_path}
    for section in ("evaluation", "training", "sampling", "checkpoints", "advanced"):
        config |= run.config.get(section, {})
    return config


def _duration_ms(run: Run) -> int | None:
    if run.started_at is None or run.completed_at is None:
        return None
    return round((run.completed_at - run.started_at).total_seconds() * 1000)


def eval_metrics(run: Run, sums: dict[str, Any]) -> dict[str, Any]:
    """What `osmosis eval info` saves beside the run."""
    names = (
        "total_samples",
        "completed_samples",
        "graded",
        "passed",
        "failed",
        "skipped",
        "pass_rate",
        "pass_threshold",
        "tokens_used",
    )
    return {
        "status": run.state.value,
        "overview": {"duration_ms": _duration_ms(run), **{name: sums[name] for name in names}},
        "reward_stats": sums["reward_stats"],
        "pass_at_k": sums["pass_at_k"],
    }


def training_metrics(run: Run, found: list[RunMetric]) -> dict[str, Any]:
    """What `osmosis train info` draws; the values come by metric and step."""
    series: dict[str, list[RunMetric]] = {}
    for metric in found:
        series.setdefault(metric.key, []).append(metric)
    return {
        "status": run.state.value,
        "overview": {
            "duration_ms": _duration_ms(run),
            "metric_summaries": [_summary(points) for points in series.values()],
            "examples_processed_count": run.examples,
            "latest_step": run.current_step,
            "total_steps": run.total_steps,
        },
        "metrics": [
            {
                "metric_key": key,
                "title": points[-1].title,
                "data_points": [
                    {
                        "step": point.step,
                        "value": point.value,
                        "timestamp": round(point.timestamp.timestamp() * 1000),
                    }
                    for point in points
                ],
            }
            for key, points in series.items()
        ],
    }


def _summary(points: list[RunMetric]) -> dict[str, Any]:
    values = [point.value for point in points]
    return {
        "key": points[0].key,
        "title": points[-1].title,
        "initial": values[0],
        "latest": values[-1],
        "delta": values[-1] - values[0],
        "min": min(values),
        "max": max(values),
    }


# -- for our own API ------------------------------------------------------------------------------


def run_json(instance: Instance, run: Run, people: People) -> dict[str, Any]:
    """A run as its workspace sees it; nothing in it is secret."""
    name, email = people.get(run.created_by, (None, None))
    return {
        "id": run.id,
        "name": run.name,
        "kind": run.kind.value,
        "state": run.state.value,
        "commit_sha": run.commit_sha,
        "branch": run.branch,
        "rollout": run.rollout,
        "entrypoint": run.entrypoint,
        "digest": run.digest,
        "assessment": run.assessment,
        "config_path": run.config_path,
        "model_path": run.model_path,
        "dataset": {"id": run.dataset_id, "name": run.dataset_name},
        "config": run.config,
        "env": run.env_config,
        "secret_scopes": run.secret_scopes,
        "provided_secrets": list(run.provided),
        "created_by": {"id": run.created_by, "name": name, "email": email},
        "created_at": when(run.created_at),
        "started_at": when(run.started_at),
        "completed_at": when(run.completed_at),
        "executor_token_id": run.executor_token_id,
        "attempt": run.attempt,
        "lease_expires_at": when(run.lease_expires_at),
        "results": run.results,
        "reason": run.reason,
        "current_step": run.current_step,
        "total_steps": run.total_steps,
        "examples": run.examples,
        "reward": run.reward,
        "samples": run.samples,
        "log_entries": run.log_entries,
        "url": run_url(instance, run),
    }


def sample_json(sample: RunSample) -> dict[str, Any]:
    """What one try of one row gave."""
    return {
        "row_index": sample.row_index,
        "run_index": sample.run_index,
        "attempt": sample.attempt,
        "status": sample.status,
        "reward": sample.reward,
        "tokens": sample.tokens,
        "duration_ms": sample.duration_ms,
        "error": sample.error,
        "details": sample.details,
        "recorded_at": when(sample.recorded_at),
    }
