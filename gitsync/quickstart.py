"""The main job in one command: serve, create, push with the real `git`, wait, say what is next."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from gitsync.errors import ConfigError, GitSyncError
from gitsync.instance import Instance
from gitsync.records import Role
from gitsync.store import people, workspaces
from gitsync.template import workspace_files

NAME = "demo/rollouts"
IDENTITY = "demo--local/rollouts"
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
    """Create the demo workspace over the API if needed, push it, wait for the version."""
    api = f"{url}/api/v1"
    with httpx.Client(
        base_url=api, headers={"Authorization": f"Bearer {token}"}, timeout=30, trust_env=False
    ) as http:
        found = _answer(http.get("/workspaces", params={"identity": IDENTITY}))["items"]
        workspace = found[0] if found else _create(http)
        head = _push_if_empty(workspace, token)
        if head is None:
            branches = [b for b in workspace["branches"] if b["published_sha"]]
            head = branches[0]["published_sha"] if branches else None
        if head is None:
            raise QuickstartFailed(
                f"The workspace {IDENTITY} has branches, but nothing of it is published. Look at "
                f"{workspace['url']}, or start anew with another --data-dir."
            )
        status = _answer(
            http.get(
                f"/workspaces/{workspace['id']}/commits/{head}",
                params={"wait": WAIT_S},
                timeout=WAIT_S + 15,
            )
        )
    if status["state"] != "published":
        raise QuickstartFailed(
            f"Commit {head[:12]} is {status['state']}: {status['reason'] or 'no reason given'}"
        )
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
    return _answer(
        http.post(
            "/workspaces",
            json={"name": NAME, "identity": IDENTITY, "provider": "embedded"},
            headers={"Idempotency-Key": f"quickstart-{secrets.token_hex(8)}"},
        )
    )


def _answer(response: httpx.Response) -> dict[str, Any]:
    body = response.json()
    if response.status_code >= 400:
        raise QuickstartFailed(str(body.get("message", response.text)))
    return dict(body)


def _push_if_empty(workspace: dict[str, Any], token: str) -> str | None:
    """Push the starter with the real git; None if the repository has something already."""
    if any(branch["head_sha"] for branch in workspace["branches"]):
        return None
    if shutil.which("git") is None:
        raise ConfigError("git is not installed; gitsync needs git 2.39 or newer.")
    with tempfile.TemporaryDirectory(prefix="gitsync-quickstart-") as scratch:
        folder = Path(scratch) / "rollouts"
        for path, (mode, data) in workspace_files(["minimal-local"]).items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if mode == "120000":
                target.symlink_to(data.decode())
                continue
            target.write_bytes(data)
            target.chmod(0o755 if mode == "100755" else 0o644)
        _git(folder, "init", "--quiet", "--initial-branch=main")
        _git(folder, "add", "--all")
        _git(folder, "commit", "--quiet", "--message", "Start from the minimal-local starter")
        helper = (
            'credential.helper=!f() { test "$1" = get && echo username=gitsync && '
            'echo password="$GITSYNC_QUICKSTART_TOKEN"; }; f'
        )
        _git(
            folder,
            "-c",
            helper,
            "push",
            "--quiet",
            workspace["clone_url"],
            "main",
            extra={"GITSYNC_QUICKSTART_TOKEN": token},
        )
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
