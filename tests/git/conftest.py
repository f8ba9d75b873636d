"""What the tests of the git room share: hostile repositories, a network that reaches loopback."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitsync.git.address import AddressPolicy
from gitsync.git.remote import Network

HOSTILE = Path(__file__).resolve().parents[1] / "hostile"
sys.path.insert(0, str(HOSTILE))

import servers  # noqa: E402 (from the folder above)


def pytest_configure(config):
    """The kit never closes the pipes of a `git http-backend` whose client left early.

    The host under test runs on uvloop, whose transports have other names: its leaks stay errors.
    """
    for message in ("unclosed transport <_Unix", r"unclosed file <_io\.FileIO name=\d+ mode='rb'"):
        config.addinivalue_line("filterwarnings", f"ignore:{message}:ResourceWarning")


_exit = servers.Server.__exit__


def _tidy_exit(self: servers.Server, *error: object) -> None:
    """Let honest requests end by themselves and drop the others: the kit leaves both open, and
    warnings about that would hide warnings about us."""
    end = time.monotonic() + 3
    while isinstance(self, servers.GitProxy) and self._tasks and time.monotonic() < end:
        time.sleep(0.005)

    def drop() -> None:
        for request in self.requests:
            if request.reader._transport:
                request.reader._transport.abort()

    self._loop.call_soon_threadsafe(drop)
    _exit(self, *error)


servers.Server.__exit__ = _tidy_exit

# the cases of the everyday run; the slow one takes all
FEW = (
    "path-colon",
    "path-dotdot",
    "path-empty-name",
    "path-not-utf8",
    "path-duplicate-entry",
    "tree-unsorted",
    "tree-odd-modes",
    "tree-truncated-entry",
    "modes",
    "link-escape",
    "delta-bomb",
    "ref-branch-named-head",
    "ref-tag-same-name",
    "ref-nested-name",
    "ref-dash-default",
    "ref-slash-default",
    "ref-to-tag-object",
    "ref-to-blob",
    "head-unborn",
    "repo-empty",
    "head-detached",
    "head-symref-loop",
    "default-renamed",
    "default-deleted",
    "history-rewritten",
    "history-unrelated",
    "history-rolled-back",
    "format-sha256",
    "source-shallow",
    "pack-bit-flip",
    "missing-blob",
    "missing-parent",
    "loose-wrong-hash",
    "commit-latin1",
    "commit-bad-encoding",
    "commit-surrogates",
    "commit-log-forgery",
    "commit-date-overflow",
    "commit-date-missing",
    "commit-no-email",
    "commit-no-author",
    "commit-signed-ssh",
)


class Kit:
    """Repositories made by the hostile kit, with their manifest."""

    def __init__(self, out: Path) -> None:
        self.out = out
        rows = json.loads((out / "manifest.json").read_text())["repos"]
        self.cases = {row["name"]: row for row in rows}

    def path(self, name: str) -> Path:
        return self.out / self.cases[name]["repo"]


def make_kit(out: Path, *names: str) -> Kit:
    only = ["--only", *names] if names else []
    subprocess.run(
        [sys.executable, str(HOSTILE / "make_repos.py"), str(out), *only],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return Kit(out)


@pytest.fixture(scope="session")
def kit(tmp_path_factory):
    return make_kit(tmp_path_factory.mktemp("kit"), *FEW)


@pytest.fixture
def loopback():
    """A network that may reach this machine."""
    return Network(policy=AddressPolicy.of(["127.0.0.1"]), look_seconds=5)


@contextmanager
def proxy_apart(root: Path):
    """The honest server in a process of its own, for clients that are killed; its origin."""
    server = subprocess.Popen(
        [sys.executable, str(HOSTILE / "servers.py"), "proxy", f"root={root}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout
    try:
        yield json.loads(server.stdout.readline())["origin"]
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
