"""Who runs when: the embedded engine (design section 8).

Only decides; all it knows is in the rows, so a restart loses nothing. Results stay right even if
two engines believe they own a workspace: every write of a turn is fenced.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

from gitsync import bootstrap, change_work, dataset_work, upkeep
from gitsync.instance import Instance
from gitsync.runs import life
from gitsync.store import jobs, syncs, turns
from gitsync.store import objects as stored
from gitsync.sync import objects, triggers
from gitsync.sync.turn import run_turn

log = logging.getLogger(__name__)

JOBS = (("bootstraps", 5.0, bootstrap.resume), *life.JOBS, *upkeep.JOBS)
_HEARTBEATS_PER_LEASE = 4
_IDLE_S = 1.0  # the longest sleep of the scheduler
_STOP_S = 10.0
_CHANGES_S = 1.0


class Engine(Protocol):
    """What the doors know of an engine."""

    def start(self) -> None:
        """Begin to work, first on what a dead server left."""

    def wake(self, workspace_id: str) -> None:
        """Something was requested for this workspace, now."""

    def stop(self) -> None:
        """Take no new work, give running turns a little time, then return."""


class EmbeddedEngine:
    """Threads in the server process, for SQLite or one PostgreSQL server."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._queued: set[str] = set()
        self._running: dict[str, float] = {}
        self._again: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._poke = threading.Event()
        self._last: dict[str, float] = {}

    def start(self) -> None:
        """Recover, then start the workers and the scheduler."""
        self._recover()
        for number in range(self._instance.settings.concurrent_syncs):
            self._spawn(self._work, f"sync-{number}")
        self._spawn(self._schedule, "scheduler")
        self._spawn(self._heartbeat, "heartbeat")
        self._spawn(self._keep_up, "upkeep")
        self._spawn(self._finish_changes, "changes")
        self._spawn(self._check_data, "datasets")

    def _spawn(self, target: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _recover(self) -> None:
        instance = self._instance
        dead = instance.dead_boots()
        with instance.database.write() as db:
            taken, reopened = turns.take_over(db, dead), syncs.reopen_syncs(db)
            jobs.release_jobs(db, dead)
            stored.drop_unanswered(db, dead)
        dataset_work.recover(instance, dead)
        swept = objects.sweep(instance, dead)
        log.info("recovered turns=%d syncs=%d swept=%s", taken, reopened, swept)
        triggers.compare_embedded(instance)

    # -- what runs ---------------------------------------------------------------------------

    def wake(self, workspace_id: str) -> None:
        """Queue the workspace once; a running one is looked at again when its turn ends."""
        with self._lock:
            if workspace_id in self._running:
                self._again.add(workspace_id)
                return
            if workspace_id in self._queued or self._stop.is_set():
                return
            self._queued.add(workspace_id)
        self._queue.put(workspace_id)

    def _work(self) -> None:
        while (workspace_id := self._queue.get()) is not None:
            with self._lock:
                self._queued.discard(workspace_id)
                self._running[workspace_id] = time.monotonic()
            try:
                if not self._stop.is_set():
                    run_turn(self._instance, workspace_id)
            except Exception:
                # A bug, or the database is away: the rows still say what is owed, the lease ends
                # by itself, and the scheduler comes back to it.
                log.exception("turn crashed workspace=%s", workspace_id)
                self._instance.stopping.wait(1.0)
            finally:
                with self._lock:
                    self._running.pop(workspace_id, None)
                    again = workspace_id in self._again
                    self._again.discard(workspace_id)
                if again:
                    self.wake(workspace_id)
                self._poke.set()

    @property
    def running(self) -> int:
        """How many turns run now."""
        return len(self._running)

    # -- when ----------------------------------------------------------------------------------

    def _schedule(self) -> None:
        while not self._stop.is_set():
            pause = _IDLE_S
            try:
                pause = self._tick()
            except Exception:
                log.exception("scheduler failed")
            self._poke.wait(pause)
            self._poke.clear()

    def _tick(self) -> float:
        instance = self._instance
        self._every("poll", 0.5, lambda: triggers.poll(instance, now=instance.now()))
        self._every(
            "compare",
            instance.settings.embedded_compare_s,
            lambda: triggers.compare_embedded(instance),
        )
        with instance.database.read() as db:
            for workspace_id in turns.due(db, limit=500):
                with self._lock:
                    busy = workspace_id in self._running
                if not busy:
                    self.wake(workspace_id)
            wait = turns.seconds_to_next(db)
        return _IDLE_S if wait is None else min(_IDLE_S, max(0.02, wait))

    def _every(self, name: str, seconds: float, job: Callable[[], object]) -> None:
        now = time.monotonic()
        if now - self._last.get(name, 0.0) >= seconds:
            self._last[name] = now
            job()

    def _heartbeat(self) -> None:
        instance = self._instance
        lease = instance.settings.turn_lease_s
        while not self._stop.wait(lease / _HEARTBEATS_PER_LEASE):
            with self._lock:
                running = tuple(self._running)
            if not running:
                continue
            try:
                with instance.database.write(durable=False) as db:
                    turns.renew(db, running, owner=instance.boot, lease_s=lease)
            except Exception:
                log.exception("heartbeat failed")

    def _finish_changes(self) -> None:
        """Changes that a dead server began, or that wait for a remote."""
        while not self._stop.is_set():
            try:
                change_work.finish_open(self._instance)
            except Exception:
                log.exception("changes failed")
            self._stop.wait(_CHANGES_S)

    def _keep_up(self) -> None:
        last: dict[str, float] = {}
        self._do("bootstraps", bootstrap.resume)
        while not self._stop.wait(5.0):
            for name, seconds, job in JOBS:
                if self._stop.is_set() or time.monotonic() - last.get(name, 0.0) < seconds:
                    continue
                last[name] = time.monotonic()
                self._do(name, job)

    def _do(self, name: str, job: Callable[[Instance], object]) -> None:
        try:
            job(self._instance)
        except Exception:
            log.exception("upkeep failed job=%s", name)

    def _check_data(self) -> None:
        ready = self._instance.data_ready
        while not self._stop.is_set():
            try:
                dataset_work.work_off(self._instance)
            except Exception:
                log.exception("checks of data sets failed")  # the leases end by themselves
                self._stop.wait(_IDLE_S)
            ready.wait(2 * _IDLE_S)  # another server may have completed an upload
            ready.clear()

    def stop(self) -> None:
        """Running turns get ten seconds, then their git children are ended (decision 25)."""
        self._stop.set()
        self._poke.set()
        self._instance.data_ready.set()
        self._instance.data_pool.close()  # a check begins anew at the next start
        end = time.monotonic() + _STOP_S
        for _ in self._threads:
            self._queue.put(None)
        while self._running and time.monotonic() < end:
            time.sleep(0.05)
        self._instance.stopping.set()
        for thread in self._threads:
            thread.join(timeout=max(0.1, end + 2 - time.monotonic()))
