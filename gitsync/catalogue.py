"""What is published, as documents: manifests, the rollout catalogue, diffs, archives, pins."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from gitsync.artifacts.members import path_bytes, walk
from gitsync.artifacts.tar import tar_pieces
from gitsync.errors import InvalidInput, NotFound
from gitsync.git.objects import Change, open_commit
from gitsync.git.objects import diff as git_diff
from gitsync.inspection import Job, inspect_commit
from gitsync.instance import MIB, Instance
from gitsync.model import Report, Sha
from gitsync.pool import JobFailed
from gitsync.records import RolloutVersion, Version, VersionHead, Workspace
from gitsync.resolve import CommitNotFound, Resolved, expand, full_ref, is_reachable
from gitsync.store import Connection, commits, heads, holdings, pins, versions, workspaces
from gitsync.sync.moves import short
from gitsync.sync.objects import ensure_repository
from gitsync.sync.prepare import options_of, unreadable
from gitsync.sync.publish import publish_one
from gitsync.sync.trace import entrypoint_json, verdict_of
from gitsync.text import printable

_ARCHIVE_FILES = 1_000_000


def version_json(version: Version, branches: list[str]) -> dict[str, Any]:
    """A version in a list."""
    return {
        "commit_sha": version.commit_sha,
        "tree": version.tree,
        "parents": list(version.parents),
        "branches": [printable(short(branch)) for branch in branches],
        "author": version.author,
        "committer": version.committer,
        "message": version.message,
        "committed_at": _seconds(version.committed_at),
        "published_at": _moment(version.published_at),
        "signature": version.signature,
        "shallow": version.shallow,
        "trigger": version.trigger,
        "sync_id": version.sync_id,
    }


def _moment(value: datetime) -> str:
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _seconds(value: int) -> str | None:
    try:
        return datetime.fromtimestamp(value, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return None


def rollout_json(rollout: RolloutVersion) -> dict[str, Any]:
    """A rollout version in a document."""
    return {
        "name": printable(rollout.name),
        "tree": rollout.tree,
        "digest": rollout.digest,
        "size": rollout.size,
        "verdict": verdict_of(rollout),
        "entrypoints": [entrypoint_json(a) for a in rollout.assessments],
    }


def manifest(instance: Instance, workspace_id: str, sha: Sha) -> dict[str, Any]:
    """The whole version as one document: every digest, configs with content, findings, pins."""
    with instance.database.read() as db:
        version = versions.get_version(db, workspace_id, sha)
        found = versions.rollouts_of(db, version)
        seen = versions.branches_seen(db, [version.id]).get(version.id, [])
        kept = pins.pins_of(db, version.id)
    return {
        "schema_version": 1,
        **version_json(version, seen),
        "rollouts": [rollout_json(rollout) for rollout in found],
        "configs": list(version.configs),
        "skills": list(version.skills),
        "findings": list(version.findings),
        "pins": [
            {
                "name": pin["name"],
                "owner": pin["owner"],
                "reason": pin["reason"],
                "created_at": _moment(pin["created_at"]),
                "expires_at": None if pin["expires_at"] is None else _moment(pin["expires_at"]),
            }
            for pin in kept
        ],
    }


def served(instance: Instance, workspace_id: str, branch: str | None) -> tuple[VersionHead, str]:
    """The version a branch serves, and the branch as a full ref."""
    with instance.database.read() as db:
        workspace = workspaces.get_workspace(db, workspace_id)
        ref = full_ref(branch) if branch is not None else None
        name = ref or workspace.chosen_branch or workspace.default_branch
        row = None if name is None else workspaces.find_branch(db, workspace_id, name)
        if row is None or row.published_sha is None or row.state != "live":
            raise NotFound("Nothing is published on this branch.", field="branch")
        return heads.get_head(db, workspace_id, row.published_sha), row.name


def rollouts(instance: Instance, workspace_id: str, *, branch: str | None) -> list[dict[str, Any]]:
    """Every rollout the branch serves; for those that cannot run, the last good version."""
    try:
        version, ref = served(instance, workspace_id, branch)
    except NotFound:
        if branch is not None:
            raise
        return []
    with instance.database.read() as db:
        return described(db, version, ref, versions.rollouts_of(db, version))


def worst_rollouts(
    instance: Instance, workspace_id: str, *, branch: str | None, limit: int, offset: int
) -> tuple[list[dict[str, Any]], int]:
    """A piece of the same with those that cannot run first; how many there are in all."""
    try:
        version, ref = served(instance, workspace_id, branch)
    except NotFound:
        return [], 0
    with instance.database.read() as db:
        found = holdings.worst_rollouts(db, version, limit=limit, offset=offset)
        total = holdings.count_rollouts(db, version)
        return described(db, version, ref, found), total


def served_rollout(
    instance: Instance, workspace_id: str, name: str, *, branch: str | None
) -> dict[str, Any] | None:
    """One rollout as a branch serves it."""
    try:
        version, ref = served(instance, workspace_id, branch)
    except NotFound:
        if branch is not None:
            raise
        return None
    with instance.database.read() as db:
        found = versions.find_rollout(db, version, name)
        return None if found is None else described(db, version, ref, [found])[0]


def described(
    db: Connection, version: VersionHead, ref: str, found: list[RolloutVersion]
) -> list[dict[str, Any]]:
    """Rollouts of the version that a branch serves, as documents."""
    wanted = [
        (r.name, a.entrypoint) for r in found for a in r.assessments if not r.is_ok(a.entrypoint)
    ]
    good = versions.last_good(db, version.workspace_id, ref, wanted) if wanted else {}
    return [_served_json(version, ref, rollout, good) for rollout in found]


def _served_json(
    version: VersionHead,
    ref: str,
    rollout: RolloutVersion,
    good: dict[tuple[str, str], tuple[str, str]],
) -> dict[str, Any]:
    shown = rollout_json(rollout)
    for entrypoint in shown["entrypoints"]:
        pair = (rollout.name, entrypoint["entrypoint"])
        last: tuple[str, str | None] | None = good.get(pair)
        if rollout.is_ok(entrypoint["entrypoint"]):
            last = (version.commit_sha, rollout.digest)
        entrypoint["last_good"] = last and {"commit_sha": last[0], "digest": last[1]}
    return {
        **shown,
        "commit_sha": version.commit_sha,
        "branch": printable(short(ref)),
        "published_at": _moment(version.published_at),
    }


def rollout(
    instance: Instance,
    workspace_id: str,
    name: str,
    *,
    branch: str | None,
    limit: int,
    after: str | None,
) -> dict[str, Any]:
    """One rollout with its history."""
    with instance.database.read() as db:
        page = versions.history_of(db, workspace_id, name, limit=limit, after=after)
    if not page.total_count:
        raise NotFound(f"No version has a rollout {name!r}.", field="name")
    current = served_rollout(instance, workspace_id, name, branch=branch)
    return {
        "name": printable(name),
        "served": current,
        "history": {
            "items": [
                {"commit_sha": sha, "published_at": _moment(at), "digest": digest}
                for sha, at, digest in page.items
            ],
            "total_count": page.total_count,
            "has_more": page.has_more,
            "next": page.next,
        },
    }


def resolved_json(instance: Instance, workspace: Workspace, found: Resolved) -> dict[str, Any]:
    """What a run needs to fetch its code."""
    digest = found.rollout.digest
    return {
        "commit_sha": found.version.commit_sha,
        "branch": None if found.branch is None else printable(short(found.branch)),
        "rollout": found.rollout.name,
        "entrypoint": found.assessment.entrypoint,
        "verdict": found.assessment.verdict,
        "workflow": found.assessment.workflow,
        "grader": found.assessment.grader,
        "findings": list(found.assessment.findings),
        "digest": digest,
        "size": found.rollout.size,
        "url": f"{instance.settings.url}/api/v1/workspaces/{workspace.id}/artifacts/{digest}.tar",
        "substituted": found.substituted,
    }


# -- diffs and archives ---------------------------------------------------------------------------


def difference(instance: Instance, workspace: Workspace, base: Sha, sha: Sha) -> dict[str, Any]:
    """Rollouts added, removed and changed; classes, config keys and files."""
    with instance.database.read() as db:
        one, two = (heads.get_head(db, workspace.id, s) for s in (base, sha))
        held, holds = holdings.contents(db, one), holdings.contents(db, two)
        # equal content is assessed once: it cannot differ in a verdict
        changed = [n for n in sorted(held.keys() & holds.keys()) if held[n] != holds[n]]
        before = {r.name: r for r in holdings.named_rollouts(db, one, changed)}
        after = {r.name: r for r in holdings.named_rollouts(db, two, changed)}
        old, new = holdings.two_configs(db, one, two)
    path = ensure_repository(instance, workspace)
    return {
        "from": str(base),
        "to": str(sha),
        "rollouts": {
            "added": [printable(n) for n in sorted(holds.keys() - held.keys())],
            "removed": [printable(n) for n in sorted(held.keys() - holds.keys())],
            "changed": [
                {
                    "name": printable(name),
                    "digest": {"from": before[name].digest, "to": after[name].digest},
                    "entrypoints": _entrypoint_changes(before[name], after[name]),
                }
                for name in changed
            ],
        },
        "configs": _config_changes(old, new),
        "files": [
            {
                "path": printable(change.path),
                "change": _kind(change),
                "from_mode": None if change.old is None else change.old.kind.value,
                "to_mode": None if change.new is None else change.new.kind.value,
            }
            for change in git_diff(open_commit(path, base), open_commit(path, sha))
        ],
    }


def _kind(change: Change) -> str:
    if change.old is None:
        return "added"
    return "removed" if change.new is None else "changed"


def _verdicts(rollout: RolloutVersion) -> dict[str, tuple[str, str | None, str | None]]:
    return {a.entrypoint: (a.verdict, a.workflow, a.grader) for a in rollout.assessments}


def _entrypoint_changes(old: RolloutVersion, new: RolloutVersion) -> list[dict[str, Any]]:
    before, after = _verdicts(old), _verdicts(new)
    keys = ("verdict", "workflow", "grader")
    return [
        {
            "entrypoint": name,
            "from": dict(zip(keys, before[name], strict=True)) if name in before else None,
            "to": dict(zip(keys, after[name], strict=True)) if name in after else None,
        }
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _config_changes(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    before = {c["path"]: c.get("content") or {} for c in old}
    after = {c["path"]: c.get("content") or {} for c in new}
    changes = []
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) == after.get(path):  # most, in a large workspace
            continue
        one, two = _flat(before.get(path, {})), _flat(after.get(path, {}))
        keys = sorted(k for k in one.keys() | two.keys() if one.get(k) != two.get(k))
        if keys or (path in before) != (path in after):
            changes.append(
                {
                    "path": path,
                    "change": "added"
                    if path not in before
                    else "removed"
                    if path not in after
                    else "changed",
                    "keys": [
                        {"key": key, "from": one.get(key), "to": two.get(key)} for key in keys
                    ],
                }
            )
    return changes


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            found |= _flat(item, f"{prefix}{key}.")
        else:
            found[prefix + key] = item
    return found


def archive(instance: Instance, workspace: Workspace, sha: Sha) -> Iterator[bytes]:
    """The full tree of a version as a canonical tar, gzipped without a time stamp."""
    with instance.database.read() as db:
        versions.get_version(db, workspace.id, sha)
    tree = open_commit(ensure_repository(instance, workspace), sha)
    members = sorted(walk(tree, "", max_files=_ARCHIVE_FILES), key=lambda item: path_bytes(item[0]))
    return gzipped(tar_pieces(tree, members))


def gzipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Compress a stream; equal input gives equal output."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, compresslevel=6, mtime=0) as file:
        for piece in pieces:
            file.write(piece)
            if buffer.tell() >= 64 * 1024:
                yield buffer.getvalue()
                buffer.seek(0)
                buffer.truncate()
    yield buffer.getvalue()


# -- on demand ------------------------------------------------------------------------------------


def pin(
    instance: Instance,
    workspace: Workspace,
    sha: Sha,
    name: str,
    *,
    owner: str,
    reason: str,
    expires_at: datetime | None,
) -> None:
    """Pin a version; a commit behind a watched branch is published for it first."""
    with instance.database.read() as db:
        known = versions.find_version(db, workspace.id, sha)
    version_id = known.id if known is not None else None
    if version_id is None:
        if not is_reachable(instance, workspace, sha):
            raise CommitNotFound(
                f"No watched branch of the workspace contains {sha[:12]}.", field="sha"
            )
        version_id = publish_one(instance, workspace, sha)
    with instance.database.write() as db:
        pins.put_pin(
            db,
            version_id,
            name,
            owner=owner,
            reason=reason,
            expires_at=expires_at,
            now=instance.now(),
        )


def recheck(instance: Instance, workspace: Workspace, sha: Sha) -> None:
    """Assess a version with the present checker."""
    with instance.database.read() as db:
        versions.get_version(db, workspace.id, sha)
    ensure_repository(instance, workspace)
    publish_one(instance, workspace, sha, is_fresh=True)


def dry_run(instance: Instance, workspace: Workspace, ref: str) -> dict[str, Any]:
    """The report of a branch's seen tip, or of a commit a watched branch contains."""
    sha = _checkable(instance, workspace, ref)
    path = ensure_repository(instance, workspace)
    job = Job(
        repo=str(path),
        sha=str(sha),
        options=options_of(workspace.settings),
        staging=None,
        known={},
        artifacts={},
        keys={},
        max_artifact_bytes=instance.settings.max_artifact_mb * MIB,
    )
    try:
        report = instance.pool.run(inspect_commit, job).report
    except JobFailed as e:
        report = Report(findings=(unreadable(e),), refused=True)
    return {"commit_sha": str(sha), **report.to_json()}


def _checkable(instance: Instance, workspace: Workspace, ref: str) -> Sha:
    with instance.database.read() as db:
        try:
            row = workspaces.find_branch(db, workspace.id, full_ref(ref))
        except InvalidInput:
            row = None
        if row is not None and row.head_sha is not None:
            return Sha(row.head_sha)
        sha = Sha.parse(expand(db, workspace.id, ref))
        known = commits.find_commit(db, workspace.id, sha) or versions.find_version(
            db, workspace.id, sha
        )
    if known is None and not is_reachable(instance, workspace, sha):
        raise CommitNotFound(f"No watched branch contains {ref[:60]!r}.", field="ref")
    return sha
