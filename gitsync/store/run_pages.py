"""What the pages of runs read: a fixed number of statements, however long logs and lists are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.run_records import Run, RunKind, RunLog, RunSample, RunState
from gitsync.store.rows import record
from gitsync.store.run_tables import executors, run_logs, run_metrics, run_samples, runs
from gitsync.store.tables import clock, token_workspaces, tokens

_PENDING, _RUNNING = RunState.PENDING.value, RunState.RUNNING.value
BINS = 10


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a pending run is pending: who is there, how many of them work, how many come first."""

    executors: int
    busy: int
    ahead: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Rewards in equal bins from `low` to `high`; `without` samples have none."""

    low: float
    high: float
    counts: tuple[int, ...]
    without: int

    @property
    def total(self) -> int:
        """Samples with a reward."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Scored:
    """A finished evaluation in a chart."""

    name: str
    at: datetime
    commit_sha: str
    score: float
    pass_rate: float | None


@dataclass(frozen=True, slots=True)
class Series:
    """One metric over the steps, thinned to what a chart can show; `count` values in all."""

    key: str
    title: str
    points: tuple[tuple[int, float], ...]
    count: int


def comparable(db: Connection, run: Run, *, limit: int) -> list[Run]:
    """The newest other runs of the same kind, those of the same rollout first."""
    rows = db.execute(
        sa.select(runs)
        .where(
            runs.c.workspace_id == run.workspace_id,
            runs.c.kind == run.kind.value,
            runs.c.number != run.number,
        )
        .order_by(runs.c.number.desc())
        .limit(limit)
    )
    found = [record(Run, row) for row in rows]
    return sorted(found, key=lambda other: other.rollout != run.rollout)


def waiting(db: Connection, run: Run, *, within_s: float) -> Waiting:
    """Who could take a pending run, and how many runs they would take before it."""
    since = sa.type_coerce(clock(), sa.BigInteger) - int(within_s * 1_000_000)
    there = (
        sa.select(executors.c.token_id)
        .join(tokens, tokens.c.id == executors.c.token_id)
        .join(token_workspaces, token_workspaces.c.token_id == executors.c.token_id)
        .where(
            executors.c.kind == run.kind.value,
            executors.c.seen_at > since,
            tokens.c.revoked_at.is_(None),
            token_workspaces.c.workspace_id == run.workspace_id,
        )
    )
    ids = list(db.execute(there).scalars())
    served = sa.select(token_workspaces.c.workspace_id).where(token_workspaces.c.token_id.in_(ids))
    ahead = sa.select(sa.func.count()).where(
        runs.c.state == _PENDING,
        runs.c.number < run.number,
        runs.c.kind == run.kind.value,
        sa.or_(runs.c.workspace_id == run.workspace_id, runs.c.workspace_id.in_(served)),
    )
    busy = sa.select(sa.func.count(sa.distinct(runs.c.executor_token_id))).where(
        runs.c.state == _RUNNING, runs.c.executor_token_id.in_(ids)
    )
    row = db.execute(sa.select(ahead.scalar_subquery(), busy.scalar_subquery())).one()
    return Waiting(executors=len(ids), busy=row[1], ahead=row[0])


def first_words(db: Connection, run: Run, *, limit: int = 12) -> list[RunLog]:
    """What the service said when the run was accepted: the code, and what to know about it."""
    rows = db.execute(
        sa.select(run_logs)
        .where(run_logs.c.run_number == run.number)
        .order_by(run_logs.c.id)
        .limit(limit)
    )
    found = []
    for row in rows:
        if row.sequence is not None or row.step != "submit":
            break
        found.append(record(RunLog, row))
    return found


# -- rewards --------------------------------------------------------------------------------------


