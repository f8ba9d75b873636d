"""`gitsync workspace delivery`: what arrived for a workspace, and what became of it."""

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

delivery_app = typer.Typer(
    help="Webhook calls and pushes, and their outcome.", no_args_is_help=True
)
MostOption = Annotated[int, typer.Option("--limit", min=1, help="At most so many, newest first.")]


@delivery_app.command("list")
def list_deliveries(
    workspace: WorkspaceArgument = None,
    limit: MostOption = 50,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """The delivery log."""
    with connected(server, token_file, workspace) as (connection, workspace_id):
        items = list(connection.pages(f"workspaces/{workspace_id}/deliveries", most=limit))
    if json:
        output.emit({"schema_version": 1, "items": items, "total_count": len(items)})
        return
    rows = [
        (d["id"], d["received_at"], d["event"], d["ref"], d["outcome"], d["reason"]) for d in items
    ]
    columns = ["id", "received", "event", "ref", "outcome", "reason"]
    output.table(columns, rows, empty="Nothing was delivered yet.")


@delivery_app.command("redeliver")
def redeliver(
    delivery: Annotated[int, typer.Argument(metavar="ID", min=1)],
    workspace: WorkspaceOption = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Take a delivery again."""
    with connected(server, token_file, workspace) as (connection, workspace_id):
        found = connection.post(f"workspaces/{workspace_id}/deliveries/{delivery}/redeliver")
    if json:
        output.emit(found)
    else:
        output.say(f"Delivery {found['id']} repeats delivery {delivery}.")
