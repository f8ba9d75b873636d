"""Tables of runs: what was submitted, who carries it out, and what it said."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
)

from gitsync.store.tables import Id, Json, Moment, metadata

runs = Table(
    "runs",
    metadata,
    Column("number", Id, primary_key=True),  # grows: the order of lists
    Column("id", String(40), nullable=False, unique=True),
    Column(
        "workspace_id",
        String(40),
        ForeignKey("workspaces.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("kind", String(20), nullable=False),  # eval, training
    Column("name", String(80), nullable=False),
    # the code it is pinned to, for good
    Column("commit_sha", String(40), nullable=False),
    Column("version_id", Id, ForeignKey("versions.id", ondelete="SET NULL"), index=True),
    Column("branch", Text),  # as asked for: None for the default branch and for a pinned commit
    Column("ref", Text),  # the full ref that was resolved, None for a pinned commit
    Column("rollout", Text, nullable=False),
    Column("entrypoint", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("assessment", Json, nullable=False),  # what the checker said, and which checker
    Column("config_path", Text),  # the config of that commit that equals what was submitted
    # what it works with
    Column("model_path", Text, nullable=False),
    Column("dataset_id", String(40), nullable=False),
    Column("dataset_name", Text, nullable=False),
    Column("config", Json, nullable=False),  # sections as submitted, credentials digested
    Column("env_config", Json, nullable=False),
    Column("secret_scopes", Json, nullable=False),  # {NAME: workspace, user, user_override}
    Column("provided", Json, nullable=False),  # names of secrets that came with the run
    # who and when
    Column("created_by", String(40), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("started_at", Moment),
    Column("completed_at", Moment),
    # who carries it out
    Column("state", String(20), nullable=False),
    Column("executor_token_id", String(40)),
    Column("claim_id", String(40)),
    Column("claim_key", String(64)),  # repeats of one claim, told by their Idempotency-Key
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("lease_expires_at", Moment),  # by the database's clock
    Column("stopped_by", String(40)),
    Column("lonely_since", Moment),  # when the log said that no executor is there
    # what came of it
    Column("results", Json),
    Column("reason", Text),  # why it failed
    Column("current_step", BigInteger),
    Column("total_steps", BigInteger),
    Column("examples", BigInteger),
    Column("reward", Float),
    Column("samples", Integer, nullable=False, server_default="0"),
    Column("log_entries", Integer, nullable=False, server_default="0"),
    Column("all_rewarded", Boolean, nullable=False),
    sa.UniqueConstraint("workspace_id", "name"),
    # nobody but an executor brings a run beyond `pending`; to stop one is a person's act
    sa.CheckConstraint(
        "state IN ('pending', 'stopped') OR executor_token_id IS NOT NULL", name="executor"
    ),
    sa.CheckConstraint("state <> 'stopped' OR stopped_by IS NOT NULL", name="stopped_by"),
    Index("ix_runs_workspace_id_number", "workspace_id", "number"),
    Index("ix_runs_workspace_id_kind_number", "workspace_id", "kind", "number"),
    Index("ix_runs_workspace_id_rollout_number", "workspace_id", "rollout", "number"),
    Index("ix_runs_state_number", "state", "number"),
    Index("ix_runs_digest", "digest"),
    Index("ix_runs_dataset_id", "dataset_id"),
    # one claim is one run, even if it is repeated at the same moment
    Index(
        "uq_runs_claim_key",
        "executor_token_id",
        "claim_key",
        unique=True,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    ),
    sqlite_autoincrement=True,  # a number must never come back: cursors hold it
)

# What only the executor that holds the run may see; gone when the run ends.
run_vaults = Table(
    "run_vaults",
    metadata,
    Column("run_number", Id, ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
    Column("run_id", String(40), nullable=False, unique=True),
    Column("sealed", Text, nullable=False),
)

run_logs = Table(
    "run_logs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("run_number", Id, ForeignKey("runs.number", ondelete="CASCADE"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("sequence", BigInteger),  # the executor's own count; None for what the service says
    Column("timestamp", Moment, nullable=False),
    Column("level", String(20), nullable=False),
    Column("step", String(80), nullable=False),
    Column("message", Text, nullable=False),
    Column("details", Json),
    sa.UniqueConstraint("run_number", "attempt", "sequence", name="uq_run_logs_sequence"),
    Index("ix_run_logs_run_number_id", "run_number", "id"),
)

run_samples = Table(
    "run_samples",
    metadata,
    Column("id", Id, primary_key=True),
    Column("run_number", Id, ForeignKey("runs.number", ondelete="CASCADE"), nullable=False),
    Column("row_index", Integer, nullable=False),
    Column("run_index", Integer, nullable=False),  # which of the `n` tries of the row
    Column("attempt", Integer, nullable=False),
    Column("status", String(20), nullable=False),  # completed, failed, skipped
    Column("reward", Float),
    Column("tokens", BigInteger),
    Column("duration_ms", BigInteger),
    Column("error", Text),
    Column("details", Json),
    Column("recorded_at", Moment, nullable=False),
    sa.UniqueConstraint("run_number", "row_index", "run_index", name="uq_run_samples_place"),
)

run_metrics = Table(
    "run_metrics",
    metadata,
    Column("run_number", Id, ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
    Column("key", String(200), primary_key=True),
    Column("step", BigInteger, primary_key=True),
    Column("title", String(200), nullable=False),
    Column("value", Float, nullable=False),
    Column("timestamp", Moment, nullable=False),
)

# Who was here lately to carry out runs; a hint for people, no promise.
executors = Table(
    "executors",
    metadata,
    Column("token_id", String(40), ForeignKey("tokens.id", ondelete="CASCADE"), primary_key=True),
    Column("kind", String(20), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("seen_at", Moment, nullable=False),  # by the database's clock
)
