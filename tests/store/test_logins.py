"""Identities, sessions, devices and names of rollouts, on both databases."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from gitsync.errors import Conflict
from gitsync.model import Identity
from gitsync.store import RowExists, devices, identities, listing, people, sessions, workspaces
from tests.store.conftest import NOW


def add(database, name: str, identity: str) -> str:
    with database.write() as db:
        return workspaces.add_workspace(
            db,
            name=name,
            identity=Identity.parse(identity),
            provider="embedded",
            clone_url=None,
            watch="default",
            chosen_branch=None,
            created_by=None,
            settings={},
            next_poll_at=None,
            now=NOW,
        ).id


def at_once(*moves) -> list[str]:
    """Several threads, started together; what each met."""
    start, met = threading.Barrier(len(moves)), [""] * len(moves)

    def run(position: int) -> None:
        start.wait()
        try:
            met[position] = moves[position]() or "done"
        except (Conflict, RowExists):
            met[position] = "conflict"

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(moves))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return met


def test_an_identity_has_one_owner_however_many_reach_for_it(database):
    """One gives it up as an alias while others take it: it never has two owners."""
    ids = [add(database, f"w{n}", f"w{n}--local/r") for n in range(4)]

    def change(workspace_id: str, identity: str):
        def move() -> None:
            with database.write() as db:
                workspaces.change_identity(db, workspace_id, Identity.parse(identity), now=NOW)

        return move

    wanted = "Wanted--local/r"
    assert sorted(at_once(*(change(i, wanted) for i in ids))) == ["conflict"] * 3 + ["done"]
    with database.read() as db:
        owner = workspaces.find_by_identity(db, wanted.upper().lower())
    assert owner is not None and owner.identity == wanted
    others = [i for i in ids if i != owner.id]
    moves = [change(owner.id, "away--local/r"), *(change(i, wanted) for i in others)]
    assert at_once(*moves) == ["done", "conflict", "conflict", "conflict"]
    with database.read() as db:
        assert workspaces.find_by_identity(db, wanted).id == owner.id
    with database.write() as db:
        identities.release(db, workspaces.get_workspace(db, owner.id), Identity.parse(wanted))
    assert sorted(at_once(*(change(i, wanted) for i in others))) == ["conflict"] * 2 + ["done"]


def test_an_approved_device_gets_its_token_once(database):
    with database.write() as db:
        user = people.add_user(db, email="a@example.com", name="", is_admin=False, now=NOW)
        device, code = devices.add_device_login(
            db, device_name="l\0ptop", agent="", address="", now=NOW
        )
        assert devices.decide(db, code, user_id=user.id, is_approved=True, now=NOW)
        assert not devices.decide(db, code, user_id=user.id, is_approved=False, now=NOW)

    def poll() -> str:
        with database.write() as db:
            return devices.poll(db, device, now=NOW)[0]

    assert sorted(at_once(*[poll] * 4)) == ["approved", "expired", "expired", "expired"]
    with database.write() as db:
        assert devices.drop_device_logins(db, before=NOW + timedelta(days=1)) == 1


def test_sessions_end_one_by_one_and_all_but_one(database):
    with database.write() as db:
        user = people.add_user(db, email="a@example.com", name="", is_admin=False, now=NOW)
        made = [
            sessions.add_session(db, user.id, how="link", agent="b\0t", address="::1", now=NOW)
            for _ in range(4)
        ]
        sessions.end_session(db, user.id, made[0][0].id, now=NOW)
        sessions.end_session(db, user.id, made[0][0].id, now=NOW)
        assert len(sessions.list_sessions(db, user.id, now=NOW)) == 3
        sessions.end_all(db, user.id, now=NOW, but=made[1][0].id)
        assert [s.id for s in sessions.list_sessions(db, user.id, now=NOW)] == [made[1][0].id]
        found = [sessions.find_session(db, secret, now=NOW) for _, secret in made]
        assert [each is not None for each in found] == [False, True, False, False]
        with pytest.raises(Exception, match="no such session"):
            sessions.end_session(db, "us_somebody_else", made[1][0].id, now=NOW)


def test_a_rollout_keeps_the_day_it_was_first_published(database):
    workspace_id = add(database, "w", "w--local/r")
    other = add(database, "x", "x--local/r")
    names = [f"r{n}" for n in range(900)]  # more than one list of parameters
    later = NOW + timedelta(days=1)
    with database.write() as db:
        listing.note_names(db, workspace_id, names[:600], now=NOW)
        listing.note_names(db, workspace_id, [*names, *names], now=later)
        listing.note_names(db, other, names[:1], now=later)
        listing.note_names(db, other, [], now=later)
    with database.read() as db:
        found = listing.first_published(db, workspace_id, names)
        assert listing.first_published(db, other, names) == {"r0": later}
    assert len(found) == 900
    assert {found[n] for n in names[:600]} == {NOW} and {found[n] for n in names[600:]} == {later}
