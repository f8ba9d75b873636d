"""The rollouts of versions in the pieces that pages show, and versions in lists.

Nothing here reads what grows with a workspace's configs, and no query depends on how many rows
are shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.errors import NotFound
from gitsync.records import RolloutVersion, Version, VersionHead
from gitsync.store.rows import Page, page_by_id, record
from gitsync.store.run_tables import runs
from gitsync.store.tables import assessments, rollout_versions, version_branches, versions
from gitsync.store.versions import read_rollouts

_CHUNK = 400  # parameters per IN list, far below every database's limit
_SUBJECT = 400  # characters of a message that are read for its first line


@dataclass(frozen=True, slots=True)
class Brief:
    """A version in half a line."""

    commit_sha: str
    message: str
    author: str
    published_at: datetime


def brief_columns() -> tuple[Any, ...]:
    """What `brief` reads."""
    return (
        versions.c.commit_sha,
        sa.func.substr(versions.c.message, 1, _SUBJECT).label("message"),
        versions.c.author,
        versions.c.published_at,
    )


def brief(row: Any) -> Brief:
    """A row that has `brief_columns`."""
    return Brief(row.commit_sha, row.message, row.author.get("name") or "", row.published_at)


def is_failing() -> sa.ColumnElement[bool]:
    """Of a rollout version joined with its version: the newest assessments forbid to run it."""
    newest = assessments.alias()
    wrong = (
        sa.select(assessments.c.id)
        .where(
            assessments.c.workspace_id == versions.c.workspace_id,
            assessments.c.content_key == rollout_versions.c.content_key,
            assessments.c.verdict != "ok",
            ~sa.select(newest.c.id)
            .where(
                newest.c.workspace_id == assessments.c.workspace_id,
                newest.c.content_key == assessments.c.content_key,
                newest.c.entrypoint == assessments.c.entrypoint,
                newest.c.id > assessments.c.id,
            )
            .exists(),
        )
        .exists()
    )
    return sa.or_(rollout_versions.c.runnable.is_(False), wrong)


def worst_rollouts(
    db: Connection, version: VersionHead, *, limit: int, offset: int
) -> list[RolloutVersion]:
    """A piece of a version's rollouts: those that cannot run first, then by name."""
    rows = db.execute(
        sa.select(rollout_versions)
        .join(versions, versions.c.id == rollout_versions.c.version_id)
        .where(rollout_versions.c.version_id == version.id)
        .order_by(sa.case((is_failing(), 0), else_=1), rollout_versions.c.name)
        .limit(limit)
        .offset(offset)
    ).all()
    return read_rollouts(db, version, rows)


def count_rollouts(db: Connection, version: VersionHead) -> int:
    """How many rollouts a version has."""
    query = sa.select(sa.func.count()).where(rollout_versions.c.version_id == version.id)
    return db.execute(query).scalar_one()


def named_rollouts(
    db: Connection, version: VersionHead, names: Sequence[str]
) -> list[RolloutVersion]:
    """Some rollouts of a version."""
    found: list[RolloutVersion] = []
    for start in range(0, len(names), _CHUNK):
        rows = db.execute(
            sa.select(rollout_versions).where(
                rollout_versions.c.version_id == version.id,
                rollout_versions.c.name.in_(names[start : start + _CHUNK]),
            )
        ).all()
        found += read_rollouts(db, version, rows)
    return found


def contents(db: Connection, version: VersionHead) -> dict[str, str]:
    """The content of each rollout of a version by name."""
    rows = db.execute(
        sa.select(rollout_versions.c.name, rollout_versions.c.content_key).where(
            rollout_versions.c.version_id == version.id
        )
    )
    return {row.name: row.content_key for row in rows}


def content_keys(
    db: Connection, workspace_id: str, sha: str, names: Iterable[str]
) -> dict[str, str]:
    """The content of some rollouts in the version of a commit, by name; empty without one."""
    rows = db.execute(
        sa.select(rollout_versions.c.name, rollout_versions.c.content_key)
        .join(versions, versions.c.id == rollout_versions.c.version_id)
        .where(
            versions.c.workspace_id == workspace_id,
            versions.c.commit_sha == sha,
            rollout_versions.c.name.in_(sorted(names)),
        )
    )
    return {row.name: row.content_key for row in rows}


