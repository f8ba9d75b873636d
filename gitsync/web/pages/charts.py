"""Charts as inline SVG, made here: no script, readable by a screen reader.

Promise: only attributes and classes, no style; the words of `<title>` and `<desc>` say what the
picture says; sizes are fixed, so that a live update moves nothing around it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup, escape

from gitsync.store.glance import Point
from gitsync.web.pages.render import milliseconds

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 320, 120, 56, 18, 8
APART = 84  # two labels need that much
_KINDS = {"published": "ok", "published_with_errors": "warn", "refused": "bad", "error": "bad"}


@dataclass(frozen=True, slots=True)
class _Scale:
    """Seconds to height, logarithmic when the values are far apart."""

    low: float
    high: float
    is_log: bool

    @classmethod
    def of(cls, values: Sequence[float]) -> _Scale:
        high = max([*values, 0.001])
        low = max(min(values), 0.001)
        is_log = high / low > 30
        return cls(low / 1.5 if is_log else 0.0, high * 1.1, is_log)

    def y(self, value: float) -> float:
        inner = HEIGHT - BOTTOM - TOP
        if self.is_log:
            value = max(value, self.low)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = value / self.high
        return HEIGHT - BOTTOM - share * inner

    def ticks(self) -> list[float]:
        """Two or three round values."""
        steps = [m * 10.0**e for e in range(-3, 7) for m in ((1,) if self.is_log else (1, 2, 5))]
        inside = [s for s in steps if self.low < s <= self.high]
        if self.is_log:
            return inside[-3:]
        return [inside[-1] / 2, inside[-1]] if inside else [self.high]


def level(y: float) -> str:
    """A horizontal line."""
    return f'<line class="axis" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH}" y2="{y:.1f}"/>'


def _frame(scale: _Scale) -> list[str]:
    parts = [level(HEIGHT - BOTTOM)]
    for value in scale.ticks():
        y = scale.y(value)
        parts.append(level(y))
        text = milliseconds(value * 1000)
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    return parts


def svg(name: str, title: str, description: str, body: list[str]) -> Markup:
    """The whole picture with its words; `name` is unique on the page."""
    return Markup(  # noqa: S704 - numbers, and texts escaped here
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-labelledby="{name}-t {name}-d"><title id="{name}-t">{escape(title)}</title>'
        f'<desc id="{name}-d">{escape(description)}</desc>{"".join(body)}</svg>'
    )


def _ends(points: Sequence[Point], begin: float) -> list[str]:
    """The times of the oldest one, which begins there, and of the newest one at the right."""
    y = HEIGHT - 5
    first, last = (f"{p.at:%b} {p.at.day}" for p in (points[0], points[-1]))
    if first == last:
        first, last = (f"{p.at:%H:%M}" for p in (points[0], points[-1]))
    found = [f'<text x="{WIDTH}" y="{y}" text-anchor="end">{last}</text>']
    if WIDTH - begin >= APART:
        found.insert(0, f'<text x="{begin:.1f}" y="{y}">{first}</text>')
    return found


def sync_bars(points: Sequence[Point]) -> Markup | None:
    """How long syncs took and how they ended, one bar each, newest at the right."""
    if not points:
        return None
    scale = _Scale.of([p.seconds for p in points])
    step = min(22.0, (WIDTH - LEFT) / len(points))
    begin = WIDTH - step * len(points)
    body = _frame(scale)
    for number, point in enumerate(points):
        x = begin + number * step
        y = min(scale.y(point.seconds), HEIGHT - BOTTOM - 2)
        word = point.outcome.replace("_", " ")
        body.append(
            f'<rect class="{_KINDS.get(point.outcome, "plain")}" x="{x + 1:.1f}" y="{y:.1f}" '
            f'width="{max(1.0, step - 2):.1f}" height="{HEIGHT - BOTTOM - y:.1f}" rx="1.5">'
            f"<title>Sync {point.id}: {word} after {milliseconds(point.seconds * 1000)}</title>"
            "</rect>"
        )
    good = sum(p.outcome == "published" for p in points)
    middle = milliseconds(median(p.seconds for p in points) * 1000)
    text = (
        f"The latest {len(points)} syncs that found something: {good} published without errors; "
        f"half of them took {middle} or less."
    )
    return svg("syncs-chart", "Sync duration and outcome", text, body + _ends(points, begin))


_LEGEND = (
    ("ok", "published"),
    ("warn", "with errors"),
    ("bad", "refused or failed"),
    ("plain", "no commit yet, or replaced"),
)


def legend(points: Sequence[Point]) -> list[tuple[str, str]]:
    """The looks that a chart of these points has, with their words."""
    found = {_KINDS.get(point.outcome, "plain") for point in points}
    return [(look, word) for look, word in _LEGEND if look in found]


def push_dots(points: Sequence[Point]) -> Markup | None:
    """The time from a push's arrival to being live, one dot each, newest at the right."""
    if not points:
        return None
    scale = _Scale.of([p.seconds for p in points])
    step = (WIDTH - LEFT - 12) / max(1, len(points) - 1)
    step = min(step, 24.0)
    begin = WIDTH - 4 - step * (len(points) - 1)
    body, line = _frame(scale), []
    for number, point in enumerate(points):
        x, y = begin + number * step, scale.y(point.seconds)
        line.append(f"{x:.1f},{y:.1f}")
        body.append(
            f'<circle class="{_KINDS.get(point.outcome, "plain")}" cx="{x:.1f}" cy="{y:.1f}" r="3">'
            f"<title>{(point.sha or '')[:7]} live after {milliseconds(point.seconds * 1000)}"
            "</title></circle>"
        )
    body.insert(1, f'<polyline class="trend" points="{" ".join(line)}"/>')
    middle = milliseconds(median(p.seconds for p in points) * 1000)
    slowest = milliseconds(max(p.seconds for p in points) * 1000)
    text = (
        f"The latest {len(points)} pushes: half were live after {middle}, the slowest after "
        f"{slowest}."
    )
    return svg("pushes-chart", "Time from push to live", text, body + _ends(points, begin - 4))
