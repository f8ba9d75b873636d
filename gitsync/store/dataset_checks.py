"""Who checks an upload now, and what is left over of the others.

Promise: what is written about a check is written only by who holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.data_records import Dataset, DatasetState
from gitsync.run_records import RunState
from gitsync.store.dataset_tables import dataset_parts, datasets
from gitsync.store.datasets import dataset_of, get_dataset, select_datasets
from gitsync.store.rows import Dead, of_dead
from gitsync.store.run_tables import runs
from gitsync.store.tables import clock

_CHUNK = 400


# -- checking -------------------------------------------------------------------------------------


def _due() -> sa.ColumnElement[bool]:
    return sa.and_(
        datasets.c.state == DatasetState.PROCESSING.value,
        datasets.c.deleted_at.is_(None),
        sa.or_(datasets.c.due_at.is_(None), datasets.c.due_at <= clock()),
    )


def is_due(db: Connection) -> bool:
    """True if an upload waits for its check."""
    return db.execute(sa.select(datasets.c.id).where(_due()).limit(1)).first() is not None


def claim(db: Connection, *, owner: str, lease: timedelta) -> Dataset | None:
    """The oldest upload that waits for its check, for this process until the lease ends."""
    row = db.execute(
        select_datasets()
        .where(_due())
        .order_by(datasets.c.seq)
        .limit(1)
        .with_for_update(of=datasets, skip_locked=True)
    ).first()
    if row is None:
        return None
    db.execute(
        datasets.update()
        .where(datasets.c.id == row.id)
        .values(owner=owner, due_at=clock() + _micros(lease), attempts=datasets.c.attempts + 1)
    )
    return get_dataset(db, row.id)


def _micros(span: timedelta) -> Any:
    return sa.literal(span // timedelta(microseconds=1), sa.BigInteger)


def _held(dataset_id: str, owner: str) -> sa.Update:
    """Whatever is written about a check of ours: nothing, if it is ours no more."""
    return datasets.update().where(
        datasets.c.id == dataset_id,
        datasets.c.owner == owner,
        datasets.c.state == DatasetState.PROCESSING.value,
        datasets.c.deleted_at.is_(None),
    )


def renew(db: Connection, dataset_id: str, *, owner: str, lease: timedelta) -> bool:
    """Keep a claim; False if it is another's, or the upload was cancelled."""
    write = _held(dataset_id, owner).values(due_at=clock() + _micros(lease))
    return db.execute(write).rowcount == 1


def release(db: Connection, dataset_id: str, *, owner: str, pause: timedelta, counts: bool) -> None:
    """Give a claim back; the check is due again after a pause. `counts`: it was an attempt."""
    db.execute(
        _held(dataset_id, owner).values(
            owner=None,
            due_at=clock() + _micros(pause),
            attempts=datasets.c.attempts - (0 if counts else 1),
        )
    )


def release_claims(db: Connection, dead: Dead) -> int:
    """At a start: give the claims of dead servers back; if all others are, end all pauses too."""
    changed = db.execute(
        datasets.update()
        .where(
            datasets.c.state == DatasetState.PROCESSING.value,
            sa.true() if dead is None else of_dead(datasets.c.owner, dead),
        )
        .values(owner=None, due_at=None)
    )
    return changed.rowcount


def finish(
    db: Connection,
    dataset_id: str,
    *,
    owner: str,
    state: DatasetState,
    now: datetime,
    **values: Any,
) -> bool:
    """End a check that is still ours; False if the upload was cancelled or taken over."""
    write = _held(dataset_id, owner).values(
        state=state.value, owner=None, due_at=None, updated_at=now, **values
    )
    return db.execute(write).rowcount == 1


# -- what is left over ----------------------------------------------------------------------------


def expired(db: Connection, *, now: datetime, limit: int) -> list[Dataset]:
    """Uploads that were begun and never completed in time."""
    rows = db.execute(
        select_datasets()
        .where(
            datasets.c.state.in_([DatasetState.PENDING.value, DatasetState.UPLOADING.value]),
            datasets.c.deleted_at.is_(None),
            datasets.c.expires_at <= now,
        )
        .order_by(datasets.c.seq)
        .limit(limit)
    ).all()
    return [dataset_of(row) for row in rows]


