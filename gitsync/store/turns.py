"""Turns: who may work on a workspace, and what is owed (decisions 15, 16, 24).

`requested` counts every trigger, `done` is the count that the last finished turn had read when it
began: a workspace is owed a look while `requested > done`. A turn is a lease by the database's
clock; each write of a turn begins with `guard`, which fails once the fence has moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.errors import GitSyncError
from gitsync.records import Turn, WorkspaceState
from gitsync.store.rows import Dead, of_dead
from gitsync.store.tables import clock, workspaces

HOLD_RETRY_AFTER = "retry-after"
HOLD_CREDENTIAL = "credential"


class TurnLost(GitSyncError):
    """The fence moved: somebody else owns the workspace, or it was suspended or disconnected."""

    code = "TURN_LOST"
    transient = True


def later(seconds: float) -> sa.ColumnElement[Any]:
    """The database's clock in so many seconds."""
    return sa.type_coerce(clock(), sa.BigInteger) + int(seconds * 1_000_000)


def bump(db: Connection, workspace_id: str, *, lifts: str = "nothing") -> int | None:
    """Ask for a look; the new `requested`, None if the workspace is not active.

    `lifts` says which pause the trigger ends: `nothing` (poll, reader), `backoff` (push, webhook)
    or `credential` (a person asks: also a stop after a refused credential). `Retry-After` stays.
    """
    values: dict[str, Any] = {
        "requested": workspaces.c.requested + 1,
        "owed_since": sa.func.coalesce(workspaces.c.owed_since, clock()),
    }
    if lifts != "nothing":
        stays: sa.ColumnElement[bool] = workspaces.c.hold.is_not(None)
        if lifts == "credential":
            stays = sa.func.coalesce(workspaces.c.hold, "") == HOLD_RETRY_AFTER
        values["not_before"] = sa.case((stays, workspaces.c.not_before), else_=None)
        values["hold"] = sa.case((stays, workspaces.c.hold), else_=None)
    return db.execute(
        workspaces.update()
        .where(workspaces.c.id == workspace_id, workspaces.c.state == WorkspaceState.ACTIVE.value)
        .values(**values)
        .returning(workspaces.c.requested)
    ).scalar_one_or_none()


def _owed() -> sa.ColumnElement[bool]:
    return sa.and_(
        workspaces.c.state == WorkspaceState.ACTIVE.value,
        workspaces.c.requested > workspaces.c.done,
    )


def take(db: Connection, workspace_id: str, *, owner: str, lease_s: float) -> Turn | None:
    """Take the turn if the workspace is owed one and nobody holds it."""
    row = db.execute(
        workspaces.update()
        .where(
            workspaces.c.id == workspace_id,
            _owed(),
            sa.or_(workspaces.c.not_before.is_(None), workspaces.c.not_before <= clock()),
            sa.or_(workspaces.c.owner.is_(None), workspaces.c.expires_at <= clock()),
        )
        .values(fence=workspaces.c.fence + 1, owner=owner, expires_at=later(lease_s))
        .returning(workspaces.c.fence, workspaces.c.requested)
    ).first()
    return None if row is None else Turn(workspace_id, row.fence, row.requested)


def renew(db: Connection, running: Iterable[str], *, owner: str, lease_s: float) -> int:
    """Heartbeat for the turns of one owner that really run; how many there are.

    A turn that crashed is not among them: its lease ends.
    """
    return db.execute(
        workspaces.update()
        .where(workspaces.c.owner == owner, workspaces.c.id.in_(list(running)))
        .values(expires_at=later(lease_s))
    ).rowcount


def guard(db: Connection, turn: Turn) -> None:
    """First statement of each write of a turn: `TurnLost` if the fence has moved."""
    changed = db.execute(
        workspaces.update()
        .where(
            workspaces.c.id == turn.workspace_id,
            workspaces.c.fence == turn.fence,
            workspaces.c.owner.is_not(None),
        )
        .values(fence=workspaces.c.fence)
    )
    if changed.rowcount != 1:
        raise TurnLost("The workspace changed hands while this sync ran.")


def finish(db: Connection, turn: Turn, *, now: datetime, **values: Any) -> None:
    """End the turn: all that was requested when it began is done. After `guard`."""
    usual: dict[str, Any] = {
        "done": turn.requested,
        "owed_since": sa.case((workspaces.c.requested > turn.requested, clock()), else_=None),
        "owner": None,
        "expires_at": None,
        "not_before": None,
        "hold": None,
        "failures": 0,
        "lag_looks": 0,
        "suspect": None,
        "last_error": None,
        "last_look_at": now,
    }
    db.execute(
        workspaces.update()
        .where(workspaces.c.id == turn.workspace_id, workspaces.c.fence == turn.fence)
        .values(**(usual | values))
    )


