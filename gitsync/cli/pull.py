"""`gitsync pull`: one rollout version in a folder, verified."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli import output
from gitsync.cli.options import JsonOption, ServerOption, TokenOption, WorkspaceOption, place_of
from gitsync.client.artifact import pull as pull_artifact
from gitsync.client.failures import ServerRefused
from gitsync.client.selector import Selector, parse_digest
from gitsync.errors import GitSyncError


def pull(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RESOLVE",
            help="ROLLOUT[:ENTRYPOINT][@SHA or @branch:NAME], or the digest of an artifact.",
        ),
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    prefer_last_good: Annotated[
        bool,
        typer.Option(
            "--prefer-last-good", help="Take the last good version if the newest cannot run."
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace DIR if it is there already.")
    ] = False,
    server: ServerOption = None,
    workspace: WorkspaceOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Fetch the artifact of a rollout version, verify it and unpack it.

    A digest that was pulled before comes from the cache (GITSYNC_CACHE) without the server.
    """
    if parse_digest(what) is None:
        Selector.parse(what)
        place = place_of(server, token_file, workspace)
    else:
        try:
            place = place_of(server, token_file, workspace)
        except GitSyncError:
            place = None  # the cache may do
    try:
        with output.progress(what) as on_progress:
            found = pull_artifact(
                what,
                folder,
                place=place,
                prefer="last_good" if prefer_last_good else None,
                is_replacing=force,
                on_progress=on_progress,
            )
    except ServerRefused as e:
        good = e.details.get("last_good")
        if not isinstance(good, dict):
            raise
        output.fail(e)
        commit = output.short(good.get("commit_sha"))
        output.note(f"The last good version is {commit}; --prefer-last-good takes it.")
        raise typer.Exit(output.exit_code(e)) from e
    if json:
        output.emit(found.to_json())
        return
    source = "the cache" if found.from_cache else "the server"
    output.say(f"{found.files} files of sha256:{found.digest} from {source} in {found.path}")
    if found.resolved is not None:
        known = found.resolved
        output.say(f"{known.get('rollout')}:{known.get('entrypoint')} at {known.get('commit_sha')}")
        if known.get("substituted"):
            output.note("This is the last good version; the newest one cannot run.")
