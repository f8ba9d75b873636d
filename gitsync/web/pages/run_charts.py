"""Charts of runs: rewards over evaluations, rewards within one, two runs side by side, metrics.

They follow the promise of `charts`. Two runs are told apart by shape as well as by colour: the
second one is drawn as an outline, or as a dashed line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from gitsync.store.run_pages import Scored, Series, Spread
from gitsync.web.pages.charts import BOTTOM, HEIGHT, LEFT, TOP, WIDTH, level, svg

_INNER = HEIGHT - BOTTOM - TOP


def number(value: float | None) -> str:
    """A reward or a metric, short."""
    if value is None:
        return "–"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.2e}"
    text = f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True, slots=True)
class _Range:
    """Values to heights."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> _Range:
        low, high = min(values), max(values)
        if low >= 0 and high <= 1:
            low, high = 0.0, 1.0
        elif low == high:
            low, high = low - 0.5, high + 0.5
        return cls(low, high)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (value - self.low) / (self.high - self.low) * _INNER

    def frame(self) -> list[str]:
        parts = []
        for value in (self.low, (self.low + self.high) / 2, self.high):
            y = self.y(value)
            text = number(value)
            parts.append(level(y))
            parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        return parts


def _below(left: str, right: str) -> list[str]:
    y = HEIGHT - 4
    return [
        f'<text x="{LEFT}" y="{y}">{escape(left)}</text>',
        f'<text x="{WIDTH}" y="{y}" text-anchor="end">{escape(right)}</text>',
    ]


def reward_line(points: Sequence[Scored]) -> Markup | None:
    """The mean reward of the evaluations of a rollout, newest at the right."""
    if not points:
        return None
    scale = _Range.of([p.score for p in points])
    step = (WIDTH - LEFT - 16) / max(1, len(points) - 1)
    line, dots = [], []
    for place, point in enumerate(points):
        x, y = LEFT + 8 + place * step, scale.y(point.score)
        line.append(f"{x:.1f},{y:.1f}")
        passed = "" if point.pass_rate is None else f", {point.pass_rate:.0%} passed"
        dots.append(
            f'<circle class="ok" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>'
            f"{escape(point.name)} of {escape(point.commit_sha[:7])}: mean reward "
            f"{number(point.score)}{passed}</title></circle>"
        )
    best, last = max(points, key=lambda p: p.score), points[-1]
    count = "The only finished evaluation" if len(points) == 1 else f"{len(points)} evaluations"
    text = (
        f"{count}: the newest has the mean reward {number(last.score)}; the best is "
        f"{number(best.score)}, of {best.name}."
    )
    body = [*scale.frame(), f'<polyline class="trend" points="{" ".join(line)}"/>', *dots]
    ends = [f"{p.at:%b} {p.at.day}" for p in (points[0], last)]
    if ends[0] == ends[1]:
        ends = [f"{p.at:%H:%M}" for p in (points[0], last)]
    if len(points) == 1:
        ends[1] = ""  # the one is at the left
    return svg("rewards-chart", "Mean reward over evaluation runs", text, body + _below(*ends))


def spread_bars(one: Spread, two: Spread | None = None, *, names: Sequence[str] = ()) -> Markup:
    """How many samples got which reward; with `two`, both runs side by side, as shares."""
    shown = [one] if two is None else [one, two]
    shares = [[c / max(1, s.total) for c in s.counts] for s in shown]
    is_count = two is None
    most = max(max(s.counts) for s in shown) if is_count else max(max(s) for s in shares)
    most = most or 1
    body = []
    for value in (most / 2, most):
        if is_count and value != int(value):
            continue
        y = HEIGHT - BOTTOM - value / most * _INNER
        text = f"{value:.0f}" if is_count else f"{value:.0%}"
        body += [
            level(y),
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>',
        ]
    body.append(level(HEIGHT - BOTTOM))
    count = len(one.counts)
    slot = (WIDTH - LEFT) / count
    width = (slot - 3) / len(shown)
    edges = [one.low + (one.high - one.low) * n / count for n in range(count + 1)]
    for place, spread in enumerate(shown):
        for n, found in enumerate(spread.counts):
            if not found:
                continue
            height = max(2.0, (found if is_count else shares[place][n]) / most * _INNER)
            inset = 0.0 if place == 0 else 0.75  # an outline is drawn around its edge
            x = LEFT + n * slot + 1.5 + place * width
            who = f"{escape(names[place])}: " if names else ""
            body.append(
                f'<rect class="{"two" if place else "one"}" x="{x + inset:.1f}" '
                f'y="{HEIGHT - BOTTOM - height + inset:.1f}" width="{width - 2 * inset:.1f}" '
                f'height="{max(0.5, height - inset):.1f}" rx="1"><title>{who}reward '
                f"{number(edges[n])} to {number(edges[n + 1])}: {found} "
                f"sample{'' if found == 1 else 's'}</title></rect>"
            )
    said = []
    for place, spread in enumerate(shown):
        fullest = max(range(count), key=lambda n, of=spread: of.counts[n])  # type: ignore[misc]
        who = f"{names[place]}: " if names else ""
        said.append(
            f"{who}{spread.total} samples with a reward, {spread.without} without; most of them, "
            f"{spread.counts[fullest]}, lie between {number(edges[fullest])} and "
            f"{number(edges[fullest + 1])}."
        )
    title = "Rewards of the samples" if two is None else "Rewards of the samples of both runs"
    ends = _below(number(one.low), number(one.high))
    return svg("spread-chart", title, " ".join(said), body + ends)


def metric_line(place: int, one: Series, two: Series | None = None) -> Markup:
    """A metric over the steps, of one run or of two."""
    shown = [one] if two is None else [one, two]
    scale = _Range.of([value for s in shown for _, value in s.points])
    first = min(s.points[0][0] for s in shown)
    last = max(s.points[-1][0] for s in shown)
    body = scale.frame()
    for which, series in enumerate(shown):
        points = [
            (LEFT + 4 + (step - first) / max(1, last - first) * (WIDTH - LEFT - 8), scale.y(value))
            for step, value in series.points
        ]
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        body.append(f'<polyline class="trend{" second" if which else ""}" points="{text}"/>')
        x, y = points[-1]
        kind = "two" if which else "one"
        body.append(
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>step '
            f"{series.points[-1][0]}: {number(series.points[-1][1])}</title></circle>"
        )
    said = " ".join(
        f"{'The other run' if which else 'It'} goes from {number(s.points[0][1])} at step "
        f"{s.points[0][0]} to {number(s.points[-1][1])} at step {s.points[-1][0]}."
        for which, s in enumerate(shown)
    )
    ends = _below(f"step {first}", f"step {last}" if last != first else "")
    return svg(f"metric-{place}", f"{one.title} over the steps", said, body + ends)