def postpone(db: Connection, turn: Turn, *, seconds: float, now: datetime, **values: Any) -> None:
    """Release the turn and look again after `seconds`; nothing is done yet. After `guard`."""
    db.execute(
        workspaces.update()
        .where(workspaces.c.id == turn.workspace_id, workspaces.c.fence == turn.fence)
        .values(owner=None, expires_at=None, not_before=later(seconds), last_look_at=now, **values)
    )


def release(db: Connection, turn: Turn) -> None:
    """Give the turn back at once, as if it had not been taken."""
    db.execute(
        workspaces.update()
        .where(workspaces.c.id == turn.workspace_id, workspaces.c.fence == turn.fence)
        .values(owner=None, expires_at=None)
    )


def take_over(db: Connection, dead: Dead) -> int:
    """At a start: end all turns of dead servers (decision 24)."""
    return db.execute(
        workspaces.update()
        .where(of_dead(workspaces.c.owner, dead))
        .values(owner=None, expires_at=None, fence=workspaces.c.fence + 1)
    ).rowcount


def due(db: Connection, *, limit: int) -> list[str]:
    """Workspaces that can be worked on now, the longest waiting first."""
    return list(
        db.execute(
            sa.select(workspaces.c.id)
            .where(
                _owed(),
                sa.or_(workspaces.c.not_before.is_(None), workspaces.c.not_before <= clock()),
                sa.or_(workspaces.c.owner.is_(None), workspaces.c.expires_at <= clock()),
            )
            .order_by(workspaces.c.last_look_at.asc().nulls_first())
            .limit(limit)
        ).scalars()
    )


def seconds_to_next(db: Connection) -> float | None:
    """Seconds until a postponed or leased workspace can be worked on; None if there is none."""
    at = sa.case(
        (
            sa.and_(
                workspaces.c.owner.is_not(None),
                sa.or_(
                    workspaces.c.not_before.is_(None),
                    workspaces.c.not_before < workspaces.c.expires_at,
                ),
            ),
            workspaces.c.expires_at,
        ),
        else_=workspaces.c.not_before,
    )
    wait = sa.type_coerce(sa.func.min(at), sa.BigInteger) - sa.type_coerce(clock(), sa.BigInteger)
    found = db.execute(sa.select(wait).where(_owed())).scalar_one_or_none()
    return None if found is None else max(0.0, found / 1_000_000)


def take_due_polls(db: Connection, *, now: datetime, limit: int) -> list[str]:
    """Active external workspaces whose poll is due; the caller sets the next time."""
    return list(
        db.execute(
            sa.select(workspaces.c.id)
            .where(
                workspaces.c.state == WorkspaceState.ACTIVE.value,
                workspaces.c.next_poll_at.is_not(None),
                workspaces.c.next_poll_at <= now,
            )
            .order_by(workspaces.c.next_poll_at)
            .limit(limit)
        ).scalars()
    )


def set_next_poll(db: Connection, workspace_id: str, at: datetime | None) -> None:
    """When the workspace is polled next."""
    db.execute(workspaces.update().where(workspaces.c.id == workspace_id).values(next_poll_at=at))


def depth(db: Connection) -> int:
    """How many workspaces are owed a look."""
    return db.execute(
        sa.select(sa.func.count()).select_from(workspaces).where(_owed())
    ).scalar_one()


def stuck(db: Connection, *, older_than: timedelta) -> list[str]:
    """Workspaces that could be worked on, are owed a look for too long, and nobody works on."""
    limit = sa.type_coerce(clock(), sa.BigInteger) - int(older_than.total_seconds() * 1_000_000)

    def before(column: sa.Column[datetime]) -> sa.ColumnElement[bool]:
        return sa.type_coerce(column, sa.BigInteger) < limit

    return list(
        db.execute(
            sa.select(workspaces.c.id).where(
                _owed(),
                before(workspaces.c.owed_since),
                sa.or_(workspaces.c.not_before.is_(None), before(workspaces.c.not_before)),
                sa.or_(workspaces.c.owner.is_(None), workspaces.c.expires_at <= clock()),
            )
        ).scalars()
    )
