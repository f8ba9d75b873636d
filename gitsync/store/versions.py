"""Code versions, their rollouts and assessments: what was published and never changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.errors import NotFound
from gitsync.model import EntrypointReport
from gitsync.records import Assessment, RolloutVersion, Version, VersionHead
from gitsync.store.rows import Page, page_by_id, record
from gitsync.store.tables import (
    assessments,
    branches,
    rollout_versions,
    version_branches,
    versions,
    workspaces,
)

_CHUNK = 400  # parameters per IN list, far below every database's limit


@dataclass(frozen=True, slots=True)
class NewRollout:
    """One rollout to publish; `reports` holds one element per entrypoint."""

    name: str
    tree: str | None
    content_key: str
    digest: str | None
    size: int | None
    runnable: bool
    reports: tuple[EntrypointReport, ...]


def find_version(db: Connection, workspace_id: str, sha: str) -> Version | None:
    """The version of a commit."""
    row = db.execute(
        sa.select(versions).where(
            versions.c.workspace_id == workspace_id, versions.c.commit_sha == sha
        )
    ).first()
    return None if row is None else record(Version, row)


def is_version(db: Connection, workspace_id: str, sha: str) -> bool:
    """True if a commit is published."""
    query = sa.select(versions.c.id).where(
        versions.c.workspace_id == workspace_id, versions.c.commit_sha == sha
    )
    return db.execute(query).first() is not None


def parents_of(db: Connection, version_id: int) -> list[str]:
    """The parents of a version's commit."""
    found = sa.select(versions.c.parents).where(versions.c.id == version_id)
    return list(db.execute(found).scalar_one())


def get_version(db: Connection, workspace_id: str, sha: str) -> Version:
    """The version of a commit; `NotFound` otherwise."""
    found = find_version(db, workspace_id, sha)
    if found is None:
        raise NotFound(f"Commit {sha[:12]} is no published version of this workspace.")
    return found


def list_versions(
    db: Connection, workspace_id: str, *, limit: int, after: str | None, branch: str | None = None
) -> Page[Version]:
    """Newest first, all or those seen on one branch."""
    query = sa.select(versions).where(versions.c.workspace_id == workspace_id)
    if branch is not None:
        query = query.where(
            versions.c.id.in_(
                sa.select(version_branches.c.version_id).where(version_branches.c.branch == branch)
            )
        )
    return page_by_id(
        db,
        query,
        versions.c.id,
        limit=limit,
        after=after,
        build=lambda row: record(Version, row),
    )


def add_version(db: Connection, workspace_id: str, *, now: datetime, **values: Any) -> int:
    """Add the version row; its id."""
    added = db.execute(
        versions.insert()
        .values(workspace_id=workspace_id, published_at=now, **values)
        .returning(versions.c.id)
    )
    return int(added.scalar_one())


def set_findings(
    db: Connection, version_id: int, *, findings: Sequence[dict[str, Any]], fingerprint: str
) -> None:
    """Replace the outer findings by those of a newer checker."""
    db.execute(
        versions.update()
        .where(versions.c.id == version_id)
        .values(findings=list(findings), fingerprint=fingerprint)
    )


def outdated(db: Connection, fingerprint: str, *, limit: int) -> list[tuple[str, str]]:
    """Served versions that another checker assessed: workspace id and commit sha."""
    rows = db.execute(
        sa.select(versions.c.workspace_id, versions.c.commit_sha)
        .join(
            branches,
            sa.and_(
                branches.c.workspace_id == versions.c.workspace_id,
                branches.c.published_sha == versions.c.commit_sha,
                branches.c.state == "live",
            ),
        )
        .join(workspaces, workspaces.c.id == versions.c.workspace_id)
        .where(versions.c.fingerprint != fingerprint, workspaces.c.state == "active")
        .distinct()
        .limit(limit)
    )
    return [(row.workspace_id, row.commit_sha) for row in rows]


def add_rollouts(db: Connection, version_id: int, rollouts: Sequence[NewRollout]) -> None:
    """Add the rollouts of a new version."""
    if rollouts:
        db.execute(
            rollout_versions.insert(),
            [
                {
                    "version_id": version_id,
                    "name": r.name,
                    "tree": r.tree,
                    "content_key": r.content_key,
                    "digest": r.digest,
                    "size": r.size,
                    "runnable": r.runnable,
                    "entrypoints": [report.entrypoint for report in r.reports],
                }
                for r in rollouts
            ],
        )


