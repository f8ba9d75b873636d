"""The rollouts of a served version in pieces, for clients that page by number."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.records import RolloutVersion, VersionHead
from gitsync.store.listing_tables import rollout_names
from gitsync.store.tables import rollout_versions, version_branches
from gitsync.store.versions import read_rollouts

_CHUNK = 400  # parameters per IN list, far below every database's limit


def rollouts_in(
    db: Connection, version: VersionHead, *, limit: int, offset: int
) -> tuple[list[RolloutVersion], int]:
    """A piece of the rollouts that the commit really holds, by name, and how many those are."""
    query = sa.select(rollout_versions).where(
        rollout_versions.c.version_id == version.id,
        rollout_versions.c.tree.is_not(None),  # else a config names it and the commit lacks it
    )
    total = db.execute(sa.select(sa.func.count()).select_from(query.subquery())).scalar_one()
    rows = db.execute(query.order_by(rollout_versions.c.name).limit(limit).offset(offset)).all()
    return read_rollouts(db, version, rows), total


def note_names(db: Connection, workspace_id: str, names: Iterable[str], *, now: datetime) -> None:
    """Remember when rollouts were published for the first time; later ones change nothing."""
    wanted = set(names)
    fresh = sorted(wanted - first_published(db, workspace_id, wanted).keys())
    if fresh:
        db.execute(
            rollout_names.insert(),
            [
                {"workspace_id": workspace_id, "name": name, "first_published_at": now}
                for name in fresh
            ],
        )


def first_published(db: Connection, workspace_id: str, names: Iterable[str]) -> dict[str, datetime]:
    """When rollouts of these names were published for the first time."""
    found: dict[str, datetime] = {}
    everything = sorted(set(names))
    for start in range(0, len(everything), _CHUNK):
        rows = db.execute(
            sa.select(rollout_names.c.name, rollout_names.c.first_published_at).where(
                rollout_names.c.workspace_id == workspace_id,
                rollout_names.c.name.in_(everything[start : start + _CHUNK]),
            )
        )
        found |= {row.name: row.first_published_at for row in rows}
    return found


def last_seen(db: Connection, version: VersionHead, branch: str) -> datetime:
    """When a branch was last moved to a version."""
    found = db.execute(
        sa.select(version_branches.c.seen_at).where(
            version_branches.c.version_id == version.id, version_branches.c.branch == branch
        )
    ).scalar_one_or_none()
    return version.published_at if found is None else found
