"""Tables of how workspaces begin: under which key one was asked for, and how far its making is."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text

from gitsync.store.tables import Json, Moment, metadata

# Who asked for a workspace under which Idempotency-Key, in the transaction that made it: the stored
# answer may be lost with the server, this is not.
creations = Table(
    "creations",
    metadata,
    Column(
        "workspace_id",
        String(40),
        ForeignKey("workspaces.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("user_id", String(40), nullable=False),
    Column("request_key", String(200), nullable=False),
    Column("body_hash", String(64), nullable=False),
    Column("sync_id", BigInteger),
    Column("created_at", Moment, nullable=False),
    sa.UniqueConstraint("user_id", "request_key"),
)

bootstraps = Table(
    "bootstraps",
    metadata,
    Column(
        "workspace_id",
        String(40),
        ForeignKey("workspaces.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("user_id", String(40), nullable=False),
    Column("state", String(20), nullable=False),  # reserved, written, done, yielded
    Column("starters", Json, nullable=False),
    Column("skills", Json),  # None: the default ones
    Column("parameters", Json, nullable=False),
    Column("branch", Text, nullable=False),  # full ref
    Column("message", Text, nullable=False),
    # fixed when the request is taken, so that a repeated step writes the same commit
    Column("author_name", Text, nullable=False),
    Column("author_email", Text, nullable=False),
    Column("author_time", BigInteger, nullable=False),
    Column("commit_sha", String(40)),
    Column("sync_id", BigInteger),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("boot", String(40), nullable=False),  # the start of the server that works on it
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Index("ix_bootstraps_state", "state"),
)
