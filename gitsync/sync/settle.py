"""What becomes of deliveries, commits and syncs when a turn ends: one visible outcome each.

Called inside the guarded transaction of the turn; nothing here waits or reads Git objects that are
not in the mirror already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from gitsync.git.objects import has_commit, is_ancestor
from gitsync.model import Sha
from gitsync.records import BranchMove, CommitState, Delivery, Outcome, Trigger
from gitsync.store import Connection, commits, events, syncs, workspaces
from gitsync.sync.moves import Move, Picture, short
from gitsync.sync.prepare import Prepared
from gitsync.sync.work import Work

LAG_PAUSES = (1.0, 2.0, 4.0, 8.0)  # decision 16
_SYNC_FINDINGS = 500  # a sync shows at most so many; the version has them all


def unexplained(waiting: Sequence[Delivery], tips: Mapping[str, Sha], path: Path) -> list[Delivery]:
    """Deliveries that name a commit of a watched branch which its tip does not contain."""
    followed = {d.before_sha for d in waiting}
    missing = []
    for delivery in waiting:
        sha, tip = delivery.after_sha, tips.get(delivery.ref or "")
        if sha is None or tip is None or sha == tip or set(sha) == {"0"} or len(sha) != 40:
            continue
        if sha in followed or (has_commit(path, sha) and is_ancestor(path, Sha(sha), tip)):
            continue
        missing.append(delivery)
    return missing


def settle_delivered(
    db: Connection,
    work: Work,
    waiting: Sequence[Delivery],
    tips: Mapping[str, Sha],
    states: Mapping[str, Prepared],
    path: Path,
    *,
    now: datetime,
) -> None:
    """Say what became of each delivery that this turn explains."""
    for delivery in waiting:
        sha, tip = delivery.after_sha, tips.get(delivery.ref or "")
        outcome, reason = "unchanged", None
        if sha is not None and set(sha) == {"0"}:
            outcome = "branch_gone" if tip is None else "superseded"
        elif sha is not None and tip is not None and sha != tip:
            outcome, reason = "superseded", f"Replaced by {tip}."
            known = commits.find_commit(db, work.workspace.id, sha)
            if known is None or not known.state.is_final:
                commits.put_commit(
                    db,
                    work.workspace.id,
                    sha,
                    CommitState.SUPERSEDED,
                    superseded_by=tip,
                    now=now,
                )
        elif tip is not None:
            record = commits.find_commit(db, work.workspace.id, tip)
            if str(tip) in states:
                outcome, reason = states[tip].outcome.value, states[tip].reason
            elif record is not None:
                outcome, reason = record.state.value, record.reason
        syncs.settle(db, [delivery.id], outcome, reason=reason, now=now)


def settle_unchanged(
    db: Connection,
    work: Work,
    waiting: Sequence[Delivery],
    missing: Sequence[Delivery],
    seen: Picture,
    path: Path,
    *,
    now: datetime,
) -> None:
    """Nothing moved: deliveries are explained by what is published, or given up."""
    settle_delivered(
        db, work, [d for d in waiting if d not in missing], seen.watched, {}, path, now=now
    )
    give_up(db, work, missing, seen.watched, now=now)
    for record in commits.waiting_commits(db, work.workspace.id):
        tip = seen.watched.get(record.branch or "")
        if tip is not None and record.sha != tip:
            is_behind = has_commit(path, record.sha) and is_ancestor(path, Sha(record.sha), tip)
            state = CommitState.SUPERSEDED if is_behind else CommitState.UNREACHABLE
            commits.put_commit(db, work.workspace.id, record.sha, state, superseded_by=tip, now=now)


def settle_all(
    db: Connection,
    work: Work,
    waiting: Sequence[Delivery],
    outcome: Outcome,
    *,
    reason: str,
    now: datetime,
) -> None:
    """The sync ended without a version: all its deliveries and commits share the reason."""
    syncs.settle(db, [d.id for d in waiting], outcome.value, reason=reason, now=now)
    for record in commits.waiting_commits(db, work.workspace.id):
        commits.put_commit(
            db, work.workspace.id, record.sha, CommitState.ERROR, reason=reason, now=now
        )


def wait_for_late(
    db: Connection, work: Work, late: Sequence[Delivery], tips: Mapping[str, Sha], *, now: datetime
) -> float | None:
    """Deliveries the remote does not show yet wait for the next look, or are given up."""
    looks = work.workspace.lag_looks
    if not late:
        return None
    if looks < len(LAG_PAUSES):
        move_deliveries(db, work, late, now=now)
        return LAG_PAUSES[looks]
    give_up(db, work, late, tips, now=now)
    return None


def move_deliveries(db: Connection, work: Work, late: Sequence[Delivery], *, now: datetime) -> None:
    """Attach deliveries to the sync of the next look."""
    if late:
        following = syncs.ask_sync(db, work.workspace.id, trigger=Trigger.WEBHOOK, now=now)
        syncs.attach(db, [d.id for d in late], following)


def give_up(
    db: Connection, work: Work, late: Sequence[Delivery], tips: Mapping[str, Sha], *, now: datetime
) -> None:
    """The remote never showed what these deliveries announced."""
    reason = "The remote never showed this commit on the branch; it was replaced or withdrawn."
    syncs.settle(db, [d.id for d in late], "not_seen", reason=reason, now=now)
    for delivery in late:
        if delivery.after_sha is not None:
            commits.put_commit(
                db,
                work.workspace.id,
                delivery.after_sha,
                CommitState.UNREACHABLE,
                reason=reason,
                superseded_by=tips.get(delivery.ref or ""),
                now=now,
            )


def replaced(work: Work, tips: Mapping[str, Sha], path: Path) -> dict[str, str]:
    """Commits that waited and are now behind a tip: sha to tip."""
    with work.instance.database.read() as db:
        records = commits.waiting_commits(db, work.workspace.id)
    found: dict[str, str] = {}
    for record in records:
        for name, tip in tips.items():
            if record.branch not in (None, name) or record.sha == tip:
                continue
            if has_commit(path, record.sha) and is_ancestor(path, Sha(record.sha), tip):
                found[record.sha] = tip
    return found


def note_gone(db: Connection, work: Work, gone: Sequence[Move], *, now: datetime) -> None:
    """Branches that the remote no longer has; what they published stays."""
    for move in gone:
        workspaces.put_branch(
            db,
            work.workspace.id,
            move.name,
            state="gone",
            last_sync=work.ids[0] if work.ids else None,
            now=now,
        )
        events.add_event(
            db,
            "branch.gone",
            {"branch": short(move.name)},
            workspace_id=work.workspace.id,
            now=now,
        )


def forget_unwatched(db: Connection, work: Work, seen: Picture, *, now: datetime) -> None:
    """Branches that are there but no longer watched."""
    for name in seen.unwatched:
        workspaces.put_branch(db, work.workspace.id, name, state="unwatched", now=now)


def close(
    db: Connection,
    work: Work,
    outcome: Outcome,
    *,
    moves: Sequence[Move],
    error: dict[str, Any] | None,
    now: datetime,
    findings: Sequence[dict[str, Any]] = (),
    rollouts: int | None = None,
) -> None:
    """Close the syncs of this turn and tell the world."""
    if not work.syncs:
        return
    syncs.close_syncs(
        db,
        work.ids,
        outcome,
        now=now,
        branches=[
            BranchMove(m.name, m.from_sha, None if m.to_sha is None else str(m.to_sha)).to_json()
            for m in moves
        ],
        steps=work.steps.to_json(),
        findings=list(findings)[:_SYNC_FINDINGS],
        error=error,
        rollouts=rollouts,
    )
    for sync in work.syncs:
        events.add_event(
            db,
            "sync.finished",
            {"sync_id": sync.id, "outcome": outcome.value, "status": outcome.status.value},
            workspace_id=work.workspace.id,
            now=now,
        )
