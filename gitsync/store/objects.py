"""Rows about stored objects: artifacts, packs, git children, facts, idempotency keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.store.rows import Dead, of_dead
from gitsync.store.tables import (
    artifact_keys,
    artifacts,
    facts,
    git_children,
    idempotency_keys,
    packs,
    rollout_versions,
)

LIVE, DELETING, QUARANTINED = "live", "deleting", "quarantined"
_CHUNK = 400


# -- artifacts ------------------------------------------------------------------------------------


def known_digests(db: Connection, keys: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Digest and size by reuse key, for artifacts that are live."""
    wanted = sorted(set(keys))
    found: dict[str, tuple[str, int]] = {}
    for start in range(0, len(wanted), _CHUNK):
        for row in db.execute(
            sa.select(artifact_keys.c.reuse_key, artifacts.c.digest, artifacts.c.size)
            .join(artifacts, artifacts.c.digest == artifact_keys.c.digest)
            .where(
                artifact_keys.c.reuse_key.in_(wanted[start : start + _CHUNK]),
                artifacts.c.state == LIVE,
            )
        ):
            found[row.reuse_key] = (row.digest, row.size)
    return found


def artifact_states(db: Connection, digests: Sequence[str]) -> dict[str, str]:
    """State by digest, for those that have a row."""
    found: dict[str, str] = {}
    for start in range(0, len(digests), _CHUNK):
        rows = db.execute(
            sa.select(artifacts.c.digest, artifacts.c.state).where(
                artifacts.c.digest.in_(list(digests[start : start + _CHUNK]))
            )
        )
        found |= {row.digest: row.state for row in rows}
    return found


def put_artifact(db: Connection, digest: str, size: int, *, now: datetime) -> None:
    """A stored artifact; one that was about to be deleted lives again only if uploaded again."""
    if digest not in artifact_states(db, [digest]):
        db.execute(artifacts.insert().values(digest=digest, size=size, state=LIVE, created_at=now))
    else:
        db.execute(
            artifacts.update()
            .where(artifacts.c.digest == digest)
            .values(state=LIVE, created_at=now, checked_at=None)
        )


def put_artifact_key(db: Connection, reuse_key: str, digest: str) -> None:
    """Remember that equal content gives this artifact."""
    known = db.execute(
        sa.select(artifact_keys.c.digest).where(artifact_keys.c.reuse_key == reuse_key)
    ).first()
    if known is None:
        db.execute(artifact_keys.insert().values(reuse_key=reuse_key, digest=digest))


def artifact_size(db: Connection, digest: str) -> int | None:
    """Bytes of a live artifact."""
    return db.execute(
        sa.select(artifacts.c.size).where(artifacts.c.digest == digest, artifacts.c.state == LIVE)
    ).scalar_one_or_none()


def mark_unreferenced(db: Connection, *, before: datetime, limit: int) -> list[str]:
    """Mark old artifacts that no version refers to as `deleting` (decision 5); their digests."""
    referred = sa.select(rollout_versions.c.id).where(
        rollout_versions.c.digest == artifacts.c.digest
    )
    digests = list(
        db.execute(
            sa.select(artifacts.c.digest)
            .where(artifacts.c.created_at < before, ~referred.exists())
            .limit(limit)
        ).scalars()
    )
    if digests:
        db.execute(artifacts.update().where(artifacts.c.digest.in_(digests)).values(state=DELETING))
    return digests


def drop_artifact(db: Connection, digest: str) -> bool:
    """Remove the row of a deleted object, unless it lives again."""
    changed = db.execute(
        artifacts.delete().where(artifacts.c.digest == digest, artifacts.c.state == DELETING)
    )
    return changed.rowcount == 1


def next_to_scrub(db: Connection, *, before: datetime, limit: int) -> list[tuple[str, int]]:
    """Live artifacts that were not re-hashed since `before`: digest and size."""
    rows = db.execute(
        sa.select(artifacts.c.digest, artifacts.c.size)
        .where(
            artifacts.c.state == LIVE,
            sa.func.coalesce(artifacts.c.checked_at, artifacts.c.created_at)
            < sa.literal(before, artifacts.c.created_at.type),
        )
        .order_by(sa.func.coalesce(artifacts.c.checked_at, artifacts.c.created_at))
        .limit(limit)
    )
    return [(row.digest, row.size) for row in rows]


def note_scrub(db: Connection, digest: str, *, is_sound: bool, now: datetime) -> None:
    """The result of re-hashing: a bad artifact is quarantined until it is rebuilt."""
    db.execute(
        artifacts.update()
        .where(artifacts.c.digest == digest)
        .values(checked_at=now, state=LIVE if is_sound else QUARANTINED)
    )


