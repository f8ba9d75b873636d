"""Whether a commit is live, and why not: `GET …/commits/{sha}` until the answer is final."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gitsync.client.failures import AnswerMalformed, ServerRefused, ServerUnreachable
from gitsync.client.server import WAIT_S, Json, Server, segment
from gitsync.model import Verdict

PENDING = frozenset({"unknown", "queued", "syncing"})
TOO_MANY = 429
UNREACHABLE_S = 20.0  # as long as a server may be away while we wait: a restart takes less
_WORST = (Verdict.ERROR, Verdict.UNRESOLVABLE, Verdict.OK)


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """What the server says of one commit; `raw` is its whole answer."""

    commit_sha: str
    branch: str | None
    state: str
    live: bool
    superseded_by: str | None
    reason: str | None
    url: str | None
    rollouts: tuple[Json, ...] = ()
    findings: tuple[Json, ...] = ()
    raw: Json = field(default_factory=dict, repr=False)

    @property
    def is_final(self) -> bool:
        """True if waiting longer changes nothing unless somebody acts."""
        return self.state not in PENDING

    @classmethod
    def of(cls, answer: Json) -> CommitStatus:
        """Read an answer; unknown keys stay in `raw`."""
        try:
            return cls(
                commit_sha=str(answer["commit_sha"]),
                branch=answer.get("branch"),
                state=str(answer["state"]),
                live=bool(answer["live"]),
                superseded_by=answer.get("superseded_by"),
                reason=answer.get("reason"),
                url=answer.get("url"),
                rollouts=tuple(summary(r) for r in answer.get("rollouts") or ()),
                findings=tuple(answer.get("findings") or ()),
                raw=answer,
            )
        except (KeyError, TypeError, AttributeError) as e:
            raise AnswerMalformed(f"The answer about the commit is not understood: {e!r}") from e

    def to_json(self) -> Json:
        """The document of `gitsync status --json`."""
        return {
            "schema_version": 1,
            "commit_sha": self.commit_sha,
            "branch": self.branch,
            "state": self.state,
            "live": self.live,
            "superseded_by": self.superseded_by,
            "reason": self.reason,
            "rollouts": list(self.rollouts),
            "findings": list(self.findings),
            "url": self.url,
        }


def summary(rollout: Json) -> Json:
    """A rollout with the worst verdict of it and its entrypoints, and all their findings."""
    entrypoints = rollout.get("entrypoints") or []
    verdicts = {entry["verdict"] for entry in [rollout, *entrypoints] if "verdict" in entry}
    worst = next((v.value for v in _WORST if v.value in verdicts), None)
    seen: list[Any] = list(rollout.get("findings") or [])
    for entry in entrypoints:
        seen += [f for f in entry.get("findings") or [] if f not in seen]
    return {
        "name": rollout["name"],
        "verdict": worst or Verdict.UNRESOLVABLE.value,
        "digest": rollout.get("digest"),
        "changed": rollout.get("changed"),
        "findings": seen,
        "entrypoints": [
            {key: entry.get(key) for key in ("entrypoint", "verdict", "workflow", "grader")}
            for entry in entrypoints
        ],
    }


def commit_status(
    server: Server,
    workspace_id: str,
    sha: str,
    *,
    wait_s: float = 0.0,
    on_change: Callable[[CommitStatus], None] = lambda _status: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> CommitStatus:
    """The state of a commit, waited for up to `wait_s` seconds; the last answer even if not final.

    While waiting, a server that is away for less than `UNREACHABLE_S` is no failure.
    """
    path = f"workspaces/{segment(workspace_id)}/commits/{segment(sha)}"
    end = clock() + wait_s
    away_since: float | None = None
    shown: str | None = None
    last: CommitStatus | None = None
    while True:
        begun = clock()
        left = end - begun
        try:
            asked = min(left, WAIT_S) if left > 0 else None
            last = CommitStatus.of(server.get(path, wait=asked))
            away_since = None
        except ServerUnreachable:
            away_since = begun if away_since is None else away_since
            if clock() >= end or clock() - away_since > UNREACHABLE_S or last is None:
                raise
        except ServerRefused as e:  # too many wait with the same token: it is soon our turn
            if e.status != TOO_MANY or clock() >= end:
                raise
        if last is not None and (last.is_final or clock() >= end):
            return last
        if last is not None and last.state != shown:
            shown = last.state
            on_change(last)
        if clock() - begun < 1.0:  # an answer that came at once: no tight loop
            sleep(min(0.5, max(end - clock(), 0.0)))
