"""Who am I, which workspaces are mine, and ending a token."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from pydantic import Field

from gitsync.errors import Forbidden, InvalidInput, NotFound
from gitsync.instance import Instance
from gitsync.records import Role, Token, User, Workspace, WorkspaceState
from gitsync.store import identities, people, workspaces
from gitsync.web import wire
from gitsync.web.auth import Caller, CallerDep, InstanceDep, PersonDep, role_in
from gitsync.web.cli_api.answers import CliBody
from gitsync.web.cli_api.scope import CliRoute, has_scope, scope_of

router = APIRouter(route_class=CliRoute)
routers = (router,)
_MANY = 200  # workspaces in one look at the rows


def user_json(user: User) -> dict[str, Any]:
    """A person as the CLI reads them."""
    return {"id": user.id, "email": user.email, "name": user.name}


def token_json(token: Token) -> dict[str, Any]:
    """What `auth login` keeps of a token; without `expires_at` the CLI assumes 90 days."""
    shown: dict[str, Any] = {"token_id": token.id}
    if token.expires_at is not None:
        shown["expires_at"] = wire.when(token.expires_at)
    return shown


@router.get("/verify")
def verify(request: Request, caller: PersonDep) -> dict[str, Any]:
    """The caller; with a scope header also the workspace it names."""
    workspace = None
    if has_scope(request):
        scoped = scope_of(request, Role.READER)
        workspace = {
            "id": scoped.workspace.id,
            "name": scoped.workspace.name,
            "role": scoped.role.value,
        }
    return {"user": user_json(caller.person), **token_json(caller.token), "workspace": workspace}


@router.delete("/tokens/{token_id:segment}")
def revoke(
    token_id: Annotated[str, Path(max_length=200)], instance: InstanceDep, caller: PersonDep
) -> dict[str, Any]:
    """End a token of one's own."""
    with instance.database.write() as db:
        if token_id not in {token.id for token in people.list_tokens(db, caller.id)}:
            raise NotFound("There is no such token.")
        people.revoke_token(db, token_id, now=instance.now())
    return {"revoked": True}


def connected_repo(workspace: Workspace) -> dict[str, str] | None:
    """The repository a workspace follows; None once it was disconnected."""
    if workspace.state is WorkspaceState.DISCONNECTED:
        return None
    return {"repo_full_name": workspace.identity}


class QuickstartBody(CliBody):
    """What a team came for."""

    workspace: str = Field(alias="organizationId", max_length=200)
    intent: Literal["train", "eval", "benchmark", "explore"]


def _member_of(instance: Instance, caller: Caller, workspace_id: str, needed: Role) -> Workspace:
    """The workspace of a query or a body, which has no scope header."""
    role = role_in(instance, caller, workspace_id)
    if role is None:
        raise NotFound("There is no such workspace, or you are not a member of it.")
    with instance.database.read() as db:
        found = workspaces.get_workspace(db, workspace_id)
    if role.rank < needed.rank:
        raise Forbidden(f"This needs the role {needed.value} in the workspace.")
    return found


@router.get("/quickstart")
def quickstart(request: Request, instance: InstanceDep, caller: CallerDep) -> dict[str, Any]:
    """How far a team is."""
    workspace_id = request.query_params.get("organizationId")
    if not workspace_id:
        raise InvalidInput("Name the workspace: ?organizationId=ID.", field="organizationId")
    workspace = _member_of(instance, caller, workspace_id, Role.READER)
    with instance.database.read() as db:
        is_completed = bool(identities.completed_quickstarts(db, [workspace.id]))
    repo = connected_repo(workspace)
    return {
        "repo": {
            "connected": repo is not None,
            "full_name": None if repo is None else repo["repo_full_name"],
        },
        "billing_ready": True,  # there is no billing
        "completed": is_completed,
    }


@router.post("/quickstart")
def finish_quickstart(
    body: QuickstartBody, instance: InstanceDep, caller: PersonDep
) -> dict[str, Any]:
    """Remember the answer; again changes nothing but the answer."""
    workspace = _member_of(instance, caller, body.workspace, Role.MEMBER)
    with instance.database.write() as db:
        identities.note_quickstart(
            db, workspace.id, intent=body.intent, user_id=caller.id, now=instance.now()
        )
    return {"completed": True}


@router.get("/workspaces")
def list_workspaces(instance: InstanceDep, caller: CallerDep) -> dict[str, Any]:
    """The caller's memberships, or the workspaces of a machine token."""
    found: list[Workspace] = []
    after: str | None = None
    with instance.database.read() as db:
        while True:
            page = workspaces.list_workspaces(
                db,
                limit=_MANY,
                after=after,
                user_id=None if caller.token.role is not None else caller.id,
                only=caller.token.workspaces if caller.token.role is not None else None,
            )
            found += page.items
            after = page.next
            if after is None:
                break
    return {
        "workspaces": [
            {"id": w.id, "name": w.name, "connected_repo": connected_repo(w)} for w in found
        ]
    }
