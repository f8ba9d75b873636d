"""What the store keeps about runs, as plain frozen values; times are aware UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class RunKind(StrEnum):
    """What a run does with a rollout."""

    EVAL = "eval"
    TRAINING = "training"


class RunState(StrEnum):
    """How far a run is; the words of the `osmosis` client."""

    PENDING = "pending"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def is_over(self) -> bool:
        """True if nothing happens to the run any more."""
        return self in {self.FINISHED, self.FAILED, self.STOPPED}


@dataclass(frozen=True, slots=True)
class Run:
    """An evaluation or training run, pinned to a code version for good."""

    number: int
    id: str
    workspace_id: str
    kind: RunKind
    name: str
    commit_sha: str
    version_id: int | None
    branch: str | None
    ref: str | None
    rollout: str
    entrypoint: str
    digest: str
    size: int
    assessment: dict[str, Any]
    config_path: str | None
    model_path: str
    dataset_id: str
    dataset_name: str
    config: dict[str, Any]
    env_config: dict[str, str]
    secret_scopes: dict[str, str]
    provided: tuple[str, ...]
    created_by: str
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    state: RunState
    executor_token_id: str | None
    claim_id: str | None
    attempt: int
    lease_expires_at: datetime | None
    stopped_by: str | None
    results: dict[str, Any] | None
    reason: str | None
    current_step: int | None
    total_steps: int | None
    examples: int | None
    reward: float | None
    samples: int
    log_entries: int


@dataclass(frozen=True, slots=True)
class RunLog:
    """One entry of a run's log; `sequence` is None for what the service itself says."""

    id: int
    attempt: int
    sequence: int | None
    timestamp: datetime
    level: str
    step: str
    message: str
    details: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class RunSample:
    """What one try of one row of the data set gave."""

    id: int
    row_index: int
    run_index: int
    attempt: int
    status: str
    reward: float | None
    tokens: int | None
    duration_ms: int | None
    error: str | None
    details: dict[str, Any] | None
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class RunMetric:
    """One value of a metric at one step."""

    key: str
    step: int
    title: str
    value: float
    timestamp: datetime
