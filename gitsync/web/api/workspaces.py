"""Workspaces: create, connect, change, try, end; members and secrets."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field

from gitsync import bootstrap, connect
from gitsync.bootstrap import Wanted
from gitsync.errors import Forbidden, InvalidInput, NotFound
from gitsync.instance import Instance
from gitsync.model import Identity
from gitsync.records import Role, Workspace
from gitsync.store import Page, events, identities, people, turns, workspaces
from gitsync.sync import triggers
from gitsync.web import shapes, wire
from gitsync.web.answers import may
from gitsync.web.auth import (
    AdminOf,
    Caller,
    CallerDep,
    InstanceDep,
    OwnerOf,
    PersonDep,
    ReaderOf,
    role_in,
)
from gitsync.web.idempotency import IdempotentRoute
from gitsync.web.query import Body, Parameters, WindowDep, example

router = APIRouter(tags=["workspaces"], route_class=IdempotentRoute)


class CredentialBody(Body):
    """A credential: the secret, the path of a file, or a key to be generated."""

    kind: Literal["token", "password", "ssh"]
    username: str | None = Field(None, max_length=200)
    secret: str | None = Field(None, max_length=64_000)
    path: str | None = Field(None, max_length=4_000)
    known_hosts: str | None = Field(None, max_length=64_000)
    generate_key: bool = False

    def given(self) -> connect.GivenCredential:
        """As the story wants it."""
        return connect.GivenCredential(**self.model_dump())


class ConnectBody(Body):
    """An existing repository."""

    clone_url: str = Field(max_length=2_000)
    credential: CredentialBody | None = None


class TemplateBody(Body):
    """What the first commit holds: the workspace template with these starters and skills."""

    starters: list[Annotated[str, Field(max_length=100)]] = Field(default=[], max_length=50)
    skills: list[Annotated[str, Field(max_length=100)]] | None = Field(
        None, max_length=50, description="Default: the standard ones."
    )
    parameters: Parameters = Field(
        default={},
        max_length=100,
        description="Of the workspace and of the starters; each goes to those that declare it.",
    )

    def wanted(self) -> Wanted:
        """As the story wants it."""
        skills = None if self.skills is None else tuple(dict.fromkeys(self.skills))
        return Wanted(tuple(dict.fromkeys(self.starters)), skills, self.parameters)


class CreateBody(Body):
    """A new workspace: empty, made from the template, or connected to what there is."""

    model_config = example(
        {
            "name": "Chess team",
            "provider": "github",
            "connect": {
                "clone_url": "https://github.com/acme/rollouts.git",
                "credential": {"kind": "token", "secret": "github_pat_…"},
            },
        },
        {
            "name": "Chess team",
            "identity": "chess--local/rollouts",
            "create": {"starters": ["minimal-local"], "skills": ["create-rollouts"]},
        },
        {"name": "Chess team", "identity": "chess--local/rollouts"},
    )

    name: str = Field(max_length=200)
    identity: str | None = Field(None, max_length=140)
    provider: Literal["embedded", "github", "generic"] = "embedded"
    connect: ConnectBody | None = None
    create: TemplateBody | None = None
    default_branch: str | None = Field(None, max_length=1_000)
    watch: Literal["default", "all"] = "default"


class ChangeBody(Body):
    """What can be changed of a workspace."""

    name: str | None = Field(None, max_length=200)
    identity: str | None = Field(None, max_length=140)
    default_branch: str | None = Field(None, max_length=1_000)
    watch: Literal["default", "all"] | None = None
    accept_harbor_native: bool | None = None
    train_requires_eval: Literal["off", "warn", "refuse"] | None = Field(
        None, description="Training of code that no finished evaluation rewarded throughout."
    )


class TryBody(Body):
    """A remote to try out."""

    clone_url: str = Field(max_length=2_000)
    credential: CredentialBody | None = None


class RotateBody(Body):
    """How long the present secret still verifies."""

    overlap_s: float = Field(86_400, ge=0, le=30 * 86_400)


class MemberBody(Body):
    """A member's role."""

    role: Role


