"""From fetched tips to published versions, one guarded transaction per commit (promise 7).

Everything a transaction refers to is durable before it begins: artifacts and packs are in the
store and synced. A transaction that finds its fence moved changes nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gitsync.errors import Conflict, GitSyncError
from gitsync.git.child import Guard
from gitsync.git.mirror import Mirror
from gitsync.git.objects import has_commit, is_ancestor
from gitsync.git.refs import loose_refs
from gitsync.instance import Instance
from gitsync.model import Finding, Severity, Sha
from gitsync.records import (
    BranchMove,
    CommitState,
    Delivery,
    Outcome,
    Trigger,
    Turn,
    Workspace,
    WorkspaceState,
)
from gitsync.store import Connection, commits, events, objects, syncs, turns, versions, workspaces
from gitsync.sync.moves import Move, Picture, short
from gitsync.sync.objects import held_repository, repository_of, store_pack
from gitsync.sync.prepare import Prepared, prepare
from gitsync.sync.work import Work

log = logging.getLogger(__name__)

_WORST = (
    Outcome.REFUSED,
    Outcome.PUBLISHED_WITH_ERRORS,
    Outcome.PUBLISHED,
    Outcome.UNCHANGED,
)
LOOSE_REFS = 20  # more of them slow every fetch down (decision 7)
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


def publish_moves(
    work: Work,
    seen: Picture,
    fetched: Mapping[str, Sha],
    waiting: Sequence[Delivery],
    path: Path,
    guard: Guard,
    *,
    shallow: bool,
) -> Outcome | None:
    """Publish every moved branch, the default one first; the last transaction ends the turn."""
    instance = work.instance
    gone = [move for move in seen.moves if move.to_sha is None]
    by_sha: dict[Sha, list[Move]] = {}
    for move in _moved(work, seen, fetched):
        if move.to_sha is not None:
            by_sha.setdefault(move.to_sha, []).append(move)
    done: list[tuple[Outcome, Prepared, list[Move]]] = []
    for sha, group in by_sha.items():
        prepared = prepare(work, sha, path, guard, shallow=shallow)
        done.append((prepared.outcome, prepared, group))
        if len(done) < len(by_sha):
            with instance.database.write() as db:
                turns.guard(db, work.turn)
                _write(db, work, prepared, group)
    if not done:
        return _close_turn(work, seen, gone, [], waiting, fetched, path)
    instance.at("publish.begin")
    outcome = _close_turn(work, seen, gone, done, waiting, fetched, path)
    instance.at("publish.committed")
    if work.workspace.is_embedded:
        _store_late_packs(work, [p.sha for _, p, _ in done if not p.is_refused], guard)
    elif loose_refs(path) > LOOSE_REFS:
        Mirror(path, guard).pack_refs()
    return outcome


def _store_late_packs(work: Work, shas: Sequence[Sha], guard: Guard) -> None:
    """An embedded repository is primary data: its packs follow, they do not hold up the push."""
    instance = work.instance
    for sha in shas:
        try:
            pack = store_pack(instance, work.workspace, sha, shallow=(), guard=guard)
        except GitSyncError as e:
            log.warning("pack not stored workspace=%s reason=%s", work.workspace.id, e.message)
            return
        if pack is not None:
            key, tips, size = pack
            with instance.database.write() as db:
                objects.add_pack(
                    db,
                    work.workspace.id,
                    object_key=key,
                    tips=tips,
                    size=size,
                    shallow=(),
                    now=instance.now(),
                )
    instance.at("pack.stored")


def _moved(work: Work, seen: Picture, fetched: Mapping[str, Sha]) -> list[Move]:
    """Moves by what was fetched, which may be newer than what was looked at."""
    before = {move.name: move.from_sha for move in seen.moves if move.to_sha is not None}
    with work.instance.database.read() as db:
        rows = {row.name: row for row in workspaces.list_branches(db, work.workspace.id)}
    moves = []
    for name, tip in fetched.items():
        row = rows.get(name)
        if name in before or row is None or row.head_sha != tip or row.state != "live":
            moves.append(Move(name, before.get(name, row.head_sha if row else None), tip))
    return moves


def _close_turn(
    work: Work,
    seen: Picture,
    gone: Sequence[Move],
    done: Sequence[tuple[Outcome, Prepared, list[Move]]],
    waiting: Sequence[Delivery],
    fetched: Mapping[str, Sha],
    path: Path,
) -> Outcome:
    instance, now = work.instance, work.instance.now()
    begun = time.perf_counter()
    outcomes = [outcome for outcome, _, _ in done] or [Outcome.UNCHANGED]
    outcome = min(outcomes, key=_WORST.index)
    moves = [*(m for _, _, group in done for m in group), *gone]
    late = unexplained(waiting, fetched, path)
    replaced = _replaced(work, fetched, path)
    with instance.database.write() as db:
        turns.guard(db, work.turn)
        if done:
            _write(db, work, done[-1][1], done[-1][2])
        instance.at("publish.written")
        note_gone(db, work, gone, now=now)
        forget_unwatched(db, work, seen, now=now)
        for sha, tip in replaced.items():
            commits.put_commit(
                db, work.workspace.id, sha, CommitState.SUPERSEDED, superseded_by=tip, now=now
            )
        states = {str(prepared.sha): prepared for _, prepared, _ in done}
        _settle(db, work, [d for d in waiting if d not in late], fetched, states, path, now=now)
        pause = _wait_for_late(db, work, late, fetched, now=now)
        work.steps.note("publish", begun)
        close(
            db,
            work,
            outcome,
            moves=moves,
            error=None,
            now=now,
            findings=[
                *_too_many(seen),
                *(f for _, prepared, _ in done for f in prepared.findings_json()),
            ],
            rollouts=max((len(p.rollouts) for _, p, _ in done), default=None),
        )
        if pause is None:
            turns.finish(db, work.turn, now=now, default_branch=seen.default_branch)
        else:
            turns.postpone(
                db,
                work.turn,
                seconds=pause,
                now=now,
                lag_looks=work.workspace.lag_looks + 1,
                default_branch=seen.default_branch,
                failures=0,
                last_error=None,
                suspect=None,
            )
    log.info(
        "synced workspace=%s outcome=%s branches=%s steps=%s",
        work.workspace.id,
        outcome.value,
        ",".join(short(m.name) for m in moves),
        " ".join(f"{s['name']}={s['ms']}" for s in work.steps.to_json()),
    )
    return outcome


def _too_many(seen: Picture) -> list[dict[str, Any]]:
    """Branches beyond the limit are left out, and that is said."""
    if not seen.too_many:
        return []
    finding = Finding(
        "too-many-branches",
        Severity.WARNING,
        "refs/heads",
        1,
        1,
        "",
        f"{seen.too_many} branches are not followed. Delete old ones, watch the default branch only, "
        "or ask the operator to raise GITSYNC_MAX_WATCHED_BRANCHES.",
    )
    return [finding.to_json()]


def _write(db: Connection, work: Work, prepared: Prepared, group: Sequence[Move]) -> None:
    """Add the version (or the refusal) and move the pointers of its branches."""
    instance, now, workspace_id = work.instance, work.instance.now(), work.workspace.id
    sync_id = work.ids[0] if work.ids else None
    if prepared.is_refused:
        for move in group:
            workspaces.put_branch(
                db,
                workspace_id,
                move.name,
                head_sha=str(prepared.sha),
                last_sync=sync_id,
                state="live",
                now=now,
            )
        commits.put_commit(
            db,
            workspace_id,
            prepared.sha,
            CommitState.REFUSED,
            branch=group[0].name,
            sync_id=sync_id,
            reason=prepared.reason,
            now=now,
        )
        return
    version_id = _version(db, work, prepared, sync_id)
    for move in group:
        versions.note_branch(db, version_id, move.name, now=now)
        workspaces.put_branch(
            db,
            workspace_id,
            move.name,
            head_sha=str(prepared.sha),
            published_sha=str(prepared.sha),
            last_sync=sync_id,
            state="live",
            now=now,
        )
    commits.put_commit(
        db,
        workspace_id,
        prepared.sha,
        CommitState(prepared.outcome.value),
        branch=group[0].name,
        sync_id=sync_id,
        now=now,
    )
    events.add_event(
        db,
        "version.published",
        {
            "commit_sha": str(prepared.sha),
            "branches": [short(move.name) for move in group],
            "outcome": prepared.outcome.value,
            "rollouts": len(prepared.rollouts),
        },
        workspace_id=workspace_id,
        now=now,
    )
    instance.at("publish.version")


def _version(db: Connection, work: Work, prepared: Prepared, sync_id: int | None) -> int:
    """The id of the version; its rows are added the first time, its assessments when new."""
    now, workspace_id, commit = work.instance.now(), work.workspace.id, prepared.commit
    prepared.check_artifacts(db)
    for digest, size in prepared.uploaded.items():
        objects.put_artifact(db, digest, size, now=now)
    for rollout in prepared.rollouts:
        if rollout.digest is not None and rollout.tree is not None:
            objects.put_artifact_key(db, rollout.content_key, rollout.digest)
    known = versions.find_version(db, workspace_id, prepared.sha)
    if known is None:
        version_id = versions.add_version(
            db,
            workspace_id,
            now=now,
            sync_id=sync_id,
            trigger=work.trigger.value,
            **prepared.version_values(commit),
        )
        versions.add_rollouts(db, version_id, prepared.rollouts)
    else:
        version_id = known.id
    versions.add_assessments(
        db,
        workspace_id,
        prepared.rollouts,
        options=prepared.options_key,
        fingerprint=prepared.fingerprint,
        now=now,
    )
    if prepared.pack is not None:
        key, tips, size = prepared.pack
        objects.add_pack(
            db,
            workspace_id,
            object_key=key,
            tips=tips,
            size=size,
            shallow=prepared.shallow,
            now=now,
        )
        prepared.pack = None
    return version_id


def note_gone(db: Connection, work: Work, gone: Sequence[Move], *, now: Any) -> None:
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


def forget_unwatched(db: Connection, work: Work, seen: Picture, *, now: Any) -> None:
    """Branches that are there but no longer watched."""
    for name in seen.unwatched:
        workspaces.put_branch(db, work.workspace.id, name, state="unwatched", now=now)


def _replaced(work: Work, tips: Mapping[str, Sha], path: Path) -> dict[str, str]:
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


def _wait_for_late(
    db: Connection, work: Work, late: Sequence[Delivery], tips: Mapping[str, Sha], *, now: Any
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


def move_deliveries(db: Connection, work: Work, late: Sequence[Delivery], *, now: Any) -> None:
    """Attach deliveries to the sync of the next look."""
    if late:
        following = syncs.ask_sync(db, work.workspace.id, trigger=Trigger.WEBHOOK, now=now)
        syncs.attach(db, [d.id for d in late], following)


def give_up(
    db: Connection, work: Work, late: Sequence[Delivery], tips: Mapping[str, Sha], *, now: Any
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


def _settle(
    db: Connection,
    work: Work,
    waiting: Sequence[Delivery],
    tips: Mapping[str, Sha],
    states: Mapping[str, Prepared],
    path: Path,
    *,
    now: Any,
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
    now: Any,
) -> None:
    """Nothing moved: deliveries are explained by what is published, or given up."""
    _settle(db, work, [d for d in waiting if d not in missing], seen.watched, {}, path, now=now)
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
    now: Any,
) -> None:
    """The sync ended without a version: all its deliveries and commits share the reason."""
    syncs.settle(db, [d.id for d in waiting], outcome.value, reason=reason, now=now)
    for record in commits.waiting_commits(db, work.workspace.id):
        commits.put_commit(
            db, work.workspace.id, record.sha, CommitState.ERROR, reason=reason, now=now
        )


def close(
    db: Connection,
    work: Work,
    outcome: Outcome,
    *,
    moves: Sequence[Move],
    error: dict[str, Any] | None,
    now: Any,
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


def publish_one(
    instance: Instance, workspace: Workspace, sha: Sha, *, is_fresh: bool = False
) -> int:
    """Make an older commit a version because somebody asks for it, or assess one anew.

    No branch moves. With `is_fresh` stored assessments are not reused. Returns the version's id.
    """
    with held_repository(instance, workspace) as guard:
        path = repository_of(instance, workspace)
        work = Work(instance, Turn(workspace.id, workspace.fence, 0), workspace, [])
        prepared = prepare(
            work,
            sha,
            path,
            guard,
            shallow=(path / "shallow").is_file(),
            reuse=not is_fresh,
        )
        if prepared.is_refused:
            raise Conflict(f"Commit {sha[:12]} cannot be published. {prepared.reason}")
        with instance.database.write() as db:
            current = workspaces.get_workspace(db, workspace.id)
            is_known = versions.find_version(db, workspace.id, sha) is not None
            if current.state is WorkspaceState.DISCONNECTED and not is_known:
                raise Conflict("The workspace is disconnected.", state="disconnected")
            version_id = _version(db, work, prepared, None)
            versions.set_findings(
                db,
                version_id,
                findings=[f.to_json() for f in prepared.report.findings],
                fingerprint=prepared.fingerprint,
            )
            state = CommitState(prepared.outcome.value)
            commits.put_commit(db, workspace.id, sha, state, now=instance.now())
        return version_id
