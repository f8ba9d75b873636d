"""One look at a remote that did not move, against `git ls-remote`; one fetch against `git fetch`.

The remote is a plain host (`git http-backend` behind a small server); each of its answers costs a
process of its own, which is in both sides of every ratio.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import Result, in_turn, median_ratio, percentile
from benchmarks.plainhost import plain_host
from gitsync.git.address import AddressPolicy
from gitsync.git.lsrefs import look
from gitsync.git.mirror import Mirror
from gitsync.git.remote import Network, Remote

MAIN = "refs/heads/main"
LOOK_MS = 25.0


def _git(folder: Path, *args: str) -> str:
    ended = subprocess.run(
        ["git", *args], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    )
    return ended.stdout.strip()


def _upstream(folder: Path, root: Path) -> Path:
    """A working copy whose `origin` is the served repository, by its path."""
    work = folder / "work"
    _git(root, "init", "--bare", "--quiet", "--initial-branch=main", "x.git")
    _git(folder, "init", "--quiet", "--initial-branch=main", str(work))
    (work / "README.md").write_text("hello\n")
    _git(work, "add", "-A")
    _git(work, "commit", "--quiet", "-m", "first")
    _git(work, "remote", "add", "origin", str(root / "x.git"))
    _git(work, "push", "--quiet", "origin", "main")
    return work


def measure(quick: bool) -> Iterator[Result]:
    """The look and the fetch."""
    times = 15 if quick else 100
    with tempfile.TemporaryDirectory() as name, plain_host(Path(name)) as (root, url, port):
        folder = Path(name)
        work = _upstream(folder, root)
        network = Network(policy=AddressPolicy.of([f"127.0.0.1:{port}"]))
        remote = Remote.parse(f"{url}/x.git")
        ours, theirs = in_turn(
            lambda: look(remote, network),
            lambda: _git(folder, "ls-remote", "--symref", remote.url, "HEAD"),
            times=times,
            warmup=2,
        )
        median = statistics.median(ours) * 1000
        yield Result(
            "look at a remote that did not move",
            median,
            "ms",
            baseline="git ls-remote",
            baseline_value=statistics.median(theirs) * 1000,
            ratio=median_ratio(ours, theirs),
            target=f"at most {LOOK_MS:g} ms and one request",
            is_met=median <= LOOK_MS,
            details={"p99_ms": percentile(ours, 0.99) * 1000},
        )
        yield _fetch(folder, work, remote, network, times)


def _fetch(folder: Path, work: Path, remote: Remote, network: Network, times: int) -> Result:
    mirror = Mirror(folder / "mirror.git")
    mirror.ensure()
    plain = folder / "plain.git"
    _git(folder, "clone", "--quiet", "--bare", remote.url, str(plain))
    mirror.fetch(remote, [MAIN], network)
    count = itertools.count()

    def push() -> None:
        (work / "README.md").write_text(f"{next(count)}\n")
        _git(work, "commit", "--quiet", "-a", "-m", "more")
        _git(work, "push", "--quiet", "origin", "main")

    refspec = f"+{MAIN}:{MAIN}"
    spent: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(times):
        push()
        one, two = in_turn(
            lambda: mirror.fetch(remote, [MAIN], network),
            lambda: _git(plain, "fetch", "--quiet", "--no-tags", remote.url, refspec),
            times=1,
            warmup=0,
        )
        spent["ours"] += one
        spent["theirs"] += two
    ours, theirs = spent["ours"], spent["theirs"]
    return Result(
        "fetch of one small commit",
        statistics.median(ours) * 1000,
        "ms",
        baseline="git fetch",
        baseline_value=statistics.median(theirs) * 1000,
        ratio=median_ratio(ours, theirs),
        details={"p99_ms": percentile(ours, 0.99) * 1000},
    )
