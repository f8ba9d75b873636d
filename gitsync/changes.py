"""Changes that gitsync makes to a workspace's repository: templates, skills, what it lacks.

Promise: a request is one job row, and a job becomes one commit whose tree is the plan, or none; a
repeated request finds its job. Looking and planning are for readers and ask no remote. Where we may
not write, the answer is a patch and nothing is written.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from gitsync.branches import known_tip
from gitsync.change_work import (
    JobBusy,
    described,
    must_be,
    must_not_be_blocked,
    plan_for,
    run_job,
)
from gitsync.errors import Conflict, InvalidInput
from gitsync.git.remote import is_ref
from gitsync.instance import Instance
from gitsync.model import Sha, Signature
from gitsync.planning import Planned, edits_of, skills_of, state_of
from gitsync.records import Job, JobState, Workspace
from gitsync.resolve import full_ref
from gitsync.store import RowExists, jobs, workspaces
from gitsync.sync import triggers
from gitsync.template.catalogue import builtin
from gitsync.template.mailbox import mailbox
from gitsync.template.operations import Operation
from gitsync.text import printable

PATIENCE_S = 20.0  # a repeated request waits so long for the first one
REPEATABLE = timedelta(hours=24)  # as long as an Idempotency-Key counts
HEAD_START = timedelta(seconds=5)  # a new job is left to its request for so long


@dataclass(frozen=True, slots=True)
class Wanted:
    """A change as it is asked for; `branch` is the short name of a new branch."""

    operation: Operation
    name: str
    email: str
    branch: str | None = None
    expected_sha: Sha | None = None
    message: str | None = None
    requested_by: str | None = None
    request_key: str | None = None


# -- looking --------------------------------------------------------------------------------------


def template_state(
    instance: Instance, workspace: Workspace, ref: str | None = None
) -> dict[str, Any]:
    """What a branch holds of the template, as it was seen last."""
    path, sha = known_tip(instance, workspace, ref)
    return {"commit_sha": sha, **instance.pool.run(state_of, str(path), sha)}


def template_edits(
    instance: Instance, workspace: Workspace, ref: str | None = None
) -> dict[str, Any]:
    """What was changed of the template's files there, as patches."""
    path, sha = known_tip(instance, workspace, ref)
    found = instance.pool.run(edits_of, str(path), sha)
    return _listed([{"path": p, "patch": t.decode("utf-8", "replace")} for p, t in found], sha)


def skills_state(
    instance: Instance, workspace: Workspace, ref: str | None = None
) -> dict[str, Any]:
    """The skills there, and those that can be installed."""
    path, sha = known_tip(instance, workspace, ref)
    return _listed(instance.pool.run(skills_of, str(path), sha), sha)


def _listed(items: list[dict[str, Any]], sha: Sha | None) -> dict[str, Any]:
    whole = {"total_count": len(items), "has_more": False, "next": None}
    return {"items": items, **whole, "commit_sha": sha}


# -- asking ---------------------------------------------------------------------------------------


def preview(instance: Instance, workspace: Workspace, wanted: Wanted) -> dict[str, Any]:
    """What a change would do to the branch as it was seen last, with diffs; nothing is written."""
    wanted.operation.check(builtin())
    if wanted.branch is not None:
        new_ref(wanted.branch)
    path, base = known_tip(instance, workspace)
    if wanted.expected_sha is not None:
        must_be(wanted.expected_sha, base)
    planned = plan_for(instance, workspace, path, base, wanted.operation, with_diffs=True)
    return _preview(planned, base, outcome="planned")