def quarantined(db: Connection) -> list[str]:
    """Digests whose stored bytes are bad."""
    return list(
        db.execute(sa.select(artifacts.c.digest).where(artifacts.c.state == QUARANTINED)).scalars()
    )


# -- packs ----------------------------------------------------------------------------------------


def add_pack(
    db: Connection,
    workspace_id: str,
    *,
    object_key: str,
    tips: Sequence[str],
    size: int,
    shallow: Sequence[str],
    now: datetime,
) -> None:
    """An incremental pack was stored (decision 6)."""
    db.execute(
        packs.insert().values(
            workspace_id=workspace_id,
            object_key=object_key,
            tips=list(tips),
            size=size,
            shallow=list(shallow),
            created_at=now,
        )
    )


def packs_of(db: Connection, workspace_id: str) -> list[dict[str, Any]]:
    """All packs of a workspace, in the order in which they must be applied."""
    rows = db.execute(
        sa.select(packs).where(packs.c.workspace_id == workspace_id).order_by(packs.c.id)
    )
    return [dict(row._mapping) for row in rows]


def pack_keys(db: Connection) -> set[str]:
    """The object keys of all packs."""
    return set(db.execute(sa.select(packs.c.object_key)).scalars())


# -- git children (decision 22) -------------------------------------------------------------------


def note_child(
    db: Connection, *, pgid: int, boot: str, workspace_id: str | None, started: str, now: datetime
) -> None:
    """A git child was started with its own process group."""
    drop_child(db, pgid=pgid, boot=boot)
    db.execute(
        git_children.insert().values(
            pgid=pgid, boot=boot, workspace_id=workspace_id, started=started, created_at=now
        )
    )


def drop_child(db: Connection, *, pgid: int, boot: str) -> None:
    """The child ended."""
    db.execute(
        git_children.delete().where(git_children.c.pgid == pgid, git_children.c.boot == boot)
    )


def take_children(db: Connection, dead: Dead) -> list[tuple[int, str]]:
    """Groups of dead servers with the start time of their leader; the rows are gone afterwards."""
    ours = of_dead(git_children.c.boot, dead)
    rows = db.execute(sa.select(git_children.c.pgid, git_children.c.started).where(ours)).all()
    db.execute(git_children.delete().where(ours))
    return [(row.pgid, row.started) for row in rows]


# -- facts and idempotency ------------------------------------------------------------------------


def get_fact(db: Connection, name: str) -> Any:
    """A remembered value, None if there is none."""
    return db.execute(sa.select(facts.c.value).where(facts.c.name == name)).scalar_one_or_none()


def put_fact(db: Connection, name: str, value: Any) -> None:
    """Remember a value."""
    changed = db.execute(facts.update().where(facts.c.name == name).values(value=value))
    if changed.rowcount == 0:
        db.execute(facts.insert().values(name=name, value=value))


def find_idempotent(
    db: Connection, *, user_id: str, method: str, path: str, key: str
) -> dict[str, Any] | None:
    """The remembered request."""
    row = db.execute(
        sa.select(idempotency_keys).where(
            idempotency_keys.c.user_id == user_id,
            idempotency_keys.c.method == method,
            idempotency_keys.c.path == path,
            idempotency_keys.c.key == key,
        )
    ).first()
    return None if row is None else dict(row._mapping)


def begin_idempotent(
    db: Connection,
    *,
    user_id: str,
    method: str,
    path: str,
    key: str,
    body_hash: str,
    boot: str,
    now: datetime,
) -> None:
    """Remember that a request is running."""
    db.execute(
        idempotency_keys.insert().values(
            user_id=user_id,
            method=method,
            path=path,
            key=key,
            body_hash=body_hash,
            boot=boot,
            created_at=now,
        )
    )


def end_idempotent(
    db: Connection,
    *,
    user_id: str,
    method: str,
    path: str,
    key: str,
    status: int | None,
    sealed: str | None,
) -> None:
    """Remember the answer, or forget the request if there is none to repeat (`status` None)."""
    where = (
        idempotency_keys.c.user_id == user_id,
        idempotency_keys.c.method == method,
        idempotency_keys.c.path == path,
        idempotency_keys.c.key == key,
    )
    if status is None:
        db.execute(idempotency_keys.delete().where(*where))
    else:
        db.execute(idempotency_keys.update().where(*where).values(status=status, sealed=sealed))


def drop_idempotent(db: Connection, *, before: datetime) -> int:
    """Forget old requests."""
    query = idempotency_keys.delete().where(idempotency_keys.c.created_at < before)
    return db.execute(query).rowcount


def drop_unanswered(db: Connection, dead: Dead) -> int:
    """At a start: forget what dead servers did not answer, so that it can be repeated."""
    return db.execute(
        idempotency_keys.delete().where(
            idempotency_keys.c.status.is_(None), of_dead(idempotency_keys.c.boot, dead)
        )
    ).rowcount
