"""Kills around changes that gitsync itself commits: one commit or none, nobody else's is lost.

The numbers are those of `tests/hostile/crash_points.md`.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing, suppress

import httpx
import pytest

from gitsync.git.objects import open_commit
from gitsync.template.lock import read_lock
from gitsync.template.plan import side_of
from tests.crash.scene import EmbeddedScene, Scene
from tests.crash.service import eventually
from tests.hostile_runs import kit

pytestmark = pytest.mark.slow  # CI and `make test-all` run it

# point: the kit's number for it
POINTS = {
    "apply.checked": "A1",
    "apply.stored": "A2",
    "apply.planning": "A3",
    "apply.written": "A4",
    "apply.committed": "A5",
    "apply.pushed": "A8",
    "apply.closed": "A11",
}
BEFORE_THE_PUSH = list(POINTS)[:5]
APPLY = ("templates/minimal-local/apply", {"rollout": "chess"})
INSTALL = ("skills/install", {"skills": ["plan-training", "plan-eval"]})


class Asking:
    """A change that is asked for, and what must hold of it afterwards."""

    def __init__(
        self, scene: Scene, what=APPLY, subject: str = "Apply minimal-local", key: str = "the-one"
    ) -> None:
        self.scene, self.subject = scene, subject
        self.headers = {"Idempotency-Key": key}
        self.path = f"/workspaces/{scene.workspace['id']}/{what[0]}"
        self.body = what[1]

    def send(self) -> httpx.Response:
        """Ask, and wait for the answer."""
        return self.scene.service.call("POST", self.path, json=self.body, headers=self.headers)

    def send_later(self) -> threading.Thread:
        """Ask from a thread: the server will be killed before it answers."""

        def ask() -> None:
            with suppress(httpx.HTTPError):
                self.send()

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        return thread

    def stop_at(self, point: str) -> threading.Thread:
        """Ask, and wait until the server stands at the point."""
        self.scene.service.arm(point)
        thread = self.send_later()
        assert self.scene.service.reached() == point, f"{point} was not reached"
        return thread

    def jobs(self) -> list[dict]:
        return self.scene.service.get(f"/workspaces/{self.scene.workspace['id']}/jobs")["items"]

    def ended(self) -> dict:
        """The job once nobody works on it any more."""
        return eventually(
            lambda: (found := self.jobs()) and found[0]["state"] != "open" and found[0],
            seconds=40,
            what=lambda: f"the job ends: {self.jobs()}",
        )

    def ours(self) -> list[str]:
        """The commits on the branch that are this change."""
        fetch(self.scene)
        said = self.scene.origin.git("log", "--format=%H %s", "origin/main")
        return [line[:40] for line in said.splitlines() if line[41:].startswith(self.subject)]

    def check_done(self, *, jobs: int = 1, quietly: bool = True) -> str:
        """Exactly one commit, a job that is done, the same answer again; the commit's sha."""
        scene = self.scene
        again = self.send()
        assert again.status_code == 200, again.text
        sha = again.json()["commit_sha"]
        assert self.ours() == [sha], "I10: one commit, once"
        job = self.ended()
        assert (job["state"], job["commit_sha"]) == ("done", sha) and len(self.jobs()) == jobs
        assert self.send().json() == again.json(), "I11: the same answer"
        scene.check(tip=scene.tip())
        with closing(scene.database()) as db:
            left = "SELECT id FROM jobs WHERE owner IS NOT NULL OR state = 'open'"
            assert db.execute(left).fetchall() == [], "I6"
        if quietly:
            scene.restart_quietly()
        return sha


def fetch(scene: Scene) -> None:
    """What the branch has comes to the working copy, whose commits the scene knows."""
    if isinstance(scene, EmbeddedScene):
        where = f"{scene.repository}"
        scene.origin.git("fetch", "-q", where, "+refs/heads/main:refs/remotes/origin/main")
    else:
        scene.origin.git("fetch", "-q", "origin")


@pytest.fixture
def host(tmp_path):
    """An honest Git host that takes pushes."""
    root = tmp_path / "root"
    root.mkdir()
    with kit.Host(root, allow_push=True) as found:
        yield found


