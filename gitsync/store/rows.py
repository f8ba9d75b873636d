"""From rows to records: one place that knows both."""

from __future__ import annotations

import dataclasses
import secrets
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from gitsync import records, run_records
from gitsync.errors import InvalidInput

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: str) -> str:
    """A URL-safe random id such as `ws_7h3k…`: 16 characters of 5 bits."""
    return prefix + "_" + "".join(secrets.choice(_ALPHABET) for _ in range(16))


def record[T](cls: type[T], row: Row[Any], **more: Any) -> T:
    """Build a record from a row that has a column of each field's name."""
    values: dict[str, Any] = {}
    mapping = row._mapping
    for name, kind in _plan(cls):  # type: ignore[arg-type]
        if name in more:
            values[name] = more[name]
            continue
        value = mapping[name]
        if isinstance(value, list):
            value = tuple(value)
        elif kind is not None and value is not None:
            value = kind(value)
        values[name] = value
    return cls(**values)


@cache
def _plan(cls: type) -> tuple[tuple[str, type | None], ...]:
    """The fields of a record, with the enumeration of those that have one."""
    return tuple((f.name, _ENUMS.get((cls, f.name))) for f in dataclasses.fields(cls))


_ENUMS: dict[tuple[type, str], type] = {
    (records.Workspace, "state"): records.WorkspaceState,
    (records.Sync, "trigger"): records.Trigger,
    (records.Sync, "status"): records.SyncStatus,
    (records.Sync, "outcome"): records.Outcome,
    (records.CommitRecord, "state"): records.CommitState,
    (records.Job, "state"): records.JobState,
    (run_records.Run, "kind"): run_records.RunKind,
    (run_records.Run, "state"): run_records.RunState,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Page[T]:
    """A piece of a list; `next` is the cursor of the following piece, None at the end."""

    items: tuple[T, ...]
    total_count: int
    next: str | None

    @property
    def has_more(self) -> bool:
        """True if there is a following piece."""
        return self.next is not None


MAX_LIMIT = 200


def page_by_id[T](
    db: Connection,
    query: sa.Select[Any],
    column: sa.Column[Any],
    *,
    limit: int,
    after: str | None,
    build: Any,
) -> Page[T]:
    """Newest first, by a growing id: stable while rows are added."""
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"limit must be between 1 and {MAX_LIMIT}.", field="limit")
    total = db.execute(sa.select(sa.func.count()).select_from(query.subquery())).scalar_one()
    if after is not None:
        if not after.isascii() or not after.isdigit() or len(after) > 18:
            raise InvalidInput("after must be the value of `next`.", field="after")
        query = query.where(column < int(after))
    rows = db.execute(query.order_by(column.desc()).limit(limit + 1)).all()
    more = str(rows[limit - 1]._mapping[column.name]) if len(rows) > limit else None
    return Page(tuple(build(row) for row in rows[:limit]), total, more)


def page_by_key[T](
    db: Connection,
    query: sa.Select[Any],
    column: sa.Column[Any],
    *,
    limit: int,
    after: str | None,
    build: Any,
) -> Page[T]:
    """In the order of a unique text column."""
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"limit must be between 1 and {MAX_LIMIT}.", field="limit")
    total = db.execute(sa.select(sa.func.count()).select_from(query.subquery())).scalar_one()
    if after is not None:
        query = query.where(column > after.replace("\0", ""))
    rows = db.execute(query.order_by(column).limit(limit + 1)).all()
    more = str(rows[limit - 1]._mapping[column.name]) if len(rows) > limit else None
    return Page(tuple(build(row) for row in rows[:limit]), total, more)


type Dead = frozenset[str] | set[str] | None  # servers by the ids of their starts; None: all others


def of_dead(column: sa.Column[Any], dead: Dead) -> sa.ColumnElement[bool]:
    """Rows whose server is dead."""
    return column.is_not(None) if dead is None else column.in_(sorted(dead))
