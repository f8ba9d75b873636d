"""`docs/osmosis-cli.md` is replayed from an empty folder, each command and each answer.

`python -m tests.web.test_osmosis_docs` writes the answers anew.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.web.browser import Browser

PAGE = Path(__file__).parents[2] / "docs/osmosis-cli.md"
BIN = Path(sys.executable).parent
BLOCK = re.compile(r"(?<=```console\n).*?(?=```\n)", re.DOTALL)
HOME = "/home/robin/trial"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@dataclass
class Terminal:
    """A shell in an empty folder; a server that was started in it goes on in the background."""

    folder: Path
    port: int
    server: subprocess.Popen[str] | None = None

    @property
    def env(self) -> dict[str, str]:
        """Nothing of the machine that runs the test."""
        return {
            "HOME": str(self.folder.parent / "home"),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "COLUMNS": "100",
            "TZ": "UTC",
            "OSMOSIS_TOKEN_STORE": "file",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GITSYNC_PORT": str(self.port),
            "no_proxy": "*",
            **{
                f"GIT_{who}_{what}": value
                for who in ("AUTHOR", "COMMITTER")
                for what, value in (("NAME", "Robin"), ("EMAIL", "robin@example.com"))
            },
        }

    def run(self, command: str) -> str:
        """What a person sees, as the page shows it."""
        command = command.replace(":8750", f":{self.port}")
        if command == "gitsync quickstart":
            out = self.serve()
        elif command == "osmosis auth login":
            out = self.log_in(command)
        else:
            out = self.popen(command).communicate(timeout=120)[0]
        out = out.replace(str(self.folder), HOME).replace(f":{self.port}", ":8750")
        return "".join(line.rstrip() + "\n" for line in out.strip("\n").splitlines())

    def popen(self, command: str) -> subprocess.Popen[str]:
        """Folder and variables are kept from one command to the next, as in one shell."""
        state = shlex.quote(str(self.folder.parent / "state"))
        kept = 'echo "cd $(printf %q "$PWD")"; declare -p run OSMOSIS_PLATFORM_URL 2> /dev/null'
        script = f"test -f {state} && . {state}\n{command}\n{{ {kept}; }} > {state}"
        return subprocess.Popen(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def serve(self) -> str:
        self.server = subprocess.Popen(
            [str(BIN / "gitsync"), "quickstart"],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self.until(self.server, "Serving on")

    def until(self, process: subprocess.Popen[str], text: str) -> str:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if text in line:
                return "".join(lines)
        raise AssertionError("".join(lines))

    def log_in(self, command: str) -> str:
        """The person at the browser approves what the device shows."""
        process = self.popen(command)
        said = self.until(process, "Waiting for authorization")
        code = said.partition("code=")[2].split()[0]
        token = (self.folder / "gitsync-data/quickstart.token").read_text().strip()
        link = subprocess.run(
            [
                *(str(BIN / "gitsync"), "user", "link", "admin@localhost.invalid"),
                *("--server", f"http://127.0.0.1:{self.port}"),
            ],
            env=self.env | {"GITSYNC_TOKEN": token},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        with Browser(f"http://127.0.0.1:{self.port}") as browser:
            browser.sign_in(link)
            form = f"/device?code={code}"
            assert browser.send("/device", form_of=form, answer="approve").status_code == 200
        return said + process.communicate(timeout=60)[0]

    def close(self) -> None:
        if self.server is not None:
            self.server.send_signal(signal.SIGINT)
            self.server.communicate(timeout=30)


@contextmanager
def terminal(port: int) -> Iterator[Terminal]:
    with tempfile.TemporaryDirectory() as folder:
        found = Terminal(Path(folder) / "trial", port)
        for name in ("trial", "home"):
            (Path(folder) / name).mkdir()
        try:
            yield found
        finally:
            found.close()


def replayed(page: str, port: int) -> str:
    """The page with the answers that the commands give now."""
    with terminal(port) as shell:

        def block(found: re.Match[str]) -> str:
            commands = [line[2:] for line in found[0].splitlines() if line.startswith("$ ")]
            return "".join(f"$ {command}\n{shell.run(command)}" for command in commands)

        return BLOCK.sub(block, page)


def plain(text: str) -> str:
    """Without what is new each time: commits, digests, names of runs, codes, times."""
    for pattern, instead in (
        (r"\b[0-9a-f]{40,64}\b", "DIGEST"),
        (r"\b(?=[a-f]*[0-9])[0-9a-f]{7,12}\b", "SHA"),
        (r"\bws_[0-9a-z]{16}", "WORKSPACE"),
        (r"-(eval|training)-[a-z0-9]{6}\b", r"-\1-NAME"),
        (r"\b[B-Z]{4}-[B-Z]{4}\b", "CODE"),
        (r"\d{4}-\d\d-\d\d( \d+:\d\d(:\d\d)? [AP]M UTC)?", "DATE"),
        (r"[\d.]+ [kMG]?B/s", "SPEED"),
        (r"[ ─━╭╮╰╯]+", " "),
    ):
        text = re.sub(pattern, instead, text)
    return text


@pytest.mark.slow
def test_the_page_tells_what_happens():
    page = PAGE.read_text()
    begin = time.monotonic()
    assert plain(replayed(page, free_port())) == plain(page), (
        "run `python -m tests.web.test_osmosis_docs`"
    )
    assert time.monotonic() - begin < 300


if __name__ == "__main__":
    PAGE.write_text(replayed(PAGE.read_text(), 8750))
