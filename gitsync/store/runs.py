"""Runs: what was submitted, and how far it is. See `run_life` for who carries them out."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.errors import NotFound
from gitsync.run_records import Run, RunKind, RunState
from gitsync.store.rows import Page, new_id, page_by_id, record
from gitsync.store.run_tables import run_vaults, runs
from gitsync.store.tables import leases, users
from gitsync.store.workspaces import sealed_place

# a lease is ended when the run ends, not by a clock
_FOREVER = datetime(9999, 1, 1, tzinfo=UTC)
_LETTERS = "bcdfghjkmnpqrstvwxz23456789"
_ODD = re.compile(r"[^a-z0-9]+")
_OPEN = (RunState.PENDING.value, RunState.RUNNING.value)


def run_name(rollout: str, kind: RunKind) -> str:
    """A fresh name, good as a path segment: `chess-eval-7gk2vd`."""
    slug = _ODD.sub("-", rollout.lower()).strip("-")[:40].rstrip("-") or "run"
    tail = "".join(secrets.choice(_LETTERS) for _ in range(6))
    return f"{slug}-{kind.value}-{tail}"


def add_run(db: Connection, *, kind: RunKind, rollout: str, now: datetime, **values: Any) -> Run:
    """A pending run with a name of its own, and the lease that keeps its version."""
    workspace_id = values["workspace_id"]
    name = run_name(rollout, kind)
    while _is_taken(db, workspace_id, name):
        name = run_name(rollout, kind)
    run_id = new_id("run")
    db.execute(
        runs.insert().values(
            id=run_id,
            kind=kind.value,
            name=name,
            rollout=rollout,
            state=RunState.PENDING.value,
            all_rewarded=False,
            created_at=now,
            **values,
        )
    )
    db.execute(
        leases.insert().values(
            version_id=values["version_id"], holder=lease_holder(run_id), expires_at=_FOREVER
        )
    )
    return get_run(db, run_id)


def _is_taken(db: Connection, workspace_id: str, name: str) -> bool:
    query = sa.select(runs.c.number).where(runs.c.workspace_id == workspace_id, runs.c.name == name)
    return db.execute(query).first() is not None


def lease_holder(run_id: str) -> str:
    """Who holds the lease of a run's version."""
    return f"run/{run_id}"


def vault_place(run_id: str) -> str:
    """What the sealed part of a run is bound to."""
    return sealed_place("run_vaults", run_id)


def put_vault(db: Connection, run: Run, sealed: str) -> None:
    """Keep what only the executor may see."""
    db.execute(run_vaults.insert().values(run_number=run.number, run_id=run.id, sealed=sealed))


def find_vault(db: Connection, run: Run) -> str | None:
    """The sealed part of a run that is not over."""
    return db.execute(
        sa.select(run_vaults.c.sealed).where(run_vaults.c.run_number == run.number)
    ).scalar_one_or_none()


def let_go(db: Connection, run: Run) -> None:
    """The run is over: its secrets are gone, and its version may be retired."""
    db.execute(run_vaults.delete().where(run_vaults.c.run_number == run.number))
    db.execute(leases.delete().where(leases.c.holder == lease_holder(run.id)))


# -- reading --------------------------------------------------------------------------------------


def get_run(db: Connection, run_id: str) -> Run:
    """By id; `NotFound` otherwise."""
    row = db.execute(sa.select(runs).where(runs.c.id == run_id)).first()
    if row is None:
        raise NotFound("There is no such run.")
    return record(Run, row)


def lock_run(db: Connection, run_id: str) -> Run:
    """The same, and nobody else changes the run before this write transaction ends."""
    db.execute(sa.select(runs.c.number).where(runs.c.id == run_id).with_for_update())
    return get_run(db, run_id)


def find_run(
    db: Connection, workspace_id: str, ref: str, *, kind: RunKind | None = None
) -> Run | None:
    """By name or id, in one workspace."""
    query = sa.select(runs).where(
        runs.c.workspace_id == workspace_id,
        runs.c.id == ref if ref.startswith("run_") else runs.c.name == ref,
    )
    if kind is not None:
        query = query.where(runs.c.kind == kind.value)
    row = db.execute(query).first()
    return None if row is None else record(Run, row)


def page_runs(
    db: Connection,
    workspace_id: str,
    *,
    kind: RunKind | None,
    state: RunState | None,
    rollout: str | None = None,
    limit: int,
    after: str | None,
) -> Page[Run]:
    """Newest first."""
    query = sa.select(runs).where(runs.c.workspace_id == workspace_id)
    if kind is not None:
        query = query.where(runs.c.kind == kind.value)
    if state is not None:
        query = query.where(runs.c.state == state.value)
    if rollout is not None:
        query = query.where(runs.c.rollout == rollout)
    return page_by_id(
        db, query, runs.c.number, limit=limit, after=after, build=lambda row: record(Run, row)
    )


def list_runs(
    db: Connection,
    workspace_id: str,
    kind: RunKind,
    *,
    limit: int,
    offset: int,
    newest: int | None,
) -> tuple[list[Run], int, int]:
    """A piece of the list, newest first; how many there are, and the number of the newest.

    `newest` is that number from an earlier piece: runs that came later do not shift this one.
    """
    of_kind = (runs.c.workspace_id == workspace_id, runs.c.kind == kind.value)
    if newest is None:
        newest = db.execute(sa.select(sa.func.max(runs.c.number)).where(*of_kind)).scalar() or 0
    then = (*of_kind, runs.c.number <= newest)
    total = db.execute(sa.select(sa.func.count()).select_from(runs).where(*then)).scalar_one()
    rows = db.execute(
        sa.select(runs).where(*then).order_by(runs.c.number.desc()).limit(limit).offset(offset)
    )
    return [record(Run, row) for row in rows], total, newest


def people_of(db: Connection, found: Iterable[Run]) -> dict[str, tuple[str, str]]:
    """Name and e-mail address of those who submitted these runs."""
    ids = {run.created_by for run in found}
    query = sa.select(users.c.id, users.c.name, users.c.email).where(users.c.id.in_(ids))
    return {row.id: (row.name, row.email) for row in db.execute(query)} if ids else {}


def count_open(db: Connection, workspace_id: str) -> int:
    """Runs of a workspace that are not over."""
    return db.execute(
        sa.select(sa.func.count())
        .select_from(runs)
        .where(runs.c.workspace_id == workspace_id, runs.c.state.in_(_OPEN))
    ).scalar_one()


def counts(db: Connection) -> dict[tuple[str, str], int]:
    """How many runs there are by kind and state."""
    rows = db.execute(
        sa.select(runs.c.kind, runs.c.state, sa.func.count()).group_by(runs.c.kind, runs.c.state)
    )
    return {(row[0], row[1]): row[2] for row in rows}


def was_evaluated(db: Connection, workspace_id: str, digest: str, entrypoint: str) -> bool:
    """True if an evaluation of this artifact finished with a reward for every sample."""
    query = sa.select(runs.c.number).where(
        runs.c.digest == digest,
        runs.c.workspace_id == workspace_id,
        runs.c.entrypoint == entrypoint,
        runs.c.kind == RunKind.EVAL.value,
        runs.c.state == RunState.FINISHED.value,
        runs.c.all_rewarded.is_(True),
    )
    return db.execute(query.limit(1)).first() is not None