def shown(instance: Instance, workspace: Workspace, **more: Any) -> dict[str, Any]:
    """A workspace with its branches."""
    with instance.database.read() as db:
        branches = workspaces.list_branches(db, workspace.id)
    return wire.workspace_json(workspace, branches, public_url=instance.settings.url, **more)


def webhook_url(instance: Instance, workspace: Workspace) -> str:
    """Where the provider sends its deliveries."""
    return f"{instance.settings.url}/hooks/{workspace.provider}/{workspace.id}"


@router.get("/workspaces", response_model=shapes.Page[shapes.Workspace])
def list_workspaces(
    instance: InstanceDep,
    caller: CallerDep,
    window: WindowDep,
    identity: Annotated[str | None, Query(max_length=200)] = None,
    name: Annotated[str | None, Query(max_length=200)] = None,
) -> dict[str, Any]:
    """The caller's workspaces; with `identity` or `name` the one that has it."""
    with instance.database.read() as db:
        if identity is not None or name is not None:
            found = (
                workspaces.find_by_identity(db, identity)
                if identity is not None
                else workspaces.find_by_name(db, name or "")
            )
            items = [found] if found and role_in(instance, caller, found.id) else []
            page = Page(tuple(items), len(items), None)
        else:
            page = workspaces.list_workspaces(
                db,
                limit=window.limit,
                after=window.after,
                user_id=None if caller.is_admin or caller.user is None else caller.user.id,
                only=caller.token.workspaces if caller.token.role is not None else None,
            )
        branches = workspaces.branches_of(db, [w.id for w in page.items])
    return wire.page_json(
        page,
        [
            wire.workspace_json(w, branches[w.id], public_url=instance.settings.url)
            for w in page.items
        ],
    )


@router.post(
    "/workspaces",
    status_code=201,
    response_model=shapes.CreatedWorkspace,
    responses=may(502),
)
def create(
    body: CreateBody, instance: InstanceDep, caller: PersonDep, request: Request
) -> dict[str, Any]:
    """Create a workspace on the embedded host, or connect an existing repository.

    With `create` its first commit is made from the template. A server that dies meanwhile goes on
    when it starts again, and so does the same request with the same `Idempotency-Key`.
    """
    if body.create is not None:
        return _from_template(body, body.create, instance, caller, request)
    created = connect.create_workspace(
        instance,
        name=body.name,
        identity=body.identity,
        provider=body.provider,
        clone_url=body.connect.clone_url if body.connect else None,
        credential=body.connect.credential.given()
        if body.connect and body.connect.credential
        else None,
        default_branch=body.default_branch,
        watch=body.watch,
        created_by=caller.id,
        request_key=request.headers.get("idempotency-key"),
    )
    return _created(instance, created)


def _from_template(
    body: CreateBody, wanted: TemplateBody, instance: Instance, caller: Caller, request: Request
) -> dict[str, Any]:
    if body.connect is not None or body.provider != "embedded":
        raise InvalidInput(
            "Only a repository on the embedded host is made from the template. Connect yours "
            "without `create`, then add what it misses with `gitsync workspace adopt`.",
            field="create",
        )
    if caller.user is None:
        raise Forbidden("A machine token cannot do this; use the token of a person.")
    born = bootstrap.create_workspace(
        instance,
        name=body.name,
        identity=body.identity,
        wanted=wanted.wanted(),
        default_branch=body.default_branch,
        watch=body.watch,
        creator=caller.user,
        request_key=request.headers.get("idempotency-key"),
    )
    return _created(instance, born.created, commit_sha=born.commit_sha)


def _created(instance: Instance, created: connect.Created, **more: Any) -> dict[str, Any]:
    workspace = created.workspace
    return shown(
        instance,
        workspace,
        sync_id=created.sync_id,
        webhook={"url": webhook_url(instance, workspace), "secret": created.webhook_secret},
        public_key=created.public_key,
        warnings=list(created.warnings),
        clone_command=f"gitsync clone {workspace.identity} --server {instance.settings.url}",
        **more,
    )


