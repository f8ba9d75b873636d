"""TOML files with the place of every key and value.

Promise: hostile files end here. Size, nesting, key length and number length are bounded before a
parser sees them (decision 40); values come from `tomllib`, places from tree-sitter. Lines and
columns count from 1, columns in characters.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import tree_sitter_toml
from tree_sitter import Language, Node, Parser

from gitsync.check.secrets import redacted
from gitsync.text import printable

Place = tuple[int, int]
Steps = tuple[str | int, ...]

MAX_BYTES = 256 * 1024
MAX_DEPTH = 64
MAX_KEY_PARTS = 64
MAX_DIGITS = 4000
_LANGUAGE = Language(tree_sitter_toml.language())
_RISK = re.compile(
    rb'"""(?:\\.|[^\\])*?(?:"{3,5}|\Z)|' + rb"'''.*?(?:'{3,5}|\Z)|"
    rb'"(?:\\.|[^"\\\n])*"?|' + rb"'[^'\n]*'?|#[^\n]*|[\[{]|[\]}]|[0-9_]{1000,}|\.|[=,]|\n",
    re.DOTALL,
)
_LONG = re.compile(rb"(?<![0-9])[0-9]{%d}" % (MAX_DIGITS + 1))


class TomlError(Exception):
    """The file cannot be used; `limit` is set if it is over a limit rather than malformed."""

    def __init__(self, message: str, place: Place = (1, 1), *, limit: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.limit = limit


@dataclass(slots=True)
class Document:
    """The values of one file and where they stand."""

    values: dict[str, Any]
    keys: dict[Steps, Place] = field(default_factory=dict)
    places: dict[Steps, Place] = field(default_factory=dict)
    headers: dict[Steps, Place] = field(default_factory=dict)
    opened: dict[Steps, Place] = field(default_factory=dict)
    comments: tuple[tuple[int, int, str], ...] = ()

    def keep_only(self, sections: Collection[str], *, depth: int) -> None:
        """Forget the places outside these sections, or deeper, and all comments."""
        for table in (self.keys, self.places, self.headers, self.opened):
            for steps in [s for s in table if s[0] not in sections or len(s) > depth]:
                del table[steps]
        self.comments = ()

    def key(self, *steps: str | int) -> Place:
        """Where a key stands."""
        return self.keys.get(steps) or self.opened.get(steps, (1, 1))

    def value(self, *steps: str | int) -> Place:
        """Where the first character of a value stands; of the element inside an array."""
        return self.places.get(steps) or self.key(*steps)

    def table(self, *steps: str | int) -> Place:
        """Where something is missing from: the header's line, else the key that opens it."""
        header = self.headers.get(steps)
        return header if header else self.opened.get(steps) or self.key(*steps)


def parse(data: bytes, *, max_bytes: int = MAX_BYTES) -> Document:
    """Values and places of a TOML 1.0 file; `TomlError` if it is none or over a limit."""
    values = parse_values(data, max_bytes=max_bytes)
    document = Document(values)
    root = Parser(_LANGUAGE).parse(data).root_node
    _Placer(data, document).document(root)
    return document


def parse_values(data: bytes, *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Only the values."""
    if len(data) > max_bytes:
        raise TomlError(f"It has more than {max_bytes} bytes.", limit=True)
    if data.startswith(b"\xef\xbb\xbf"):
        raise TomlError("It starts with a byte order mark.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise TomlError("It is not UTF-8.", (line, 1)) from e
    _limits(data)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise TomlError(_reason(e), _place_of(e)) from e
    except (ValueError, RecursionError, MemoryError, OverflowError) as e:
        raise TomlError(f"It cannot be read ({type(e).__name__}).", limit=True) from e


def _reason(error: tomllib.TOMLDecodeError) -> str:
    text = re.sub(r"\s*\(at (?:line \d+, column \d+|end of document)\)$", "", str(error))
    return printable(redacted(text), limit=160).rstrip(".") + "."


def _place_of(error: tomllib.TOMLDecodeError) -> Place:
    found = re.search(r"\(at line (\d+), column (\d+)\)$", str(error))
    return (int(found[1]), int(found[2])) if found else (1, 1)


def _limits(data: bytes) -> None:
    """Refuse nesting, key lengths and numbers on which the parsers would spend gigabytes."""
    long = _LONG.search(data)  # also in texts: versions are numbers
    if long is not None:
        place = (data.count(b"\n", 0, long.start()) + 1, 1)
        raise TomlError(f"A number has more than {MAX_DIGITS} digits.", place, limit=True)
    depth = parts = 0
    line = 1
    for match in _RISK.finditer(data):
        token = match[0]
        first = token[:1]
        if first in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise TomlError(f"It nests deeper than {MAX_DEPTH} levels.", (line, 1), limit=True)
        elif first in b"]}":
            depth = max(0, depth - 1)
        elif first == b".":
            parts += 1
            if parts >= MAX_KEY_PARTS:
                raise TomlError(
                    f"A key has more than {MAX_KEY_PARTS} parts.", (line, 1), limit=True
                )
        elif first == b"\n":
            parts = 0
            line += 1
        elif first in b"=,":
            parts = 0
        elif first in b"0123456789_":
            if len(token) > MAX_DIGITS:
                raise TomlError(
                    f"A number has more than {MAX_DIGITS} digits.", (line, 1), limit=True
                )
        else:
            line += token.count(b"\n")


class _Placer:
    """Walks the syntax tree once and notes places under the same steps as the values have."""

    def __init__(self, data: bytes, document: Document) -> None:
        self._lines = data.split(b"\n")
        self._document = document
        self._starts: dict[int, list[int] | None] = {}
        self._counts: dict[Steps, int] = {}
        self._comments: list[tuple[int, int, str]] = []

    def document(self, root: Node) -> None:
        for node in root.children:
            if node.type == "pair":
                self._pair(node, ())
            elif node.type in ("table", "table_array_element"):
                self._table(node)
            elif node.type == "comment":
                self._comment(node)
        self._document.comments = tuple(self._comments)

    def _place(self, node: Node) -> Place:
        row, column = node.start_point
        starts = self._character_starts(row)
        return row + 1, (column if starts is None else bisect_left(starts, column)) + 1

    def _character_starts(self, row: int) -> list[int] | None:
        """At which byte of a line each character begins; None if every byte is one."""
        if row not in self._starts:
            line = self._lines[row] if row < len(self._lines) else b""
            self._starts[row] = (
                None if line.isascii() else [n for n, byte in enumerate(line) if byte & 192 != 128]
            )
        return self._starts[row]

    def _comment(self, node: Node) -> None:
        text = (node.text or b"").decode("utf-8", "replace")
        self._comments.append((*self._place(node), text))

    def _names(self, node: Node) -> list[tuple[str, Node]]:
        found: list[tuple[str, Node]] = []
        waiting = [node]
        while waiting:
            part = waiting.pop()
            if part.type == "dotted_key":
                waiting.extend(reversed(part.children))
            elif part.type in ("bare_key", "quoted_key"):
                found.append((_key_text(part), part))
        return found

    def _open(self, steps: Steps, node: Node) -> None:
        place = self._place(node)
        self._document.opened.setdefault(steps, place)
        self._document.keys.setdefault(steps, place)

    def _inside(self, steps: Steps) -> Steps:
        """The same table, in the latest element where a step names an array of tables."""
        out: Steps = ()
        for step in steps:
            out = (*out, step)
            if out in self._counts:
                out = (*out, self._counts[out])
        return out

    def _table(self, node: Node) -> None:
        header = next((c for c in node.children if c.type.endswith("key")), None)
        if header is None:
            return
        names = self._names(header)
        place = self._place(node)
        steps: Steps = ()
        for index, (name, part) in enumerate(names):
            steps = (*steps, name)
            self._document.opened.setdefault(steps, (place[0], 1))
            self._document.keys.setdefault(steps, self._place(part))
            if index < len(names) - 1:
                steps = self._inside_last(steps)
        if node.type == "table_array_element":
            count = self._counts.get(steps, -1) + 1
            self._counts[steps] = count
            self._document.places.setdefault(steps, place)
            steps = (*steps, count)
            self._document.opened.setdefault(steps, (place[0], 1))
        self._document.headers.setdefault(steps, (place[0], 1))
        self._document.places.setdefault(steps, place)
        for child in node.children:
            if child.type == "pair":
                self._pair(child, steps)
            elif child.type == "comment":
                self._comment(child)

    def _inside_last(self, steps: Steps) -> Steps:
        return (*steps, self._counts[steps]) if steps in self._counts else steps

    def _pair(self, node: Node, table: Steps) -> None:
        waiting: list[tuple[Node, Steps]] = [(node, table)]
        while waiting:
            pair, inside = waiting.pop()
            named = [c for c in pair.children if c.type.endswith("key")]
            if not named:
                continue
            steps = inside
            for name, part in self._names(named[0]):
                steps = self._inside_last((*steps, name))
                self._open(steps, part)
            found = [c for c in pair.children if c.is_named and c is not named[0]]
            for value in found:
                if value.type == "comment":
                    self._comment(value)
                elif not value.type.endswith("key"):
                    waiting.extend(self._value(value, steps))

    def _value(self, node: Node, steps: Steps) -> Iterator[tuple[Node, Steps]]:
        """Note the place of a value; yields the pairs of the inline tables in it."""
        waiting: list[tuple[Node, Steps]] = [(node, steps)]
        while waiting:
            value, at = waiting.pop()
            self._document.places.setdefault(at, self._place(value))
            if value.type == "array":
                index = 0
                for child in value.children:
                    if child.type == "comment":
                        self._comment(child)
                    elif child.is_named:
                        self._document.opened.setdefault((*at, index), self._place(child))
                        waiting.append((child, (*at, index)))
                        index += 1
            elif value.type == "inline_table":
                for child in value.children:
                    if child.type == "pair":
                        yield child, at


def _key_text(node: Node) -> str:
    text = (node.text or b"").decode("utf-8", "replace")
    if node.type == "bare_key":
        return text
    try:
        return next(iter(tomllib.loads(f"{text} = 0")))
    except (tomllib.TOMLDecodeError, StopIteration):
        return text.strip("\"'")
