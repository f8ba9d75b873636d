"""The user's own git in the user's own checkout: their configuration counts here, unlike anywhere
else in gitsync, since it is them who run it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gitsync.client.failures import CheckoutFailed
from gitsync.errors import ConfigError

LOCAL_SECONDS = 60.0


class Checkout:
    """A folder in which git is run; the folder need not be a repository.

    `may_ask` lets git ask for a password, as it does for hosts whose credentials are not ours.
    """

    def __init__(
        self, folder: Path, *, env: Mapping[str, str] | None = None, may_ask: bool = False
    ) -> None:
        self.folder = folder
        silent = {} if may_ask else {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": ""}
        self._env = {**(os.environ if env is None else env), **silent, "LC_ALL": "C.UTF-8"}

    def run(
        self,
        *args: str,
        given: str | None = None,
        seconds: float | None = LOCAL_SECONDS,
        shows_progress: bool = False,
        more: Sequence[int] = (),
    ) -> tuple[int, str]:
        """Exit status and output; a status that is neither 0 nor in `more` is `CheckoutFailed`."""
        try:
            done = subprocess.run(  # noqa: S603 - fixed program, arguments are a list
                ["git", *args],  # noqa: S607 - the user's git, as they would run it
                cwd=self.folder,
                env=self._env,
                input=given,
                stdin=subprocess.DEVNULL if given is None else None,
                stdout=subprocess.PIPE,
                stderr=None if shows_progress else subprocess.PIPE,
                encoding="utf-8",
                errors="surrogateescape",
                timeout=seconds,
            )
        except FileNotFoundError as e:
            if not self.folder.is_dir():
                raise CheckoutFailed(f"There is no folder {self.folder}.") from e
            raise ConfigError("git is not installed, or not on PATH.") from e
        except subprocess.TimeoutExpired as e:
            raise CheckoutFailed(f"git {args[0]} did not end within {seconds:g} s.") from e
        if done.returncode not in {0, *more}:
            said = " ".join((done.stderr or "").split())[-600:]
            raise CheckoutFailed(f"git {args[0]} failed: {said or done.returncode}")
        return done.returncode, done.stdout

    def settings(self, pattern: str) -> dict[str, str]:
        """All settings whose key matches, the last value of each; empty outside a repository."""
        code, out = self.run("config", "-z", "--get-regexp", pattern, more=(1, 128))
        found: dict[str, str] = {}
        if code == 0:
            for item in out.split("\0")[:-1]:
                key, _, value = item.partition("\n")
                found[key] = value
        return found

    def resolve(self, rev: str) -> str | None:
        """The full sha of a commit, None if this is no repository or has no such commit."""
        if rev.startswith("-"):
            return None
        code, out = self.run("rev-parse", "--verify", "-q", f"{rev}^{{commit}}", more=(1, 128))
        sha = out.strip()
        return sha if code == 0 and re.fullmatch(r"[0-9a-f]{40}", sha) else None

    def password(self, url: str) -> str | None:
        """What this checkout's credential helpers know for a URL; nobody is asked."""
        code, out = self.run(
            "-c", "core.askPass=", "credential", "fill", given=f"url={url}\n\n", more=(1, 128)
        )
        if code:
            return None
        fields = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        return fields.get("password") or None