@router.post("/workspaces/test", response_model=shapes.Trial)
def test_remote(body: TryBody, instance: InstanceDep, caller: PersonDep) -> dict[str, Any]:
    """Try a remote: DNS, TCP, TLS, authentication and ref, each by itself."""
    credential = body.credential.given() if body.credential else None
    return connect.try_remote(instance, body.clone_url, credential)


@router.get("/workspaces/{workspace_id}", response_model=shapes.Workspace)
def show(workspace: ReaderOf, instance: InstanceDep) -> dict[str, Any]:
    """One workspace."""
    with instance.database.read() as db:
        aliases = identities.aliases_of(db, workspace)
    webhook = {"url": webhook_url(instance, workspace)}
    return shown(instance, workspace, webhook=webhook, aliases=aliases)


@router.patch("/workspaces/{workspace_id}", response_model=shapes.ChangedWorkspace)
def change(body: ChangeBody, workspace: AdminOf, instance: InstanceDep) -> dict[str, Any]:
    """Change name, identity, branches or check options; a sync follows where it matters."""
    given = body.model_dump(exclude_unset=True)
    values: dict[str, Any] = {
        key: given[key] for key in ("name", "watch") if given.get(key) is not None
    }
    warnings: tuple[str, ...] = ()
    if "default_branch" in given:
        branch = given["default_branch"]
        values["chosen_branch"] = None if branch is None else connect.full_ref(branch)
    with instance.database.write() as db:
        changed = {
            key: given[key]
            for key in ("accept_harbor_native", "train_requires_eval")
            if given.get(key) is not None
        }
        if changed:
            current = workspaces.lock_workspace(db, workspace.id).settings
            values["settings"] = {**current, **changed}
        if values:
            workspaces.change_workspace(db, workspace.id, **values)
        if given.get("identity") is not None:
            warnings = connect.change_identity(db, instance, workspace, given["identity"])
        events.add_event(db, "workspace.changed", {}, workspace_id=workspace.id, now=instance.now())
        turns.bump(db, workspace.id)
        found = workspaces.get_workspace(db, workspace.id)
        aliases = identities.aliases_of(db, found)
    instance.wake(workspace.id)
    return shown(instance, found, aliases=aliases, warnings=list(warnings))


@router.delete("/workspaces/{workspace_id}/aliases/{owner}/{repo}", status_code=204)
def release_alias(
    owner: Annotated[str, Path(max_length=140)],
    repo: Annotated[str, Path(max_length=140)],
    workspace: AdminOf,
    instance: InstanceDep,
) -> None:
    """Give up an identity the workspace had before; from then on others may take it."""
    identity = Identity.parse(f"{owner}/{repo}")
    with instance.database.write() as db:
        current = workspaces.lock_workspace(db, workspace.id)
        identities.release(db, current, identity)


@router.delete("/workspaces/{workspace_id}", status_code=204)
def delete(workspace: OwnerOf, instance: InstanceDep) -> None:
    """Delete a disconnected workspace with all its versions."""
    connect.delete(instance, workspace)


@router.post("/workspaces/{workspace_id}/suspend", response_model=shapes.Workspace)
def suspend(workspace: AdminOf, instance: InstanceDep) -> dict[str, Any]:
    """Stop following the repository; published versions stay served."""
    return shown(instance, connect.suspend(instance, workspace))


@router.post("/workspaces/{workspace_id}/resume", response_model=shapes.Workspace)
def resume(workspace: AdminOf, instance: InstanceDep) -> dict[str, Any]:
    """Follow the repository again."""
    return shown(instance, connect.resume(instance, workspace))


@router.post("/workspaces/{workspace_id}/disconnect", response_model=shapes.Workspace)
def disconnect(workspace: AdminOf, instance: InstanceDep) -> dict[str, Any]:
    """Forget the repository and its credential; published versions stay readable."""
    return shown(instance, connect.disconnect(instance, workspace))


