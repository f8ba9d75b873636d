"""`gitsync user`: the people of a server.

All but `reset` and `password EMAIL` ask the server; those two work on its database, for the day on
which nobody can sign in any more (decision 36).
"""

from __future__ import annotations

import sys
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
def password(
    email: Annotated[
        str | None,
        typer.Argument(
            metavar="[EMAIL]",
            help="Whose, in the database of the server's own machine; without it yours, on the "
            "server.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="Else GITSYNC_DATA_DIR.")
    ] = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Set a password for the dashboard; it is asked for, or read from standard input.

    On standard input: the new password, and in a second line the present one, if there is one.
    """
    if email is not None:
        whose = _set_in_database(email, data_dir)
    else:
        with place_of(server, token_file).open() as connection:
            whose = str((connection.get("whoami").get("user") or {}).get("email") or "")
            secret, current = _ask_passwords(wants_current=True)
            body = {"password": secret} | ({"current": current} if current else {})
            connection.send("PUT", "password", body)
    if json:
        output.emit({"schema_version": 1, "email": whose, "password_set": True})
    else:
        output.say(f"The password of {whose} is set. Other browsers are signed out.")


def _ask_passwords(*, wants_current: bool) -> tuple[str, str]:
    if not sys.stdin.isatty():
        lines = sys.stdin.read().split("\n")
        return lines[0], lines[1] if len(lines) > 1 else ""
    current = ""
    if wants_current:
        current = typer.prompt(
            "Present password (empty: none)", default="", hide_input=True, show_default=False
        )
    return typer.prompt("New password", hide_input=True, confirmation_prompt=True), current


def _set_in_database(email: str, data_dir: Path | None) -> str:
    from gitsync.cli.database import open_database, utc_now
    from gitsync.settings import Settings
    from gitsync.store import people, sessions

    with open_database(Settings.load(data_dir=data_dir)) as database:
        with database.read() as db:
            user = people.find_user(db, email)
        if user is None:
            raise NotFound(f"There is no user with the address {email}.")
        hashed = people.hash_password(_ask_passwords(wants_current=False)[0])
        with database.write() as db:
            people.set_password(db, user.id, hashed)
            sessions.end_all(db, user.id, now=utc_now())
    return user.email


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
