"""What pages show of runs: a chart over many, and who uses a version."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.records import RunKind, RunState
from gitsync.store.run_tables import runs


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in a list that is not about runs."""

    name: str
    kind: str
    state: str
    rollout: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Score:
    """The mean reward of one finished evaluation."""

    name: str
    at: datetime
    value: float


def runs_of_commit(db: Connection, workspace_id: str, sha: str, *, limit: int) -> list[RunLine]:
    """The newest runs that use a code version."""
    rows = db.execute(
        sa.select(runs.c.name, runs.c.kind, runs.c.state, runs.c.rollout, runs.c.created_at)
        .where(runs.c.workspace_id == workspace_id, runs.c.commit_sha == sha)
        .order_by(runs.c.number.desc())
        .limit(limit)
    )
    return [RunLine(row.name, row.kind, row.state, row.rollout, row.created_at) for row in rows]


def scores(db: Connection, workspace_id: str, *, rollout: str | None, limit: int) -> list[Score]:
    """Finished evaluations with a reward, oldest first; of one rollout or of all."""
    query = sa.select(runs.c.name, runs.c.completed_at, runs.c.results).where(
        runs.c.workspace_id == workspace_id,
        runs.c.kind == RunKind.EVAL.value,
        runs.c.state == RunState.FINISHED.value,
        runs.c.completed_at.is_not(None),
    )
    if rollout is not None:
        query = query.where(runs.c.rollout == rollout)
    rows: Any = db.execute(query.order_by(runs.c.number.desc()).limit(limit)).all()
    return [
        Score(row.name, row.completed_at, float(row.results["score"]))
        for row in reversed(rows)
        if row.results and row.results.get("score") is not None
    ]
