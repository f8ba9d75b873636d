"""What pages show of many rows at once: a fixed number of statements, however many rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.records import Branch, SyncStatus, Workspace, WorkspaceState
from gitsync.store.holdings import Brief, brief, brief_columns, is_failing
from gitsync.store.rows import Page, page_by_key, record
from gitsync.store.syncs import OPEN
from gitsync.store.tables import (
    artifacts,
    branches,
    clock,
    commit_states,
    deliveries,
    memberships,
    packs,
    rollout_versions,
    syncs,
    versions,
    workspaces,
)

_STOPPED = ("refused", "error")  # states of a commit that is not published
_CHUNK = 400  # parameters per IN list, far below every database's limit
_SUBJECT = 400  # characters of a message that are read for its first line


@dataclass(frozen=True, slots=True)
class LastSync:
    """The newest ended sync of a workspace."""

    id: int
    status: str
    outcome: str | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Glance:
    """The health of one workspace."""

    live: Brief | None
    rollouts: int
    failing: int
    last: LastSync | None
    open_since: datetime | None
    is_running: bool  # False while an open sync waits for its turn
    is_stopped: bool  # the newest commit of the served branch could not be published
    misses_branch: bool  # a look found no such branch as was chosen to be served


@dataclass(frozen=True, slots=True)
class Point:
    """One sync or one push in a chart."""

    id: int
    at: datetime
    seconds: float
    outcome: str
    sha: str | None


def search_workspaces(
    db: Connection, text: str, *, limit: int, after: str | None, user_id: str | None
) -> Page[Workspace]:
    """By name; those of a member, or all; `text` is a part of the name or the identity."""
    query = sa.select(workspaces)
    if user_id is not None:
        query = query.join(memberships, memberships.c.workspace_id == workspaces.c.id).where(
            memberships.c.user_id == user_id
        )
    if text:
        query = query.where(
            sa.or_(
                workspaces.c.name_key.contains(text.lower(), autoescape=True),
                workspaces.c.identity_key.contains(text.lower(), autoescape=True),
            )
        )
    return page_by_key(
        db,
        query,
        workspaces.c.name_key,
        limit=limit,
        after=after,
        build=lambda row: record(Workspace, row),
    )


def member_of(db: Connection, user_id: str) -> frozenset[str]:
    """The workspaces of a person."""
    found = sa.select(memberships.c.workspace_id).where(memberships.c.user_id == user_id)
    return frozenset(db.execute(found).scalars())


def troubled(
    db: Connection, *, limit: int, offset: int = 0, user_id: str | None, owed_before: datetime
) -> tuple[list[Workspace], int]:
    """Active workspaces that need somebody, the worst first, and how many there are.

    Stuck, unable to sync, the served branch missing, its tip refused, a served rollout failing, a
    failed sync.
    """
    is_stuck = workspaces.c.owed_since < owed_before
    cannot = workspaces.c.last_error.is_not(None)
    stopped = _served_commit(branches.c.head_sha, _STOPPED).exists()
    missing = sa.and_(
        workspaces.c.chosen_branch.is_not(None),
        workspaces.c.last_look_at.is_not(None),
        workspaces.c.requested <= workspaces.c.done,
        sa.or_(workspaces.c.provider != "embedded", workspaces.c.default_branch.is_not(None)),
        ~sa.select(branches.c.name)
        .where(
            branches.c.workspace_id == workspaces.c.id,
            branches.c.name == workspaces.c.chosen_branch,
            branches.c.state == "live",
        )
        .exists(),
    )
    failing = (
        _served_commit(branches.c.published_sha, ("published_with_errors",))
        .where(
            sa.select(rollout_versions.c.id)
            .join(versions, versions.c.id == rollout_versions.c.version_id)
            .where(
                versions.c.workspace_id == branches.c.workspace_id,
                versions.c.commit_sha == branches.c.published_sha,
                is_failing(),
            )
            .exists()
        )
        .exists()
    )
    ended = syncs.alias()
    newest = (
        sa.select(sa.func.max(ended.c.id))
        .where(ended.c.workspace_id == workspaces.c.id, ended.c.outcome.is_not(None))
        .correlate(workspaces)
        .scalar_subquery()
    )
    failed = sa.select(syncs.c.id).where(syncs.c.id == newest, syncs.c.outcome == "error").exists()
    kinds = (is_stuck, cannot, missing, stopped, failing, failed)
    badness = sa.case(*((kind, place) for place, kind in enumerate(kinds)))
    query = sa.select(workspaces, badness.label("badness")).where(
        workspaces.c.state == "active", sa.or_(*kinds)
    )
    if user_id is not None:
        query = query.join(memberships, memberships.c.workspace_id == workspaces.c.id).where(
            memberships.c.user_id == user_id
        )
    found = query.subquery()
    total = db.execute(sa.select(sa.func.count()).select_from(found)).scalar_one()
    rows = db.execute(
        query.order_by(sa.text("badness"), workspaces.c.name_key).limit(limit).offset(offset)
    )
    return [record(Workspace, row) for row in rows], total


def _served_commit(sha: sa.Column[str], states: Sequence[str]) -> sa.Select[tuple[str]]:
    """Of a workspace: its served branch, if that one's commit has one of these states."""
    return (
        sa.select(commit_states.c.sha)
        .select_from(branches)
        .join(
            commit_states,
            sa.and_(
                commit_states.c.workspace_id == branches.c.workspace_id,
                commit_states.c.sha == sha,
            ),
        )
        .where(
            branches.c.workspace_id == workspaces.c.id,
            branches.c.name
            == sa.func.coalesce(workspaces.c.chosen_branch, workspaces.c.default_branch),
            branches.c.state == "live",
            commit_states.c.state.in_(states),
        )
        .correlate(workspaces)
    )


