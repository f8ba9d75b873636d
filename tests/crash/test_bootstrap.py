"""Kills while a workspace is made from the template: it is made once, or taken back whole."""

from __future__ import annotations

import errno
import random
import threading
import time
import uuid
from contextlib import closing, suppress
from itertools import pairwise

import httpx
import pytest

from gitsync.planning import edits
from gitsync.template.catalogue import builtin
from gitsync.template.disk import DiskTree
from gitsync.template.skills import list_skills
from tests.crash.scene import Scene
from tests.crash.service import eventually
from tests.crash.test_recovery import stopped_at
from tests.hostile_runs import kit

# point: the kit's number for it
POINTS = {
    "bootstrap.reserved": "B1",
    "bootstrap.repository": "B2, B3",
    "bootstrap.written": "A4, S1",
    "bootstrap.noted": "A5, S2",
    "bootstrap.moved": "B4, B5",
    "bootstrap.done": "B8, A11",
    "turn.taken": "B8",
    "publish.written": "B8",
}
BODY = {
    "name": "Chess",
    "identity": "chess--local/rollouts",
    "create": {"starters": ["minimal-local"], "skills": ["create-rollouts", "plan-eval"]},
}


class Birth(Scene):
    """A service with no workspace yet, and one request that makes it."""

    finds_by_itself = True

    def __enter__(self) -> Birth:
        self.service.start()
        self.key, self.body = uuid.uuid4().hex, BODY
        return self

    def ask(self) -> httpx.Response:
        return self.service.call(
            "POST", "/workspaces", json=self.body, headers={"Idempotency-Key": self.key}
        )

    def ask_later(self) -> threading.Thread:
        """The request from a thread: the server may be killed before it answers."""

        def ask() -> None:
            with suppress(httpx.HTTPError):
                self.ask()

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        return thread

    def killed_at(self, point: str, *, group: bool = True) -> None:
        self.service.arm(point)
        asker = self.ask_later()
        assert self.service.reached() == point, f"{point} was not reached"
        left = self.kill(group=group)
        asker.join(20)
        self.wait_gone(left)

    @property
    def found(self):
        return self.service.get("/workspaces?limit=200")["items"]

    def settled(self):
        """The workspace once its branch is served; it needed nobody."""
        return eventually(
            lambda: next(
                (w for w in self.found if any(b["published_sha"] for b in w["branches"])), None
            ),
            seconds=30,
            what=lambda: str(self.found),
        )

    @property
    def repository(self):
        return self.service.data / "repos" / f"{self.workspace['id']}.git"

    def check(self, *, tip: str | None = None) -> None:
        """One workspace, one repository, one commit: whole, served, in every answer."""
        self.workspace = self.settled()
        answer = self.ask()
        assert answer.status_code == 201, answer.text
        made = answer.json()
        assert made["id"] == self.workspace["id"], "I11"
        assert [w["id"] for w in self.found] == [made["id"]], "B2: made twice"
        now = self.service.idle(self.workspace)
        (branch,) = now["branches"]
        assert branch["head_sha"] == branch["published_sha"] == made["commit_sha"], "I4"
        assert self.service.ended(made, made["sync_id"])["status"] == "success"
        repositories = list((self.service.data / "repos").glob("*.git"))
        assert repositories == [self.repository], "B2"
        inside = f"--git-dir={self.repository}"
        assert kit.git(inside, "rev-list", "--all", "--count") == "1", "I10"
        assert kit.git(inside, "symbolic-ref", "HEAD") == "refs/heads/main"
        members = self.service.get(f"/workspaces/{made['id']}/members")["items"]
        assert [m["role"] for m in members] == ["owner"], "B9"
        with closing(self.database()) as db:
            assert db.execute("SELECT count(*) FROM webhook_secrets").fetchone() == (1,), "B6"
        self._rows()
        self._files()
        self._whole(made)

    def _whole(self, made) -> None:
        """S1, S2: skills with their links, and the lock as the files are."""
        copy = self.folder / uuid.uuid4().hex
        kit.git("clone", "-q", str(self.repository), str(copy))
        tree = DiskTree(copy)
        assert edits(tree, builtin()) == (), "S2"
        states = [s for s in list_skills(tree, builtin()) if s.is_installed]
        assert [s.name for s in states] == ["create-rollouts", "plan-eval"], "S1"
        assert not [s for s in states if s.missing or s.damage or s.edited], "S1"


@pytest.fixture
def birth(tmp_path, host):
    with Birth(tmp_path, host) as found:
        yield found


