"""Two runs sample by sample: the same row and try of one data set."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.run_records import Run
from gitsync.store.run_tables import run_samples

_one, _two = run_samples.alias("one"), run_samples.alias("two")
_SAME_PLACE = sa.and_(_one.c.row_index == _two.c.row_index, _one.c.run_index == _two.c.run_index)
_GAIN = _two.c.reward - _one.c.reward
# a reward in one run only is a difference too, and the largest
_LOST = sa.and_(_one.c.reward.is_not(None), _two.c.reward.is_(None))
_WON = sa.and_(_one.c.reward.is_(None), _two.c.reward.is_not(None))
_DIFFERS = sa.or_(_GAIN != 0, _WON, _LOST)


@dataclass(frozen=True, slots=True)
class Pair:
    """The same row and try in two runs."""

    row_index: int
    run_index: int
    one: float | None
    two: float | None

    @property
    def gain(self) -> float | None:
        """How much better the second one is; None if one of them has no reward."""
        return None if self.one is None or self.two is None else self.two - self.one

    @property
    def is_lost(self) -> bool:
        """True if only the first one has a reward."""
        return self.one is not None and self.two is None


@dataclass(frozen=True, slots=True)
class Sums:
    """Two runs sample by sample, in numbers."""

    rewarded: int  # samples that have a reward in both
    better: int
    worse: int
    lost: int  # samples with a reward in the first run only: in the second one they failed
    won: int  # in the second one only
    gain: float | None  # the mean difference of those that have a reward in both
    only_one: int
    only_two: int

    @property
    def same(self) -> int:
        """Samples with the same reward."""
        return self.rewarded - self.better - self.worse

    @property
    def differing(self) -> int:
        """Samples whose rewards are not the same."""
        return self.better + self.worse + self.lost + self.won


def sums(db: Connection, one: Run, two: Run) -> Sums:
    """How the samples of two runs compare."""
    row = db.execute(
        sa.select(
            sa.func.count(_GAIN),
            sa.func.count(sa.case((_GAIN > 0, 1))),
            sa.func.count(sa.case((_GAIN < 0, 1))),
            sa.func.count(sa.case((_LOST, 1))),
            sa.func.count(sa.case((_WON, 1))),
            sa.func.avg(_GAIN),
            sa.func.count(),
        )
        .select_from(_one.join(_two, _SAME_PLACE))
        .where(_one.c.run_number == one.number, _two.c.run_number == two.number)
    ).one()
    counts: dict[int, int] = dict(
        db.execute(
            sa.select(run_samples.c.run_number, sa.func.count())
            .where(run_samples.c.run_number.in_([one.number, two.number]))
            .group_by(run_samples.c.run_number)
        ).all()
    )
    return Sums(
        rewarded=row[0],
        better=row[1],
        worse=row[2],
        lost=row[3],
        won=row[4],
        gain=None if row[5] is None else float(row[5]),
        only_one=counts.get(one.number, 0) - row[6],
        only_two=counts.get(two.number, 0) - row[6],
    )


def pairs(db: Connection, one: Run, two: Run, *, limit: int, offset: int) -> list[Pair]:
    """Samples whose rewards differ, the largest difference first."""
    size = sa.func.abs(_GAIN)
    rows = db.execute(
        sa.select(
            _one.c.row_index,
            _one.c.run_index,
            _one.c.reward.label("first"),
            _two.c.reward.label("second"),
        )
        .select_from(_one.join(_two, _SAME_PLACE))
        .where(_one.c.run_number == one.number, _two.c.run_number == two.number, _DIFFERS)
        .order_by(size.desc().nulls_first(), _one.c.row_index, _one.c.run_index)
        .limit(limit)
        .offset(offset)
    )
    return [Pair(row.row_index, row.run_index, row.first, row.second) for row in rows]
