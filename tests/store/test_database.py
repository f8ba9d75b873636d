from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from gitsync.errors import ConfigError, StoreError
from gitsync.model import Identity
from gitsync.records import Trigger, WorkspaceState
from gitsync.store import Database, Sealer, events, migrate, syncs, turns, workspaces
from gitsync.store.database import FairLock
from gitsync.store.tables import facts, metadata
from gitsync.store.tables import workspaces as table

from .conftest import NOW


def add(database, name="team", **more):
    values = dict(
        name=name,
        identity=Identity.parse(f"acme/{name}"),
        provider="generic",
        clone_url="http://127.0.0.1/x.git",
        watch="default",
        chosen_branch=None,
        created_by=None,
        settings={},
        next_poll_at=NOW,
        now=NOW,
    )
    with database.write() as db:
        return workspaces.add_workspace(db, **(values | more))


def get(database, workspace):
    with database.read() as db:
        return workspaces.get_workspace(db, workspace.id)


def test_the_migrations_make_exactly_the_tables(database):
    assert migrate.differences(database) == []
    assert migrate.check_integrity(database) == []


def test_an_upgrade_of_a_current_schema_does_nothing(database):
    assert migrate.upgrade(database, now=NOW) is None


def test_a_newer_schema_is_refused(database):
    with database.write() as db:
        db.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match="9999"):
        migrate.upgrade(database, now=NOW)


def test_an_interrupted_upgrade_leaves_nothing_behind(tmp_path, monkeypatch):
    database = Database(f"sqlite:///{tmp_path / 'x.db'}")
    original = metadata.tables["users"]
    from alembic.operations import Operations

    real = Operations.create_table

    def failing(self, name, *args, **more):
        if name == original.name:
            raise RuntimeError("cut")
        return real(self, name, *args, **more)

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr("alembic.op.create_table", lambda *a, **k: failing(_operations(), *a, **k))
        migrate.upgrade(database, now=NOW)
    with database.read() as db:
        assert sa.inspect(db).get_table_names() == []
    migrate.upgrade(database, now=NOW)
    assert migrate.differences(database) == []
    database.close()


def _operations():
    from alembic import op

    return op._proxy


def test_four_hundred_concurrent_bumps_are_four_hundred(database):
    workspace = add(database)
    seen: list[int] = []

    def work() -> None:
        for _ in range(50):
            with database.write() as db:
                before = db.execute(sa.select(table.c.requested)).scalar_one()
                seen.append(before)
                turns.bump(db, workspace.id)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert get(database, workspace).requested == 400
    if database.is_sqlite:
        assert sorted(seen) == list(range(400)), "read and write are one step on SQLite"


def test_urgent_waiters_go_first_but_not_for_ever():
    lock, order, ready = FairLock(), [], threading.Semaphore(0)

    def wait(name: str, urgent: bool) -> None:
        ready.release()
        with lock.held(urgent=urgent):
            order.append(name)

    threads = []
    with lock.held():
        for name in ("a", "b", *(f"u{n}" for n in range(10))):
            threads.append(threading.Thread(target=wait, args=(name, name[0] == "u")))
            threads[-1].start()
            ready.acquire()
            while sum(map(len, lock._waiting)) < len(threads):
                threading.Event().wait(0.001)
    for thread in threads:
        thread.join(10)
    usual = [name for name in order if name[0] != "u"]
    assert usual == ["a", "b"] and [n for n in order if n[0] == "u"] == [f"u{n}" for n in range(10)]
    assert order.index("a") == lock.IN_A_ROW - 1
    with lock.held():
        pass


def test_a_failing_write_leaves_nothing(database):
    with pytest.raises(RuntimeError), database.write() as db:
        db.execute(facts.insert().values(name="x", value=1))
        raise RuntimeError
    with database.read() as db:
        assert db.execute(sa.select(facts)).all() == []


def test_an_error_shows_no_values(database):
    with pytest.raises(sa.exc.DBAPIError) as failed, database.write() as db:
        db.execute(sa.text("INSERT INTO nowhere VALUES (:value)"), {"value": "sk-hidden"})
    assert "nowhere" in str(failed.value) and "sk-hidden" not in str(failed.value)


def test_times_come_back_to_the_microsecond(database):
    workspace = add(database)
    assert get(database, workspace).created_at == NOW


def test_only_one_of_two_owners_gets_the_turn(database):
    workspace = add(database)
    with database.write() as db:
        assert turns.take(db, workspace.id, owner="a", lease_s=60) is None, "nothing is owed"
        turns.bump(db, workspace.id)
    with database.write() as db:
        first = turns.take(db, workspace.id, owner="a", lease_s=60)
    with database.write() as db:
        assert turns.take(db, workspace.id, owner="b", lease_s=60) is None
        turns.guard(db, first)
        turns.finish(db, first, now=NOW)
    with database.write() as db:
        assert turns.take(db, workspace.id, owner="b", lease_s=60) is None, "all done"


def test_a_bump_during_a_turn_is_not_lost(database):
    workspace = add(database)
    with database.write() as db:
        turns.bump(db, workspace.id)
        turn = turns.take(db, workspace.id, owner="a", lease_s=60)
        turns.bump(db, workspace.id)
        turns.finish(db, turn, now=NOW)
        assert turns.due(db, limit=10) == [workspace.id]
        assert turns.take(db, workspace.id, owner="a", lease_s=60) is not None


def test_an_expired_lease_is_taken_and_the_old_owner_is_fenced(database):
    workspace = add(database)
    with database.write() as db:
        turns.bump(db, workspace.id)
        old = turns.take(db, workspace.id, owner="a", lease_s=-1)
        new = turns.take(db, workspace.id, owner="b", lease_s=60)
        assert new is not None and new.fence > old.fence
        turns.guard(db, new)
    with pytest.raises(turns.TurnLost), database.write() as db:
        turns.guard(db, old)


