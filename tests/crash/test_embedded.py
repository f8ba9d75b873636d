"""Kills around pushes to the embedded host: what git accepted is published, nothing blocks."""

from __future__ import annotations

import pytest

from tests.crash.service import eventually
from tests.hostile_runs import kit


def kill_at(scene, point: str, *, group: bool) -> None:
    scene.edit("commit")
    scene.service.arm(point)
    pusher = scene.deliver_later()
    assert scene.service.reached() == point
    left = scene.kill(group=group)
    pusher.join(30)
    scene.service.start()
    scene.wait_gone(left)
    scene.check()
    scene.restart_quietly()
    # and whoever was cut off can push again
    scene.move("commit")
    scene.check()


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["push.before", "push.after", "turn.taken", "inspect.begin", "publish.written"]
)
@pytest.mark.parametrize("group", [True, False])
def test_a_kill_around_a_push(embedded, point, group):
    kill_at(embedded, point, group=group)


@pytest.mark.slow
def test_a_child_that_moves_the_ref_after_its_server_died_is_noticed(embedded):
    """Decision 19: the look that was asked for before the push finds it, or a comparison does."""
    embedded.edit("commit")
    sha = embedded.origin.git("rev-parse", "HEAD")
    embedded.service.arm("push.before")
    pusher = embedded.deliver_later()
    assert embedded.service.reached() == "push.before"
    embedded.kill(group=True)
    pusher.join(30)
    embedded.service.start()
    # as a receive-pack that outlived its server would have done, after the restart
    embedded.origin.git("push", "-q", str(embedded.repository), "+HEAD:refs/heads/main")
    eventually(lambda: embedded.service.served(embedded.workspace) == sha, seconds=30)
    embedded.accepted = sha
    embedded.check()


def test_locks_of_a_killed_push_are_swept_at_the_next_start(embedded):
    embedded.kill(group=True)
    locks = [
        embedded.repository / "HEAD.lock",
        embedded.repository / "refs/heads/main.lock",
        embedded.repository / "objects/pack/tmp_pack_abc",
    ]
    for lock in locks:
        lock.write_bytes(b"")
    half_made = embedded.repository.with_name(f".{embedded.repository.name}.half")
    half_made.mkdir()
    embedded.service.start()
    assert not [path for path in (*locks, half_made) if path.exists()]
    embedded.move("commit")
    embedded.check()


@pytest.mark.slow
def test_a_lost_embedded_repository_comes_back_from_its_packs(embedded):
    first = embedded.accepted
    embedded.move("commit")
    embedded.check()
    embedded.kill(group=True)
    kit.shutil.rmtree(embedded.repository)
    embedded.service.start()
    embedded.service.sync(embedded.workspace)
    assert embedded.tip() == embedded.accepted
    kit.git(f"--git-dir={embedded.repository}", "cat-file", "-e", first)
    embedded.check()
