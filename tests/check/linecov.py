"""Which lines of a package were executed, told by the interpreter itself (`sys.monitoring`).

Each line reports itself once and is silent afterwards, so that watching costs next to nothing.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

_TOOL = 4


def executable_lines(path: Path) -> set[int]:
    """Line numbers inside the functions of a file; what runs at import is not asked about."""
    found: set[int] = set()
    waiting = [compile(path.read_text(), str(path), "exec")]
    while waiting:
        code = waiting.pop()
        lines = {line for _, _, line in code.co_lines() if line}
        if code.co_flags & inspect.CO_OPTIMIZED:
            found |= lines - {code.co_firstlineno} or lines
        waiting += [c for c in code.co_consts if isinstance(c, CodeType)]
    return found


class Watched:
    """The lines of all modules below some folders, and those seen so far."""

    def __init__(self, *folders: Path) -> None:
        files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
        self.lines = {str(path): executable_lines(path) for path in files}
        self.seen: dict[str, set[int]] = {path: set() for path in self.lines}
        self.fresh = 0  # lines seen since somebody asked

    def take_fresh(self) -> int:
        """How many lines were seen for the first time since the last call."""
        found, self.fresh = self.fresh, 0
        return found

    def note(self, code: CodeType, line: int) -> Any:
        seen = self.seen.get(code.co_filename)
        if seen is not None and line not in seen:
            seen.add(line)
            self.fresh += 1
        return sys.monitoring.DISABLE

    def share(self, folder: Path | None = None) -> tuple[int, int]:
        """Lines seen and lines there are, below a folder."""
        chosen = [p for p in self.lines if folder is None or Path(p).is_relative_to(folder)]
        return (
            sum(len(self.seen[p] & self.lines[p]) for p in chosen),
            sum(len(self.lines[p]) for p in chosen),
        )


@contextmanager
def watching(watched: Watched) -> Iterator[Watched]:
    """Note lines as they are executed, in all threads of this process."""
    events = sys.monitoring.events
    sys.monitoring.use_tool_id(_TOOL, "gitsync fuzzing")
    sys.monitoring.register_callback(_TOOL, events.LINE, watched.note)
    sys.monitoring.restart_events()
    sys.monitoring.set_events(_TOOL, events.LINE)
    try:
        yield watched
    finally:
        sys.monitoring.set_events(_TOOL, events.NO_EVENTS)
        sys.monitoring.register_callback(_TOOL, events.LINE, None)
        sys.monitoring.free_tool_id(_TOOL)