def two_configs(
    db: Connection, one: VersionHead, two: VersionHead
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The configs of two versions; nothing of either if the database finds them equal."""
    other = versions.alias()
    row = db.execute(
        sa.select(versions.c.configs, other.c.configs.label("other")).where(
            versions.c.id == one.id,
            other.c.id == two.id,
            sa.type_coerce(versions.c.configs, sa.Text) != sa.type_coerce(other.c.configs, sa.Text),
        )
    ).first()
    return ([], []) if row is None else (row.configs, row.other)


def version_without_configs(db: Connection, workspace_id: str, sha: str) -> Version:
    """A version whose `configs` are empty here; `NotFound` if there is none."""
    columns = [column for column in versions.c if column is not versions.c.configs]
    row: Any = db.execute(
        sa.select(*columns).where(
            versions.c.workspace_id == workspace_id, versions.c.commit_sha == sha
        )
    ).first()
    if row is None:
        raise NotFound(f"Commit {sha[:12]} is no published version of this workspace.")
    return record(Version, row, configs=())


def first_configs(
    db: Connection, version: VersionHead, *, limit: int
) -> tuple[list[dict[str, Any]], int]:
    """The first configs of a version, and how many there are."""
    if db.dialect.name == "sqlite":
        rows = db.execute(_CONFIGS, {"id": version.id, "limit": limit}).all()
        total = db.execute(_CONFIG_COUNT, {"id": version.id}).scalar_one()
        return [json.loads(row[0]) for row in rows], int(total)
    # PostgreSQL reads no JSON text with escapes of lone surrogates, which file names hold
    found = db.execute(
        sa.select(versions.c.configs).where(versions.c.id == version.id)
    ).scalar_one()
    return found[:limit], len(found)


_CONFIGS = sa.text(
    "SELECT item.value FROM versions, json_each(versions.configs) AS item"
    " WHERE versions.id = :id ORDER BY item.id LIMIT :limit"
)
_CONFIG_COUNT = sa.text("SELECT json_array_length(configs) FROM versions WHERE id = :id")


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in half a line."""

    name: str
    kind: str
    state: str
    rollout: str
    created_at: datetime


def users_of(db: Connection, workspace_id: str, sha: str, *, limit: int) -> list[RunLine]:
    """The newest runs that use a code version."""
    rows = db.execute(
        sa.select(runs.c.name, runs.c.kind, runs.c.state, runs.c.rollout, runs.c.created_at)
        .where(runs.c.workspace_id == workspace_id, runs.c.commit_sha == sha)
        .order_by(runs.c.number.desc())
        .limit(limit)
    )
    return [RunLine(row.name, row.kind, row.state, row.rollout, row.created_at) for row in rows]


def inner_findings(db: Connection, version: VersionHead, *, limit: int) -> list[dict[str, Any]]:
    """What the newest assessments say of a version's rollouts, those that cannot run first.

    Of at most `limit` entrypoints.
    """
    by_verdict = sa.case(
        (assessments.c.verdict == "error", 0), (assessments.c.verdict == "ok", 2), else_=1
    )
    rows = db.execute(
        _newest_findings(version, assessments.c.findings)
        .order_by(by_verdict, rollout_versions.c.name)
        .limit(limit)
    )
    return [finding for row in rows for finding in row.findings]


def count_inner_findings(db: Connection, version: VersionHead) -> tuple[int, int]:
    """How many of them block, and how many are advice that nobody suppressed."""
    text = sa.type_coerce(assessments.c.findings, sa.Text)

    def number(mark: str) -> sa.ColumnElement[int]:
        # inside of a string of the JSON text the quotes of a mark would be escaped
        without = sa.func.length(sa.func.replace(text, mark, ""))
        found = sa.func.sum((sa.func.length(text) - without) / sa.literal(len(mark)))
        return sa.cast(sa.func.coalesce(found, 0), sa.Integer)

    blocking = number('"severity": "error"') + number('"severity": "unresolved"')
    in_all = number('"severity": ') - number('"suppressed": true')
    row = db.execute(_newest_findings(version, blocking, in_all)).one()
    return row[0], row[1] - row[0]


def _newest_findings(version: VersionHead, *columns: Any) -> sa.Select[Any]:
    newer = assessments.alias()
    return (
        sa.select(*columns)
        .select_from(assessments)
        .join(
            rollout_versions,
            sa.and_(
                rollout_versions.c.content_key == assessments.c.content_key,
                rollout_versions.c.version_id == version.id,
            ),
        )
        .where(
            assessments.c.workspace_id == version.workspace_id,
            sa.type_coerce(assessments.c.findings, sa.Text) != "[]",
            ~sa.select(newer.c.id)
            .where(
                newer.c.workspace_id == assessments.c.workspace_id,
                newer.c.content_key == assessments.c.content_key,
                newer.c.entrypoint == assessments.c.entrypoint,
                newer.c.id > assessments.c.id,
            )
            .exists(),
        )
    )


@dataclass(frozen=True, slots=True)
class Held:
    """One version that holds a rollout."""

    brief: Brief
    content_key: str
    digest: str | None
    size: int | None
    is_failing: bool


def rollout_history(
    db: Connection, workspace_id: str, name: str, *, limit: int, after: str | None
) -> Page[Held]:
    """A rollout over time, newest first, as it is assessed now."""
    query = (
        sa.select(
            versions.c.id,
            *brief_columns(),
            rollout_versions.c.content_key,
            rollout_versions.c.digest,
            rollout_versions.c.size,
            is_failing().label("is_failing"),
        )
        .join(rollout_versions, rollout_versions.c.version_id == versions.c.id)
        .where(versions.c.workspace_id == workspace_id, rollout_versions.c.name == name)
    )
    return page_by_id(
        db,
        query,
        versions.c.id,
        limit=limit,
        after=after,
        build=lambda row: Held(
            brief(row), row.content_key, row.digest, row.size, bool(row.is_failing)
        ),
    )


@dataclass(frozen=True, slots=True)
class Line:
    """A version in a list, without what grows with its configs."""

    id: int
    commit_sha: str
    message: str
    author: str
    published_at: datetime


def version_lines(
    db: Connection, workspace_id: str, *, limit: int, after: str | None, branch: str | None = None
) -> Page[Line]:
    """Newest first, all or those seen on one branch."""
    query = sa.select(versions.c.id, *brief_columns()).where(
        versions.c.workspace_id == workspace_id
    )
    if branch is not None:
        seen = sa.select(version_branches.c.version_id).where(version_branches.c.branch == branch)
        query = query.where(versions.c.id.in_(seen))
    return page_by_id(
        db,
        query,
        versions.c.id,
        limit=limit,
        after=after,
        build=lambda row: record(Line, row, author=row.author.get("name") or ""),
    )
