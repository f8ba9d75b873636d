"""The table of rollouts by name: a rollout is its name in its workspace."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, String, Table, Text

from gitsync.store.tables import Moment, metadata

# When a name was first published; else each list would have to look through all versions.
rollout_names = Table(
    "rollout_names",
    metadata,
    Column(
        "workspace_id",
        String(40),
        ForeignKey("workspaces.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("name", Text, primary_key=True),
    Column("first_published_at", Moment, nullable=False),
)
