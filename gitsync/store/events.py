"""Events: what happened, with ids that grow in commit order (decision 34)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.records import Event
from gitsync.store.rows import record
from gitsync.store.tables import events


def add_event(
    db: Connection, type: str, data: dict[str, Any], *, workspace_id: str | None, now: datetime
) -> None:
    """Add one event to the running write transaction.

    On PostgreSQL the first event of a transaction takes a lock that lasts to its end, so that ids
    become visible in order.
    """
    if db.dialect.name == "postgresql":
        db.exec_driver_sql("SELECT pg_advisory_xact_lock(4711001)")
    db.execute(
        events.insert().values(workspace_id=workspace_id, type=type, data=data, created_at=now)
    )


def events_after(
    db: Connection, after: int, *, workspaces: Sequence[str] | None, limit: int
) -> list[Event]:
    """Events with a larger id, oldest first; `workspaces` None means all."""
    query = sa.select(events).where(events.c.id > after)
    if workspaces is not None:
        query = query.where(events.c.workspace_id.in_(list(workspaces)))
    return [record(Event, row) for row in db.execute(query.order_by(events.c.id).limit(limit))]


def latest_events(db: Connection, *, limit: int) -> list[Event]:
    """The newest events, oldest first."""
    query = sa.select(events).order_by(events.c.id.desc()).limit(limit)
    return [record(Event, row) for row in db.execute(query)][::-1]


def last_event_id(db: Connection) -> int:
    """The newest id, 0 if there is none."""
    return int(db.execute(sa.select(sa.func.coalesce(sa.func.max(events.c.id), 0))).scalar_one())


def first_event_id(db: Connection) -> int:
    """The oldest id still kept, 0 if there is none."""
    return int(db.execute(sa.select(sa.func.coalesce(sa.func.min(events.c.id), 0))).scalar_one())


def drop_events(db: Connection, *, before: datetime) -> int:
    """Forget old events; the newest one stays so that ids go on from it."""
    newest = last_event_id(db)
    return db.execute(
        events.delete().where(events.c.created_at < before, events.c.id < newest)
    ).rowcount
