"""Which server, workspace and token are meant.

First wins: what was said on the command line, `GITSYNC_SERVER`, `GITSYNC_WORKSPACE` and
`GITSYNC_TOKEN`, what `gitsync clone` wrote into the checkout, what `gitsync login` kept. A
checkout's workspace and token are used for the checkout's own server only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gitsync.client.credentials import Credentials, credentials_path
from gitsync.client.localgit import Checkout
from gitsync.client.server import Server, normal_url
from gitsync.errors import ConfigError, InvalidInput


@dataclass(frozen=True, slots=True)
class Place:
    """A server, and what is known about who asks and for which workspace."""

    server: str
    workspace: str | None
    token: str | None
    ca_bundle: Path | None = None

    def open(self, *, timeout_s: float = 30.0) -> Server:
        """Talk to the server."""
        return Server(self.server, self.token, ca_bundle=self.ca_bundle, timeout_s=timeout_s)

    def need_workspace(self) -> str:
        """The workspace, or the error that says how to name one."""
        if not self.workspace:
            raise InvalidInput(
                "Which workspace? Name it with --workspace or GITSYNC_WORKSPACE, or work in a "
                "checkout made by `gitsync clone`.",
                field="workspace",
            )
        return self.workspace


def read_token(path: str) -> str:
    """A token from a file, or from standard input for `-`."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise InvalidInput(f"The token file {path} cannot be read: {e}", field="token-file") from e
    token = text.strip()
    if not token:
        raise InvalidInput(f"The token file {path} is empty.", field="token-file")
    return token


def find_place(
    *,
    server: str | None = None,
    workspace: str | None = None,
    token_file: str | None = None,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Place:
    """Look at every source in turn; `InvalidInput` if none names a server."""
    env = os.environ if env is None else env
    checkout = Checkout(folder or Path.cwd(), env=env)
    said = server or env.get("GITSYNC_SERVER")
    named = workspace or env.get("GITSYNC_WORKSPACE")
    secret = read_token(token_file) if token_file else env.get("GITSYNC_TOKEN")
    bundle = env.get("GITSYNC_CA_BUNDLE")
    kept: dict[str, str] = {}
    if not (said and named and secret):
        try:
            kept = checkout.settings(r"^gitsync\.")
        except ConfigError:  # no git here: nothing kept either
            kept = {}
    user = Credentials(credentials_path(env)) if not (said and secret) else None
    url = said or kept.get("gitsync.server") or (user.default if user else None)
    if not url:
        raise InvalidInput(
            "Which server? Name it with --server or GITSYNC_SERVER, sign in with `gitsync login`, "
            "or work in a checkout made by `gitsync clone`.",
            field="server",
        )
    url = normal_url(url)
    if "gitsync.server" in kept and normal_url(kept["gitsync.server"]) == url:
        named = named or kept.get("gitsync.workspace")
        secret = secret or checkout.password(url)
        bundle = bundle or kept.get("gitsync.cabundle")
    if not secret and user is not None:
        secret = user.token(url)
    return Place(url, named or None, secret or None, Path(bundle) if bundle else None)
