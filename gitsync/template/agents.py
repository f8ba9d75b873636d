"""The table of skills in `AGENTS.md`: replaced between two markers, nothing else touched."""

from __future__ import annotations

AGENTS_PATH = "AGENTS.md"
TABLE_BEGIN = "<!-- gitsync:skills -->"
TABLE_END = "<!-- /gitsync:skills -->"


def find_table(data: bytes) -> str | None:
    """The table, markers included; None if the markers are not there exactly once, in order."""
    text = data.decode("utf-8", "surrogateescape")
    if text.count(TABLE_BEGIN) != 1 or text.count(TABLE_END) != 1:
        return None
    begin, end = text.index(TABLE_BEGIN), text.index(TABLE_END)
    return text[begin : end + len(TABLE_END)] if begin < end else None


def replace_table(data: bytes, table: str) -> bytes | None:
    """`data` with another table; None if it has none. Line ends stay as they are."""
    old = find_table(data)
    if old is None:
        return None
    text = data.decode("utf-8", "surrogateescape")
    new = table.replace("\r\n", "\n").replace("\n", "\r\n" if "\r\n" in text else "\n")
    return text.replace(old, new).encode("utf-8", "surrogateescape")
