"""The unmodified `osmosis` CLI against a real server: all 71 checks of `tests/conformance/run.py`.

Whatever the checks need is made as users make it: over the API, with the CLI, by real `git push`.
"""

from __future__ import annotations

import http.server
import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live import GOOD_MAIN, NO_GRADER, Checkout, Live, live_server, workspace_files
from tests.postgres import postgres_server

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "tests/conformance/run.py"
BIN = Path(sys.executable).parent
PASSWORD = "a password for approvals"
CHECKS = 71
pytestmark = pytest.mark.slow


@dataclass
class Stage:
    """What `run.py` is told: where, who, and which checkout."""

    url: str
    identity: str
    token: str
    spare: str
    outsider: str
    checkout: Path
    template: Path
    approve: str

    def arguments(self) -> list[str]:
        return [
            f"--url={self.url}",
            f"--token={self.token}",
            f"--spare-token={self.spare}",
            f"--outsider-token={self.outsider}",
            f"--workspace={self.identity}",
            f"--checkout={self.checkout}",
            f"--template-path={self.template}",
            "--branch=side",
            "--invalid-rollout=broken",
            f"--approve-cmd={self.approve}",
            "--min-version-enforced",
            f"--cli={BIN / 'osmosis'}",
        ]


def prepare(live: Live, scratch: Path) -> Stage:
    """Two people, their workspaces, a pushed repository with a side branch, exported templates."""
    mia, token = live.user("mia@example.com", name="Mia")
    _, outsider = live.user("otto@example.com", name="Otto")
    assert live.call("PUT", "/password", token=token, json={"password": PASSWORD}).is_success
    spare = live.post("/tokens", {"name": "spare"}, token=token)["secret"]
    live.post("/workspaces", {"name": "Somebody else's"}, token=outsider, status=201)
    workspace = live.post(
        "/workspaces",
        {"name": "Conformance", "identity": "acme--local/Rollouts", "watch": "all"},
        token=token,
        status=201,
    )
    checkout = Checkout.new(scratch / "checkout", live.git_url(workspace, token))
    files = workspace_files(alpha=GOOD_MAIN, beta=GOOD_MAIN, broken=NO_GRADER)
    checkout.commit(files, "Add two rollouts that run, and one that does not")
    head = checkout.commit({"rollouts/beta/main.py": GOOD_MAIN + "\n# beta\n"}, "Change beta")
    checkout.push("-q", "origin", "main")
    side = checkout.commit({"rollouts/alpha/main.py": GOOD_MAIN + "\n# side\n"}, "Try something")
    checkout.push("-q", "origin", "HEAD:side")
    subprocess.run(["git", "reset", "-q", "--hard", head], cwd=checkout.path, check=True)
    for sha in (head, side):
        assert live.status(workspace, sha)["state"] == "published_with_errors"
    template = scratch / "template"
    subprocess.run(
        [str(BIN / "gitsync"), "template", "export", str(template)], check=True, cwd=scratch
    )
    command = [sys.executable, "-m", "tests.web.approve", live.url, mia["email"]]
    approve = (
        f"cd {shlex.quote(str(ROOT))} && APPROVE_PASSWORD={shlex.quote(PASSWORD)} "
        f"{shlex.join(command)} {{user_code}}"
    )
    return Stage(
        live.url,
        workspace["identity"],
        token,
        spare,
        outsider,
        checkout.path,
        template,
        approve,
    )


def run(stage: Stage, *more: str) -> tuple[int, dict[str, str]]:
    """The exit status, and what was said of each check: `ok`, `FAIL …` or `skip`."""
    done = subprocess.run(
        [sys.executable, str(RUN), *stage.arguments(), *more],
        capture_output=True,
        text=True,
        timeout=900,
        cwd=ROOT,
    )
    said = {}
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word in ("ok", "FAIL", "skip"):
            name, _, why = rest.partition(" ")
            said[name] = f"{word} {why}".strip()
    assert said, done.stdout + done.stderr
    return done.returncode, said


def test_conformance_has_all_its_checks():
    listed = subprocess.run(
        [sys.executable, str(RUN), "--list"], capture_output=True, text=True, check=True
    )
    assert len(listed.stdout.split()) == CHECKS


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_conformance_of_the_unmodified_client(tmp_path, engine):
    with server(tmp_path, engine) as live:
        code, said = run(prepare(live, tmp_path))
    bad = {name: why for name, why in said.items() if why != "ok"}
    assert bad == {}, json.dumps(bad, indent=2)
    assert len(said) == CHECKS and code == 0


@contextmanager
def server(tmp_path: Path, engine: str) -> Iterator[Live]:
    begin = live_server if engine == "sqlite" else postgres_server
    with begin(tmp_path, min_cli_version="0.3.0") as live:
        yield live


# what is true of the client and of the checkout, whatever the server says
LOCAL = {"control.cli_version", "control.dead_server_is_noticed", "template.list_and_apply"}


@pytest.mark.parametrize("status", [200, 404, 401])
def test_conformance_fails_against_a_server_that_always_says(tmp_path, status):
    """The checks would notice a server that does nothing."""
    with live_server(tmp_path) as live:
        stage = prepare(live, tmp_path)
    with says(status) as url:
        stage.url = url
        code, said = run(stage, "--wait-sync=0.5")
    passed = {name for name, why in said.items() if why == "ok"}
    assert code == 1 and len(said) == CHECKS
    assert passed <= LOCAL


@contextmanager
def says(status: int) -> Iterator[str]:
    """A server with one answer."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = b"{}" if status == 200 else b'{"error": "no", "message": "no", "code": "NO"}'
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()
        thread.join()
