"""What keeps versions: pins and leases; versions that nothing keeps."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.errors import NotFound
from gitsync.store.tables import branches, leases, pins, versions


def put_pin(
    db: Connection,
    version_id: int,
    name: str,
    *,
    owner: str | None,
    reason: str,
    expires_at: datetime | None,
    now: datetime,
) -> None:
    """Create or change a pin: the version is kept while the pin lasts."""
    values = {"owner": owner, "reason": reason, "expires_at": expires_at}
    changed = db.execute(
        pins.update().where(pins.c.version_id == version_id, pins.c.name == name).values(**values)
    )
    if changed.rowcount == 0:
        db.execute(pins.insert().values(version_id=version_id, name=name, created_at=now, **values))


def drop_pin(db: Connection, version_id: int, name: str) -> None:
    """Remove a pin; `NotFound` if there is none."""
    changed = db.execute(pins.delete().where(pins.c.version_id == version_id, pins.c.name == name))
    if changed.rowcount == 0:
        raise NotFound("There is no such pin.")


def pins_of(db: Connection, version_id: int) -> list[dict[str, Any]]:
    """Pins of a version by name."""
    rows = db.execute(sa.select(pins).where(pins.c.version_id == version_id).order_by(pins.c.name))
    return [dict(row._mapping) for row in rows]


def removable(db: Connection, *, before: datetime, now: datetime, limit: int) -> list[int]:
    """Versions older than `before` that nothing refers to: no branch tip, no pin, no lease."""
    tip = sa.select(branches.c.published_sha).where(
        branches.c.workspace_id == versions.c.workspace_id,
        sa.or_(
            branches.c.published_sha == versions.c.commit_sha,
            branches.c.head_sha == versions.c.commit_sha,
        ),
    )
    pinned = sa.select(pins.c.version_id).where(
        pins.c.version_id == versions.c.id,
        sa.or_(pins.c.expires_at.is_(None), pins.c.expires_at > now),
    )
    leased = sa.select(leases.c.id).where(
        leases.c.version_id == versions.c.id, leases.c.expires_at > now
    )
    return list(
        db.execute(
            sa.select(versions.c.id)
            .where(
                versions.c.published_at < before,
                ~tip.exists(),
                ~pinned.exists(),
                ~leased.exists(),
            )
            .order_by(versions.c.id)
            .limit(limit)
        ).scalars()
    )


def delete_version(db: Connection, version_id: int) -> None:
    """Remove a version and its rollouts; artifacts go later, if nothing refers to them."""
    db.execute(versions.delete().where(versions.c.id == version_id))
