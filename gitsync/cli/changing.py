"""What the commands that change a workspace's files share: options, carrying out, showing.

Promise: the same operation, the same plan and the same output whether it is done in a checkout or,
with `--workspace`, by the service; exit 1 if there is a conflict.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Concatenate

import typer

from gitsync.apply import Applied, apply_locally, find_checkout
from gitsync.cli import output
from gitsync.cli.options import connected
from gitsync.cli.target import with_options
from gitsync.errors import InvalidInput
from gitsync.model import Finding
from gitsync.planning import all_findings, review
from gitsync.template.catalogue import builtin
from gitsync.template.operations import Operation
from gitsync.template.plan import Plan
from gitsync.text import printable

PathOption = Annotated[
    Path, typer.Option("--path", help="Any folder of the checkout; default: here.")
]
DryOption = Annotated[
    bool, typer.Option("--dry-run", help="Show plan, diffs and findings; write nothing.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A parameter; repeatable.")
]
ServiceOption = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        "-w",
        metavar="WORKSPACE",
        help="Let the service commit it to this workspace, instead of a checkout here.",
    ),
]
BranchOption = Annotated[
    str | None,
    typer.Option("--branch", metavar="NAME", help="With --workspace: a new branch for the commit."),
]
ExpectedOption = Annotated[
    str | None,
    typer.Option("--expected", metavar="SHA", help="With --workspace: only on top of this commit."),
]
MessageOption = Annotated[
    str | None,
    typer.Option("--message", "-m", metavar="TEXT", help="With --workspace: of the commit."),
]


@dataclass(frozen=True, slots=True)
class Service:
    """Where the service is, and what only a commit of its own has."""

    workspace: str | None
    server: str | None = None
    token_file: str | None = None
    branch: str | None = None
    expected: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A path below a workspace, as segments, and what is asked there."""

    path: tuple[str, ...]
    body: dict[str, Any]


@contextmanager
def _meant(
    workspace: str | None,
    branch: str | None,
    expected: str | None,
    message: str | None,
    server: str | None,
    token_file: str | None,
) -> Iterator[Service]:
    if workspace is None and (branch or expected or message):
        raise InvalidInput("--branch, --expected and --message need --workspace.")
    yield Service(workspace, server, token_file, branch, expected, message)


def here_or_there[**P](work: Callable[Concatenate[Service, P], None]) -> Callable[..., None]:
    """A command for a checkout that the service does instead with `--workspace`."""
    return with_options(
        work,
        _meant,
        workspace=ServiceOption,
        branch=BranchOption,
        expected=ExpectedOption,
        message=MessageOption,
    )


def carry_out(
    operation: Operation,
    request: Request | None,
    *,
    path: Path,
    dry_run: bool,
    service: Service | None,
) -> None:
    """Do it in the checkout, or ask the service; show what was done and leave with the exit code.

    `request` None: only a checkout can do it.
    """
    if service is None or service.workspace is None or request is None:
        show_local(operation, path, dry_run=dry_run)
        return
    from gitsync.client.server import segment

    body = {
        **request.body,
        "dry_run": dry_run,
        "branch": service.branch,
        "expected_sha": service.expected,
        "message": service.message,
    }
    with connected(service.server, service.token_file, service.workspace) as (server, found):
        where = "/".join(segment(part) for part in request.path)
        given = {key: value for key, value in body.items() if value is not None}
        show(server.post(f"workspaces/{found}/{where}", given))


def show_local(operation: Operation, path: Path, *, dry_run: bool) -> None:
    """Do it in the checkout, and show it."""
    root = find_checkout(path)
    applied = apply_locally(root, operation, is_dry=dry_run, check=checked(root))
    show(_body(applied, operation))


def _body(applied: Applied, operation: Operation) -> dict[str, Any]:
    """What the service answers, as far as a checkout has it."""
    steps = operation.next_steps(builtin()) if applied.is_written else ()
    return {
        "written": applied.is_written,
        **applied.plan.to_json(),
        "diffs": [
            {"path": path, "patch": patch.decode("utf-8", "replace")}
            for path, patch in applied.diffs
        ],
        "findings": [f.to_json() for f in applied.findings],
        "next_steps": list(steps),
    }


def show(body: dict[str, Any]) -> None:
    """Print what was done or would be, and leave with the exit code that says it."""
    if output.is_json():
        output.emit({"schema_version": 1, **body})
    elif body.get("patch"):
        _show_mail(body)
    else:
        _show_text(body)
    if body["counts"]["conflict"]:
        raise typer.Exit(1)


def _show_text(body: dict[str, Any]) -> None:
    output.say(body["summary"])
    for step in body["steps"]:
        output.say(f"  {step['action']:<9}{step['path']}  ({step['reason']})")
    for note in body["notes"]:
        output.say(f"  note     {note}")
    for diff in body["diffs"]:
        output.say("", *say_patch(diff["patch"]))
    if body["findings"]:
        output.say("", "The check of the planned tree says:")
        output.findings(body["findings"])
    if body["blocked"]:
        output.say("Nothing was written because of the conflicts.")
    elif body["written"]:
        if body.get("commit_sha"):
            output.say(f"Committed {output.short(body['commit_sha'])} to {body['branch']}.")
        if body["next_steps"]:
            output.say("Next:", *(f"  {line}" for line in body["next_steps"]))
    elif body.get("outcome") == "unchanged":
        output.say("Nothing is to be done.")


def _show_mail(body: dict[str, Any]) -> None:
    """The mail for `git am`: as it is into a file or pipe, escaped on a terminal."""
    output.note(f"{body['reason']}.")
    if sys.stdout.isatty():
        output.say(*say_patch(body["patch"]))
        output.note("Say it again with `> change.patch`, then run `git am change.patch`.")
        return
    sys.stdout.write(body["patch"])
    sys.stdout.flush()
    output.note("Standard output is a mail for `git am`.")


def say_patch(patch: str) -> list[str]:
    """The lines of a patch."""
    return patch.removesuffix("\n").split("\n")


def checked(root: Path) -> Callable[[Plan], Iterable[Finding]]:
    """What the check says of the checkout with a plan laid over it."""

    def check(plan: Plan) -> Iterable[Finding]:
        from gitsync.cli.check import working_copy  # half a second that only a dry run needs

        return all_findings(review(working_copy(root), plan))

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
