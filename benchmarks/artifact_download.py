"""Artifact download against a static file server on the same machine."""

from __future__ import annotations

import http.server
import os
import statistics
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx

from benchmarks import Result, in_turn, median_ratio
from benchmarks.serverprocess import server_process
from tests.live import workspace_files


class _Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass


def measure(quick: bool) -> Iterator[Result]:
    size = (8 if quick else 64) * 1024 * 1024
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as scratch,
        server_process(Path(scratch)) as live,
    ):
        workspace = live.create("bench")
        checkout = live.checkout(workspace)
        files = workspace_files() | {"rollouts/demo/weights.bin": os.urandom(size)}
        sha = checkout.commit(files)
        checkout.push()
        status = live.status(workspace, sha)
        digest = status["rollouts"][0]["digest"]
        path = f"/api/v1/workspaces/{workspace['id']}/artifacts/{digest}.tar"
        tar = live.call("GET", path.removeprefix("/api/v1")).content
        (Path(scratch) / "static").mkdir()
        (Path(scratch) / "static/a.tar").write_bytes(tar)
        handler = lambda *a: _Quiet(*a, directory=str(Path(scratch) / "static"))  # noqa: E731
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = httpx.Client(trust_env=False, timeout=60)
        headers = {"Authorization": f"Bearer {live.token}"}

        def drain(url: str, **more: object) -> None:
            with client.stream("GET", url, **more) as answer:  # type: ignore[arg-type]
                assert answer.status_code == 200
                for _ in answer.iter_raw(256 * 1024):
                    pass

        static = f"http://127.0.0.1:{server.server_address[1]}/a.tar"
        ones, others = in_turn(
            lambda: drain(live.url + path, headers=headers),
            lambda: drain(static),
            times=8 if quick else 20,
        )
        server.shutdown()
        rate = median_ratio(others, ones)  # rates are the inverse of times
        yield Result(
            f"artifact download, {len(tar) // 1024 // 1024} MiB",
            len(tar) / statistics.median(ones) / 1e6,
            "MB/s",
            "a static file server",
            len(tar) / statistics.median(others) / 1e6,
            rate,
            "≥ 0.5 x",
            rate >= 0.5,
        )