def test_a_kill_before_the_first_commit_is_survived(birth):
    birth.killed_at("bootstrap.repository")
    birth.service.start()
    birth.check()


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("who", ["server", "caller"])
def test_kills_at_a_named_point_are_survived(birth, point, who):
    """The server goes on by itself, or whoever repeats the request meets it half-way."""
    birth.killed_at(point, group=who == "server")
    birth.service.start()
    if who == "caller":
        assert birth.ask().status_code == 201
    birth.check()
    birth.restart_quietly()


SSH = {
    "clone_url": "ssh://git@git.example.com/team/rollouts.git",
    "credential": {"kind": "ssh", "generate_key": True},
}
TOKEN = {
    "clone_url": "https://git.example.com/team/rollouts.git",
    "credential": {"kind": "token", "secret": "canary-token-77a1"},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"provider": "generic", "connect": SSH, "identity": "acme--local/ssh"},
        {"provider": "github", "connect": TOKEN, "identity": "acme--local/token"},
    ],
)
def test_what_is_shown_once_is_shown_to_who_repeats_the_request(birth, more):
    """Killed between the workspace's transaction and its answer: no name that is taken."""
    birth.body = {"name": "team", **more}
    birth.killed_at("workspace.created")
    birth.service.start()
    (workspace,) = birth.found
    made = birth.ask()
    assert made.status_code == 201, made.text
    assert made.json()["id"] == workspace["id"] and len(birth.found) == 1
    assert len(made.json()["webhook"]["secret"]) == 64
    assert bool(made.json()["public_key"]) == (more.get("connect") is SSH)
    again = birth.ask()
    assert again.json() == made.json() and again.headers["Idempotent-Replay"] == "true"
    with closing(birth.database()) as db:
        assert db.execute("SELECT count(*) FROM webhook_secrets").fetchone() == (1,)
        assert db.execute("SELECT count(*) FROM credentials").fetchone() == (len(more) > 0,)
    assert "canary-token-77a1" not in birth.service.said()


@pytest.mark.slow
def test_a_key_of_a_dead_server_is_not_taken_for_another_request(birth):
    birth.body = {"name": "team"}
    birth.killed_at("workspace.created")
    birth.service.start()
    for other in ({"name": "team", "watch": "all"}, {"name": "else"}, BODY):
        birth.body = other
        answer = birth.ask()
        assert (answer.status_code, answer.json()["code"]) == (409, "IDEMPOTENCY_MISMATCH"), other


@pytest.mark.slow
def test_killed_again_and_again_it_is_still_made_once(birth):
    points = ("bootstrap.reserved", "bootstrap.written", "bootstrap.moved", "")
    birth.service.arm(points[0])
    asker = birth.ask_later()
    for point, following in pairwise(points):
        assert birth.service.reached() == point
        birth.kill(group=True)
        asker.join(20)
        if following:  # whoever goes on, the server by itself or the caller, comes there
            birth.service.arm(following)
        birth.service.start()
        asker = birth.ask_later()
    asker.join(20)
    birth.check()


@pytest.mark.slow
def test_killed_at_random_moments_each_is_made_once(birth, capsys):
    """Of the leader alone in half of the runs; every second caller repeats at once."""
    chance, met = random.Random(4), 0
    for number in range(8):
        birth.key, birth.body = uuid.uuid4().hex, {**BODY, "name": f"n{number}", "identity": None}
        asker = birth.ask_later()
        time.sleep(chance.uniform(0, 0.12))
        left = birth.kill(group=number % 2 == 0)
        asker.join(20)
        birth.service.start()
        birth.wait_gone(left)
        met += bool(_names(birth) & {f"n{number}"})
        made = birth.ask()
        assert made.status_code == 201, f"seed 4 run {number}: {made.text}"
        status = birth.service.status(made.json(), made.json()["commit_sha"])
        assert status["state"] == "published", f"seed 4 run {number}: {status}"
    with capsys.disabled():
        print(f"\n8 blind kills: {met} after the name was reserved")
    assert _names(birth) == {f"n{number}" for number in range(8)}
    repositories = list((birth.service.data / "repos").glob("*.git"))
    assert len(repositories) == 8
    for repository in repositories:
        assert kit.git(f"--git-dir={repository}", "rev-list", "--all", "--count") == "1"
    for workspace in birth.found:
        birth.workspace = birth.service.idle(workspace)
    birth._rows()
    birth._files()
    birth.restart_quietly()


def _names(birth):
    return {w["name"] for w in birth.found}


