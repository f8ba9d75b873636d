"""The dashboard: time and weight of each page on a full instance; webhooks while 200 pages watch.

The server runs in a process of its own; times are of whole requests over one kept connection.
"""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
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
    yield from _watched(quick)


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


def _watched(quick: bool) -> Iterator[Result]:
    """Webhook answers with and without 200 open pages that hear of each of them."""
    with (
        tempfile.TemporaryDirectory() as folder,
        _own_core() as others,
        server_process(Path(folder)) as live,
        httpx.Client(trust_env=False, verify=False) as client,
    ):
        others()
        connect = {"clone_url": "http://127.0.0.1:9/acme/rollouts.git"}
        body = {"name": "hooked", "provider": "github", "connect": connect}
        created = live.post("/workspaces", body)
        page = f"/workspaces/{created['id']}"
        number = 0

        def deliver(pause: float) -> list[float]:
            nonlocal number
            took = []
            for _ in range(100):
                time.sleep(pause)
                number += 1
                took.append(
                    1000
                    * _deliver(
                        client, created["webhook"], "acme/rollouts", "0" * 40, f"{number:040x}"
                    )
                )
            return took

        deliver(0)
        for how, pause in (("at once", 0.0), ("20 a second", 0.05)):
            alone: list[float] = []
            watched: list[float] = []
            for _ in range(4 if quick else 12):  # in turn: a slow moment of the machine hits both
                alone += deliver(pause)
                with _watching(live, page) as seen:
                    watched += deliver(pause)
            yield _compared(alone, watched, how, seen)


@contextmanager
def _own_core() -> Iterator[Callable[[], None]]:
    """What is started inside gets a core of its own; after calling what this gives, the others.

    People's browsers and the forge are other machines: their work must not count as the server's.
    """
    if not hasattr(os, "sched_setaffinity"):  # not on this system: they share the cores
        yield lambda: None
        return
    cores = os.sched_getaffinity(0)
    first = {min(cores)}
    os.sched_setaffinity(0, first)
    try:
        yield lambda: os.sched_setaffinity(0, cores - first or cores)
    finally:
        os.sched_setaffinity(0, cores)


def _compared(alone: list[float], watched: list[float], how: str, seen: list[int]) -> Result:
    before, after = percentile(alone, 0.99), percentile(watched, 0.99)
    return Result(
        f"webhook answer while {WATCHERS} pages watch, {how}, p99",
        after,
        "ms",
        baseline="nobody watches",
        baseline_value=before,
        ratio=after / before,
        target="< 1.1 x nobody",
        is_met=after < 1.1 * before,
        details={
            "samples": len(watched),
            "p50": percentile(watched, 0.5),
            "p50 alone": percentile(alone, 0.5),
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
