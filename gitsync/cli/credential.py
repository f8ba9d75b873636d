"""How options describe the credential for a remote: one secret, a key, or a file in the server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gitsync.client.place import read_token
from gitsync.client.server import Json
from gitsync.errors import InvalidInput

SecretOption = Annotated[
    str | None,
    typer.Option("--git-token-file", metavar="FILE", help="A file with the host's token; - reads."),
]
PasswordOption = Annotated[
    str | None, typer.Option("--git-password-file", metavar="FILE", help="A password, in a file.")
]
UserOption = Annotated[
    str | None, typer.Option("--git-username", metavar="NAME", help="The user of the credential.")
]
KeyOption = Annotated[
    str | None, typer.Option("--ssh-key-file", metavar="FILE", help="A private SSH key.")
]
GenerateOption = Annotated[
    bool,
    typer.Option("--generate-key", help="Make an SSH key in the server; prints the public half."),
]
ReferenceOption = Annotated[
    str | None,
    typer.Option(
        "--credential-path",
        metavar="KIND:PATH",
        help="A file on the server that is read at each use; KIND is token, password or ssh.",
    ),
]
HostsOption = Annotated[
    Path | None,
    typer.Option("--known-hosts-file", metavar="FILE", help="The host's keys, for ssh."),
]


def credential_of(
    *,
    token: str | None,
    password: str | None,
    username: str | None,
    key: str | None,
    generate: bool,
    reference: str | None,
    known_hosts: Path | None,
) -> Json | None:
    """The credential that the options describe; at most one."""
    chosen = [item for item in (token, password, key, reference) if item] + [generate] * generate
    if len(chosen) > 1:
        raise InvalidInput("Give one credential: a token, a password, an SSH key or a path.")
    found: Json
    if token:
        found = {"kind": "token", "secret": read_token(token)}
    elif password:
        found = {"kind": "password", "secret": read_token(password)}
    elif key:
        found = {"kind": "ssh", "secret": read_token(key) + "\n"}
    elif generate:
        found = {"kind": "ssh", "generate_key": True}
    elif reference:
        kind, colon, path = reference.partition(":")
        if kind not in {"token", "password", "ssh"} or not colon or not path:
            raise InvalidInput("Write --credential-path as token:/path, password:/path, ssh:/path.")
        found = {"kind": kind, "path": path}
    elif username or known_hosts:
        raise InvalidInput("A user or known hosts need a credential beside them.")
    else:
        return None
    if username:
        found["username"] = username
    if known_hosts:
        try:
            found["known_hosts"] = known_hosts.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise InvalidInput(f"{known_hosts} cannot be read: {e}") from e
    return found
