"""What commands print: tables and sentences for people, one JSON object for programs.

Rule: text from a server or a repository goes through `printable`; JSON is plain ASCII.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gitsync.client.failures import (
    AnswerMalformed,
    NotAuthorised,
    ServerRefused,
    ServerUnreachable,
)
from gitsync.errors import GitSyncError, InvalidInput
from gitsync.text import printable

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 200
_STYLES = {"error": "bold red", "unresolved": "bold yellow", "warning": "yellow", "hint": "cyan"}
_as_json = [False]


def use_json(is_wanted: bool) -> None:
    """Decide once per command line."""
    _as_json[0] = is_wanted


def is_json() -> bool:
    """True if this command line asked for JSON."""
    return _as_json[0]


def console(*, is_error: bool = False) -> Console:
    """Where sentences and tables go; a pipe gets wide lines and no colours."""
    from rich.console import Console

    stream = sys.stderr if is_error else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, soft_wrap=False)


def emit(document: Mapping[str, Any]) -> None:
    """The one object of `--json`."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=True) + "\n")
    sys.stdout.flush()


def answer(document: Mapping[str, Any], *shown: str | Callable[[], object]) -> None:
    """The document with `--json`, else what is shown of it to people: sentences and calls."""
    if is_json():
        emit(document)
        return
    for each in shown:
        if isinstance(each, str):
            say(each)
        else:
            each()


def listed(items: Sequence[Mapping[str, Any]], show: Callable[[], object]) -> None:
    """`answer` for a whole list."""
    answer({"schema_version": 1, "items": list(items), "total_count": len(items)}, show)


def say(*lines: str) -> None:
    """Sentences on standard output."""
    for line in lines:
        sys.stdout.write(printable(line, limit=10_000) + "\n")
    sys.stdout.flush()


def note(line: str) -> None:
    """A remark on standard error; silent with `--json`."""
    if not is_json():
        sys.stderr.write(printable(line, limit=10_000) + "\n")


def complain(code: str, message: str, *, hint: str | None = None, **details: Any) -> None:
    """A failure on standard error."""
    if is_json():
        error = {"code": code, "message": message, **details}
        sys.stderr.write(json.dumps({"error": error}, ensure_ascii=True, default=str) + "\n")
        return
    from rich.text import Text

    text = Text.assemble(("Error: ", "bold red"), printable(message, limit=10_000))
    target = console(is_error=True)
    target.print(text, soft_wrap=True)
    for issue in details.get("issues") or ():
        if isinstance(issue, dict):
            line = f"  {issue.get('key', '')}: {issue.get('message', '')}"
            target.print(Text(printable(line, limit=4000)), soft_wrap=True)
    if hint:
        target.print(Text(printable(hint), "dim"), soft_wrap=True)


def fail(error: GitSyncError) -> None:
    """An error of ours, or of the server, with what helps against it."""
    code = error.server_code if isinstance(error, ServerRefused) else error.code
    details = {key: value for key, value in error.details.items() if key != "code"}
    hint = None
    if isinstance(error, NotAuthorised) and error.status == 401:
        hint = "Sign in with `gitsync login`, or set GITSYNC_TOKEN."
    complain(code, error.message, hint=hint, **details)


def exit_code(error: GitSyncError) -> int:
    """2 for a wrong command line, 6 for a server that is away or says no to us, else 1."""
    if isinstance(error, ServerUnreachable | NotAuthorised | AnswerMalformed):
        return 6
    return 2 if isinstance(error, InvalidInput) else 1


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Rows for people; `empty` is said if there are none."""
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(cell(value)) for value in row))
    if shown.row_count:
        console().print(shown)
    else:
        say(empty)


def fields(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values, one a line; empty values are left out."""
    shown = [(name, cell(value)) for name, value in pairs if value not in (None, "", [], ())]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        say(f"{name:<{width}}  {value}")


def cell(value: object) -> str:
    """One value for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(cell(item) for item in value) or "-"
    return printable(str(value))


def short(sha: object) -> str:
    """The beginning of a sha or digest."""
    return str(sha)[:10] if sha else "-"


def findings(items: Iterable[Mapping[str, Any]]) -> None:
    """`path:line:column  severity  code`, and the message below."""
    from rich.text import Text

    target = console()
    for item in items:
        place = f"{item.get('path', '')}:{item.get('line', 1)}:{item.get('column', 1)}"
        severity = str(item.get("severity", "error"))
        head = Text.assemble(
            "  ",
            (printable(place), "bold"),
            "  ",
            (printable(severity), _STYLES.get(severity, "")),
            f" {printable(str(item.get('code', '')))}",
        )
        target.print(head, soft_wrap=True)
        target.print(Text("    " + printable(str(item.get("message", "")))), soft_wrap=True)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on standard error while something long runs; only on a terminal."""
    if is_json() or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text

    class Label(TextColumn):
        def render(self, task: Any) -> Text:
            return Text(printable(task.description))

    bar = Progress(
        Label(""),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console(is_error=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def waiting(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner with a text that may change; only on a terminal."""
    if is_json() or not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.markup import escape

    with console(is_error=True).status(escape(printable(what))) as status:
        yield lambda text: status.update(escape(printable(text)))
