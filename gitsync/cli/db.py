"""`gitsync db`: schema, soundness and keys of the database; for operators, on its machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli import output
from gitsync.cli.options import JsonOption

app = typer.Typer(help="The database: schema, soundness, keys.", no_args_is_help=True)
DataOption = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="Else GITSYNC_DATA_DIR.")
]


@app.command()
def upgrade(data_dir: DataOption = None, json: JsonOption = False) -> None:
    """Bring the schema up to date, after a copy; the server must be stopped."""
    from gitsync.cli.database import utc_now
    from gitsync.instance import DataFolder
    from gitsync.settings import Settings
    from gitsync.store import Database, migrate

    settings = Settings.load(data_dir=data_dir)
    folder = DataFolder(settings.data_dir)
    folder.lock()
    try:
        database = Database(settings.sqlalchemy_url)
        try:
            before = migrate.current_revision(database)
            copy = migrate.upgrade(database, now=utc_now())
            after = migrate.current_revision(database)
        finally:
            database.close()
    finally:
        folder.unlock()
    if json:
        output.emit({"schema_version": 1, "from": before, "to": after, "copy": copy})
    elif before == after:
        output.say(f"The schema is {after} already.")
    else:
        output.say(f"The schema is {after} now; it was {before or 'empty'}.")
        output.fields([("copy of the state before", copy)])


@app.command()
def check(data_dir: DataOption = None, json: JsonOption = False) -> None:
    """Look for damage and for differences from the expected schema; exit 1 if there are any."""
    from gitsync.cli.database import open_database
    from gitsync.settings import Settings
    from gitsync.store import migrate

    settings = Settings.load(data_dir=data_dir)
    with open_database(settings, must_be_current=False) as database:
        current, head = migrate.current_revision(database), migrate.head_revision()
        problems = migrate.check_integrity(database)
        if current != head:
            problems.append(f"schema {current or 'none'}, needed is {head}: gitsync db upgrade")
        else:
            problems += [f"schema differs: {found!r}" for found in migrate.differences(database)]
    if json:
        output.emit({"schema_version": 1, "schema": current, "needed": head, "problems": problems})
    else:
        output.say(*(problems or [f"The database is sound; its schema is {current}."]))
    raise typer.Exit(1 if problems else 0)


@app.command()
def rekey(data_dir: DataOption = None, json: JsonOption = False) -> None:
    """Encrypt all stored secrets with the first of GITSYNC_SECRET_KEYS."""
    from gitsync.cli.database import open_database
    from gitsync.instance import DataFolder, make_sealer
    from gitsync.settings import Settings
    from gitsync.store.rekey import rekey as rekey_rows

    settings = Settings.load(data_dir=data_dir)
    with open_database(settings) as database:
        sealer = make_sealer(settings, DataFolder(settings.data_dir))
        changed = rekey_rows(database, sealer)
    if json:
        output.emit({"schema_version": 1, "changed": changed, "key_id": sealer.key_ids[0]})
    else:
        output.say(f"{changed} secrets were encrypted anew with the key {sealer.key_ids[0]}.")


@app.command("new-key")
def new_key(json: JsonOption = False) -> None:
    """Print a fresh key for GITSYNC_SECRET_KEYS."""
    from gitsync.store.seal import new_key as fresh_key

    key = fresh_key()
    if json:
        output.emit({"schema_version": 1, "key": key})
    else:
        output.say(key)
