"""Results kept by Git object id, so that what did not change is not read again.

Promise: an entry is only ever stored under the id of the bytes it was computed from, so a hit is
always right; the number of entries is bounded; results of sources that know no ids live for one
check only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, cast

_LIMIT = 60_000  # about 2 kB each for ordinary workspaces
_MISSING = object()
_kept: dict[Hashable, Any] = {}


class Memo:
    """The results of one check: shared between checks where an object id is known."""

    def __init__(self) -> None:
        self._own: dict[Hashable, Any] = {}

    def get[T](
        self, kind: str, oid: str | None, path: str, compute: Callable[[], T], *extra: Hashable
    ) -> T:
        """The result of `compute` for these bytes; `extra` holds whatever else it depends on."""
        store, key = (
            (_kept, (kind, oid, *extra)) if oid is not None else (self._own, (kind, path, *extra))
        )
        value = store.get(key, _MISSING)
        if value is not _MISSING:
            return cast(T, value)
        value = compute()
        if oid is None:
            store[key] = value
        else:
            self.keep(kind, oid, value, *extra)
        return value

    def peek(self, kind: str, oid: str, *extra: Hashable) -> Any:
        """The result kept for these bytes, if there is one."""
        return _kept.get((kind, oid, *extra))

    def keep(self, kind: str, oid: str, value: Any, *extra: Hashable) -> None:
        """Keep a result; the oldest quarter goes when there are too many."""
        if len(_kept) >= _LIMIT:
            for old in list(_kept)[: _LIMIT // 4]:
                _kept.pop(old, None)
        _kept[kind, oid, *extra] = value


def forget() -> None:
    """Drop everything that is kept; for measuring cold checks."""
    _kept.clear()
