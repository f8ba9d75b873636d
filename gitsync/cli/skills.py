"""`gitsync skills`: Agent Skills of a local checkout.

Promise: the same exit codes as `gitsync template`; `check` leaves with 1 if an installed skill is
damaged or incomplete.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gitsync.apply import apply_locally, find_checkout, local_blobs
from gitsync.cli import output
from gitsync.cli.options import JsonOption
from gitsync.cli.template import DryOption, PathOption, checked, show
from gitsync.errors import InvalidInput
from gitsync.template.catalogue import builtin
from gitsync.template.disk import DiskTree
from gitsync.template.selection import SkillMode
from gitsync.template.skills import (
    SkillState,
    list_skills,
    plan_install,
    plan_repair,
    plan_uninstall,
    plan_upgrade,
)
from gitsync.template.threeway import OnConflict
from gitsync.text import printable

skills_app = typer.Typer(
    help="Agent Skills under .agents/skills and their links under .claude/skills.",
    no_args_is_help=True,
)

CopyOption = Annotated[
    bool, typer.Option("--copy", help="Copies instead of links, for clones without symlinks.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Also where you edited files.")]


def _words(state: SkillState) -> str:
    words = ["installed" if state.is_installed else "available" if state.is_known else "yours"]
    if state.mode is SkillMode.COPY:
        words.append("as copies")
    words += [
        word
        for word, paths in (
            ("edited", state.edited),
            ("incomplete", state.missing),
            ("outdated", state.outdated if state.is_installed else ()),
            ("damaged", state.damage),
        )
        if paths
    ]
    return ", ".join(words)


@skills_app.command("list")
def list_all(path: PathOption = Path(), as_json: JsonOption = False) -> None:
    """Skills that are installed, that can be installed, and those of your own."""
    states = list_skills(DiskTree(find_checkout(path)), builtin())
    if as_json:
        items = [s.to_json() for s in states]
        output.emit({"schema_version": 1, "items": items, "total_count": len(items)})
        return
    for state in states:
        output.say(f"{printable(state.name):<22}{_words(state)}")


@skills_app.command("check")
def check(path: PathOption = Path(), as_json: JsonOption = False) -> None:
    """Look for damaged links and missing files; exit 1 if there are any."""
    states = list_skills(DiskTree(find_checkout(path)), builtin())
    problems = [s for s in states if s.is_installed and (s.damage or s.missing)]
    hints = [s for s in states if not s.is_installed and s.damage]
    if as_json:
        body = {
            "schema_version": 1,
            "ok": not problems,
            "items": [s.to_json() for s in states if s.is_installed or s.damage],
        }
        output.emit(body)
    else:
        for state in [*problems, *hints]:
            for line in (*state.damage, *(f"{p} is missing" for p in state.missing)):
                output.say(f"{printable(state.name)}: {printable(line)}")
        output.say(
            "Run gitsync skills repair." if problems else "All installed skills are complete."
        )
    if problems:
        raise typer.Exit(1)


@skills_app.command("install")
def install(
    names: list[str],
    copy: CopyOption = False,
    dry_run: DryOption = False,
    path: PathOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Add skills and their links, and name them in AGENTS.md."""
    root = find_checkout(path)
    mode = SkillMode.COPY if copy else SkillMode.LINK
    applied = apply_locally(
        root,
        lambda tree: plan_install(tree, builtin(), names, mode=mode, read_blob=local_blobs(root)),
        is_dry=dry_run,
        check=checked(root),
    )
    show(applied)


@skills_app.command("upgrade")
def upgrade(
    names: Annotated[list[str] | None, typer.Argument()] = None,
    beside: Annotated[
        bool, typer.Option("--beside", help="Put the new side of a conflict beside the file.")
    ] = False,
    dry_run: DryOption = False,
    path: PathOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Bring installed skills to the present version; your edits stay."""
    root = find_checkout(path)
    applied = apply_locally(
        root,
        lambda tree: plan_upgrade(
            tree,
            builtin(),
            names or (),
            on_conflict=OnConflict.BESIDE if beside else OnConflict.REPORT,
            read_blob=local_blobs(root),
        ),
        is_dry=dry_run,
        check=checked(root),
    )
    show(applied)


@skills_app.command("uninstall")
def uninstall(
    names: list[str],
    force: ForceOption = False,
    dry_run: DryOption = False,
    path: PathOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Remove skills that gitsync installed; files of your own stay."""
    root = find_checkout(path)
    applied = apply_locally(
        root,
        lambda tree: plan_uninstall(
            tree, builtin(), names, force=force, read_blob=local_blobs(root)
        ),
        is_dry=dry_run,
        check=checked(root),
    )
    show(applied)


@skills_app.command("repair")
def repair(
    copy: CopyOption = False,
    link: Annotated[bool, typer.Option("--link", help="Back to links.")] = False,
    force: ForceOption = False,
    dry_run: DryOption = False,
    path: PathOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Mend links that a clone without symlinks turned into text files or copies."""
    if copy and link:
        raise InvalidInput("Choose --copy or --link.", field="mode")
    mode = SkillMode.COPY if copy else SkillMode.LINK if link else None
    root = find_checkout(path)
    applied = apply_locally(
        root,
        lambda tree: plan_repair(tree, builtin(), mode=mode, force=force),
        is_dry=dry_run,
        check=checked(root),
    )
    show(applied)
