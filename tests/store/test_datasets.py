"""Uploads of data sets as rows, on both databases."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from gitsync.data_records import DatasetState
from gitsync.model import Identity
from gitsync.store import dataset_checks, datasets, workspaces
from tests.store.conftest import NOW

LEASE = timedelta(seconds=60)
OPEN = (DatasetState.PENDING, DatasetState.UPLOADING)


@pytest.fixture
def workspace(database):
    with database.write() as db:
        return workspaces.add_workspace(
            db,
            name="team",
            identity=Identity.parse("team--local/rollouts"),
            provider="embedded",
            clone_url=None,
            watch="default",
            chosen_branch=None,
            created_by=None,
            settings={},
            next_poll_at=None,
            now=NOW,
        ).id


def add(db, workspace, *, replaces=None, name="sums", size=10):
    return datasets.add_dataset(
        db,
        workspace,
        name=name,
        format="csv",
        size=size,
        part_size=100,
        total_parts=1,
        replaces=replaces,
        created_by=None,
        expires_at=NOW + timedelta(hours=1),
        now=NOW,
    )


def processing(db, workspace, **more):
    made = add(db, workspace, **more)
    assert datasets.change_state(
        db, made.id, DatasetState.PROCESSING, only_from=OPEN, now=NOW, due_at=None
    )
    return made


def good(db, workspace, **more):
    made = processing(db, workspace, **more)
    assert dataset_checks.claim(db, owner="me", lease=LEASE).id == made.id
    assert dataset_checks.finish(
        db, made.id, owner="me", state=DatasetState.UPLOADED, now=NOW, object_key=f"k/{made.id}"
    )
    return datasets.get_dataset(db, made.id)


def test_a_claim_is_one_process_s_until_it_is_released(database, workspace):
    with database.write() as db:
        made = processing(db, workspace)
        assert dataset_checks.is_due(db)
        first = dataset_checks.claim(db, owner="one", lease=LEASE)
        assert (first.id, first.attempts) == (made.id, 1)
        assert dataset_checks.claim(db, owner="two", lease=LEASE) is None
        assert not dataset_checks.is_due(db)
        assert dataset_checks.renew(db, made.id, owner="one", lease=LEASE)
        assert not dataset_checks.renew(db, made.id, owner="two", lease=LEASE)
        dataset_checks.release(db, made.id, owner="one", pause=timedelta(0), counts=False)
        second = dataset_checks.claim(db, owner="two", lease=LEASE)
        assert (second.id, second.attempts) == (made.id, 1)
        late = {"state": DatasetState.UPLOADED, "now": NOW}
        assert not dataset_checks.finish(db, made.id, owner="one", **late)
        assert dataset_checks.release_claims(db, None) == 1
        assert dataset_checks.claim(db, owner="three", lease=LEASE).attempts == 2


def test_an_ended_lease_frees_the_claim(database, workspace):
    with database.write() as db:
        made = processing(db, workspace)
        dataset_checks.claim(db, owner="dead", lease=timedelta(seconds=-1))
        assert dataset_checks.claim(db, owner="alive", lease=LEASE).id == made.id


def test_a_cancelled_check_writes_nothing(database, workspace):
    with database.write() as db:
        made = processing(db, workspace)
        dataset_checks.claim(db, owner="me", lease=LEASE)
        states = (DatasetState.PROCESSING,)
        datasets.change_state(db, made.id, DatasetState.CANCELLED, only_from=states, now=NOW)
        done = {"owner": "me", "state": DatasetState.UPLOADED, "now": NOW}
        assert not dataset_checks.finish(db, made.id, **done)


def test_claims_at_one_moment_go_to_different_processes(database, workspace):
    with database.write() as db:
        for n in range(4):
            processing(db, workspace, name=f"d{n}")
    got, start = [], threading.Barrier(4)

    def claim(owner: str) -> None:
        start.wait()
        with database.write() as db:
            found = dataset_checks.claim(db, owner=owner, lease=LEASE)
        got.append(found and found.id)

    threads = [threading.Thread(target=claim, args=(f"p{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = [name for name in got if name]
    assert len(taken) == len(set(taken)) == 4


def test_a_name_goes_to_the_new_upload_and_back_to_the_last_good_one(database, workspace):
    with database.write() as db:
        first = good(db, workspace)
        second = add(db, workspace, replaces=first)
        assert datasets.find_dataset(db, workspace, "sums").id == second.id
        assert datasets.find_dataset(db, workspace, first.id).shown_name is None
        assert datasets.give_back_name(db, second).id == first.id
        assert datasets.give_back_name(db, second) is None  # it has no name to give
        third = add(db, workspace, replaces=datasets.get_dataset(db, first.id))
        fourth = add(db, workspace, replaces=third)
        assert datasets.give_back_name(db, fourth).id == first.id
        found, total = datasets.list_datasets(db, workspace, limit=50, offset=0)
        assert ([d.id for d in found], total) == ([first.id], 1)
        assert datasets.names_of(db, workspace) == {"sums"}


def test_bytes_go_when_nobody_can_want_them(database, workspace):
    much_later = NOW + timedelta(days=99)

    def doomed(db, when=much_later) -> list[str]:
        found = dataset_checks.unswept(db, before=when, replaced_before=when, limit=9)
        return [d.id for d in found]

    with database.write() as db:
        first = good(db, workspace)
        second = processing(db, workspace, replaces=first)
        assert doomed(db) == []  # the name may have to be given back
        dataset_checks.claim(db, owner="me", lease=LEASE)
        dataset_checks.finish(db, second.id, owner="me", state=DatasetState.UPLOADED, now=NOW)
        assert doomed(db, NOW - timedelta(seconds=1)) == []
        assert doomed(db) == [first.id]
        dataset_checks.note_swept(db, first.id)
        assert doomed(db) == [] and datasets.total_size(db, workspace) == 10
        datasets.delete_named(db, workspace, "sums", now=NOW)
        assert doomed(db) == [second.id] and datasets.total_size(db, workspace) == 0


def test_a_log_is_read_backwards_page_by_page(database, workspace):
    with database.write() as db:
        made = add(db, workspace)
        for n in range(5):
            datasets.add_log(db, made.id, "info", "upload", f"line {n}\0", now=NOW)
        newest, more = datasets.logs_of(db, made.id, limit=2, before=None)
        older, rest = datasets.logs_of(db, made.id, limit=2, before=more)
        oldest, end = datasets.logs_of(db, made.id, limit=2, before=rest)
    said = [line.message[:6] for page in (oldest, older, newest) for line in page]
    assert said == [f"line {n}" for n in range(5)] and end is None
