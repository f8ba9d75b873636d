"""Parquet files, judged like JSONL where pyarrow is installed and left alone where it is not."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from gitsync.check.found import finding
from gitsync.check.rows import Metadata, Note, empty_cells, missing_columns
from gitsync.model import Finding

MIN_ROWS = 4
_IN_MEMORY = 16 * 1024 * 1024
_NEEDED = ("metadata", "user_prompt", "ground_truth", "label")


def is_readable() -> bool:
    """True if pyarrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def check_parquet(path: str, pieces: Iterable[bytes]) -> tuple[Finding, ...]:
    """Findings of one file; rows count from 1 in messages, the place is the file."""
    if not is_readable():
        return ()
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spool:
        for piece in pieces:
            spool.write(piece)
        spool.seek(0)
        return examine_parquet(path, spool)[0]


def examine_parquet(path: str, file: IO[bytes]) -> tuple[tuple[Finding, ...], int]:
    """The same for a file at hand, and how many rows there are."""
    first: dict[str, Note] = {}
    counted = Counted()
    for note in _read(file, counted):
        first.setdefault(note.code, note)
    findings = tuple(
        finding(
            n.code,
            path,
            n.message if n.line == 1 else f"Row {n.line}: {n.message}",
            subject=n.subject,
        )
        for n in first.values()
    )
    return findings, counted.rows


@dataclass(slots=True)
class Counted:
    """How many rows the file says it has."""

    rows: int = 0


def _read(spool: IO[bytes], counted: Counted) -> Iterator[Note]:
    import pyarrow
    import pyarrow.parquet

    if not spool.read(1):
        yield _too_few(0)
        return
    spool.seek(0)
    try:
        with pyarrow.parquet.ParquetFile(spool) as file:
            counted.rows = file.metadata.num_rows
            yield from _rows(file)
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError, LookupError) as e:
        yield Note(
            "parquet-unreadable",
            1,
            f"The file is no readable Parquet ({type(e).__name__}). Write it anew.",
        )


def _rows(file: Any) -> Iterator[Note]:
    names = list(file.schema_arrow.names)
    yield from missing_columns(names, 1)
    count = file.metadata.num_rows
    if count < MIN_ROWS:
        yield _too_few(count)
    needed = [n for n in _NEEDED if n in names]
    if "metadata" in needed:
        needed = ["metadata"]
    metadata = Metadata()
    number = 0
    for batch in file.iter_batches(columns=needed, batch_size=1024) if needed else ():
        for row in batch.to_pylist():
            number += 1
            if "metadata" in row:
                yield from metadata.check(row["metadata"], number)
            else:
                yield from empty_cells(row, number)


def _too_few(count: int) -> Note:
    return Note(
        "too-few-rows",
        1,
        f"An upload needs {MIN_ROWS} rows, and the file has {count}. Add rows.",
    )


def first_rows(file: IO[bytes], most: int) -> Iterator[dict[str, Any]]:
    """The first rows of a sound file."""
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(file) as parquet:
        for batch in parquet.iter_batches(batch_size=most):
            yield from batch.to_pylist()
            return