@router.post("/workspaces/{workspace_id}/test", response_model=shapes.Trial)
def test_workspace(workspace: AdminOf, instance: InstanceDep) -> dict[str, Any]:
    """Try the connected remote with its stored credential."""
    return connect.try_workspace(instance, workspace)


@router.put("/workspaces/{workspace_id}/credential", response_model=shapes.PublicKey)
def put_credential(
    body: CredentialBody, workspace: AdminOf, instance: InstanceDep
) -> dict[str, Any]:
    """Replace the credential; the remote is tried at once."""
    return {"public_key": connect.set_credential(instance, workspace, body.given())}


@router.post("/workspaces/{workspace_id}/webhook-secret/rotate", response_model=shapes.Webhook)
def rotate(
    workspace: AdminOf, instance: InstanceDep, body: RotateBody | None = None
) -> dict[str, Any]:
    """A new webhook secret; the present one verifies until the overlap ends."""
    overlap = timedelta(seconds=(body or RotateBody(overlap_s=86_400)).overlap_s)
    triggers.active(workspace)
    secret = connect.rotate_webhook_secret(instance, workspace, overlap=overlap)
    return {"url": webhook_url(instance, workspace), "secret": secret}


# -- members --------------------------------------------------------------------------------------


@router.get("/workspaces/{workspace_id}/members", response_model=shapes.Page[shapes.Member])
def list_members(workspace: ReaderOf, instance: InstanceDep, caller: PersonDep) -> dict[str, Any]:
    """The members and their roles."""
    with instance.database.read() as db:
        found = people.list_members(db, workspace.id)
    items = [{**wire.user_json(user), "role": role.value} for user, role in found]
    return {"items": items, "total_count": len(items), "has_more": False, "next": None}


@router.put("/workspaces/{workspace_id}/members/{email}", response_model=shapes.Member)
def put_member(
    email: str, body: MemberBody, workspace: AdminOf, instance: InstanceDep, caller: CallerDep
) -> dict[str, Any]:
    """Add a member or change a role; only owners make owners."""
    if body.role is Role.OWNER and role_in(instance, caller, workspace.id) is not Role.OWNER:
        raise Forbidden("Only an owner makes owners.")
    with instance.database.write() as db:
        user = people.find_user(db, email)
        if user is None:
            raise NotFound(f"There is no user with this address: {email[:320]}.", field="email")
        present = people.role_of(db, workspace.id, user.id)
        if present is Role.OWNER and role_in(instance, caller, workspace.id) is not Role.OWNER:
            raise Forbidden("Only an owner changes the role of an owner.")
        people.set_member(db, workspace.id, user.id, body.role, now=instance.now())
    return {**wire.user_json(user), "role": body.role.value}


@router.delete("/workspaces/{workspace_id}/members/{email}", status_code=204)
def delete_member(email: str, workspace: AdminOf, instance: InstanceDep, caller: CallerDep) -> None:
    """Take a member away; the last owner stays."""
    with instance.database.write() as db:
        user = people.find_user(db, email)
        if user is None:
            raise NotFound("There is no such member.")
        present = people.role_of(db, workspace.id, user.id)
        if present is Role.OWNER and role_in(instance, caller, workspace.id) is not Role.OWNER:
            raise Forbidden("Only an owner removes an owner.")
        people.remove_member(db, workspace.id, user.id)


@router.get("/workspaces/{workspace_id}/tokens", response_model=shapes.Page[shapes.Token])
def machine_tokens(workspace: AdminOf, instance: InstanceDep) -> dict[str, Any]:
    """Machine tokens that reach the workspace."""
    with instance.database.read() as db:
        found = people.list_machine_tokens(db, workspace.id)
    items = [wire.token_json(token) for token in found]
    return {"items": items, "total_count": len(items), "has_more": False, "next": None}
