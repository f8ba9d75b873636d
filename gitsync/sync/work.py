"""What one turn carries from step to step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gitsync.instance import Instance
from gitsync.records import Sync, Trigger, Turn, Workspace
from gitsync.store import syncs, turns


@dataclass(slots=True)
class Steps:
    """Milliseconds by step, in order; a repeated step adds up."""

    _ms: dict[str, float] = field(default_factory=dict)

    def timed[T](self, name: str, work: Callable[[], T]) -> T:
        """Run one step and note how long it took, also when it fails."""
        start = time.perf_counter()
        try:
            return work()
        finally:
            self.note(name, start)

    def note(self, name: str, start: float) -> None:
        """A step that began at `start` (of `time.perf_counter`) took until now."""
        self._ms[name] = self._ms.get(name, 0.0) + (time.perf_counter() - start) * 1000

    def to_json(self) -> list[dict[str, Any]]:
        """`[{name, ms}]`."""
        return [{"name": name, "ms": round(ms, 1)} for name, ms in self._ms.items()]


@dataclass(slots=True)
class Work:
    """What one turn carries around."""

    instance: Instance
    turn: Turn
    workspace: Workspace
    syncs: list[Sync]
    steps: Steps = field(default_factory=Steps)

    @property
    def ids(self) -> list[int]:
        """The syncs this turn will close."""
        return [sync.id for sync in self.syncs]

    @property
    def trigger(self) -> Trigger:
        """What asked first; a turn without a stored sync was asked for by a poll."""
        return self.syncs[0].trigger if self.syncs else Trigger.POLL

    @property
    def is_asked(self) -> bool:
        """True if a person asked: what was refused before is tried again."""
        return any(sync.trigger in (Trigger.MANUAL, Trigger.CONNECT) for sync in self.syncs)

    def ensure_sync(self) -> None:
        """A poll that found something gets a sync of its own.

        One that was asked for meanwhile is left to the next turn: this look may not have seen it.
        """
        if not self.syncs:
            with self.instance.database.write(durable=False) as db:
                turns.guard(db, self.turn)
                self.syncs = [
                    syncs.begin_sync(
                        db,
                        self.workspace.id,
                        trigger=Trigger.POLL,
                        fence=self.turn.fence,
                        now=self.instance.now(),
                    )
                ]
