"""What a push prints: `remote: gitsync: …` lines in a fixed grammar (see `docs/push-lines.md`).

BRANCH SHA7 WORD[: DETAIL]        WORD is published, published-with-errors, refused, superseded,
                                  error, queued, not-followed or deleted
  SEVERITY PATH:LINE:COLUMN CODE MESSAGE
  and N more
see URL
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from gitsync.git.pushes import Command, Pushed
from gitsync.instance import Instance
from gitsync.model import Sha
from gitsync.records import Workspace
from gitsync.store import workspaces
from gitsync.sync.moves import short
from gitsync.sync.trace import commit_status, is_settled
from gitsync.sync.triggers import is_followed

MOST_FINDINGS = 10
MOST_BRANCHES = 5


async def push_lines(
    instance: Instance, workspace: Workspace, pushed: Pushed, *, url: str
) -> AsyncIterator[str]:
    """The lines for one push; waits at most GITSYNC_PUSH_WAIT_S in all."""

    branches = [c for c in pushed.done if c.ref.startswith("refs/heads/")]
    end = asyncio.get_running_loop().time() + instance.settings.push_wait_s
    for command in branches[:MOST_BRANCHES]:
        current = await asyncio.to_thread(_workspace, instance, workspace.id)
        if command.new is None:
            yield f"{short(command.ref)} deleted"
            continue
        if not is_followed(current, command.ref):
            followed = current.chosen_branch or current.default_branch or ""
            yield (
                f"{short(command.ref)} {command.new[:7]} not-followed: this workspace publishes "
                f"{short(followed)}"
            )
            continue
        left = max(0.0, end - asyncio.get_running_loop().time())
        status = await _status(instance, workspace, command, seconds=left)
        for line in _lines(command, status):
            yield line
    if len(branches) > MOST_BRANCHES:
        yield f"and {len(branches) - MOST_BRANCHES} more branches"
    if branches:
        yield f"see {url}"


def _workspace(instance: Instance, workspace_id: str) -> Workspace:
    with instance.database.read() as db:
        return workspaces.get_workspace(db, workspace_id)


async def _status(
    instance: Instance, workspace: Workspace, command: Command, *, seconds: float
) -> dict[str, Any] | None:
    sha = Sha(str(command.new))

    def look() -> dict[str, Any] | None:
        status = commit_status(instance, workspace.id, sha)
        return status if is_settled(status) else None

    return await instance.signals.wait_for(look, seconds=seconds)


def _lines(command: Command, status: dict[str, Any] | None) -> Iterator[str]:
    head = f"{short(command.ref)} {str(command.new)[:7]}"
    if status is None:
        yield f"{head} queued: not published yet, it goes on without you"
        return
    rollouts = status["rollouts"]
    bad = [r for r in rollouts if r["verdict"] != "ok"]
    changed = sum(1 for r in rollouts if r["changed"])
    match status["state"]:
        case "published":
            yield f"{head} published: {_count(len(rollouts), 'rollout')} ok, {changed} changed"
        case "published_with_errors":
            yield (
                f"{head} published-with-errors: {len(bad)} of {_count(len(rollouts), 'rollout')} "
                "cannot run"
            )
        case state:
            yield f"{head} {state}: {status['reason'] or ''}".rstrip(": ")
    findings = [*(f for r in rollouts for f in r["findings"]), *status["findings"]]
    rank = {"error": 0, "unresolved": 1, "warning": 2, "hint": 3}
    serious = sorted(
        (f for f in findings if not f.get("suppressed") and f["severity"] != "hint"),
        key=lambda f: rank[f["severity"]],
    )
    for finding in serious[:MOST_FINDINGS]:
        place = f"{finding['path']}:{finding['line']}:{finding['column']}"
        yield f"  {finding['severity']} {place} {finding['code']} {finding['message']}"
    if len(serious) > MOST_FINDINGS:
        yield f"  and {len(serious) - MOST_FINDINGS} more"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
