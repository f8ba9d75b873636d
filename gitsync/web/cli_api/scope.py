"""Who calls, and for which workspace: version, authentication, scope, role, and only then input.

A module of this package makes its router with `route_class=CliRoute` and takes `ScopedReader` or
`ScopedMember`; a route without one is for known callers without a scope. `OpenCliRoute` checks the
version only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar
from urllib.parse import unquote

import anyio.to_thread
from fastapi import Depends, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from packaging.version import InvalidVersion, Version
from starlette.convertors import Convertor, register_url_convertor
from starlette.types import ASGIApp, Receive, Scope, Send

from gitsync.errors import Forbidden, InvalidInput, UpgradeRequired
from gitsync.instance import Instance
from gitsync.records import Role, User, Workspace
from gitsync.settings import Settings
from gitsync.store import workspaces
from gitsync.web.auth import Caller, authenticate, instance_of, known_caller, role_in

_IDENTITY = re.compile(r"[a-z0-9][a-z0-9-]*/[a-z0-9._-]+", re.IGNORECASE)


class ScopeMissing(InvalidInput):
    """Neither scope header."""

    code = "GIT_SCOPE_HEADER_REQUIRED"


class ScopeMalformed(InvalidInput):
    """The repository is not written `owner/repo`."""

    code = "GIT_SCOPE_HEADER_INVALID"


class ScopeConflict(InvalidInput):
    """Both scope headers."""

    code = "WORKSPACE_SCOPE_HEADER_CONFLICT"


class RepositoryDenied(Forbidden):
    """The repository is unknown, or the caller is no member: nobody learns which."""

    code = "GIT_SCOPE_HEADER_ACCESS_DENIED"


class WorkspaceDenied(Forbidden):
    """The same for a workspace's name."""

    code = "WORKSPACE_SCOPE_HEADER_ACCESS_DENIED"


@dataclass(frozen=True, slots=True)
class Scoped:
    """A caller in the one workspace that the request is about."""

    caller: Caller
    user: User | None  # None: a machine token, which is never more than a reader
    workspace: Workspace
    role: Role

    @property
    def person(self) -> User:
        """The user; what a member may do is done by people only."""
        return self.caller.person


class Needs:
    """A dependency: the workspace of the request, for callers with at least this role."""

    def __init__(self, role: Role) -> None:
        self.role = role

    async def __call__(self, request: Request) -> Scoped:
        """What the route found out before it read the body."""
        return request.state.scoped  # type: ignore[no-any-return]


ScopedReader = Annotated[Scoped, Depends(Needs(Role.READER))]
ScopedMember = Annotated[Scoped, Depends(Needs(Role.MEMBER))]


# -- version --------------------------------------------------------------------------------------


def _version(text: str | None) -> Version | None:
    try:
        return None if text is None or len(text) > 64 else Version(text)
    except InvalidVersion:
        return None  # it cannot be compared; the header is a courtesy, not a lock


def check_version(settings: Settings, given: str | None) -> dict[str, str]:
    """Headers for the answer; `UpgradeRequired` if this client is too old."""
    version = _version(given)
    oldest, advised = _version(settings.min_cli_version), _version(settings.advised_cli_version)
    if version is None:
        return {}
    if oldest is not None and version < oldest:
        raise UpgradeRequired(
            f"This gitsync needs osmosis {oldest} or newer, and this is {version}. "
            "Upgrade with `pip install --upgrade osmosis-ai`.",
            status="unsupported",
        )
    if advised is not None and version < advised:
        return {
            "X-Osmosis-Version-Status": "upgrade_available",
            "X-Osmosis-Version-Message": f"This gitsync advises osmosis {advised} or newer; this "
            f"is {version}. Upgrade with `pip install --upgrade osmosis-ai`.",
        }
    return {}


# -- scope ----------------------------------------------------------------------------------------


def has_scope(request: Request) -> bool:
    """True if a scope header was sent, well-formed or not."""
    return any(name in request.headers for name in ("x-osmosis-git", "x-osmosis-workspace"))


