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

from gitsync.errors import Conflict, GitSyncError, NotFound
from gitsync.git.child import Guard
from gitsync.git.mirror import Arrived, Mirror
from gitsync.git.refs import loose_refs
from gitsync.instance import Instance
from gitsync.model import Finding, Severity, Sha
from gitsync.records import (
    CommitState,
    Delivery,
    Outcome,
    Turn,
    Workspace,
    WorkspaceState,
)
from gitsync.store import (
    Connection,
    commits,
    events,
    listing,
    objects,
    turns,
    versions,
    workspaces,
)
from gitsync.sync import settle
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


def publish_moves(
    work: Work,
    seen: Picture,
    fetched: Mapping[str, Sha],
    waiting: Sequence[Delivery],
    path: Path,
    guard: Guard,
    *,
    shallow: bool,
    arrived: Arrived | None = None,
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
        prepared = prepare(work, sha, path, guard, shallow=shallow, arrived=arrived)
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
            instance.at("pack.late")
            try:
                with instance.database.write() as db:
                    workspaces.lock_workspace(db, work.workspace.id)
                    objects.add_pack(
                        db,
                        work.workspace.id,
                        object_key=key,
                        tips=tips,
                        size=size,
                        shallow=(),
                        now=instance.now(),
                    )
            except NotFound:  # deleted meanwhile, with the packs that had rows
                instance.bucket.delete(key)
                return
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
    late = settle.unexplained(waiting, fetched, path)
    replaced = settle.replaced(work, fetched, path)
    with instance.database.write() as db:
        turns.guard(db, work.turn)
        if done:
            _write(db, work, done[-1][1], done[-1][2])
        instance.at("publish.written")
        settle.note_gone(db, work, gone, now=now)
        settle.forget_unwatched(db, work, seen, now=now)
        for sha, tip in replaced.items():
            commits.put_commit(
                db, work.workspace.id, sha, CommitState.SUPERSEDED, superseded_by=tip, now=now
            )
        states = {str(prepared.sha): prepared for _, prepared, _ in done}
        settle.settle_delivered(
            db, work, [d for d in waiting if d not in late], fetched, states, path, now=now
        )
        pause = settle.wait_for_late(db, work, late, fetched, now=now)
        work.steps.note("publish", begun)
        settle.close(
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
        f"{seen.too_many} branches are not followed. Delete old ones, watch the default branch "
        "only, or ask the operator to raise GITSYNC_MAX_WATCHED_BRANCHES.",
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
        names = (rollout.name for rollout in prepared.rollouts)
        listing.note_names(db, workspace_id, names, now=now)
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
            current = workspaces.lock_workspace(db, workspace.id)
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
