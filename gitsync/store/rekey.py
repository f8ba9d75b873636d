"""Every stored secret sealed anew with the first key, so that older keys can be dropped.

Promise: one transaction; afterwards no row needs another key than the first (decision 32).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from gitsync.store.database import Database
from gitsync.store.run_tables import run_vaults
from gitsync.store.seal import Sealer
from gitsync.store.secret_tables import environment_secrets
from gitsync.store.secrets import secret_place
from gitsync.store.tables import credentials, idempotency_keys, webhook_secrets
from gitsync.store.workspaces import sealed_place

type Placed = tuple[sa.Table, Callable[[Row[tuple[object, ...]]], str]]


def idempotency_place(*, user_id: str, method: str, path: str, key: str) -> str:
    """What a stored answer is bound to: its whole primary key."""
    digest = hashlib.sha256("\0".join((user_id, method, path, key)).encode()).hexdigest()
    return sealed_place("idempotency_keys", digest)


def _tables() -> Iterator[Placed]:
    yield credentials, lambda row: sealed_place("credentials", row.workspace_id)
    yield webhook_secrets, lambda row: sealed_place("webhook_secrets", row.workspace_id)
    yield run_vaults, lambda row: sealed_place("run_vaults", row.run_id)
    yield environment_secrets, lambda row: secret_place(row.id)
    yield (
        idempotency_keys,
        lambda row: idempotency_place(
            user_id=row.user_id, method=row.method, path=row.path, key=row.key
        ),
    )


def rekey(database: Database, sealer: Sealer) -> int:
    """Seal anew what another key sealed; the number of rows that changed."""
    with database.write() as db:
        return sum(_rekey(db, sealer, table, place) for table, place in _tables())


def _rekey(
    db: Connection,
    sealer: Sealer,
    table: sa.Table,
    place: Callable[[Row[tuple[object, ...]]], str],
) -> int:
    changed = 0
    for row in db.execute(sa.select(table).where(table.c.sealed.is_not(None))).all():
        if sealer.is_current(row.sealed):
            continue
        where = place(row)
        fresh = sealer.seal(sealer.open(row.sealed, where), where)
        key = [column == row._mapping[column.name] for column in table.primary_key.columns]
        db.execute(table.update().where(*key).values(sealed=fresh))
        changed += 1
    return changed
