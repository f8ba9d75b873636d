"""`gitsync workspace member`: who may do what in a workspace."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli import output
from gitsync.cli.target import Target, about_workspace, in_workspace
from gitsync.client.server import segment

member_app = typer.Typer(help="Who may do what in a workspace.", no_args_is_help=True)
EmailArgument = Annotated[str, typer.Argument(metavar="EMAIL")]


@member_app.command("list")
@about_workspace
def list_members(target: Target) -> None:
    """The members and their roles."""
    items = target.items("members")
    rows = [(m["email"], m["name"], m["role"]) for m in items]
    columns = ["email", "name", "role"]
    output.listed(items, lambda: output.table(columns, rows, empty="There are no members."))


@member_app.command("set")
@in_workspace
def set_member(
    target: Target,
    email: EmailArgument,
    role: Annotated[str, typer.Argument(metavar="owner|admin|member|reader")],
) -> None:
    """Add a member, or change a role."""
    found = target.send("PUT", f"members/{segment(email)}", {"role": role})
    output.answer(found, f"{found['email']} is {found['role']}.")


@member_app.command("remove")
@in_workspace
def remove_member(target: Target, email: EmailArgument) -> None:
    """Take a member away."""
    target.delete(f"members/{segment(email)}")
    document = {"schema_version": 1, "email": email, "removed": True}
    output.answer(document, f"{email} is no member any more.")
