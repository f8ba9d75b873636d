"""Who carries a run out: claims, heartbeats, losses, ends.

A claim is a lease by the database's clock. Each write of an executor begins with `hold`, which
fails once somebody else holds the run or it is over: a late executor changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.errors import Conflict
from gitsync.records import Token
from gitsync.run_records import Run, RunState
from gitsync.store.rows import new_id, record
from gitsync.store.run_tables import executors, runs
from gitsync.store.tables import clock, token_workspaces, tokens

_PENDING, _RUNNING = RunState.PENDING.value, RunState.RUNNING.value


class ClaimLost(Conflict):
    """The claim holds the run no more; stop working on it."""

    code = "CLAIM_LOST"


def _later(seconds: float) -> sa.ColumnElement[Any]:
    return sa.type_coerce(clock(), sa.BigInteger) + int(seconds * 1_000_000)


def waiting(
    db: Connection, *, kinds: Sequence[str], workspaces: Sequence[str], limit: int = 20
) -> list[Run]:
    """Runs that wait for an executor of these kinds and workspaces, oldest first."""
    rows = db.execute(
        sa.select(runs)
        .where(
            runs.c.state == _PENDING,
            runs.c.kind.in_(kinds),
            runs.c.workspace_id.in_(workspaces),
        )
        .order_by(runs.c.number)
        .limit(limit)
    )
    return [record(Run, row) for row in rows]


def waiting_counts(db: Connection) -> dict[str, int]:
    """How many runs wait, by kind."""
    rows = db.execute(
        sa.select(runs.c.kind, sa.func.count())
        .where(runs.c.state == _PENDING)
        .group_by(runs.c.kind)
    )
    return {row[0]: row[1] for row in rows}


def claimed_before(db: Connection, token_id: str, key: str) -> Run | None:
    """The run that this executor got by a claim with the same key and still holds."""
    row = db.execute(
        sa.select(runs).where(
            runs.c.state == _RUNNING,
            runs.c.executor_token_id == token_id,
            runs.c.claim_key == key,
        )
    ).first()
    return None if row is None else record(Run, row)


def claim(
    db: Connection, run: Run, *, token_id: str, key: str | None, lease_s: float, now: datetime
) -> Run | None:
    """Give a pending run to an executor; None if somebody was faster."""
    row = db.execute(
        runs.update()
        .where(runs.c.number == run.number, runs.c.state == _PENDING)
        .values(
            state=_RUNNING,
            executor_token_id=token_id,
            claim_id=new_id("claim"),
            claim_key=key,
            attempt=runs.c.attempt + 1,
            lease_expires_at=_later(lease_s),
            started_at=sa.func.coalesce(runs.c.started_at, sa.literal(now, runs.c.started_at.type)),
        )
        .returning(*runs.c)
    ).first()
    return None if row is None else record(Run, row)


def hold(
    db: Connection,
    run_id: str,
    claim_id: str,
    *,
    token_id: str,
    renew_s: float | None = None,
    **values: Any,
) -> Run:
    """First statement of each write of an executor: the run it holds, or `ClaimLost`.

    A stopped run is held until its lease ends, so that the last words of an executor are heard.
    """
    if renew_s is not None:
        values["lease_expires_at"] = sa.case(
            (
                runs.c.state == _RUNNING,
                sa.type_coerce(_later(renew_s), runs.c.lease_expires_at.type),
            ),
            else_=runs.c.lease_expires_at,
        )
    row = db.execute(
        runs.update()
        .where(
            runs.c.id == run_id,
            runs.c.claim_id == claim_id,
            runs.c.executor_token_id == token_id,
            sa.or_(
                runs.c.state == _RUNNING,  # even if it is late: nobody has taken the run over
                sa.and_(runs.c.state == RunState.STOPPED.value, runs.c.lease_expires_at > clock()),
            ),
        )
        .values(**(values or {"claim_id": claim_id}))
        .returning(*runs.c)
    ).first()
    if row is None:
        raise ClaimLost(
            "This claim does not hold the run: its lease ended, or the run is over. Stop working "
            "on it and claim another one."
        )
    return record(Run, row)


def set_progress(db: Connection, run: Run, **values: Any) -> Run:
    """How far a held run is. After `hold`."""
    row = db.execute(
        runs.update().where(runs.c.number == run.number).values(**values).returning(*runs.c)
    ).one()
    return record(Run, row)


def release(db: Connection, run: Run) -> None:
    """The executor of a run that is over has heard of it: nothing more of it is taken."""
    db.execute(
        runs.update()
        .where(runs.c.number == run.number, runs.c.claim_id == run.claim_id)
        .values(lease_expires_at=clock())
    )


def is_lost(db: Connection, run: Run) -> bool:
    """True if the executor of this claim is still silent, and stays so in this transaction."""
    query = sa.select(runs.c.number).where(
        runs.c.number == run.number,
        runs.c.state == _RUNNING,
        runs.c.claim_id == run.claim_id,
        runs.c.lease_expires_at <= clock(),
    )
    return db.execute(query.with_for_update()).first() is not None


def lost(db: Connection, *, limit: int = 50) -> list[Run]:
    """Running runs whose executor has not been heard of in time."""
    rows = db.execute(
        sa.select(runs)
        .where(runs.c.state == _RUNNING, runs.c.lease_expires_at <= clock())
        .order_by(runs.c.number)
        .limit(limit)
    )
    return [record(Run, row) for row in rows]


def take_back(db: Connection, run: Run, *, is_unheard: bool = False) -> bool:
    """A lost run waits again; False if its executor came back in the meantime.

    A claim that its executor never heard of (`is_unheard`) does not count as an attempt.
    """
    is_over: sa.ColumnElement[bool] = runs.c.lease_expires_at <= clock()
    changed = db.execute(
        runs.update()
        .where(
            runs.c.number == run.number,
            runs.c.state == _RUNNING,
            runs.c.claim_id == run.claim_id,
            sa.true() if is_unheard else is_over,
        )
        .values(
            attempt=runs.c.attempt - (1 if is_unheard else 0),
            state=_PENDING,
            claim_id=None,
            claim_key=None,
            lease_expires_at=None,
            lonely_since=None,
        )
    )
    return changed.rowcount == 1


def end(db: Connection, run: Run, state: RunState, *, now: datetime, **values: Any) -> Run | None:
    """Move a run to its last state; None if it is over already, or another claim's.

    The claim stays on the row, so that its holder is told what became of the run.
    """
    same = runs.c.claim_id.is_(None) if run.claim_id is None else runs.c.claim_id == run.claim_id
    row = db.execute(
        runs.update()
        .where(runs.c.number == run.number, runs.c.state == run.state.value, same)
        .values(state=state.value, completed_at=now, **values)
        .returning(*runs.c)
    ).first()
    return None if row is None else record(Run, row)


# -- who is there ---------------------------------------------------------------------------------


def note_executor(db: Connection, token_id: str, kinds: Sequence[str], *, name: str) -> None:
    """This executor is there for these kinds, now."""
    for kind in kinds:
        changed = db.execute(
            executors.update()
            .where(executors.c.token_id == token_id, executors.c.kind == kind)
            .values(name=name, seen_at=clock())
        )
        if changed.rowcount == 0:
            db.execute(
                executors.insert().values(token_id=token_id, kind=kind, name=name, seen_at=clock())
            )


def touch_executor(db: Connection, token_id: str) -> None:
    """This executor is still there for what it said before."""
    db.execute(executors.update().where(executors.c.token_id == token_id).values(seen_at=clock()))


def is_anybody_there(db: Connection, workspace_id: str, kind: str, *, within_s: float) -> bool:
    """True if an executor that may carry out such a run was heard of lately."""
    query = (
        _present(within_s)
        .join(token_workspaces, token_workspaces.c.token_id == executors.c.token_id)
        .where(executors.c.kind == kind, token_workspaces.c.workspace_id == workspace_id)
    )
    return db.execute(query.limit(1)).first() is not None


def present(db: Connection, *, within_s: float) -> dict[str, int]:
    """How many executors were heard of lately, by kind."""
    found: dict[str, int] = {}
    for row in db.execute(_present(within_s)):
        found[row.kind] = found.get(row.kind, 0) + 1
    return found


def _present(within_s: float) -> sa.Select[Any]:
    return (
        sa.select(executors.c.kind, executors.c.name, executors.c.token_id)
        .join(tokens, tokens.c.id == executors.c.token_id)
        .where(executors.c.seen_at > _later(-within_s), tokens.c.revoked_at.is_(None))
    )


def lonely(db: Connection, *, before: datetime, limit: int = 100) -> list[Run]:
    """Waiting runs whose log does not say yet whether anybody will come."""
    rows = db.execute(
        sa.select(runs)
        .where(runs.c.state == _PENDING, runs.c.lonely_since.is_(None), runs.c.created_at < before)
        .order_by(runs.c.number)
        .limit(limit)
    )
    return [record(Run, row) for row in rows]


def note_lonely(db: Connection, run: Run, *, now: datetime) -> None:
    """The log has said that nobody is there."""
    db.execute(runs.update().where(runs.c.number == run.number).values(lonely_since=now))


def kinds_of(token: Token, wanted: Sequence[str]) -> list[str]:
    """Those of these kinds that a token may carry out."""
    return [kind for kind in wanted if token.kinds is None or kind in token.kinds]
