"""Takes many cases through one service at once, with a healthy workspace beside them."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.service import Service, Watch
from tests.hostile_runs import kit

AT_ONCE = 4
SETTINGS = {"backoff_max_s": 1.0, "fetch_deadline_s": 60.0, "concurrent_syncs": AT_ONCE + 1}
HEALTHY_S = 30.0  # the longest a healthy push may wait while hostile ones are worked on


@dataclass(slots=True)
class Result:
    """What a run showed."""

    judged: list[kit.Judged] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    growth_mb: float = 0.0
    at_peak: list[str] = field(default_factory=list)
    healthy_pushes: int = 0
    healthy_slowest: float = 0.0

    def summary(self) -> str:
        """A few lines for people: what only `accept` allows, and the bounds."""
        accepted = sorted({f"{j.case} ({j.verdict})" for j in self.judged if j.by_accept})
        known = [f"{name}: {why}" for name, why in kit.KNOWN.items()]
        slow = max(self.judged, key=lambda j: j.seconds)
        return "\n".join(
            [
                f"{len(self.judged)} states; growth {self.growth_mb:.0f} MB; slowest {slow.case} "
                f"{slow.seconds:.1f} s; healthy pushes {self.healthy_pushes}, slowest "
                f"{self.healthy_slowest:.1f} s",
                f"decided by `accept` alone: {', '.join(accepted) or 'none'}",
                *known,
            ]
        )


def run_cases(folder: Path, repos: Path, cases: dict[str, dict], **settings: Any) -> Result:
    """All cases; the memory bound is held by all that run at once together."""
    result = Result()
    with kit.Host(repos) as host:
        allowed = [f"127.0.0.1:{host.port}"]
        with (
            Service(
                folder / "service", **{**SETTINGS, "allowed_hosts": allowed, **settings}
            ) as service,
            kit.Healthy(service, host, name=f"healthy-{folder.name}") as healthy,
        ):
            healthy.once()
            with Watch(service) as watch:
                _all(kit.Runner(service, repos, cases, host), cases, result)
            healthy.once()
            result.faults += kit.side_effects(
                service, {n: c.get("secrets", []) for n, c in cases.items()}
            )
        result.growth_mb, result.at_peak = watch.growth_mb, watch.at_peak
        result.healthy_pushes, result.healthy_slowest = healthy.pushes, healthy.slowest
        result.faults += [f"healthy: {fault}" for fault in healthy.faults]
    result.faults += [f"{j.case} ({j.state}): {f}" for j in result.judged for f in j.faults]
    most = max(c["bounds"]["peak_rss_mb"] for c in cases.values())
    if result.growth_mb > most:
        result.faults.append(f"grew by {result.growth_mb:.0f} MB:\n" + "\n".join(result.at_peak))
    if result.healthy_slowest > HEALTHY_S:
        result.faults.append(f"a healthy push waited {result.healthy_slowest:.0f} s")
    return result


def _all(runner: kit.Runner, cases: dict[str, dict], result: Result) -> None:
    names: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in cases:
        names.put(name)

    def work() -> None:
        while True:
            try:
                name = names.get_nowait()
            except queue.Empty:
                return
            try:
                result.judged += runner.run(name)
            except Exception as e:  # told as a fault of this case; the others go on
                result.faults.append(f"{name}: {type(e).__name__}: {str(e)[:2000]}")

    threads = [threading.Thread(target=work) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
