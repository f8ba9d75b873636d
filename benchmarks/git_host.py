"""`git push` and `git clone` through the embedded host, against `git http-backend`."""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import Result, in_turn, median_ratio
from benchmarks.plainhost import plain_host
from tests.git.kit import ServedHost, checkout, commit, git

MIB = 1 << 20


def measure(quick: bool) -> Iterator[Result]:
    """Small pushes, and a large push and clone."""
    times = 12 if quick else 80
    with (
        tempfile.TemporaryDirectory() as name,
        plain_host(Path(name)) as (root, url, _port),
        ServedHost(Path(name) / "ours") as host,
    ):
        folder = Path(name)
        host.make()
        host.lines = []
        subprocess.run(["git", "init", "-q", "--bare", str(root / "x.git")], check=True)
        work = checkout(folder / "work")
        count = itertools.count()
        places = {"ours": host.url(), "plain": f"{url}/x.git"}

        def push(place: str) -> None:
            git("push", "-q", places[place], "HEAD:main", cwd=work)

        push("ours")
        push("plain")
        spent: list[tuple[float, float]] = []
        for _ in range(times):
            commit(work, {"README.md": f"{next(count)}\n"})
            one, two = in_turn(lambda: push("ours"), lambda: push("plain"), times=1, warmup=0)
            spent.append((one[0], two[0]))
        yield _result("push of one small commit", spent)
        size = 20 if quick else 200
        (work / "blob").write_bytes(os.urandom(size * MIB))
        commit(work, {})
        one, two = in_turn(lambda: push("ours"), lambda: push("plain"), times=1, warmup=0)
        yield _result(f"push of {size} MB", list(zip(one, two, strict=True)))

        def clone(place: str) -> None:
            git("clone", "-q", "--bare", places[place], str(folder / "copy"))
            shutil.rmtree(folder / "copy")

        one, two = in_turn(lambda: clone("ours"), lambda: clone("plain"), times=3, warmup=0)
        yield _result(f"clone of {size} MB", list(zip(one, two, strict=True)))


def _result(name: str, spent: list[tuple[float, float]]) -> Result:
    ours, plain = [a for a, _ in spent], [b for _, b in spent]
    return Result(
        name,
        statistics.median(ours) * 1000,
        "ms",
        baseline="git http-backend",
        baseline_value=statistics.median(plain) * 1000,
        ratio=median_ratio(ours, plain),
    )
