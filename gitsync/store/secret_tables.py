"""The table of secrets that runs get as environment variables."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, String, Table, Text

from gitsync.store.tables import Moment, metadata

environment_secrets = Table(
    "secrets",
    metadata,
    Column("id", String(40), primary_key=True),
    Column(
        "workspace_id",
        String(40),
        ForeignKey("workspaces.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("owner", String(40), nullable=False),  # a user's id, or empty: the whole workspace's
    Column("name", String(255), nullable=False),
    Column("sealed", Text, nullable=False),
    Column("created_by", String(40)),
    Column("created_at", Moment, nullable=False),
    Column("updated_by", String(40)),
    Column("updated_at", Moment, nullable=False),
    sa.UniqueConstraint("workspace_id", "owner", "name"),
)