def add_assessments(
    db: Connection,
    workspace_id: str,
    rollouts: Iterable[NewRollout],
    *,
    options: str,
    fingerprint: str,
    now: datetime,
) -> None:
    """Add the assessments that are not known yet."""
    wanted = {(r.content_key, report.entrypoint): report for r in rollouts for report in r.reports}
    known = _known_keys(db, workspace_id, {key for key, _ in wanted}, options, fingerprint)
    fresh = [
        {
            "workspace_id": workspace_id,
            "content_key": key,
            "entrypoint": entrypoint,
            "options": options,
            "fingerprint": fingerprint,
            "verdict": report.verdict.value,
            "workflow": report.workflow,
            "grader": report.grader,
            "findings": [finding.to_json() for finding in report.findings],
            "created_at": now,
        }
        for (key, entrypoint), report in wanted.items()
        if (key, entrypoint) not in known
    ]
    if fresh:
        db.execute(assessments.insert(), fresh)


def _chunks(values: Iterable[str]) -> Iterable[list[str]]:
    everything = sorted(values)
    for start in range(0, len(everything), _CHUNK):
        yield everything[start : start + _CHUNK]


def _known_keys(
    db: Connection, workspace_id: str, keys: Iterable[str], options: str, fingerprint: str
) -> set[tuple[str, str]]:
    return {
        (row.content_key, row.entrypoint)
        for chunk in _chunks(keys)
        for row in db.execute(
            sa.select(assessments.c.content_key, assessments.c.entrypoint).where(
                assessments.c.workspace_id == workspace_id,
                assessments.c.content_key.in_(chunk),
                assessments.c.options == options,
                assessments.c.fingerprint == fingerprint,
            )
        )
    }


def known_assessments(
    db: Connection, workspace_id: str, keys: Iterable[str], *, options: str, fingerprint: str
) -> dict[tuple[str, str], Assessment]:
    """Stored assessments by (content key, entrypoint) that a checker may reuse."""
    found: dict[tuple[str, str], Assessment] = {}
    for chunk in _chunks(keys):
        for row in db.execute(
            sa.select(assessments).where(
                assessments.c.workspace_id == workspace_id,
                assessments.c.content_key.in_(chunk),
                assessments.c.options == options,
                assessments.c.fingerprint == fingerprint,
            )
        ):
            found[row.content_key, row.entrypoint] = record(Assessment, row)
    return found


def note_branch(db: Connection, version_id: int, branch: str, *, now: datetime) -> None:
    """The version was seen as the tip of a branch, now for the last time."""
    changed = db.execute(
        version_branches.update()
        .where(version_branches.c.version_id == version_id, version_branches.c.branch == branch)
        .values(seen_at=now)
    )
    if changed.rowcount == 0:
        db.execute(
            version_branches.insert().values(version_id=version_id, branch=branch, seen_at=now)
        )


def branches_seen(db: Connection, version_ids: Sequence[int]) -> dict[int, list[str]]:
    """On which branches versions were tips."""
    found: dict[int, list[str]] = defaultdict(list)
    for row in db.execute(
        sa.select(version_branches)
        .where(version_branches.c.version_id.in_(list(version_ids)))
        .order_by(version_branches.c.branch)
    ):
        found[row.version_id].append(row.branch)
    return found


def rollouts_of(db: Connection, version: VersionHead) -> list[RolloutVersion]:
    """All rollouts of a version by name, each with its newest assessment per entrypoint."""
    rows = db.execute(
        sa.select(rollout_versions)
        .where(rollout_versions.c.version_id == version.id)
        .order_by(rollout_versions.c.name)
    ).all()
    return read_rollouts(db, version, rows)


def read_rollouts(
    db: Connection, version: VersionHead, rows: Sequence[sa.Row[Any]]
) -> list[RolloutVersion]:
    """Rows of `rollout_versions` as records, each with its newest assessment per entrypoint."""
    newest = _newest(db, version.workspace_id, [row.content_key for row in rows])
    return [_rollout(row, newest) for row in rows]


def find_rollout(db: Connection, version: VersionHead, name: str) -> RolloutVersion | None:
    """One rollout of a version."""
    row = db.execute(
        sa.select(rollout_versions).where(
            rollout_versions.c.version_id == version.id, rollout_versions.c.name == name
        )
    ).first()
    return (
        None if row is None else _rollout(row, _newest(db, version.workspace_id, [row.content_key]))
    )


