"""Starts on PostgreSQL, where other servers may be alive beside the one that was killed."""

from __future__ import annotations

import json
import time

import pytest

from gitsync.store import objects, turns
from tests.live import live_server, workspace_files
from tests.postgres import fresh_postgres

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


@pytest.fixture
def url():
    with fresh_postgres() as found:
        yield found.replace("postgresql+psycopg", "postgresql")


def _request(live, boot: str, key: str) -> None:
    caller = live.get("/whoami")["user"]["id"]
    with live.running.instance.database.write() as db:
        objects.begin_idempotent(
            db,
            user_id=caller,
            method="POST",
            path="/api/v1/workspaces",
            key=key,
            body_hash="0" * 64,
            boot=boot,
            now=live.running.instance.now(),
        )


def test_a_start_ends_what_its_own_dead_servers_did_and_nothing_else(tmp_path, url):
    key = {"secret_keys": ("k" * 43 + "=",), "turn_lease_s": 3600.0}
    with live_server(tmp_path / "ours", database_url=url, **key) as live:
        dead, other = live.create()["id"], live.create()["id"]
        database = live.running.instance.database
        live.running.engine.stop()
        staging = live.running.instance.staging.parent
        with database.write() as db:
            for workspace_id, boot in ((dead, "boot_dead"), (other, "boot_alive")):
                turns.bump(db, workspace_id)
                assert turns.take(db, workspace_id, owner=boot, lease_s=3600)
        _request(live, "boot_dead", "k1")
        _request(live, "boot_alive", "k2")
    (staging / "boot_dead").mkdir()
    (staging / "boot_dead" / "half.tar").write_bytes(b"half")
    with live_server(tmp_path / "ours", database_url=url, **key) as live:
        end = time.monotonic() + 10
        while (live.get(f"/workspaces/{dead}") or {})["last_look_at"] is None:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert not (staging / "boot_dead").exists()
        with live.running.instance.database.write() as db:
            assert turns.take(db, other, owner="boot_third", lease_s=1) is None  # it is alive
        body = json.dumps({"name": "again"}).encode()
        headers = {"Content-Type": "application/json"}
        one = live.call(
            "POST", "/workspaces", content=body, headers={**headers, "Idempotency-Key": "k1"}
        )
        two = live.call(
            "POST", "/workspaces", content=body, headers={**headers, "Idempotency-Key": "k2"}
        )
        assert one.status_code == 201 and two.status_code == 409, (one.text, two.text)


def test_two_servers_on_one_database(tmp_path, url):
    """Each with its own folder and a shared store: a start of one disturbs no work of the other."""
    key = {
        "secret_keys": ("k" * 43 + "=",),
        "artifact_store": str(tmp_path / "shared"),
    }
    (tmp_path / "shared").mkdir()
    with live_server(tmp_path / "one", database_url=url, **key) as one:
        workspace = one.create()
        checkout = one.checkout(workspace)
        sha = checkout.commit(workspace_files())
        checkout.push("-q", "origin", "main")
        assert one.status(workspace, sha)["state"] == "published"
        with live_server(tmp_path / "two", database_url=url, **key) as two:
            version = two.get(f"/workspaces/{workspace['id']}/versions/{sha}")
            assert version["commit_sha"] == sha
            digest = version["rollouts"][0]["digest"]
            path = f"/workspaces/{workspace['id']}/artifacts/{digest}.tar"
            assert two.call("GET", path).content == one.call("GET", path).content
            sha = checkout.commit({"n.md": "1"})
            checkout.push("-q", "origin", "main")
            assert one.status(workspace, sha)["state"] == "published"
        assert one.get(f"/workspaces/{workspace['id']}/versions/{sha}")["commit_sha"] == sha
