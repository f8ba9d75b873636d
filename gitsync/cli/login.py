"""`gitsync login` and `gitsync logout`: the token of a server in the user's own file."""

from __future__ import annotations

import getpass
import os
import sys
from typing import Annotated

import typer

from gitsync.cli import output
from gitsync.cli.options import JsonOption, ServerOption, TokenOption
from gitsync.client.credentials import Credentials, credentials_path
from gitsync.client.place import find_place, read_token
from gitsync.client.server import Server
from gitsync.errors import InvalidInput
from gitsync.text import printable


def login(
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="The server; else as --server.")
    ] = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Check a token and keep it for this server.

    Without --token-file you are asked for it; make one on the server's page, or with
    `gitsync token create`.
    """
    place = find_place(server=url or server)
    if token_file is not None:
        token = read_token(token_file)
    elif sys.stdin.isatty():
        token = _ask(place.server)
    else:
        raise InvalidInput("Nobody is there to be asked: give the token with --token-file -.")
    with Server(place.server, token, ca_bundle=place.ca_bundle) as connection:
        found = connection.get("whoami")
    user, known = found.get("user") or {}, found.get("token") or {}
    credentials = Credentials(credentials_path(os.environ))
    credentials.keep(place.server, token, email=user.get("email"))
    if json:
        output.emit({"schema_version": 1, "server": place.server, **found})
        return
    who = user.get("email") or f"the machine token {known.get('name')}"
    output.say(f"Signed in to {place.server} as {who}; kept in {credentials.path}.")


def _ask(server: str) -> str:
    try:
        token = getpass.getpass(f"Token for {printable(server)}: ").strip()
    except EOFError as e:
        raise typer.Abort from e
    if not token:
        raise InvalidInput("That was no token.")
    return token


def logout(
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="The server; else as --server.")
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Forget the token kept for a server; `gitsync token revoke` ends it everywhere."""
    place = find_place(server=url or server)
    was_there = Credentials(credentials_path(os.environ)).forget(place.server)
    if json:
        output.emit({"schema_version": 1, "server": place.server, "forgotten": was_there})
    elif was_there:
        output.say(f"The token for {place.server} is forgotten.")
    else:
        output.say(f"There was no token for {place.server}.")
