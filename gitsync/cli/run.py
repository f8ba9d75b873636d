"""`gitsync run`: evaluation and training runs."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from gitsync.cli import output
from gitsync.cli.options import (
    JsonOption,
    ServerOption,
    TokenOption,
    WorkspaceOption,
    YesOption,
    confirm,
    connected,
)
from gitsync.client.server import Json, Server, segment
from gitsync.text import printable

app = typer.Typer(help="Evaluation and training runs, and what they said.", no_args_is_help=True)
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The name of a run, or its id.")]
_FOLLOW_S = 2.0
_OVER = ("finished", "failed", "stopped")


@app.command("list")
def list_runs(
    workspace: WorkspaceOption = None,
    kind: Annotated[str | None, typer.Option("--kind", metavar="eval|training")] = None,
    state: Annotated[
        str | None, typer.Option("--state", metavar="pending|running|finished|failed|stopped")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Runs, newest first."""
    with connected(server, token_file, workspace) as (connection, workspace_id):
        path = f"workspaces/{workspace_id}/runs"
        items = list(connection.pages(path, most=limit, kind=kind, state=state))
    if json:
        output.emit({"schema_version": 1, "items": items, "total_count": len(items)})
        return
    columns = ["name", "kind", "state", "rollout", "commit", "submitted", "by"]
    rows = [
        (
            run["name"],
            run["kind"],
            run["state"],
            run["rollout"],
            output.short(run["commit_sha"]),
            run["created_at"],
            run["created_by"]["email"],
        )
        for run in items
    ]
    output.table(columns, rows, empty="There are no runs. `osmosis eval submit` starts one.")


@app.command()
def show(
    run: RunArgument,
    workspace: WorkspaceOption = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """One run: its code, its state and its results."""
    with connected(server, token_file, workspace) as (connection, workspace_id):
        found = connection.get(f"workspaces/{workspace_id}/runs/{segment(run)}")
    if json:
        output.emit(found)
        return
    results = found["results"] or {}
    numbers = [
        f"{key} {value:g}"
        for key, value in results.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    output.fields(
        [
            ("name", found["name"]),
            ("id", found["id"]),
            ("kind", found["kind"]),
            ("state", found["state"]),
            ("reason", found["reason"]),
            ("commit", found["commit_sha"]),
            ("branch", found["branch"]),
            ("rollout", f"{found['rollout']} ({found['entrypoint']})"),
            ("artifact", f"sha256:{found['digest']}"),
            ("config", found["config_path"] or "none of the commit's"),
            ("model", found["model_path"]),
            ("data set", found["dataset"]["name"]),
            ("secrets", sorted([*found["secret_scopes"], *found["provided_secrets"]])),
            ("submitted", f"{found['created_at']} by {found['created_by']['email']}"),
            ("started", found["started_at"]),
            ("completed", found["completed_at"]),
            ("attempt", found["attempt"] or None),
            ("step", _step(found)),
            ("samples", found["samples"] or None),
            ("results", numbers),
        ]
    )


def _step(run: Json) -> str | None:
    if run["current_step"] is None:
        return None
    total = "" if run["total_steps"] is None else f" of {run['total_steps']}"
    return f"{run['current_step']}{total}"


@app.command()
def logs(
    run: RunArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 200,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run is over.")
    ] = False,
    workspace: WorkspaceOption = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """The newest entries of the log, oldest first."""
    with connected(server, token_file, workspace) as (connection, workspace_id):
        path = f"workspaces/{workspace_id}/runs/{segment(run)}"
        items, total = _newest(connection, path, limit)
        if json:
            output.emit({"schema_version": 1, "items": items, "total_count": total})
            return
        _print(items)
        while follow:
            is_over = connection.get(path)["state"] in _OVER
            fresh, now = _newest(connection, path, None, seen=total)
            _print(fresh)
            total = now
            if is_over:
                return
            time.sleep(_FOLLOW_S)


def _newest(
    connection: Server, path: str, limit: int | None, *, seen: int = 0
) -> tuple[list[Any], int]:
    """The newest entries, or all that came after the first `seen`; and how many there are."""
    found: list[Any] = []
    after: str | None = None
    while True:
        page = connection.get(f"{path}/logs", limit=200, after=after)
        wanted = page["total_count"] - seen if limit is None else limit
        found = page["items"] + found
        after = page["next"]
        if after is None or len(found) >= wanted:
            return (found[-wanted:] if wanted > 0 else []), page["total_count"]


def _print(items: list[Any]) -> None:
    for entry in items:
        mark = "" if entry["level"] == "info" else f"{entry['level'].upper()} "
        output.say(f"{entry['timestamp']}  {mark}[{entry['step']}] {printable(entry['message'])}")


@app.command()
def stop(
    run: RunArgument,
    yes: YesOption = False,
    workspace: WorkspaceOption = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """End a run; its executor is told at its next heartbeat."""
    with connected(server, token_file, workspace) as (connection, workspace_id):
        confirm(f"Stop the run {run}?", is_sure=yes)
        found = connection.post(f"workspaces/{workspace_id}/runs/{segment(run)}/stop")
    if json:
        output.emit(found)
    else:
        output.say(f"{found['name']} is stopped.")
