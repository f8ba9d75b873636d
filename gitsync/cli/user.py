"""`gitsync user`: the people of a server.

All but `reset` ask the server; `reset` works on the database, for the day on which nobody can sign
in any more (decision 36).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli import output
from gitsync.cli.options import JsonOption, ServerOption, TokenOption, YesOption, confirm, place_of
from gitsync.client.server import Json, Server, segment
from gitsync.errors import NotFound

app = typer.Typer(help="The people of a server; for administrators.", no_args_is_help=True)
EmailArgument = Annotated[str, typer.Argument(metavar="EMAIL")]


def _find(connection: Server, email: str) -> Json:
    for user in connection.pages("users"):
        if user["email"].lower() == email.strip().lower():
            return user
    raise NotFound(f"There is no user with the address {email}.")


@app.command("list")
def list_users(
    server: ServerOption = None, token_file: TokenOption = None, json: JsonOption = False
) -> None:
    """All people."""
    with place_of(server, token_file).open() as connection:
        items = list(connection.pages("users"))
    if json:
        output.emit({"schema_version": 1, "items": items, "total_count": len(items)})
        return
    rows = [
        (u["email"], u["name"], u["is_admin"], "disabled" if u.get("disabled_at") else "", u["id"])
        for u in items
    ]
    output.table(["email", "name", "admin", "", "id"], rows, empty="There are no users.")


@app.command()
def add(
    email: EmailArgument,
    name: Annotated[str, typer.Option("--name")] = "",
    admin: Annotated[bool, typer.Option("--admin", help="Of the whole server.")] = False,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Add a person; prints the link with which they sign in once."""
    with place_of(server, token_file).open() as connection:
        made = connection.post("users", {"email": email, "name": name, "is_admin": admin})
    if json:
        output.emit(made)
        return
    output.note(f"Added {made['email']}. The link works once, within 24 hours:")
    output.say(str(made.get("login_url") or ""))


@app.command()
def link(
    email: EmailArgument,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Make a link with which a person signs in once."""
    with place_of(server, token_file).open() as connection:
        user = _find(connection, email)
        found = connection.post(f"users/{segment(user['id'])}/login-link")
    if json:
        output.emit(found)
    else:
        output.note("The link works once, within 24 hours:")
        output.say(found["url"])


@app.command()
def disable(
    email: EmailArgument,
    yes: YesOption = False,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Lock a person out; their tokens end."""
    confirm(f"Lock {email} out?", is_sure=yes)
    with place_of(server, token_file).open() as connection:
        user = _find(connection, email)
        connection.delete(f"users/{segment(user['id'])}")
    if json:
        output.emit({"schema_version": 1, "id": user["id"], "disabled": True})
    else:
        output.say(f"{user['email']} is locked out.")


@app.command()
def reset(
    email: EmailArgument,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="Else GITSYNC_DATA_DIR.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Make a one-time sign-in link on the server's own machine, in its database."""
    from gitsync.cli.database import open_database, utc_now
    from gitsync.settings import Settings
    from gitsync.store import people

    settings = Settings.load(data_dir=data_dir)
    with open_database(settings) as database, database.write() as db:
        user = people.find_user(db, email)
        if user is None:
            raise NotFound(f"There is no user with the address {email}.")
        code = people.add_login_link(db, user.id, now=utc_now())
    url = f"{settings.url}/login/{code}"
    if json:
        output.emit({"schema_version": 1, "email": user.email, "url": url})
        return
    output.note("The link works once, within 24 hours:")
    output.say(url)
