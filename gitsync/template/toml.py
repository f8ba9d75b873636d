"""TOML of strangers read within bounds, and edited so that comments and order survive.

Promise: `read_toml` takes time and memory in proportion to the text, whatever it holds; a key with
thousands of parts costs `tomllib` gigabytes, so shape is judged before parsing. `set_values`
changes nothing but the values it is given.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from gitsync.errors import InvalidInput

MAX_TOML_BYTES = 512 * 1024
_MAX_DOTS = 16  # in one line outside strings: no sane key has more parts
_MAX_OPEN = 32  # brackets open at the same time
_STRINGS = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL
)

type Key = tuple[str, ...]


def read_toml(data: bytes, *, name: str) -> dict[str, Any]:
    """The document as plain values, or `InvalidInput` that begins with `name`."""
    try:
        text = data.decode("utf-8")
        _judge_shape(text)
        return tomllib.loads(text)
    except (ValueError, RecursionError, AttributeError, TypeError) as e:
        raise InvalidInput(f"{name} is no usable TOML: {str(e)[:200]}") from e


def _judge_shape(text: str) -> None:
    if len(text) > MAX_TOML_BYTES:
        raise ValueError(f"it is larger than {MAX_TOML_BYTES} bytes")
    bare = _STRINGS.sub('""', text)
    depth = 0
    for number, line in enumerate(bare.split("\n"), 1):
        if line.count(".") > _MAX_DOTS and not line.strip().startswith(("{", '"', "'", "[ ")):
            keys = [part for part in re.split(r"[,={}\[\]]", line) if part.count(".") > _MAX_DOTS]
            if keys:
                raise ValueError(f"line {number} has a key with more than {_MAX_DOTS} parts")
        for char in line:
            depth += (char in "[{") - (char in "]}")
            if depth > _MAX_OPEN:
                raise ValueError(f"line {number} is nested deeper than {_MAX_OPEN}")


def leaves(table: Mapping[str, Any], prefix: Key = ()) -> dict[Key, Any]:
    """Every value that is no table, by its path of keys."""
    out: dict[Key, Any] = {}
    for key, value in table.items():
        here = (*prefix, key)
        if isinstance(value, dict):
            out.update(leaves(value, here))
        else:
            out[here] = value
    return out


def set_values(data: bytes, values: Mapping[Key, Any], *, name: str) -> bytes:
    """`data` with these values set (None removes one); everything else keeps its bytes.

    The result is read again: an edit that would change anything else is refused.
    """
    wanted = leaves(read_toml(data, name=name))
    wanted |= values
    crlf = b"\r\n" in data
    try:
        document = tomlkit.parse(data.decode("utf-8"))
        for key, value in values.items():
            table: Any = document
            for part in key[:-1]:
                if part not in table:
                    table[part] = tomlkit.table()
                table = table[part]
                if not isinstance(table, Mapping):
                    raise InvalidInput(f"{name}: '{part}' is no table.")
            if value is None:
                if key[-1] in table:
                    del table[key[-1]]
            elif table.get(key[-1]) != value or type(table.get(key[-1])) is bool:
                _assign(table, key[-1], value)
        text = tomlkit.dumps(document)
    except (TOMLKitError, RecursionError, TypeError, ValueError, KeyError, AttributeError) as e:
        raise InvalidInput(f"{name} cannot be edited: {str(e)[:200]}") from e
    if crlf and "\r\n" not in text:
        text = text.replace("\n", "\r\n")
    edited = text.encode("utf-8")
    if leaves(read_toml(edited, name=name)) != {k: v for k, v in wanted.items() if v is not None}:
        raise InvalidInput(f"{name} cannot be edited without changing more than was asked.")
    return edited


def _assign(table: Any, key: str, value: object) -> None:
    """Replace a value, keeping the comment and the space that stand after it."""
    old = table.get(key)
    new = tomlkit.item(value, _parent=table if isinstance(table, Table) else None)
    if old is not None and hasattr(old, "trivia"):
        new.trivia.indent = old.trivia.indent
        new.trivia.comment_ws = old.trivia.comment_ws
        new.trivia.comment = old.trivia.comment
        new.trivia.trail = old.trivia.trail
    table[key] = new


def merge_values(
    base: bytes, ours: bytes, theirs: bytes, *, name: str
) -> tuple[bytes, tuple[str, ...]]:
    """Carry what changed from `base` to `theirs` into `ours`; also the keys where both changed."""
    was, mine, new = (leaves(read_toml(d, name=name)) for d in (base, ours, theirs))
    wanted: dict[Key, Any] = {}
    clashes: list[str] = []
    for key in {**was, **new}:
        if was.get(key) == new.get(key):
            continue
        if mine.get(key) == new.get(key):
            continue
        if mine.get(key) == was.get(key):
            wanted[key] = new.get(key)
        else:
            clashes.append(".".join(key))
    return set_values(ours, wanted, name=name), tuple(clashes)
