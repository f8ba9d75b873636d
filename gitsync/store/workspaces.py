"""Workspaces, their branches, credentials and webhook secrets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.errors import Conflict, InvalidInput, NotFound
from gitsync.model import Identity
from gitsync.records import Branch, Workspace, WorkspaceState
from gitsync.store import identities
from gitsync.store.identity_tables import identities as identity_rows
from gitsync.store.rows import Page, new_id, page_by_key, record
from gitsync.store.tables import (
    branches,
    credentials,
    memberships,
    webhook_secrets,
    workspaces,
)


def add_workspace(
    db: Connection,
    *,
    name: str,
    identity: Identity,
    provider: str,
    clone_url: str | None,
    watch: str,
    chosen_branch: str | None,
    created_by: str | None,
    settings: dict[str, Any],
    next_poll_at: datetime | None,
    now: datetime,
) -> Workspace:
    """Create the row; `Conflict` names the value that is taken."""
    name = name.strip()
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise InvalidInput("A name has 1 to 200 printable characters.", field="name")
    if watch not in {"default", "all"}:
        raise InvalidInput("watch must be `default` or `all`.", field="watch")
    _free(db, workspaces.c.name_key, name.lower(), "name", name)
    identities.check_free(db, identity)
    workspace_id = new_id("ws")
    _unless_taken(
        db,
        workspaces.insert().values(
            id=workspace_id,
            name=name,
            name_key=name.lower(),
            identity=str(identity),
            identity_key=identity.key,
            provider=provider,
            clone_url=clone_url,
            state=WorkspaceState.ACTIVE.value,
            watch=watch,
            chosen_branch=chosen_branch,
            settings=settings,
            created_at=now,
            created_by=created_by,
            next_poll_at=next_poll_at,
        ),
    )
    _unless_taken(db, identities.taken(workspace_id, identity, now=now))
    return get_workspace(db, workspace_id)


def _unless_taken(db: Connection, statement: sa.Executable) -> None:
    """Somebody may take a name between our look and our write."""
    try:
        db.execute(statement)
    except sa.exc.IntegrityError as e:
        raise Conflict("The name or the identity was taken at this moment.", field="name") from e


def _free(db: Connection, column: sa.Column[str], key: str, field: str, shown: str) -> None:
    if db.execute(sa.select(workspaces.c.id).where(column == key)).first() is not None:
        raise Conflict(f"The {field} {shown} is taken by another workspace.", field=field)


def get_workspace(db: Connection, workspace_id: str) -> Workspace:
    """By id; `NotFound` otherwise."""
    row = db.execute(sa.select(workspaces).where(workspaces.c.id == workspace_id)).first()
    if row is None:
        raise NotFound("There is no such workspace.")
    return record(Workspace, row)


def lock_workspace(db: Connection, workspace_id: str) -> Workspace:
    """The same, and nobody else changes the workspace before this write transaction ends.

    On SQLite every write transaction is alone anyway.
    """
    db.execute(sa.select(workspaces.c.id).where(workspaces.c.id == workspace_id).with_for_update())
    return get_workspace(db, workspace_id)


def find_by_identity(db: Connection, identity: str) -> Workspace | None:
    """By `owner/repo`, whatever its case, or by one it had before and did not release."""
    row = db.execute(
        sa.select(workspaces)
        .join(identity_rows, identity_rows.c.workspace_id == workspaces.c.id)
        .where(identity_rows.c.identity_key == identity.lower())
    ).first()
    return None if row is None else record(Workspace, row)


def find_by_name(db: Connection, name: str) -> Workspace | None:
    """By name, whatever its case."""
    row = db.execute(
        sa.select(workspaces).where(workspaces.c.name_key == name.strip().lower())
    ).first()
    return None if row is None else record(Workspace, row)


def list_workspaces(
    db: Connection,
    *,
    limit: int,
    after: str | None,
    user_id: str | None = None,
    only: Sequence[str] | None = None,
) -> Page[Workspace]:
    """By id; those of a member, or of a machine token's list, or all."""
    query = sa.select(workspaces)
    if user_id is not None:
        query = query.join(memberships, memberships.c.workspace_id == workspaces.c.id).where(
            memberships.c.user_id == user_id
        )
    if only is not None:
        query = query.where(workspaces.c.id.in_(only))
    return page_by_key(
        db,
        query,
        workspaces.c.id,
        limit=limit,
        after=after,
        build=lambda row: record(Workspace, row),
    )


def all_ids(db: Connection, *, provider: str | None = None, active: bool = True) -> list[str]:
    """Ids of all workspaces of a provider."""
    query = sa.select(workspaces.c.id).order_by(workspaces.c.id)
    if provider is not None:
        query = query.where(workspaces.c.provider == provider)
    if active:
        query = query.where(workspaces.c.state == WorkspaceState.ACTIVE.value)
    return list(db.execute(query).scalars())


def change_workspace(db: Connection, workspace_id: str, **values: Any) -> None:
    """Set columns; names are checked for uniqueness. Identities: see `change_identity`."""
    current = get_workspace(db, workspace_id)
    if "name" in values:
        values["name"] = values["name"].strip()
        if not 1 <= len(values["name"]) <= 200 or not values["name"].isprintable():
            raise InvalidInput("A name has 1 to 200 printable characters.", field="name")
        values["name_key"] = values["name"].lower()
        if values["name_key"] != current.name.lower():
            _free(db, workspaces.c.name_key, values["name_key"], "name", values["name"])
    _unless_taken(db, workspaces.update().where(workspaces.c.id == workspace_id).values(**values))