@pytest.mark.slow
@pytest.mark.parametrize("ref", ["main", "other"])
def test_b4_a_foreign_commit_is_never_overwritten(birth, ref):
    birth.killed_at("bootstrap.noted")
    (repository,) = (birth.service.data / "repos").glob("*.git")
    foreign = birth.edit("commit")
    birth.origin.git("push", "-q", str(repository), f"HEAD:refs/heads/{ref}")
    birth.service.start()
    answer = eventually(lambda: (a := birth.ask()).status_code == 409 and a)
    assert answer.json()["code"] == "REPOSITORY_NOT_EMPTY"
    inside = f"--git-dir={repository}"
    shown = kit.git(inside, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads")
    assert shown == f"refs/heads/{ref} {foreign}"
    (workspace,) = birth.found
    if ref == "main":
        eventually(lambda: birth.service.served(workspace) == foreign)
    # the row is closed: nothing is tried for ever
    birth.workspace = workspace
    birth.restart_quietly()


@pytest.mark.slow
def test_b4_a_commit_on_top_of_the_first_one_is_kept(birth):
    birth.killed_at("bootstrap.moved")
    (repository,) = (birth.service.data / "repos").glob("*.git")
    copy = birth.folder / "copy"
    kit.git("clone", "-q", str(repository), str(copy))
    kit.git("-C", str(copy), "commit", "-q", "--allow-empty", "-m", "On top")
    kit.git("-C", str(copy), "push", "-q", "origin", "HEAD")
    top = kit.git("-C", str(copy), "rev-parse", "HEAD")
    birth.service.start()
    made = birth.ask().json()
    assert made["commit_sha"] == kit.git("-C", str(copy), "rev-parse", "HEAD~1")
    eventually(lambda: birth.service.served(made) == top)


@pytest.mark.slow
def test_b10_a_kill_while_it_is_taken_back(birth):
    birth.service.arm("bootstrap.reserved")
    asker = birth.ask_later()
    assert birth.service.reached() == "bootstrap.reserved"
    (workspace,) = birth.found
    obstacle = birth.service.data / "repos" / f"{workspace['id']}.git"
    obstacle.write_text("a file where the repository should be")
    birth.service.arm("bootstrap.undone")
    assert birth.service.reached() == "bootstrap.undone"
    birth.kill(group=True)
    asker.join(20)
    obstacle.unlink()
    birth.service.start()
    birth.check()


def free(live) -> None:
    """Nothing is left, and the same request works."""
    assert live.get("/workspaces")["items"] == []
    assert list((live.data_dir / "repos").glob("*.git")) == []


@pytest.mark.slow
@pytest.mark.parametrize("point", ["bootstrap.repository", "bootstrap.written", "bootstrap.noted"])
def test_what_fails_is_taken_back_whole(tmp_path, point):
    broken = True

    def at(name: str) -> None:
        if name == point and broken:
            raise OSError(errno.ENOSPC, "No space left on device")

    with stopped_at(tmp_path, at) as live:
        answer = live.call("POST", "/workspaces", json=BODY)
        assert (answer.status_code, answer.json()["code"]) == (503, "REPOSITORY_UNWRITABLE")
        assert "No space left" in answer.json()["message"]
        free(live)
        broken = False
        made = live.post("/workspaces", BODY, status=201)
        assert live.status(made, made["commit_sha"])["state"] == "published"


@pytest.mark.slow
@pytest.mark.parametrize("point", ["bootstrap.repository", "bootstrap.noted", "bootstrap.moved"])
@pytest.mark.parametrize("deletes", [False, True])
def test_b10_who_cancels_meanwhile_has_the_last_word(tmp_path, point, deletes):
    def at(name: str) -> None:
        if name != point:
            return
        (workspace,) = live.get("/workspaces")["items"]
        live.post(f"/workspaces/{workspace['id']}/disconnect")
        if deletes:
            assert live.call("DELETE", f"/workspaces/{workspace['id']}").status_code == 204

    with stopped_at(tmp_path, at) as live:
        answer = live.call("POST", "/workspaces", json=BODY)
        assert answer.status_code == 409, answer.text
        assert ("deleted" if deletes else "disconnected") in answer.json()["message"]
        if not deletes:
            (workspace,) = live.get("/workspaces")["items"]
            assert workspace["state"] == "disconnected" and not workspace["is_waiting"]
            assert live.call("DELETE", f"/workspaces/{workspace['id']}").status_code == 204
        free(live)


@pytest.mark.slow
def test_a_workspace_that_was_suspended_meanwhile_is_made_and_waits(tmp_path):
    def at(name: str) -> None:
        if name == "bootstrap.noted":
            (workspace,) = live.get("/workspaces")["items"]
            live.post(f"/workspaces/{workspace['id']}/suspend")

    with stopped_at(tmp_path, at) as live:
        answer = live.call("POST", "/workspaces", json=BODY)
        assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
        (workspace,) = live.get("/workspaces")["items"]
        live.post(f"/workspaces/{workspace['id']}/resume")
        eventually(
            lambda: [
                b["published_sha"] for b in live.get(f"/workspaces/{workspace['id']}")["branches"]
            ]
        )
