"""Commands about a server, or one workspace of it: their shared options, in one place.

`@on_server` and `@in_workspace` add `--server`, `--token-file`, `--json` (and the workspace) to a
command, and hand it the open connection instead. The command tells what it found by
`output.answer`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, get_type_hints

import typer

from gitsync.cli.options import (
    JsonOption,
    ServerOption,
    TokenOption,
    WorkspaceArgument,
    WorkspaceOption,
    connected,
    place_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gitsync.client.server import Json, Server

WorkspaceNeeded = Annotated[
    str, typer.Argument(metavar="WORKSPACE", help="Name, OWNER/NAME or id; always to be named.")
]


@dataclass(frozen=True, slots=True)
class Target:
    """One workspace of a server; paths are below it."""

    server: Server
    workspace_id: str

    def path(self, rest: str = "") -> str:
        """The whole path of something in the workspace."""
        return f"workspaces/{self.workspace_id}/{rest}".rstrip("/")

    def get(self, rest: str = "", **params: Any) -> Json:
        """Read one thing."""
        return self.server.get(self.path(rest), **params)

    def items(self, rest: str, **params: Any) -> list[Json]:
        """Read a list, all pieces of it or at most `most` items."""
        return list(self.server.pages(self.path(rest), **params))

    def send(self, method: str, rest: str, body: Json | None = None) -> Json:
        """Write."""
        return self.server.send(method, self.path(rest), body)

    def post(self, rest: str, body: Json | None = None) -> Json:
        """`send` with POST."""
        return self.send("POST", rest, body)

    def delete(self, rest: str = "") -> None:
        """Remove."""
        self.server.delete(self.path(rest))


def on_server[**P](work: Callable[Concatenate[Server, P], None]) -> Callable[..., None]:
    """A command that gets the server as its first argument."""

    @contextmanager
    def opened(server: str | None, token_file: str | None) -> Iterator[Server]:
        with place_of(server, token_file).open() as connection:
            yield connection

    return with_options(work, opened)


def in_workspace[**P](work: Callable[Concatenate[Target, P], None]) -> Callable[..., None]:
    """A command about the workspace that `--workspace`, the environment or the clone names."""
    return with_options(work, _opened, workspace=WorkspaceOption)


def about_workspace[**P](work: Callable[Concatenate[Target, P], None]) -> Callable[..., None]:
    """The same with the workspace as an argument that may be left out."""
    return with_options(work, _opened, workspace=WorkspaceArgument)


def of_named_workspace[**P](work: Callable[Concatenate[Target, P], None]) -> Callable[..., None]:
    """The same where guessing would be dangerous: the workspace must be named."""
    return with_options(work, _opened, workspace=WorkspaceNeeded)


@contextmanager
def _opened(server: str | None, token_file: str | None, workspace: str | None) -> Iterator[Target]:
    with connected(server, token_file, workspace) as (connection, workspace_id):
        yield Target(connection, workspace_id)


def with_options(
    work: Callable[..., None], opened: Callable[..., Any], **first: Any
) -> Callable[..., None]:
    """`work` with the options of `opened` in place of its first parameter, as typer reads it."""
    hints = get_type_hints(work, include_extras=True)
    own = [
        parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in list(inspect.signature(work).parameters.values())[1:]
    ]
    shared = {"server": ServerOption, "token_file": TokenOption}
    parameters = [
        *(_parameter(name, annotation) for name, annotation in first.items()),
        *own,
        *(_parameter(name, annotation) for name, annotation in shared.items()),
        inspect.Parameter(
            "json", inspect.Parameter.KEYWORD_ONLY, annotation=JsonOption, default=False
        ),
    ]
    names = (*first, *shared)

    @functools.wraps(work)
    def command(**given: Any) -> None:
        del given["json"]  # `output` has seen it in the command line
        with opened(**{name: given.pop(name) for name in names}) as target:
            work(target, **given)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    is_needed = annotation is WorkspaceNeeded
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=annotation,
        default=inspect.Parameter.empty if is_needed else None,
    )