def change_identity(
    db: Connection, workspace_id: str, identity: Identity, *, now: datetime
) -> None:
    """Call it otherwise from now on; the old identity stays an alias until it is released."""
    current = lock_workspace(db, workspace_id)
    if identity.key != current.identity.lower():
        statement = identities.added(db, workspace_id, identity, now=now)
        if statement is not None:
            _unless_taken(db, statement)
    _unless_taken(
        db,
        workspaces.update()
        .where(workspaces.c.id == workspace_id)
        .values(identity=str(identity), identity_key=identity.key),
    )


def set_state(db: Connection, workspace_id: str, state: WorkspaceState) -> None:
    """Suspend, resume or disconnect; the fence is bumped so that no late publish gets in.

    Who is not followed is owed no look: those asked for were answered with the state.
    """
    settled: dict[str, Any] = {}
    if state is not WorkspaceState.ACTIVE:
        settled = {"done": workspaces.c.requested, "owed_since": None}
    db.execute(
        workspaces.update()
        .where(workspaces.c.id == workspace_id)
        .values(
            state=state.value,
            fence=workspaces.c.fence + 1,
            owner=None,
            expires_at=None,
            not_before=None,
            hold=None,
            failures=0,
            **settled,
        )
    )


def delete_workspace(db: Connection, workspace_id: str) -> None:
    """Remove the row and all that hangs on it."""
    db.execute(workspaces.delete().where(workspaces.c.id == workspace_id))


# -- branches ---------------------------------------------------------------------------------


def list_branches(db: Connection, workspace_id: str) -> list[Branch]:
    """All branches ever watched, by name."""
    rows = db.execute(
        sa.select(branches).where(branches.c.workspace_id == workspace_id).order_by(branches.c.name)
    )
    return [record(Branch, row) for row in rows]


def branches_of(db: Connection, ids: Iterable[str]) -> dict[str, list[Branch]]:
    """Branches of several workspaces in one query."""
    found: dict[str, list[Branch]] = {workspace_id: [] for workspace_id in ids}
    for row in db.execute(
        sa.select(branches)
        .where(branches.c.workspace_id.in_(list(found)))
        .order_by(branches.c.name)
    ):
        found[row.workspace_id].append(record(Branch, row))
    return found


def find_branch(db: Connection, workspace_id: str, name: str) -> Branch | None:
    """One branch by its full ref."""
    row = db.execute(
        sa.select(branches).where(branches.c.workspace_id == workspace_id, branches.c.name == name)
    ).first()
    return None if row is None else record(Branch, row)


def put_branch(
    db: Connection, workspace_id: str, name: str, *, now: datetime, **values: Any
) -> None:
    """Create or change a branch."""
    changed = db.execute(
        branches.update()
        .where(branches.c.workspace_id == workspace_id, branches.c.name == name)
        .values(updated_at=now, **values)
    )
    if changed.rowcount == 0:
        values.setdefault("state", "live")
        db.execute(
            branches.insert().values(workspace_id=workspace_id, name=name, updated_at=now, **values)
        )


# -- credentials and webhook secrets ------------------------------------------------------------


def get_credential(db: Connection, workspace_id: str) -> dict[str, Any] | None:
    """The row of the credential, its secret still sealed."""
    row = db.execute(
        sa.select(credentials).where(credentials.c.workspace_id == workspace_id)
    ).first()
    return None if row is None else dict(row._mapping)


def put_credential(db: Connection, workspace_id: str, *, now: datetime, **values: Any) -> None:
    """Replace the credential; the fence is bumped so that no turn goes on with the old one."""
    drop_credential(db, workspace_id)
    db.execute(credentials.insert().values(workspace_id=workspace_id, updated_at=now, **values))
    db.execute(
        workspaces.update()
        .where(workspaces.c.id == workspace_id)
        .values(
            fence=workspaces.c.fence + 1,
            owner=None,
            expires_at=None,
            hold=None,
            not_before=None,
            failures=0,
        )
    )


def drop_credential(db: Connection, workspace_id: str) -> None:
    """Forget the credential."""
    db.execute(credentials.delete().where(credentials.c.workspace_id == workspace_id))


def sealed_place(table: str, row: object, column: str = "sealed") -> str:
    """What a ciphertext is bound to."""
    return f"{table}/{row}/{column}"


def add_webhook_secret(db: Connection, workspace_id: str, sealed: str, *, now: datetime) -> None:
    """Add a secret that verifies from now on."""
    db.execute(
        webhook_secrets.insert().values(workspace_id=workspace_id, sealed=sealed, created_at=now)
    )


def webhook_secrets_of(db: Connection, workspace_id: str, *, now: datetime) -> list[str]:
    """Sealed secrets that verify now, newest first."""
    rows = db.execute(
        sa.select(webhook_secrets.c.sealed)
        .where(
            webhook_secrets.c.workspace_id == workspace_id,
            sa.or_(webhook_secrets.c.expires_at.is_(None), webhook_secrets.c.expires_at > now),
        )
        .order_by(webhook_secrets.c.id.desc())
    )
    return list(rows.scalars())


def expire_webhook_secrets(
    db: Connection, workspace_id: str, *, at: datetime, now: datetime, keep: int = 1
) -> None:
    """Let the newest `keep` secrets that verify now end at `at`, older ones at once."""
    rows = db.execute(
        sa.select(webhook_secrets.c.id)
        .where(webhook_secrets.c.workspace_id == workspace_id)
        .order_by(webhook_secrets.c.id.desc())
    ).scalars()
    for position, secret_id in enumerate(rows):
        db.execute(
            webhook_secrets.update()
            .where(
                webhook_secrets.c.id == secret_id,
                sa.or_(webhook_secrets.c.expires_at.is_(None), webhook_secrets.c.expires_at > now),
            )
            .values(expires_at=at if position < keep else now)
        )
