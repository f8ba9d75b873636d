"""One turn of one workspace: look, fetch, check, build, publish (design section 3).

Promise: a turn ends published, refused, postponed or failed, with the reason in its sync; whatever
kills it, the next turn starts from the rows and converges. No step holds a database connection
while it waits for Git, a worker or the artifact store.
"""

from __future__ import annotations

import logging
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

from gitsync.errors import GitSyncError
from gitsync.git.failures import (
    AddressRefused,
    AuthenticationFailed,
    HostKeyUnknown,
    ObjectsRefused,
    RemoteThrottled,
    RepositoryCorrupt,
    RepositoryNotFound,
    TlsFailed,
)
from gitsync.git.lsrefs import Tips, look
from gitsync.git.mirror import FetchLimits, FetchResult, Mirror
from gitsync.git.objects import has_commit, is_ancestor
from gitsync.git.refs import local_tips, pin
from gitsync.instance import MIB, Instance
from gitsync.model import Sha
from gitsync.records import (
    Branch,
    CommitState,
    Delivery,
    Outcome,
    SyncStatus,
)
from gitsync.store import Connection, commits, syncs, turns, workspaces
from gitsync.sync import publish, settle
from gitsync.sync.moves import Move, Picture, picture, short
from gitsync.sync.objects import held_repository, is_usable, rebuild, repository_of
from gitsync.sync.remotes import CredentialUnreadable, remote_of
from gitsync.sync.work import Work

log = logging.getLogger(__name__)

SUSPECT_PAUSE = 2.0
PATIENCE = 3  # transient failures before a sync is called failed
# Failures that only a person ends: a push does not lift the pause after them.
NEEDS_A_PERSON = (
    AuthenticationFailed,
    HostKeyUnknown,
    AddressRefused,
    RepositoryNotFound,
    TlsFailed,
    CredentialUnreadable,
)


class TurnCrashed(GitSyncError):
    """A turn ended in an exception that nobody foresaw."""

    code = "INTERNAL"
    transient = True


def run_turn(instance: Instance, workspace_id: str) -> Outcome | None:
    """Take the workspace's turn and work; None if there was none to take or it was postponed."""
    at = instance.at
    at("turn.wanted")
    with instance.database.write(durable=False) as db:
        turn = turns.take(
            db, workspace_id, owner=instance.boot, lease_s=instance.settings.turn_lease_s
        )
        if turn is None:
            return None
        workspace = workspaces.get_workspace(db, workspace_id)
        opened = syncs.begin_syncs(db, workspace_id, fence=turn.fence, now=instance.now())
    at("turn.taken")
    work = Work(instance, turn, workspace, opened)
    try:
        outcome = _work(work)
    except turns.TurnLost:
        log.info("turn lost workspace=%s fence=%d", workspace_id, turn.fence)
        outcome = None
    except GitSyncError as e:
        outcome = _fail(work, e)
    except Exception:
        # a bug of ours; the engine logs it, but whoever pushed is told, and it is tried again later
        _fail(work, TurnCrashed("Something went wrong here; the operator's log says more."))
        raise
    at("turn.ended")
    return outcome


def _work(work: Work) -> Outcome | None:
    instance, workspace = work.instance, work.workspace
    with held_repository(instance, workspace) as guard:
        path = repository_of(instance, workspace)
        if not is_usable(path):
            work.steps.timed("rebuild", lambda: rebuild(instance, workspace, guard))
        mirror = None if workspace.is_embedded else Mirror(path, guard)
        if mirror is not None:
            mirror.cleanup_leftovers()
        instance.at("look.begin")
        tips = work.steps.timed("look", lambda: _look(work, path))
        instance.at("look.done")
        with instance.database.read() as db:
            rows = workspaces.list_branches(db, workspace.id)
            waiting = syncs.unsettled(db, work.ids)
        seen = picture(workspace, tips, rows, most=instance.settings.max_watched_branches)
        seen = _retry_refused(work, seen, rows)
        if not seen.watched:
            return _nothing_there(work, seen, waiting, path)
        if not seen.moves:
            return _unchanged(work, seen, waiting, path)
        if mirror is not None and _is_suspect(work, seen, waiting, path):
            return None
        work.ensure_sync()
        fetched = dict(seen.watched)
        shallow, arrived = False, None
        if mirror is not None:
            remote = remote_of(instance, workspace)

            def fetch() -> FetchResult:
                return mirror.fetch(
                    remote,
                    list(seen.watched),
                    instance.network,
                    fetch_limits(instance),
                    at=instance.at,
                )

            result = work.steps.timed("fetch", fetch)
            if _is_behind(seen, result, path):
                result = work.steps.timed("fetch", fetch)
            fetched, shallow, arrived = dict(result.tips), result.shallow, result.arrived
        _keep_replaced(seen.moves, fetched, path)
        _keep_unwatched(seen, rows, path)
        instance.at("fetch.kept")
        return publish.publish_moves(
            work, seen, fetched, waiting, path, guard, shallow=shallow, arrived=arrived
        )


