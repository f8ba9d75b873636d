"""The dashboard: time and weight of each page on a full instance; webhooks while 200 pages watch.

The server runs in a process of its own; times are of whole requests over one kept connection.
"""

from __future__ import annotations

import gzip
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks import Result, percentile
from benchmarks.fleet import _deliver
from benchmarks.serverprocess import server_process
from tests.live import GOOD_MAIN, NO_GRADER, Live, workspace_files
from tests.web.browser import Browser

MOST_MS, MOST_KB, ROLLOUTS, WATCHERS = 50.0, 150, 500, 200


def measure(quick: bool = True) -> Iterator[Result]:
    """All pages, then the watchers."""
    workspaces, syncs = (100, 1000) if quick else (1000, 10_000)
    with (
        tempfile.TemporaryDirectory() as folder,
        server_process(Path(folder)) as live,
        Browser(live.url) as browser,
    ):
        user = live.post("/users", {"email": "sam@example.com", "is_admin": True}, status=201)
        browser.sign_in(user["login_url"])
        here, sha, parent = _fill(live, browser, workspaces, syncs)
        facts = {"workspaces": workspaces, "syncs": syncs, "rollouts": ROLLOUTS}
        yield from _pages(browser, _paths(here, sha, parent), facts, times=20 if quick else 60)
        yield from _watched(live, browser, quick)


def _fill(live: Live, browser: Browser, workspaces: int, syncs: int) -> tuple[str, str, str]:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: live.create(f"Team {n:04}"), range(workspaces - 1)))
    workspace = live.create("Big team")
    checkout = live.checkout(workspace)
    files = workspace_files(**{f"r{n:03}": GOOD_MAIN for n in range(ROLLOUTS)})
    parent = checkout.commit(files, "Five hundred rollouts")
    checkout.push("-q", "origin", "main")
    live.status(workspace, parent, wait=60)
    sha = checkout.commit({"rollouts/r007/main.py": NO_GRADER}, "Break one")
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha, wait=60)
    here = f"/workspaces/{workspace['id']}"
    csrf = re.search(r'name="csrf" value="(\w+)"', browser.get("/account").text)
    assert csrf is not None
    for _ in range(syncs):
        answer = browser.http.post(f"{here}/sync", data={"csrf": csrf[1]})
        assert answer.status_code == 303
    newest = live.get(f"{here}/syncs")["items"][0]["id"]
    live.get(f"{here}/syncs/{newest}?wait=60")
    return here, sha, parent


def _paths(here: str, sha: str, parent: str) -> dict[str, str]:
    return {
        "workspaces": "/workspaces",
        "workspace": here,
        "rollouts": f"{here}/rollouts",
        "rollout": f"{here}/rollouts/r007",
        "trace": f"{here}/commits/{sha}",
        "version": f"{here}/versions/{sha}",
        "versions": f"{here}/versions",
        "diff": f"{here}/versions/{sha}/diff?from={parent}",
        "syncs": f"{here}/syncs",
        "deliveries": f"{here}/deliveries",
        "settings": f"{here}/settings",
        "account": "/account",
        "admin": "/admin",
    }


def _pages(
    browser: Browser, paths: dict[str, str], facts: dict[str, int], *, times: int
) -> Iterator[Result]:
    for name, path in paths.items():
        first = browser.get(path)
        assert first.status_code == 200, name
        took = []
        for _ in range(times):
            start = time.perf_counter()
            browser.get(path)
            took.append((time.perf_counter() - start) * 1000)
        slow = percentile(took, 0.95)
        yield Result(
            f"page {name}, p95",
            slow,
            "ms",
            target=f"< {MOST_MS:g} ms",
            is_met=slow < MOST_MS,
            details={**facts, "p50": percentile(took, 0.5)},
        )
        weight = _weight(browser, first) / 1000
        yield Result(
            f"page {name}, weight",
            weight,
            "kB",
            target=f"< {MOST_KB} kB compressed with all it needs",
            is_met=weight < MOST_KB,
        )


def _weight(browser: Browser, answer: httpx.Response) -> int:
    assets = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text))
    data = [answer.content, *(browser.get(path).content for path in assets)]
    return sum(len(gzip.compress(part, 6)) for part in data)


def _watched(live: Live, browser: Browser, quick: bool) -> Iterator[Result]:
    """Webhook answers with and without 200 open pages that hear of each of them."""
    connect = {"clone_url": "http://127.0.0.1:9/acme/rollouts.git"}
    body = {"name": "hooked", "provider": "github", "connect": connect}
    created = live.post("/workspaces", body)
    page = f"/workspaces/{created['id']}"
    count = 100 if quick else 300
    with httpx.Client(trust_env=False, verify=False) as client:

        def deliver(start: int, pause: float) -> list[float]:
            took = []
            for n in range(count):
                time.sleep(pause)
                sha = f"{start + n:040x}"
                took.append(
                    1000 * _deliver(client, created["webhook"], "acme/rollouts", "0" * 40, sha)
                )
            return took

        deliver(0, 0)
        start = 0
        for how, pause in (("at once", 0.0), ("20 a second", 0.05)):
            alone, watched = [], []
            for _ in range(3 if quick else 5):  # in turn: a slow moment of the machine hits both
                start += 20_000
                alone.append(deliver(start, pause))
                with _watching(live, page) as seen:
                    watched.append(deliver(start + 10_000, pause))
            yield _compared(alone, watched, how, seen)


def _compared(
    alone: list[list[float]], watched: list[list[float]], how: str, seen: list[int]
) -> Result:
    pairs = [
        (percentile(a, 0.99), percentile(w, 0.99)) for a, w in zip(alone, watched, strict=True)
    ]
    ratio = statistics.median(w / a for a, w in pairs)
    return Result(
        f"webhook answer while {WATCHERS} pages watch, {how}, p99",
        statistics.median(w for _, w in pairs),
        "ms",
        baseline="nobody watches",
        baseline_value=statistics.median(a for a, _ in pairs),
        ratio=ratio,
        target="< 1.1 x nobody",
        is_met=ratio < 1.1,
        details={
            "p50": statistics.median(t for one in watched for t in one),
            "p50 alone": statistics.median(t for one in alone for t in one),
            "events told": seen[0],
            "pages sent": seen[1],
        },
    )


@contextmanager
def _watching(live: Live, page: str) -> Iterator[list[int]]:
    """So many open pages, of several people, in a process of their own; gives what they got."""
    cookies = []
    for number in range(4):
        email = f"watcher-{number}-{time.time_ns()}@example.com"
        user = live.post("/users", {"email": email, "is_admin": True}, status=201)
        with Browser(live.url) as browser:
            browser.sign_in(user["login_url"])
            cookies.append("; ".join(f"{k}={v}" for k, v in browser.http.cookies.items()))
    child = subprocess.Popen(
        [
            "nice",
            "-n",
            "19",
            sys.executable,
            "-m",
            "benchmarks.watchers",
            live.url,
            page,
            str(WATCHERS),
            *cookies,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    seen: list[int] = []
    try:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "open"
        yield seen
    finally:
        said, _ = child.communicate("\n", timeout=60)
    assert child.returncode == 0, said
    seen += map(int, said.split())
