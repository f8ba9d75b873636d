"""What became of each commit we heard of: why it is live, or not (decision 14)."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.records import CommitRecord, CommitState
from gitsync.store.rows import record
from gitsync.store.tables import commit_states

_PUBLISHED = (CommitState.PUBLISHED.value, CommitState.PUBLISHED_WITH_ERRORS.value)


def find_commit(db: Connection, workspace_id: str, sha: str) -> CommitRecord | None:
    """What is known of a commit."""
    row = db.execute(
        sa.select(commit_states).where(
            commit_states.c.workspace_id == workspace_id, commit_states.c.sha == sha
        )
    ).first()
    return None if row is None else record(CommitRecord, row)


def put_commit(
    db: Connection,
    workspace_id: str,
    sha: str,
    state: CommitState,
    *,
    now: datetime,
    branch: str | None = None,
    sync_id: int | None = None,
    delivery_id: int | None = None,
    superseded_by: str | None = None,
    reason: str | None = None,
) -> None:
    """Set the state of a commit; branch and delivery of an earlier note are kept if not given."""
    values: dict[str, object] = {
        "state": state.value,
        "superseded_by": superseded_by,
        "reason": reason,
        "updated_at": now,
    }
    kept: dict[str, object] = {"branch": branch, "sync_id": sync_id, "delivery_id": delivery_id}
    values |= {name: value for name, value in kept.items() if value is not None}
    changed = db.execute(
        commit_states.update()
        .where(commit_states.c.workspace_id == workspace_id, commit_states.c.sha == sha)
        .values(**values)
    )
    if changed.rowcount == 0:
        db.execute(
            commit_states.insert().values(
                workspace_id=workspace_id, sha=sha, first_seen_at=now, **values
            )
        )


def announce_commit(
    db: Connection,
    workspace_id: str,
    sha: str,
    *,
    branch: str,
    delivery_id: int | None,
    sync_id: int | None,
    now: datetime,
) -> None:
    """A trigger named this commit: it is queued, unless it is published already."""
    known = find_commit(db, workspace_id, sha)
    if known is None or known.state.value not in _PUBLISHED:
        put_commit(
            db,
            workspace_id,
            sha,
            CommitState.QUEUED,
            branch=branch,
            delivery_id=delivery_id,
            sync_id=sync_id,
            now=now,
        )


def waiting_commits(db: Connection, workspace_id: str) -> list[CommitRecord]:
    """Commits that are queued or being synced."""
    rows = db.execute(
        sa.select(commit_states).where(
            commit_states.c.workspace_id == workspace_id,
            commit_states.c.state.in_((CommitState.QUEUED.value, CommitState.SYNCING.value)),
        )
    )
    return [record(CommitRecord, row) for row in rows]


def find_by_prefix(db: Connection, workspace_id: str, prefix: str, *, limit: int = 3) -> list[str]:
    """Known commits whose sha begins with `prefix` (lower-case hexadecimal)."""
    return list(
        db.execute(
            sa.select(commit_states.c.sha)
            .where(
                commit_states.c.workspace_id == workspace_id,
                commit_states.c.sha >= prefix,
                commit_states.c.sha < prefix + "g",
            )
            .order_by(commit_states.c.sha)
            .limit(limit)
        ).scalars()
    )
