"""A server in a process of its own, so that a measuring client does not share its interpreter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.live import QUIET, Live


@dataclass
class Elsewhere(Live):
    """A server in another process."""

    address: str = ""
    pid: int = 0

    @property
    def url(self) -> str:
        return self.address

    def rss_mb(self) -> float:
        """Resident memory of the server without its children."""
        fields = Path(f"/proc/{self.pid}/status").read_text()
        return int(fields.split("VmRSS:")[1].split()[0]) / 1024


@contextmanager
def server_process(folder: Path, **settings: Any) -> Iterator[Elsewhere]:
    """Start `python -m benchmarks.serverprocess`, use it, stop it."""
    scratch = folder / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    values = {**QUIET, "data_dir": str(folder / "data"), **settings}
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.serverprocess", json.dumps(values)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).parents[1],
        env={k: v for k, v in os.environ.items() if not k.startswith("GITSYNC_")},
    )
    try:
        assert child.stdout is not None
        said = json.loads(child.stdout.readline())
        nobody: Any = None  # the server is not of this process
        yield Elsewhere(
            nobody, said["token"], folder / "data", scratch, address=said["url"], pid=child.pid
        )
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(timeout=30)


def main() -> None:
    from gitsync import quickstart
    from gitsync.settings import Settings
    from gitsync.web.server import start

    running = start(Settings(**json.loads(sys.argv[1])))
    token = quickstart.prepare_admin(running.instance)
    print(json.dumps({"url": running.url, "token": token}), flush=True)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait()
    running.stop()


if __name__ == "__main__":
    main()