def _is_behind(seen: Picture, result: FetchResult, path: Path) -> bool:
    """True if a fetch brought less than the look showed: another node of the remote answered.

    Asked once more, it is not always the same one. A fetch may bring more: somebody pushed.
    """
    return any(
        tip != seen.watched[name]
        and not (
            has_commit(path, seen.watched[name]) and is_ancestor(path, seen.watched[name], tip)
        )
        for name, tip in result.tips.items()
    )


def fetch_limits(instance: Instance) -> FetchLimits:
    """What the settings allow one fetch."""
    settings = instance.settings
    return FetchLimits(
        seconds=settings.fetch_deadline_s,
        memory=settings.git_memory_mb * MIB,
        pack_bytes=settings.max_fetch_mb * MIB,
    )


def _look(work: Work, path: Path) -> Tips:
    if work.workspace.is_embedded:
        return local_tips(path)
    remote = remote_of(work.instance, work.workspace)
    watch = "all" if work.workspace.watch == "all" else "default"
    chosen = work.workspace.chosen_branch or work.workspace.default_branch
    if watch == "default" and chosen is not None and work.workspace.chosen_branch is not None:
        return look(remote, work.instance.network, watch=[chosen])
    tips = look(remote, work.instance.network, watch=watch)
    if watch == "default" and tips.detached is not None:
        # HEAD names no branch: the one that was followed, or what is there, decides
        return look(remote, work.instance.network, watch="all" if chosen is None else [chosen])
    return tips


def _retry_refused(work: Work, seen: Picture, rows: list[Branch]) -> Picture:
    """When a person asks, tips that are not published count as moved."""
    if not work.is_asked:
        return seen
    moved = {move.name for move in seen.moves}
    again = tuple(
        Move(row.name, row.published_sha, seen.watched[row.name])
        for row in rows
        if row.name in seen.watched
        and row.name not in moved
        and row.published_sha != seen.watched[row.name]
    )
    return Picture(
        seen.default_branch, seen.watched, (*seen.moves, *again), seen.unwatched, seen.too_many
    )


def _nothing_there(work: Work, seen: Picture, waiting: list[Delivery], path: Path) -> Outcome:
    """The default branch has no commit: an empty remote waits, a vanished branch is an error."""
    gone = [move for move in seen.moves if move.to_sha is None]
    if gone or seen.moves:
        work.ensure_sync()
        _keep_replaced(tuple(gone), {}, path)
    vanished = any(move.name == work.workspace.default_branch for move in gone)
    name = short(seen.default_branch) if seen.default_branch else "its default branch"
    error: dict[str, Any] = {
        "code": "DEFAULT_BRANCH_GONE" if vanished else "NO_COMMITS",
        "message": (
            f"The remote no longer has {name}. Published versions stay; push the branch again or "
            "choose another default branch."
            if vanished
            else f"The remote has no commit on {name} yet. Push one."
        ),
        "transient": False,
    }
    outcome = Outcome.ERROR if vanished else Outcome.WAITING
    instance, now = work.instance, work.instance.now()
    with instance.database.write() as db:
        turns.guard(db, work.turn)
        settle.note_gone(db, work, gone, now=now)
        settle.settle_all(db, work, waiting, outcome, reason=error["message"], now=now)
        settle.close(db, work, outcome, moves=gone, error=error, now=now)
        turns.finish(db, work.turn, now=now, last_error=error if vanished else None)
    return outcome


def _unchanged(work: Work, seen: Picture, waiting: list[Delivery], path: Path) -> Outcome | None:
    """Nothing moved; a delivery that names another commit is waited for a little while."""
    instance, now = work.instance, work.instance.now()
    missing = settle.unexplained(waiting, seen.watched, path)
    looks = work.workspace.lag_looks
    if missing and looks < len(settle.LAG_PAUSES):
        with instance.database.write() as db:
            turns.guard(db, work.turn)
            syncs.note_syncs(
                db,
                work.ids,
                status=SyncStatus.PENDING,
                error={
                    "code": "REMOTE_LAGS",
                    "message": "The remote does not show the announced commit yet.",
                    "transient": True,
                },
                steps=work.steps.to_json(),
            )
            turns.postpone(
                db, work.turn, seconds=settle.LAG_PAUSES[looks], now=now, lag_looks=looks + 1
            )
        return None
    with instance.database.write(durable=bool(work.syncs)) as db:
        turns.guard(db, work.turn)
        settle.settle_unchanged(db, work, waiting, missing, seen, path, now=now)
        settle.forget_unwatched(db, work, seen, now=now)
        settle.close(db, work, Outcome.UNCHANGED, moves=(), error=None, now=now)
        turns.finish(db, work.turn, now=now, default_branch=seen.default_branch)
    return Outcome.UNCHANGED


