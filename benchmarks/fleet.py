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

import httpx

from benchmarks import Result, percentile
from benchmarks.plainhost import plain_host
from benchmarks.serverprocess import server_process
from tests.live import GOOD_MAIN, Checkout, Live, git, workspace_files


def _deliver(client: httpx.Client, hook: dict, name: str, before: str, after: str) -> float:
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


def _until_all(live: Live, workspaces: dict[str, dict], moved: dict[str, tuple[str, str]]) -> int:
    """Wait until every tip is published; how many are not after the time."""
    end, left = time.monotonic() + 600, set(workspaces)
    after_event = 0
    while left and time.monotonic() < end:
        after = None
        published: dict[str, str | None] = {}
        while True:
            page = live.get("/workspaces?limit=200" + (f"&after={after}" if after else ""))
            for item in page["items"]:
                main = [b["published_sha"] for b in item["branches"] if b["name"] == "main"]
                published[item["name"]] = main[0] if main else None
            after = page["next"]
            if after is None:
                break
        left = {name for name in left if published.get(name) != moved[name][1]}
        # sleep until something more was published, not to be in the way
        for _ in range(max(1, len(left) // 4)):
            after_event = live.get(f"/events?after={after_event}&wait=5")["last_id"]
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
            made = {
                name: live.post(
                    "/workspaces",
                    {
                        "name": name,
                        "identity": f"fleet--local/{name}",
                        "provider": "github",
                        "connect": {"clone_url": f"{url}/{name}.git"},
                    },
                    status=201,
                )
                for name in names
            }
            assert _until_all(live, made, first) == 0
            moved = _push_all(root, names)
            client = httpx.Client(trust_env=False, timeout=60)
            begun = time.perf_counter()
            with ThreadPoolExecutor(4) as pool:
                answers = list(
                    pool.map(
                        lambda n: _deliver(
                            client, made[n]["webhook"], f"fleet--local/{n}", *moved[n]
                        ),
                        names,
                    )
                )
            lost = _until_all(live, made, moved)
            ours = time.perf_counter() - begun
            rss = live.running.rss_mb()
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
        slow = percentile(answers, 0.99) * 1000
        yield Result(
            f"webhook answer while {count} syncs run, p99",
            slow,
            "ms",
            target="< 100 ms",
            is_met=slow < 100,
            details={"p50": percentile(answers, 0.5) * 1000},
        )
