"""Tables of what clients call a workspace, and of what they answered when they began."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, String, Table

from gitsync.store.tables import Moment, metadata

# Every identity a workspace has or had and did not release: one owner each, whatever its case.
identities = Table(
    "identities",
    metadata,
    Column("identity_key", String(160), primary_key=True),
    Column("identity", String(160), nullable=False),
    Column(
        "workspace_id",
        String(40),
        ForeignKey("workspaces.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column("taken_at", Moment, nullable=False),
)

quickstarts = Table(
    "quickstarts",
    metadata,
    Column(
        "workspace_id",
        String(40),
        ForeignKey("workspaces.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("intent", String(20), nullable=False),
    Column("user_id", String(40)),
    Column("completed_at", Moment, nullable=False),
)
