"""Tells waiting readers that something was committed (decision 26).

A wait holds no connection and no thread: it sleeps on an asyncio event that any thread sets after
its commit. On PostgreSQL another process may have committed, so waits also wake up regularly.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

# how often to look whether another process committed something: a server, or a command
ELSEWHERE_S, ALONE_S = 0.5, 2.0


class Waker:
    """Where a story says that a workspace is owed a look; an engine listens, or nobody yet."""

    def __init__(self) -> None:
        self.listener: Callable[[str], None] | None = None

    def __call__(self, workspace_id: str) -> None:
        """Wake the engine; the rows already hold the promise."""
        if self.listener is not None:
            self.listener(workspace_id)


class Signals:
    """A broadcast: `notify` wakes everybody who waits at that moment."""

    def __init__(self, *, pause_s: float = ELSEWHERE_S) -> None:
        self._pause_s = pause_s
        self._lock = threading.Lock()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def notify(self) -> None:
        """Wake all waits; from any thread."""
        with self._lock:
            waiting, self._waiting = self._waiting, set()
        for loop, event in waiting:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:  # that loop is closed: nobody waits there any more
                continue

    async def wait_for[T](self, look: Callable[[], T | None], *, seconds: float) -> T | None:
        """Call `look` (in a thread) now and after each commit until it gives a value.

        None if it gave none within `seconds`.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            event = asyncio.Event()
            entry = (loop, event)
            with self._lock:
                self._waiting.add(entry)
            try:
                found = await asyncio.to_thread(look)
                left = end - loop.time()
                if found is not None or left <= 0:
                    return found
                try:
                    await asyncio.wait_for(event.wait(), min(left, self._pause_s))
                except TimeoutError:
                    continue
            finally:
                with self._lock:
                    self._waiting.discard(entry)
