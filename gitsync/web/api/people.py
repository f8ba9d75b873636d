"""Users of the instance; administrators only."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field

from gitsync.store import people
from gitsync.web import shapes, wire
from gitsync.web.auth import AdminDep, InstanceDep
from gitsync.web.idempotency import IdempotentRoute
from gitsync.web.query import Body, WindowDep

router = APIRouter(tags=["users"], route_class=IdempotentRoute)
Id = Annotated[str, Path(max_length=60, pattern="^[a-z0-9_]+$")]


class UserBody(Body):
    """A new person."""

    email: str = Field(max_length=320)
    name: str = Field("", max_length=200)
    is_admin: bool = False


@router.get("/users", response_model=shapes.Page[shapes.User])
def list_users(instance: InstanceDep, caller: AdminDep, window: WindowDep) -> dict[str, Any]:
    """All people."""
    with instance.database.read() as db:
        page = people.list_users(db, limit=window.limit, after=window.after)
    return wire.page_json(page, [wire.user_json(user) for user in page.items])


@router.post("/users", status_code=201, response_model=shapes.NewUser)
def create(body: UserBody, instance: InstanceDep, caller: AdminDep) -> dict[str, Any]:
    """Add a person; the answer holds a one-time sign-in link for them."""
    now = instance.now()
    with instance.database.write() as db:
        user = people.add_user(
            db, email=body.email, name=body.name, is_admin=body.is_admin, now=now
        )
        code = people.add_login_link(db, user.id, now=now)
    return {**wire.user_json(user), "login_url": login_url(instance.settings.url, code)}


@router.post("/users/{user_id}/login-link", status_code=201, response_model=shapes.LoginLink)
def login_link(user_id: Id, instance: InstanceDep, caller: AdminDep) -> dict[str, Any]:
    """A new one-time sign-in link."""
    with instance.database.write() as db:
        code = people.add_login_link(db, user_id, now=instance.now())
    return {"url": login_url(instance.settings.url, code)}


@router.delete("/users/{user_id}", status_code=204)
def disable(user_id: Id, instance: InstanceDep, caller: AdminDep) -> None:
    """Lock a person out; their tokens end."""
    with instance.database.write() as db:
        people.disable_user(db, user_id, now=instance.now())


def login_url(public_url: str, code: str) -> str:
    """Where a one-time code signs its owner in."""
    return f"{public_url}/login/{code}"
