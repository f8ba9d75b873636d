"""Why a commit is live, or not: one document with the state, the reason and the way so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gitsync.git.objects import has_commit, is_ancestor
from gitsync.git.refs import local_tips
from gitsync.instance import Instance
from gitsync.model import Sha
from gitsync.records import (
    Assessment,
    Branch,
    CommitRecord,
    CommitState,
    RolloutVersion,
    Version,
    Workspace,
)
from gitsync.store import Connection, commits, syncs, versions, workspaces
from gitsync.sync.moves import short
from gitsync.sync.objects import is_usable, repository_of
from gitsync.text import printable

_MOST_LOOKED_AT = 20  # branches whose history is walked for one answer


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the rows say of a commit."""

    workspace: Workspace
    branches: list[Branch]
    record: CommitRecord | None
    trace: list[dict[str, Any]]


def _seen(db: Connection, workspace_id: str, sha: Sha) -> _Seen:
    record = commits.find_commit(db, workspace_id, sha)
    return _Seen(
        workspaces.get_workspace(db, workspace_id),
        [b for b in workspaces.list_branches(db, workspace_id) if b.state == "live"],
        record,
        _trace(db, workspace_id, record),
    )


def commit_status(instance: Instance, workspace_id: str, sha: Sha) -> dict[str, Any]:
    """The document of `GET commits/{sha}`; JSON values, times as datetimes."""
    with instance.database.read() as db:
        seen = _seen(db, workspace_id, sha)
        version = versions.find_version(db, workspace_id, sha)
        rollouts = [] if version is None else versions.rollouts_of(db, version)
        before = _rollouts_before(db, version)
    return {
        **_story(instance, seen, sha, is_version=version is not None),
        "rollouts": [_rollout(r, before) for r in rollouts],
        "findings": [] if version is None else list(version.findings),
    }


def commit_story(instance: Instance, workspace_id: str, sha: Sha) -> dict[str, Any]:
    """The same without rollouts and findings: as cheap for a workspace of a thousand rollouts."""
    with instance.database.read() as db:
        seen = _seen(db, workspace_id, sha)
        is_version = versions.is_version(db, workspace_id, sha)
    return _story(instance, seen, sha, is_version=is_version)


def _story(instance: Instance, seen: _Seen, sha: Sha, *, is_version: bool) -> dict[str, Any]:
    workspace, branches, record = seen.workspace, seen.branches, seen.record
    state = CommitState.UNKNOWN if record is None else record.state
    superseded_by = None if record is None else record.superseded_by
    branch = None if record is None else record.branch
    serving = _serving(workspace, branches, sha)
    if record is None or state in (CommitState.UNKNOWN, CommitState.UNREACHABLE):
        tip = _behind(instance, workspace, branches, sha)
        if tip is not None:
            state, superseded_by, branch = CommitState.SUPERSEDED, tip.published_sha, tip.name
    if is_version and serving is None and superseded_by is None:
        tip = next((b for b in branches if b.name == branch), None)
        superseded_by = None if tip is None else tip.published_sha
    elsewhere = None
    if state is CommitState.UNKNOWN and serving is None:
        elsewhere = _unfollowed(instance, workspace, branches, sha)
    shown_branch = serving.name if serving is not None else branch or elsewhere
    return {
        "commit_sha": str(sha),
        "branch": None if shown_branch is None else printable(short(shown_branch)),
        "state": state.value,
        "live": serving is not None,
        "superseded_by": superseded_by,
        "reason": _reason(workspace, record, state, serving, superseded_by, elsewhere),
        "sync_id": None if record is None else record.sync_id,
        "trace": seen.trace,
    }


def _serving(workspace: Workspace, branches: list[Branch], sha: Sha) -> Branch | None:
    """The branch that serves the commit; of several the one the workspace is known by."""
    known_by = workspace.chosen_branch or workspace.default_branch
    found = [b for b in branches if b.published_sha == sha]
    return min(found, key=lambda b: b.name != known_by, default=None)


def commit_mark(instance: Instance, workspace_id: str, sha: Sha) -> tuple[object, ...]:
    """Cheap to read, and another whenever `commit_status` may be another."""
    with instance.database.read() as db:
        workspace = workspaces.get_workspace(db, workspace_id)
        record = commits.find_commit(db, workspace_id, sha)
    return record, workspace.done, workspace.state, workspace.last_error


def is_settled(status: dict[str, Any]) -> bool:
    """True if waiting longer changes nothing by itself."""
    return CommitState(status["state"]).is_final


def _behind(
    instance: Instance, workspace: Workspace, branches: list[Branch], sha: Sha
) -> Branch | None:
    """The branch whose served tip contains this commit."""
    path = repository_of(instance, workspace)
    if not is_usable(path) or not has_commit(path, sha):
        return None
    for branch in branches:
        tip = branch.published_sha
        if tip and tip != sha and has_commit(path, tip) and is_ancestor(path, sha, Sha(tip)):
            return branch
    return None


