"""Connecting, suspending and disconnecting workspaces, and trying a remote out.

Promise: a workspace is created in one transaction with its first sync asked for; a disconnected one
forgets its credential at once and keeps what it published.
"""

from __future__ import annotations

import re
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from gitsync.artifacts.bucket import StoreUnavailable
from gitsync.errors import Conflict, InvalidInput
from gitsync.git.credentials import Credential, generate_ssh_key
from gitsync.git.host import create_repository
from gitsync.git.probe import probe
from gitsync.git.remote import Remote, is_ref
from gitsync.instance import Instance
from gitsync.model import Identity
from gitsync.records import Role, Trigger, Workspace, WorkspaceState
from gitsync.store import (
    Connection,
    creations,
    dataset_checks,
    events,
    objects,
    people,
    runs,
    syncs,
    turns,
    workspaces,
)
from gitsync.store.creations import Asked
from gitsync.store.workspaces import sealed_place
from gitsync.sync import triggers
from gitsync.sync.moves import short
from gitsync.sync.remotes import check_reference, open_credential, read_reference
from gitsync.text import printable
from gitsync.uploads import drop_all

type CredentialKind = Literal["token", "password", "ssh"]

PROVIDERS = ("embedded", "github", "generic")
ROTATION_OVERLAP = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class GivenCredential:
    """A credential as somebody hands it in: the secret itself, or the path of a file."""

    kind: CredentialKind
    secret: str | None = None
    path: str | None = None
    username: str | None = None
    known_hosts: str | None = None
    generate_key: bool = False


@dataclass(frozen=True, slots=True)
class Created:
    """A new workspace with what is shown only once."""

    workspace: Workspace
    sync_id: int
    webhook_secret: str
    public_key: str | None
    warnings: tuple[str, ...]


