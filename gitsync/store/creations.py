"""Under which Idempotency-Key a workspace was asked for.

The stored answer of a request is lost if the server dies before it is written; this row is made
with the workspace, so the repeated request finds it instead of a name that is taken.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.errors import IdempotencyMismatch
from gitsync.store.bootstrap_tables import creations
from gitsync.store.rows import record

KEY_COUNTS = timedelta(hours=24)  # as for every other request (decision 33)


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks for a workspace under which key; `body_hash` tells requests apart."""

    user_id: str
    request_key: str
    body_hash: str

    @classmethod
    def under(cls, key: str | None, user_id: str, *body: object) -> Asked | None:
        """None without a key: such a request is never recognised."""
        if key is None:
            return None
        text = json.dumps(body, sort_keys=True)
        return cls(user_id, key, hashlib.sha256(text.encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class Creation:
    """What came of it."""

    workspace_id: str
    body_hash: str
    sync_id: int | None


def find_creation(db: Connection, asked: Asked, *, now: datetime) -> Creation | None:
    """The workspace that this very request made, or began to make."""
    row = db.execute(
        sa.select(creations).where(
            creations.c.user_id == asked.user_id,
            creations.c.request_key == asked.request_key,
            creations.c.created_at >= now - KEY_COUNTS,
        )
    ).first()
    if row is None:
        return None
    found = record(Creation, row)
    if found.body_hash != asked.body_hash:
        raise IdempotencyMismatch("This Idempotency-Key was used with another body.")
    return found


def add_creation(
    db: Connection, workspace_id: str, asked: Asked, *, sync_id: int | None = None, now: datetime
) -> None:
    """Remember it; a key too old to count is forgotten."""
    db.execute(
        creations.delete().where(
            creations.c.user_id == asked.user_id,
            creations.c.request_key == asked.request_key,
            creations.c.created_at < now - KEY_COUNTS,
        )
    )
    db.execute(
        creations.insert().values(
            workspace_id=workspace_id,
            user_id=asked.user_id,
            request_key=asked.request_key,
            body_hash=asked.body_hash,
            sync_id=sync_id,
            created_at=now,
        )
    )
