"""`gitsync workspace adopt`: what a connected repository lacks of a workspace."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gitsync.cli import output
from gitsync.cli.changing import SetOption, parse_set, show
from gitsync.cli.target import Target, about_workspace


@about_workspace
def adopt(
    target: Target,
    apply: Annotated[
        bool, typer.Option("--apply", help="Commit it. Without it the plan is only shown.")
    ] = False,
    skills: Annotated[
        list[str] | None,
        typer.Option("--skill", help="A skill to add; repeatable. Default: the standard ones."),
    ] = None,
    without_skills: Annotated[
        bool, typer.Option("--no-skills", help="Add no skills at all.")
    ] = False,
    parameters: SetOption = None,
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="A new branch for the commit.")
    ] = None,
    message: Annotated[
        str | None, typer.Option("--message", "-m", metavar="TEXT", help="Of the commit.")
    ] = None,
) -> None:
    """Show what the repository lacks of a workspace, or add it; nothing is ever replaced."""
    body: dict[str, Any] = {"dry_run": not apply, "parameters": parse_set(parameters)}
    if skills or without_skills:
        body["skills"] = [] if without_skills else skills
    body |= {"branch": branch} if branch else {}
    body |= {"message": message} if message else {}
    found = target.post("adopt", body)
    if not apply and any(found["counts"][word] for word in ("create", "replace")):
        output.note("Nothing was written. Add --apply to commit this, or --branch too.")
    show(found)
