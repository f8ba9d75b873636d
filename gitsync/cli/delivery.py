"""`gitsync workspace delivery`: what arrived for a workspace, and what became of it."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli import output
from gitsync.cli.target import Target, about_workspace, in_workspace

delivery_app = typer.Typer(
    help="Webhook calls and pushes, and their outcome.", no_args_is_help=True
)
MostOption = Annotated[int, typer.Option("--limit", min=1, help="At most so many, newest first.")]


@delivery_app.command("list")
@about_workspace
def list_deliveries(target: Target, limit: MostOption = 50) -> None:
    """The delivery log."""
    items = target.items("deliveries", most=limit)
    rows = [
        (d["id"], d["received_at"], d["event"], d["ref"], d["outcome"], d["reason"]) for d in items
    ]
    columns = ["id", "received", "event", "ref", "outcome", "reason"]
    output.listed(items, lambda: output.table(columns, rows, empty="Nothing was delivered yet."))


@delivery_app.command("redeliver")
@in_workspace
def redeliver(
    target: Target, delivery: Annotated[int, typer.Argument(metavar="ID", min=1)]
) -> None:
    """Take a delivery again."""
    found = target.post(f"deliveries/{delivery}/redeliver")
    output.answer(found, f"Delivery {found['id']} repeats delivery {delivery}.")