def _replaced() -> sa.ColumnElement[bool]:
    """Another good upload has the name: until then it may have to be given back."""
    newer = datasets.alias("newer")
    return sa.and_(
        datasets.c.state == DatasetState.UPLOADED.value,
        datasets.c.shown_name.is_(None),
        sa.exists().where(
            newer.c.workspace_id == datasets.c.workspace_id,
            newer.c.name == datasets.c.name,
            newer.c.seq > datasets.c.seq,
            newer.c.state == DatasetState.UPLOADED.value,
            newer.c.deleted_at.is_(None),
        ),
    )


def _in_use() -> sa.ColumnElement[bool]:
    """A run that is not over works with it, or will."""
    open_states = [state.value for state in RunState if not state.is_over]
    return sa.exists().where(runs.c.dataset_id == datasets.c.id, runs.c.state.in_(open_states))


def give_up_replaced(db: Connection, workspace_id: str) -> None:
    """Let the sweep take replaced contents at once: the room is wanted."""
    db.execute(
        datasets.update()
        .where(
            datasets.c.workspace_id == workspace_id,
            datasets.c.is_swept.is_(False),
            _replaced(),
        )
        .values(deleted_at=datasets.c.updated_at)
    )


def unswept(
    db: Connection, *, before: datetime, replaced_before: datetime, limit: int
) -> list[Dataset]:
    """Uploads whose bytes nobody can want: ended badly, deleted or replaced, and not lately."""
    over = [DatasetState.ERROR.value, DatasetState.CANCELLED.value]
    gone = sa.or_(datasets.c.deleted_at.is_not(None), datasets.c.state.in_(over))
    rows = db.execute(
        select_datasets()
        .where(
            datasets.c.is_swept.is_(False),
            ~_in_use(),
            sa.or_(
                sa.and_(gone, datasets.c.updated_at <= before),
                sa.and_(_replaced(), datasets.c.updated_at <= replaced_before),
            ),
        )
        .order_by(datasets.c.seq)
        .limit(limit)
    ).all()
    return [dataset_of(row) for row in rows]


def drop_parts(db: Connection, dataset_id: str) -> None:
    """The parts of this upload are gone."""
    db.execute(dataset_parts.delete().where(dataset_parts.c.dataset_id == dataset_id))


def with_parts_left(db: Connection, *, limit: int) -> list[Dataset]:
    """Good uploads whose parts were not removed yet: somebody died between the two."""
    left = sa.exists().where(dataset_parts.c.dataset_id == datasets.c.id)
    rows = db.execute(
        select_datasets().where(datasets.c.state == DatasetState.UPLOADED.value, left).limit(limit)
    ).all()
    return [dataset_of(row) for row in rows]


def ids_among(db: Connection, ids: Sequence[str]) -> set[str]:
    """Those of these ids that are uploads."""
    found: set[str] = set()
    for start in range(0, len(ids), _CHUNK):
        query = sa.select(datasets.c.id).where(datasets.c.id.in_(ids[start : start + _CHUNK]))
        found |= set(db.execute(query).scalars())
    return found


def note_swept(db: Connection, dataset_id: str) -> None:
    """Nothing of this upload is stored any more."""
    drop_parts(db, dataset_id)
    db.execute(
        datasets.update().where(datasets.c.id == dataset_id).values(is_swept=True, object_key=None)
    )


def all_of_workspace(db: Connection, workspace_id: str) -> list[Dataset]:
    """Every upload whose bytes may be stored, for the end of a workspace."""
    query = select_datasets().where(
        datasets.c.workspace_id == workspace_id, datasets.c.is_swept.is_(False)
    )
    return [dataset_of(row) for row in db.execute(query).all()]


def stored_keys(db: Connection) -> set[str]:
    """Keys of the contents that are stored."""
    query = sa.select(datasets.c.object_key).where(datasets.c.object_key.is_not(None))
    return set(db.execute(query).scalars())
