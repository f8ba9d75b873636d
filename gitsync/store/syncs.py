"""Syncs and deliveries: each trigger ends in one visible outcome (promise 1)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.errors import NotFound
from gitsync.records import Delivery, Outcome, Sync, SyncStatus, Trigger
from gitsync.store.rows import Page, page_by_id, record
from gitsync.store.tables import deliveries, syncs, workspaces

OPEN = (SyncStatus.PENDING.value, SyncStatus.SYNCING.value)


def ask_sync(
    db: Connection,
    workspace_id: str,
    *,
    trigger: Trigger,
    now: datetime,
    requested_by: str | None = None,
) -> int:
    """The id of the sync that will serve this request: a waiting one if there is one."""
    found = db.execute(
        sa.select(syncs.c.id)
        .where(syncs.c.workspace_id == workspace_id, syncs.c.status == SyncStatus.PENDING.value)
        .order_by(syncs.c.id)
        .limit(1)
    ).scalar_one_or_none()
    if found is not None:
        return int(found)
    return add_sync(db, workspace_id, trigger=trigger, now=now, requested_by=requested_by)


def add_sync(
    db: Connection,
    workspace_id: str,
    *,
    trigger: Trigger,
    now: datetime,
    requested_by: str | None = None,
) -> int:
    """A new pending sync."""
    added = db.execute(
        syncs.insert()
        .values(
            workspace_id=workspace_id,
            trigger=trigger.value,
            status=SyncStatus.PENDING.value,
            requested_at=now,
            requested_by=requested_by,
            branches=[],
            steps=[],
            findings=[],
        )
        .returning(syncs.c.id)
    )
    return int(added.scalar_one())


def begin_syncs(db: Connection, workspace_id: str, *, fence: int, now: datetime) -> list[Sync]:
    """Adopt all open syncs of a workspace for this turn, oldest first."""
    db.execute(
        syncs.update()
        .where(syncs.c.workspace_id == workspace_id, syncs.c.status.in_(OPEN))
        .values(
            status=SyncStatus.SYNCING.value,
            fence=fence,
            started_at=sa.func.coalesce(
                syncs.c.started_at, sa.literal(now, syncs.c.started_at.type)
            ),
        )
    )
    rows = db.execute(
        sa.select(syncs)
        .where(syncs.c.workspace_id == workspace_id, syncs.c.status == SyncStatus.SYNCING.value)
        .order_by(syncs.c.id)
    )
    return [record(Sync, row) for row in rows]


def begin_sync(
    db: Connection, workspace_id: str, *, trigger: Trigger, fence: int, now: datetime
) -> Sync:
    """A new sync that a turn works on at once; others that are open are left alone."""
    sync_id = add_sync(db, workspace_id, trigger=trigger, now=now)
    db.execute(
        syncs.update()
        .where(syncs.c.id == sync_id)
        .values(status=SyncStatus.SYNCING.value, fence=fence, started_at=now)
    )
    return get_sync(db, workspace_id, sync_id)


def close_syncs(
    db: Connection,
    ids: Sequence[int],
    outcome: Outcome,
    *,
    now: datetime,
    branches: Sequence[dict[str, Any]] = (),
    steps: Sequence[dict[str, Any]] = (),
    findings: Sequence[dict[str, Any]] = (),
    error: dict[str, Any] | None = None,
    rollouts: int | None = None,
) -> None:
    """End the syncs of a turn, all with the same outcome."""
    db.execute(
        syncs.update()
        .where(syncs.c.id.in_(list(ids)))
        .values(
            status=outcome.status.value,
            outcome=outcome.value,
            finished_at=now,
            branches=list(branches),
            steps=list(steps),
            findings=list(findings),
            error=error,
            rollouts=rollouts,
        )
    )


def note_syncs(
    db: Connection,
    ids: Sequence[int],
    *,
    status: SyncStatus,
    error: dict[str, Any] | None,
    steps: Sequence[dict[str, Any]],
) -> None:
    """Say why open syncs wait: a transient failure or a remote that lags behind."""
    db.execute(
        syncs.update()
        .where(syncs.c.id.in_(list(ids)))
        .values(status=status.value, error=error, steps=list(steps))
    )


def close_open_syncs(
    db: Connection, workspace_id: str, *, error: dict[str, Any], now: datetime
) -> None:
    """End everything open of a workspace that is suspended or disconnected."""
    open_ids = list(
        db.execute(
            sa.select(syncs.c.id).where(
                syncs.c.workspace_id == workspace_id, syncs.c.status.in_(OPEN)
            )
        ).scalars()
    )
    close_syncs(db, open_ids, Outcome.ERROR, now=now, error=error)
    db.execute(
        deliveries.update()
        .where(deliveries.c.workspace_id == workspace_id, deliveries.c.settled_at.is_(None))
        .values(outcome="error", reason=error["message"], settled_at=now)
    )


def reopen_syncs(db: Connection) -> int:
    """At a start, after the turns of dead servers ended: what they were doing waits again."""
    idle = sa.select(workspaces.c.id).where(workspaces.c.owner.is_(None))
    return db.execute(
        syncs.update()
        .where(syncs.c.status == SyncStatus.SYNCING.value, syncs.c.workspace_id.in_(idle))
        .values(status=SyncStatus.PENDING.value)
    ).rowcount


def get_sync(db: Connection, workspace_id: str, sync_id: int) -> Sync:
    """One sync of a workspace."""
    row = db.execute(
        sa.select(syncs).where(syncs.c.workspace_id == workspace_id, syncs.c.id == sync_id)
    ).first()
    if row is None:
        raise NotFound("There is no such sync in this workspace.")
    return record(Sync, row)


def list_syncs(db: Connection, workspace_id: str, *, limit: int, after: str | None) -> Page[Sync]:
    """Newest first."""
    return page_by_id(
        db,
        sa.select(syncs).where(syncs.c.workspace_id == workspace_id),
        syncs.c.id,
        limit=limit,
        after=after,
        build=lambda row: record(Sync, row),
    )


# -- deliveries ---------------------------------------------------------------------------------


def put_delivery(
    db: Connection,
    workspace_id: str,
    *,
    provider: str,
    delivery_id: str,
    event: str,
    ref: str | None,
    before_sha: str | None,
    after_sha: str | None,
    outcome: str,
    reason: str | None,
    sync_id: int | None,
    now: datetime,
    redelivery_of: int | None = None,
) -> int:
    """Store a delivery; one with a known id collapses into its row but counts (decision 15)."""
    settled = None if sync_id is not None else now
    known = db.execute(
        sa.select(deliveries.c.id).where(
            deliveries.c.workspace_id == workspace_id,
            deliveries.c.provider == provider,
            deliveries.c.delivery_id == delivery_id,
        )
    ).scalar_one_or_none()
    values: dict[str, Any] = {
        "event": event,
        "ref": ref,
        "before_sha": before_sha,
        "after_sha": after_sha,
        "received_at": now,
        "outcome": outcome,
        "reason": reason,
        "sync_id": sync_id,
        "settled_at": settled,
    }
    if known is not None:
        db.execute(
            deliveries.update()
            .where(deliveries.c.id == known)
            .values(times=deliveries.c.times + 1, **values)
        )
        return int(known)
    added = db.execute(
        deliveries.insert()
        .values(
            workspace_id=workspace_id,
            provider=provider,
            delivery_id=delivery_id,
            redelivery_of=redelivery_of,
            **values,
        )
        .returning(deliveries.c.id)
    )
    return int(added.scalar_one())


def get_delivery(db: Connection, workspace_id: str, row_id: int) -> Delivery:
    """One delivery of a workspace."""
    row = db.execute(
        sa.select(deliveries).where(
            deliveries.c.workspace_id == workspace_id, deliveries.c.id == row_id
        )
    ).first()
    if row is None:
        raise NotFound("There is no such delivery in this workspace.")
    return record(Delivery, row)


def list_deliveries(
    db: Connection, workspace_id: str, *, limit: int, after: str | None
) -> Page[Delivery]:
    """Newest first."""
    return page_by_id(
        db,
        sa.select(deliveries).where(deliveries.c.workspace_id == workspace_id),
        deliveries.c.id,
        limit=limit,
        after=after,
        build=lambda row: record(Delivery, row),
    )


def unsettled(db: Connection, sync_ids: Sequence[int]) -> list[Delivery]:
    """Deliveries that wait for these syncs, oldest first."""
    rows = db.execute(
        sa.select(deliveries)
        .where(deliveries.c.sync_id.in_(list(sync_ids)), deliveries.c.settled_at.is_(None))
        .order_by(deliveries.c.id)
    )
    return [record(Delivery, row) for row in rows]


def settle(
    db: Connection, ids: Sequence[int], outcome: str, *, reason: str | None, now: datetime
) -> None:
    """Say what became of deliveries."""
    if ids:
        db.execute(
            deliveries.update()
            .where(deliveries.c.id.in_(list(ids)))
            .values(outcome=outcome, reason=reason, settled_at=now)
        )


def drop_deliveries(db: Connection, *, before: datetime) -> int:
    """Forget settled deliveries older than the retention."""
    return db.execute(
        deliveries.delete().where(
            deliveries.c.received_at < before, deliveries.c.settled_at.is_not(None)
        )
    ).rowcount


def attach(db: Connection, ids: Sequence[int], sync_id: int) -> None:
    """Let deliveries wait for another sync."""
    db.execute(deliveries.update().where(deliveries.c.id.in_(list(ids))).values(sync_id=sync_id))
