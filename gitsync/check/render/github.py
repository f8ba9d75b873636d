"""The report as GitHub workflow commands, which become annotations at file and line."""

from __future__ import annotations

from collections.abc import Iterator

from gitsync.model import Finding, Report, Severity
from gitsync.text import printable

_COMMANDS = {
    Severity.ERROR: "error",
    Severity.UNRESOLVED: "error",
    Severity.WARNING: "warning",
    Severity.HINT: "notice",
}


def to_github(report: Report) -> str:
    """One line per finding that is not suppressed."""
    lines = [_line(f) for f in all_findings(report) if not f.suppressed]
    return "".join(f"{line}\n" for line in lines)


def all_findings(report: Report) -> Iterator[Finding]:
    """Inner and outer findings together, in one order."""
    inner = [f for r in report.rollouts for f in r.findings]
    yield from sorted({*inner, *report.findings}, key=lambda f: f.order)


def _line(found: Finding) -> str:
    properties = (
        f"file={_property(found.path)},line={found.line},col={found.column},"
        f"title={_property(found.code)}"
    )
    return f"::{_COMMANDS[found.severity]} {properties}::{_data(found.message)}"


def _data(text: str) -> str:
    """Escaped for the part after `::`."""
    clean = printable(text, limit=4000)
    return clean.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escaped for a property, where `:` and `,` end it."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
