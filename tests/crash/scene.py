"""A workspace at work on a real remote, killed and started again; what must hold afterwards.

The invariants are those of `tests/hostile` (crash points), by their ids.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tests.crash.service import Service, eventually, family, state
from tests.hostile_runs import kit
from tests.live import GOOD_MAIN

import webhook_clients as hooks  # isort: skip (from the folder that the kit puts on the path)

IDLE_S = 60.0
SETTINGS = {
    "turn_lease_s": 8.0,
    "backoff_max_s": 1.0,
    "fetch_deadline_s": 20.0,
    "embedded_compare_s": 1.0,
}
# rows of these may differ after a start that had nothing to do
_VOLATILE = {"tokens", "git_children", "facts"}


class Scene:
    """One service, one external workspace with a webhook; knows what was promised to whom."""

    finds_by_itself = False  # what no webhook told is found by the next poll or person

    def __init__(self, folder: Path, host: kit.Host, **settings: Any) -> None:
        self.folder, self.host = folder, host
        (host.root / "acme").mkdir()
        self.origin = kit.Origin(host.root / "acme", "demo")
        allowed = [f"127.0.0.1:{host.port}"]
        self.service = Service(
            folder / "service", allowed_hosts=allowed, **{**SETTINGS, **settings}
        )
        self.published: dict[str, str] = {}  # sha to digest of its content, once seen
        self.promised: set[int] = set()  # delivery rows that were answered with 2xx
        self.workspace: dict[str, Any] = {}
        self._edits = 0

    def __enter__(self) -> Scene:
        self.service.start()
        try:
            self.begin()
            self.check()
        except BaseException:
            self.service.kill()
            raise
        return self

    def begin(self) -> None:
        """Connect the repository with its first commit."""
        self.move("commit")
        self.workspace = self.service.connect(
            "demo", self.host.url_of("acme/demo.git"), provider="github", identity="acme/demo"
        )

    def __exit__(self, *_: object) -> None:
        self.service.__exit__()

    # -- the remote
    def move(self, how: str) -> str:
        """Change the remote: `commit`, `force`, `unrelated`; the new tip."""
        self.edit(how)
        return self.origin.push("+HEAD:refs/heads/main")

    def edit(self, how: str) -> str:
        """The same in the working copy alone."""
        origin = self.origin
        self._edits += 1
        if how == "force" and int(origin.git("rev-list", "--count", "HEAD")) > 1:
            origin.git("reset", "-q", "--hard", "HEAD~1")
        if how == "unrelated":
            origin.git("checkout", "-q", "--orphan", f"o{self._edits}")
        return origin.commit({"rollouts/demo/main.py": GOOD_MAIN + f"# {self._edits}\n"})

    def tip(self) -> str:
        """What the remote serves."""
        return self.origin.bare("rev-parse", "refs/heads/main")

    def deliver(self) -> int | None:
        """Announce the tip as GitHub does; the status, None if no answer came."""
        target = hooks.Target(
            self.workspace["webhook"]["url"],
            self.workspace["webhook"]["secret"],
            clone_url=self.host.url_of("acme/demo.git"),
            after=self.tip(),
        )
        item = hooks.delivery(target, hooks.payload(target), number=random.getrandbits(38))
        where = urlsplit(target.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
        try:
            connection.request("POST", where.path, body=item.body, headers=item.headers)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        if answer.status < 300:
            self.promised.add(json.loads(body)["id"])
        return answer.status

    def deliver_later(self) -> threading.Thread:
        """The same from a thread: the server may be killed before it answers."""
        thread = threading.Thread(target=self.deliver, daemon=True)
        thread.start()
        return thread

    # -- what holds when idle
    def check(self, *, tip: str | None = None) -> None:
        """Wait until idle, then every invariant."""
        service = self.service
        begun = time.monotonic()
        now = service.idle(self.workspace, seconds=IDLE_S)
        tip = tip or self.tip()
        if self._served(now) != tip and self.finds_by_itself:
            eventually(lambda: self.service.served(self.workspace) == tip, seconds=IDLE_S)
            now = service.idle(self.workspace, seconds=IDLE_S)
        if self._served(now) != tip:
            # nothing was promised for this commit: the next poll or person finds it (I1)
            assert not self._was_promised(tip), f"I1: {tip} was announced, {now} is served"
            service.sync(self.workspace)
            now = service.idle(self.workspace, seconds=IDLE_S)
        assert self._served(now) == tip, f"I4: {now} is served, the remote has {tip}"
        assert now["last_error"] is None
        assert time.monotonic() - begun < IDLE_S
        self._versions()
        self._rows()
        self._files()

    def _served(self, workspace: dict[str, Any]) -> str | None:
        found = {b["name"]: b["published_sha"] for b in workspace["branches"]}
        return found.get("main")

    def _was_promised(self, sha: str) -> bool:
        with closing(self.database()) as db:
            rows = db.execute(f"SELECT id FROM deliveries WHERE after_sha = '{sha}'").fetchall()
        return bool(self.promised & {row[0] for row in rows})

    def _versions(self) -> None:
        """I2, I3: each version is complete and equals its commit's tree; old ones stay the same."""
        listed, after = set(), ""
        while True:
            page = self.service.get(f"/workspaces/{self.workspace['id']}/versions?limit=200{after}")
            listed |= {v["commit_sha"] for v in page["items"]}
            if not page["has_more"]:
                break
            after = f"&after={page['next']}"
        assert self.published.keys() <= listed, "I3: a version is gone"
        fresh = listed - self.published.keys()
        old = random.sample(sorted(self.published), min(2, len(self.published)))
        for sha in [*fresh, *old]:
            content = self.content(sha)
            assert content == self.committed(sha), f"I2: {sha} is not its commit's tree"
            manifest = self.service.get(f"/workspaces/{self.workspace['id']}/versions/{sha}")
            rollouts = {r["name"]: (r["verdict"], r["digest"]) for r in manifest["rollouts"]}
            assert rollouts["demo"][0] == "ok", f"I2: {rollouts}"
            for _, digest in rollouts.values():
                path = f"/workspaces/{self.workspace['id']}/artifacts/{digest}.tar"
                data = self.service.call("GET", path).content
                assert hashlib.sha256(data).hexdigest() == digest, f"I2: artifact of {sha}"
            mark = hashlib.sha256(repr((content, rollouts)).encode()).hexdigest()
            assert self.published.setdefault(sha, mark) == mark, f"I3: {sha} changed"

    def content(self, sha: str) -> dict[str, tuple[str, str]]:
        """Mode and digest by path as published."""
        path = f"/workspaces/{self.workspace['id']}/versions/{sha}/archive.tar.gz"
        answer = self.service.call("GET", path)
        assert answer.status_code == 200, f"I3: {sha} cannot be read: {answer.text}"
        return kit.tar_content(answer.content)

    def committed(self, sha: str) -> dict[str, tuple[str, str]]:
        """The same as git has it."""
        found = {}
        for line in self.origin.git("ls-tree", "-r", "-z", sha).split("\0"):
            if line:
                head, path = line.split("\t")
                mode, _, oid = head.split(" ")
                # the working copy holds the bytes of the commits that this scene makes
                data = kit.raw_blob(self.origin.work, oid)
                if mode == "120000":
                    found[path] = ("link", data.decode())
                else:
                    found[path] = (mode[-3:], hashlib.sha256(data).hexdigest())
        return found

    @property
    def postgres(self) -> str | None:
        """The URL of the database, None for the embedded one."""
        return self.service.settings.get("database_url")

    def database(self) -> Any:
        """A second, reading connection to the store, of the driver's own kind."""
        if self.postgres is not None:
            return psycopg.connect(self.postgres, autocommit=True)
        return sqlite3.connect(f"file:{self.service.data}/gitsync.db?mode=ro", uri=True)

    def _rows(self) -> None:
        """I1, I5, I6, I9 in the rows themselves."""
        with closing(self.database()) as db:

            def all_of(query: str) -> list[tuple[Any, ...]]:
                return db.execute(query).fetchall()

            if self.postgres is None:
                assert all_of("PRAGMA integrity_check") == [("ok",)], "I9"
                assert all_of("PRAGMA foreign_key_check") == [], "I9"
            assert len(all_of("SELECT * FROM alembic_version")) == 1, "I9"
            for table, columns in (
                ("versions", "workspace_id, commit_sha"),
                ("rollout_versions", "version_id, name"),
                ("assessments", "workspace_id, content_key, entrypoint, options, fingerprint"),
                ("packs", "workspace_id, object_key"),
            ):
                query = f"SELECT {columns} FROM {table} GROUP BY {columns} HAVING count(*) > 1"
                assert all_of(query) == [], f"I5: doubled rows in {table}"
            orphans = (
                "SELECT id FROM rollout_versions WHERE version_id NOT IN (SELECT id FROM versions)"
            )
            assert all_of(orphans) == [], "I5"
            assert all_of("SELECT id FROM workspaces WHERE owner IS NOT NULL") == [], "I6"
            busy = "SELECT id, status, error FROM syncs WHERE status IN ('pending', 'syncing')"
            assert all_of(busy) == [], "I6"
            waiting = "SELECT sha, state FROM commit_states WHERE state IN ('queued', 'syncing')"
            assert all_of(waiting) == [], "I6"
            unsettled = "SELECT id FROM deliveries WHERE settled_at IS NULL"
            assert all_of(unsettled) == [], "I1"
            stored = {row[0] for row in all_of("SELECT id FROM deliveries")}
            assert self.promised <= stored, "I1: an answered delivery is lost"
            served = (
                "SELECT published_sha FROM branches WHERE published_sha IS NOT NULL AND "
                "published_sha NOT IN (SELECT commit_sha FROM versions)"
            )
            assert all_of(served) == [], "I3: a branch names a version that is not there"
            missing = (
                "SELECT name FROM rollout_versions r LEFT JOIN artifacts a ON a.digest = r.digest "
                "WHERE r.digest IS NOT NULL AND (a.digest IS NULL OR a.state != 'live')"
            )
            assert all_of(missing) == [], "I3: an artifact that a version needs is not live"

    def _files(self) -> None:
        """I7, I8: no leftovers, nothing elsewhere."""
        data = self.service.data
        for repo in [*(data / "mirrors").glob("*.git"), *(data / "repos").glob("*.git")]:
            kit.git(f"--git-dir={repo}", "fsck", "--connectivity-only", "--no-dangling")
            left = [p for p in repo.rglob("*") if p.name.endswith(".lock")]
            left += [p for p in repo.rglob("tmp_*")]
            assert not left, f"I7: {left}"
        for folder in ("mirrors", "repos"):
            half = [p for p in (data / folder).iterdir() if p.name.startswith(".")]
            assert not half, f"I7: {half}"

        def staged() -> list[Path]:
            return [p for p in (data / "staging").rglob("*") if p.is_file()]

        # a pack of an embedded repository follows its publish
        eventually(lambda: not staged(), seconds=10, what=lambda: f"I7: {staged()}")
        assert not list((data / "artifacts").rglob("*#*")), "I7"
        assert not list(self.service.elsewhere.iterdir()), "I8: files outside the data folder"

    def snapshot(self) -> dict[str, Any]:
        """Everything that must not change at a start that has nothing to do."""
        with closing(self.database()) as db:
            names = "SELECT name FROM sqlite_master WHERE type = 'table'"
            if self.postgres is not None:
                names = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            tables = [row[0] for row in db.execute(names)]
            rows = {
                table: sorted(map(repr, db.execute(f"SELECT * FROM {table}").fetchall()))
                for table in tables
                if table not in _VOLATILE
            }
        folder = self.service.data / "artifacts"
        files = {str(p.relative_to(folder)): p.stat().st_size for p in folder.rglob("*.*")}
        return {"rows": rows, "files": files, "requests": self.host.count("")}

    def restart_quietly(self) -> None:
        """Start once more: nothing may change, no request may be made."""
        before = self.snapshot()
        for _ in range(20):  # a pack of an embedded repository follows its publish
            time.sleep(0.3)
            earlier, before = before, self.snapshot()
            if before == earlier:
                break
        self.service.stop()
        self.service.start()
        self.service.idle(self.workspace)
        time.sleep(0.3)
        after = self.snapshot()
        for table, rows in before["rows"].items():
            assert after["rows"][table] == rows, f"a quiet restart changed {table}"
        assert {**before, "rows": 0} == {**after, "rows": 0}

    def kill(self, *, group: bool) -> list[int]:
        """`kill -9` to all of it, or to the leader alone; what outlives it."""
        left = self.service.kill(group=group)
        self.service.disarm()
        return left

    def busy_git(self) -> bool:
        """True while a git child of the service runs."""
        names = {kit.command(p).split(" ")[0].rpartition("/")[2] for p in family(self.service.pid)}
        return bool(names & {"git", "git-remote-http"})

    def wait_gone(self, pids: list[int], *, seconds: float = 30.0) -> None:
        """Until processes that outlived their server are gone."""
        eventually(
            lambda: not [p for p in pids if state(p) not in ("", "Z")],
            seconds=seconds,
            what=lambda: str([kit.command(p) for p in pids]),
        )


