"""`gitsync secret`: what runs get as environment variables; values go in and never come out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from gitsync.cli import output
from gitsync.cli.options import YesOption, confirm
from gitsync.cli.target import Target, in_workspace
from gitsync.client.server import segment
from gitsync.errors import InvalidInput

app = typer.Typer(help="Secrets that runs get as environment variables.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Such as OPENAI_API_KEY.")]
ScopeOption = Annotated[
    Literal["user", "workspace"],
    typer.Option("--scope", help="Your own, which wins, or the workspace's."),
]


@app.command("list")
@in_workspace
def list_secrets(target: Target) -> None:
    """Names of the workspace's secrets and of your own."""
    items = target.items("secrets")
    rows = [(s["name"], s["scope"], s["updated_by"], s["updated_at"]) for s in items]
    columns = ["name", "scope", "set by", "set"]
    empty = "There are no secrets. Add one with `gitsync secret set NAME`."
    output.listed(items, lambda: output.table(columns, rows, empty=empty))


@app.command("set")
@in_workspace
def set_secret(
    target: Target,
    name: NameArgument,
    scope: ScopeOption = "user",
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="A file with the value.")
    ] = None,
) -> None:
    """Add or replace a secret; the value is read from standard input, or asked for."""
    body = {"value": read_value(name, file), "scope": scope}
    found = target.send("PUT", f"secrets/{segment(name)}", body)
    whose = "the workspace" if found["scope"] == "workspace" else "you alone"
    output.answer(found, f"{found['name']} is set for {whose}.")


def read_value(name: str, file: Path | None) -> str:
    """The value, without the one line end that editors and `echo` add."""
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise InvalidInput(f"{file} cannot be read: {e}") from e
    elif sys.stdin.isatty():
        text = typer.prompt(f"Value of {name}", hide_input=True, err=True)
    else:
        text = sys.stdin.read()
    value = text.removesuffix("\n").removesuffix("\r")
    if not value:
        raise InvalidInput("The value is empty. Give it on standard input, or with --file.")
    return value


@app.command()
@in_workspace
def delete(
    target: Target, name: NameArgument, scope: ScopeOption = "user", yes: YesOption = False
) -> None:
    """Delete a secret."""
    confirm(f"Delete the secret {name} ({scope})?", is_sure=yes)
    target.delete(f"secrets/{segment(name)}?scope={scope}")
    document = {"schema_version": 1, "name": name, "scope": scope, "deleted": True}
    output.answer(document, f"{name} is deleted.")