def _rollout(row: Any, newest: dict[tuple[str, str], Assessment]) -> RolloutVersion:
    found = (newest.get((row.content_key, entrypoint)) for entrypoint in row.entrypoints)
    return record(RolloutVersion, row, assessments=tuple(a for a in found if a is not None))


def _newest(
    db: Connection, workspace_id: str, keys: Iterable[str]
) -> dict[tuple[str, str], Assessment]:
    found: dict[tuple[str, str], Assessment] = {}
    for chunk in _chunks(set(keys)):
        for row in db.execute(
            sa.select(assessments)
            .where(assessments.c.workspace_id == workspace_id, assessments.c.content_key.in_(chunk))
            .order_by(assessments.c.id)
        ):
            found[row.content_key, row.entrypoint] = record(Assessment, row)
    return found


def last_good(
    db: Connection, workspace_id: str, branch: str, wanted: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], tuple[str, str]]:
    """For (rollout, entrypoint): commit sha and digest of the newest runnable one on a branch."""
    pairs = set(wanted)
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for chunk in _chunks({name for name, _ in pairs}):
        rows = db.execute(
            sa.select(
                versions.c.commit_sha,
                rollout_versions.c.name,
                rollout_versions.c.digest,
                assessments.c.entrypoint,
            )
            .join(rollout_versions, rollout_versions.c.version_id == versions.c.id)
            .join(
                version_branches,
                sa.and_(
                    version_branches.c.version_id == versions.c.id,
                    version_branches.c.branch == branch,
                ),
            )
            .join(
                assessments,
                sa.and_(
                    assessments.c.workspace_id == versions.c.workspace_id,
                    assessments.c.content_key == rollout_versions.c.content_key,
                    assessments.c.verdict == "ok",
                ),
            )
            .where(
                versions.c.workspace_id == workspace_id,
                rollout_versions.c.name.in_(chunk),
                rollout_versions.c.runnable.is_(True),
                rollout_versions.c.digest.is_not(None),
                assessments.c.id
                == sa.select(sa.func.max(assessments.alias("a").c.id))
                .where(
                    sa.literal_column("a.workspace_id") == assessments.c.workspace_id,
                    sa.literal_column("a.content_key") == assessments.c.content_key,
                    sa.literal_column("a.entrypoint") == assessments.c.entrypoint,
                )
                .scalar_subquery(),
            )
            .order_by(version_branches.c.seen_at.desc(), versions.c.id.desc())
        )
        for row in rows:
            pair = (row.name, row.entrypoint)
            if pair in pairs and pair not in found:
                found[pair] = (row.commit_sha, row.digest)
    return found


def find_by_prefix(db: Connection, workspace_id: str, prefix: str, *, limit: int = 3) -> list[str]:
    """Shas of versions that begin with `prefix` (lower-case hexadecimal)."""
    return list(
        db.execute(
            sa.select(versions.c.commit_sha)
            .where(
                versions.c.workspace_id == workspace_id,
                versions.c.commit_sha >= prefix,
                versions.c.commit_sha < prefix + "g",
            )
            .limit(limit)
        ).scalars()
    )


def history_of(
    db: Connection, workspace_id: str, name: str, *, limit: int, after: str | None
) -> Page[tuple[str, datetime, str | None]]:
    """Versions that hold a rollout, newest first: commit sha, time, digest."""
    query = (
        sa.select(
            versions.c.id, versions.c.commit_sha, versions.c.published_at, rollout_versions.c.digest
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
        build=lambda row: (row.commit_sha, row.published_at, row.digest),
    )


def refers_to_digest(db: Connection, workspace_id: str, digest: str) -> bool:
    """True if a version of the workspace holds this artifact (decision 3)."""
    return (
        db.execute(
            sa.select(rollout_versions.c.id)
            .join(versions, versions.c.id == rollout_versions.c.version_id)
            .where(versions.c.workspace_id == workspace_id, rollout_versions.c.digest == digest)
            .limit(1)
        ).first()
        is not None
    )


def find_by_digest(db: Connection, digest: str) -> tuple[str, str] | None:
    """Workspace and commit of the newest version that holds an artifact."""
    row = db.execute(
        sa.select(versions.c.workspace_id, versions.c.commit_sha)
        .join(rollout_versions, rollout_versions.c.version_id == versions.c.id)
        .where(rollout_versions.c.digest == digest)
        .order_by(versions.c.id.desc())
        .limit(1)
    ).first()
    return None if row is None else (row.workspace_id, row.commit_sha)
