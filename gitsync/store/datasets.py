"""Data sets: who has the name, what has arrived, and what an upload came to.

Each upload is a row. At most one row of a name is shown (`shown_name`): the newest that was not
cancelled. A cancelled one gives the name back to the newest that is `uploaded`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from gitsync.data_records import Dataset, DatasetPart, DatasetState, LogLine
from gitsync.store.dataset_tables import dataset_logs, dataset_parts, datasets
from gitsync.store.rows import Page, new_id, page_by_id, record
from gitsync.store.tables import users
from gitsync.text import storable

_OPEN = [state.value for state in DatasetState if state.is_open]


def select_datasets() -> sa.Select[Any]:
    """What `dataset_of` reads."""
    return sa.select(datasets, users.c.name.label("creator_name")).outerjoin(
        users, users.c.id == datasets.c.created_by
    )


def dataset_of(row: Row[Any]) -> Dataset:
    """One upload from its row."""
    return record(Dataset, row, state=DatasetState(row.state))


def _shown(workspace_id: str) -> sa.Select[Any]:
    return select_datasets().where(
        datasets.c.workspace_id == workspace_id, datasets.c.shown_name.is_not(None)
    )


def _in_list(workspace_id: str) -> sa.Select[Any]:
    """Without the rows of the preview, which no list shows: they may be large."""
    light = [c for c in datasets.c if c.name != "preview"]
    return (
        sa.select(*light, sa.null().label("preview"), users.c.name.label("creator_name"))
        .outerjoin(users, users.c.id == datasets.c.created_by)
        .where(datasets.c.workspace_id == workspace_id, datasets.c.shown_name.is_not(None))
    )


# -- reading --------------------------------------------------------------------------------------


def find_dataset(db: Connection, workspace_id: str, name_or_id: str) -> Dataset | None:
    """What a name means now, or an upload by its id; only `uploaded` ones are good for a run."""
    wanted = storable(name_or_id)
    row = db.execute(_shown(workspace_id).where(datasets.c.shown_name == wanted)).first()
    if row is None:
        row = db.execute(
            select_datasets().where(
                datasets.c.workspace_id == workspace_id,
                datasets.c.id == wanted,
                datasets.c.deleted_at.is_(None),
            )
        ).first()
    return None if row is None else dataset_of(row)


def get_dataset(db: Connection, dataset_id: str) -> Dataset | None:
    """One upload, whatever became of it."""
    row = db.execute(select_datasets().where(datasets.c.id == dataset_id)).first()
    return None if row is None else dataset_of(row)


def names_of(db: Connection, workspace_id: str) -> frozenset[str]:
    """Names of the data sets of a workspace."""
    return frozenset(
        db.execute(
            sa.select(datasets.c.shown_name).where(
                datasets.c.workspace_id == workspace_id, datasets.c.shown_name.is_not(None)
            )
        ).scalars()
    )


def count_datasets(db: Connection, workspace_id: str) -> int:
    """How many names there are."""
    query = sa.select(sa.func.count()).where(
        datasets.c.workspace_id == workspace_id, datasets.c.shown_name.is_not(None)
    )
    return db.execute(query).scalar_one()


def list_datasets(
    db: Connection, workspace_id: str, *, limit: int, offset: int, before: int | None = None
) -> tuple[list[Dataset], int]:
    """A piece of the list, newest first, and how many there are in all.

    `before` is the `seq` after which the piece begins.
    """
    query = _in_list(workspace_id)
    total = db.execute(sa.select(sa.func.count()).select_from(query.subquery())).scalar_one()
    if before is not None:
        query = query.where(datasets.c.seq < before)
    rows = db.execute(query.order_by(datasets.c.seq.desc()).limit(limit).offset(offset)).all()
    return [dataset_of(row) for row in rows], total


def page_datasets(
    db: Connection, workspace_id: str, *, limit: int, after: str | None
) -> Page[Dataset]:
    """Newest first."""
    return page_by_id(
        db, _in_list(workspace_id), datasets.c.seq, limit=limit, after=after, build=dataset_of
    )


def total_size(db: Connection, workspace_id: str) -> int:
    """Bytes that the uploads of a workspace take, or will take once they have arrived."""
    return int(
        db.execute(
            sa.select(sa.func.coalesce(sa.func.sum(datasets.c.size), 0)).where(
                datasets.c.workspace_id == workspace_id,
                datasets.c.is_swept.is_(False),
                datasets.c.deleted_at.is_(None),
                datasets.c.state.not_in([DatasetState.CANCELLED.value, DatasetState.ERROR.value]),
            )
        ).scalar_one()
    )


# -- writing --------------------------------------------------------------------------------------


def add_dataset(
    db: Connection,
    workspace_id: str,
    *,
    name: str,
    format: str,
    size: int,
    part_size: int,
    total_parts: int,
    replaces: Dataset | None,
    created_by: str | None,
    expires_at: datetime,
    now: datetime,
) -> Dataset:
    """A new upload that takes the name; the one it replaces keeps its content but not the name."""
    if replaces is not None:
        _update(db, replaces.id, shown_name=None, updated_at=now)
    dataset_id = new_id("ds")
    db.execute(
        datasets.insert().values(
            id=dataset_id,
            workspace_id=workspace_id,
            name=name,
            shown_name=name,
            state=DatasetState.PENDING.value,
            format=format,
            size=size,
            method="simple" if total_parts == 1 else "multipart",
            part_size=part_size,
            total_parts=total_parts,
            replaces=None if replaces is None else replaces.id,
            created_by=created_by,
            created_at=now,
            updated_at=now,
            expires_at=expires_at,
            is_swept=False,
            attempts=0,
        )
    )
    return dataset_of(db.execute(select_datasets().where(datasets.c.id == dataset_id)).one())


def _update(db: Connection, dataset_id: str, **values: Any) -> None:
    db.execute(datasets.update().where(datasets.c.id == dataset_id).values(**values))


def change_state(
    db: Connection,
    dataset_id: str,
    state: DatasetState,
    *,
    only_from: Sequence[DatasetState],
    now: datetime,
    **values: Any,
) -> bool:
    """Move an upload on; False if it is in none of the states `only_from` any more."""
    changed = db.execute(
        datasets.update()
        .where(
            datasets.c.id == dataset_id,
            datasets.c.state.in_([s.value for s in only_from]),
            datasets.c.deleted_at.is_(None),
        )
        .values(state=state.value, updated_at=now, **values)
    )
    return changed.rowcount == 1


def give_back_name(db: Connection, dataset: Dataset) -> Dataset | None:
    """Let the newest earlier upload that is good have the name again; that one, if there is any."""
    row = db.execute(sa.select(datasets).where(datasets.c.id == dataset.id)).one()
    if row.shown_name is None:
        return None
    _update(db, dataset.id, shown_name=None)
    earlier = db.execute(
        select_datasets()
        .where(
            datasets.c.workspace_id == dataset.workspace_id,
            datasets.c.name == dataset.name,
            datasets.c.state == DatasetState.UPLOADED.value,
            datasets.c.deleted_at.is_(None),
            datasets.c.is_swept.is_(False),
            datasets.c.seq < row.seq,
        )
        .order_by(datasets.c.seq.desc())
        .limit(1)
    ).first()
    if earlier is None:
        return None
    _update(db, earlier.id, shown_name=dataset.name)
    return dataset_of(earlier)


def delete_named(db: Connection, workspace_id: str, name: str, *, now: datetime) -> None:
    """Take all uploads of a name away; `unswept` gives what is to be removed from the store."""
    own = (datasets.c.workspace_id == workspace_id, datasets.c.name == name)
    db.execute(
        datasets.update()
        .where(*own, datasets.c.state.in_(_OPEN))
        .values(state=DatasetState.CANCELLED.value)
    )
    db.execute(
        datasets.update()
        .where(*own, datasets.c.deleted_at.is_(None))
        .values(deleted_at=now, shown_name=None, updated_at=now)
    )


# -- parts ----------------------------------------------------------------------------------------


def put_part(
    db: Connection, dataset_id: str, number: int, *, size: int, etag: str, now: datetime
) -> None:
    """A part has arrived, perhaps once more."""
    key = (dataset_parts.c.dataset_id == dataset_id, dataset_parts.c.number == number)
    values = {"size": size, "etag": etag, "received_at": now}
    if db.execute(dataset_parts.update().where(*key).values(**values)).rowcount == 0:
        db.execute(dataset_parts.insert().values(dataset_id=dataset_id, number=number, **values))


def parts_of(db: Connection, dataset_id: str) -> list[DatasetPart]:
    """What has arrived, by number."""
    rows = db.execute(
        sa.select(dataset_parts)
        .where(dataset_parts.c.dataset_id == dataset_id)
        .order_by(dataset_parts.c.number)
    ).all()
    return [record(DatasetPart, row) for row in rows]


# -- logs -----------------------------------------------------------------------------------------


def add_log(
    db: Connection,
    dataset_id: str,
    level: str,
    step: str,
    message: str,
    *,
    now: datetime,
    details: dict[str, Any] | None = None,
) -> None:
    """One line of what happened to an upload."""
    db.execute(
        dataset_logs.insert().values(
            dataset_id=dataset_id,
            at=now,
            level=level,
            step=step,
            message=storable(message),
            details=details,
        )
    )


def logs_of(
    db: Connection, dataset_id: str, *, limit: int, before: int | None
) -> tuple[list[LogLine], int | None]:
    """The newest lines before an id, oldest first, and the id to go on with towards older ones."""
    query = sa.select(dataset_logs).where(dataset_logs.c.dataset_id == dataset_id)
    if before is not None:
        query = query.where(dataset_logs.c.id < before)
    rows = db.execute(query.order_by(dataset_logs.c.id.desc()).limit(limit + 1)).all()
    lines = [record(LogLine, row) for row in reversed(rows[:limit])]
    return lines, lines[0].id if len(rows) > limit else None
