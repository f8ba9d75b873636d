"""The real server as a process of its own, with points where a test may stop it.

`python -m tests.crash.child` loads everything once, then forks one server for each JSON line on
stdin (`{control, settings, log, folder}`) and answers with its process id. A server is the leader
of its own session; it writes `{url, token}` to the file `ready` in CONTROL when it answers
requests, and ends at TERM as an operator would end it.

At each point a server reads the file `arm` in CONTROL. If that names the point, the name is written
to the pipe `reached` there, and the thread stands still until `arm` names it no longer.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gitsync.instance import Instance

# the pool's workers import this module: what only servers need is imported in `load`


class Points:
    """Stops threads where the test says so."""

    def __init__(self, control: Path) -> None:
        self._arm = control / "arm"
        self._pipe = os.open(control / "reached", os.O_RDWR)

    def __call__(self, name: str) -> None:
        """Called by the service at each point."""
        if self._armed() != name:
            return
        os.write(self._pipe, f"{name}\n".encode())
        while self._armed() == name:
            time.sleep(0.005)

    def _armed(self) -> str:
        try:
            return self._arm.read_text()
        except FileNotFoundError:
            return ""


def serve(control: Path, settings: dict[str, object]) -> None:
    """Serve until TERM."""
    from gitsync import quickstart
    from gitsync.settings import Settings
    from gitsync.web.logs import configure_logging
    from gitsync.web.server import start

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    chosen = Settings(**settings)  # type: ignore[arg-type]
    configure_logging(chosen)
    running = start(chosen, at=Points(control))
    token = quickstart.prepare_admin(running.instance)
    fresh = control / "ready.fresh"
    fresh.write_text(json.dumps({"url": running.url, "token": token}))
    fresh.replace(control / "ready")
    nursery = os.getppid()
    while not stop.wait(0.5):
        if os.getppid() != nursery:
            os._exit(1)  # the tests are gone
        if (control / "upkeep").exists():
            keep_up(running.instance, control)
    running.stop()


def keep_up(instance: Instance, control: Path) -> None:
    """Do what is done once an hour, as if it were tomorrow."""
    from dataclasses import replace
    from datetime import timedelta

    from gitsync import upkeep

    tomorrow = replace(instance, now=lambda: instance.now() + timedelta(hours=25))
    upkeep.sweep_artifacts(tomorrow)
    upkeep.sweep_datasets(tomorrow)
    upkeep.repack(tomorrow, over=0)
    (control / "upkeep").unlink()


def begin(order: dict[str, str]) -> None:
    """What a new server does first: a session, a folder, an environment and streams of its own."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(order["folder"])
    keep = {name: os.environ[name] for name in ("PATH", "PYTHONPATH")}
    os.environ.clear()
    os.environ.update(
        keep,
        HOME=order["folder"],
        TMPDIR=order["folder"],
        LC_ALL="C.UTF-8",
        PYTHONDONTWRITEBYTECODE="1",
    )
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in enumerate((nothing, log, log)):
        os.dup2(source, target)


def main() -> None:
    """Fork a server for each order."""
    import gitsync.quickstart
    import gitsync.web.server  # noqa: F401 (loaded once for all servers)

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries dead servers
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                begin(order)
                serve(Path(order["control"]), json.loads(order["settings"]))
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
