"""`gitsync clone`: a checkout where Git and `osmosis` work at once."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli import output
from gitsync.cli.options import JsonOption, ServerOption, TokenOption, place_of
from gitsync.client.cloning import clone as clone_workspace


def clone(
    workspace: Annotated[
        str, typer.Argument(metavar="WORKSPACE", help="OWNER/NAME, or the workspace's name or id.")
    ],
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Where to; by default NAME.")
    ] = None,
    branch: Annotated[
        str | None, typer.Option("--branch", "-b", metavar="NAME", help="Check this branch out.")
    ] = None,
    template_path: Annotated[
        Path | None,
        typer.Option(
            "--template-path",
            metavar="DIR",
            help="Where `osmosis template` finds its templates; by default those of this program.",
        ),
    ] = None,
    without_helper: Annotated[
        bool,
        typer.Option(
            "--without-helper",
            help="Use a second remote, for Git programs that know no remote helpers.",
        ),
    ] = False,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Clone a workspace so that Git and osmosis work in it at once."""
    place = place_of(server, token_file)
    given = template_path or os.environ.get("OSMOSIS_WORKSPACE_TEMPLATE_PATH")

    def template(git_folder: Path) -> Path | None:
        return Path(given).absolute() if given else exported_template(git_folder)

    found = clone_workspace(
        workspace,
        folder,
        place=place,
        branch=branch,
        has_helper=not without_helper,
        template=template,
        shows_progress=not json and sys.stderr.isatty(),
    )
    if json:
        output.emit(found.to_json())
        return
    at = f" at {found.commit_sha[:10]}" if found.commit_sha else ""
    output.say(f"Cloned {found.identity} into {found.path}, on {found.branch}{at}.")
    for line in found.notes:
        output.note(f"Note: {line}")


def exported_template(git_folder: Path) -> Path:
    """This program's templates beside the checkout's Git data, as osmosis wants them."""
    from gitsync.apply import export_template

    target = git_folder / "gitsync-template"
    export_template(target)
    return target
