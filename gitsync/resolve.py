"""Which rollout version a run gets: exactly one, or a precise refusal (decision 13)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gitsync.errors import Conflict, InvalidInput, NotFound
from gitsync.git.objects import has_commit, is_ancestor
from gitsync.instance import Instance
from gitsync.model import Sha
from gitsync.records import Assessment, RolloutVersion, VersionHead, Workspace
from gitsync.store import Connection, commits, heads, versions, workspaces
from gitsync.sync.objects import is_usable, repository_of

_PREFIX = re.compile(r"[0-9a-fA-F]{7,40}")


class CommitNotFound(NotFound):
    """No such commit, or it is no published version."""

    code = "COMMIT_NOT_FOUND"


class BranchNotFound(NotFound):
    """No such branch, or nothing of it is published."""

    code = "BRANCH_NOT_FOUND"


class RolloutNotFound(NotFound):
    """The code version has no such rollout."""

    code = "ROLLOUT_NOT_FOUND"


class EntrypointNotFound(NotFound):
    """The rollout has no such entrypoint."""

    code = "ENTRYPOINT_NOT_FOUND"


class RolloutInvalid(InvalidInput):
    """The rollout cannot run; details: `issues`, `last_good {commit_sha, digest}` or None."""

    code = "ROLLOUT_INVALID"


class AmbiguousSha(InvalidInput):
    """A short sha fits several commits."""

    code = "AMBIGUOUS_SHA"


class SyncInProgress(Conflict):
    """The commit is known and on its way; repeat the request."""

    code = "SYNC_IN_PROGRESS"


@dataclass(frozen=True, slots=True)
class Resolved:
    """One rollout version that a run may use."""

    version: VersionHead
    rollout: RolloutVersion
    assessment: Assessment
    branch: str | None
    substituted: bool


def full_ref(branch: str) -> str:
    """A branch as people write it, as a full ref."""
    if not branch or not branch.isprintable() or any(c.isspace() for c in branch):
        raise InvalidInput("A branch name has no white space.", field="branch")
    return f"refs/heads/{branch}"


def expand(db: Connection, workspace_id: str, text: str) -> str:
    """A full sha from one of at least 7 digits; of versions first, then of known commits."""
    if not _PREFIX.fullmatch(text):
        raise InvalidInput(
            "A commit is written with 7 to 40 hexadecimal digits.", field="commit_sha"
        )
    prefix = text.lower()
    if len(prefix) == 40:
        return prefix
    found = versions.find_by_prefix(db, workspace_id, prefix)
    found = found or commits.find_by_prefix(db, workspace_id, prefix)
    if len(found) > 1:
        raise AmbiguousSha(
            f"{text} fits several commits: {', '.join(sha[:12] for sha in found)}. Give more "
            "digits.",
            field="commit_sha",
        )
    if not found:
        raise CommitNotFound(f"No published version begins with {text}.", field="commit_sha")
    return found[0]


def resolve(
    instance: Instance,
    workspace_id: str,
    rollout: str,
    *,
    entrypoint: str | None = None,
    branch: str | None = None,
    commit_sha: str | None = None,
    prefer: str | None = None,
) -> Resolved:
    """The one rollout version that fits; without a pin the default branch's tip."""
    if branch is not None and commit_sha is not None:
        raise InvalidInput("Give a branch or a commit_sha, not both.", field="commit_sha")
    if prefer not in (None, "last_good"):
        raise InvalidInput("prefer can only be `last_good`.", field="prefer")
    with instance.database.read() as db:
        workspace = workspaces.get_workspace(db, workspace_id)
        version, ref = _version(instance, db, workspace, branch=branch, commit_sha=commit_sha)
        found = versions.find_rollout(db, version, rollout)
        if found is None or (found.tree is None and not found.assessments):
            raise RolloutNotFound(
                f"Commit {version.commit_sha[:12]} has no rollout {rollout!r}.", field="rollout"
            )
        assessment = _entrypoint(found, entrypoint)
        if found.is_ok(assessment.entrypoint):
            return Resolved(version, found, assessment, ref, substituted=False)
        wanted_branch = ref or workspace.chosen_branch or workspace.default_branch or ""
        pair = (rollout, assessment.entrypoint)
        good = versions.last_good(db, workspace_id, wanted_branch, [pair]).get(pair)
        if prefer == "last_good" and good is not None:
            older = heads.get_head(db, workspace_id, good[0])
            instead = versions.find_rollout(db, older, rollout)
            if instead is not None and instead.is_ok(assessment.entrypoint):
                chosen = _entrypoint(instead, assessment.entrypoint)
                return Resolved(older, instead, chosen, ref, substituted=True)
    raise RolloutInvalid(
        _why_not(version, found, assessment),
        field="rollout",
        issues=issues_of(version, found, assessment),
        last_good=None if good is None else {"commit_sha": good[0], "digest": good[1]},
    )