def _is_suspect(work: Work, seen: Picture, waiting: list[Delivery], path: Path) -> bool:
    """True after the turn was postponed: a backward move nobody announced is looked at twice."""
    announced = {d.after_sha for d in waiting}
    backward = {
        move.name: str(move.to_sha)
        for move in seen.moves
        if move.from_sha is not None
        and move.to_sha is not None
        and move.to_sha not in announced
        and has_commit(path, move.from_sha)
        and has_commit(path, move.to_sha)
        and is_ancestor(path, move.to_sha, Sha(move.from_sha))
    }
    if not backward or work.workspace.suspect == backward:
        return False
    instance = work.instance
    with instance.database.write() as db:
        turns.guard(db, work.turn)
        if work.syncs:
            syncs.note_syncs(
                db,
                work.ids,
                status=SyncStatus.PENDING,
                error={
                    "code": "BACKWARD_MOVE",
                    "message": "The remote shows an older commit; it is looked at once more.",
                    "transient": True,
                },
                steps=work.steps.to_json(),
            )
        turns.postpone(db, work.turn, seconds=SUSPECT_PAUSE, now=instance.now(), suspect=backward)
    return True


def _keep_replaced(moves: tuple[Move, ...], fetched: dict[str, Sha], path: Path) -> None:
    """Pin heads that their branch no longer reaches: published versions must outlive them."""
    for move in moves:
        tip = fetched.get(move.name)
        if move.from_sha is None or not has_commit(path, move.from_sha):
            continue
        if tip is None or not is_ancestor(path, Sha(move.from_sha), tip):
            pin(path, move.from_sha)


def _keep_unwatched(seen: Picture, rows: list[Branch], path: Path) -> None:
    """Pin what branches published that are no longer fetched."""
    for row in rows:
        if row.name in seen.unwatched and row.published_sha and has_commit(path, row.published_sha):
            pin(path, row.published_sha)


def _fail(work: Work, error: GitSyncError) -> Outcome | None:
    """Say why, and when it is tried again; nothing moves."""
    instance, workspace = work.instance, work.workspace
    now, failures = instance.now(), workspace.failures + 1
    noted = {"code": error.code, "message": error.message, "transient": error.transient}
    log.warning(
        "sync failed workspace=%s code=%s transient=%s message=%s",
        workspace.id,
        error.code,
        error.transient,
        error.message,
    )
    if isinstance(error, RepositoryCorrupt) and not isinstance(error, ObjectsRefused):
        _drop_damaged(work)
    try:
        with instance.database.write() as db:
            turns.guard(db, work.turn)
            waiting = syncs.unsettled(db, work.ids)
            instance.at("failure.recording")
            if error.transient:
                return _try_again(db, work, error, noted, waiting, failures)
            settle.settle_all(db, work, waiting, Outcome.ERROR, reason=error.message, now=now)
            settle.close(db, work, Outcome.ERROR, moves=(), error=noted, now=now)
            hold: dict[str, Any] = {}
            if isinstance(error, NEEDS_A_PERSON):
                hold = {
                    "hold": turns.HOLD_CREDENTIAL,
                    "not_before": now + timedelta(seconds=instance.settings.backoff_max_s * 4),
                }
            turns.finish(db, work.turn, now=now, failures=failures, last_error=noted, **hold)
            return Outcome.ERROR
    except turns.TurnLost:
        return None


def _try_again(
    db: Connection,
    work: Work,
    error: GitSyncError,
    noted: dict[str, Any],
    waiting: list[Delivery],
    failures: int,
) -> Outcome | None:
    instance, now = work.instance, work.instance.now()
    pause = min(instance.settings.backoff_max_s, 2.0 ** min(failures - 1, 20))
    pause *= random.uniform(0.75, 1.25)  # noqa: S311 - spreads load, no secret
    values: dict[str, Any] = {"failures": failures, "last_error": noted}
    if isinstance(error, RemoteThrottled):
        pause = min(instance.settings.retry_after_max_s, max(pause, error.retry_after))
        values["hold"] = turns.HOLD_RETRY_AFTER
    outcome = None
    if failures >= PATIENCE and work.syncs:
        # readers get an answer; deliveries wait for the sync that will succeed
        settle.close(db, work, Outcome.ERROR, moves=(), error=noted, now=now)
        settle.move_deliveries(db, work, waiting, now=now)
        outcome = Outcome.ERROR
    elif work.syncs:
        syncs.note_syncs(
            db, work.ids, status=SyncStatus.PENDING, error=noted, steps=work.steps.to_json()
        )
    for record in commits.waiting_commits(db, work.workspace.id):
        commits.put_commit(
            db,
            work.workspace.id,
            record.sha,
            CommitState.ERROR if failures >= PATIENCE else CommitState.QUEUED,
            reason=error.message,
            now=now,
        )
    turns.postpone(db, work.turn, seconds=pause, now=now, **values)
    return outcome


def _drop_damaged(work: Work) -> None:
    """A damaged mirror is a cache: the next turn rebuilds it. An embedded repository stays."""
    if not work.workspace.is_embedded:
        with held_repository(work.instance, work.workspace):
            Mirror(repository_of(work.instance, work.workspace)).remove()
