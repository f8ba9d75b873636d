"""One lock file per repository, held by `flock` and inherited by children.

Promise: who holds the exclusive lock knows that no child of an earlier holder is still running,
even if that holder was killed (decision 23).
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gitsync.git.failures import RepositoryBusy


class RepoLock:
    """The lock beside one repository: `<repository>.lock`, never removed."""

    def __init__(self, repository: Path) -> None:
        self.path = repository.with_name(repository.name + ".lock")

    @contextmanager
    def held(self, *, wait: float = 0.0, shared: bool = False) -> Iterator[int]:
        """Hold the lock; yields the descriptor to hand to children, or raises `RepositoryBusy`."""
        fd = self.take(wait=wait, shared=shared)
        try:
            yield fd
        finally:
            os.close(fd)

    def take(self, *, wait: float = 0.0, shared: bool = False) -> int:
        """The locked descriptor; closing the last copy of it gives the lock back."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        end = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(fd, kind | fcntl.LOCK_NB)
                return fd
            except BlockingIOError:
                if time.monotonic() >= end:
                    os.close(fd)
                    raise RepositoryBusy(
                        f"Another process still works on {self.path.stem}; try again later."
                    ) from None
                time.sleep(0.02)

    def share(self, fd: int) -> None:
        """Turn an exclusive lock into a shared one."""
        fcntl.flock(fd, fcntl.LOCK_SH)
