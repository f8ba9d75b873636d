"""The rollouts of a served version in pieces, for clients that page by number."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.records import RolloutVersion, Version
from gitsync.store.tables import rollout_versions, version_branches, versions
from gitsync.store.versions import read_rollouts


def rollouts_in(
    db: Connection, version: Version, *, limit: int, offset: int
) -> tuple[list[RolloutVersion], int]:
    """A piece of the rollouts that the commit really holds, by name, and how many those are."""
    query = sa.select(rollout_versions).where(
        rollout_versions.c.version_id == version.id,
        rollout_versions.c.tree.is_not(None),  # else a config names it and the commit lacks it
    )
    total = db.execute(sa.select(sa.func.count()).select_from(query.subquery())).scalar_one()
    rows = db.execute(query.order_by(rollout_versions.c.name).limit(limit).offset(offset)).all()
    return read_rollouts(db, version, rows), total


def first_published(db: Connection, workspace_id: str, names: Iterable[str]) -> dict[str, datetime]:
    """When rollouts of these names were published for the first time."""
    rows = db.execute(
        sa.select(rollout_versions.c.name, sa.func.min(versions.c.published_at).label("at"))
        .join(versions, versions.c.id == rollout_versions.c.version_id)
        .where(versions.c.workspace_id == workspace_id, rollout_versions.c.name.in_(list(names)))
        .group_by(rollout_versions.c.name)
    )
    return {row.name: row.at for row in rows}


def last_seen(db: Connection, version: Version, branch: str) -> datetime:
    """When a branch was last moved to a version."""
    found = db.execute(
        sa.select(version_branches.c.seen_at).where(
            version_branches.c.version_id == version.id, version_branches.c.branch == branch
        )
    ).scalar_one_or_none()
    return version.published_at if found is None else found
