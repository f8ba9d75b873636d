"""Tables of signing in: sessions of browsers, and devices that wait for their owner's consent.

Both hold hashes of secrets only. What a browser or a device says of itself is text from outside.
"""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, String, Table

from gitsync.store.tables import Moment, metadata

sessions = Table(
    "sessions",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("secret_hash", String(64), nullable=False, unique=True),
    Column(
        "user_id",
        String(40),
        ForeignKey("users.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column("how", String(20), nullable=False),  # link, password
    Column("agent", String(300), nullable=False),
    Column("address", String(80), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("seen_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),  # moves on with use
    Column("revoked_at", Moment),
    Index("ix_sessions_expires_at", "expires_at"),
)

device_logins = Table(
    "device_logins",
    metadata,
    Column("device_hash", String(64), primary_key=True),
    Column("user_code_hash", String(64), nullable=False, unique=True),
    Column("device_name", String(200), nullable=False),
    Column("agent", String(300), nullable=False),
    Column("address", String(80), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("interval_s", Integer, nullable=False),
    Column("polled_at", Moment),
    Column("state", String(20), nullable=False),  # pending, approved, denied, used
    Column("user_id", String(40), ForeignKey("users.id", ondelete="CASCADE"), index=True),
    Column("decided_at", Moment),
    Index("ix_device_logins_expires_at", "expires_at"),
)
