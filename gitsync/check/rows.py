"""The rules for rows: columns, cells and metadata objects, in JSONL and in CSV."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from json.scanner import make_scanner
from typing import Any, Protocol

from gitsync.check.found import shown

TEXTS = ("system_prompt", "user_prompt", "ground_truth", "label")
_MOST_PATHS = 50_000
_LONGEST_PATH, _SHOWN_PATH = 500, 60
_INT64 = 2**63
_DECODER: Any = json.JSONDecoder()
_OBJECT, _ARRAY = "an object", "an array"
_OTHER = "a value that JSON does not have"  # times, decimals and bytes in Parquet
_TYPES = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "text",
    dict: _OBJECT,
    list: _ARRAY,
}
_scan = make_scanner(_DECODER)  # one value at a place, without the checks of `loads`


class NumberedLines(Protocol):
    """What rows are read from: decoded lines that know their number."""

    number: int
    too_long: bool

    def __iter__(self) -> Iterator[str]: ...


@dataclass(frozen=True, slots=True)
class Note:
    """Something wrong with one row."""

    code: str
    line: int
    message: str
    subject: str = ""


class JsonRows:
    """JSONL: one object per line, all with the keys of the first."""

    def __init__(self) -> None:
        self.count = 0
        self.is_partial = False
        self._keys: frozenset[str] | None = None
        self._texts: tuple[str, ...] = ()
        self._metadata = Metadata()

    def read(self, lines: NumberedLines) -> Iterator[Note]:
        """The notes of all rows, in order."""
        for line in lines:
            if lines.too_long:
                self.count += 1
                yield _too_long(lines.number)
                continue
            text = line.strip()
            if text:
                self.count += 1
                if not self._is_plain(text):
                    yield from self._row(text, lines.number)

    def _is_plain(self, text: str) -> bool:
        """True for the ordinary row of prompts with nothing to say about; must be fast."""
        if not self._texts:
            return False
        try:
            value, end = _scan(text, 0)
        except (StopIteration, ValueError, RecursionError, MemoryError):
            return False
        if end != len(text) or type(value) is not dict or value.keys() != self._keys:
            return False
        for key in self._texts:
            cell = value[key]
            if type(cell) is not str or not cell:
                return False
        return True

    def _row(self, text: str, line: int) -> Iterator[Note]:
        try:
            value = json.loads(text)
        except json.JSONDecodeError as e:
            yield Note(
                "invalid-json",
                line,
                f"The line is no JSON: {shown(e.msg)} at column {e.colno}. Write one JSON object "
                "per line.",
            )
            return
        except (ValueError, RecursionError, MemoryError):
            yield Note(
                "invalid-json",
                line,
                "The line cannot be read: it nests too deep or holds a "
                "number that is too long. Simplify it.",
            )
            return
        if not isinstance(value, dict):
            yield Note(
                "row-not-object",
                line,
                "The line is no JSON object. Write `{...}` with the columns as keys.",
            )
            return
        yield from self._object(value, line)

    def _object(self, value: dict[str, Any], line: int) -> Iterator[Note]:
        keys = frozenset(value)
        if self._keys is None:
            self._keys = keys
            if "metadata" not in keys:
                self._texts = tuple(k for k in TEXTS if k in keys)
            yield from missing_columns(keys, line)
        elif keys != self._keys:
            differ = sorted(keys ^ self._keys)
            names = ", ".join(f"`{shown(k, limit=40)}`" for k in differ[:5])
            yield Note(
                "row-keys-differ",
                line,
                f"The row has other keys than the first one ({names}). Give every row the same "
                "keys.",
            )
        if "metadata" in self._keys:
            yield from self._metadata.check(value.get("metadata"), line)
            return
        yield from empty_cells(value, line)
        for key in TEXTS:
            if isinstance(value.get(key), list | dict | bool):
                yield Note(
                    "non-text-value",
                    line,
                    f"`{key}` is no text. Write it in quotes.",
                    key,
                )


class CsvRows:
    """CSV with a header; every record has as many fields."""

    def __init__(self) -> None:
        self.count = 0
        self.is_partial = False
        self._metadata = Metadata()

    def read(self, lines: NumberedLines) -> Iterator[Note]:
        """The notes of all records, in order; raises `csv.Error` where the SDK fails too."""
        reader = csv.reader(_kept(lines))
        header = next(reader, None)
        if header is None:
            return
        if lines.too_long:
            self.is_partial = True
            yield _too_long(1)
            return
        # An upload reads the first of two equal columns, a run the last.
        names = {name: i for i, name in reversed(list(enumerate(header)))}
        texts = {name: i for i, name in enumerate(header) if name in TEXTS}
        yield from missing_columns(names, 1)
        for name, count in Counter(header).items():
            if count > 1:
                yield Note(
                    "duplicate-column",
                    1,
                    f"The header names `{shown(name, limit=40)}` twice. Rename one of the columns.",
                    name,
                )
        start = lines.number + 1
        for record in reader:
            line, start = start, lines.number + 1
            if lines.too_long:
                self.count += 1
                yield _too_long(line)
            elif len(record) != len(header):
                self.count += bool(record)
                yield Note(
                    "column-count",
                    line,
                    f"The record has {len(record)} fields, the header {len(header)}. Quote fields "
                    "that hold commas, and leave no blank lines.",
                )
            else:
                self.count += 1
                if "metadata" in names:
                    yield from self._metadata.check(record[names["metadata"]], line)
                else:
                    yield from empty_cells({k: record[i] for k, i in texts.items()}, line)


def _kept(lines: NumberedLines) -> Iterator[str]:
    yield from lines


def _too_long(line: int) -> Note:
    return Note(
        "row-too-long",
        line,
        "The row has more than 4 MiB and is not checked. Keep rows smaller.",
    )


def missing_columns(names: Any, line: int) -> Iterator[Note]:
    """A note if the columns make neither of the two modes."""
    if "metadata" in names:
        return
    missing = [] if "user_prompt" in names else ["user_prompt"]
    if "ground_truth" not in names and "label" not in names:
        missing.append("ground_truth")
    if missing:
        listed = " and no ".join(f"`{m}`" for m in missing)
        yield Note(
            "missing-column",
            line,
            f"There is no column {listed}, and no `metadata` instead. Add what is missing; `label` "
            "is another name of `ground_truth`.",
            missing[0],
        )


def empty_cells(row: dict[str, Any], line: int) -> Iterator[Note]:
    """A note for the first needed cell that is there and empty; such a row fails in every run."""
    if "user_prompt" in row and row["user_prompt"] in (None, ""):
        yield Note("empty-cell", line, "`user_prompt` is empty. Fill it.", "user_prompt")
        return
    labels = [row[k] for k in ("ground_truth", "label") if k in row]
    if labels and all(value is None or value == "" for value in labels):
        yield Note("empty-cell", line, "`ground_truth` is empty. Fill it.", "ground_truth")


class Metadata:
    """The metadata column: an object in every row, of one type at each key path."""

    def __init__(self) -> None:
        self._types: dict[str, str] = {}

    def check(self, value: Any, line: int) -> Iterator[Note]:
        """The notes of one cell."""
        reason, parsed = _object_of(value)
        if reason:
            yield Note(
                "invalid-metadata",
                line,
                f"`metadata` {reason}. Every row needs a non-empty JSON object.",
            )
            return
        differing = self._observe(parsed)
        if differing:
            path, before, now = differing
            yield Note(
                "metadata-type-differs",
                line,
                f"`{shown(path)}` is {now} here and {before} in an earlier row. Use one type.",
                path,
            )

    def _observe(self, parsed: Any) -> tuple[str, str, str] | None:
        """The first path, in reading order, whose type is another than before.

        Paths are joined texts, as in the SDK: the key `a.b` is the same place as `b` in `a`.
        """
        types = self._types
        waiting: list[tuple[str, Any]] = [("metadata", parsed)]
        while waiting:
            path, value = waiting.pop()
            if value is None:
                continue
            now = _TYPES.get(type(value), _OTHER)
            before = types.get(path)
            if before is None:
                if len(types) < _MOST_PATHS:
                    types[path] = now
            elif before is not now:
                return path, before, now
            if now is _OBJECT:
                waiting.extend([(_joined(path, f".{k}"), v) for k, v in reversed(value.items())])
            elif now is _ARRAY:
                inner = _joined(path, "[]")
                waiting.extend([(inner, v) for v in reversed(value)])
        return None


def _joined(path: str, step: str) -> str:
    """The longer path; a very long one is cut, and told apart from others by a digest."""
    text = path + step
    if len(text) <= _LONGEST_PATH:
        return text
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:_SHOWN_PATH]}…{digest}"


def _object_of(value: Any) -> tuple[str, Any]:
    """Why a cell holds no usable object, or that object."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return "is empty", None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError, MemoryError):
            return "is no JSON", None
    if not isinstance(value, dict):
        return "is no JSON object", None
    if not value:
        return "is an empty object", None
    waiting: list[Any] = list(value.values())
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            if not inner:
                return "holds an empty object, which cannot be stored", None
            waiting.extend(inner.values())
        elif isinstance(inner, list):
            waiting.extend(inner)
        elif isinstance(inner, int) and not -_INT64 <= inner < _INT64:
            return "holds an integer beyond 64 bits", None
    return "", value
