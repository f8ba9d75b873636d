"""Many workspaces pushed once each, and webhooks answered while syncs run.

Baseline: a shell loop of bare `git fetch` over the same remotes on the same machine.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from benchmarks import Result, percentile
from benchmarks.plainhost import plain_host
from benchmarks.serverprocess import server_process
from tests.live import GOOD_MAIN, Checkout, Live, git, workspace_files


def _deliver(
    client: httpx.Client, hook: dict[str, Any], name: str, before: str, after: str
) -> float:
    body = json.dumps(
        {
            "ref": "refs/heads/main",
            "before": before,
            "after": after,
            "repository": {"full_name": name, "id": 1},
        }
    ).encode()
    signature = hmac.new(hook["secret"].encode(), body, hashlib.sha256).hexdigest()
    start = time.perf_counter()
    answer = client.post(
        hook["url"],
        content=body,
        headers={
            "X-GitHub-Event": "push",
            "X-GitHub-Delivery": f"{name.rpartition('/')[2]}-{after}",
            "X-Hub-Signature-256": f"sha256={signature}",
        },
    )
    took = time.perf_counter() - start
    assert answer.status_code == 202, answer.text
    return took


def _seed(folder: Path, root: Path, count: int) -> list[str]:
    """`count` bare repositories with one commit each, made by copying one."""
    git(root, "init", "--bare", "--quiet", "--initial-branch=main", "t0.git")
    checkout = Checkout.new(folder / "seed", str(root / "t0.git"))
    checkout.commit(workspace_files(demo=GOOD_MAIN))
    checkout.push()
    for number in range(1, count):
        shutil.copytree(root / "t0.git", root / f"t{number}.git")
    return [f"t{number}" for number in range(count)]


def _push_all(root: Path, names: list[str]) -> dict[str, tuple[str, str]]:
    """Move every remote by one commit of its own, without any network."""
    moved = {}
    for name in names:
        repo = root / f"{name}.git"
        before = git(repo, "rev-parse", "refs/heads/main").stdout.strip()
        tree = git(repo, "rev-parse", "refs/heads/main^{tree}").stdout.strip()
        after = git(repo, "commit-tree", tree, "-p", before, "-m", f"change {name}").stdout.strip()
        git(repo, "update-ref", "refs/heads/main", after, before)
        moved[name] = (before, after)
    return moved


def _connect(live: Live, url: str, name: str) -> dict[str, Any]:
    body = {
        "name": name,
        "identity": f"fleet--local/{name}",
        "provider": "github",
        "connect": {"clone_url": f"{url}/{name}.git"},
    }
    made: dict[str, Any] = live.post("/workspaces", body, status=201)
    return made


def _until_all(
    live: Live, made: dict[str, dict[str, Any]], moved: dict[str, tuple[str, str]]
) -> int:
    """Wait until every tip is published; how many are not after the time.

    One request at a time that sleeps in the server, not to be in the way.
    """
    end, last = time.monotonic() + 600, 0
    left = {(made[name]["id"], after) for name, (_, after) in moved.items()}
    while left and time.monotonic() < end:
        found = live.get(f"/events?after={last}&wait=5")
        last = found["last_id"]
        for event in found["items"]:
            if event["type"] == "version.published":
                left.discard((event["workspace_id"], event["data"]["commit_sha"]))
    return len(left)


def measure(quick: bool) -> Iterator[Result]:
    count = 100 if quick else 1000
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch, plain_host(Path(scratch)) as host:
        root, url, port = host
        names = _seed(Path(scratch), root, count)
        with server_process(
            Path(scratch) / "server",
            check_processes=2,
            concurrent_syncs=8,
            allowed_hosts=(f"127.0.0.1:{port}",),
        ) as live:
            first = {
                name: ("", git(root / f"{name}.git", "rev-parse", "main").stdout.strip())
                for name in names
            }
            made = {name: _connect(live, url, name) for name in names}
            assert _until_all(live, made, first) == 0
            moved = _push_all(root, names)
            client = httpx.Client(trust_env=False, timeout=60)
            begun = time.perf_counter()
            with ThreadPoolExecutor(4) as pool:
                list(
                    pool.map(
                        lambda n: _deliver(
                            client, made[n]["webhook"], f"fleet--local/{n}", *moved[n]
                        ),
                        names,
                    )
                )
            lost = _until_all(live, made, moved)
            ours = time.perf_counter() - begun
            rss = live.rss_mb()
        mirrors = Path(scratch) / "mirrors"
        mirrors.mkdir()
        for name in names:
            git(mirrors, "clone", "--bare", "--quiet", f"{url}/{name}.git", f"{name}.git")
        _push_all(root, names)
        script = "\n".join(
            f"git -C {mirrors}/{n}.git fetch -q origin +refs/heads/*:refs/heads/*" for n in names
        )
        begun = time.perf_counter()
        subprocess.run(["sh", "-e", "-c", script], check=True)
        loop = time.perf_counter() - begun
        yield Result(
            f"{count} workspaces pushed once each: lost",
            lost,
            "pushes",
            target="0",
            is_met=lost == 0,
        )
        yield Result(
            f"{count} workspaces pushed once each",
            count / ours,
            "versions/s",
            "a shell loop of bare git fetch",
            count / loop,
            loop / ours,
            "≥ 0.7 x",
            loop / ours >= 0.7,
        )
        yield Result("server RSS", rss, "MB", target="< 400 MB", is_met=rss < 400)
        yield _beside_syncs(Path(scratch), root, url, port, rounds=10 if quick else 40)


def _beside_syncs(scratch: Path, root: Path, url: str, port: int, *, rounds: int) -> Result:
    """Webhook answers, one after the other, while 20 syncs are under way; several rounds."""
    names = [f"t{number}" for number in range(20)]
    answers: list[float] = []
    with server_process(
        scratch / "webhooks", concurrent_syncs=20, allowed_hosts=(f"127.0.0.1:{port}",)
    ) as live:
        first = {n: ("", git(root / f"{n}.git", "rev-parse", "main").stdout.strip()) for n in names}
        made = {name: _connect(live, url, name) for name in names}
        asked = _connect(live, url, "t20")
        assert _until_all(live, made, first) == 0
        client = httpx.Client(trust_env=False, timeout=60)
        number = 0
        for _ in range(rounds):
            moved = _push_all(root, names)
            for name in names:
                _deliver(client, made[name]["webhook"], f"fleet--local/{name}", *moved[name])
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(_until_all, live, made, moved)
                while not waiting.done():
                    number += 1
                    after = f"{number:040x}"
                    answers.append(
                        _deliver(client, asked["webhook"], "fleet--local/t20", "0" * 40, after)
                    )
            assert waiting.result() == 0
    slow = percentile(answers, 0.99) * 1000
    return Result(
        "webhook answer while 20 syncs run, p99",
        slow,
        "ms",
        target="< 100 ms",
        is_met=slow < 100,
        details={"p50": percentile(answers, 0.5) * 1000, "answers": len(answers)},
    )
