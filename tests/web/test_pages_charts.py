"""Charts: a label stands under what it tells of, a legend has what the picture shows."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from gitsync.store.glance import Point
from gitsync.store.run_pages import Scored
from gitsync.web.pages import charts, run_charts

NOON = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)


def points(count: int, *outcomes: str) -> list[Point]:
    return [
        Point(n, NOON + timedelta(minutes=n), 0.1 + n / 50, outcomes[n % len(outcomes)], "a" * 40)
        for n in range(count)
    ]


def labels(svg: str) -> dict[str, tuple[float, bool]]:
    """Times below the picture: where, and whether they end there."""
    found = re.findall(r'<text x="([\d.]+)" y="115"( text-anchor="end")?>([\d:]+)</text>', svg)
    return {text: (float(x), bool(end)) for x, end, text in found}


def test_the_newest_bar_stands_over_its_time():
    for count in (1, 2, 3, 12, 60):
        svg = str(charts.sync_bars(points(count, "published")))
        bars = [
            (float(x), float(w))
            for x, w in re.findall(r'<rect [^>]*x="([\d.]+)"[^>]*width="([\d.]+)"', svg)
        ]
        said = labels(svg)
        newest = f"{NOON + timedelta(minutes=count - 1):%H:%M}"
        assert said[newest] == (charts.WIDTH, True)
        assert charts.WIDTH - 3 <= sum(bars[-1]) <= charts.WIDTH
        assert bars[0][0] >= charts.LEFT
        if count >= 12:
            assert abs(said["12:00"][0] - bars[0][0]) < 3 and not said["12:00"][1]
        elif count > 1:
            assert len(said) == 1  # no room for two


def test_the_newest_push_stands_over_its_time():
    for count in (1, 2, 12, 60):
        svg = str(charts.push_dots(points(count, "published")))
        dots = [float(x) for x in re.findall(r'<circle [^>]*cx="([\d.]+)"', svg)]
        assert dots[0] >= charts.LEFT and dots[-1] == charts.WIDTH - 4
        assert f"{NOON + timedelta(minutes=count - 1):%H:%M}" in labels(svg)


def test_a_legend_has_what_there_is():
    words = [word for _, word in charts.legend(points(4, "published", "waiting"))]
    assert words == ["published", "no commit yet, or replaced"]
    assert charts.legend(points(2, "error")) == [("bad", "refused or failed")]


def test_one_evaluation_has_one_time():
    one = Scored("run-1", NOON, "a" * 40, 0.5, None)
    assert str(run_charts.reward_line([one])).count("12:00") == 1
