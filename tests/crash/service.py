"""A server process for tests: started, watched, killed and started again on the same data.

It runs in its own session, in an empty folder that is also its HOME and TMPDIR, so that whatever it
writes outside its data folder shows.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0
QUIET: dict[str, Any] = {
    "host": "127.0.0.1",
    "port": 0,
    "check_processes": 1,
    "concurrent_syncs": 4,
    "poll_interval_s": 3600.0,
    "backoff_max_s": 2.0,
    "log_level": "info",
}


class Nursery:
    """Forks servers; loading the program once saves seconds at each start."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.child"],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self.close)

    def fork(self, **order: str) -> int:
        """The process id of a new server."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(json.dumps(order) + "\n")
        stdin.flush()
        return int(stdout.readline())

    def close(self) -> None:
        """End; its servers are ended by those who started them."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait(10)


@functools.cache
def _nursery() -> Nursery:
    return Nursery()


class Service:
    """One server on one data folder; `boots` counts how often it was started."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder, self.data = folder, folder / "data"
        self.control, self.elsewhere = folder / "control", folder / "elsewhere"
        self.log = folder / "server.log"
        self.settings = {**QUIET, "data_dir": str(self.data), **settings}
        for path in (self.control, self.elsewhere):
            path.mkdir(parents=True, exist_ok=True)
        os.mkfifo(self.control / "reached")
        self._reached = os.open(self.control / "reached", os.O_RDWR | os.O_NONBLOCK)
        self.pid = 0
        self.url = self.token = ""
        self.answers: list[str] = []  # the text of every answer, for those who look for secrets
        self.boots = 0
        self._client: httpx.Client | None = None

    # -- life
    def __enter__(self) -> Service:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        os.close(self._reached)

    def start(self, *, wait: bool = True) -> Service:
        """Start the server; with `wait` until it answers."""
        assert not self.pid
        self.boots += 1
        settings = dict(self.settings)
        if self.url:
            # the same place as before: clones and hooks know its URL
            settings["port"] = int(self.url.rpartition(":")[2])
        for name in ("ready", "upkeep"):
            (self.control / name).unlink(missing_ok=True)
        self.pid = _nursery().fork(
            control=str(self.control),
            settings=json.dumps(settings),
            log=str(self.log),
            folder=str(self.elsewhere),
        )
        return self.wait_ready() if wait else self

    def wait_ready(self) -> Service:
        """Until the server answers."""
        ready = self.control / "ready"
        end = time.monotonic() + START_S
        while not ready.exists():
            if not state(self.pid) or time.monotonic() > end:
                raise AssertionError(f"the server did not start:\n{self.said()[-4000:]}")
            time.sleep(0.01)
        found = json.loads(ready.read_text())
        self.url, self.token = found["url"], found["token"]
        self._client = httpx.Client(
            base_url=f"{self.url}/api/v1",
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=90,
            trust_env=False,
        )
        return self

    def kill(self, *, group: bool = True) -> list[int]:
        """`kill -9` to the server and all its processes, or to the leader alone.

        Returns the processes that outlive it.
        """
        victims = session(self.pid)
        for pid in victims if group else [self.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._gone()
        end = time.monotonic() + (5 if group else 0)  # a killed process takes a moment to go
        while left := [pid for pid in victims if state(pid) not in ("", "Z")]:
            if time.monotonic() >= end:
                break
            time.sleep(0.005)
        return left

    def stop(self) -> None:
        """As an operator stops it; nothing of it may be left afterwards."""
        if not self.pid:
            return
        leader = self.pid
        self.disarm()
        os.kill(leader, signal.SIGTERM)
        try:
            self._gone(20)
        except AssertionError:
            self.kill()
            raise
        end = time.monotonic() + 5
        while (left := session(leader)) and time.monotonic() < end:
            time.sleep(0.05)
        assert not left, f"processes outlive the server: {[command(p) for p in left]}"

    def _gone(self, seconds: float = 10.0) -> None:
        end = time.monotonic() + seconds
        while state(self.pid):
            assert time.monotonic() < end, f"the server did not end within {seconds:g} s"
            time.sleep(0.005)
        self.pid = 0
        if self._client is not None:
            self._client.close()
            self._client = None

    # -- points
    def arm(self, point: str) -> None:
        """Let the next thread that comes to this point stand still there."""
        fresh = self.control / "arm.fresh"
        fresh.write_text(point)
        fresh.replace(self.control / "arm")

    def disarm(self) -> None:
        """Let all threads go on."""
        (self.control / "arm").unlink(missing_ok=True)

    def reached(self, *, seconds: float = 30.0) -> str:
        """The name that the server wrote when it came to an armed point; empty if it did not."""
        with selectors.DefaultSelector() as ready:
            ready.register(self._reached, selectors.EVENT_READ)
            if not ready.select(seconds):
                return ""
        return os.read(self._reached, 4096).decode().split("\n")[0]

    def upkeep(self, *, wait: bool = False) -> None:
        """Let the server do its hourly work now, as if it were tomorrow."""
        order = self.control / "upkeep"
        order.touch()
        if wait:
            eventually(lambda: not order.exists())

    # -- calls
    def call(self, method: str, path: str, **more: Any) -> httpx.Response:
        """One API request."""
        assert self._client is not None
        response = self._client.request(method, path, **more)
        kind = response.headers.get("content-type", "")
        if "json" in kind:
            self.answers.append(response.text)
        return response

    def get(self, path: str, **more: Any) -> Any:
        response = self.call("GET", path, **more)
        assert response.status_code == 200, f"{response.status_code} {path} {response.text[:2000]}"
        return response.json()

    def post(self, path: str, body: Any = None) -> Any:
        response = self.call("POST", path, json={} if body is None else body)
        assert response.status_code < 300, f"{response.status_code} {path} {response.text[:2000]}"
        return response.json()

    def connect(
        self, name: str, url: str, *, provider: str = "generic", **more: Any
    ) -> dict[str, Any]:
        """Connect a repository as a workspace."""
        credential = more.pop("credential", None)
        wanted = {"clone_url": url} | ({"credential": credential} if credential else {})
        return self.post(
            "/workspaces", {"name": name, "provider": provider, "connect": wanted, **more}
        )

    def workspace(self, workspace: dict[str, Any]) -> dict[str, Any]:
        return self.get(f"/workspaces/{workspace['id']}")

    def sync(self, workspace: dict[str, Any], *, wait: float = 60) -> dict[str, Any]:
        """Ask for a look, as a person does, and wait until its sync has ended."""
        asked = self.post(f"/workspaces/{workspace['id']}/sync")["sync_id"]
        return self.ended(workspace, asked, wait=wait)

    def ended(self, workspace: dict[str, Any], sync_id: int, *, wait: float = 60) -> dict[str, Any]:
        """A sync once it has ended, or as it is after `wait` seconds."""
        end = time.monotonic() + wait
        while True:
            left = max(0.0, min(60.0, end - time.monotonic()))
            path = f"/workspaces/{workspace['id']}/syncs/{sync_id}?wait={left:g}"
            sync: dict[str, Any] = self.get(path)
            if sync["status"] in ("success", "failed") or not left:
                return sync

    def status(self, workspace: dict[str, Any], sha: str, *, wait: float = 30) -> dict[str, Any]:
        """Why a commit is live, or not."""
        return self.get(f"/workspaces/{workspace['id']}/commits/{sha}?wait={wait:g}")

    def served(self, workspace: dict[str, Any], branch: str = "main") -> str | None:
        """The sha a branch serves."""
        rows = self.workspace(workspace)["branches"]
        return next((b["published_sha"] for b in rows if b["name"] == branch), None)

    def idle(self, workspace: dict[str, Any], *, seconds: float = 60.0) -> dict[str, Any]:
        """The workspace when nothing is owed; fails after `seconds`."""
        return eventually(
            lambda: (w := self.workspace(workspace)) and not w["is_waiting"] and w,
            seconds=seconds,
            what=lambda: f"idle: {self.workspace(workspace)}",
        )

    def said(self) -> str:
        """The whole log."""
        return self.log.read_text(errors="replace")


def eventually(
    look: Callable[[], Any], *, seconds: float = 20.0, what: Callable[[], str] | str = ""
) -> Any:
    """The first true value of `look`; fails after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            said = what() if callable(what) else what
            raise AssertionError(f"not within {seconds:g} s: {said}")
        time.sleep(0.05)


