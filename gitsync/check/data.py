"""Data files under `data/`: read as a stream, row by row, in constant memory.

Promise: one finding per code and file, for the first row that shows it; what the upload of
`osmosis-ai` 0.3.8 refuses is an error. Nothing of a file is held longer than one row.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from gitsync.check.boundary import attempt
from gitsync.check.files import FileAt, Files, is_data_set
from gitsync.check.found import finding, shown
from gitsync.check.rows import CsvRows, JsonRows, Note
from gitsync.model import Finding
from gitsync.text import printable

MAX_FILE = 5 * 1024**3
MAX_ROW = 4 * 1024 * 1024
MIN_ROWS = 4
_BOM = b"\xef\xbb\xbf"
_ALONE = ("data-bom", "data-encoding")  # with one of these nothing else is said of the file
_UNSUPPORTED = (".json", ".ndjson", ".tsv", ".xlsx", ".xls", ".gz")


def check_data(files: Files, held: Sequence[FileAt]) -> Iterator[Finding]:
    """Findings of all data files among these."""
    first: dict[str, str] = {}
    for file in sorted(held, key=lambda f: f.path.encode("utf-8", "surrogateescape")):
        if not file.path.startswith("data/"):
            continue
        if file.path.lower().endswith(_UNSUPPORTED):
            yield finding(
                "unsupported-data-file",
                file.path,
                "Data sets are uploaded as `.jsonl`, `.csv` or `.parquet`. Convert the file, or "
                "keep it if it is no data set.",
            )
        if not is_data_set(file.path):
            continue
        kept = first.setdefault(stem_of(file.path), file.path)
        found: tuple[Finding, ...] = ()
        if not files.content(file).is_lfs_pointer:
            found = attempt(file.path, partial(_remembered, files, file), lambda f: (f,))
        yield from found
        if kept != file.path and not any(f.code in _ALONE for f in found):
            yield finding(
                "dataset-name-collision",
                file.path,
                f"`{shown(kept)}` gives the same data set name, `{shown(stem_of(file.path))}`. "
                "Rename one of the files.",
                subject=stem_of(file.path),
            )


def _remembered(files: Files, file: FileAt) -> tuple[Finding, ...]:
    check = partial(_check, files, file)
    return files.memo.get("data", file.entry.oid, file.path, check, file.path)


def stem_of(path: str) -> str:
    """The data set name that an upload of this file would get."""
    return path.rsplit("/", 1)[-1].rpartition(".")[0]


def _check(files: Files, file: FileAt) -> tuple[Finding, ...]:
    if file.size > MAX_FILE:
        return (
            finding(
                "data-too-large",
                file.path,
                f"The file has {file.size} bytes; an upload takes 5 GiB. Split it.",
            ),
        )
    pieces = files.tree.stream(file.path)
    suffix = file.path.lower().rpartition(".")[2]
    if suffix == "parquet":
        from gitsync.check.parquet import check_parquet

        return check_parquet(file.path, pieces)
    return check_rows(file.path, pieces, suffix)


def check_rows(path: str, pieces: Iterable[bytes], suffix: str) -> tuple[Finding, ...]:
    """Findings of one JSONL or CSV file given in pieces."""
    return examine_rows(path, pieces, suffix)[0]


def examine_rows(
    path: str, pieces: Iterable[bytes], suffix: str
) -> tuple[tuple[Finding, ...], int]:
    """The same, and how many rows there are."""
    lines = Lines(pieces)
    rows = JsonRows() if suffix == "jsonl" else CsvRows()
    notes = Notes()
    try:
        notes.add_all(rows.read(lines))
        lines.drain()
    except csv.Error as e:
        rows.is_partial = True
        reason = f"The CSV cannot be read: {printable(str(e))}. Close every quote, and keep fields"
        notes.add(Note("csv-syntax", lines.number, f"{reason} under 131,072 characters."))
        lines.drain()
    if lines.starts_with_bom:
        bom = finding(
            "data-bom",
            path,
            "The file starts with a byte order mark, which is taken for data. Save it as "
            "UTF-8 without BOM.",
        )
        return (bom,), 0
    if lines.bad_encoding:
        encoding = finding(
            "data-encoding",
            path,
            "The file is not UTF-8. Convert it, for example with `iconv -t UTF-8`.",
            at=(lines.bad_encoding, 1),
        )
        return (encoding,), 0
    if rows.count < MIN_ROWS and not rows.is_partial:
        notes.add(
            Note(
                "too-few-rows",
                1,
                f"An upload needs {MIN_ROWS} rows, and the file has {rows.count}. Add rows.",
            )
        )
    return tuple(notes.findings(path)), rows.count


@dataclass(slots=True)
class Notes:
    """The first note of each code, and how many more there were."""

    first: dict[str, Note] = field(default_factory=dict)
    more: dict[str, int] = field(default_factory=dict)

    def add(self, note: Note) -> None:
        """Keep the note, or count it."""
        if self.first.setdefault(note.code, note) is not note:
            self.more[note.code] = self.more.get(note.code, 0) + 1

    def add_all(self, notes: Iterable[Note]) -> None:
        """Keep or count each."""
        for note in notes:
            self.add(note)

    def findings(self, path: str) -> Iterator[Finding]:
        """One finding per code."""
        for code, note in self.first.items():
            more = self.more.get(code, 0)
            text = f"{note.message} ({more} more in this file.)" if more else note.message
            yield finding(code, path, text, at=(note.line, 1), subject=note.subject)


class Lines:
    """The lines of a file given in pieces, decoded; ends as Python's universal newlines do.

    A line over `MAX_ROW` is given as an empty one with `too_long` set; after the first byte that
    is not UTF-8, be it in such a line, nothing more is given.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.number = 0
        self.starts_with_bom = False
        self.bad_encoding = 0
        self.too_long = False
        self._dropped: Dropped | None = None
        self._raw = self._split(iter(pieces))

    def __iter__(self) -> Iterator[str]:
        if self.bad_encoding:  # the first one counts
            return
        for line in self._raw:
            self.number += 1
            if self.number == 1 and line.startswith(_BOM):
                self.starts_with_bom = True
                return
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError:
                self.bad_encoding = self.number
                return
            yield text

    def drain(self) -> None:
        """Read on to the end, only to know whether all of it is UTF-8."""
        for _ in self:
            pass

    def _split(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        held: list[bytes] = []
        size = 0
        for piece in filter(None, pieces):
            if held and held[-1].endswith(b"\r") and not piece.startswith(b"\n"):
                yield self._give(held)
                held, size = [], 0
            lines = piece.splitlines(keepends=True)
            last = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
            for line in lines:
                held.append(line)
                if size + len(line) > MAX_ROW:
                    self._drop(held)
                yield self._give(held)
                held, size = [], 0
            if last:
                size += len(last)
                held.append(last)
                if size > MAX_ROW:
                    self._drop(held)
                    held = held[-1:] if last.endswith(b"\r") else []
        if held or self._dropped:
            yield self._give(held)

    def _drop(self, held: list[bytes]) -> None:
        """Keep nothing of a line but whether it is text."""
        self._dropped = self._dropped or Dropped()
        for piece in held:
            self._dropped.feed(piece)

    def _give(self, held: list[bytes]) -> bytes:
        dropped, self._dropped = self._dropped, None
        self.too_long = dropped is not None
        if dropped is None:
            return b"".join(held)
        return b"\n" if dropped.ends_as_text() else b"\xff"


class Dropped:
    """A line that is too long to be held: only whether it is UTF-8 is known."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._is_text = True

    def feed(self, piece: bytes, *, final: bool = False) -> None:
        """The next bytes of the line."""
        if self._is_text:
            try:
                self._decoder.decode(piece, final)
            except UnicodeDecodeError:
                self._is_text = False

    def ends_as_text(self) -> bool:
        """True if all of the line was UTF-8."""
        self.feed(b"", final=True)
        return self._is_text