class WritableScene(Scene):
    """An external repository that the workspace may write to."""

    def begin(self) -> None:
        self.move("commit")
        self.workspace = self.service.connect(
            "demo",
            self.host.url_of("acme/demo.git"),
            provider="github",
            identity="acme/demo",
            credential={"kind": "token", "secret": "gitsync-test-token"},
        )

    def push_beside(self, files: dict[str, str] | None = None) -> str:
        """Somebody else's commit on top of what the remote has; its sha."""
        self.origin.git("fetch", "-q", "origin")
        self.origin.git("reset", "-q", "--hard", "origin/main")
        self.origin.commit(files or {"NOTES.md": "mine\n"}, message="Theirs")
        return self.origin.push("HEAD:refs/heads/main")

    def hook(self, name: str) -> None:
        """The remote's hook waits while the file `hold` is there, and says so with `held`."""
        hook = self.origin.path / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        (self.origin.path / "hold").touch()
        hook.write_text(
            f"#!/bin/sh\ncd {self.origin.path}\ntouch held\n"
            "n=0; while [ -e hold ] && [ $n -lt 600 ]; do n=$((n+1)); sleep 0.05; done\n"
        )
        hook.chmod(0o755)

    def release(self) -> None:
        """The hook ends, and is gone for the next push."""
        (self.origin.path / "hold").unlink()
        for hook in (self.origin.path / "hooks").glob("*-receive"):
            hook.unlink()


@pytest.fixture
def scene(tmp_path, host):
    with WritableScene(tmp_path, host) as found:
        yield found


def kill_at(scene: Scene, point: str, *, group: bool, what=APPLY, subject="Apply") -> Asking:
    asking = Asking(scene, what, subject)
    before = scene.tip()
    thread = asking.stop_at(point)
    left = scene.kill(group=group)
    thread.join(20)
    if point in BEFORE_THE_PUSH:
        assert scene.tip() == before
    scene.service.start()
    scene.wait_gone(left)
    return asking


def test_a_kill_between_commit_and_push_is_survived(scene):
    asking = kill_at(scene, "apply.committed", group=True)
    written = asking.ended()["commit_sha"]  # goes on by itself, without the client
    assert asking.check_done() == written


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("group", [True, False])
def test_a_kill_at_a_named_point_leaves_one_commit(scene, point, group):
    asking = kill_at(scene, point, group=group)
    if point == "apply.checked":
        assert asking.jobs() == [], "A1: nothing was promised"
    else:
        assert asking.ended()["state"] == "done"
    asking.check_done()


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_the_same_on_the_embedded_host(embedded, point):
    asking = kill_at(embedded, point, group=True)
    if point != "apply.checked":
        assert asking.ended()["state"] == "done"
    embedded.accepted = asking.check_done()
    # and whoever pushes next finds it in the way, as it should be
    embedded.origin.git("reset", "-q", "--hard", "origin/main")
    embedded.move("commit")
    embedded.check()


@pytest.mark.slow
@pytest.mark.parametrize("group", [True, False])
def test_a6_a_kill_while_the_remote_has_not_applied_the_push(scene, group):
    asking = Asking(scene)
    scene.hook("pre-receive")
    thread = asking.send_later()
    eventually(lambda: (scene.origin.path / "held").exists(), what="the push is there")
    left = scene.kill(group=group)
    thread.join(20)
    scene.release()
    scene.service.start()
    scene.wait_gone(left)
    asking.check_done()


@pytest.mark.slow
@pytest.mark.parametrize("group", [True, False])
def test_a7_a_kill_after_the_remote_applied_the_push(scene, group):
    asking = Asking(scene)
    before = scene.tip()
    scene.hook("post-receive")
    thread = asking.send_later()
    eventually(lambda: (scene.origin.path / "held").exists(), what="the push is applied")
    applied = scene.tip()
    assert applied != before
    left = scene.kill(group=group)
    thread.join(20)
    scene.release()
    scene.service.start()
    scene.wait_gone(left)
    assert asking.check_done() == applied, "no conflict with ourselves"


