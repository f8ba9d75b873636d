"""A running server for tests, and the few moves every story makes: push, call, wait.

Everything goes through the doors a user has: HTTP, the CLI and real `git push`.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from gitsync import quickstart
from gitsync.settings import Settings
from gitsync.web.server import Running, start

QUIET = {
    "host": "127.0.0.1",
    "port": 0,
    "check_processes": 1,
    "concurrent_syncs": 4,
    "poll_interval_s": 3600.0,
    "submits_per_minute": 10_000,
}

GOOD_MAIN = """\
from osmosis_ai.rollout import AgentWorkflow, Grader, LocalBackend
from osmosis_ai.rollout.server import create_rollout_server


class EchoFlow(AgentWorkflow):
    async def run(self, ctx):
        return [*ctx.prompt, {"role": "assistant", "content": "#### 4"}]


class EchoScore(Grader):
    async def grade(self, ctx):
        ctx.set_reward(1.0)


def main():
    import uvicorn

    backend = LocalBackend(workflow=EchoFlow, grader=EchoScore)
    uvicorn.run(create_rollout_server(backend=backend), host="0.0.0.0", port=8000)


if __name__ == "__main__":
    main()
"""

# the same without its grader: the finding is no-grader
NO_GRADER = GOOD_MAIN.replace("class EchoScore(Grader):", "class EchoScore:")

PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.12"
dependencies = ["osmosis-ai[server]>=0.3.8,<0.4", "uvicorn"]

[tool.setuptools]
py-modules = ["main"]
"""

EVAL = """\
[experiment]
rollout = "{name}"
entrypoint = "main.py"
model_path = "openai/gpt-5-mini"
dataset = "sums"

[secrets]
required = ["OPENAI_API_KEY"]
"""

TRAIN = """\
[experiment]
rollout = "{name}"
entrypoint = "main.py"
model_path = "Qwen/Qwen3.6-35B-A3B"
dataset = "sums"
"""


def workspace_files(**rollouts: str) -> dict[str, str]:
    """A whole valid workspace; keyword arguments are rollouts and their `main.py`."""
    files = {
        "AGENTS.md": "# Rules\n",
        "CLAUDE.md": "@AGENTS.md\n",
        "configs/AGENTS.md": "# Configs\n",
        ".gitignore": ".venv/\n__pycache__/\n.env\n",
        "data/sums.jsonl": "".join(
            f'{{"user_prompt": "{n}+{n}?", "ground_truth": "{2 * n}"}}\n' for n in range(6)
        ),
        "configs/eval/.gitkeep": "",
        "configs/training/.gitkeep": "",
        "rollouts/.gitkeep": "",
    }
    for name, source in (rollouts or {"demo": GOOD_MAIN}).items():
        files |= {
            f"rollouts/{name}/main.py": source,
            f"rollouts/{name}/pyproject.toml": PYPROJECT.format(name=name),
            f"configs/eval/{name}.toml": EVAL.format(name=name),
            f"configs/training/{name}.toml": TRAIN.format(name=name),
        }
    return files


def git(folder: Path, *args: str, check: bool = True, **env: str) -> subprocess.CompletedProcess:
    """Run the real git; output as text, stderr included in failures."""
    done = subprocess.run(
        ["git", *args],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "no_proxy": "*", **env},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=120,
    )
    if check and done.returncode:
        raise AssertionError(f"git {' '.join(args)}: {done.stderr}")
    return done


@dataclass
class Checkout:
    """A working copy that pushes to a URL."""

    path: Path
    url: str

    @classmethod
    def new(cls, path: Path, url: str, branch: str = "main") -> Checkout:
        path.mkdir(parents=True)
        git(path, "init", "--quiet", f"--initial-branch={branch}")
        git(path, "remote", "add", "origin", url)
        return cls(path, url)

    def commit(self, files: Mapping[str, str | bytes | None], message: str = "Change") -> str:
        """Write (or remove) files and commit them; the new sha."""
        for name, content in files.items():
            target = self.path / name
            if content is None:
                git(self.path, "rm", "--quiet", "-r", name)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        git(self.path, "add", "--all")
        git(self.path, "commit", "--quiet", "--allow-empty", "-m", message)
        return self.head()

    def head(self) -> str:
        return git(self.path, "rev-parse", "HEAD").stdout.strip()

    def push(self, *args: str, check: bool = True) -> subprocess.CompletedProcess:
        return git(self.path, "push", *(args or ("origin", "HEAD")), check=check)


@dataclass
class Live:
    """A server that runs in this process, and an administrator's token."""

    running: Running
    token: str
    data_dir: Path
    scratch: Path
    _count: int = field(default=0)

    @property
    def url(self) -> str:
        return self.running.url

    def call(
        self, method: str, path: str, *, token: str | None = None, **more: Any
    ) -> httpx.Response:
        """One API request; `path` below /api/v1 unless it starts with `//`."""
        url = self.url + (path[1:] if path.startswith("//") else f"/api/v1{path}")
        headers = {"Authorization": f"Bearer {token or self.token}"} | more.pop("headers", {})
        # verify=False: the URL is plain http, and reading all CA certificates takes 18 ms a call
        return httpx.request(
            method, url, headers=headers, timeout=90, trust_env=False, verify=False, **more
        )

    def get(self, path: str, **more: Any) -> Any:
        response = self.call("GET", path, **more)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, path: str, body: Any = None, status: int | None = None, **more: Any) -> Any:
        response = self.call("POST", path, json={} if body is None else body, **more)
        assert status is None or response.status_code == status, response.text
        assert status is not None or response.status_code < 300, response.text
        return response.json()

    def create(self, name: str | None = None, **more: Any) -> dict[str, Any]:
        """A new workspace on the embedded host."""
        self._count += 1
        name = name or f"team-{self._count}-{time.time_ns()}"
        return self.post("/workspaces", {"name": name, **more}, status=201)

    def git_url(self, workspace: dict[str, Any], token: str | None = None) -> str:
        """The clone URL with the token in it: only tests do that."""
        return workspace["clone_url"].replace("://", f"://x:{token or self.token}@")

    def checkout(self, workspace: dict[str, Any], branch: str = "main") -> Checkout:
        self._count += 1
        return Checkout.new(
            self.scratch / f"checkout-{self._count}", self.git_url(workspace), branch
        )

    def status(self, workspace: dict[str, Any], sha: str, wait: float = 30) -> dict[str, Any]:
        """Why a commit is live, or not, once that is settled."""
        return self.get(f"/workspaces/{workspace['id']}/commits/{sha}?wait={wait}")

    def user(self, email: str, **more: Any) -> tuple[dict[str, Any], str]:
        """A new person, and the token that their sign-in link gives them."""
        user = self.post("/users", {"email": email, **more}, status=201)
        page = httpx.post(user["login_url"], trust_env=False, verify=False).text
        return user, page.partition('<pre id="token"')[2].partition(">")[2].partition("</pre>")[0]


@contextmanager
def live_server(folder: Path, **settings: Any):
    """Start, use, stop."""
    data_dir, scratch = folder / "data", folder / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    running = start(Settings(**{**QUIET, "data_dir": data_dir, **settings}))
    try:
        yield Live(running, quickstart.prepare_admin(running.instance), data_dir, scratch)
    finally:
        running.stop()