class EmbeddedScene(Scene):
    """The same with a workspace on the embedded host: real pushes, which the kills interrupt."""

    finds_by_itself = True  # the server compares its own repositories with its rows

    def begin(self) -> None:
        self.workspace = self.service.post("/workspaces", {"name": "demo"})
        url = self.workspace["clone_url"].replace("://", f"://x:{self.service.token}@")
        self.origin.git("remote", "set-url", "origin", url)
        self.accepted = ""
        self.move("commit")

    @property
    def repository(self) -> Path:
        """The repository on the server's disk: primary data."""
        return self.service.data / "repos" / f"{self.workspace['id']}.git"

    def move(self, how: str) -> str:
        self.edit(how)
        self.push()
        assert self.accepted == self.origin.git("rev-parse", "HEAD")
        return self.accepted

    def push(self) -> bool:
        """Push HEAD; remembers what the server accepted. False if it was not."""
        sha = self.origin.git("rev-parse", "HEAD")
        try:
            self.origin.push("+HEAD:refs/heads/main")
        except AssertionError:
            return False
        self.accepted = sha
        return True

    def deliver_later(self) -> threading.Thread:
        """A push from a thread: the server may be killed before it is accepted."""
        thread = threading.Thread(target=self.push, daemon=True)
        thread.start()
        return thread

    def tip(self) -> str:
        return kit.git(f"--git-dir={self.repository}", "rev-parse", "refs/heads/main")

    def check(self, *, tip: str | None = None) -> None:
        """Also: what was accepted is still there; nobody's commit was lost."""
        if self.accepted:
            kit.git(f"--git-dir={self.repository}", "cat-file", "-e", self.accepted)
        super().check(tip=tip)
