"""Options that many commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from gitsync.cli import output
from gitsync.client.failures import NotAuthorised
from gitsync.errors import InvalidInput

if TYPE_CHECKING:  # commands without a server do not load an HTTP client
    from gitsync.client.place import Place
    from gitsync.client.server import Server

ServerOption = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="The server; else GITSYNC_SERVER, or the clone."),
]
WorkspaceOption = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        "-w",
        metavar="WORKSPACE",
        help="Name, OWNER/NAME or id; else GITSYNC_WORKSPACE, or the clone.",
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="A file with the token, - for standard input; else GITSYNC_TOKEN.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
WorkspaceArgument = Annotated[
    str | None,
    typer.Argument(metavar="[WORKSPACE]", help="Name, OWNER/NAME or id; else as --workspace."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def place_of(
    server: str | None, token_file: str | None, workspace: str | None = None, *, token: bool = True
) -> Place:
    """Where the command works; without a token the error says how to get one."""
    from gitsync.client.place import find_place

    place = find_place(server=server, workspace=workspace, token_file=token_file)
    if token and place.token is None:
        raise NotAuthorised(f"You are not signed in to {place.server}.", status=401)
    return place


@contextmanager
def connected(
    server: str | None, token_file: str | None, workspace: str | None
) -> Iterator[tuple[Server, str]]:
    """A server and the id of the workspace that is meant there."""
    place = place_of(server, token_file, workspace)
    ref = place.need_workspace()
    with place.open() as connection:
        yield connection, connection.workspace_id(ref)


def confirm(question: str, *, is_sure: bool) -> None:
    """Ask before something that cannot be undone; without a terminal, `--yes` is needed."""
    if is_sure:
        return
    if output.is_json() or not sys.stdin.isatty():
        raise InvalidInput("This cannot be undone; say --yes to do it without being asked.")
    typer.confirm(question, abort=True, err=True)
