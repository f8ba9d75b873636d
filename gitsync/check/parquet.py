"""Parquet files, judged like JSONL where pyarrow is installed and left alone where it is not."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Any

from gitsync.check.found import finding
from gitsync.check.rows import Metadata, Note, empty_cells, missing_columns
from gitsync.model import Finding

MIN_ROWS = 4
_IN_MEMORY = 16 * 1024 * 1024
_NEEDED = ("metadata", "user_prompt", "ground_truth", "label")


def check_parquet(path: str, pieces: Iterable[bytes]) -> tuple[Finding, ...]:
    """Findings of one file; rows count from 1 in messages, the place is the file."""
    if importlib.util.find_spec("pyarrow") is None:
        return ()
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spool:
        for piece in pieces:
            spool.write(piece)
        spool.seek(0)
        first: dict[str, Note] = {}
        for note in _read(spool):
            first.setdefault(note.code, note)
    return tuple(
        finding(
            n.code,
            path,
            n.message if n.line == 1 else f"Row {n.line}: {n.message}",
            subject=n.subject,
        )
        for n in first.values()
    )


def _read(spool: IO[bytes]) -> Iterator[Note]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(spool) as file:
            yield from _rows(file)
    except (pyarrow.ArrowException, OSError, ValueError) as e:
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
        yield Note(
            "too-few-rows",
            1,
            f"An upload needs {MIN_ROWS} rows, and the file has {count}. Add rows.",
        )
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
