"""Kills at random moments, with a seed that names the run; used by CI (40) and torture (200)."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from tests.crash.scene import Scene
from tests.hostile_runs import kit

MOVES = ("commit", "force", "unrelated")
IDLE_S = 60.0


@dataclass(slots=True)
class Blind:
    """What the runs showed."""

    runs: int = 0
    leader_only: int = 0
    with_git_child: int = 0
    left_alive: int = 0
    slowest_idle: float = 0.0
    bytes: list[int] = field(default_factory=list)

    def summary(self) -> str:
        """One line for people."""
        return (
            f"{self.runs} blind kills: {self.leader_only} of the leader alone, "
            f"{self.with_git_child} while a git child ran, {self.left_alive} processes outlived "
            f"their server, slowest idle {self.slowest_idle:.1f} s, data folder "
            f"{self.bytes[0] if self.bytes else 0} to {self.bytes[-1] if self.bytes else 0} bytes"
        )


def run_blind(scene: Scene, *, seed: int, runs: int, quiet_every: int = 10) -> Blind:
    """Push, kill after 0 to 500 ms, move the remote in half of the runs, start, look."""
    chance = random.Random(seed)
    found = Blind()
    for number in range(runs):
        name = f"seed {seed} run {number}"
        scene.edit("commit" if chance.random() < 0.7 else "force")
        if not scene.finds_by_itself:
            scene.origin.push("+HEAD:refs/heads/main")
        # a slow remote gives the kill of the leader alone a git child to leave behind
        scene.host.latency = 0.0 if number % 2 == 0 else 0.1
        sender = scene.deliver_later()
        group = number % 2 == 0
        _wait(scene, chance, wants_git=not group)
        found.with_git_child += scene.busy_git()
        left = scene.kill(group=group)
        scene.host.latency = 0.0
        found.leader_only += not group
        found.left_alive += len(left)
        sender.join(30)
        if chance.random() < 0.5 and not scene.finds_by_itself:
            scene.move(chance.choice(MOVES))
        begun = time.monotonic()
        scene.service.start()
        try:
            scene.check()
        except AssertionError as e:
            raise AssertionError(f"{name}: {e}") from e
        took = time.monotonic() - begun
        assert took < IDLE_S, f"{name}: {took:.0f} s until idle"
        found.slowest_idle = max(found.slowest_idle, took)
        found.runs += 1
        found.bytes.append(_stored(scene))
        if number % quiet_every == quiet_every - 1:
            scene.restart_quietly()
    return found


def _stored(scene: Scene) -> int:
    """Bytes of the data folder without the store's log, which grows to 4 MB and starts again."""
    log = scene.service.data / "gitsync.db-wal"
    return kit.casebook.disk_size(scene.service.data) - (log.stat().st_size if log.exists() else 0)


def _wait(scene: Scene, chance: random.Random, *, wants_git: bool) -> None:
    """A random moment; for the leader alone one at which a git child runs, if there is one."""
    if not wants_git:
        time.sleep(chance.uniform(0.0, 0.5))
        return
    end = time.monotonic() + 2.0
    while time.monotonic() < end and not scene.busy_git():
        time.sleep(0.002)
    time.sleep(chance.uniform(0.0, 0.1))
