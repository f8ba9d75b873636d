"""Tokens: who am I, make, list, revoke."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import Field

from gitsync.errors import Forbidden, InvalidInput, NotFound
from gitsync.instance import Instance
from gitsync.records import Role
from gitsync.run_records import RunKind
from gitsync.store import people, sessions
from gitsync.web import shapes, wire
from gitsync.web.answers import may
from gitsync.web.auth import Caller, CallerDep, InstanceDep, PersonDep, check_access, role_in
from gitsync.web.idempotency import IdempotentRoute
from gitsync.web.query import Body, example
from gitsync.web.rates import SIGN_IN_BY_PERSON, Rates, RatesDep

router = APIRouter(tags=["tokens"], route_class=IdempotentRoute)
Id = Annotated[str, Path(max_length=60, pattern="^[a-z0-9_]+$")]


class TokenBody(Body):
    """A token for the caller, or a machine token for workspaces the caller administers."""

    model_config = example(
        {"name": "laptop", "expires_in_days": 90},
        {"name": "cluster", "role": "read", "workspaces": ["ws_7h3k9m2p4q6r8s1t"]},
    )

    name: str = Field(min_length=1, max_length=200)
    expires_in_days: float | None = Field(None, gt=0, le=3650)
    role: Literal["read", "push", "executor"] | None = None
    workspaces: list[str] = Field(default_factory=list, max_length=1000)
    kinds: list[RunKind] | None = Field(
        None, min_length=1, description="Runs an executor may carry out; default: all."
    )


@router.get("/whoami", response_model=shapes.WhoAmI)
def whoami(caller: CallerDep) -> dict[str, Any]:
    """The caller and the token in use."""
    return {
        "user": None if caller.user is None else wire.user_json(caller.user),
        "token": wire.token_json(caller.token),
    }


class PasswordBody(Body):
    """A new password, and the present one if there is one."""

    model_config = example({"password": "correct horse battery staple"})

    password: str = Field(min_length=12, max_length=1000)
    current: str | None = Field(None, max_length=1000)


@router.put("/password", status_code=204, responses=may(429))
def set_password(
    body: PasswordBody,
    instance: InstanceDep,
    caller: PersonDep,
    counted: RatesDep,
) -> None:
    """Set the caller's password for the dashboard; it ends their other sessions."""
    change_password(instance, counted, caller, password=body.password, current=body.current)


def change_password(
    instance: Instance, counted: Rates, caller: Caller, *, password: str, current: str | None
) -> None:
    """Check the present password, if there is one, and set another."""
    user = caller.person
    with instance.database.read() as db:
        stored = people.password_of(db, user.email)
    if stored.user is not None:
        counted.check(SIGN_IN_BY_PERSON, "password", user.id)
        if current is None or people.verify_password(stored, current) is None:
            counted.count(SIGN_IN_BY_PERSON, "password", user.id)
            raise Forbidden("The present password is wrong, or it was not given.", field="current")
        counted.check(SIGN_IN_BY_PERSON, "password", user.id)  # others may have failed meanwhile
    hashed = people.hash_password(password)
    now = instance.now()
    with instance.database.write() as db:
        people.set_password(db, user.id, hashed)
        sessions.end_all(db, user.id, now=now, but=caller.token.id)


@router.get("/tokens", response_model=shapes.Page[shapes.Token])
def list_tokens(instance: InstanceDep, caller: PersonDep) -> dict[str, Any]:
    """The caller's tokens, and the machine tokens they made."""
    with instance.database.read() as db:
        found = people.list_tokens(db, caller.id)
    items = [wire.token_json(token) for token in found]
    return {"items": items, "total_count": len(items), "has_more": False, "next": None}


@router.post("/tokens", status_code=201, response_model=shapes.NewToken, responses=may(404))
def create(body: TokenBody, instance: InstanceDep, caller: PersonDep) -> dict[str, Any]:
    """Make a token; its secret is shown this once."""
    now = instance.now()
    if body.workspaces and body.role is None:
        raise InvalidInput("Only a machine token names workspaces; give a role.", field="role")
    for workspace_id in body.workspaces:
        check_access(instance, caller, workspace_id, Role.ADMIN)
    expires = None if body.expires_in_days is None else now + timedelta(days=body.expires_in_days)
    with instance.database.write() as db:
        token, secret = people.add_token(
            db,
            name=body.name,
            user_id=caller.id if body.role is None else None,
            role=body.role,
            workspaces=body.workspaces if body.role is not None else (),
            kinds=None if body.kinds is None else [kind.value for kind in body.kinds],
            expires_at=expires,
            created_by=caller.id,
            now=now,
        )
    return {"token": wire.token_json(token), "secret": secret}


def _administers(instance: Instance, caller: Caller, workspace_id: str) -> bool:
    role = role_in(instance, caller, workspace_id)
    return role is not None and role.rank >= Role.ADMIN.rank


@router.delete("/tokens/{token_id}", status_code=204)
def revoke(token_id: Id, instance: InstanceDep, caller: PersonDep) -> None:
    """Revoke a token of one's own, or a machine token of a workspace one administers."""
    with instance.database.read() as db:
        own = {token.id for token in people.list_tokens(db, caller.id)}
        reached = () if token_id in own else people.get_token(db, token_id).workspaces
    if token_id not in own and not any(_administers(instance, caller, w) for w in reached):
        raise NotFound("There is no such token.")
    with instance.database.write() as db:
        people.revoke_token(db, token_id, now=instance.now())
