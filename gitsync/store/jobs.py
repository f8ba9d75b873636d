"""Jobs: what gitsync was asked to commit, how far it is, and what came of it.

Promise: a job is owned by one worker at a time (a lease by the database's clock); author and time
are fixed when it is added, so that the same plan on the same commit gives the same sha whenever it
is repeated. `commit_sha` is stored before anything is pushed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.errors import NotFound
from gitsync.model import Signature
from gitsync.records import Job, JobState
from gitsync.store.job_tables import jobs
from gitsync.store.rows import Dead, Page, of_dead, page_by_id, record
from gitsync.store.tables import clock
from gitsync.store.turns import TurnLost, later


def add_job(
    db: Connection,
    workspace_id: str,
    *,
    operation: Mapping[str, Any],
    author: Signature,
    now: datetime,
    branch: str | None = None,
    expected_sha: str | None = None,
    message: str | None = None,
    requested_by: str | None = None,
    request_key: str | None = None,
    not_before: datetime | None = None,
) -> int:
    """Remember that a change was asked for; its id. Nobody works on it yet.

    Before `not_before` only who knows the id takes it.
    """
    return int(
        db.execute(
            jobs.insert()
            .values(
                workspace_id=workspace_id,
                request_key=request_key,
                requested_by=requested_by,
                operation=dict(operation),
                branch=branch,
                expected_sha=expected_sha,
                message=message,
                author=asdict(author),
                state=JobState.OPEN.value,
                created_at=now,
                not_before=not_before,
            )
            .returning(jobs.c.id)
        ).scalar_one()
    )


def _job(row: sa.Row[Any]) -> Job:
    return record(Job, row, author=Signature(**row.author))


def get_job(db: Connection, workspace_id: str | None, job_id: int) -> Job:
    """By id, in the workspace if one is given; `NotFound` otherwise."""
    query = sa.select(jobs).where(jobs.c.id == job_id)
    if workspace_id is not None:
        query = query.where(jobs.c.workspace_id == workspace_id)
    row = db.execute(query).first()
    if row is None:
        raise NotFound("There is no such job.")
    return _job(row)


def find_by_request(db: Connection, workspace_id: str, request_key: str) -> Job | None:
    """The job of a request that was made before."""
    row = db.execute(
        sa.select(jobs).where(
            jobs.c.workspace_id == workspace_id, jobs.c.request_key == request_key
        )
    ).first()
    return None if row is None else _job(row)


def forget_request(db: Connection, job_id: int) -> None:
    """The request's key may be used anew."""
    db.execute(jobs.update().where(jobs.c.id == job_id).values(request_key=None))


def list_jobs(db: Connection, workspace_id: str, *, limit: int, after: str | None) -> Page[Job]:
    """Jobs of a workspace, newest first, without their outcomes: a plan can be long."""
    short = [column for column in jobs.c if column is not jobs.c.outcome]
    query = sa.select(*short, sa.null().label("outcome")).where(jobs.c.workspace_id == workspace_id)
    return page_by_id(db, query, jobs.c.id, limit=limit, after=after, build=_job)


def take_job(db: Connection, job_id: int, *, owner: str, lease_s: float) -> Job | None:
    """Take an open job that nobody works on; None if there is nothing to take."""
    row = db.execute(
        jobs.update()
        .where(
            jobs.c.id == job_id,
            jobs.c.state == JobState.OPEN.value,
            sa.or_(jobs.c.owner.is_(None), jobs.c.expires_at <= clock()),
        )
        .values(
            owner=owner,
            expires_at=later(lease_s),
            attempts=jobs.c.attempts + 1,
            not_before=None,
        )
        .returning(jobs)
    ).first()
    return None if row is None else _job(row)


def _mine(job: Job) -> tuple[sa.ColumnElement[bool], ...]:
    # each taking counts as an attempt, so that a worker whose lease ended cannot write any more
    return (
        jobs.c.id == job.id,
        jobs.c.state == JobState.OPEN.value,
        jobs.c.attempts == job.attempts,
    )


def _change(db: Connection, job: Job, **values: Any) -> None:
    changed = db.execute(jobs.update().where(*_mine(job)).values(**values))
    if changed.rowcount != 1:
        raise TurnLost("Another worker took the job over.")


def renew_job(db: Connection, job: Job, *, lease_s: float) -> None:
    """Heartbeat of who works on a job."""
    _change(db, job, expires_at=later(lease_s))


def note_commit(
    db: Connection,
    job: Job,
    *,
    target: str,
    base_sha: str | None,
    commit_sha: str,
    outcome: Mapping[str, Any],
) -> None:
    """The commit is written; from now on it may be at the remote, and then this is the outcome."""
    _change(db, job, target=target, base_sha=base_sha, commit_sha=commit_sha, outcome=dict(outcome))


def postpone_job(
    db: Connection, job: Job, *, not_before: datetime, error: Mapping[str, Any]
) -> None:
    """Let go of the job; it is tried again later."""
    _change(db, job, owner=None, expires_at=None, not_before=not_before, error=dict(error))


def close_job(
    db: Connection,
    job: Job,
    *,
    state: JobState,
    now: datetime,
    outcome: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
    sync_id: int | None = None,
) -> None:
    """The job has ended, well or with a reason."""
    _change(
        db,
        job,
        state=state.value,
        owner=None,
        expires_at=None,
        not_before=None,
        **({} if outcome is None else {"outcome": dict(outcome)}),
        error=None if error is None else dict(error),
        sync_id=sync_id,
        finished_at=now,
    )


def release_jobs(db: Connection, dead: Dead) -> int:
    """At a start: dead servers work on no job, and if all others are, nobody is about to."""
    if dead is None:
        db.execute(
            jobs.update()
            .where(jobs.c.state == JobState.OPEN.value, jobs.c.attempts == 0)
            .values(not_before=None)
        )
    return db.execute(
        jobs.update().where(of_dead(jobs.c.owner, dead)).values(owner=None, expires_at=None)
    ).rowcount


def due_jobs(db: Connection, *, now: datetime, limit: int = 50) -> list[int]:
    """Open jobs that nobody works on and that may be tried now, the oldest first."""
    return list(
        db.execute(
            sa.select(jobs.c.id)
            .where(
                jobs.c.state == JobState.OPEN.value,
                sa.or_(jobs.c.owner.is_(None), jobs.c.expires_at <= clock()),
                sa.or_(jobs.c.not_before.is_(None), jobs.c.not_before <= now),
            )
            .order_by(jobs.c.id)
            .limit(limit)
        ).scalars()
    )


def drop_jobs(db: Connection, *, before: datetime) -> int:
    """Forget jobs that ended long ago."""
    return db.execute(jobs.delete().where(jobs.c.finished_at < before)).rowcount
