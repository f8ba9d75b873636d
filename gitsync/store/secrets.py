"""Secrets of workspaces and of people in them: sealed, and never given back to a person.

Promise: a value leaves this module only through `open_secrets`, for the executor of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from gitsync.data_records import Secret
from gitsync.store.rows import Page, new_id, page_by_key, record
from gitsync.store.seal import Sealer
from gitsync.store.secret_tables import environment_secrets
from gitsync.store.tables import users

type Scope = Literal["workspace", "user"]
type Listed = Literal["all", "workspace", "user"]

WORKSPACE_OWNER = ""
_CHUNK = 400
_creators, _updaters = users.alias("creators"), users.alias("updaters")


def secret_place(secret_id: str) -> str:
    """What the ciphertext of a secret is bound to."""
    return f"secrets/{secret_id}/sealed"


def _owner(scope: Scope, user_id: str | None) -> str:
    if scope == "workspace":
        return WORKSPACE_OWNER
    if not user_id:
        raise ValueError("a personal secret needs a person")
    return user_id


def _select(workspace_id: str) -> sa.Select[Any]:
    return (
        sa.select(
            environment_secrets,
            (environment_secrets.c.name + "/" + environment_secrets.c.owner).label("sort_key"),
            _creators.c.name.label("creator_name"),
            _updaters.c.name.label("updater_name"),
        )
        .outerjoin(_creators, _creators.c.id == environment_secrets.c.created_by)
        .outerjoin(_updaters, _updaters.c.id == environment_secrets.c.updated_by)
        .where(environment_secrets.c.workspace_id == workspace_id)
    )


def _secret(row: Row[Any]) -> Secret:
    return record(Secret, row, scope="user" if row.owner else "workspace")


def put_secret(
    db: Connection,
    sealer: Sealer,
    workspace_id: str,
    *,
    scope: Scope,
    user_id: str | None,
    name: str,
    value: str,
    now: datetime,
) -> tuple[Secret, bool]:
    """Add or replace a secret; True if it is new. `user_id` is who asks."""
    owner = _owner(scope, user_id)
    row = _find(db, workspace_id, owner, name)
    secret_id = new_id("se") if row is None else row.id
    values = {
        "sealed": sealer.seal(value, secret_place(secret_id)),
        "updated_by": user_id,
        "updated_at": now,
    }
    if row is None:
        db.execute(
            environment_secrets.insert().values(
                id=secret_id,
                workspace_id=workspace_id,
                owner=owner,
                name=name,
                created_by=user_id,
                created_at=now,
                **values,
            )
        )
    else:
        db.execute(
            environment_secrets.update()
            .where(environment_secrets.c.id == secret_id)
            .values(**values)
        )
    found = db.execute(_select(workspace_id).where(environment_secrets.c.id == secret_id)).one()
    return _secret(found), row is None


def _find(db: Connection, workspace_id: str, owner: str, name: str) -> Row[Any] | None:
    return db.execute(
        sa.select(environment_secrets.c.id).where(
            environment_secrets.c.workspace_id == workspace_id,
            environment_secrets.c.owner == owner,
            environment_secrets.c.name == name,
        )
    ).first()


def delete_secret(
    db: Connection, workspace_id: str, *, scope: Scope, user_id: str | None, name: str
) -> bool:
    """Remove a secret; False if there is none of this name in the scope."""
    gone = db.execute(
        environment_secrets.delete().where(
            environment_secrets.c.workspace_id == workspace_id,
            environment_secrets.c.owner == _owner(scope, user_id),
            environment_secrets.c.name == name,
        )
    )
    return gone.rowcount == 1


def drop_personal(db: Connection, user_id: str, workspace_id: str | None = None) -> None:
    """Forget a person's own secrets, in one workspace or everywhere."""
    query = environment_secrets.delete().where(environment_secrets.c.owner == user_id)
    if workspace_id is not None:
        query = query.where(environment_secrets.c.workspace_id == workspace_id)
    db.execute(query)


