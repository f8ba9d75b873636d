"""The report for a person: file by file, the line with a caret, what is wrong, what to do."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from gitsync.check.render.github import all_findings
from gitsync.check.secrets import redacted
from gitsync.model import Finding, Report, Severity, Verdict
from gitsync.text import printable
from gitsync.tree import TooLarge, Tree

_STYLES = {
    Severity.ERROR: "bold red",
    Severity.UNRESOLVED: "bold magenta",
    Severity.WARNING: "yellow",
    Severity.HINT: "cyan",
}
_LEAST = 20
_SOURCE_LIMIT = 2 * 1024 * 1024
_NEVER_QUOTED = {"committed-secret", "env-file"}


def to_text(report: Report, tree: Tree | None, *, color: bool = False, width: int = 100) -> str:
    """The whole report; source lines are read from `tree` if it is given."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=color,
        no_color=not color,
        color_system="truecolor" if color else None,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
        legacy_windows=False,
    )
    found = list(all_findings(report))
    sources = _Sources(tree, found)
    for path, group in groupby(found, key=lambda f: f.path):
        console.print(Text(printable(path, limit=300) or ".", style="bold underline"))
        for one in group:
            _show(console, one, sources)
        console.print()
    _summary(console, report, found)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _show(console: Console, found: Finding, sources: _Sources) -> None:
    head = Text("  ")
    head.append(f"{found.line}:{found.column}", style="dim")
    head.append("  ")
    style = "dim" if found.suppressed else _STYLES[found.severity]
    head.append(found.severity.value, style=style)
    head.append(" ")
    head.append(printable(found.code), style="bold")
    if found.suppressed:
        head.append(" (ignored)", style="dim")
    console.print(head)
    if found.suppressed:
        return
    number = str(found.line)
    margin = " " * len(number)
    quoted = sources.line(found, max(_LEAST, console.width - len(f"     {number} │ ")))
    if quoted is not None:
        line, caret = quoted
        for text in (
            Text(f"     {margin} │", style="dim"),
            Text.assemble((f"     {number} │ ", "dim"), line),
            Text.assemble((f"     {margin} │ ", "dim"), (" " * caret + "^", style)),
        ):
            console.print(text, overflow="ignore", no_wrap=True, crop=False)
    console.print(Padding(Text(printable(found.message, limit=2000)), (0, 0, 0, 5)))


def _summary(console: Console, report: Report, found: Sequence[Finding]) -> None:
    marks = {Verdict.OK: "✓", Verdict.ERROR: "✗", Verdict.UNRESOLVABLE: "?"}
    styles = {Verdict.OK: "green", Verdict.ERROR: "red", Verdict.UNRESOLVABLE: "magenta"}
    for entry in report.rollouts:
        line = Text(f"{marks[entry.verdict]} ", style=styles[entry.verdict])
        line.append(printable(f"{entry.rollout}/{entry.entrypoint}"), style="bold")
        line.append(f"  {entry.verdict.value}", style=styles[entry.verdict])
        if entry.workflow and entry.grader:
            line.append(f"  {printable(entry.workflow)}, {printable(entry.grader)}", style="dim")
        console.print(line)
    if report.rollouts:
        console.print()
    counts = []
    for severity, word in (
        (Severity.ERROR, "error"),
        (Severity.UNRESOLVED, "unresolved"),
        (Severity.WARNING, "warning"),
        (Severity.HINT, "hint"),
    ):
        count = sum(f.severity is severity and not f.suppressed for f in found)
        if count:
            plural = "s" if count > 1 and severity is not Severity.UNRESOLVED else ""
            counts.append(f"{count} {word}{plural}")
    ignored = sum(f.suppressed for f in found)
    if ignored:
        counts.append(f"{ignored} ignored")
    verdict = report.verdict
    word = {"ok": "Ready to push", "error": "Not ready", "unresolvable": "Undecided"}[verdict]
    if report.refused:
        word = "The commit would be refused"
    tail = f": {', '.join(counts)}." if counts else ": nothing to report."
    console.print(Text(word, style=f"bold {styles[verdict]}") + Text(tail, style=""))
    told = [f for f in found if not f.suppressed]
    if told:
        worst = min(told, key=lambda f: list(_STYLES).index(f.severity))
        console.print(Text(f"`gitsync explain {printable(worst.code)}` tells more.", style="dim"))


class _Sources:
    """Lines of the files that findings stand in; never one with a credential."""

    def __init__(self, tree: Tree | None, found: Sequence[Finding]) -> None:
        self._tree = tree
        self._hidden = {(f.path, f.line) for f in found if f.code in _NEVER_QUOTED}
        self._lines: dict[str, list[str]] = {}

    def line(self, found: Finding, room: int) -> tuple[str, int] | None:
        """The escaped line, cut to `room` columns, and the column of the caret in it."""
        if (found.line, found.column) == (1, 1) or (found.path, found.line) in self._hidden:
            return None
        lines = self._read(found.path)
        if found.line > len(lines):
            return None
        line = lines[found.line - 1]
        if redacted(line) != line:  # an excerpt is no place for a credential
            return None
        at = min(found.column - 1, len(line))
        first, after = max(0, at - room), at + room
        before, rest = printable(line[first:at]), printable(line[at:after])
        if first or _cells(before) > room * 3 // 4:
            before = "…" + _fitting(before[::-1], room // 2)[::-1]
        caret = _cells(before)
        if len(line) > after or caret + _cells(rest) > room:
            rest = _fitting(rest, room - caret - 1) + "…"
        return before + rest, caret

    def _read(self, path: str) -> list[str]:
        if path not in self._lines:
            self._lines[path] = []
            try:
                data = self._load(path)
            except (TooLarge, OSError):
                data = b""
            text = data.decode("utf-8", "replace").replace("\r\n", "\n")
            self._lines[path] = text.replace("\r", "\n").split("\n")
        return self._lines[path]

    def _load(self, path: str) -> bytes:
        entry = self._tree.entry(path) if self._tree is not None else None
        if self._tree is None or entry is None or not entry.is_file:
            return b""
        return self._tree.read(path, limit=_SOURCE_LIMIT)


def _cells(text: str) -> int:
    """Terminal columns that a text takes."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    combining = sum(bool(unicodedata.combining(c)) for c in text)
    return len(text) + wide - combining


def _fitting(text: str, room: int) -> str:
    """As much of the start as `room` columns take."""
    while _cells(text) > room:
        text = text[: -max(1, (_cells(text) - room) // 2)]
    return text
