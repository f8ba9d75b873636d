"""Measurements as ratios against a baseline of the same run; medians, since machines are noisy.

A module here has `measure(quick: bool) -> Iterator[Result]`; `python -m benchmarks [NAME…]` runs
them and writes `benchmarks/results/<date>.json`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """One row: `value` in `unit`; `ratio` against the named baseline; `target` in words."""

    name: str
    value: float
    unit: str
    baseline: str = ""
    baseline_value: float | None = None
    ratio: float | None = None
    target: str = ""
    is_met: bool | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turn(
    first: Callable[[], object], second: Callable[[], object], *, times: int, warmup: int = 1
) -> tuple[list[float], list[float]]:
    """Both in turn, A B A B …, so that a slow moment of the machine hits both."""
    for _ in range(warmup):
        first()
        second()
    pairs = [(seconds(first), seconds(second)) for _ in range(times)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def median_ratio(ones: Sequence[float], others: Sequence[float]) -> float:
    """The median of the ratios, pair by pair."""
    return statistics.median(a / b for a, b in zip(ones, others, strict=True))


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
