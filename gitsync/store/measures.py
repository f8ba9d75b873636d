"""Numbers for metrics and pages, read from the rows."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.store import tables as t

_LATEST = 1000


def staleness(db: Connection, *, now: datetime) -> list[tuple[str, float, float | None]]:
    """For active workspaces: identity, seconds a look is owed, seconds since the last look."""
    rows = db.execute(
        sa.select(
            t.workspaces.c.identity, t.workspaces.c.owed_since, t.workspaces.c.last_look_at
        ).where(t.workspaces.c.state == "active")
    )
    return [
        (
            row.identity,
            0.0 if row.owed_since is None else max(0.0, (now - row.owed_since).total_seconds()),
            None if row.last_look_at is None else (now - row.last_look_at).total_seconds(),
        )
        for row in rows
    ]


def _by(db: Connection, column: sa.Column[str]) -> dict[str, int]:
    rows = db.execute(sa.select(column, sa.func.count()).group_by(column))
    return {value or "open": count for value, count in rows}


def deliveries(db: Connection) -> dict[str, int]:
    """Deliveries by outcome."""
    return _by(db, t.deliveries.c.outcome)


def syncs(db: Connection) -> dict[str, int]:
    """Syncs by outcome; those not ended are `open`."""
    return _by(db, t.syncs.c.outcome)


def steps(db: Connection) -> dict[str, tuple[float, int]]:
    """Seconds and number by step, over the latest syncs."""
    sums: dict[str, float] = defaultdict(float)
    numbers: dict[str, int] = defaultdict(int)
    rows = db.execute(sa.select(t.syncs.c.steps).order_by(t.syncs.c.id.desc()).limit(_LATEST))
    for found in rows.scalars():
        for step in found:
            sums[step["name"]] += step["ms"] / 1000
            numbers[step["name"]] += 1
    return {name: (sums[name], numbers[name]) for name in sums}


def counts(db: Connection) -> dict[str, int]:
    """How many rows of each kind there are."""
    kinds = {
        "workspaces": t.workspaces,
        "versions": t.versions,
        "artifacts": t.artifacts,
        "events": t.events,
        "users": t.users,
    }
    return {
        kind: db.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
        for kind, table in kinds.items()
    }
