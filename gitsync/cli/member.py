"""`gitsync workspace member`: who may do what in a workspace."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli import output
from gitsync.cli.options import (
    JsonOption,
    ServerOption,
    TokenOption,
    WorkspaceArgument,
    WorkspaceOption,
    connected,
)
from gitsync.client.server import segment

member_app = typer.Typer(help="Who may do what in a workspace.", no_args_is_help=True)
EmailArgument = Annotated[str, typer.Argument(metavar="EMAIL")]


@member_app.command("list")
def list_members(
    workspace: WorkspaceArgument = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """The members and their roles."""
    with connected(server, token_file, workspace) as (connection, workspace_id):
        items = list(connection.pages(f"workspaces/{workspace_id}/members"))
    if json:
        output.emit({"schema_version": 1, "items": items, "total_count": len(items)})
        return
    rows = [(m["email"], m["name"], m["role"]) for m in items]
    output.table(["email", "name", "role"], rows, empty="There are no members.")


@member_app.command("set")
def set_member(
    email: EmailArgument,
    role: Annotated[str, typer.Argument(metavar="owner|admin|member|reader")],
    workspace: WorkspaceOption = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Add a member, or change a role."""
    with connected(server, token_file, workspace) as (connection, workspace_id):
        path = f"workspaces/{workspace_id}/members/{segment(email)}"
        found = connection.send("PUT", path, {"role": role})
    if json:
        output.emit(found)
    else:
        output.say(f"{found['email']} is {found['role']}.")


@member_app.command("remove")
def remove_member(
    email: EmailArgument,
    workspace: WorkspaceOption = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Take a member away."""
    with connected(server, token_file, workspace) as (connection, workspace_id):
        connection.delete(f"workspaces/{workspace_id}/members/{segment(email)}")
    if json:
        output.emit({"schema_version": 1, "email": email, "removed": True})
    else:
        output.say(f"{email} is no member any more.")
