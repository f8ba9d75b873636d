"""The table of jobs: changes that gitsync itself makes to a workspace's repository."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text

from gitsync.store.tables import Id, Json, Moment, metadata

jobs = Table(
    "jobs",
    metadata,
    Column("id", Id, primary_key=True),
    Column(
        "workspace_id",
        String(40),
        ForeignKey("workspaces.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("request_key", String(64)),  # names one request of one caller; None: it had no key
    Column("requested_by", String(40)),
    Column("operation", Json, nullable=False),  # what was asked, whole
    Column("branch", Text),  # full ref that is to be made; None: the default branch moves
    Column("expected_sha", String(40)),  # zeros: there must be no commit yet
    Column("message", Text),  # None: the plan's summary
    Column("author", Json, nullable=False),  # {name, email, time, offset}, fixed here
    Column("state", String(20), nullable=False),  # open, done, failed
    Column("owner", String(40)),  # boot id of who works on it, until `expires_at`
    Column("expires_at", Moment),
    Column("not_before", Moment),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("target", Text),  # full ref that the commit is for
    Column("base_sha", String(40)),
    Column("commit_sha", String(40)),  # written, perhaps already at the remote
    Column("sync_id", BigInteger),
    Column("outcome", Json),
    Column("error", Json),  # {code, message, transient}
    Column("created_at", Moment, nullable=False),
    Column("finished_at", Moment),
    Index("uq_jobs_request", "workspace_id", "request_key", unique=True),
    Index("ix_jobs_state", "state"),
    Index("ix_jobs_workspace_id_id", "workspace_id", "id"),
)
