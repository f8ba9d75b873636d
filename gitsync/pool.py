"""A small pool of worker processes for everything that reads repository content (decision 20).

Promise: a job that runs too long, uses too much memory or kills its process ends in `JobFailed`;
the server and the other jobs go on. Workers are recycled, and die with the server.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from pebble import ProcessExpired, ProcessFuture, ProcessPool

from gitsync.errors import GitSyncError

_JOBS_PER_PROCESS = 2000
_GRACE_S = 5.0


class JobFailed(GitSyncError):
    """A worker could not finish; details: `reason` is deadline, memory or died."""

    code = "INSPECTION_FAILED"


def _prepare(memory_bytes: int, parent: int) -> None:
    """First thing in a new worker: limits, and an end together with the server."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _end_with(parent: int) -> None:
    # the kernel's parent-death signal fires when the *thread* that forked us ends: no use here
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


class PoolUnavailable(GitSyncError):
    """The pool is closing, or had to be made anew; the job was not done."""

    code = "POOL_UNAVAILABLE"
    transient = True


class Pool:
    """Runs plain functions of plain arguments in worker processes."""

    def __init__(
        self,
        *,
        processes: int,
        memory_bytes: int,
        deadline_s: float,
        subject: str = "the commit",
        deadline_setting: str = "GITSYNC_CHECK_DEADLINE_S",
    ) -> None:
        self._processes, self._memory_bytes = processes, memory_bytes
        self._deadline_s = deadline_s
        self._subject, self._deadline_setting = subject, deadline_setting
        self._lock = threading.Lock()
        self._is_closed = False
        self._waiting: set[ProcessFuture[Any]] = set()
        self._pool = self._make()

    def _make(self) -> ProcessPool:
        return ProcessPool(
            max_workers=self._processes,
            max_tasks=_JOBS_PER_PROCESS,
            initializer=_prepare,
            initargs=(self._memory_bytes, os.getpid()),
            context=multiprocessing.get_context("spawn"),
        )

    def run[**P, R](self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run in a worker and wait; errors of the function come back as they are."""
        pool = self._pool
        try:
            future = pool.schedule(
                function, args=list(args), kwargs=dict(kwargs), timeout=self._deadline_s
            )
            self._waiting.add(future)
            try:
                return future.result(timeout=self._deadline_s * 4 + 60)
            finally:
                self._waiting.discard(future)
        except (TimeoutError, FutureTimeout) as e:
            raise JobFailed(
                f"Reading {self._subject} took longer than {self._deadline_s:g} s "
                f"({self._deadline_setting}).",
                reason="deadline",
            ) from e
        except MemoryError as e:
            raise JobFailed(
                f"Reading {self._subject} took more memory than GITSYNC_CHECK_MEMORY_MB allows.",
                reason="memory",
            ) from e
        except ProcessExpired as e:
            raise JobFailed(
                f"The process that read {self._subject} died; something in it breaks the checker.",
                reason="died",
            ) from e
        except (RuntimeError, CancelledError) as e:
            if pool.active:
                raise
            self._replace(pool)
            raise PoolUnavailable("The worker processes are not available.") from e

    def _replace(self, broken: ProcessPool) -> None:
        """A pool whose workers cannot start is thrown away; the next job gets a new one."""
        with self._lock:
            if self._pool is broken and not self._is_closed:
                broken.stop()  # type: ignore[no-untyped-call]
                self._pool = self._make()

    def close(self) -> None:
        """End all workers; whoever waits for one gets `PoolUnavailable`."""
        with self._lock:
            self._is_closed = True
        self._pool.stop()  # type: ignore[no-untyped-call]
        for future in tuple(self._waiting):
            future.cancel()  # type: ignore[no-untyped-call]
        self._pool.join(timeout=_GRACE_S)