# -- processes ------------------------------------------------------------------------------------


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def family(pid: int) -> list[int]:
    """A process and all its descendants, also those in sessions of their own."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError, IndexError):
                children.setdefault(int(_stat(int(entry))[1]), []).append(int(entry))
    found, todo = [], [pid]
    while todo:
        each = todo.pop()
        found.append(each)
        todo.extend(children.get(each, ()))
    return found


def session(leader: int) -> list[int]:
    """Processes of the leader's session, and its descendants: what a kill of the group hits."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError, IndexError):
                fields = _stat(int(entry))
                if int(fields[3]) == leader and fields[0] != "Z":
                    found.add(int(entry))
    alive = [p for p in family(leader) if Path(f"/proc/{p}/stat").exists() and state(p) != "Z"]
    return sorted(found | set(alive))


def state(pid: int) -> str:
    """The state letter of a process, empty if there is none."""
    with suppress(OSError, IndexError):
        return _stat(pid)[0]
    return ""


def command(pid: int) -> str:
    """The command line of a process."""
    with suppress(OSError):
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode("utf-8", "replace")
        )
    return ""


def resident(pid: int) -> int:
    """Resident bytes of a process and all its descendants."""
    # between fork and exec a child shows our own memory once more
    name = command(pid)
    return own(pid) + sum(own(p) for p in family(pid) if p != pid and command(p) != name)


def own(pid: int) -> int:
    """Resident bytes of one process."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


class Watch:
    """Samples a service while something happens: peak memory, command lines, environments."""

    def __init__(self, service: Service, *, period: float = 0.05) -> None:
        self._service, self._period = service, period
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.idle = self.peak = 0
        self.at_peak: list[str] = []
        self.seen: set[bytes] = set()

    def __enter__(self) -> Watch:
        self.idle = self.peak = resident(self._service.pid)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def growth_mb(self) -> float:
        """Growth of the peak over the idle service."""
        return (self.peak - self.idle) / 1024 / 1024

    def _run(self) -> None:
        while not self._stop.wait(self._period):
            leader = self._service.pid
            if not leader:
                continue
            now = resident(leader)
            if now > self.peak:
                self.peak = now
                self.at_peak = [f"{own(p) >> 20} MB {command(p)[-200:]}" for p in family(leader)]
            for pid in family(leader):
                with suppress(OSError):
                    self.seen.add(Path(f"/proc/{pid}/cmdline").read_bytes())
                    self.seen.add(Path(f"/proc/{pid}/environ").read_bytes())
