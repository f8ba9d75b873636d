"""Secrets of a workspace and of the caller in it; values go in and never come out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query

from gitsync import secrets as story
from gitsync.data_records import Secret
from gitsync.records import Role
from gitsync.store import secrets
from gitsync.web import data_shapes, shapes, wire
from gitsync.web.auth import InstanceDep, MemberOf, PersonDep, ReaderOf, role_in
from gitsync.web.idempotency import IdempotentRoute
from gitsync.web.query import Body, WindowDep, example

router = APIRouter(tags=["secrets"], route_class=IdempotentRoute)
Name = Annotated[str, Path(max_length=255, examples=["OPENAI_API_KEY"])]
Scope = Annotated[
    Literal["workspace", "user"],
    Query(description="`user`: the caller's own, which wins over the workspace's."),
]
PATH = "/workspaces/{workspace_id}/secrets"


class SecretBody(Body):
    """A value."""

    model_config = example({"value": "…", "scope": "user"})

    value: str
    scope: Literal["workspace", "user"] = "user"


def secret_json(secret: Secret) -> dict[str, Any]:
    """A secret without its value."""
    return {
        "id": secret.id,
        "name": secret.name,
        "scope": secret.scope,
        "created_by": secret.creator_name,
        "created_at": wire.when(secret.created_at),
        "updated_by": secret.updater_name,
        "updated_at": wire.when(secret.updated_at),
    }


@router.get(PATH, response_model=shapes.Page[data_shapes.Secret])
def list_secrets(
    workspace: ReaderOf,
    instance: InstanceDep,
    caller: PersonDep,
    window: WindowDep,
    scope: Annotated[Literal["all", "workspace", "user"], Query()] = "all",
) -> dict[str, Any]:
    """Names of the workspace's secrets and of the caller's own."""
    with instance.database.read() as db:
        page = secrets.page_secrets(
            db,
            workspace.id,
            user_id=caller.id,
            scope=scope,
            limit=window.limit,
            after=window.after,
        )
    return wire.page_json(page, [secret_json(secret) for secret in page.items])


@router.put(PATH + "/{name}", response_model=data_shapes.Secret)
def put(
    name: Name, body: SecretBody, workspace: MemberOf, instance: InstanceDep, caller: PersonDep
) -> dict[str, Any]:
    """Add or replace a secret; one of the workspace needs the role admin."""
    role = role_in(instance, caller, workspace.id) or Role.READER
    secret, _ = story.put(
        instance,
        workspace,
        user_id=caller.id,
        role=role,
        scope=body.scope,
        name=name,
        value=body.value,
    )
    return secret_json(secret)


@router.delete(PATH + "/{name}", status_code=204)
def delete(
    name: Name,
    workspace: MemberOf,
    instance: InstanceDep,
    caller: PersonDep,
    scope: Scope = "user",
) -> None:
    """Remove a secret; one of the workspace needs the role admin."""
    role = role_in(instance, caller, workspace.id) or Role.READER
    story.delete(instance, workspace, user_id=caller.id, role=role, scope=scope, name=name)
