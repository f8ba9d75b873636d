"""Rules that age, as data with a source and a date each: providers, package traps, commands."""

from __future__ import annotations

import hashlib
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "rules"


@cache
def rules(name: str) -> dict[str, Any]:
    """One data file of `rules/`, parsed."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def digest() -> str:
    """What changes when any of the rules does."""
    total = hashlib.sha256()
    for file in sorted(_FOLDER.glob("*.toml")):
        total.update(file.name.encode() + b"\0" + file.read_bytes())
    return total.hexdigest()[:12]


def providers() -> dict[str, str]:
    """Provider prefix of a model name -> the name of its key."""
    return dict(rules("providers")["keys"])


@cache
def provider_keys() -> frozenset[str]:
    """The names of the keys of all providers."""
    return frozenset(providers().values())