def served_branch(workspace: Workspace, found: Iterable[Branch]) -> Branch | None:
    """The branch a workspace is known by: the chosen one, else the default one."""
    wanted = workspace.chosen_branch or workspace.default_branch
    return next((b for b in found if b.name == wanted), None)


def misses_branch(workspace: Workspace, found: Iterable[Branch]) -> bool:
    """True if a look found no such branch as was chosen to be served."""
    if workspace.chosen_branch is None or workspace.last_look_at is None:
        return False
    if workspace.requested > workspace.done or workspace.state is not WorkspaceState.ACTIVE:
        return False  # it was not looked for yet
    if workspace.is_embedded and workspace.default_branch is None:
        return False  # nothing was pushed at all
    return not any(b.name == workspace.chosen_branch and b.state == "live" for b in found)


def glances(
    db: Connection, shown: Sequence[Workspace], of: dict[str, list[Branch]]
) -> dict[str, Glance]:
    """The health of several workspaces; `of` holds their branches."""
    ids = [workspace.id for workspace in shown]
    tips: dict[str, str] = {}
    heads: dict[str, str] = {}
    for workspace in shown:
        branch = served_branch(workspace, of[workspace.id])
        if branch is None:
            continue
        if branch.published_sha is not None:
            tips[workspace.id] = branch.published_sha
        if branch.head_sha is not None and branch.head_sha != branch.published_sha:
            heads[workspace.id] = branch.head_sha
    live: dict[str, Brief] = {}
    numbers: dict[str, tuple[int, int]] = {}
    if tips:
        rows = db.execute(
            sa.select(versions.c.id, versions.c.workspace_id, *brief_columns()).where(
                sa.tuple_(versions.c.workspace_id, versions.c.commit_sha).in_(list(tips.items()))
            )
        ).all()
        live = {row.workspace_id: brief(row) for row in rows}
        counted = _counts(db, [row.id for row in rows])
        numbers = {row.workspace_id: counted.get(row.id, (0, 0)) for row in rows}
    stopped = _stopped(db, heads) if heads else set()
    last, waiting = _last_syncs(db, ids), _open_since(db, ids)
    found = {}
    for workspace in shown:
        workspace_id = workspace.id
        rollouts, failing = numbers.get(workspace_id, (0, 0))
        open_since, is_running = waiting.get(workspace_id, (None, False))
        found[workspace_id] = Glance(
            live=live.get(workspace_id),
            rollouts=rollouts,
            failing=failing,
            last=last.get(workspace_id),
            open_since=open_since,
            is_running=is_running,
            is_stopped=workspace_id in stopped,
            misses_branch=misses_branch(workspace, of[workspace_id]),
        )
    return found


def _stopped(db: Connection, heads: dict[str, str]) -> set[str]:
    """Those of these workspaces whose commit could not be published."""
    rows = db.execute(
        sa.select(commit_states.c.workspace_id).where(
            sa.tuple_(commit_states.c.workspace_id, commit_states.c.sha).in_(list(heads.items())),
            commit_states.c.state.in_(_STOPPED),
        )
    )
    return set(rows.scalars())


