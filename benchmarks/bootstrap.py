"""One call → a published workspace, against making the same repository by hand.

By hand: `git init --bare` on a plain host, the rendered files laid out, add, commit, push, then
fetch and `git archive | sha256sum` as a cluster would. Rendering is left out there: the comparison
favours it.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import Result, in_turn, median_ratio, percentile
from benchmarks.plainhost import plain_host
from benchmarks.serverprocess import server_process
from gitsync.template import workspace_files
from tests.live import Live, git
from tests.template.builders import lay_out

STARTERS = ["minimal-local"]


def by_hand(folder: Path, root: Path, url: str) -> Callable[[], None]:
    """One round of making, pushing, fetching and hashing a repository."""
    files = workspace_files(STARTERS)
    counter = itertools.count()

    def work() -> None:
        name = f"hand-{next(counter)}"
        git(root, "init", "--bare", "--quiet", "--initial-branch=main", f"{name}.git")
        copy = lay_out(folder / name, files)
        git(copy, "init", "--quiet", "--initial-branch=main")
        git(copy, "add", "--all")
        git(copy, "commit", "--quiet", "-m", "First")
        git(copy, "push", "--quiet", f"{url}/{name}.git", "main")
        mirror = folder / f"{name}.mirror"
        git(folder, "clone", "--bare", "--quiet", f"{url}/{name}.git", str(mirror))
        archive = subprocess.Popen(
            ["git", "archive", "main", "rollouts/minimal-local"], cwd=mirror, stdout=subprocess.PIPE
        )
        subprocess.run(["sha256sum"], stdin=archive.stdout, stdout=subprocess.DEVNULL, check=True)
        archive.wait()

    return work


def measure(quick: bool) -> Iterator[Result]:
    times = 15 if quick else 60
    counter = itertools.count()
    calls: list[float] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch, plain_host(Path(scratch)) as host:
        root, url, _ = host
        with server_process(Path(scratch) / "server", check_processes=2) as live:

            def ours() -> None:
                made = born(live, f"born-{next(counter)}", calls)
                status = live.status(made, made["commit_sha"])
                assert status["state"] == "published", status

            ones, others = in_turn(ours, by_hand(Path(scratch), root, url), times=times)
            ratio = median_ratio(ones, others)
            yield Result(
                "bootstrap call → published, p50",
                statistics.median(ones) * 1000,
                "ms",
                "init + commit + push + clone + archive | sha256sum by hand",
                statistics.median(others) * 1000,
                ratio,
                details={"call_ms": round(statistics.median(calls) * 1000, 1)},
            )
            slow = percentile(ones, 0.99) * 1000
            yield Result(
                "bootstrap call → published, p99",
                slow,
                "ms",
                target="< 2000 ms",
                is_met=slow < 2000,
            )


def born(live: Live, name: str, calls: list[float]) -> dict[str, Any]:
    """One workspace; how long its call took is added to `calls`."""
    body = {"name": name, "identity": f"{name}--local/x", "create": {"starters": STARTERS}}
    answer = live.call("POST", "/workspaces", json=body)
    calls.append(answer.elapsed.total_seconds())
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made
