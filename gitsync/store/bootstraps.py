"""Rows of workspaces that are made from the template, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.store.bootstrap_tables import bootstraps
from gitsync.store.rows import record

RESERVED, WRITTEN, DONE, YIELDED = "reserved", "written", "done", "yielded"
_OPEN = (RESERVED, WRITTEN)


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """One workspace in the making, or made. `branch` is a full ref."""

    workspace_id: str
    user_id: str
    state: str
    starters: tuple[str, ...]
    skills: tuple[str, ...] | None
    parameters: dict[str, Any]
    branch: str
    message: str
    author_name: str
    author_email: str
    author_time: int
    commit_sha: str | None
    sync_id: int | None
    attempts: int

    @property
    def is_open(self) -> bool:
        """True while something is left to do."""
        return self.state in _OPEN


def add_bootstrap(
    db: Connection,
    workspace_id: str,
    *,
    user_id: str,
    starters: list[str],
    skills: list[str] | None,
    parameters: dict[str, Any],
    branch: str,
    message: str,
    author_name: str,
    author_email: str,
    author_time: int,
    boot: str,
    now: datetime,
) -> None:
    """Remember what was asked; in the transaction that reserves the workspace's name."""
    db.execute(
        bootstraps.insert().values(
            workspace_id=workspace_id,
            user_id=user_id,
            state=RESERVED,
            starters=starters,
            skills=skills,
            parameters=parameters,
            branch=branch,
            message=message,
            author_name=author_name,
            author_email=author_email,
            author_time=author_time,
            boot=boot,
            created_at=now,
            updated_at=now,
        )
    )


def find_bootstrap(db: Connection, workspace_id: str) -> Bootstrap | None:
    """The row of a workspace; None if it was not made from the template, or is gone."""
    row = db.execute(sa.select(bootstraps).where(bootstraps.c.workspace_id == workspace_id)).first()
    return None if row is None else record(Bootstrap, row)


def advance(db: Connection, workspace_id: str, state: str, *, now: datetime, **values: Any) -> bool:
    """Note a step; False if the row is gone or was closed meanwhile."""
    changed = db.execute(
        bootstraps.update()
        .where(bootstraps.c.workspace_id == workspace_id, bootstraps.c.state.in_(_OPEN))
        .values(state=state, updated_at=now, **values)
    )
    return changed.rowcount == 1


def any_open(db: Connection) -> bool:
    """True if something is being made, or was left half made."""
    return (
        db.execute(
            sa.select(bootstraps.c.workspace_id).where(bootstraps.c.state.in_(_OPEN)).limit(1)
        ).first()
        is not None
    )


def claim(db: Connection, *, boot: str, stale: datetime, alone: bool, now: datetime) -> list[str]:
    """Workspaces whose making nobody goes on with: take them, each with one attempt more.

    `alone`: no other server lives, so what another start began is abandoned.
    """
    left = [bootstraps.c.updated_at < stale]
    if alone:
        left.append(bootstraps.c.boot != boot)
    return list(
        db.execute(
            bootstraps.update()
            .where(bootstraps.c.state.in_(_OPEN), sa.or_(*left))
            .values(boot=boot, updated_at=now, attempts=bootstraps.c.attempts + 1)
            .returning(bootstraps.c.workspace_id)
        ).scalars()
    )
