"""`gitsync token`: your own tokens, and those of machines."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli import output
from gitsync.cli.options import JsonOption, ServerOption, TokenOption, YesOption, confirm, place_of
from gitsync.client.server import Json, segment

app = typer.Typer(help="Your tokens, and those of machines.", no_args_is_help=True)


@app.command("list")
def list_tokens(
    server: ServerOption = None, token_file: TokenOption = None, json: JsonOption = False
) -> None:
    """Your tokens and the machine tokens you made, without their secrets."""
    with place_of(server, token_file).open() as connection:
        items = list(connection.pages("tokens"))
    if json:
        output.emit({"schema_version": 1, "items": items, "total_count": len(items)})
        return
    rows = [
        (
            t["id"],
            t["name"],
            t["role"] or "you",
            t["workspaces"],
            t["expires_at"] or "never",
            t["last_used_at"],
            "revoked" if t.get("revoked_at") else "",
        )
        for t in items
    ]
    columns = ["id", "name", "role", "workspaces", "expires", "last used", ""]
    output.table(columns, rows, empty="There are no tokens.")


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    days: Annotated[
        float | None,
        typer.Option("--expires-in-days", metavar="N", min=0, help="Default: never."),
    ] = None,
    role: Annotated[
        str | None,
        typer.Option("--role", metavar="read|push|executor", help="A machine token with this role"),
    ] = None,
    workspace: Annotated[
        list[str] | None,
        typer.Option("--workspace", "-w", help="A machine token's workspace; repeatable."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind", metavar="eval|training", help="Runs an executor may carry out; repeatable."
        ),
    ] = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Make a token; its secret is shown this once, alone on standard output."""
    with place_of(server, token_file).open() as connection:
        body: Json = {"name": name}
        if days is not None:
            body["expires_in_days"] = days
        if role is not None:
            body["role"] = role
        if workspace:
            body["workspaces"] = [connection.workspace_id(ref) for ref in workspace]
        if kind:
            body["kinds"] = kind
        found = connection.post("tokens", body)
    if json:
        output.emit(found)
        return
    output.note(f"Token {found['token']['id']}; its secret is shown only now:")
    output.say(found["secret"])


@app.command()
def revoke(
    token: Annotated[str, typer.Argument(metavar="ID", help="The id in `gitsync token list`.")],
    yes: YesOption = False,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Make a token useless at once."""
    confirm(f"Revoke the token {token}?", is_sure=yes)
    with place_of(server, token_file).open() as connection:
        connection.delete(f"tokens/{segment(token)}")
    if json:
        output.emit({"schema_version": 1, "id": token, "revoked": True})
    else:
        output.say(f"{token} is revoked.")
