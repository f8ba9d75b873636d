"""`gitsync check` and `gitsync explain`: the check of a push, on your machine.

Exit codes: 0 nothing wrong, 1 errors or something that cannot be decided, 2 wrong usage.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gitsync.check import WorkingCopy, inspect
from gitsync.check.explain import all_codes, suggestion
from gitsync.check.render import to_github, to_json, to_sarif, to_text
from gitsync.check.workingcopy import find_repository
from gitsync.errors import GitSyncError, InvalidInput, NotFound
from gitsync.model import CheckOptions, Verdict
from gitsync.text import printable
from gitsync.tree import Tree

_USAGE = 2
# Steps back from a name, as Git writes them: `HEAD~2`, `main^`, `v1^2~1`.
_STEPS = re.compile(r"(?:[~^][0-9]{0,6})+$")
_FOLDERS = ("rollouts", "configs")
_STEP = re.compile(r"([~^])([0-9]*)")


class Format(StrEnum):
    """How the report is written."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


def check(
    path: Annotated[
        Path, typer.Argument(help="The workspace: a folder, usually a Git checkout.")
    ] = Path(),
    rev: Annotated[
        str | None, typer.Option("--rev", help="Check this commit instead of the files on disk.")
    ] = None,
    rollout: Annotated[
        str | None, typer.Option("--rollout", help="Only this rollout and its configs.")
    ] = None,
    entrypoint: Annotated[
        str | None, typer.Option("--entrypoint", help="Only this entrypoint; needs --rollout.")
    ] = None,
    accept_harbor_native: Annotated[
        bool,
        typer.Option(
            "--accept-harbor-native",
            help="Allow Harbor's own agents and rewards instead of a workflow or grader.",
        ),
    ] = False,
    max_file_bytes: Annotated[
        int | None,
        typer.Option("--max-file-bytes", min=1, help="The most bytes of one Python file."),
    ] = None,
    output: Annotated[
        Format, typer.Option("--format", help="text, json, sarif or github.")
    ] = Format.TEXT,
) -> None:
    """Check a workspace: entrypoints, configs, packages, data, skills, links, hygiene."""
    if entrypoint is not None and rollout is None:
        raise _usage("--entrypoint needs --rollout.")
    if rollout is not None and (not rollout or "/" in rollout):
        raise _usage("--rollout takes the name of a folder under rollouts/.")
    options = CheckOptions(accept_harbor_native=accept_harbor_native)
    if max_file_bytes is not None:
        options = CheckOptions(
            accept_harbor_native=accept_harbor_native, max_file_bytes=max_file_bytes
        )
    only = (rollout, entrypoint) if rollout is not None else None
    try:
        tree = _tree(path, rev)
        report = inspect(tree, options=options, only=only)
        if output is Format.TEXT:
            is_terminal = sys.stdout.isatty()
            text = to_text(
                report,
                None if report.refused else tree,
                color=is_terminal and not os.environ.get("NO_COLOR"),
                width=max(60, min(shutil.get_terminal_size().columns, 120)) if is_terminal else 100,
            )
        else:
            text = {Format.JSON: to_json, Format.SARIF: to_sarif, Format.GITHUB: to_github}[output](
                report
            )
    except GitSyncError as e:
        raise _usage(e.message) from e
    typer.echo(text, nl=False)
    above = _workspace_above(path)
    if above is not None:
        where = printable(str(above), limit=200)
        typer.echo(f"gitsync: this folder lies in the workspace {where}; check that one.", err=True)
    raise typer.Exit(0 if report.verdict is Verdict.OK else 1)


def explain(
    code: Annotated[str, typer.Argument(help="A code, such as no-grader.")],
) -> None:
    """Explain a finding: what it says, why it matters, an example and its fix."""
    found = all_codes().get(code)
    if found is None:
        near = suggestion(code)
        hint = f" Did you mean {near}?" if near else " `docs/findings.md` lists all codes."
        raise _usage(f"There is no code {printable(code, limit=80)!r}.{hint}")
    typer.echo(f"{found.code} ({found.severity.value})\n")
    typer.echo(f"{found.summary}\n\n{found.why}\n")
    typer.echo(f"For example:\n\n{_indented(found.example)}\n\nInstead:\n\n{_indented(found.fix)}")


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _tree(path: Path, rev: str | None) -> Tree:
    if rev is not None:
        return _commit(path, rev)
    if _is_git_dir(path):
        raise InvalidInput(f"{str(path)[:200]!r} is a bare Git repository; name a commit by --rev.")
    return working_copy(path)


def working_copy(path: Path) -> WorkingCopy:
    """The files on disk, and from the commit those that a sparse checkout leaves out."""
    return WorkingCopy(path, head=lambda: _commit(path, "HEAD"))


def _commit(path: Path, rev: str) -> Tree:
    """The files of a commit of the repository that holds the folder, or is the folder."""
    from gitsync.git.objects import open_commit  # only --rev needs an object store

    if _is_git_dir(path):
        git_dir, inside = path.resolve(), ""
    else:
        repository = find_repository(path.resolve())
        if repository is None:
            raise InvalidInput(f"{str(path)[:200]!r} is in no Git repository; --rev needs one.")
        git_dir = repository.git_dir
        inside = path.resolve().relative_to(repository.root).as_posix().removeprefix(".")
    return open_commit(git_dir, _named(git_dir, rev), root=inside)


def _is_git_dir(path: Path) -> bool:
    return (path / "objects").is_dir() and (path / "HEAD").is_file()


def _workspace_above(path: Path) -> Path | None:
    """The workspace that was meant, if the folder is one inside it."""
    here = path.resolve()
    if _is_git_dir(here) or any((here / name).is_dir() for name in _FOLDERS):
        return None
    return next((up for up in here.parents if all((up / name).is_dir() for name in _FOLDERS)), None)


def _named(git_dir: Path, rev: str) -> str:
    """The id of the commit that a branch, tag or id names, steps to its ancestors followed."""
    from gitsync.git.commits import read_commit

    steps = _STEPS.search(rev)
    name, back = (rev[: steps.start()], steps[0]) if steps else (rev, "")
    commit = read_commit(git_dir, _start(git_dir, name))
    for kind, number in _STEP.findall(back):
        count = int(number or 1)
        for _ in range(count if kind == "~" else min(count, 1)):
            parent = 0 if kind == "~" else count - 1
            if parent >= len(commit.parents):
                raise NotFound(f"{rev[:200]!r} goes back further than the history does.")
            commit = read_commit(git_dir, commit.parents[parent])
    return commit.sha


def _start(git_dir: Path, name: str) -> str:
    """A full ref or a full id."""
    from gitsync.git.commits import read_commit
    from gitsync.git.objects import resolve

    if name in ("HEAD", "@"):
        return "HEAD"
    if name.startswith("refs/"):
        return name
    for folder in ("heads", "tags", "remotes"):
        ref = f"refs/{folder}/{name}"
        try:
            read_commit(git_dir, ref)
        except NotFound:
            continue
        return ref
    if re.fullmatch(r"[0-9a-fA-F]{7,40}", name):
        return resolve(git_dir, name)
    raise NotFound(f"There is no branch, tag or commit {name[:200]!r}. Write a name or an id.")


def _usage(message: str) -> typer.Exit:
    typer.echo(f"gitsync: {printable(message, limit=500)}", err=True)
    return typer.Exit(_USAGE)
