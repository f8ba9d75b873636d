"""The answers about runs and for executors (see `shapes`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gitsync.run_records import RunKind, RunState
from gitsync.web.shapes import (
    BranchName,
    Count,
    DigestText,
    Moment,
    Plain,
    PlainText,
    Shape,
    ShaText,
    Shown,
)

Table = Annotated[Plain, Field(json_schema_extra={"type": "object"})]
Level = Literal["debug", "info", "warning", "error"]


class RunDataset(Shape):
    """The data set of a run."""

    id: str
    name: Shown


class Creator(Shape):
    """Who submitted a run."""

    id: str
    name: PlainText | None
    email: PlainText | None


class Run(Shape):
    """An evaluation or training run, pinned to a code version."""

    id: str = Field(examples=["run_7h3k9m2p4q6r8s1t"])
    name: str = Field(description="Unique in the workspace.", examples=["chess-eval-7gk2vd"])
    kind: RunKind
    state: RunState
    commit_sha: ShaText
    branch: BranchName | None = Field(description="As asked for; null: none was named.")
    rollout: Shown
    entrypoint: Shown
    digest: DigestText
    assessment: Table = Field(description="What the checker said when the run was submitted.")
    config_path: Shown | None = Field(description="The config of the commit that says the same.")
    model_path: PlainText
    dataset: RunDataset
    config: Table = Field(description="Sections as submitted; credentials are digests.")
    env: Table
    secret_scopes: Table = Field(description="Where each secret comes from.")
    provided_secrets: list[str] = Field(description="Names of those that came with the run.")
    created_by: Creator
    created_at: Moment
    started_at: Moment | None
    completed_at: Moment | None
    executor_token_id: str | None
    attempt: Count
    lease_expires_at: Moment | None
    results: Table | None
    reason: PlainText | None = Field(description="Why it failed.")
    current_step: int | None
    total_steps: int | None
    examples: int | None
    reward: float | None
    samples: Count
    log_entries: Count
    url: str


class RunLogEntry(Shape):
    """One entry of a log."""

    timestamp: Moment
    level: Level
    step: PlainText
    message: PlainText
    details: Table | None = None


class RunLogs(Shape):
    """A page of a log, oldest first; `next` leads to older entries."""

    items: list[RunLogEntry]
    total_count: Count
    has_more: bool
    next: str | None


class RunSample(Shape):
    """What one try of one row of the data set gave."""

    row_index: Count
    run_index: Count
    attempt: Count
    status: Literal["completed", "failed", "skipped"]
    reward: float | None
    tokens: int | None
    duration_ms: int | None
    error: PlainText | None
    details: Table | None
    recorded_at: Moment


# -- for executors --------------------------------------------------------------------------------


class ClaimedArtifact(Shape):
    """The code: a tar whose sha256 is the digest."""

    digest: DigestText
    size: Count
    url: str = Field(description="GET it with the same token.")


class ClaimedDataset(Shape):
    """The rows."""

    id: str
    name: Shown
    format: Literal["csv", "jsonl", "parquet"]
    size: Count
    digest: DigestText | None = Field(description="sha256 of the content.")
    row_count: int | None
    url: str = Field(description="GET it with the same token, while the run is held.")


class Claim(Shape):
    """A run and everything that is needed to carry it out."""

    claim_id: str = Field(description="Send it with everything that is said about the run.")
    lease_s: float = Field(description="Without a word for so long the run is given away.")
    run: Run
    workspace: str = Field(description="Its identity.", examples=["acme--local/rollouts"])
    workflow: PlainText | None = Field(examples=["main:EchoFlow"])
    grader: PlainText | None
    artifact: ClaimedArtifact
    dataset: ClaimedDataset
    config: Table = Field(description="As submitted, section by section.")
    env: Table = Field(description="Variables for the rollout.")
    secrets: Table = Field(description="More variables, with their secret values.")


class Claimed(Shape):
    """A claim, or null if nothing waits."""

    claim: Claim | None


class Held(Shape):
    """The run is still held."""

    stop: bool = Field(description="True: stop working on it.")
    state: RunState
    lease_expires_at: Moment | None


class LogsTaken(Held):
    """How many entries were new."""

    added: Count


class SamplesTaken(Held):
    """How many samples the run has now."""

    samples: Count
