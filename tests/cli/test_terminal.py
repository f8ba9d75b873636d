"""On a terminal: bars and spinners on standard error, questions, hidden input."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import GITSYNC, IDENTITY, TOKEN, WORKSPACE, Call, Stage, home_env, tar_of

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


@dataclass
class Seen:
    code: int
    out: str
    screen: str


def on_terminal(
    *args: str, cwd: Path, env: dict[str, str], answers: dict[str, str] | None = None
) -> Seen:
    """Run with a terminal for input and errors; type an answer when its question appears."""
    main, side = pty.openpty()
    child = subprocess.Popen(
        [str(GITSYNC), *args],
        cwd=cwd,
        env=home_env(cwd) | {"TERM": "xterm-256color", "COLUMNS": "100"} | env,
        stdin=side,
        stdout=subprocess.PIPE,
        stderr=side,
        text=True,
        start_new_session=True,  # getpass must not find the developer's terminal
    )
    os.close(side)
    screen = bytearray()
    todo = dict(answers or {})

    def watch() -> None:
        while True:
            try:
                piece = os.read(main, 4096)
            except OSError:  # the other side is closed
                return
            if not piece:
                return
            screen.extend(piece)
            for question in list(todo):
                if question.encode() in screen:
                    os.write(main, todo.pop(question).encode() + b"\n")

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        out, _ = child.communicate(timeout=60)
    finally:
        child.kill()
        child.wait()
        watcher.join(10)
        os.close(main)
    return Seen(child.returncode, out, screen.decode("utf-8", "replace"))


def env(stage: Stage) -> dict[str, str]:
    return {"GITSYNC_SERVER": stage.url, "GITSYNC_TOKEN": TOKEN, "GITSYNC_WORKSPACE": WORKSPACE}


def test_a_download_shows_a_bar_with_escaped_text(stage: Stage, tmp_path: Path) -> None:
    data = tar_of(("a", os.urandom(3_000_000)))
    digest = hashlib.sha256(data).hexdigest()
    stage.artifacts[digest] = data
    answer = {"digest": digest, "size": len(data), "rollout": "x", "entrypoint": "m.py"}
    stage.on(f"POST workspaces/{WORKSPACE}/resolve", 200, answer)
    seen = on_terminal("pull", "[bold]x", "out", cwd=tmp_path, env=env(stage))
    assert seen.code == 0, seen.screen
    assert "[bold]x" in seen.screen and "MB" in seen.screen
    assert digest in seen.out
    quiet = on_terminal("pull", digest, "again", "--json", cwd=tmp_path, env=env(stage))
    assert (quiet.code, quiet.screen) == (0, "") and json.loads(quiet.out)["from_cache"]


def test_a_wait_shows_what_it_waits_for(stage: Stage, tmp_path: Path) -> None:
    sha = "0" * 40
    states = iter(["queued", "syncing"])

    def route(_call: Call) -> tuple[int, Any]:
        state = next(states, "published")
        return 200, {"commit_sha": sha, "state": state, "live": state == "published"}

    stage.routes[f"GET workspaces/{WORKSPACE}/commits/{sha}"] = route
    seen = on_terminal("status", sha, "--wait", cwd=tmp_path, env=env(stage))
    assert seen.code == 0 and "is being read right now" in seen.screen
    assert "is live" in seen.out


def test_what_cannot_be_undone_is_asked_for(stage: Stage, tmp_path: Path) -> None:
    shown = stage.workspace() | {"state": "disconnected"}
    stage.on(f"POST workspaces/{WORKSPACE}/disconnect", 200, shown)
    args = ("workspace", "disconnect")
    no = on_terminal(*args, cwd=tmp_path, env=env(stage), answers={"[y/N]": "n"})
    assert no.code == 1 and "Stopped" in no.screen and not stage.asked("disconnect")
    yes = on_terminal(*args, cwd=tmp_path, env=env(stage), answers={"[y/N]": "y"})
    assert yes.code == 0 and "disconnected" in yes.out and stage.asked("disconnect")


def test_login_asks_without_showing_the_token(stage: Stage, tmp_path: Path) -> None:
    who = {"user": {"email": "robin@example.com"}, "token": {"name": "t"}}
    stage.on("GET whoami", 200, who)
    seen = on_terminal("login", stage.url, cwd=tmp_path, env={}, answers={"Token for": TOKEN})
    assert seen.code == 0 and "robin@example.com" in seen.out
    assert TOKEN not in seen.screen


def test_a_clone_shows_gits_own_progress(stage: Stage, tmp_path: Path) -> None:
    seen = on_terminal("clone", IDENTITY, "w", cwd=tmp_path, env=env(stage))
    assert seen.code == 0 and "empty" in seen.screen
    assert (tmp_path / "w/.git/gitsync-credential").exists()
