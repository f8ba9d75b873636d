"""The real `osmosis` CLI against a live server, as one person in one workspace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent / "osmosis"


@dataclass(frozen=True)
class Said:
    """What one command said."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        """The JSON of a command that succeeded."""
        assert self.code == 0, f"exit {self.code}: {self.err or self.out}"
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The error of a command that failed."""
        assert self.code == 1 and self.out == "", f"exit {self.code}: {self.out}"
        return json.loads(self.err.splitlines()[-1])["error"]


@dataclass(frozen=True)
class Osmosis:
    """Runs commands in a folder of their own, with a token in the environment."""

    url: str
    token: str
    workspace: str
    home: Path
    more: dict[str, str] = field(default_factory=dict)

    def __call__(self, *args: str, env: dict[str, str] | None = None, json: bool = True) -> Said:
        self.home.mkdir(exist_ok=True)
        head = ["--json"] if json else ["--plain"]
        done = subprocess.run(
            [str(BIN), *head, "--workspace", self.workspace, *args],
            cwd=self.home,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "OSMOSIS_PLATFORM_URL": self.url,
                "OSMOSIS_TOKEN": self.token,
                "OSMOSIS_TOKEN_PLATFORM_URL": self.url,
                "OSMOSIS_TOKEN_STORE": "file",
                "no_proxy": "*",
                **self.more,
                **(env or {}),
            },
            capture_output=True,
            text=True,
            timeout=120,
        )
        return Said(done.returncode, done.stdout, done.stderr)
