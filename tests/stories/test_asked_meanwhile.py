"""What is asked for while a look runs belongs to the next turn, and is settled there."""

from __future__ import annotations

import threading

from gitsync import quickstart
from gitsync.settings import Settings
from gitsync.store import workspaces
from gitsync.sync.triggers import Announced, take_delivery
from gitsync.web.server import start
from tests.crash.service import eventually
from tests.live import QUIET, Live, git, workspace_files


def test_a_delivery_during_a_look_that_nobody_announced_is_settled(tmp_path):
    """The look of a waiting reader has no sync yet; the one it makes must not take in others."""
    points: dict[str, object] = {}

    def at(name: str) -> None:
        if name == "look.done" and (during := points.pop("during", None)):
            during()

    (tmp_path / "scratch").mkdir()
    running = start(Settings(**{**QUIET, "data_dir": tmp_path / "data"}), at=at)
    try:
        live = Live(
            running, quickstart.prepare_admin(running.instance), tmp_path / "data", tmp_path
        )
        workspace = live.create()
        checkout = live.checkout(workspace)
        checkout.commit(workspace_files())
        checkout.push()
        assert live.status(workspace, checkout.head())["live"]

        # as a child that outlives its server does: the branch moves and nothing is recorded
        sha = checkout.commit({"README.md": "late\n"})
        path = running.instance.repository_of(workspace["id"], is_embedded=True)
        git(checkout.path, "push", "-q", str(path), "HEAD:refs/heads/main")
        with running.instance.database.read() as db:
            record = workspaces.get_workspace(db, workspace["id"])
        done = threading.Event()

        def deliver() -> None:
            take_delivery(
                running.instance,
                record,
                Announced("during-look", "push", "refs/heads/main", None, sha),
            )
            done.set()

        points["during"] = deliver
        assert live.status(workspace, sha)["live"]
        assert done.wait(10)

        def settled() -> dict | None:
            page = live.get(f"/workspaces/{workspace['id']}/deliveries")
            found = next(d for d in page["items"] if d["delivery_id"] == "during-look")
            return found if found["settled_at"] else None

        assert eventually(settled)["outcome"] == "published"
        syncs = live.get(f"/workspaces/{workspace['id']}/syncs")["items"]
        assert {s["trigger"]: s["outcome"] for s in syncs} == {
            "connect": "waiting",
            "push": "published",
            "poll": "published",
            "webhook": "unchanged",
        }
    finally:
        running.stop()
