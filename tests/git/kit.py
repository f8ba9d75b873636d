"""Builders for the tests of the git room: repositories, a served host, observers of processes."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import uvicorn

from gitsync.git.host import Command, Host, HostLimits, Pushed, create_repository


def git(*args: str, cwd: Path | None = None, check: bool = True, **more) -> str:
    """Run git and return what it printed, both streams."""
    ended = subprocess.run(
        ["git", *args],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="surrogateescape",
        timeout=120,
        **more,
    )
    if check and ended.returncode:
        raise AssertionError(f"git {args} ended with {ended.returncode}: {ended.stdout}")
    return ended.stdout.strip()


def checkout(path: Path, files: dict[str, str] | None = None, *, branch: str = "main") -> Path:
    """A new working copy with one commit."""
    git("init", "-q", "-b", branch, str(path))
    commit(path, files or {"README.md": "hello\n"})
    return path


def commit(path: Path, files: dict[str, str], message: str = "Change") -> str:
    """Commit files in a working copy; the new sha."""
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    git("add", "-A", cwd=path)
    git("commit", "-q", "--allow-empty", "-m", message, cwd=path)
    return git("rev-parse", "HEAD", cwd=path)


class ServedHost:
    """The embedded host under uvicorn, every repository below `root`, with recorded pushes."""

    def __init__(self, root: Path, *, http: str = "auto", limits: HostLimits | None = None) -> None:
        self.root = root
        self.limits = limits or HostLimits()
        self.before: list[Sequence[Command]] = []
        self.pushed: list[Pushed] = []
        self.lines: list[str] = ["published main"]
        self.line_delay = 0.0
        self.can_push = True
        self.before_error: Exception | None = None
        self.told: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            log_level="warning",
            http=http,
            lifespan="off",
            interface="asgi3",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))
        self.host: Host | None = None

    def __enter__(self) -> ServedHost:
        self._thread.start()
        end = time.monotonic() + 10
        while not self._server.started and time.monotonic() < end:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(15)
        assert not self._thread.is_alive()

    def url(self, name: str = "demo.git") -> str:
        return f"http://127.0.0.1:{self.port}/{name}"

    def make(self, name: str = "demo.git") -> Path:
        create_repository(self.root / name)
        return self.root / name

    async def _app(self, scope, receive, send) -> None:
        self.host = self.host or Host(self.limits)
        name = scope["path"].split(".git")[0].lstrip("/") + ".git"
        await self.host.handle(
            scope,
            receive,
            send,
            repo=self.root / name,
            user="robin",
            can_push=self.can_push,
            before_push=self._before,
            after_push=self._after,
        )

    async def _before(self, commands: Sequence[Command]) -> None:
        self.before.append(commands)
        if self.before_error:
            raise self.before_error

    async def _after(self, pushed: Pushed) -> AsyncIterator[str]:
        self.pushed.append(pushed)

        async def tell() -> AsyncIterator[str]:
            for line in self.lines:
                await asyncio.sleep(self.line_delay)
                self.told.append(line)
                yield line

        return tell()


def processes(text: str) -> list[int]:
    """Processes, no zombies, whose command line holds `text`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if text in line and state != "Z" and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def eventually(what, *, seconds: float = 5.0) -> bool:
    """True as soon as `what()` is, False after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return bool(what())
