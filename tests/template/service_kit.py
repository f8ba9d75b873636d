"""A server with embedded and external workspaces for the tests of changes that it commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gitsync import quickstart
from gitsync.settings import Settings
from gitsync.template import workspace_files
from gitsync.web.server import start
from tests.hostile_runs import kit
from tests.live import QUIET, Checkout, Live, git


@dataclass
class Stage:
    """The server, a Git host that takes pushes, and what happens at the server's points."""

    live: Live
    host: kit.Host
    points: dict[str, Callable[[], None]] = field(default_factory=dict)
    count: int = 0

    def embedded(self, *starters: str) -> Place:
        """A workspace on the embedded host with these starters, published."""
        workspace = self.live.create()
        checkout = self.live.checkout(workspace)
        return self._filled(workspace, checkout, starters)

    def external(self, *starters: str, credential: bool = True) -> Place:
        """The same on the Git host."""
        self.count += 1
        name = f"r{self.count}"
        bare = self.host.root / f"{name}.git"
        git(self.host.root, "init", "-q", "--bare", "-b", "main", str(bare))
        checkout = Checkout.new(self.live.scratch / f"external-{name}", str(bare))
        connect: dict[str, Any] = {"clone_url": self.host.url_of(f"{name}.git")}
        if credential:
            connect["credential"] = {"kind": "token", "secret": "gitsync-test-token"}
        self._lay_out(checkout, starters)
        workspace = self.live.create(name=f"team {name}", provider="generic", connect=connect)
        place = Place(self.live, workspace, checkout)
        place.sync()
        return place

    def _filled(self, workspace: dict, checkout: Checkout, starters: tuple[str, ...]) -> Place:
        sha = self._lay_out(checkout, starters)
        assert self.live.status(workspace, sha)["state"] == "published"
        return Place(self.live, workspace, checkout)

    def _lay_out(self, checkout: Checkout, starters: tuple[str, ...]) -> str:
        from tests.template.builders import lay_out

        lay_out(checkout.path, workspace_files(list(starters)))
        sha = checkout.commit({}, "First")
        checkout.push("origin", "HEAD:refs/heads/main")
        return sha


@dataclass
class Place:
    """One workspace, and a checkout of its repository."""

    live: Live
    workspace: dict[str, Any]
    checkout: Checkout

    @property
    def path(self) -> str:
        return f"/workspaces/{self.workspace['id']}"

    def ask(self, where: str, body: Any = None, status: int = 200, **more: Any) -> Any:
        """POST below the workspace."""
        return self.live.post(f"{self.path}/{where}", body or {}, status, **more)

    def apply(self, rollout: str, status: int = 200, **more: Any) -> Any:
        """Apply the smallest starter."""
        body = {"rollout": rollout, **more}
        return self.ask("templates/minimal-local/apply", body, status)

    def get(self, where: str) -> Any:
        return self.live.get(f"{self.path}/{where}")

    def sync(self) -> None:
        asked = self.live.post(f"{self.path}/sync")["sync_id"]
        assert self.get(f"syncs/{asked}?wait=30")["outcome"] in {"published", "unchanged"}

    def head(self, branch: str = "main") -> str:
        """The tip where the repository really is."""
        said = git(self.checkout.path, "ls-remote", "origin", f"refs/heads/{branch}").stdout
        return said.split("\t")[0]

    def pull(self) -> str:
        """Bring the checkout up to date; its HEAD."""
        git(self.checkout.path, "fetch", "-q", "origin")
        git(self.checkout.path, "reset", "-q", "--hard", "origin/main")
        return self.checkout.head()

    def push(self, files: dict[str, Any], message: str = "Theirs") -> str:
        """Somebody else's commit on top of what is there; its sha."""
        self.pull()
        sha = self.checkout.commit(files, message)
        self.checkout.push("origin", "HEAD:refs/heads/main")
        return sha

    def published(self, sha: str) -> None:
        assert self.live.status(self.workspace, sha)["state"] == "published"


@contextmanager
def stage(folder: Path, **more: Any) -> Iterator[Stage]:
    """Start, use, stop."""
    root, scratch = folder / "root", folder / "scratch"
    root.mkdir()
    scratch.mkdir()
    points: dict[str, Callable[[], None]] = {}

    def at(point: str) -> None:
        if action := points.pop(point, None):
            action()

    with kit.Host(root, allow_push=True) as host:
        settings = {**QUIET, "data_dir": folder / "data", "backoff_max_s": 0.5, **more}
        allowed = (f"127.0.0.1:{host.port}",)
        running = start(Settings(**settings, allowed_hosts=allowed), at=at)
        try:
            token = quickstart.prepare_admin(running.instance)
            yield Stage(Live(running, token, folder / "data", scratch), host, points)
        finally:
            running.stop()
