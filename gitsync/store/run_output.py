"""What a run says: log entries, samples, metrics. Repeating a write changes nothing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.run_records import Run, RunLog, RunMetric, RunSample
from gitsync.store.rows import Page, page_by_id, record
from gitsync.store.run_tables import run_logs, run_metrics, run_samples, runs
from gitsync.text import storable

MOST_MESSAGE = 16 * 1024
MOST_METRICS = 100_000
_CHUNK = 200


# -- logs -----------------------------------------------------------------------------------------


def add_log(
    db: Connection,
    run: Run,
    level: str,
    step: str,
    message: str,
    *,
    now: datetime,
    details: dict[str, Any] | None = None,
) -> None:
    """One entry of the service itself."""
    entry = {"level": level, "step": step, "message": message, "details": details}
    append_logs(db, run, [entry | {"sequence": None, "timestamp": now}], now=now)


def append_logs(
    db: Connection, run: Run, entries: Sequence[dict[str, Any]], *, now: datetime
) -> int:
    """Entries of an executor, in order; those whose sequence is known are passed over.

    Times never run backwards within a log, and never ahead of ours.
    """
    known = _known_sequences(db, run, [e["sequence"] for e in entries])
    last = db.execute(
        sa.select(run_logs.c.timestamp)
        .where(run_logs.c.run_number == run.number)
        .order_by(run_logs.c.id.desc())
        .limit(1)
    ).scalar()
    fresh = []
    for entry in entries:
        sequence = entry["sequence"]
        if sequence is not None and sequence in known:
            continue
        known.add(sequence)
        said = min(entry["timestamp"] or now, now)
        last = said if last is None else max(said, last)
        fresh.append(
            {
                "run_number": run.number,
                "attempt": run.attempt,
                "sequence": sequence,
                "timestamp": last,
                "level": entry["level"],
                "step": storable(entry["step"], limit=80),
                "message": storable(entry["message"], limit=MOST_MESSAGE),
                "details": entry["details"],
            }
        )
    if fresh:
        db.execute(run_logs.insert(), fresh)
        db.execute(
            runs.update()
            .where(runs.c.number == run.number)
            .values(log_entries=runs.c.log_entries + len(fresh))
        )
    return len(fresh)


def _known_sequences(db: Connection, run: Run, wanted: Sequence[int | None]) -> set[int | None]:
    numbers = [number for number in wanted if number is not None]
    if not numbers:
        return set()
    return set(
        db.execute(
            sa.select(run_logs.c.sequence).where(
                run_logs.c.run_number == run.number,
                run_logs.c.attempt == run.attempt,
                run_logs.c.sequence.between(min(numbers), max(numbers)),
            )
        ).scalars()
    )


def logs_of(
    db: Connection, run: Run, *, limit: int, before: int | None
) -> tuple[list[RunLog], int | None]:
    """The newest entries before an id, oldest first, and the id to go on with towards older."""
    query = sa.select(run_logs).where(run_logs.c.run_number == run.number)
    if before is not None:
        query = query.where(run_logs.c.id < before)
    rows = db.execute(query.order_by(run_logs.c.id.desc()).limit(limit + 1)).all()
    entries = [record(RunLog, row) for row in reversed(rows[:limit])]
    return entries, entries[0].id if len(rows) > limit else None


# -- samples --------------------------------------------------------------------------------------


def put_samples(
    db: Connection, run: Run, samples: Sequence[dict[str, Any]], *, now: datetime
) -> None:
    """Results by row and try; a later one of the same place replaces the earlier one."""
    latest = {(sample["row_index"], sample["run_index"]): sample for sample in samples}
    rows = sorted({row for row, _ in latest})
    known: set[tuple[int, int]] = set()
    for start in range(0, len(rows), _CHUNK):
        found = db.execute(
            sa.select(run_samples.c.row_index, run_samples.c.run_index).where(
                run_samples.c.run_number == run.number,
                run_samples.c.row_index.in_(rows[start : start + _CHUNK]),
            )
        )
        known |= {(row.row_index, row.run_index) for row in found}
    noted = {"attempt": run.attempt, "recorded_at": now}
    for place in known & latest.keys():
        db.execute(
            run_samples.update()
            .where(
                run_samples.c.run_number == run.number,
                run_samples.c.row_index == place[0],
                run_samples.c.run_index == place[1],
            )
            .values(**latest[place], **noted)
        )
    fresh = [
        {"run_number": run.number, **sample, **noted}
        for place, sample in latest.items()
        if place not in known
    ]
    if fresh:
        db.execute(run_samples.insert(), fresh)


def progress(db: Connection, run: Run, *, threshold: float) -> dict[str, Any]:
    """The samples so far in a few numbers, by the names the `osmosis` client reads."""
    reward, status = run_samples.c.reward, run_samples.c.status
    is_scored = status != "skipped"

    def how_many(condition: Any) -> Any:
        return sa.func.count(sa.case((condition, 1)))

    row = db.execute(
        sa.select(
            sa.func.count().label("total"),
            how_many(is_scored).label("scored"),
            how_many(is_scored & reward.is_not(None)).label("graded"),
            how_many(is_scored & (reward >= threshold)).label("passed"),
            how_many(status == "failed").label("failed"),
            sa.func.avg(sa.case((is_scored, reward))).label("score"),
            sa.func.coalesce(sa.func.sum(run_samples.c.tokens), 0).label("tokens"),
        ).where(run_samples.c.run_number == run.number)
    ).one()
    found: dict[str, Any] = {
        "total_runs": row.scored,
        "graded": row.graded,
        "passed": row.passed,
        "failed": row.failed,
        "skipped": row.total - row.scored,
        "pass_rate": row.passed / row.scored if row.scored else 0.0,
        "pass_threshold": threshold,
        "total_tokens": int(row.tokens),
    }
    if row.score is not None:
        found["score"] = float(row.score)
    return found


def note_samples(db: Connection, run: Run, results: dict[str, Any]) -> None:
    """Write the progress down where lists read it."""
    total = results["total_runs"] + results["skipped"]
    db.execute(
        runs.update().where(runs.c.number == run.number).values(samples=total, results=results)
    )


def page_samples(db: Connection, run: Run, *, limit: int, after: str | None) -> Page[RunSample]:
    """The latest first."""
    query = sa.select(run_samples).where(run_samples.c.run_number == run.number)
    return page_by_id(
        db,
        query,
        run_samples.c.id,
        limit=limit,
        after=after,
        build=lambda row: record(RunSample, row),
    )


def sums(db: Connection, run: Run, *, threshold: float) -> dict[str, Any] | None:
    """All samples in a few numbers, worked out as the `osmosis` client does; None without any.

    What was skipped is in no denominator; what failed is, though it has no reward.
    """
    rows = db.execute(
        sa.select(
            run_samples.c.row_index,
            run_samples.c.run_index,
            run_samples.c.status,
            run_samples.c.reward,
            run_samples.c.tokens,
        ).where(run_samples.c.run_number == run.number)
    ).all()
    if not rows:
        return None
    scored = [row for row in rows if row.status != "skipped"]
    rewards = [row.reward for row in scored if row.reward is not None]
    passed = sum(reward >= threshold for reward in rewards)
    found: dict[str, Any] = {
        "total_samples": len(rows),
        "completed_samples": len(scored),
        "graded": len(rewards),
        "passed": passed,
        "failed": sum(row.status == "failed" for row in rows),
        "skipped": len(rows) - len(scored),
        "pass_rate": passed / len(scored) if scored else 0.0,
        "pass_threshold": threshold,
        "tokens_used": sum(row.tokens or 0 for row in rows),
        "rows": len({row.row_index for row in rows}),
        "reward_stats": None,
        "pass_at_k": _pass_at_k(scored, threshold),
    }
    if rewards:
        found["reward_stats"] = {
            "mean": statistics.fmean(rewards),
            "median": statistics.median(rewards),
            "std": statistics.pstdev(rewards) if len(rewards) > 1 else 0.0,
            "min": min(rewards),
            "max": max(rewards),
        }
    return found


def _pass_at_k(scored: Sequence[Any], threshold: float) -> list[dict[str, Any]]:
    """How likely one of k tries passes, for k = 1, 2, 4, …; only with several tries of a row."""
    tries: dict[int, list[bool]] = {}
    for row in scored:
        is_pass = row.reward is not None and row.reward >= threshold
        tries.setdefault(row.row_index, []).append(is_pass)
    most = max((len(found) for found in tries.values()), default=0)
    points, k = [], 1
    while most >= 2 and k <= most:
        able = [_chance(found, k) for found in tries.values() if len(found) >= k]
        points.append({"k": k, "value": statistics.fmean(able)})
        k *= 2
    return points


def _chance(tries: Sequence[bool], k: int) -> float:
    """Of all choices of k among these tries, the share that holds a pass."""
    failures, missed = tries.count(False), 1.0
    for number in range(k):
        missed *= max(0, failures - number) / (len(tries) - number)
    return 1.0 - missed


def is_all_rewarded(db: Connection, run: Run) -> bool:
    """True if there are samples and each one has a reward."""
    total, rewarded = db.execute(
        sa.select(sa.func.count(), sa.func.count(run_samples.c.reward)).where(
            run_samples.c.run_number == run.number
        )
    ).one()
    return bool(total) and total == rewarded


# -- metrics --------------------------------------------------------------------------------------


def put_metrics(db: Connection, run: Run, metrics: Sequence[dict[str, Any]]) -> None:
    """Values by metric and step; a later one of the same place replaces the earlier one."""
    for metric in metrics:
        place = (
            run_metrics.c.run_number == run.number,
            run_metrics.c.key == metric["key"],
            run_metrics.c.step == metric["step"],
        )
        if db.execute(run_metrics.update().where(*place).values(**metric)).rowcount == 0:
            db.execute(run_metrics.insert().values(run_number=run.number, **metric))


def count_metrics(db: Connection, run: Run) -> int:
    """How many values there are."""
    query = sa.select(sa.func.count()).where(run_metrics.c.run_number == run.number)
    return db.execute(query).scalar_one()


def metrics_of(db: Connection, run: Run, *, limit: int = MOST_METRICS) -> list[RunMetric]:
    """All values, by metric and step."""
    rows = db.execute(
        sa.select(run_metrics)
        .where(run_metrics.c.run_number == run.number)
        .order_by(run_metrics.c.key, run_metrics.c.step)
        .limit(limit)
    )
    return [record(RunMetric, row) for row in rows]