@pytest.mark.parametrize("state", [WorkspaceState.SUSPENDED, WorkspaceState.DISCONNECTED])
def test_a_change_of_state_fences_the_running_turn(database, state):
    workspace = add(database)
    with database.write() as db:
        turns.bump(db, workspace.id)
        turn = turns.take(db, workspace.id, owner="a", lease_s=60)
        workspaces.set_state(db, workspace.id, state)
    with pytest.raises(turns.TurnLost), database.write() as db:
        turns.guard(db, turn)
    with database.write() as db:
        assert turns.bump(db, workspace.id) is None


@pytest.mark.parametrize(
    ("hold", "lifts", "stays"),
    [
        (None, "nothing", True),
        (None, "backoff", False),
        (None, "credential", False),
        (turns.HOLD_CREDENTIAL, "backoff", True),
        (turns.HOLD_CREDENTIAL, "credential", False),
        (turns.HOLD_RETRY_AFTER, "backoff", True),
        (turns.HOLD_RETRY_AFTER, "credential", True),
    ],
)
def test_which_trigger_ends_which_pause(database, hold, lifts, stays):
    workspace = add(database)
    with database.write() as db:
        turns.bump(db, workspace.id)
        turn = turns.take(db, workspace.id, owner="a", lease_s=60)
        turns.postpone(db, turn, seconds=600, now=NOW, hold=hold)
        turns.bump(db, workspace.id, lifts=lifts)
        assert (turns.due(db, limit=1) == []) is stays
        wait = turns.seconds_to_next(db)
        assert (wait is not None and 590 < wait < 601) is stays


def test_stuck_means_owed_for_long_with_nothing_in_the_way(database):
    workspace = add(database)
    with database.write() as db:
        assert turns.stuck(db, older_than=timedelta(seconds=-1)) == []
        turns.bump(db, workspace.id)
        assert turns.stuck(db, older_than=timedelta(seconds=-1)) == [workspace.id]
        assert turns.stuck(db, older_than=timedelta(seconds=60)) == []
        turn = turns.take(db, workspace.id, owner="a", lease_s=60)
        assert turns.stuck(db, older_than=timedelta(seconds=-1)) == []
        turns.finish(db, turn, now=NOW)
        assert turns.stuck(db, older_than=timedelta(seconds=-1)) == []


def test_requests_share_the_waiting_sync_and_a_turn_adopts_all_open_ones(database):
    workspace = add(database)
    with database.write() as db:
        first = syncs.ask_sync(db, workspace.id, trigger=Trigger.MANUAL, now=NOW)
        assert syncs.ask_sync(db, workspace.id, trigger=Trigger.WEBHOOK, now=NOW) == first
        assert [s.id for s in syncs.begin_syncs(db, workspace.id, fence=1, now=NOW)] == [first]
        second = syncs.ask_sync(db, workspace.id, trigger=Trigger.WEBHOOK, now=NOW)
        assert second != first
        adopted = syncs.begin_syncs(db, workspace.id, fence=2, now=NOW)
        assert [s.id for s in adopted] == [first, second]


def test_event_ids_grow_in_commit_order(database):
    """A later transaction that commits first must not hide an earlier one (decision 34)."""
    order = _two_writers(database)
    assert order == sorted(order)


def _two_writers(database):
    started, seen = threading.Event(), []

    def slow() -> None:
        with database.write() as db:
            events.add_event(db, "slow", {}, workspace_id=None, now=NOW)
            started.set()
            threading.Event().wait(0.2)

    thread = threading.Thread(target=slow)
    thread.start()
    started.wait(5)
    with database.write() as db:
        events.add_event(db, "fast", {}, workspace_id=None, now=NOW)
    with database.read() as db:
        seen = [e.id for e in events.events_after(db, 0, workspaces=None, limit=10)]
        assert [e.type for e in events.events_after(db, 0, workspaces=None, limit=10)] == [
            "slow",
            "fast",
        ]
    thread.join(5)
    return seen


def test_event_ids_do_not_come_back(database):
    with database.write() as db:
        for _ in range(3):
            events.add_event(db, "x", {}, workspace_id=None, now=NOW)
    with database.write() as db:
        assert events.drop_events(db, before=NOW + timedelta(days=1)) == 2
        events.add_event(db, "y", {}, workspace_id=None, now=NOW)
        assert events.last_event_id(db) == 4


KEY_A, KEY_B = "a" * 40, "b" * 40


def test_a_sealed_secret_opens_only_in_its_place_and_after_rotation():
    old = Sealer([KEY_A])
    sealed = old.seal("hunter2", "credentials/ws_1/sealed")
    assert "hunter2" not in sealed
    rotated = Sealer([KEY_B, KEY_A])
    assert rotated.open(sealed, "credentials/ws_1/sealed") == b"hunter2"
    assert not rotated.is_current(sealed) and old.is_current(sealed)
    with pytest.raises(ConfigError, match="moved or altered"):
        rotated.open(sealed, "credentials/ws_2/sealed")
    with pytest.raises(ConfigError, match=old.key_ids[0]):
        Sealer([KEY_B]).open(sealed, "credentials/ws_1/sealed")


def test_short_or_missing_keys_are_named():
    with pytest.raises(ConfigError, match="Key 2"):
        Sealer([KEY_A, "short"])
    with pytest.raises(ConfigError, match="empty"):
        Sealer([])


def test_the_clock_of_the_database_is_now(database):
    from gitsync.store.tables import clock

    with database.read() as db:
        found = db.execute(sa.select(clock())).scalar_one()
    assert abs(found - datetime.now(UTC)) < timedelta(seconds=5)
