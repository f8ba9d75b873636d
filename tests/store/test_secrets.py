"""Secrets of a workspace and of a person, on both databases."""

from __future__ import annotations

import pytest

from gitsync.errors import ConfigError
from gitsync.model import Identity
from gitsync.store import Sealer, people, rekey, secrets, workspaces
from gitsync.store.seal import new_key
from tests.store.conftest import NOW

OLD, NEW = new_key(), new_key()


@pytest.fixture
def scene(database):
    """A workspace and two people."""
    with database.write() as db:
        ids = [
            people.add_user(db, email=f"{n}@example.com", name=n, is_admin=False, now=NOW).id
            for n in ("ada", "bob")
        ]
        workspace = workspaces.add_workspace(
            db,
            name="team",
            identity=Identity.parse("team--local/rollouts"),
            provider="embedded",
            clone_url=None,
            watch="default",
            chosen_branch=None,
            created_by=ids[0],
            settings={},
            next_poll_at=None,
            now=NOW,
        )
    return workspace.id, *ids


def put(database, workspace_id, user_id, scope, name, value, key=OLD):
    with database.write() as db:
        return secrets.put_secret(
            db,
            Sealer([key]),
            workspace_id,
            scope=scope,
            user_id=user_id,
            name=name,
            value=value,
            now=NOW,
        )


def test_personal_secrets_win_and_belong_to_one_person(database, scene):
    workspace, ada, bob = scene
    put(database, workspace, ada, "workspace", "KEY", "all's")
    put(database, workspace, ada, "workspace", "OTHER", "all's too")
    put(database, workspace, ada, "user", "KEY", "ada's")
    put(database, workspace, bob, "user", "OWN", "bob's")
    names = ["KEY", "OTHER", "OWN", "MISSING"]
    with database.read() as db:
        hers = secrets.resolve_secrets(db, workspace, ada, names)
        his = secrets.resolve_secrets(db, workspace, bob, names)
        nobodys = secrets.resolve_secrets(db, workspace, None, names)
        opened = secrets.open_secrets(db, Sealer([OLD]), workspace, ada, hers)
    assert hers == {"KEY": "user_override", "OTHER": "workspace"}
    assert his == {"KEY": "workspace", "OTHER": "workspace", "OWN": "user"}
    assert nobodys == {"KEY": "workspace", "OTHER": "workspace"}
    assert opened == {"KEY": "ada's", "OTHER": "all's too"}


def test_a_list_never_shows_another_persons_secrets(database, scene):
    workspace, ada, bob = scene
    for user in (ada, bob):
        put(database, workspace, user, "user", "KEY", "x")
    put(database, workspace, ada, "workspace", "KEY", "x")
    with database.read() as db:
        for user in (ada, bob):
            for scope, expected in (("all", 2), ("workspace", 1), ("user", 1)):
                found, total = secrets.list_secrets(
                    db, workspace, user_id=user, scope=scope, limit=50, offset=0
                )
                assert (len(found), total) == (expected, expected)
                assert all(s.scope == "workspace" or s.created_by == user for s in found)
        first = secrets.page_secrets(db, workspace, user_id=ada, scope="all", limit=1, after=None)
        rest = secrets.page_secrets(
            db, workspace, user_id=ada, scope="all", limit=1, after=first.next
        )
    assert [s.scope for s in (*first.items, *rest.items)] == ["workspace", "user"]
    assert rest.next is None


def test_setting_again_replaces_and_tells_who_did_it(database, scene):
    workspace, ada, bob = scene
    first, is_new = put(database, workspace, ada, "workspace", "KEY", "one")
    again, is_new_again = put(database, workspace, bob, "workspace", "KEY", "two")
    assert (is_new, is_new_again) == (True, False)
    assert (again.id, again.creator_name, again.updater_name) == (first.id, "ada", "bob")
    with database.read() as db:
        opened = secrets.open_secrets(db, Sealer([OLD]), workspace, ada, {"KEY": "workspace"})
    assert opened == {"KEY": "two"}


def test_deleting_touches_one_scope(database, scene):
    workspace, ada, _ = scene
    put(database, workspace, ada, "workspace", "KEY", "x")
    put(database, workspace, ada, "user", "KEY", "x")
    with database.write() as db:
        args = {"scope": "user", "user_id": ada, "name": "KEY"}
        assert secrets.delete_secret(db, workspace, **args)
        assert not secrets.delete_secret(db, workspace, **args)
        assert secrets.resolve_secrets(db, workspace, ada, ["KEY"]) == {"KEY": "workspace"}


def test_rekey_reaches_secrets(database, scene):
    workspace, ada, _ = scene
    put(database, workspace, ada, "user", "KEY", "value")
    assert rekey.rekey(database, Sealer([NEW, OLD])) == 1
    with database.read() as db:
        got = secrets.open_secrets(db, Sealer([NEW]), workspace, ada, {"KEY": "user"})
        assert got == {"KEY": "value"}
        with pytest.raises(ConfigError, match="does not hold"):
            secrets.open_secrets(db, Sealer([OLD]), workspace, ada, {"KEY": "user"})


def test_a_member_who_leaves_takes_personal_secrets_along(database, scene):
    workspace, ada, bob = scene
    put(database, workspace, bob, "user", "KEY", "x")
    with database.write() as db:
        people.set_member(db, workspace, ada, people.Role.OWNER, now=NOW)
        people.set_member(db, workspace, bob, people.Role.MEMBER, now=NOW)
        people.remove_member(db, workspace, bob)
        assert secrets.resolve_secrets(db, workspace, bob, ["KEY"]) == {}
