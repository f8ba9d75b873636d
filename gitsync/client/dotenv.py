"""The `.env` by which `osmosis` finds the platform from inside a checkout."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from urllib.parse import urlsplit


def write_dotenv(
    folder: Path,
    *,
    server: str,
    token: str | None,
    template_path: Path | None,
    has_tracked: bool,
) -> list[str]:
    """Write `.env` (mode 0600) unless there is one; what a person should know about it."""
    values = {"OSMOSIS_PLATFORM_URL": server}
    if token:
        values |= {"OSMOSIS_TOKEN": token, "OSMOSIS_TOKEN_PLATFORM_URL": server}
    notes = []
    if not _is_protected(server):
        values["OSMOSIS_ALLOW_INSECURE_PLATFORM_URL"] = "1"
        notes.append(f"{server} is no https URL: whoever listens on the way can read the token.")
    if template_path is not None:
        values["OSMOSIS_WORKSPACE_TEMPLATE_PATH"] = str(template_path)
    lines = [
        "# Written by `gitsync clone` for the osmosis CLI. It holds a token; Git ignores it.\n"
    ]
    lines += [f"{name}={quoted(value)}\n" for name, value in values.items()]
    path = folder / ".env"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        whose = "The repository brings its own .env" if has_tracked else "There is a .env already"
        notes.append(f"{whose}, which was left alone. osmosis needs: {', '.join(values)}.")
        return notes
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(lines)
    return notes


def quoted(value: str) -> str:
    """A value as python-dotenv and shells read it back."""
    if value and all(c.isascii() and (c.isalnum() or c in "_-./:") for c in value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _is_protected(server: str) -> bool:
    parts = urlsplit(server)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
