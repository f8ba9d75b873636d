"""Run one hardened git child.

Promise: the child starts with an environment made from empty, without system, global or user
configuration, hooks, prompts or replacement objects; it is the leader of a session of its own; it
ends at its deadline even if we are gone (`timeout -k`), at its address-space limit and at its file
size limit; what it prints is kept up to a bound. Nothing secret belongs in its arguments.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gitsync.errors import ConfigError
from gitsync.git.failures import LimitHit, RemoteTimeout, RepositoryCorrupt
from gitsync.text import printable

MIB = 1024 * 1024
_PIECE = 64 * 1024
_GRACE = 2.0
_LATE = 124
OLDEST_GIT = (2, 39)
_MARK = "GITSYNC_CHILD"

BASE_CONFIG: tuple[tuple[str, str], ...] = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.packedGitWindowSize", "32m"),
    ("core.packedGitLimit", "256m"),
    ("credential.helper", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.allow", "never"),
    ("safe.directory", "*"),
)


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """What one child may use; `file_bytes` bounds each file it writes."""

    seconds: float = 600.0
    memory: int = 1024 * MIB
    file_bytes: int = 4096 * MIB
    output_bytes: int = 64 * MIB
    error_bytes: int = 64 * 1024


def _nothing(_: int) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Guard:
    """What all children of one turn carry: the repository's lock and who wants to know of them.

    `on_start` and `on_end` get the process group, so that a caller can record it and end orphans
    after a crash (decisions 22 and 23). `cancel` ends the children when it is set.
    """

    lock_fd: int | None = None
    on_start: Callable[[int], None] = _nothing
    on_end: Callable[[int], None] = _nothing
    cancel: threading.Event | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended; `stderr` is its last words, cut at the front."""

    code: int
    stdout: bytes
    stderr: str
    seconds: float
    timed_out: bool = False
    cancelled: bool = False

    @property
    def ok(self) -> bool:
        """True if it exited with 0."""
        return self.code == 0


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of a git child; HOME cannot exist, so neither can a `.netrc`."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "TZ": "UTC",
        # a child that is given no repository finds none, whatever lies in its folder
        "GIT_DIR": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ATTR_NOSYSTEM": "1",
        "MALLOC_ARENA_MAX": "2",
        _MARK: "1",
        **(extra or {}),
    }


def git_dir(repository: Path) -> str:
    """The argument that names a repository; absolute, as children start elsewhere."""
    return f"--git-dir={repository.absolute()}"


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ConfigError(f"The program {name!r} is not in PATH; gitsync needs it to run git.")
    return found


def check_programs() -> str:
    """Git's version, if it is new enough and what children need is there; else `ConfigError`."""
    for name in ("timeout", "prlimit"):
        _program(name)
    said = run(["version"], limits=ChildLimits(seconds=10)).stdout.decode("utf-8", "replace")
    found = re.match(r"git version (\d+)\.(\d+)\S*", said)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_GIT:
        oldest = ".".join(map(str, OLDEST_GIT))
        raise ConfigError(
            f"gitsync needs git {oldest} or newer; here is {printable(said.strip())!r}."
        )
    return found[0].removeprefix("git version ")


def command(
    args: Sequence[str], *, limits: ChildLimits, config: Sequence[tuple[str, str]] = ()
) -> list[str]:
    """The full argument list: `timeout`, `prlimit`, git, its configuration, then `args`."""
    settings = [part for key, value in (*BASE_CONFIG, *config) for part in ("-c", f"{key}={value}")]
    return [
        _program("timeout"),
        f"--kill-after={_GRACE:g}",
        f"{limits.seconds:g}",
        _program("prlimit"),
        f"--as={limits.memory}",
        f"--fsize={limits.file_bytes}",
        "--core=0",
        "--",
        _program("git"),
        *settings,
        *args,
    ]


def end_group(pgid: int, *, grace: float = _GRACE) -> bool:
    """End what is left of a group recorded by an earlier run; False if there was nothing of ours.

    A group whose number now belongs to somebody else is left alone: our children carry a mark.
    """
    if not _members(pgid):
        return False
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, signal.SIGTERM)
        end = time.monotonic() + grace
        while _members(pgid) and time.monotonic() < end:
            time.sleep(0.02)
        if _members(pgid):
            os.killpg(pgid, signal.SIGKILL)
    return True


