"""`git push` started → version published, against doing the same by hand.

By hand: push to a plain host (`git http-backend` behind a small server), `git fetch` into a bare
mirror, `git archive | sha256sum`. The clock starts before `git push`.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from benchmarks import Result, in_turn, median_ratio, percentile
from benchmarks.plainhost import plain_host
from benchmarks.serverprocess import server_process
from tests.live import GOOD_MAIN, Checkout, Live, git, workspace_files

Round = tuple[Callable[[], None], Callable[[], None]]  # what prepares, what is timed


def by_hand(folder: Path, root: Path, url: str) -> Round:
    """A checkout, and one round of push, fetch, archive and hash."""
    git(root, "init", "--bare", "--quiet", "--initial-branch=main", "hand.git")
    checkout = Checkout.new(folder / "hand", f"{url}/hand.git")
    checkout.commit(workspace_files(demo=GOOD_MAIN))
    checkout.push()
    mirror = folder / "hand-mirror.git"
    git(folder, "clone", "--bare", "--quiet", f"{url}/hand.git", str(mirror))
    counter = itertools.count()

    def prepare() -> None:
        checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + f"# {next(counter)}\n"})

    def work() -> None:
        checkout.push()
        git(mirror, "fetch", "--quiet", "origin", "+refs/heads/main:refs/heads/main")
        archive = subprocess.Popen(
            ["git", "archive", "main", "rollouts/demo"], cwd=mirror, stdout=subprocess.PIPE
        )
        subprocess.run(["sha256sum"], stdin=archive.stdout, stdout=subprocess.DEVNULL, check=True)
        archive.wait()

    return prepare, work


def until_published(live: Live, workspace: dict[str, Any], checkout: Checkout) -> None:
    status = live.status(workspace, checkout.head())
    assert status["state"] == "published", status


def embedded(live: Live) -> Round:
    workspace = live.create("bench-embedded")
    checkout = live.checkout(workspace)
    checkout.commit(workspace_files(demo=GOOD_MAIN))
    checkout.push()
    until_published(live, workspace, checkout)
    counter = itertools.count()

    def prepare() -> None:
        checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + f"# {next(counter)}\n"})

    def work() -> None:
        checkout.push("--quiet", "origin", "HEAD")
        until_published(live, workspace, checkout)

    return prepare, work


def external(live: Live, root: Path, url: str) -> Round:
    git(root, "init", "--bare", "--quiet", "--initial-branch=main", "team.git")
    checkout = Checkout.new(live.scratch / "external", f"{url}/team.git")
    checkout.commit(workspace_files(demo=GOOD_MAIN))
    checkout.push()
    workspace = live.post(
        "/workspaces",
        {
            "name": "bench-external",
            "identity": "bench--local/team",
            "provider": "github",
            "connect": {"clone_url": f"{url}/team.git"},
        },
        status=201,
    )
    until_published(live, workspace, checkout)
    hook, secret = workspace["webhook"]["url"], workspace["webhook"]["secret"]
    counter = itertools.count()
    client = httpx.Client(trust_env=False)

    def prepare() -> None:
        checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + f"# {next(counter)}\n"})

    def work() -> None:
        before = git(checkout.path, "rev-parse", "HEAD~1").stdout.strip()
        checkout.push("--quiet", "origin", "HEAD")
        body = json.dumps(
            {
                "ref": "refs/heads/main",
                "before": before,
                "after": checkout.head(),
                "repository": {"full_name": "bench--local/team", "id": 1},
            }
        ).encode()
        signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        answer = client.post(
            hook,
            content=body,
            headers={
                "X-GitHub-Event": "push",
                "X-GitHub-Delivery": f"bench-{next(counter)}",
                "X-Hub-Signature-256": f"sha256={signature}",
                "Content-Type": "application/json",
            },
        )
        assert answer.status_code == 202, answer.text
        until_published(live, workspace, checkout)

    return prepare, work


def measure(quick: bool) -> Iterator[Result]:
    times = 15 if quick else 60
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch, plain_host(Path(scratch)) as host:
        root, url, port = host
        with server_process(
            Path(scratch) / "server", check_processes=2, allowed_hosts=(f"127.0.0.1:{port}",)
        ) as live:
            hand_prepare, hand = by_hand(Path(scratch), root, url)
            for name, (prepare, work) in (
                ("embedded host", embedded(live)),
                ("external remote with webhook", external(live, root, url)),
            ):
                ones, others = [], []
                for _ in range(times + 1):
                    prepare()
                    hand_prepare()
                    a, b = in_turn(work, hand, times=1, warmup=0)
                    ones += a
                    others += b
                ones, others = ones[1:], others[1:]
                ratio = median_ratio(ones, others)
                yield Result(
                    f"push → published, {name}, p50",
                    statistics.median(ones) * 1000,
                    "ms",
                    "push + fetch + archive | sha256sum by hand",
                    statistics.median(others) * 1000,
                    ratio,
                    "≤ 2.0 x",
                    ratio <= 2.0,
                    {"steps": _steps(live)},
                )
                slow = percentile(ones, 0.99) * 1000
                yield Result(
                    f"push → published, {name}, p99",
                    slow,
                    "ms",
                    target="< 2000 ms",
                    is_met=slow < 2000,
                )


def _steps(live: Live) -> dict[str, float]:
    """Milliseconds by step of the newest sync: what a miss would be made of."""
    newest = live.get("/workspaces?limit=200")["items"]
    found: dict[str, float] = {}
    for workspace in newest:
        syncs = live.get(f"/workspaces/{workspace['id']}/syncs?limit=1")["items"]
        if syncs:
            found |= {f"{workspace['name']}.{s['name']}": s["ms"] for s in syncs[0]["steps"]}
    return found
