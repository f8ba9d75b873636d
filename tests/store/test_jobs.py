"""Jobs: owned by one worker at a time, found again by their request, ended once."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from gitsync.errors import NotFound
from gitsync.model import Identity, Signature
from gitsync.records import JobState
from gitsync.store import RowExists, jobs, workspaces
from gitsync.store.turns import TurnLost
from tests.store.conftest import NOW

AUTHOR = Signature("Robin", "robin@example.com", 1_700_000_000, 60)
ASKED = {"name": "apply", "starter": "x", "parameters": {"text": "a\0b\udce9"}}
SHA, OTHER = "a" * 40, "b" * 40


@pytest.fixture
def workspace(database):
    with database.write() as db:
        return workspaces.add_workspace(
            db,
            name="one",
            identity=Identity("one", "x"),
            provider="embedded",
            clone_url=None,
            watch="default",
            chosen_branch=None,
            created_by=None,
            settings={},
            next_poll_at=None,
            now=NOW,
        ).id


def add(database, workspace, **more):
    with database.write() as db:
        given = {"operation": ASKED, "author": AUTHOR, "now": NOW, **more}
        return jobs.add_job(db, workspace, **given)


def take(database, job_id, owner="boot-1", lease_s=60.0):
    with database.write() as db:
        return jobs.take_job(db, job_id, owner=owner, lease_s=lease_s)


def test_a_job_goes_its_way(database, workspace):
    job_id = add(database, workspace, request_key="k", branch="refs/heads/x", message="m")
    job = take(database, job_id)
    assert (job.operation, job.author, job.attempts) == (ASKED, AUTHOR, 1)
    assert take(database, job_id, owner="boot-2") is None
    with database.write() as db:
        assert jobs.due_jobs(db, now=NOW) == []
        noted = {"outcome": "committed"}
        jobs.note_commit(
            db, job, target="refs/heads/x", base_sha=SHA, commit_sha=OTHER, outcome=noted
        )
        jobs.close_job(db, job, state=JobState.DONE, now=NOW, sync_id=7)
        found = jobs.find_by_request(db, workspace, "k")
        assert found == jobs.get_job(db, workspace, job_id)
        assert (found.state, found.commit_sha, found.outcome) == (JobState.DONE, OTHER, noted)
        with pytest.raises(TurnLost):
            jobs.close_job(db, job, state=JobState.FAILED, now=NOW)
        with pytest.raises(NotFound):
            jobs.get_job(db, "ws_other", job_id)
    assert take(database, job_id) is None


def test_a_lease_ends_and_its_worker_writes_no_more(database, workspace):
    job_id = add(database, workspace)
    late = take(database, job_id, lease_s=0.05)
    time.sleep(0.2)
    with database.read() as db:
        assert jobs.due_jobs(db, now=NOW) == [job_id]
    now = take(database, job_id, owner="boot-2")
    assert now.attempts == 2
    for job, is_mine in ((late, False), (now, True)):
        with database.write() as db:
            try:
                jobs.close_job(db, job, state=JobState.DONE, now=NOW)
                assert is_mine
            except TurnLost:
                assert not is_mine


def test_a_heartbeat_keeps_the_lease(database, workspace):
    job = take(database, add(database, workspace), lease_s=0.1)
    with database.write() as db:
        jobs.renew_job(db, job, lease_s=60)
    time.sleep(0.2)
    assert take(database, job.id, owner="boot-2") is None


def test_jobs_wait_are_released_and_forgotten(database, workspace):
    later = NOW + timedelta(seconds=5)
    young, waiting = add(database, workspace, not_before=later), add(database, workspace)
    job = take(database, waiting)
    with database.write() as db:
        jobs.postpone_job(db, job, not_before=later, error={"code": "X", "message": "m"})
        assert jobs.due_jobs(db, now=NOW) == []
        assert jobs.due_jobs(db, now=later) == [young, waiting]
    take(database, waiting)
    with database.write() as db:
        assert jobs.release_jobs(db, None) == 1
        assert jobs.due_jobs(db, now=NOW) == [young, waiting], "a start goes on at once"
        page = jobs.list_jobs(db, workspace, limit=1, after=None)
        assert [j.id for j in page.items] == [waiting] and page.has_more
        assert jobs.drop_jobs(db, before=later) == 0, "open ones stay"
    job = take(database, young)
    with database.write() as db:
        jobs.close_job(db, job, state=JobState.FAILED, now=NOW, error={"code": "X"})
        assert jobs.drop_jobs(db, before=later) == 1


def test_a_request_is_one_job(database, workspace):
    first = add(database, workspace, request_key="k")
    with pytest.raises(RowExists):
        add(database, workspace, request_key="k")
    with database.write() as db:
        jobs.forget_request(db, first)
    assert add(database, workspace, request_key="k") != first
    assert add(database, workspace) and add(database, workspace)
