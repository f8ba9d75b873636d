"""The main job in one command: a workspace from the template, a push with the real `git`.

Promise: run again on the same data it goes on with what is there, and gives the same token.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from gitsync.errors import ConfigError, GitSyncError
from gitsync.instance import Instance
from gitsync.records import Role
from gitsync.store import people, workspaces
from gitsync.template.catalogue import builtin
from gitsync.template.disk import DiskTree
from gitsync.template.journal import apply_plan
from gitsync.template.selection import use_starter
from gitsync.template.starter import plan_starter

NAME = "demo/rollouts"
IDENTITY = "demo--local/rollouts"
FIRST = "minimal-local"  # the rollout that everybody can run
SECOND = "multiply-local-strands"
EMAIL = "admin@localhost.invalid"
TOKEN_FILE = "quickstart.token"  # noqa: S105 - the name of a file
WAIT_S = 60


class QuickstartFailed(GitSyncError):
    """The first push was not published; the message says why."""

    code = "QUICKSTART_FAILED"


@dataclass(frozen=True, slots=True)
class Ready:
    """What quickstart hands over."""

    workspace: str
    identity: str
    clone_url: str
    api_url: str
    token: str
    commit_sha: str
    state: str
    rollouts: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """The object of `--json`."""
        return {
            "schema_version": 1,
            "workspace": self.workspace,
            "identity": self.identity,
            "clone_url": self.clone_url,
            "api_url": self.api_url,
            "token": self.token,
            "commit_sha": self.commit_sha,
            "state": self.state,
            "rollouts": list(self.rollouts),
        }


def prepare_admin(instance: Instance) -> str:
    """An administrator and a token, kept in the data folder (0600) and used again (decision 37)."""
    path = instance.settings.data_dir / TOKEN_FILE
    now = instance.now()
    if path.exists():
        secret = path.read_text().strip()
        with instance.database.read() as db:
            token = people.find_token(db, secret)
        if token is not None and token.revoked_at is None:
            return secret
        path.unlink()
    with instance.database.write() as db:
        user = people.find_user(db, EMAIL) or people.add_user(
            db, email=EMAIL, name="Administrator", is_admin=True, now=now
        )
        _, secret = people.add_token(db, name="quickstart", user_id=user.id, now=now)
        found = workspaces.find_by_identity(db, IDENTITY)
        if found is not None:
            people.set_member(db, found.id, user.id, Role.OWNER, now=now)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secret + "\n")
    return secret


def run(url: str, token: str) -> Ready:
    """Make the demo workspace from the template, push to it, wait for the version.

    All over HTTP, as anybody would; each step is left out if an earlier run did it.
    """
    api = f"{url}/api/v1"
    with httpx.Client(
        base_url=api, headers={"Authorization": f"Bearer {token}"}, timeout=30, trust_env=False
    ) as http:
        found = _answer(http.get("/workspaces", params={"identity": IDENTITY}))["items"]
        if found:
            workspace = found[0]
            path = f"/workspaces/{workspace['id']}"
            _wait_for_branch(http, path)
        else:
            workspace = _create(http)
            path = f"/workspaces/{workspace['id']}"
            _published(http, path, workspace["commit_sha"])
        versions = _answer(http.get(f"{path}/versions", params={"limit": 2}))
        if versions["total_count"] == 1:
            head = _push(workspace["clone_url"], token)
        elif versions["items"]:
            workspace = _answer(http.get(path))
            live = [b["published_sha"] for b in workspace["branches"] if b["published_sha"]]
            head = live[0] if live else versions["items"][0]["commit_sha"]
        else:
            raise QuickstartFailed(
                f"The workspace {IDENTITY} is there, but nothing of it is published. Look at "
                f"{workspace['url']}, or start anew with another --data-dir."
            )
        status = _published(http, path, head)
    return Ready(
        workspace=workspace["id"],
        identity=workspace["identity"],
        clone_url=workspace["clone_url"],
        api_url=api,
        token=token,
        commit_sha=head,
        state=status["state"],
        rollouts=tuple(
            {"name": r["name"], "verdict": r["verdict"], "digest": r["digest"]}
            for r in status["rollouts"]
        ),
    )


def _create(http: httpx.Client) -> dict[str, Any]:
    """The workspace with its first commit."""
    return _answer(
        http.post(
            "/workspaces",
            json={"name": NAME, "identity": IDENTITY, "create": {"starters": [FIRST]}},
            headers={"Idempotency-Key": f"quickstart-{secrets.token_hex(8)}"},
            timeout=60,
        )
    )


def _wait_for_branch(http: httpx.Client, path: str) -> None:
    """An earlier run may have been killed while it was made: the server goes on by itself."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if any(b["published_sha"] for b in _answer(http.get(path))["branches"]):
            return
        time.sleep(0.1)


def _published(http: httpx.Client, path: str, sha: str) -> dict[str, Any]:
    status = _answer(
        http.get(f"{path}/commits/{sha}", params={"wait": WAIT_S}, timeout=WAIT_S + 15)
    )
    if status["state"] != "published":
        raise QuickstartFailed(
            f"Commit {sha[:12]} is {status['state']}: {status['reason'] or 'no reason given'}"
        )
    return status


def _answer(response: httpx.Response) -> dict[str, Any]:
    body = response.json()
    if response.status_code >= 400:
        raise QuickstartFailed(str(body.get("message", response.text)))
    return dict(body)


def _push(clone_url: str, token: str) -> str:
    """Clone with the real git, add a second starter, commit and push; the new commit."""
    if shutil.which("git") is None:
        raise ConfigError("git is not installed; gitsync needs git 2.39 or newer.")
    helper = (
        'credential.helper=!f() { test "$1" = get && echo username=gitsync && '
        'echo password="$GITSYNC_QUICKSTART_TOKEN"; }; f'
    )
    secret = {"GITSYNC_QUICKSTART_TOKEN": token}
    catalogue = builtin()
    with tempfile.TemporaryDirectory(prefix="gitsync-quickstart-") as scratch:
        folder = Path(scratch) / "rollouts"
        _git(Path(scratch), "-c", helper, "clone", "--quiet", clone_url, folder.name, extra=secret)
        apply_plan(
            folder, plan_starter(DiskTree(folder), catalogue, use_starter(catalogue, SECOND))
        )
        _git(folder, "add", "--all")
        _git(folder, "commit", "--quiet", "--message", f"Add the starter {SECOND}")
        _git(folder, "-c", helper, "push", "--quiet", "origin", "HEAD", extra=secret)
        return _git(folder, "rev-parse", "HEAD").strip()


def _git(folder: Path, *args: str, extra: dict[str, str] | None = None) -> str:
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C.UTF-8",
        "no_proxy": "*",
        **{
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "gitsync"), ("EMAIL", "gitsync@localhost.invalid"))
        },
        **(extra or {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(  # noqa: S603 - fixed program, our own arguments
        ["git", *args],  # noqa: S607
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode != 0:
        raise QuickstartFailed(f"git {args[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
