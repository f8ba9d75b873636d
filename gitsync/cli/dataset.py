"""`gitsync dataset`: upload, look at, fetch and delete the data sets of a workspace."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gitsync.cli import output
from gitsync.cli.options import YesOption, confirm
from gitsync.cli.target import Target, in_workspace
from gitsync.client.server import Json, segment
from gitsync.errors import GitSyncError, InvalidInput

app = typer.Typer(help="Data sets of a workspace.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Its name, or its id.")]


class Refused(GitSyncError):
    """The server took the bytes and refused what they hold."""

    code = "DATASET_INVALID"


class Unchecked(GitSyncError):
    """The check has not come to an end in time."""

    code = "NOT_FINAL"


def size_text(count: int) -> str:
    """Bytes for people."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


@app.command("list")
@in_workspace
def list_datasets(target: Target) -> None:
    """The data sets, newest first."""
    items = target.items("datasets")
    rows = [
        (d["name"], d["state"], d["format"], size_text(d["size"]), d["row_count"], d["created_at"])
        for d in items
    ]
    columns = ["name", "state", "format", "size", "rows", "created"]
    empty = "There are no data sets. Upload one with `gitsync dataset upload FILE`."
    output.listed(items, lambda: output.table(columns, rows, empty=empty))


@app.command()
@in_workspace
def show(target: Target, name: NameArgument) -> None:
    """One data set with its first rows."""
    found = target.get(f"datasets/{segment(name)}")
    output.answer(found, lambda: _show(found))


def _show(found: Json) -> None:
    error = found["error"]
    output.fields(
        [
            ("name", found["name"]),
            ("id", found["id"]),
            ("state", found["state"]),
            ("reason", error and error["message"]),
            ("format", found["format"]),
            ("size", size_text(found["size"])),
            ("rows", found["row_count"]),
            ("sha256", found["digest"]),
            ("uploaded by", found["created_by"]),
            ("created", found["created_at"]),
        ]
    )
    rows: list[dict[str, Any]] = (found.get("preview") or [])[:5]
    if rows:
        columns = list(rows[0])[:6]
        shown = [[_cell(row.get(column)) for column in columns] for row in rows]
        output.say("")
        output.table(columns, shown, empty="")


def _cell(value: Any) -> str:
    text = output.cell(value)
    return text if len(text) <= 60 else text[:59] + "…"


@app.command()
@in_workspace
def upload(
    target: Target,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .jsonl, .csv or .parquet file.")],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Instead of the file's own.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the data set of this name.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the content is checked.")
    ] = True,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", min=0, help="The longest wait.")
    ] = 900.0,
) -> None:
    """Upload a file, and wait until the server has checked it."""
    from gitsync.client.upload import upload_dataset, wait_checked

    with output.progress(file.name) as on_progress:
        found = upload_dataset(
            target.server,
            target.workspace_id,
            file,
            name=name,
            is_overwriting=overwrite,
            on_progress=on_progress,
        )
    if wait:
        found = wait_checked(target.server, target.workspace_id, found["id"], seconds=timeout)
    if found["state"] == "error":
        error = found["error"]
        raise Refused(f"{found['name']} was refused: {error['message']}", issues=error["issues"])
    if wait and found["state"] != "uploaded":
        raise Unchecked(
            f"{found['name']} is {found['state']}. Look again with `gitsync dataset show "
            f"{found['name']}`."
        )
    shown = f"{found['name']} is uploaded: {found['row_count']} rows."
    if not wait:
        shown = f"{found['name']} is on the server and will be checked."
    output.answer(found, shown)


@app.command()
@in_workspace
def logs(target: Target, name: NameArgument) -> None:
    """What happened to a data set, oldest first."""
    items: list[Json] = []
    after: str | None = None
    while True:
        page = target.get(f"datasets/{segment(name)}/logs", limit=200, after=after)
        items = [*page["items"], *items]
        after = page["next"]
        if after is None:
            break
    rows = [(line["at"], line["level"], line["message"]) for line in items]
    empty = "Nothing has happened yet."
    output.listed(items, lambda: output.table(["time", "level", "what"], rows, empty=empty))


@app.command()
@in_workspace
def download(
    target: Target,
    name: NameArgument,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Where to; - is standard output.")
    ] = None,
) -> None:
    """Fetch the file as it was uploaded."""
    found = target.get(f"datasets/{segment(name)}")
    path = target.path(f"datasets/{segment(found['id'])}/content")
    if str(file) == "-":
        _fetch(target, path, sys.stdout.fileno(), found["size"])
        return
    place = file or Path(f"{found['name']}.{found['format']}")
    part = place.with_name(f".{place.name}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    except OSError as e:
        raise InvalidInput(f"{place} cannot be written: {e.strerror}.") from e
    try:
        try:
            _fetch(target, path, descriptor, found["size"])
        finally:
            os.close(descriptor)
        part.rename(place)
    finally:
        part.unlink(missing_ok=True)
    output.answer({**found, "path": str(place)}, f"{place}: {size_text(found['size'])}.")


def _fetch(target: Target, path: str, descriptor: int, size: int) -> None:
    done = 0
    with output.progress("data set") as on_progress, target.server.stream(path, {}) as response:
        for piece in response.iter_raw():
            view = memoryview(piece)
            while view:
                view = view[os.write(descriptor, view) :]
            done += len(piece)
            on_progress(done, size)


@app.command()
@in_workspace
def delete(target: Target, name: NameArgument, yes: YesOption = False) -> None:
    """Delete a data set with everything it ever held."""
    found = target.get(f"datasets/{segment(name)}")
    confirm(f"Delete the data set {found['name']}?", is_sure=yes)
    target.delete(f"datasets/{segment(name)}")
    document = {"schema_version": 1, "name": found["name"], "deleted": True}
    output.answer(document, f"{found['name']} is deleted.")
