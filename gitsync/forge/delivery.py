"""What all providers have in common: a parsed delivery, and JSON that cannot hurt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gitsync.errors import InvalidInput


class Malformed(InvalidInput):
    """The body is authenticated, but no delivery of this provider."""

    code = "DELIVERY_MALFORMED"


@dataclass(frozen=True, slots=True)
class Parsed:
    """One delivery. `ignored` says why it asks for no look; refs are full.

    `repository` is the name the provider gives it, `formerly` the one before a rename or transfer,
    `repository_id` what outlives both.
    """

    event: str
    delivery_id: str
    ref: str | None = None
    before_sha: str | None = None
    after_sha: str | None = None
    repository: str | None = None
    repository_id: str | None = None
    formerly: str | None = None
    ignored: str | None = None


class _Twice(Exception):
    pass


def load(body: bytes) -> tuple[dict[str, Any], bool]:
    """The JSON object of a body, and whether a key occurs twice (then no value can be trusted)."""
    twice = False

    def pairs(items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        found = dict(items)
        twice = twice or len(found) != len(items)
        return found

    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=pairs)
    except (UnicodeDecodeError, ValueError, RecursionError) as e:
        raise Malformed(f"The body is no JSON: {type(e).__name__}.") from None
    if not isinstance(value, dict):
        raise Malformed("The body is no JSON object.")
    return value, twice


def text(value: Any, name: str, *, most: int = 2000) -> str | None:
    """A text field; None if it is absent or null, `Malformed` if it is something else."""
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > most:
        raise Malformed(f"`{name}` is no text of at most {most} characters.")
    return value


def sha(value: Any, name: str) -> str | None:
    """An object name of 40 or 64 hexadecimal digits."""
    found = text(value, name)
    if found is None:
        return None
    if len(found) not in (40, 64) or not all(c in "0123456789abcdef" for c in found.lower()):
        raise Malformed(f"`{name}` is no object name.")
    return found.lower()


def table(value: Any, name: str) -> dict[str, Any]:
    """An object field; empty if it is absent or null."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Malformed(f"`{name}` is no object.")
    return value
