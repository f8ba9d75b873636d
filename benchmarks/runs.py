"""`osmosis rollout list` and `eval submit`, as the server sees them, while rows pile up.

Baseline: the same requests to the same server when it holds one rollout and no run. The rows of
the runs in between go through the store; everything that is measured goes over HTTP. A page of 50
rows costs more than one of one row, however many there are behind it; both are shown.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from benchmarks import Result, percentile, seconds
from benchmarks.serverprocess import server_process
from gitsync.run_records import RunKind
from gitsync.store import Database, runs, versions, workspaces
from tests.live import GOOD_MAIN, Live, workspace_files
from tests.runs.kit import Team
from tests.web.browser import Browser

MOST_MS = 50.0  # of a page
FLAT = 1.5  # what may still be called flat on a noisy machine
TIMES = 41
KEPT = (
    *("workspace_id", "commit_sha", "branch", "ref", "entrypoint", "digest", "size", "assessment"),
    *("config_path", "model_path", "dataset_id", "dataset_name", "config", "env_config"),
    *("secret_scopes", "created_by"),
)


def _team(live: Live, rollouts: int) -> Team:
    workspace = live.create()
    checkout = live.checkout(workspace)
    names = {"alpha": GOOD_MAIN} | {f"r{n:04d}": GOOD_MAIN for n in range(1, rollouts)}
    sha = checkout.commit(workspace_files(**names))
    checkout.push("-q", "origin", "main")
    for _ in range(30):
        if live.status(workspace, sha, wait=60)["live"]:
            break
    team = Team(live, workspace, checkout, sha, live.token, "")
    team.upload()
    return team


def _calls(team: Team, client: httpx.Client) -> dict[str, Callable[[], None]]:
    headers = {
        "Authorization": f"Bearer {team.token}",
        "X-Osmosis-Workspace": team.workspace["name"],
    }
    base = f"{team.live.url}/api/cli"

    def call(method: str, path: str, **more: Any) -> None:
        answer = client.request(method, f"{base}/{path}", headers=headers, **more)
        assert answer.status_code in (200, 201), answer.text

    return {
        "rollout list": lambda: call("GET", "rollouts?limit=50"),
        "rollout list --limit 1": lambda: call("GET", "rollouts?limit=1"),
        "eval list --limit 1": lambda: call("GET", "eval-runs?limit=1"),
        "eval submit": lambda: call("POST", "eval-runs", json=team.body()),
    }


def _fill(database: Database, team: Team, upto: int) -> None:
    """Runs of this workspace, copies of its first one, until there are so many."""
    with database.write() as db:
        workspace = workspaces.get_workspace(db, team.workspace["id"])
        version = versions.get_version(db, workspace.id, team.sha)
        model = runs.list_runs(db, workspace.id, RunKind.EVAL, limit=1, offset=0, newest=None)
        first, total = model[0][0], model[1]
        values = {name: getattr(first, name) for name in KEPT}
        for _ in range(upto - total):
            runs.add_run(
                db,
                kind=RunKind.EVAL,
                rollout=first.rollout,
                now=datetime.now(UTC),
                version_id=version.id,
                provided=list(first.provided),
                **values,
            )


def _measured(call: Callable[[], object]) -> list[float]:
    for _ in range(5):
        call()
    return [seconds(call) for _ in range(TIMES)]


def measure(quick: bool) -> Iterator[Result]:
    many = 200 if quick else 1000
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as scratch,
        server_process(Path(scratch), submits_per_minute=1_000_000) as live,
        httpx.Client(trust_env=False, timeout=60) as client,
    ):
        database = Database(f"sqlite:///{live.data_dir / 'gitsync.db'}")
        small = _team(live, 1)
        calls = _calls(small, client)
        calls["eval submit"]()
        order = tuple(calls)  # the submits come last
        empty = {name: _measured(calls[name]) for name in order}
        for name in order:
            yield _result(f"{name}, empty server", empty[name], empty[name])
        for count in (100, 10_000):
            _fill(database, small, count)
            for name in order:
                yield _result(f"{name}, {count} runs", _measured(calls[name]), empty[name])
        yield from _pages(live, small)
        large = _calls(_team(live, many), client)
        for name in order:
            yield _result(f"{name}, {many} rollouts", _measured(large[name]), empty[name])
        database.close()


def _pages(live: Live, team: Team) -> Iterator[Result]:
    """The dashboard of a workspace with all these runs."""
    here = f"/workspaces/{team.workspace['id']}"
    names = [run["name"] for run in live.get(f"{here}/runs?limit=2")["items"]]
    user = live.post("/users", {"email": "sam@example.com", "is_admin": True}, status=201)
    paths = {
        "runs": f"{here}/runs",
        "runs of one kind": f"{here}/runs?kind=eval&state=pending",
        "run": f"{here}/runs/{names[0]}",
        "compare": f"{here}/runs/compare?a={names[0]}&b={names[1]}",
        "rollout": f"{here}/rollouts/alpha",
    }
    with Browser(live.url) as browser:
        browser.sign_in(user["login_url"])
        for name, path in paths.items():
            assert browser.get(path).status_code == 200, name
            took = _measured(partial(browser.get, path))
            slow = percentile(took, 0.95) * 1000
            yield Result(
                f"page {name}, 10000 runs, p95",
                slow,
                "ms",
                target=f"< {MOST_MS:g} ms",
                is_met=slow < MOST_MS,
                details={"p50": statistics.median(took) * 1000},
            )


def _result(name: str, found: list[float], empty: list[float]) -> Result:
    median = statistics.median(found) * 1000
    baseline = statistics.median(empty) * 1000
    return Result(
        name,
        median,
        "ms",
        "the empty server",
        baseline,
        median / baseline,
        f"flat: ≤ {FLAT} x",
        median / baseline <= FLAT,
        details={"p99": percentile(found, 0.99) * 1000},
    )
