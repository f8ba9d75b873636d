"""Pieces of lists and pages of logs, as the `osmosis` CLI pages through them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, model_validator

from gitsync.errors import InvalidInput

_WHOLE = re.compile(r"[0-9]{1,16}")
_ANCHOR = 1_000_000  # `next_offset` is the number of an item times this, plus a count
_CURSOR = re.compile(r"before:([0-9]{1,18})")


class InvalidPagination(InvalidInput):
    """limit or offset is out of range, or no number."""

    code = "INVALID_PAGINATION"


class InvalidCursor(InvalidInput):
    """The cursor is none that we gave out."""

    code = "INVALID_CURSOR"


class CliBody(BaseModel):
    """A request body; keys that a newer client sends are ignored, NUL characters are refused."""

    model_config = ConfigDict(extra="ignore", str_max_length=100_000, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _no_nul(cls, value: Any) -> Any:
        if isinstance(value, dict) and any("\0" in v for v in value.values() if isinstance(v, str)):
            raise ValueError("text may not hold NUL characters")
        return value


def _whole(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
        raise InvalidPagination(
            f"{name} must be a whole number from {least} to {most}.", field=name
        )
    return int(text)


@dataclass(frozen=True, slots=True)
class Piece:
    """`?limit=1..50&offset=`: which piece of a list."""

    limit: int
    offset: int

    def answer(self, key: str, items: Sequence[Any], total: int) -> dict[str, Any]:
        """The list under `key`, and where the following piece begins."""
        end = self.offset + len(items)
        has_more = bool(items) and end < total
        return {
            key: list(items),
            "total_count": total,
            "has_more": has_more,
            "next_offset": end if has_more else None,
        }

    def of[T](self, everything: Sequence[T]) -> Sequence[T]:
        """This piece of a list that is at hand as a whole."""
        return everything[self.offset : self.offset + self.limit]


async def piece(request: Request) -> Piece:
    """From the query."""
    return Piece(_whole(request, "limit", 50, 1, 50), _whole(request, "offset", 0, 0, 999_999_999))


@dataclass(frozen=True, slots=True)
class Anchored:
    """`?limit=1..50&offset=` for lists that grow at their head.

    A `next_offset` of ours also names an item, so that what follows does not shift meanwhile.
    """

    limit: int
    offset: int
    anchor: int | None

    def answer(
        self, key: str, items: Sequence[Any], total: int, *, anchor: int, end: int, has_more: bool
    ) -> dict[str, Any]:
        """The list under `key`; the following piece begins `end` items after `anchor`."""
        return {
            key: list(items),
            "total_count": total,
            "has_more": has_more,
            "next_offset": anchor * _ANCHOR + end if has_more else None,
        }


async def anchored(request: Request) -> Anchored:
    """From the query."""
    limit, offset = _whole(request, "limit", 50, 1, 50), _whole(request, "offset", 0, 0, 2**53 - 1)
    anchor, count = divmod(offset, _ANCHOR)
    return Anchored(limit, count, anchor or None)


@dataclass(frozen=True, slots=True)
class LogPage:
    """`?limit=1..200&direction=older&cursor=`: entries before `before`, None: the newest."""

    limit: int
    before: int | None

    def answer(self, entries: Sequence[dict[str, Any]], first: int | None) -> dict[str, Any]:
        """Entries oldest first; `first` is the number of the oldest if there are older ones."""
        return {"logs": list(entries), "next_cursor": None if first is None else _cursor(first)}


def _cursor(number: int) -> str:
    return base64.urlsafe_b64encode(f"before:{number}".encode()).decode().rstrip("=")


def _before(cursor: str) -> int:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
    except (ValueError, binascii.Error):
        text = ""
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise InvalidCursor("cursor must be a `next_cursor` of this log.", field="cursor")
    return int(found[1])


async def log_page(request: Request) -> LogPage:
    """From the query."""
    limit = _whole(request, "limit", 50, 1, 200)
    if request.query_params.get("direction", "older") != "older":
        raise InvalidInput("direction can only be `older`.", field="direction")
    cursor = request.query_params.get("cursor")
    return LogPage(limit, None if cursor is None else _before(cursor))


PieceDep = Annotated[Piece, Depends(piece)]
AnchoredDep = Annotated[Anchored, Depends(anchored)]
LogPageDep = Annotated[LogPage, Depends(log_page)]
