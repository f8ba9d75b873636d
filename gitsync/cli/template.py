"""`gitsync template`: starters, updates and the export, on a local checkout.

Promise: exit 0 done (or a dry run without conflict), 1 a conflict or an error, 2 usage. With
`--json` one JSON object goes to stdout; failures are told by `gitsync.cli`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gitsync.apply import (
    Applied,
    all_findings,
    apply_locally,
    edits,
    export_template,
    find_checkout,
    local_blobs,
    review,
)
from gitsync.cli import output
from gitsync.cli.options import JsonOption
from gitsync.errors import InvalidInput
from gitsync.model import Finding
from gitsync.template import select_workspace
from gitsync.template.catalogue import builtin
from gitsync.template.disk import DiskTree
from gitsync.template.plan import Plan
from gitsync.template.selection import use_starter
from gitsync.template.starter import plan_starter, plan_workspace
from gitsync.template.threeway import OnConflict
from gitsync.template.update import plan_update
from gitsync.text import printable

template_app = typer.Typer(
    help="Starters and the workspace template: list, apply, update, export.",
    no_args_is_help=True,
)

PathOption = Annotated[
    Path, typer.Option("--path", help="Any folder of the checkout; default: here.")
]
DryOption = Annotated[
    bool, typer.Option("--dry-run", help="Show plan, diffs and findings; write nothing.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A parameter; repeatable.")
]


def show(applied: Applied, *, next_steps: tuple[str, ...] = ()) -> None:
    """Print what was done or would be, and leave with the exit code that says it."""
    plan = applied.plan
    if output.is_json():
        body: dict[str, Any] = {"schema_version": 1, "written": applied.is_written}
        body |= plan.to_json()
        body["diffs"] = [
            {"path": path, "patch": patch.decode("utf-8", "replace")}
            for path, patch in applied.diffs
        ]
        body["findings"] = [f.to_json() for f in applied.findings]
        body["next_steps"] = list(next_steps) if applied.is_written else []
        output.emit(body)
    else:
        _show_text(applied, next_steps)
    if plan.conflicts:
        raise typer.Exit(1)


def _show_text(applied: Applied, next_steps: tuple[str, ...]) -> None:
    plan = applied.plan
    output.say(plan.summary)
    for step in plan.steps:
        output.say(f"  {step.action.value:<9}{step.path}  ({step.reason})")
    for note in plan.notes:
        output.say(f"  note     {note}")
    for _, patch in applied.diffs:
        output.say("", *say_patch(patch))
    if applied.findings:
        output.say("", "The check of the planned tree says:")
        output.findings(f.to_json() for f in applied.findings)
    if plan.is_blocked:
        output.say("Nothing was written because of the conflicts.")
    elif applied.is_written and next_steps:
        output.say("Next:", *(f"  {line}" for line in next_steps))


def say_patch(patch: bytes) -> list[str]:
    """The lines of a patch."""
    return patch.decode("utf-8", "replace").removesuffix("\n").split("\n")


def checked(root: Path) -> Callable[[Plan], Iterable[Finding]]:
    """What the check says of the checkout with a plan laid over it."""

    def check(plan: Plan) -> Iterable[Finding]:
        from gitsync.check import WorkingCopy  # half a second that only a dry run needs

        return all_findings(review(WorkingCopy(root), plan))

    return check


def parse_set(values: list[str] | None) -> dict[str, str]:
    """`KEY=VALUE` pairs as a mapping."""
    out: dict[str, str] = {}
    for text in values or []:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise InvalidInput(
                f"'{printable(text, limit=80)}' is not KEY=VALUE.", field="parameters"
            )
        out[key] = value
    return out


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
def apply_starter(
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
    as_json: JsonOption = False,
) -> None:
    """Add a starter to this checkout: a rollout, its two configs, shared data."""
    catalogue = builtin()
    use = use_starter(catalogue, name, parse_set(parameters), rollout=rollout)
    root = find_checkout(path)
    applied = apply_locally(
        root,
        lambda tree: plan_starter(tree, catalogue, use, force=force),
        is_dry=dry_run,
        check=checked(root),
    )
    starter = catalogue.starter(name)
    show(applied, next_steps=starter.at(starter.next_steps, use.rollout))


@template_app.command("update")
def update(
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
    as_json: JsonOption = False,
) -> None:
    """Bring this checkout to the present template; your edits and deletions stay."""
    catalogue = builtin()
    given: Mapping[str, object] = parse_set(parameters)
    root = find_checkout(path)
    applied = apply_locally(
        root,
        lambda tree: plan_update(
            tree,
            catalogue,
            parameters=given,
            rollout=rollout,
            restore=restore or (),
            on_conflict=OnConflict.BESIDE if beside else OnConflict.REPORT,
            read_blob=local_blobs(root),
        ),
        is_dry=dry_run,
        check=checked(root),
    )
    show(applied)


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
    catalogue = builtin()
    chosen = [] if without_skills else skills
    selection = select_workspace(catalogue, [], chosen, parse_set(parameters))
    root = find_checkout(path)
    applied = apply_locally(
        root,
        lambda tree: plan_workspace(tree, catalogue, selection),
        is_dry=dry_run,
        check=checked(root),
    )
    show(applied)


@template_app.command("diff")
def diff(path: PathOption = Path(), as_json: JsonOption = False) -> None:
    """What you changed of the template's files, as a patch from its version to yours."""
    patches = edits(DiskTree(find_checkout(path)))
    if as_json:
        items = [{"path": p, "patch": t.decode("utf-8", "replace")} for p, t in patches]
        output.emit({"schema_version": 1, "items": items, "total_count": len(items)})
        return
    for _, patch in patches:
        output.say(*say_patch(patch))


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