@pytest.mark.slow
def test_a7_somebody_pushes_on_top_of_ours_before_the_restart(scene):
    asking = Asking(scene)
    thread = asking.stop_at("apply.pushed")
    scene.kill(group=True)
    thread.join(20)
    theirs = scene.push_beside()
    scene.service.start()
    assert asking.ended()["state"] == "done"
    asking.check_done()
    assert scene.tip() == theirs


@pytest.mark.slow
@pytest.mark.parametrize("point", BEFORE_THE_PUSH[1:])
def test_a9_somebody_else_was_first(scene, point):
    asking = Asking(scene)
    thread = asking.stop_at(point)
    scene.kill(group=True)
    thread.join(20)
    theirs = scene.push_beside()
    scene.service.start()
    assert asking.ended()["state"] == "done"
    ours = asking.check_done()
    assert scene.origin.git("rev-parse", f"{ours}^") == theirs, "on top of theirs"


@pytest.mark.slow
def test_a9_the_plan_does_not_fit_any_more(scene):
    asking = Asking(scene)
    thread = asking.stop_at("apply.committed")
    scene.kill(group=True)
    thread.join(20)
    theirs = scene.push_beside({"rollouts/chess/main.py": "print('mine')\n"})
    scene.service.start()
    job = asking.ended()
    assert (job["state"], job["error"]["code"]) == ("failed", "PLAN_BLOCKED")
    assert scene.tip() == theirs and asking.ours() == []
    assert asking.send().json()["code"] == "PLAN_BLOCKED"


@pytest.mark.slow
@pytest.mark.parametrize("status, code", [(404, "REPOSITORY_NOT_FOUND"), (500, "")])
def test_a10_the_remote_is_gone_before_the_restart(scene, status, code):
    asking = Asking(scene)
    thread = asking.stop_at("apply.committed")
    scene.kill(group=True)
    thread.join(20)
    scene.host.before = lambda _request: status
    scene.service.start()
    job = asking.ended()
    assert job["state"] == "failed" and job["error"]["message"]
    assert not code or job["error"]["code"] == code
    assert job["attempts"] <= 8, "I12: it stops retrying"
    scene.host.before = None
    asking.check_done(jobs=2)  # what failed may be asked for again


@pytest.mark.slow
def test_kills_at_random_moments_leave_one_commit_each(scene):
    seed = 20_261_129
    chance = random.Random(seed)
    for number in range(5):
        what = (APPLY[0], {"rollout": f"chess-{number}"})
        asking = Asking(scene, what, f"Apply minimal-local as rollout chess-{number}", f"k{number}")
        thread = asking.send_later()
        time.sleep(chance.uniform(0.0, 0.6))
        left = scene.kill(group=number % 2 == 0)
        thread.join(20)
        scene.service.start()
        scene.wait_gone(left)
        try:
            asking.check_done(jobs=number + 1, quietly=number == 4)
        except AssertionError as e:
            raise AssertionError(f"seed {seed} run {number}: {e}") from e


def check_skills(scene: Scene, sha: str) -> None:
    """S1, S2: folders, links and lock are of one piece."""
    fetch(scene)
    tree = open_commit(scene.origin.work / ".git", sha)
    names = {e.name for e in tree.children(".agents/skills")}
    assert names == set(INSTALL[1]["skills"])
    assert {e.name for e in tree.children(".claude/skills")} == names
    lock = read_lock(tree)
    assert {s.name for s in lock.selection.skills} == names
    for path, locked in lock.files.items():
        side = side_of(tree, path)
        assert side is not None and (side.kind, side.blob) == (locked.kind, locked.blob), path


@pytest.mark.slow
@pytest.mark.parametrize("point", ["apply.planning", "apply.written", "apply.committed"])
def test_s1_s2_skills_come_with_their_links_and_lock(scene, point):
    asking = kill_at(scene, point, group=True, what=INSTALL, subject="Install")
    assert asking.ended()["state"] == "done"
    check_skills(scene, asking.check_done())