def _unfollowed(
    instance: Instance, workspace: Workspace, branches: list[Branch], sha: Sha
) -> str | None:
    """The branch of an embedded repository that has this commit and is not followed."""
    path = repository_of(instance, workspace)
    if not workspace.is_embedded or not is_usable(path) or not has_commit(path, sha):
        return None
    followed = {branch.name for branch in branches}
    others = {n: tip for n, tip in local_tips(path).heads.items() if n not in followed}
    exact = next((name for name, tip in others.items() if tip == sha), None)
    if exact is not None:
        return exact
    nearest = sorted(others.items())[:_MOST_LOOKED_AT]
    return next(
        (n for n, tip in nearest if has_commit(path, tip) and is_ancestor(path, sha, tip)), None
    )


def _how_to_follow(workspace: Workspace, ref: str) -> str:
    served = workspace.chosen_branch or workspace.default_branch
    where = f"`{printable(short(served))}`" if served else "the branch that is followed"
    text = f"It is on `{printable(short(ref))}`, which is not followed."
    if workspace.watch == "all":
        return f"{text} Merge it into {where}, or delete old branches: there are too many."
    return f"{text} Merge it into {where}, or follow all branches (settings of the workspace)."


def _rollouts_before(db: Connection, version: Version | None) -> dict[str, str] | None:
    """Content keys of the first parent's rollouts by name, None if it was never published."""
    if version is None or not version.parents:
        return None
    parent = versions.find_version(db, version.workspace_id, version.parents[0])
    if parent is None:
        return None
    return {r.name: r.content_key for r in versions.rollouts_of(db, parent)}


def _rollout(rollout: RolloutVersion, before: dict[str, str] | None) -> dict[str, Any]:
    return {
        "name": rollout.name,
        "verdict": verdict_of(rollout),
        "digest": rollout.digest,
        "changed": before is None or before.get(rollout.name) != rollout.content_key,
        "findings": [f for a in rollout.assessments for f in a.findings],
        "entrypoints": [entrypoint_json(a) for a in rollout.assessments],
    }


def entrypoint_json(assessment: Assessment) -> dict[str, Any]:
    """One assessment."""
    return {
        "entrypoint": assessment.entrypoint,
        "verdict": assessment.verdict,
        "workflow": assessment.workflow,
        "grader": assessment.grader,
        "findings": list(assessment.findings),
    }


def verdict_of(rollout: RolloutVersion) -> str:
    """The worst of a rollout's entrypoints; `error` if an outer error makes it not runnable."""
    verdicts = {a.verdict for a in rollout.assessments}
    if "error" in verdicts or not rollout.runnable:
        return "error"
    return "unresolvable" if "unresolvable" in verdicts else "ok"


def _reason(
    workspace: Workspace,
    record: CommitRecord | None,
    state: CommitState,
    serving: Branch | None,
    superseded_by: str | None,
    elsewhere: str | None,
) -> str | None:
    """One sentence why the commit is not live; None if it is."""
    if serving is not None and state is CommitState.PUBLISHED:
        return None
    if record is not None and record.reason is not None:
        return record.reason
    if superseded_by is not None and serving is None:
        return f"Replaced by {superseded_by[:12]}."
    if workspace.state.value != "active":
        return f"The workspace is {workspace.state.value}."
    if elsewhere is not None:
        return _how_to_follow(workspace, elsewhere)
    if state in (CommitState.QUEUED, CommitState.SYNCING, CommitState.UNKNOWN):
        if workspace.last_error is not None:
            return str(workspace.last_error.get("message"))
        if state is CommitState.UNKNOWN:
            return "No watched branch of the remote contains this commit. Was it pushed?"
        return "It waits for its sync."
    if state is CommitState.PUBLISHED_WITH_ERRORS:
        return "A rollout of this commit cannot run; see the findings."
    return None


def _trace(db: Connection, workspace_id: str, record: CommitRecord | None) -> list[dict[str, Any]]:
    """Delivery, look, fetch, check, publish: what happened when."""
    if record is None:
        return []
    found: list[dict[str, Any]] = []
    if record.delivery_id is not None:
        delivery = syncs.get_delivery(db, workspace_id, record.delivery_id)
        found.append(
            {
                "step": "delivery",
                "at": delivery.received_at,
                "text": f"{delivery.provider} {delivery.event}: {delivery.outcome}",
            }
        )
    if record.sync_id is not None:
        sync = syncs.get_sync(db, workspace_id, record.sync_id)
        found.append(
            {
                "step": "sync",
                "at": sync.started_at or sync.requested_at,
                "text": f"sync {sync.id} by {sync.trigger.value}",
            }
        )
        found += [
            {"step": step["name"], "at": None, "ms": step["ms"], "text": ""} for step in sync.steps
        ]
        if sync.finished_at is not None and sync.outcome is not None:
            found.append({"step": "finished", "at": sync.finished_at, "text": sync.outcome.value})
    return found
