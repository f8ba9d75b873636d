"""Versions without what grows with the workspace: a run needs one rollout of a thousand.

The configs of a version are one JSON text; here the database picks those of one rollout.
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.errors import NotFound
from gitsync.records import VersionHead
from gitsync.store.rows import record
from gitsync.store.tables import versions

_COLUMNS: tuple[Any, ...] = (
    versions.c.id,
    versions.c.workspace_id,
    versions.c.commit_sha,
    versions.c.published_at,
    versions.c.findings,
)
_SQLITE = sa.text(
    "SELECT item.value FROM versions, json_each(versions.configs) AS item"
    " WHERE versions.id = :id AND json_extract(item.value, '$.rollout') = :rollout"
)


def find_head(db: Connection, workspace_id: str, sha: str) -> VersionHead | None:
    """The version of a commit."""
    row = db.execute(
        sa.select(*_COLUMNS).where(
            versions.c.workspace_id == workspace_id, versions.c.commit_sha == sha
        )
    ).first()
    return None if row is None else record(VersionHead, row)


def get_head(db: Connection, workspace_id: str, sha: str) -> VersionHead:
    """The version of a commit; `NotFound` otherwise."""
    found = find_head(db, workspace_id, sha)
    if found is None:
        raise NotFound(f"Commit {sha[:12]} is no published version of this workspace.")
    return found


def configs_for(
    db: Connection, version_id: int, *, kind: str, rollout: str
) -> list[dict[str, Any]]:
    """The configs of one kind that name a rollout."""
    if db.dialect.name == "sqlite":
        rows = db.execute(_SQLITE, {"id": version_id, "rollout": rollout})
        found = [json.loads(row[0]) for row in rows]
    else:  # PostgreSQL reads no JSON text with escapes of lone surrogates, which file names hold
        query = sa.select(versions.c.configs).where(versions.c.id == version_id)
        found = [c for c in db.execute(query).scalar_one() if c["rollout"] == rollout]
    return [config for config in found if config["kind"] == kind]
