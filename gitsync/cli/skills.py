"""`gitsync skills`: Agent Skills of a checkout, or of a workspace in the service.

Promise: the same exit codes as `gitsync template`; `check` leaves with 1 if an installed skill is
damaged or incomplete.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gitsync.apply import find_checkout
from gitsync.cli import output
from gitsync.cli.changing import (
    DryOption,
    PathOption,
    Request,
    Service,
    ServiceOption,
    carry_out,
    here_or_there,
)
from gitsync.cli.options import JsonOption, ServerOption, TokenOption, connected
from gitsync.errors import InvalidInput
from gitsync.template.catalogue import builtin
from gitsync.template.disk import DiskTree
from gitsync.template.operations import (
    InstallSkills,
    RepairSkills,
    UninstallSkills,
    UpgradeSkills,
)
from gitsync.template.selection import SkillMode
from gitsync.template.skills import list_skills
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


def _states(
    path: Path, workspace: str | None, server: str | None, token_file: str | None
) -> list[dict[str, Any]]:
    """The skills of a checkout, or of the commit that the service has seen last."""
    if workspace is None:
        return [s.to_json() for s in list_skills(DiskTree(find_checkout(path)), builtin())]
    with connected(server, token_file, workspace) as (connection, workspace_id):
        return list(connection.get(f"workspaces/{workspace_id}/skills")["items"])


def _words(state: dict[str, Any]) -> str:
    words = ["installed" if state["installed"] else "available" if state["known"] else "yours"]
    if state["mode"] == SkillMode.COPY.value:
        words.append("as copies")
    words += [
        word
        for word, paths in (
            ("edited", state["edited"]),
            ("incomplete", state["missing"]),
            ("outdated", state["outdated"] if state["installed"] else ()),
            ("damaged", state["damage"]),
        )
        if paths
    ]
    return ", ".join(words)


@skills_app.command("list")
def list_all(
    path: PathOption = Path(),
    workspace: ServiceOption = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Skills that are installed, that can be installed, and those of your own."""
    states = _states(path, workspace, server, token_file)
    if as_json:
        output.emit({"schema_version": 1, "items": states, "total_count": len(states)})
        return
    for state in states:
        output.say(f"{printable(state['name']):<22}{_words(state)}")


@skills_app.command("check")
def check(
    path: PathOption = Path(),
    workspace: ServiceOption = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look for damaged links and missing files; exit 1 if there are any."""
    states = _states(path, workspace, server, token_file)
    problems = [s for s in states if s["installed"] and (s["damage"] or s["missing"])]
    hints = [s for s in states if not s["installed"] and s["damage"]]
    if as_json:
        body = {
            "schema_version": 1,
            "ok": not problems,
            "items": [s for s in states if s["installed"] or s["damage"]],
        }
        output.emit(body)
    else:
        for state in [*problems, *hints]:
            for line in (*state["damage"], *(f"{p} is missing" for p in state["missing"])):
                output.say(f"{printable(state['name'])}: {printable(line)}")
        output.say(
            "Run gitsync skills repair." if problems else "All installed skills are complete."
        )
    if problems:
        raise typer.Exit(1)


@skills_app.command("install")
@here_or_there
def install(
    service: Service,
    names: list[str],
    copy: CopyOption = False,
    dry_run: DryOption = False,
    path: PathOption = Path(),
) -> None:
    """Add skills and their links, and name them in AGENTS.md."""
    mode = SkillMode.COPY if copy else SkillMode.LINK
    carry_out(
        InstallSkills(tuple(names), mode),
        Request(("skills", "install"), {"skills": names, "mode": mode.value}),
        path=path,
        dry_run=dry_run,
        service=service,
    )


@skills_app.command("upgrade")
@here_or_there
def upgrade(
    service: Service,
    names: Annotated[list[str] | None, typer.Argument()] = None,
    beside: Annotated[
        bool, typer.Option("--beside", help="Put the new side of a conflict beside the file.")
    ] = False,
    dry_run: DryOption = False,
    path: PathOption = Path(),
) -> None:
    """Bring installed skills to the present version; your edits stay."""
    on_conflict = OnConflict.BESIDE if beside else OnConflict.REPORT
    body = {"skills": names or [], "on_conflict": on_conflict.value}
    carry_out(
        UpgradeSkills(tuple(names or ()), on_conflict),
        Request(("skills", "upgrade"), body),
        path=path,
        dry_run=dry_run,
        service=service,
    )


@skills_app.command("uninstall")
@here_or_there
def uninstall(
    service: Service,
    names: list[str],
    force: ForceOption = False,
    dry_run: DryOption = False,
    path: PathOption = Path(),
) -> None:
    """Remove skills that gitsync installed; files of your own stay."""
    carry_out(
        UninstallSkills(tuple(names), force),
        Request(("skills", "uninstall"), {"skills": names, "force": force}),
        path=path,
        dry_run=dry_run,
        service=service,
    )


@skills_app.command("repair")
@here_or_there
def repair(
    service: Service,
    copy: CopyOption = False,
    link: Annotated[bool, typer.Option("--link", help="Back to links.")] = False,
    force: ForceOption = False,
    dry_run: DryOption = False,
    path: PathOption = Path(),
) -> None:
    """Mend links that a clone without symlinks turned into text files or copies."""
    if copy and link:
        raise InvalidInput("Choose --copy or --link.", field="mode")
    mode = SkillMode.COPY if copy else SkillMode.LINK if link else None
    carry_out(
        RepairSkills(mode, force),
        Request(("skills", "repair"), {"mode": mode.value if mode else None, "force": force}),
        path=path,
        dry_run=dry_run,
        service=service,
    )
