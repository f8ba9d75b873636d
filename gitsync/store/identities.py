"""What clients call a workspace: its identity, and those it had before as aliases.

Promise: an identity belongs to one workspace, whatever its case. One that was given up by a change
stays an alias, and nobody else gets it, until it is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.errors import Conflict, NotFound
from gitsync.model import Identity
from gitsync.records import Workspace
from gitsync.store.identity_tables import identities, quickstarts

MOST = 20  # so that nobody hoards names


def check_free(db: Connection, identity: Identity) -> None:
    """`Conflict` if a workspace has it, or had it and did not release it."""
    if _owner(db, identity) is not None:
        raise Conflict(f"The identity {identity} is taken by another workspace.", field="identity")


def _owner(db: Connection, identity: Identity) -> str | None:
    return db.execute(
        sa.select(identities.c.workspace_id).where(identities.c.identity_key == identity.key)
    ).scalar_one_or_none()


def taken(workspace_id: str, identity: Identity, *, now: datetime) -> sa.Executable:
    """The statement that takes it; it fails if somebody was faster."""
    return identities.insert().values(
        identity_key=identity.key,
        identity=str(identity),
        workspace_id=workspace_id,
        taken_at=now,
    )


def added(
    db: Connection, workspace_id: str, identity: Identity, *, now: datetime
) -> sa.Executable | None:
    """The same for a workspace that has others; None if it has this one already."""
    owner = _owner(db, identity)
    if owner == workspace_id:
        return None
    check_free(db, identity)
    count = db.execute(
        sa.select(sa.func.count())
        .select_from(identities)
        .where(identities.c.workspace_id == workspace_id)
    ).scalar_one()
    if count >= MOST:
        raise Conflict(
            f"A workspace keeps at most {MOST} identities. Release one it had before.",
            field="identity",
        )
    return taken(workspace_id, identity, now=now)


def aliases_of(db: Connection, workspace: Workspace) -> list[str]:
    """Identities it had before and did not release, the newest first."""
    rows = db.execute(
        sa.select(identities.c.identity)
        .where(
            identities.c.workspace_id == workspace.id,
            identities.c.identity_key != workspace.identity.lower(),
        )
        .order_by(identities.c.taken_at.desc(), identities.c.identity_key)
    )
    return list(rows.scalars())


def release(db: Connection, workspace: Workspace, identity: Identity) -> None:
    """Give an alias up: from now on anybody may take it."""
    if identity.key == workspace.identity.lower():
        raise Conflict(
            "This is the identity in use. Change it first; then the old one can be released.",
            field="identity",
        )
    dropped = db.execute(
        identities.delete().where(
            identities.c.workspace_id == workspace.id, identities.c.identity_key == identity.key
        )
    )
    if dropped.rowcount == 0:
        raise NotFound(f"{identity} is no alias of this workspace.", field="identity")


# -- the answer to `osmosis quickstart` -----------------------------------------------------------


def note_quickstart(
    db: Connection, workspace_id: str, *, intent: str, user_id: str, now: datetime
) -> None:
    """Remember what a team came for; the newest answer counts."""
    values = {"intent": intent, "user_id": user_id, "completed_at": now}
    changed = db.execute(
        quickstarts.update().where(quickstarts.c.workspace_id == workspace_id).values(**values)
    )
    if changed.rowcount == 0:
        db.execute(quickstarts.insert().values(workspace_id=workspace_id, **values))


def completed_quickstarts(db: Connection, workspace_ids: Sequence[str]) -> set[str]:
    """Those of the workspaces that answered."""
    rows = db.execute(
        sa.select(quickstarts.c.workspace_id).where(
            quickstarts.c.workspace_id.in_(list(workspace_ids))
        )
    )
    return set(rows.scalars())