def _version(
    instance: Instance,
    db: Connection,
    workspace: Workspace,
    *,
    branch: str | None,
    commit_sha: str | None,
) -> tuple[VersionHead, str | None]:
    if commit_sha is not None:
        sha = expand(db, workspace.id, commit_sha)
        version = heads.find_head(db, workspace.id, sha)
        if version is None:
            record = commits.find_commit(db, workspace.id, sha)
            if record is not None and not record.state.is_final:
                raise SyncInProgress(
                    f"Commit {sha[:12]} is being synced. Repeat the request in a moment."
                )
            why = f" {record.reason}" if record is not None and record.reason else ""
            raise CommitNotFound(
                f"Commit {sha[:12]} is no published version of this workspace.{why}",
                field="commit_sha",
            )
        return version, None
    ref = full_ref(branch) if branch is not None else None
    name = ref or workspace.chosen_branch or workspace.default_branch
    row = None if name is None else workspaces.find_branch(db, workspace.id, name)
    if row is None or row.published_sha is None or row.state != "live":
        raise BranchNotFound(
            f"Nothing is published on {branch!r}."
            if branch is not None
            else "Nothing is published yet on the default branch.",
            field="branch",
        )
    return heads.get_head(db, workspace.id, row.published_sha), row.name


def _entrypoint(rollout: RolloutVersion, entrypoint: str | None) -> Assessment:
    if entrypoint is not None:
        found = rollout.assessment(entrypoint)
        if found is None:
            known = ", ".join(a.entrypoint for a in rollout.assessments)
            raise EntrypointNotFound(
                f"Rollout {rollout.name} has no checked entrypoint {entrypoint!r}; it has {known}. "
                "A config must name it.",
                field="entrypoint",
            )
        return found
    if len(rollout.assessments) == 1:
        return rollout.assessments[0]
    main = rollout.assessment("main.py")
    if main is None:
        known = ", ".join(a.entrypoint for a in rollout.assessments)
        raise EntrypointNotFound(
            f"Rollout {rollout.name} has several entrypoints ({known}); name one.",
            field="entrypoint",
        )
    return main


def issues_of(
    version: VersionHead, rollout: RolloutVersion, assessment: Assessment
) -> list[dict[str, Any]]:
    """What keeps the rollout from running, as the `osmosis` client lists it."""
    folder = f"rollouts/{rollout.name}"
    outer = [
        f
        for f in version.findings
        if f["severity"] == "error" and (f["path"] == folder or f["path"].startswith(folder + "/"))
    ]
    bad = [f for f in assessment.findings if f["severity"] in ("error", "unresolved")]
    return [
        {
            "key": f"{f['path']}:{f['line']}",
            "message": f"{f['code']}: {f['message']}",
            "code": f["code"],
        }
        for f in (*bad, *outer)
    ]


def _why_not(version: VersionHead, rollout: RolloutVersion, assessment: Assessment) -> str:
    issues = issues_of(version, rollout, assessment)
    first = f" {issues[0]['key']} {issues[0]['message']}" if issues else ""
    return (
        f"Rollout {rollout.name} ({assessment.entrypoint}) cannot run at "
        f"{version.commit_sha[:12]}.{first}"
    )


def is_reachable(instance: Instance, workspace: Workspace, sha: Sha) -> bool:
    """True if a watched branch's seen tip contains the commit (decision 10)."""
    path = repository_of(instance, workspace)
    if not is_usable(path) or not has_commit(path, sha):
        return False
    with instance.database.read() as db:
        tips = [b.head_sha for b in workspaces.list_branches(db, workspace.id) if b.head_sha]
    return any(
        tip == sha or (has_commit(path, tip) and is_ancestor(path, sha, Sha(tip))) for tip in tips
    )
