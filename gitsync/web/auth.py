"""Who calls, and what they may do (decision 36).

Order of checks everywhere: authentication, then the workspace (404 for those who may not know of
it), then the role (403), then the input.
"""

from __future__ import annotations

import base64
import binascii
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from fastapi import Depends, Request

from gitsync.errors import Forbidden, LimitExceeded, NotFound, Unauthenticated
from gitsync.instance import Instance
from gitsync.records import Role, Token, User, Workspace
from gitsync.store import people, workspaces

_TOUCH_EVERY = timedelta(minutes=1)


class HeaderMissing(Unauthenticated):
    """No Authorization header."""

    code = "AUTH_HEADER_MISSING"


class TokenMissing(Unauthenticated):
    """The header holds no token."""

    code = "TOKEN_MISSING"


class TokenExpired(Unauthenticated):
    """The token's time is over."""

    code = "TOKEN_EXPIRED"


class TokenRevoked(Unauthenticated):
    """The token was taken back."""

    code = "TOKEN_REVOKED"


@dataclass(frozen=True, slots=True)
class Caller:
    """A person with a token, or a machine token on its own."""

    token: Token
    user: User | None

    @property
    def id(self) -> str:
        """Who is remembered for idempotency and in rows."""
        return self.token.id if self.user is None else self.user.id

    @property
    def person(self) -> User:
        """The person; `Forbidden` for machine tokens."""
        if self.user is None or self.token.role is not None:
            raise Forbidden("A machine token cannot do this; use the token of a person.")
        return self.user

    @property
    def is_admin(self) -> bool:
        """An administrator of the whole instance, calling as a person."""
        return self.user is not None and self.user.is_admin and self.token.role is None


def instance_of(request: Request) -> Instance:
    """The instance this application serves."""
    return request.app.state.instance  # type: ignore[no-any-return]


InstanceDep = Annotated[Instance, Depends(instance_of)]


def bearer(header: str | None) -> str:
    """The secret in `Authorization: Bearer SECRET`."""
    if header is None:
        raise HeaderMissing(
            "Send `Authorization: Bearer TOKEN`. Make a token with `gitsync token`."
        )
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise TokenMissing("The Authorization header must be `Bearer TOKEN`.")
    return secret.strip()


def basic_password(header: str | None) -> str | None:
    """The password of HTTP Basic authentication, as Git sends it."""
    scheme, _, text = (header or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        pair = base64.b64decode(text.strip(), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None
    return pair.partition(":")[2]


class _Touched:
    """Which tokens were noted as used lately, so that not every request writes."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def is_due(self, token_id: str) -> bool:
        now = time.monotonic()
        with self._lock:
            last = self._seen.get(token_id)
            if last is not None and now - last < _TOUCH_EVERY.total_seconds():
                return False
            self._seen[token_id] = now
            self._seen.move_to_end(token_id)
            while len(self._seen) > 10_000:
                self._seen.popitem(last=False)
            return True


_touched = _Touched()


def identify(instance: Instance, secret: str) -> Caller:
    """The caller of a token; each way to fail has its own code."""
    now = instance.now()
    with instance.database.read() as db:
        token = people.find_token(db, secret)
        user = people.get_user(db, token.user_id) if token is not None and token.user_id else None
    if token is None:
        raise Unauthenticated("This token is not known. Make one with `gitsync token create`.")
    if token.revoked_at is not None or (user is not None and user.disabled_at is not None):
        raise TokenRevoked("This token was revoked.")
    if token.expires_at is not None and token.expires_at <= now:
        raise TokenExpired("This token has expired. Make a new one.")
    if _touched.is_due(token.id):
        with instance.database.write(durable=False) as db:
            people.touch_token(db, token.id, now=now)
    return Caller(token, user)


def is_still_known(instance: Instance, caller: Caller) -> bool:
    """False once the token was revoked or has expired: for answers that go on and on."""
    with instance.database.read() as db:
        token = people.get_token(db, caller.token.id)
    is_over = token.expires_at is not None and token.expires_at <= instance.now()
    return token.revoked_at is None and not is_over


def authenticate(request: Request) -> None:
    """Find out who calls; routes do it before anything else (see `idempotency`)."""
    header = request.headers.get("authorization")
    request.state.caller = identify(instance_of(request), bearer(header))


def known_caller(request: Request) -> Caller:
    """The caller of an API request."""
    return request.state.caller  # type: ignore[no-any-return]


async def _known_caller(request: Request) -> Caller:
    return known_caller(request)  # needs no thread


CallerDep = Annotated[Caller, Depends(_known_caller)]


def require_person(caller: CallerDep) -> Caller:
    """Refuse machine tokens."""
    _ = caller.person
    return caller


def require_admin(caller: CallerDep) -> Caller:
    """Only administrators of the instance."""
    if not caller.is_admin:
        raise Forbidden("Only an administrator of this gitsync can do this.")
    return caller


PersonDep = Annotated[Caller, Depends(require_person)]
AdminDep = Annotated[Caller, Depends(require_admin)]


def role_in(instance: Instance, caller: Caller, workspace_id: str) -> Role | None:
    """The caller's role; a machine token reads like a reader in the workspaces it is for."""
    if caller.token.role is not None:
        return Role.READER if workspace_id in caller.token.workspaces else None
    if caller.is_admin:
        return Role.OWNER
    if caller.user is None:
        return None
    with instance.database.read() as db:
        return people.role_of(db, workspace_id, caller.user.id)


def check_access(instance: Instance, caller: Caller, workspace_id: str, needed: Role) -> Workspace:
    """The workspace, if the caller may know of it and has the role."""
    role = role_in(instance, caller, workspace_id)
    if role is None:
        raise NotFound("There is no such workspace.")
    with instance.database.read() as db:
        workspace = workspaces.get_workspace(db, workspace_id)
    if role.rank < needed.rank:
        raise Forbidden(f"This needs the role {needed.value} in the workspace.")
    return workspace


class Needs:
    """A dependency: the workspace of the path, for callers with at least this role."""

    def __init__(self, role: Role) -> None:
        self.role = role

    def __call__(self, workspace_id: str, instance: InstanceDep, caller: CallerDep) -> Workspace:
        """Check and load."""
        return check_access(instance, caller, workspace_id, self.role)


ReaderOf = Annotated[Workspace, Depends(Needs(Role.READER))]
MemberOf = Annotated[Workspace, Depends(Needs(Role.MEMBER))]
AdminOf = Annotated[Workspace, Depends(Needs(Role.ADMIN))]
OwnerOf = Annotated[Workspace, Depends(Needs(Role.OWNER))]


class Waits:
    """At most so many concurrent waits per token (decision 26)."""

    def __init__(self, most: int = 20) -> None:
        self._most = most
        self._open: dict[str, int] = {}
        self._lock = threading.Lock()  # entered from threads and from the event loop
        self.is_closed = False

    def enter(self, token_id: str) -> None:
        """`LimitExceeded` if the token waits too often already."""
        with self._lock:
            if self._open.get(token_id, 0) >= self._most:
                raise LimitExceeded(
                    f"At most {self._most} requests of one token may wait at once.", retry_after=5
                )
            self._open[token_id] = self._open.get(token_id, 0) + 1

    def close(self) -> None:
        """The server stops: waits end with what they have (wake them afterwards)."""
        self.is_closed = True

    def leave(self, token_id: str) -> None:
        """The wait is over."""
        with self._lock:
            left = self._open.get(token_id, 1) - 1
            if left > 0:
                self._open[token_id] = left
            else:
                self._open.pop(token_id, None)
