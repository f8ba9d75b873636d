"""An uploaded data set: the rules of files under `data/`, its digest, and its first rows.

Promise: the file is read as a stream, in constant memory, and the first rows are plain JSON that
every encoder takes.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from gitsync.check.data import Lines, examine_rows
from gitsync.check.parquet import examine_parquet, first_rows
from gitsync.model import Finding, Severity
from gitsync.text import storable

FORMATS = ("csv", "jsonl", "parquet")
_PIECE = 1024 * 1024
_PREVIEW_ROWS = 20
_PREVIEW_BYTES = 128 * 1024
_MAX_TEXT = 1000
_MAX_ITEMS = 50
_MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Examined:
    """What a file holds; `preview` is empty if the file has errors."""

    findings: tuple[Finding, ...]
    digest: str
    size: int
    row_count: int
    preview: tuple[dict[str, Any], ...]

    @property
    def has_errors(self) -> bool:
        """True if no run may use the file."""
        return any(f.severity is Severity.ERROR for f in self.findings)


def examine_upload(path: str, format: str, name: str) -> Examined:
    """Read and judge one file; findings call it `name`."""
    digest = hashlib.sha256()
    size = 0
    with Path(path).open("rb") as file:

        def pieces() -> Iterator[bytes]:
            nonlocal size
            while piece := file.read(_PIECE):
                digest.update(piece)
                size += len(piece)
                yield piece

        if format == "parquet":
            for _ in pieces():
                pass
            file.seek(0)
            findings, count = examine_parquet(name, file)
        else:
            findings, count = examine_rows(name, pieces(), format)
            for _ in pieces():  # whatever the rules did not need to see
                pass
        examined = Examined(findings, digest.hexdigest(), size, count, ())
        if examined.has_errors:
            return examined
        file.seek(0)
        return Examined(findings, digest.hexdigest(), size, count, tuple(_preview(file, format)))


def _preview(file: IO[bytes], format: str) -> Iterator[dict[str, Any]]:
    """The first rows, cut where they are long."""
    left = _PREVIEW_BYTES
    for row in islice(_rows(file, format), _PREVIEW_ROWS):
        plain = _plain(row)
        left -= len(json.dumps(plain))
        if left < 0:
            return
        yield plain


def _rows(file: IO[bytes], format: str) -> Iterator[dict[str, Any]]:
    if format == "parquet":
        yield from first_rows(file, _PREVIEW_ROWS)
        return
    lines = Lines(iter(lambda: file.read(64 * 1024), b""))
    if format == "jsonl":
        for line in lines:
            if line.strip():
                yield json.loads(line)
        return
    for row in csv.DictReader(iter(lines)):
        yield {key: value for key, value in row.items() if key is not None}


def _plain(value: Any, depth: int = 0) -> Any:
    """A JSON value without what JSON, UTF-8 or a person's screen cannot take."""
    if value is None or isinstance(value, bool | int):
        return value if value is None or abs(value) < 2**63 else str(value)[:_MAX_TEXT]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict | list) and depth >= _MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        items = islice(value.items(), _MAX_ITEMS)
        return {_text(str(key)): _plain(inner, depth + 1) for key, inner in items}
    if isinstance(value, list):
        return [_plain(inner, depth + 1) for inner in islice(value, _MAX_ITEMS)]
    return _text(value if isinstance(value, str) else str(value))


def _text(text: str) -> str:
    return storable(text[:_MAX_TEXT]) + ("…" if len(text) > _MAX_TEXT else "")