def _counts(db: Connection, version_ids: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Per version: rollouts, and those that cannot run."""
    rows = db.execute(
        sa.select(
            rollout_versions.c.version_id,
            sa.func.count(),
            sa.func.sum(sa.case((is_failing(), 1), else_=0)),
        )
        .join(versions, versions.c.id == rollout_versions.c.version_id)
        .where(rollout_versions.c.version_id.in_(version_ids))
        .group_by(rollout_versions.c.version_id)
    )
    return {version_id: (int(total), int(failing)) for version_id, total, failing in rows}


def _last_syncs(db: Connection, ids: Sequence[str]) -> dict[str, LastSync]:
    ends = (
        sa.select(sa.func.max(syncs.c.id))
        .where(syncs.c.workspace_id.in_(ids), syncs.c.outcome.is_not(None))
        .group_by(syncs.c.workspace_id)
    )
    columns = (syncs.c.id, syncs.c.status, syncs.c.outcome, syncs.c.finished_at)
    rows: Any = db.execute(sa.select(syncs.c.workspace_id, *columns).where(syncs.c.id.in_(ends)))
    return {row.workspace_id: record(LastSync, row) for row in rows}


def _open_since(db: Connection, ids: Sequence[str]) -> dict[str, tuple[datetime, bool]]:
    """Of workspaces with open syncs: since when, and whether a worker is at it."""
    running = sa.func.max(sa.case((syncs.c.status == SyncStatus.SYNCING.value, 1), else_=0))
    rows = db.execute(
        sa.select(syncs.c.workspace_id, sa.func.min(syncs.c.requested_at), running)
        .where(syncs.c.workspace_id.in_(ids), syncs.c.status.in_(OPEN))
        .group_by(syncs.c.workspace_id)
    )
    return {workspace_id: (since, bool(is_running)) for workspace_id, since, is_running in rows}


def briefs(db: Connection, workspace_id: str, shas: Iterable[str]) -> dict[str, Brief]:
    """Those of these commits that are versions."""
    wanted = sorted(set(shas))
    rows = db.execute(
        sa.select(*brief_columns()).where(
            versions.c.workspace_id == workspace_id, versions.c.commit_sha.in_(wanted)
        )
    )
    return {row.commit_sha: brief(row) for row in rows}


# -- charts ---------------------------------------------------------------------------------------


def sync_points(db: Connection, workspace_id: str, *, limit: int) -> list[Point]:
    """The newest ended syncs that found something, oldest first: how long they took."""
    rows = db.execute(
        sa.select(syncs.c.id, syncs.c.started_at, syncs.c.finished_at, syncs.c.outcome)
        .where(
            syncs.c.workspace_id == workspace_id,
            syncs.c.started_at.is_not(None),
            syncs.c.finished_at.is_not(None),
            syncs.c.outcome != "unchanged",
        )
        .order_by(syncs.c.id.desc())
        .limit(limit)
    ).all()
    return [
        Point(
            row.id,
            row.finished_at,
            (row.finished_at - row.started_at).total_seconds(),
            row.outcome,
            None,
        )
        for row in reversed(rows)
    ]


def push_points(db: Connection, workspace_id: str, *, limit: int) -> list[Point]:
    """The newest deliveries that were published, oldest first: from arrival to being live."""
    rows = db.execute(
        sa.select(deliveries)
        .where(
            deliveries.c.workspace_id == workspace_id,
            deliveries.c.settled_at.is_not(None),
            deliveries.c.outcome.in_(("published", "published_with_errors")),
        )
        .order_by(deliveries.c.id.desc())
        .limit(limit)
    ).all()
    return [
        Point(
            row.id,
            row.settled_at,
            max(0.0, (row.settled_at - row.received_at).total_seconds()),
            row.outcome,
            row.after_sha,
        )
        for row in reversed(rows)
    ]


# -- the whole instance ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Owed:
    """A workspace in the queue; `is_running` while somebody works on it."""

    id: str
    name: str
    owed_since: datetime | None
    not_before: datetime | None
    is_running: bool
    failures: int
    last_error: dict[str, Any] | None


def queue(db: Connection, *, limit: int) -> list[Owed]:
    """Workspaces that are owed a look: those that are worked on, then the longest waiting."""
    running = sa.and_(workspaces.c.owner.is_not(None), workspaces.c.expires_at > clock())
    rows = db.execute(
        sa.select(
            workspaces.c.id,
            workspaces.c.name,
            workspaces.c.owed_since,
            workspaces.c.not_before,
            running.label("is_running"),
            workspaces.c.failures,
            workspaces.c.last_error,
        )
        .where(workspaces.c.state == "active", workspaces.c.requested > workspaces.c.done)
        .order_by(sa.case((running, 0), else_=1), workspaces.c.owed_since)
        .limit(limit)
    )
    return [record(Owed, row) for row in rows]


def quiet_longest(db: Connection, *, limit: int) -> list[tuple[str, str, datetime | None]]:
    """Active workspaces by their last look, the oldest first: id, name, time."""
    rows = db.execute(
        sa.select(workspaces.c.id, workspaces.c.name, workspaces.c.last_look_at)
        .where(workspaces.c.state == "active")
        .order_by(workspaces.c.last_look_at.asc().nulls_first())
        .limit(limit)
    )
    return [(row.id, row.name, row.last_look_at) for row in rows]


def storage(db: Connection) -> dict[str, tuple[int, int]]:
    """Number and bytes of stored artifacts and packs."""
    found = {}
    for name, table in (("artifacts", artifacts), ("packs", packs)):
        count, total = db.execute(
            sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(table.c.size), 0))
        ).one()
        found[name] = (int(count), int(total))
    return found


def watched(db: Connection, workspace_id: str) -> list[Branch]:
    """The branches that are followed now, by name."""
    rows = db.execute(
        sa.select(branches)
        .where(branches.c.workspace_id == workspace_id, branches.c.state == "live")
        .order_by(branches.c.name)
    )
    return [record(Branch, row) for row in rows]