def scored(db: Connection, workspace_id: str, rollout: str, *, limit: int) -> list[Scored]:
    """The newest finished evaluations of a rollout that have a score, oldest first."""
    rows = db.execute(
        sa.select(runs.c.name, runs.c.completed_at, runs.c.commit_sha, runs.c.results)
        .where(
            runs.c.workspace_id == workspace_id,
            runs.c.rollout == rollout,
            runs.c.kind == RunKind.EVAL.value,
            runs.c.state == RunState.FINISHED.value,
        )
        .order_by(runs.c.number.desc())
        .limit(limit)
    ).all()
    found = []
    for row in reversed(rows):
        results = row.results or {}
        score, rate = results.get("score"), results.get("pass_rate")
        if isinstance(score, int | float):
            rate = float(rate) if isinstance(rate, int | float) else None
            found.append(Scored(row.name, row.completed_at, row.commit_sha, float(score), rate))
    return found


def bounds(db: Connection, shown: Sequence[Run]) -> tuple[float, float] | None:
    """The range of a picture of these runs' rewards: 0 to 1 if all lie there; None without any."""
    reward = run_samples.c.reward
    low, high = db.execute(
        sa.select(sa.func.min(reward), sa.func.max(reward)).where(
            run_samples.c.run_number.in_([run.number for run in shown])
        )
    ).one()
    if low is None:
        return None
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def spreads(db: Connection, shown: Sequence[Run], low: float, high: float) -> dict[int, Spread]:
    """How the rewards of each run are spread, by the run's number."""
    reward = run_samples.c.reward
    edges = [low + (high - low) * n / BINS for n in range(BINS + 1)]

    def within(n: int) -> sa.ColumnElement[bool]:
        """The first and the last bin have no outer edge: rounding must lose nothing."""
        above = reward.is_not(None) if n == 0 else reward >= edges[n]
        return above if n == BINS - 1 else sa.and_(above, reward < edges[n + 1])

    rows = db.execute(
        sa.select(
            run_samples.c.run_number,
            sa.func.count(sa.case((reward.is_(None), 1))),
            *(sa.func.count(sa.case((within(n), 1))) for n in range(BINS)),
        )
        .where(run_samples.c.run_number.in_([run.number for run in shown]))
        .group_by(run_samples.c.run_number)
    )
    return {row[0]: Spread(low, high, tuple(row[2:]), row[1]) for row in rows}


def samples(
    db: Connection, run: Run, *, worst_first: bool, limit: int, offset: int
) -> list[RunSample]:
    """A piece of the samples: by row, or those without a reward and with the least ones first."""
    reward, places = run_samples.c.reward, (run_samples.c.row_index, run_samples.c.run_index)
    query = sa.select(run_samples).where(run_samples.c.run_number == run.number)
    if worst_first:
        query = query.order_by(reward.asc().nulls_first())
    rows = db.execute(query.order_by(*places).limit(limit).offset(offset))
    return [record(RunSample, row) for row in rows]


# -- metrics --------------------------------------------------------------------------------------


def series(db: Connection, run: Run, *, most: int, points: int = 120) -> list[Series]:
    """The metrics of a run by name, `most` of them, each thinned to about so many points."""
    keys = list(
        db.execute(
            sa.select(run_metrics.c.key)
            .where(run_metrics.c.run_number == run.number)
            .distinct()
            .order_by(run_metrics.c.key)
            .limit(most)
        ).scalars()
    )
    if not keys:
        return []
    of_key: dict[str, Any] = {"partition_by": run_metrics.c.key}
    numbered = (
        sa.select(
            run_metrics.c.key,
            run_metrics.c.title,
            run_metrics.c.step,
            run_metrics.c.value,
            sa.func.row_number().over(**of_key, order_by=run_metrics.c.step).label("place"),
            sa.func.count().over(**of_key).label("total"),
        )
        .where(run_metrics.c.run_number == run.number, run_metrics.c.key.in_(keys))
        .subquery()
    )
    place, total = numbered.c.place, numbered.c.total
    rows = db.execute(
        sa.select(numbered)
        .where(sa.or_(place == 1, place == total, place % (total // points + 1) == 0))
        .order_by(numbered.c.key, numbered.c.step)
    ).all()
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return [
        Series(key, of[-1].title, tuple((r.step, r.value) for r in of), of[0].total)
        for key, of in found.items()
    ]