def default_identity(name: str) -> Identity:
    """An identity no GitHub repository can have: its owner holds `--`."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower() or "team"
    return Identity.parse(f"{slug[:60]}--local/rollouts")


def create_workspace(
    instance: Instance,
    *,
    name: str,
    identity: str | None,
    provider: str,
    clone_url: str | None,
    credential: GivenCredential | None,
    default_branch: str | None,
    watch: str,
    created_by: str | None,
    request_key: str | None = None,
) -> Created:
    """Create and connect a workspace; its first sync follows at once.

    Asked again under the same key the same one is returned, with what is shown only once.
    """
    if provider not in PROVIDERS:
        raise InvalidInput(f"provider must be one of {', '.join(PROVIDERS)}.", field="provider")
    is_embedded = provider == "embedded"
    if is_embedded and (clone_url or credential):
        raise InvalidInput(
            "A workspace on the embedded host has no clone_url and no credential of its own.",
            field="connect",
        )
    if not is_embedded and not clone_url:
        raise InvalidInput("Give the clone_url of the repository.", field="connect.clone_url")
    chosen = None if default_branch is None else full_ref(default_branch)
    stored, public_key = _stored(instance, credential) if credential else (None, None)
    remote = None
    if clone_url is not None:
        remote = Remote.parse(clone_url, credential=_opened(instance, credential, stored))
        instance.network.policy.check_scheme(remote.scheme)
        clone_url = remote.url
    who, warnings = chosen_identity(name, identity, remote)
    asked = None
    if created_by is not None:
        shown = None if credential is None else replace(credential, secret=None)
        body = (name, str(who), provider, clone_url, repr(shown), default_branch, watch)
        asked = Asked.under(request_key, created_by, *body)
    if asked is not None and (made := _made_before(instance, asked, warnings)) is not None:
        return made
    webhook_secret = secrets.token_hex(32)
    now = instance.now()
    with instance.database.write() as db:
        workspace = enroll(
            db,
            instance,
            name=name,
            identity=who,
            provider=provider,
            clone_url=clone_url,
            watch=watch,
            chosen_branch=chosen,
            created_by=created_by,
            webhook_secret=webhook_secret,
            now=now,
        )
        if stored is not None:
            _put(db, instance, workspace.id, stored)
        sync_id = syncs.add_sync(
            db, workspace.id, trigger=Trigger.CONNECT, now=now, requested_by=created_by
        )
        turns.bump(db, workspace.id)
        if asked is not None:
            creations.add_creation(db, workspace.id, asked, sync_id=sync_id, now=now)
        workspace = workspaces.get_workspace(db, workspace.id)
    instance.at("workspace.created")
    if is_embedded:
        create_repository(instance.repository_of(workspace.id, is_embedded=True))
    instance.wake(workspace.id)
    return Created(workspace, sync_id, webhook_secret, public_key, warnings)


def _made_before(instance: Instance, asked: Asked, warnings: tuple[str, ...]) -> Created | None:
    """The workspace of this very request, whose server did not live to answer."""
    with instance.database.read() as db:
        known = creations.find_creation(db, asked, now=instance.now())
        if known is None or known.sync_id is None:
            return None
        workspace = workspaces.get_workspace(db, known.workspace_id)
        row = workspaces.get_credential(db, workspace.id)
    if workspace.is_embedded:
        create_repository(instance.repository_of(workspace.id, is_embedded=True))
    secret = next(iter(webhook_secrets_of(instance, workspace.id)), "")
    public_key = None if row is None else row["public_key"]
    return Created(workspace, known.sync_id, secret, public_key, warnings)


def enroll(
    db: Connection,
    instance: Instance,
    *,
    name: str,
    identity: Identity,
    provider: str,
    clone_url: str | None,
    watch: str,
    chosen_branch: str | None,
    created_by: str | None,
    webhook_secret: str,
    now: datetime,
) -> Workspace:
    """The rows of a new workspace: name, identity, webhook secret, owner. No look is asked for."""
    next_poll_at = None if provider == "embedded" else now + triggers.poll_pause(instance, 0)
    workspace = workspaces.add_workspace(
        db,
        name=name,
        identity=identity,
        provider=provider,
        clone_url=clone_url,
        watch=watch,
        chosen_branch=chosen_branch,
        created_by=created_by,
        settings={},
        next_poll_at=next_poll_at,
        now=now,
    )
    _add_webhook_secret(db, instance, workspace.id, webhook_secret)
    if created_by is not None:
        people.set_member(db, workspace.id, created_by, Role.OWNER, now=now)
    _tell(db, instance, workspace.id, "workspace.created")
    return workspace


def chosen_identity(
    name: str, identity: str | None, remote: Remote | None = None
) -> tuple[Identity, tuple[str, ...]]:
    """What a new workspace is called by clients, with warnings for whoever chose it."""
    is_github = remote is not None and remote.host == "github.com"
    if identity is None:
        if remote is not None and is_github:
            return Identity.parse(remote.path.strip("/").removesuffix(".git")), ()
        return default_identity(name), ()
    parsed = Identity.parse(identity)
    return parsed, identity_warnings(parsed, name, is_github=is_github)


def identity_warnings(identity: Identity, name: str, *, is_github: bool = False) -> tuple[str, ...]:
    """What whoever chooses an identity should know."""
    if is_github or "--" in identity.owner:
        return ()
    return (
        f"{identity} may be somebody's repository on GitHub. Put `--` into the owner, for "
        f"example {default_identity(name)}, so that the label never names a stranger's.",
    )


def change_identity(
    db: Connection, instance: Instance, workspace: Workspace, text: str
) -> tuple[str, ...]:
    """Call a workspace otherwise; the old identity works on as an alias. Warnings."""
    identity = Identity.parse(text)
    workspaces.change_identity(db, workspace.id, identity, now=instance.now())
    url = workspace.clone_url
    is_github = url is not None and Remote.parse(url).host == "github.com"
    return identity_warnings(identity, workspace.name, is_github=is_github)


def full_ref(branch: str) -> str:
    """A branch as people write it, or as a full ref, as a full ref."""
    ref = branch if branch.startswith("refs/heads/") else f"refs/heads/{branch}"
    if not is_ref(ref) or not branch.isprintable() or any(c.isspace() for c in branch):
        raise InvalidInput(
            f"'{printable(branch, limit=200)}' is no valid name of a branch; "
            "`git check-ref-format --help` has the rules.",
            field="default_branch",
        )
    return ref


# -- credentials ----------------------------------------------------------------------------------


def _stored(instance: Instance, given: GivenCredential) -> tuple[dict[str, Any], str | None]:
    """The row of a credential with its plain secret, and the public key made for it."""
    secret, public_key = given.secret, None
    if given.generate_key:
        if given.kind != "ssh" or given.secret or given.path:
            raise InvalidInput("Only an ssh credential can be generated.", field="credential")
        secret, public_key = generate_ssh_key()
    if (secret is None) == (given.path is None):
        raise InvalidInput("Give a secret or the path of a file.", field="credential")
    if given.path is not None:
        check_reference(instance, given.path)
    Credential(  # checks the form
        kind=given.kind,
        secret=secret if secret is not None else read_reference(instance, given.path or ""),
        username=given.username or "",
        known_hosts=given.known_hosts or "",
    )
    return {
        "kind": given.kind,
        "username": given.username,
        "secret": secret,
        "path": given.path,
        "public_key": public_key,
        "known_hosts": given.known_hosts,
    }, public_key


def _opened(
    instance: Instance, given: GivenCredential | None, stored: dict[str, Any] | None
) -> Credential | None:
    if given is None or stored is None:
        return None
    return Credential(
        kind=given.kind,
        secret=stored["secret"] or read_reference(instance, stored["path"]),
        username=given.username or "",
        known_hosts=given.known_hosts or "",
    )


def _put(db: Connection, instance: Instance, workspace_id: str, stored: dict[str, Any]) -> None:
    secret = stored["secret"]
    place = sealed_place("credentials", workspace_id)
    values = {name: value for name, value in stored.items() if name != "secret"}
    sealed = None if secret is None else instance.sealer.seal(secret, place)
    workspaces.put_credential(db, workspace_id, now=instance.now(), sealed=sealed, **values)


def set_credential(instance: Instance, workspace: Workspace, given: GivenCredential) -> str | None:
    """Replace the credential and try at once; the public key if one was made."""
    if workspace.is_embedded:
        raise Conflict("A workspace on the embedded host needs no credential.")
    stored, public_key = _stored(instance, given)
    Remote.parse(workspace.clone_url or "", credential=_opened(instance, given, stored))
    with instance.database.write() as db:
        triggers.active(workspaces.lock_workspace(db, workspace.id))
        _put(db, instance, workspace.id, stored)
        syncs.add_sync(db, workspace.id, trigger=Trigger.CONNECT, now=instance.now())
        turns.bump(db, workspace.id, lifts="credential")
        _tell(db, instance, workspace.id, "workspace.changed")
    instance.wake(workspace.id)
    return public_key


# -- webhook secrets ------------------------------------------------------------------------------


def _add_webhook_secret(db: Connection, instance: Instance, workspace_id: str, secret: str) -> None:
    place = sealed_place("webhook_secrets", workspace_id)
    sealed = instance.sealer.seal(secret, place)
    workspaces.add_webhook_secret(db, workspace_id, sealed, now=instance.now())


def rotate_webhook_secret(
    instance: Instance, workspace: Workspace, *, overlap: timedelta = ROTATION_OVERLAP
) -> str:
    """A new secret; the present one verifies until the overlap ends, older ones no more."""
    secret, now = secrets.token_hex(32), instance.now()
    with instance.database.write() as db:
        workspaces.expire_webhook_secrets(db, workspace.id, at=now + overlap, now=now)
        _add_webhook_secret(db, instance, workspace.id, secret)
    return secret


def webhook_secrets_of(instance: Instance, workspace_id: str) -> list[str]:
    """The secrets that verify now."""
    place = sealed_place("webhook_secrets", workspace_id)
    with instance.database.read() as db:
        sealed = workspaces.webhook_secrets_of(db, workspace_id, now=instance.now())
    return [instance.sealer.open(text, place).decode() for text in sealed]


# -- life -----------------------------------------------------------------------------------------


def suspend(instance: Instance, workspace: Workspace) -> Workspace:
    """Stop following; what is published stays served, a running sync publishes nothing more."""
    return _change_state(
        instance, workspace, WorkspaceState.SUSPENDED, "The workspace was suspended."
    )


def resume(instance: Instance, workspace: Workspace) -> Workspace:
    """Follow again, and look at once."""
    if workspace.state is WorkspaceState.DISCONNECTED:
        raise Conflict("A disconnected workspace cannot be resumed; connect it anew.")
    now = instance.now()
    with instance.database.write() as db:
        workspaces.set_state(db, workspace.id, WorkspaceState.ACTIVE)
        if not workspace.is_embedded:
            turns.set_next_poll(db, workspace.id, now)
        syncs.add_sync(db, workspace.id, trigger=Trigger.MANUAL, now=now)
        turns.bump(db, workspace.id, lifts="credential")
        _tell(db, instance, workspace.id, "workspace.changed")
        found = workspaces.get_workspace(db, workspace.id)
    instance.wake(workspace.id)
    return found


def disconnect(instance: Instance, workspace: Workspace) -> Workspace:
    """End for good: the credential is gone at once; published versions stay readable."""
    found = _change_state(
        instance, workspace, WorkspaceState.DISCONNECTED, "The workspace was disconnected."
    )
    with instance.database.write() as db:
        workspaces.drop_credential(db, workspace.id)
        now = instance.now()
        workspaces.expire_webhook_secrets(db, workspace.id, at=now, now=now)
    return found


def _change_state(
    instance: Instance, workspace: Workspace, state: WorkspaceState, reason: str
) -> Workspace:
    if workspace.state is WorkspaceState.DISCONNECTED and state is not workspace.state:
        raise Conflict("The workspace is disconnected.", state="disconnected")
    now = instance.now()
    with instance.database.write() as db:
        workspaces.set_state(db, workspace.id, state)
        error = {"code": state.value.upper(), "message": reason, "transient": False}
        syncs.close_open_syncs(db, workspace.id, error=error, now=now)
        _tell(db, instance, workspace.id, "workspace.changed")
        return workspaces.get_workspace(db, workspace.id)


def delete(instance: Instance, workspace: Workspace) -> None:
    """Remove a disconnected workspace with its versions and its repository here."""
    if workspace.state is not WorkspaceState.DISCONNECTED:
        raise Conflict("Disconnect the workspace first; deleting it removes all its versions.")
    with instance.database.write() as db:
        workspaces.lock_workspace(db, workspace.id)
        going_on = runs.count_open(db, workspace.id)
        if going_on:
            raise Conflict(f"{going_on} run(s) of the workspace are not over. Stop them first.")
        packs = objects.packs_of(db, workspace.id)
        uploaded = dataset_checks.all_of_workspace(db, workspace.id)
        workspaces.delete_workspace(db, workspace.id)
        _tell(db, instance, None, "workspace.deleted", workspace=workspace.id)
    for pack in packs:  # artifacts may serve others; the sweep removes those that do not
        with suppress(StoreUnavailable):  # the rows are gone: what is left over harms nobody
            instance.bucket.delete(pack["object_key"])
    drop_all(instance, uploaded)
    path = instance.repository_of(workspace.id, is_embedded=workspace.is_embedded)
    shutil.rmtree(path, ignore_errors=True)


def _tell(
    db: Connection, instance: Instance, workspace_id: str | None, kind: str, **data: Any
) -> None:
    events.add_event(db, kind, data, workspace_id=workspace_id, now=instance.now())


# -- trying a remote out --------------------------------------------------------------------------


def try_remote(instance: Instance, clone_url: str, given: GivenCredential | None) -> dict[str, Any]:
    """Policy, DNS, TCP, TLS, authentication and ref, each by itself; nothing is stored.

    `{steps: [{name, ok, code, message, ms}], default_branch}`; the first that fails is the last.
    """
    stored = _stored(instance, given)[0] if given else None
    remote = Remote.parse(clone_url, credential=_opened(instance, given, stored))
    return _try(instance, remote)


def try_workspace(instance: Instance, workspace: Workspace) -> dict[str, Any]:
    """The same for a connected workspace with its stored credential."""
    if workspace.is_embedded:
        raise Conflict("A workspace on the embedded host has no remote to try.")
    with instance.database.read() as db:
        row = workspaces.get_credential(db, workspace.id)
    credential = None if row is None else open_credential(instance, workspace.id, row)
    return _try(instance, Remote.parse(workspace.clone_url or "", credential=credential))


def _try(instance: Instance, remote: Remote) -> dict[str, Any]:
    steps = probe(remote, instance.network)
    default = steps[-1].branch
    return {
        "steps": [
            {
                "name": step.name,
                "ok": step.ok,
                "code": step.code or None,
                "message": step.message,
                "ms": step.milliseconds,
            }
            for step in steps
        ],
        "default_branch": None if default is None else short(default),
    }
