"""Parameters of a template: typed, described, checked before anything is rendered.

Promise: `Parameters.resolve` returns plain strings that passed their type, pattern and bounds; no
control character or newline ever reaches a template. The same rules are published as JSON Schema.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.text import printable

type Value = str | int | float | bool

_TYPES: dict[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}
_KEYS = {
    "type",
    "title",
    "description",
    "default",
    "pattern",
    "enum",
    "minimum",
    "maximum",
    "max_length",
}
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One typed parameter with its default and limits."""

    name: str
    type: str
    title: str
    description: str
    default: Value
    pattern: str | None = None
    enum: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    max_length: int = 200

    def check(self, value: object) -> Value:
        """`value` in its own type; text is read as the type asks, as it comes from `--set`."""
        problem = None
        typed: Value = ""
        try:
            typed = self._typed(value)
        except (ValueError, OverflowError):
            problem = f"a value of type {self.type} is needed"
        if problem is None:
            problem = self._problem(typed)
        if problem:
            shown = printable(str(value), limit=80)
            raise InvalidInput(
                f"Parameter '{self.name}' cannot be '{shown}': {problem}.",
                field=f"parameters.{self.name}",
            )
        return typed

    def _typed(self, value: object) -> Value:
        if self.type == "boolean":
            if isinstance(value, str) and value.lower() in {"true", "false"}:
                return value.lower() == "true"
            if isinstance(value, bool):
                return value
        elif isinstance(value, bool):
            pass
        elif self.type == "integer":
            if isinstance(value, int):
                return value
            if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", value):
                return int(value)
        elif self.type == "number":
            if isinstance(value, (int, float)):
                return float(value)
            if isinstance(value, str) and len(value) < 40:
                return float(value)
        elif isinstance(value, str):
            return value
        raise ValueError

    def _problem(self, value: Value) -> str | None:
        if isinstance(value, str):
            if any(unicodedata.category(c)[0] == "C" or c in "\u2028\u2029" for c in value):
                return "it has control or invisible characters"
            if len(value) > self.max_length:
                return f"it is longer than {self.max_length} characters"
            if self.enum and value not in self.enum:
                return f"it must be one of {', '.join(self.enum)}"
            if self.pattern is not None and not re.fullmatch(self.pattern, value):
                return f"it must match {self.pattern}"
            return None
        if isinstance(value, bool):
            return None
        if value != value or value in (float("inf"), float("-inf")):
            return "it must be finite"
        if self.minimum is not None and value < self.minimum:
            return f"it must be at least {self.minimum:g}"
        if self.maximum is not None and value > self.maximum:
            return f"it must be at most {self.maximum:g}"
        return None

    def schema(self) -> dict[str, Any]:
        """JSON Schema of this parameter."""
        out: dict[str, Any] = {
            "type": self.type,
            "title": self.title,
            "description": self.description,
            "default": self.default,
        }
        if self.type == "string":
            out["maxLength"] = self.max_length
            if self.pattern is not None:
                out["pattern"] = f"^(?:{self.pattern})$"
            if self.enum:
                out["enum"] = list(self.enum)
        for key, bound in (("minimum", self.minimum), ("maximum", self.maximum)):
            if bound is not None:
                out[key] = bound
        return out

    @classmethod
    def parse(cls, name: str, table: Mapping[str, Any]) -> Parameter:
        """Read one `[parameters.NAME]` table of a template.toml; its author's mistakes raise."""
        unknown = set(table) - _KEYS
        if not _NAME.fullmatch(name) or unknown or table.get("type") not in _TYPES:
            raise InvalidInput(
                f"Parameter '{printable(name)}' of the template has a bad name, type or key."
            )
        parameter = cls(
            name=name,
            type=table["type"],
            title=str(table.get("title", name)),
            description=str(table.get("description", "")),
            default=table["default"],
            pattern=table.get("pattern"),
            enum=tuple(table.get("enum", ())),
            minimum=table.get("minimum"),
            maximum=table.get("maximum"),
            max_length=table.get("max_length", 200),
        )
        parameter.check(parameter.default)
        return parameter


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of one template, in the order of its file."""

    items: tuple[Parameter, ...] = ()

    def resolve(self, given: Mapping[str, object]) -> dict[str, Value]:
        """All values, given or default, in declared order; unknown names are refused."""
        known = {p.name for p in self.items}
        for name in given:
            if name not in known:
                listed = ", ".join(sorted(known)) or "none"
                raise InvalidInput(
                    f"There is no parameter '{printable(name, limit=80)}'. Known: {listed}.",
                    field=f"parameters.{printable(name, limit=80)}",
                )
        return {p.name: p.check(given.get(p.name, p.default)) for p in self.items}

    def schema(self) -> dict[str, Any]:
        """JSON Schema (2020-12) of the whole parameter object."""
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "additionalProperties": False,
            "properties": {p.name: p.schema() for p in self.items},
        }

    @classmethod
    def parse(cls, tables: Mapping[str, Any]) -> Parameters:
        """Read the `[parameters]` of a template.toml."""
        return cls(tuple(Parameter.parse(name, table) for name, table in tables.items()))


def as_text(value: Value) -> str:
    """The one string form of a value that a template sees."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)
