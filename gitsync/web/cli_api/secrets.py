"""`osmosis secret set|list|delete`: names go out, values never do."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from gitsync import secrets as story
from gitsync.data_records import Secret
from gitsync.errors import InvalidInput
from gitsync.store import secrets
from gitsync.store.secrets import Listed
from gitsync.web import wire
from gitsync.web.auth import InstanceDep
from gitsync.web.cli_api.answers import CliBody, PieceDep
from gitsync.web.cli_api.scope import CliRoute, ScopedMember, ScopedReader

router = APIRouter(route_class=CliRoute)
routers = (router,)
_LISTED: dict[str, Listed] = {"all": "all", "workspace": "workspace", "user": "user"}


class Named(CliBody):
    """A secret by name and scope."""

    name: str = Field(max_length=1000)
    scope: Literal["workspace", "user"]


class NewSecret(Named):
    """The same with its value, which no answer repeats."""

    value: str


def secret_json(secret: Secret) -> dict[str, Any]:
    """A secret without its value."""
    return {
        "id": secret.id,
        "name": secret.name,
        "scope": secret.scope,
        "creator_name": secret.creator_name,
        "updater_name": secret.updater_name,
        "created_at": wire.when(secret.created_at),
        "updated_at": wire.when(secret.updated_at),
        "platform_url": None,
    }


@router.get("/environment-secrets")
def list_secrets(
    request: Request, scoped: ScopedReader, instance: InstanceDep, piece: PieceDep
) -> dict[str, Any]:
    """The workspace's and the caller's own, by name."""
    scope = _LISTED.get(request.query_params.get("scope", "all"))
    if scope is None:
        raise InvalidInput("scope must be all, workspace or user.", field="scope")
    user = scoped.person
    with instance.database.read() as db:
        found, total = secrets.list_secrets(
            db,
            scoped.workspace.id,
            user_id=user.id,
            scope=scope,
            limit=piece.limit,
            offset=piece.offset,
        )
    return piece.answer("environment_secrets", [secret_json(secret) for secret in found], total)


@router.post("/environment-secrets")
def put(body: NewSecret, scoped: ScopedMember, instance: InstanceDep) -> dict[str, Any]:
    """Add or replace."""
    secret, _ = story.put(
        instance,
        scoped.workspace,
        user_id=scoped.person.id,
        role=scoped.role,
        scope=body.scope,
        name=body.name,
        value=body.value,
    )
    return secret_json(secret)


@router.delete("/environment-secrets")
def delete(body: Named, scoped: ScopedMember, instance: InstanceDep) -> dict[str, Any]:
    """Remove."""
    story.delete(
        instance,
        scoped.workspace,
        user_id=scoped.person.id,
        role=scoped.role,
        scope=body.scope,
        name=body.name,
    )
    return {"deleted": True}
