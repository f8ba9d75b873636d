"""The user's file of tokens, one per server: `~/.config/gitsync/credentials.json`, mode 0600."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitsync.errors import ConfigError


def credentials_path(env: Mapping[str, str]) -> Path:
    """Where the file lies, by the XDG rules."""
    base = env.get("XDG_CONFIG_HOME") or Path(env.get("HOME") or Path.home()) / ".config"
    return Path(base) / "gitsync" / "credentials.json"


class Credentials:
    """The tokens of one user; `default` is the server that was signed in to last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._servers: dict[str, dict[str, Any]] = {}
        self.default: str | None = None
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as e:
            raise ConfigError(f"{path} cannot be read: {e}") from e
        try:
            data = json.loads(text)
            servers, default = data["servers"], data.get("default")
            if not all(isinstance(entry["token"], str) for entry in servers.values()):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise ConfigError(
                f"{path} is damaged. Remove it, then run `gitsync login` again."
            ) from e
        self._servers, self.default = servers, default

    def token(self, server: str) -> str | None:
        """The token for a server, None if there is none."""
        entry = self._servers.get(server)
        return entry["token"] if entry else None

    def keep(self, server: str, token: str, *, email: str | None) -> None:
        """Remember a token and make its server the default."""
        self._servers[server] = {"token": token, "email": email}
        self.default = server
        self._write()

    def forget(self, server: str) -> bool:
        """Drop the token for a server; False if there was none."""
        if self._servers.pop(server, None) is None:
            return False
        if self.default == server:
            self.default = next(iter(self._servers), None)
        self._write()
        return True

    def _write(self) -> None:
        document = {"version": 1, "default": self.default, "servers": self._servers}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(self.path, json.dumps(document, indent=2) + "\n")
        except OSError as e:
            raise ConfigError(f"{self.path} cannot be written: {e.strerror}.") from e


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically by one that only its owner may read."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
