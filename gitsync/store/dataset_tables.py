"""Tables of data sets: every upload is a row of its own, whose content never changes."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, String, Table, Text

from gitsync.store.tables import Id, Json, Moment, metadata

datasets = Table(
    "datasets",
    metadata,
    Column("seq", Id, primary_key=True),
    Column("id", String(40), nullable=False, unique=True),
    Column(
        "workspace_id",
        String(40),
        ForeignKey("workspaces.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("name", String(255), nullable=False),
    # the name if this is the upload people mean by it, else None: the unique key of a name
    Column("shown_name", String(255)),
    Column("state", String(20), nullable=False),
    Column("format", String(20), nullable=False),  # csv, jsonl, parquet
    Column("size", BigInteger, nullable=False),  # announced, and true once uploaded
    Column("method", String(20), nullable=False),  # simple, multipart
    Column("part_size", BigInteger, nullable=False),
    Column("total_parts", Integer, nullable=False),
    Column("replaces", String(40)),  # the upload this one takes the name from
    Column("object_key", Text),
    Column("digest", String(64)),  # sha256 of the content
    Column("row_count", BigInteger),
    Column("preview", Json),
    Column("error", Json),  # {code, message, issues}
    Column("created_by", String(40)),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),  # an upload that is not complete by then ends
    Column("deleted_at", Moment),
    Column("is_swept", Boolean, nullable=False),  # nothing of it is in the store any more
    # who checks it now; all by the database's clock
    Column("owner", String(40)),
    Column("due_at", Moment),
    Column("attempts", Integer, nullable=False),
    sa.UniqueConstraint("workspace_id", "shown_name"),
    Index("ix_datasets_workspace_id_name", "workspace_id", "name"),
    Index("ix_datasets_state_due_at", "state", "due_at"),
    Index("ix_datasets_is_swept", "is_swept", "state"),
)

dataset_parts = Table(
    "dataset_parts",
    metadata,
    Column(
        "dataset_id", String(40), ForeignKey("datasets.id", ondelete="CASCADE"), primary_key=True
    ),
    Column("number", Integer, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("etag", String(80), nullable=False),
    Column("received_at", Moment, nullable=False),
)

dataset_logs = Table(
    "dataset_logs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("dataset_id", String(40), ForeignKey("datasets.id", ondelete="CASCADE"), nullable=False),
    Column("at", Moment, nullable=False),
    Column("level", String(20), nullable=False),  # info, warning, error
    Column("step", String(40), nullable=False),
    Column("message", Text, nullable=False),
    Column("details", Json),
    Index("ix_dataset_logs_dataset_id_id", "dataset_id", "id"),
)