def _members(pgid: int) -> list[int]:
    """The processes of a group, if all of them are ours."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            state, _, group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(group) != pgid or state == "Z":
                continue
            if f"{_MARK}=1".encode() not in stat.with_name("environ").read_bytes().split(b"\0"):
                return []
            found.append(int(stat.parent.name))
    return found


@contextmanager
def started(
    args: Sequence[str],
    *,
    limits: ChildLimits,
    config: Sequence[tuple[str, str]] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    guard: Guard | None = None,
    pass_fds: Sequence[int] = (),
    stdin: int | IO[bytes] = subprocess.DEVNULL,
) -> Iterator[subprocess.Popen[bytes]]:
    """A running child with pipes on stdout and stderr; its whole group is gone afterwards."""
    guard = guard or Guard()
    fds = [*pass_fds, *([] if guard.lock_fd is None else [guard.lock_fd])]
    process = subprocess.Popen(  # noqa: S603 (arguments are ours, no shell)
        command(args, limits=limits, config=config),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd or "/",
        env=environment(env),
        pass_fds=fds,
        start_new_session=True,
    )
    try:
        guard.on_start(process.pid)
        yield process
    finally:
        if process.poll() is None:
            _end(process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        guard.on_end(process.pid)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(
    args: Sequence[str],
    *,
    limits: ChildLimits | None = None,
    config: Sequence[tuple[str, str]] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    guard: Guard | None = None,
    pass_fds: Sequence[int] = (),
    stdin: bytes = b"",
    stdin_file: IO[bytes] | None = None,
) -> Ended:
    """Run a child to its end; a deadline or a cancelled guard is reported, not raised.

    `LimitHit` is raised if it prints more than `limits.output_bytes` on stdout.
    """
    limits = limits or ChildLimits()
    guard = guard or Guard()
    begun = time.monotonic()
    late = begun + limits.seconds + 2 * _GRACE
    out: list[bytes] = []
    err = b""
    size = 0
    cancelled = False
    with (
        started(
            args,
            limits=limits,
            config=config,
            env=env,
            cwd=cwd,
            guard=guard,
            pass_fds=pass_fds,
            stdin=stdin_file or (subprocess.PIPE if stdin else subprocess.DEVNULL),
        ) as process,
        selectors.DefaultSelector() as ready,
    ):
        for pipe in filter(None, (process.stdout, process.stderr)):
            ready.register(pipe, selectors.EVENT_READ)
        if process.stdin:
            os.set_blocking(process.stdin.fileno(), False)
            ready.register(process.stdin, selectors.EVENT_WRITE)
        rest = memoryview(stdin)
        while ready.get_map():
            if guard.cancel is not None and guard.cancel.is_set():
                cancelled = True
                break
            if time.monotonic() > late:
                break
            for key, _ in ready.select(0.2):
                if process.stdin is not None and key.fileobj is process.stdin:
                    rest = _feed(key.fd, rest)
                    if not rest:
                        ready.unregister(process.stdin)
                        with suppress(BrokenPipeError):
                            process.stdin.close()
                    continue
                data = os.read(key.fd, _PIECE)
                if not data:
                    ready.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    size += len(data)
                    if size > limits.output_bytes:
                        raise LimitHit(
                            f"git printed more than {limits.output_bytes} bytes.", limit="output"
                        )
                    out.append(data)
                else:
                    err = (err + data)[-limits.error_bytes :]
        if not ready.get_map():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, late - time.monotonic()))
    code = process.returncode
    seconds = time.monotonic() - begun
    return Ended(
        code=code,
        stdout=b"".join(out),
        stderr=err.decode("utf-8", "replace"),
        seconds=seconds,
        timed_out=not cancelled and (code == _LATE or seconds >= limits.seconds),
        cancelled=cancelled,
    )


def _feed(fd: int, rest: memoryview) -> memoryview:
    try:
        return rest[os.write(fd, rest[:_PIECE]) :]
    except BlockingIOError:
        return rest
    except BrokenPipeError:
        return rest[:0]


def stream(
    args: Sequence[str],
    *,
    limits: ChildLimits | None = None,
    config: Sequence[tuple[str, str]] = (),
    guard: Guard | None = None,
    stdin: bytes = b"",
) -> Iterator[bytes]:
    """The stdout of a child in pieces of at most 64 KiB; raises if it did not end well."""
    limits = limits or ChildLimits()
    with (
        tempfile.TemporaryFile() as given,
        started(
            args, limits=limits, config=config, guard=guard, stdin=_filled(given, stdin)
        ) as process,
    ):
        out, err = process.stdout, process.stderr
        while out is not None and (data := os.read(out.fileno(), _PIECE)):
            yield data
        last_words = err.read(limits.error_bytes).decode("utf-8", "replace") if err else ""
        code = process.wait()
    if code == _LATE:
        raise RemoteTimeout(f"git did not end within {limits.seconds:g} s.")
    if code:
        raise RepositoryCorrupt(f"git ended with {code}: {printable(last_words[-300:])}")


def _filled(file: IO[bytes], data: bytes) -> IO[bytes]:
    file.write(data)
    file.seek(0)
    return file