def _listed(workspace_id: str, user_id: str | None, scope: Listed) -> sa.Select[Any]:
    """What a person sees: the workspace's secrets and their own, never another person's."""
    owners = {
        "all": [WORKSPACE_OWNER, user_id or WORKSPACE_OWNER],
        "workspace": [WORKSPACE_OWNER],
        "user": [user_id] if user_id else [],
    }[scope]
    return _select(workspace_id).where(environment_secrets.c.owner.in_(owners))


def page_secrets(
    db: Connection,
    workspace_id: str,
    *,
    user_id: str | None,
    scope: Listed,
    limit: int,
    after: str | None,
) -> Page[Secret]:
    """By name."""
    query = _listed(workspace_id, user_id, scope)
    key: Any = environment_secrets.c.name + "/" + environment_secrets.c.owner
    return page_by_key(db, query, key.label("sort_key"), limit=limit, after=after, build=_secret)


def list_secrets(
    db: Connection,
    workspace_id: str,
    *,
    user_id: str | None,
    scope: Listed,
    limit: int,
    offset: int,
) -> tuple[list[Secret], int]:
    """A piece of the list by name, and how many there are in all."""
    query = _listed(workspace_id, user_id, scope)
    total = db.execute(sa.select(sa.func.count()).select_from(query.subquery())).scalar_one()
    rows = db.execute(query.order_by(sa.text("sort_key")).limit(limit).offset(offset)).all()
    return [_secret(row) for row in rows], total


def count_secrets(db: Connection, workspace_id: str, scope: Scope, user_id: str | None) -> int:
    """How many the workspace has, or this person in it."""
    query = sa.select(sa.func.count()).where(
        environment_secrets.c.workspace_id == workspace_id,
        environment_secrets.c.owner == _owner(scope, user_id),
    )
    return db.execute(query).scalar_one()


def names_of(db: Connection, workspace_id: str) -> frozenset[str]:
    """Names of the workspace's own secrets: what every run of it may use."""
    return frozenset(
        db.execute(
            sa.select(environment_secrets.c.name).where(
                environment_secrets.c.workspace_id == workspace_id,
                environment_secrets.c.owner == WORKSPACE_OWNER,
            )
        ).scalars()
    )


def resolve_secrets(
    db: Connection, workspace_id: str, user_id: str | None, names: Iterable[str]
) -> dict[str, str]:
    """Where each name would come from: `user_override` if a personal one hides the workspace's.

    Names that are stored nowhere are absent.
    """
    rows = _rows(db, workspace_id, user_id, names)
    scopes: dict[str, str] = {}
    for name, owner in sorted((row.name, row.owner) for row in rows):  # the workspace's first
        if owner == WORKSPACE_OWNER:
            scopes[name] = "workspace"
        else:
            scopes[name] = "user_override" if name in scopes else "user"
    return scopes


def open_secrets(
    db: Connection,
    sealer: Sealer,
    workspace_id: str,
    user_id: str | None,
    scopes: Mapping[str, str],
) -> dict[str, str]:
    """The values for an executor, from where `resolve_secrets` said; what is gone is absent."""
    values: dict[str, str] = {}
    for row in _rows(db, workspace_id, user_id, scopes):
        is_workspace = row.owner == WORKSPACE_OWNER
        if is_workspace == (scopes[row.name] == "workspace"):
            values[row.name] = sealer.open(row.sealed, secret_place(row.id)).decode()
    return values


def _rows(
    db: Connection, workspace_id: str, user_id: str | None, names: Iterable[str]
) -> list[Row[Any]]:
    wanted = sorted(set(names))
    found: list[Row[Any]] = []
    for start in range(0, len(wanted), _CHUNK):
        found.extend(
            db.execute(
                sa.select(environment_secrets).where(
                    environment_secrets.c.workspace_id == workspace_id,
                    environment_secrets.c.owner.in_([WORKSPACE_OWNER, user_id or ""]),
                    environment_secrets.c.name.in_(wanted[start : start + _CHUNK]),
                )
            ).all()
        )
    return found
