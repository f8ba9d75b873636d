"""`gitsync template`: starters, updates and the export, on a checkout or in the service.

Promise: exit 0 done (or a dry run without conflict), 1 a conflict or an error, 2 usage. With
`--json` one JSON object goes to stdout; failures are told by `gitsync.cli`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gitsync.apply import export_template, find_checkout
from gitsync.cli import output
from gitsync.cli.changing import (
    DryOption,
    PathOption,
    Request,
    Service,
    ServiceOption,
    SetOption,
    carry_out,
    here_or_there,
    parse_set,
    say_patch,
)
from gitsync.cli.options import JsonOption, ServerOption, TokenOption, connected
from gitsync.planning import edits
from gitsync.template.catalogue import builtin
from gitsync.template.disk import DiskTree
from gitsync.template.operations import Adopt, ApplyStarter, UpdateTemplate
from gitsync.template.threeway import OnConflict

template_app = typer.Typer(
    help="Starters and the workspace template: list, apply, update, export.",
    no_args_is_help=True,
)


@template_app.command("list")
def list_starters(as_json: JsonOption = False) -> None:
    """The starters that can be applied."""
    starters = builtin().starters.values()
    if as_json:
        items = [s.to_json() for s in starters]
        output.emit({"schema_version": 1, "items": items, "total_count": len(items)})
        return
    for starter in starters:
        output.say(f"{starter.name:<26}{starter.description}")


@template_app.command("show")
def show_starter(name: str, as_json: JsonOption = False) -> None:
    """One starter with its parameters."""
    starter = builtin().starter(name)
    if as_json:
        output.emit({"schema_version": 1, **starter.to_json()})
        return
    output.say(f"{starter.name}: {starter.description}")
    for parameter in starter.parameters.items:
        default = json.dumps(parameter.default)
        output.say(f"  --set {parameter.name}={default:<32}{parameter.description}")


@template_app.command("apply")
@here_or_there
def apply_starter(
    service: Service,
    name: str,
    rollout: Annotated[
        str | None, typer.Option("--rollout", help="Name of the new rollout; default: NAME.")
    ] = None,
    parameters: SetOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the rollout's folder and its two configs.")
    ] = False,
    dry_run: DryOption = False,
    path: PathOption = Path(),
) -> None:
    """Add a starter: a rollout, its two configs, shared data."""
    operation = ApplyStarter(name, rollout, parse_set(parameters), force)
    body = {"rollout": rollout, "parameters": parse_set(parameters), "force": force}
    carry_out(
        operation,
        Request(("templates", name, "apply"), body),
        path=path,
        dry_run=dry_run,
        service=service,
    )


@template_app.command("update")
@here_or_there
def update(
    service: Service,
    parameters: SetOption = None,
    rollout: Annotated[
        str | None, typer.Option("--rollout", help="Whose parameters --set means.")
    ] = None,
    restore: Annotated[
        list[str] | None,
        typer.Option("--restore", metavar="FILE", help="Bring back a file you deleted or edited."),
    ] = None,
    beside: Annotated[
        bool,
        typer.Option("--beside", help="Put the template's side of a conflict beside the file."),
    ] = False,
    dry_run: DryOption = False,
    path: PathOption = Path(),
) -> None:
    """Bring the files to the present template; your edits and deletions stay."""
    on_conflict = OnConflict.BESIDE if beside else OnConflict.REPORT
    operation = UpdateTemplate(parse_set(parameters), rollout, tuple(restore or ()), on_conflict)
    body = {
        "rollout": rollout,
        "parameters": parse_set(parameters),
        "restore": restore or [],
        "on_conflict": on_conflict.value,
    }
    carry_out(
        operation,
        Request(("templates", "update"), body),
        path=path,
        dry_run=dry_run,
        service=service,
    )


@template_app.command("adopt")
def adopt(
    skills: Annotated[
        list[str] | None,
        typer.Option("--skill", help="A skill to add; repeatable. Default: the standard ones."),
    ] = None,
    without_skills: Annotated[
        bool, typer.Option("--no-skills", help="Add no skills at all.")
    ] = False,
    parameters: SetOption = None,
    dry_run: DryOption = False,
    path: PathOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Add to an existing repository what is missing of a workspace; replace nothing."""
    chosen = [] if without_skills else skills
    operation = Adopt(None if chosen is None else tuple(chosen), parse_set(parameters))
    carry_out(operation, None, path=path, dry_run=dry_run, service=None)


@template_app.command("diff")
def diff(
    path: PathOption = Path(),
    workspace: ServiceOption = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """What you changed of the template's files, as a patch from its version to yours."""
    if workspace is None:
        patches = edits(DiskTree(find_checkout(path)), builtin())
        items = [{"path": p, "patch": t.decode("utf-8", "replace")} for p, t in patches]
    else:
        with connected(server, token_file, workspace) as (connection, workspace_id):
            items = connection.get(f"workspaces/{workspace_id}/templates/diff")["items"]
    if as_json:
        output.emit({"schema_version": 1, "items": items, "total_count": len(items)})
        return
    for item in items:
        output.say(*say_patch(item["patch"]))


@template_app.command("export")
def export(target: Path, as_json: JsonOption = False) -> None:
    """Write the template as plain files; the `osmosis` command takes the folder as its source."""
    count = export_template(target)
    resolved = target.resolve()
    if as_json:
        output.emit({"schema_version": 1, "path": str(resolved), "files": count})
        return
    output.say(f"{count} files in {resolved}")
    output.say(f"export OSMOSIS_WORKSPACE_TEMPLATE_PATH={resolved}")