def change(instance: Instance, workspace: Workspace, wanted: Wanted) -> dict[str, Any]:
    """Make a change, or the patch for it where we may not write; the answer for the caller."""
    triggers.active(workspace)
    wanted.operation.check(builtin())
    if wanted.branch is not None:
        new_ref(wanted.branch)
    if not _may_write(instance, workspace):
        return _patch(instance, workspace, wanted, "the workspace has no credential")
    instance.at("apply.checked")
    job_id = _add(instance, workspace, wanted)
    instance.at("apply.stored")
    job = _ended(instance, job_id)
    if job.outcome is None or job.state is not JobState.DONE:
        problem = job.error or {}
        raise Conflict(str(problem.get("message", "The change could not be made.")))
    if job.outcome["outcome"] == "patch":
        base = Sha(job.base_sha) if job.base_sha else None
        return _patch(instance, workspace, wanted, job.outcome["reason"], job=job, base=base)
    return {**job.outcome, "job_id": job.id, "sync_id": job.sync_id}


def _ended(instance: Instance, job_id: int) -> Job:
    """The job as it ended; one that is being gone on with after a restart is waited for."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return run_job(instance, job_id)
        except JobBusy:
            if time.monotonic() > end or instance.stopping.wait(0.1):
                raise


def new_ref(branch: str) -> str:
    """The full ref of a branch that is to be made."""
    ref = full_ref(branch.removeprefix("refs/heads/"))
    if not is_ref(ref):
        raise InvalidInput(
            f"'{printable(branch, limit=200)}' is no valid name of a branch.", field="branch"
        )
    return ref


def _may_write(instance: Instance, workspace: Workspace) -> bool:
    if workspace.is_embedded:
        return True
    with instance.database.read() as db:
        return workspaces.get_credential(db, workspace.id) is not None


def _add(instance: Instance, workspace: Workspace, wanted: Wanted) -> int:
    """The job of this request: a new one, or the one that an earlier try of it left."""
    now, key = instance.now(), wanted.request_key
    author = Signature(wanted.name, wanted.email, int(now.timestamp()))
    try:
        with instance.database.write() as db:
            triggers.active(workspaces.lock_workspace(db, workspace.id))
            known = jobs.find_by_request(db, workspace.id, key) if key else None
            if known is not None:
                if known.state is not JobState.FAILED and known.created_at > now - REPEATABLE:
                    return known.id
                jobs.forget_request(db, known.id)
            return jobs.add_job(
                db,
                workspace.id,
                operation=wanted.operation.to_json(),
                author=author,
                now=now,
                branch=None if wanted.branch is None else new_ref(wanted.branch),
                expected_sha=wanted.expected_sha,
                message=wanted.message,
                requested_by=wanted.requested_by,
                request_key=key,
                not_before=now + HEAD_START,
            )
    except RowExists:  # the same request at the same moment, on another server
        raise JobBusy("The same request is being worked on.") from None


# -- answers --------------------------------------------------------------------------------------


def _preview(planned: Planned, base: Sha | None, *, outcome: str) -> dict[str, Any]:
    return {
        **described(planned, base),
        "outcome": outcome,
        "written": False,
        "branch": None,
        "commit_sha": None,
        "job_id": None,
        "sync_id": None,
        "diffs": [
            {"path": path, "patch": patch.decode("utf-8", "replace")}
            for path, patch in planned.diffs
        ],
    }


def _patch(
    instance: Instance,
    workspace: Workspace,
    wanted: Wanted,
    reason: str,
    *,
    job: Job | None = None,
    base: Sha | None = None,
) -> dict[str, Any]:
    """The change as a mail for `git am`, on the tip that is known."""
    path, seen = known_tip(instance, workspace)
    base = base or seen
    if wanted.expected_sha is not None:
        must_be(wanted.expected_sha, base)
    planned = plan_for(instance, workspace, path, base, wanted.operation, with_diffs=True)
    plan = planned.plan
    must_not_be_blocked(plan)
    found = _preview(planned, base, outcome="patch" if plan.changes else "unchanged")
    if plan.changes:
        now = int(instance.now().timestamp())
        author = job.author if job else Signature(wanted.name, wanted.email, now)
        message = wanted.message or plan.summary
        found["patch"] = mailbox(planned.diffs, author=author, message=message)
        found["reason"] = f"gitsync may not write to the repository: {reason}"
    return found | {"diffs": [], "job_id": job.id if job else None}