def scope_of(request: Request, needed: Role) -> Scoped:
    """The workspace the headers name, if the caller is a member with this role."""
    instance, caller = instance_of(request), known_caller(request)
    repository = request.headers.getlist("x-osmosis-git")
    name = request.headers.getlist("x-osmosis-workspace")
    if repository and name:
        raise ScopeConflict("Send X-Osmosis-Git or X-Osmosis-Workspace, not both.")
    if not repository and not name:
        raise ScopeMissing(
            "Name the workspace: send X-Osmosis-Git: OWNER/REPO or X-Osmosis-Workspace: NAME."
        )
    found = (
        _by_repository(instance, repository) if repository else _by_name(instance, ", ".join(name))
    )
    role = None if found is None else role_in(instance, caller, found.id)
    if found is None or role is None:
        if repository:
            raise RepositoryDenied(
                "No workspace of yours is connected to this repository. `gitsync workspace list` "
                "shows yours."
            )
        raise WorkspaceDenied("There is no such workspace, or you are not a member of it.")
    if role.rank < needed.rank:
        raise Forbidden(f"This needs the role {needed.value} in the workspace.")
    return Scoped(caller, caller.user, found, role)


def _by_repository(instance: Instance, values: list[str]) -> Workspace | None:
    text = values[0] if len(values) == 1 else ""
    if not _IDENTITY.fullmatch(text) or len(text) > 200 or text.split("/")[1] in {".", ".."}:
        raise ScopeMalformed("X-Osmosis-Git must be OWNER/REPO.")
    with instance.database.read() as db:
        return workspaces.find_by_identity(db, text)


def _by_name(instance: Instance, name: str) -> Workspace | None:
    with instance.database.read() as db:
        return workspaces.find_by_name(db, name)


# -- routes ---------------------------------------------------------------------------------------

type Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def _calls(dependant: Dependant) -> Iterator[Any]:
    for found in dependant.dependencies:
        yield found.call
        yield from _calls(found)


class OpenCliRoute(APIRoute):
    """A route that only looks at the client's version; empty values are sent as null."""

    def get_route_handler(self) -> Handler:
        """Wrap FastAPI's handler."""
        plain = super().get_route_handler()

        async def handler(request: Request) -> Response:
            settings = instance_of(request).settings
            headers = check_version(settings, request.headers.get("x-osmosis-cli-version"))
            await self.admit(request)
            response = await plain(request)
            if response.status_code < 300:
                response.headers.update(headers)
            return response

        return handler

    async def admit(self, request: Request) -> None:
        """Everybody."""


class CliRoute(OpenCliRoute):
    """A route for known callers, in a workspace if it takes a `Scoped`."""

    async def admit(self, request: Request) -> None:
        """Before the body is read: a stranger learns nothing of it, and costs little."""
        needed = self.needed_role
        await anyio.to_thread.run_sync(_admit, request, needed)

    @property
    def needed_role(self) -> Role | None:
        """The least role; None: the route has no workspace."""
        calls = (call for call in _calls(self.dependant) if isinstance(call, Needs))
        return max((call.role for call in calls), key=lambda role: role.rank, default=None)


def _admit(request: Request, needed: Role | None) -> None:
    authenticate(request)
    if needed is not None:
        request.state.scoped = scope_of(request, needed)


# -- path segments --------------------------------------------------------------------------------


class Segment(Convertor[str]):
    """`{name:segment}`: one segment of the path, `%2F` in it included."""

    regex: ClassVar[str] = "[^/]+"

    def convert(self, value: str) -> str:
        """What the client meant."""
        return unquote(value, errors="replace")

    def to_string(self, value: str) -> str:
        """Unused: nobody builds URLs of these paths."""
        return value


register_url_convertor("segment", Segment())


class WholeSegments:
    """Routes `/api/cli` on the path as it was sent: a name may hold an encoded slash."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self.app, self.prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["path"].startswith(self.prefix):
            raw = scope.get("raw_path") or b""
            if raw.startswith(self.prefix.encode()):
                scope = {**scope, "path": raw.decode("latin-1")}
        await self.app(scope, receive, send)
