"""Making a change: one job becomes one commit at the place where it belongs, or ends with a reason.

Promise: the commit goes on top of the tip it was planned for or nowhere; a tip that moved is
planned for anew, once. Killed anywhere, a job is gone on with after a restart: author and time are
fixed in its row, so the same plan is the same commit, and a commit that has arrived is recognised.
What is written is synced like any other push.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from gitsync.apply import commit_plan
from gitsync.branches import Branches, held_branches
from gitsync.errors import Conflict, GitSyncError
from gitsync.git.failures import AuthenticationFailed, PushRefused, RefMoved
from gitsync.git.objects import has_commit, is_ancestor
from gitsync.inspection import survey
from gitsync.instance import Instance
from gitsync.model import ZERO_SHA, Sha
from gitsync.planning import Ask, Planned, plan_operation
from gitsync.pool import JobFailed
from gitsync.records import Job, JobState, Trigger, Workspace, WorkspaceState
from gitsync.store import DatabaseFailed, commits, events, jobs, turns, workspaces
from gitsync.sync import triggers
from gitsync.sync.moves import short
from gitsync.sync.prepare import MAX_ROLLOUTS, known_reports, options_of
from gitsync.template.catalogue import builtin
from gitsync.template.operations import Operation, from_json
from gitsync.template.plan import Plan
from gitsync.text import printable

log = logging.getLogger(__name__)

HEARTBEATS = 4  # per lease
MOST_ATTEMPTS = 8
PLANS = 2  # a tip that moves under the second plan is reported


class PlanBlocked(Conflict):
    """The plan has conflicts that stop it; `issues` names each path. Nothing was written."""

    code = "PLAN_BLOCKED"


class JobBroken(GitSyncError):
    """A change ended in an exception that nobody foresaw."""

    code = "INTERNAL"
    transient = True


class BranchTaken(Conflict):
    """The branch that a change was to make exists already."""

    code = "BRANCH_EXISTS"


class JobBusy(Conflict):
    """The change is being made at this moment; the same request later gets its answer."""

    code = "IN_PROGRESS"


def run_job(instance: Instance, job_id: int, *, is_resumed: bool = False) -> Job:
    """Take a job to its end; the job as it ended, or the error that ended or postponed it."""
    with instance.database.write() as db:
        lease_s = instance.settings.turn_lease_s
        job = jobs.take_job(db, job_id, owner=instance.boot, lease_s=lease_s)
        if job is None:
            job = jobs.get_job(db, None, job_id)
            if job.state is JobState.OPEN:
                raise JobBusy("This change is being made at this moment. Repeat it soon.")
            return job
        workspace = workspaces.get_workspace(db, job.workspace_id)
    try:
        with _renewed(instance, job):
            _work(instance, workspace, job)
    except turns.TurnLost:
        raise JobBusy("Another server makes this change at this moment.") from None
    except GitSyncError as e:
        _fail(instance, job, e, is_resumed=is_resumed)
        raise
    except Exception:
        text = "Something went wrong here; the operator's log says more."
        _fail(instance, job, JobBroken(text), is_resumed=is_resumed)
        raise
    with instance.database.read() as db:
        return jobs.get_job(db, None, job_id)


@contextmanager
def _renewed(instance: Instance, job: Job) -> Iterator[None]:
    """Keep the lease of a job while it is worked on: a remote may take minutes."""
    lease_s, is_over = instance.settings.turn_lease_s, threading.Event()

    def renew() -> None:
        while not is_over.wait(lease_s / HEARTBEATS):
            try:
                with instance.database.write(durable=False) as db:
                    jobs.renew_job(db, job, lease_s=lease_s)
            except turns.TurnLost:
                return
            except DatabaseFailed:
                log.warning("lease not renewed job=%d", job.id)

    thread = threading.Thread(target=renew, name=f"job-{job.id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _work(instance: Instance, workspace: Workspace, job: Job) -> None:
    triggers.active(workspace)
    with held_branches(instance, workspace) as branches:
        for left in reversed(range(PLANS)):
            try:
                return _once(instance, workspace, job, branches)
            except RefMoved:
                if not left or job.expected_sha is not None:
                    raise
                with instance.database.read() as db:
                    job = jobs.get_job(db, None, job.id)
                log.info("tip moved, planning anew workspace=%s job=%d", workspace.id, job.id)


def _once(instance: Instance, workspace: Workspace, job: Job, branches: Branches) -> None:
    """Look, plan, write, push, close; what an earlier try has done already is left out."""
    default, base = branches.default()
    target = job.branch or default
    tip = base if target == default else branches.tip(target)
    if base is not None:
        base = branches.bring(default, base)
    if tip is not None:
        tip = base if target == default else branches.bring(target, tip)
    if arrived := _arrived(branches.path, job, target, tip):
        return _close_written(instance, workspace, job, target, arrived)
    if job.branch is not None and tip is not None:
        raise BranchTaken(f"The branch {printable(short(target))} exists already. Name another.")
    sha = _still_fitting(branches.path, job, target, base)
    if sha is None:
        if job.expected_sha is not None:
            must_be(Sha(job.expected_sha), base)
        written = _write(instance, workspace, job, branches.path, target, base)
        if written is None:
            return None
        job, sha = written
    instance.at("apply.committed")
    try:
        branches.move(target, sha, expected=tip)  # None: the branch is made
    except AuthenticationFailed as e:
        return _close_refused(instance, job, e)
    except PushRefused as e:
        text = e.message + " Nothing was written. A `branch` of its own may be allowed."
        raise PushRefused(text) from e
    instance.at("apply.pushed")
    return _close_written(instance, workspace, job, target, sha)


def _arrived(path: Path, job: Job, target: str, tip: Sha | None) -> Sha | None:
    """The commit of an earlier try if it is on the branch, also below later ones."""
    if job.commit_sha is None or job.target != target or tip is None:
        return None
    sha = Sha(job.commit_sha)
    is_there = tip == sha or (has_commit(path, sha) and is_ancestor(path, sha, tip))
    return sha if is_there else None


def _still_fitting(path: Path, job: Job, target: str, base: Sha | None) -> Sha | None:
    """The commit of an earlier try if the branch is where it was, or is still to be made."""
    if job.commit_sha is None or job.target != target or not has_commit(path, job.commit_sha):
        return None
    return Sha(job.commit_sha) if job.branch is not None or job.base_sha == base else None


def _write(
    instance: Instance,
    workspace: Workspace,
    job: Job,
    path: Path,
    target: str,
    base: Sha | None,
) -> tuple[Job, Sha] | None:
    """Plan and write the commit; None if the job was closed because nothing is to be done."""
    instance.at("apply.planning")
    operation = from_json(job.operation)
    planned = plan_for(instance, workspace, path, base, operation, with_diffs=False)
    plan = planned.plan
    must_not_be_blocked(plan)
    outcome = {**described(planned, base), "branch": printable(short(target))}
    if not plan.changes:
        with instance.database.write() as db:
            nothing = {**outcome, "outcome": "unchanged", "written": False, "commit_sha": None}
            jobs.close_job(db, job, state=JobState.DONE, now=instance.now(), outcome=nothing)
        return None
    sha = commit_plan(
        path, base=base, plan=plan, message=job.message or plan.summary, author=job.author
    )
    instance.at("apply.written")
    steps = list(operation.next_steps(builtin(), is_pushed=True))
    outcome |= {"outcome": "committed", "written": True, "commit_sha": sha, "next_steps": steps}
    with instance.database.write() as db:
        jobs.note_commit(db, job, target=target, base_sha=base, commit_sha=sha, outcome=outcome)
    return replace(job, target=target, base_sha=base, commit_sha=sha, outcome=outcome), sha


def plan_for(
    instance: Instance,
    workspace: Workspace,
    path: Path,
    base: Sha | None,
    operation: Operation,
    *,
    with_diffs: bool,
) -> Planned:
    """The plan of an operation on a commit, worked out in a worker process."""
    options = options_of(workspace.settings)
    ask = Ask(str(path), base, operation, options, with_diffs=with_diffs)
    try:
        if base is not None:
            surveyed = instance.pool.run(survey, str(path), base, MAX_ROLLOUTS)
            keys = {name: key for name, _, key in surveyed.rollouts}
            ask = replace(ask, known=known_reports(instance, workspace.id, keys, options))
        return instance.pool.run(plan_operation, ask)
    except JobFailed as e:
        # what cannot be checked can be planned all the same; the sync will say what is wrong
        log.info("plan not checked workspace=%s reason=%s", workspace.id, e.message)
        planned = instance.pool.run(plan_operation, replace(ask, with_check=False))
        note = f"The planned tree could not be checked: {e.message}"
        plan = replace(planned.plan, notes=(*planned.plan.notes, note))
        return replace(planned, plan=plan)


def must_be(expected: Sha, tip: Sha | None) -> None:
    """`RefMoved` unless the tip is what was expected; zeros stand for no commit."""
    if (tip or ZERO_SHA) != expected:
        raise RefMoved(f"The branch is at {tip or 'no commit'}, not at {expected}.")


def must_not_be_blocked(plan: Plan) -> None:
    """`PlanBlocked` that names each conflict."""
    if plan.is_blocked:
        raise PlanBlocked(
            "The plan has conflicts; nothing was written. A dry run shows the whole plan.",
            issues=[{"key": step.path, "message": step.reason} for step in plan.conflicts],
        )


# -- ending it ------------------------------------------------------------------------------------


def _close_written(
    instance: Instance, workspace: Workspace, job: Job, target: str, sha: Sha
) -> None:
    """The commit is where it belongs: ask for the sync that publishes it, and end the job."""
    now = instance.now()
    with instance.database.write() as db:
        current = workspaces.lock_workspace(db, workspace.id)
        sync_id = None
        if current.state is WorkspaceState.ACTIVE:
            sync_id = triggers.ask(db, current, Trigger.PUSH, now=now, lifts="backoff")
            if triggers.is_followed(current, target):
                commits.announce_commit(
                    db,
                    workspace.id,
                    sha,
                    branch=target,
                    delivery_id=None,
                    sync_id=sync_id,
                    now=now,
                )
        jobs.close_job(db, job, state=JobState.DONE, now=now, outcome=job.outcome, sync_id=sync_id)
        data = {"job": job.id, "branch": short(target), "commit_sha": sha}
        events.add_event(db, "change.committed", data, workspace_id=workspace.id, now=now)
    instance.at("apply.closed")
    instance.wake(workspace.id)


def _close_refused(instance: Instance, job: Job, error: AuthenticationFailed) -> None:
    """The credential may read and not write: the caller gets a patch instead."""
    outcome = {**(job.outcome or {}), "outcome": "patch", "written": False, "reason": error.message}
    with instance.database.write() as db:
        jobs.close_job(db, job, state=JobState.DONE, now=instance.now(), outcome=outcome)


def _fail(instance: Instance, job: Job, error: GitSyncError, *, is_resumed: bool) -> None:
    """Tell in the job why it ended, or when it is tried again."""
    if instance.stopping.is_set():
        return  # the next start goes on with it
    now = instance.now()
    noted = {"code": error.code, "message": error.message, "transient": error.transient}
    with instance.database.read() as db:
        is_unsure = is_resumed or jobs.get_job(db, None, job.id).commit_sha is not None
    log.warning(
        "change failed workspace=%s job=%d code=%s message=%s",
        job.workspace_id,
        job.id,
        error.code,
        error.message,
    )
    waits = error.transient and not isinstance(error, RefMoved) and is_unsure
    try:
        with instance.database.write() as db:
            if waits and job.attempts < MOST_ATTEMPTS:
                seconds = min(instance.settings.backoff_max_s, 2.0**job.attempts)
                later = now + timedelta(seconds=seconds)
                jobs.postpone_job(db, job, not_before=later, error=noted)
            else:
                jobs.close_job(db, job, state=JobState.FAILED, now=now, error=noted)
    except turns.TurnLost:
        log.info("job taken over job=%d", job.id)


def finish_open(instance: Instance) -> int:
    """Go on with jobs that nobody works on: their server died, or a remote was away."""
    done = 0
    with instance.database.read() as db:
        due = jobs.due_jobs(db, now=instance.now())
    for job_id in due:
        if instance.stopping.is_set():
            break
        try:
            run_job(instance, job_id, is_resumed=True)
            done += 1
        except GitSyncError as e:
            log.info("job not finished job=%d code=%s", job_id, e.code)
    return done


def described(planned: Planned, base: Sha | None) -> dict[str, Any]:
    """What all answers about a plan have."""
    return {
        **planned.plan.to_json(),
        "base_sha": base,
        "findings": [finding.to_json() for finding in planned.findings],
        "diffs": [],
        "next_steps": [],
        "patch": None,
        "reason": None,
    }
