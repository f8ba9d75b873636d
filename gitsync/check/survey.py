"""The first look at a tree: is it small and sane enough to be checked at all?

Promise: ends in bounded time for any tree, also for one whose paths are too many to walk; equal
folders are measured once. What is found here refuses the commit.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from gitsync.check import names
from gitsync.check.cache import Memo
from gitsync.check.found import finding
from gitsync.model import CheckOptions, Finding
from gitsync.text import printable
from gitsync.tree import Entry, Kind, TooLarge, Tree

_MODES = {0o100644, 0o100755, 0o100664, 0o100600, 0o120000, 0o40000, 0o160000}
_SHOWN = 100
_PATH_SHOWN = 240


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of a folder with all below it."""

    entries: int = 0
    height: int = 0
    longest: int = 0


@dataclass(slots=True)
class _Frame:
    path: str
    oid: str | None
    inner: list[Entry]
    entries: int
    height: int = 0
    longest: int = 0
    clean: bool = True


@dataclass(slots=True)
class _Survey:
    tree: Tree
    options: CheckOptions
    memo: Memo
    found: list[Finding] = field(default_factory=list)
    counted: dict[str, int] = field(default_factory=dict)


class _TooWide(Exception):
    """A folder that is so large that it is not even read."""

    def __init__(self, path: str) -> None:
        self.path = path


def survey(tree: Tree, *, options: CheckOptions, memo: Memo) -> tuple[Finding, ...]:
    """Findings that refuse the tree before anything else is read; empty if it may be checked."""
    state = _Survey(tree, options, memo)
    extent = _measure(state)
    if extent is not None:
        if extent.entries > options.max_files:
            _too_many(state, extent.entries)
        if extent.longest > options.max_path_bytes:
            _add(state, "too-deep", "", f"A path has more than {options.max_path_bytes} bytes.")
    return tuple(sorted(state.found, key=lambda f: f.order))


def _measure(state: _Survey) -> Extent | None:
    """Walk every distinct folder once; None if the walk was given up."""
    try:
        return _walk(state)
    except _TooWide as e:
        _add(
            state,
            "too-many-files",
            e.path,
            f"The folder has far more entries than the limit of {state.options.max_files} for a "
            "commit. Keep generated files and large collections out of the repository.",
        )
        return None


def _walk(state: _Survey) -> Extent | None:
    root = state.tree.entry("")
    stack = [_open(state, "", root.oid if root else None)]
    walked = stack[0].entries
    while True:
        frame = stack[-1]
        if frame.inner:
            entry = frame.inner.pop()
            path = f"{frame.path}/{entry.name}" if frame.path else entry.name
            if len(stack) > state.options.max_depth:
                _add(state, "too-deep", path, f"Folders nest deeper than {len(stack) - 1} levels.")
                return None
            known = _known(state, entry.oid)
            if known is None:
                stack.append(_open(state, path, entry.oid))
                walked += stack[-1].entries
                if entry.oid is None and walked > state.options.max_files:
                    _too_many(state, walked, at=path)
                    return None
                continue
            state.counted[path] = known.entries
            _close_into(frame, entry.name, known, clean=True)
            if len(stack) + known.height > state.options.max_depth:
                _add(state, "too-deep", path, "Folders nest too deep below it.")
                return None
            continue
        extent = Extent(frame.entries, frame.height, frame.longest)
        state.counted[frame.path] = extent.entries
        if frame.clean and frame.oid is not None:
            state.memo.keep("extent", frame.oid, extent)
        stack.pop()
        if not stack:
            return extent
        name = frame.path.rsplit("/", 1)[-1]
        _close_into(stack[-1], name, extent, clean=frame.clean)


def _known(state: _Survey, oid: str | None) -> Extent | None:
    return None if oid is None else state.memo.peek("extent", oid)


def _close_into(frame: _Frame, name: str, extent: Extent, *, clean: bool) -> None:
    frame.entries += extent.entries
    frame.height = max(frame.height, extent.height + 1)
    frame.longest = max(frame.longest, len(names.raw(name)) + 1 + extent.longest)
    frame.clean = frame.clean and clean


def _open(state: _Survey, path: str, oid: str | None) -> _Frame:
    try:
        children = state.tree.children(path)
    except TooLarge:
        raise _TooWide(path) from None
    clean = _judge(state, path, children)
    inner = [c for c in children if c.kind is Kind.FOLDER]
    if not clean:
        inner = [c for c in inner if names.danger(c.name) is None]
    longest = max((len(c.name.encode("utf-8", "surrogateescape")) for c in children), default=0)
    return _Frame(path, oid, inner[::-1], len(children), longest=longest, clean=clean)


def _judge(state: _Survey, path: str, children: Sequence[Entry]) -> bool:
    before = len(state.found)
    seen: set[str] = set()
    for child in children:
        where = f"{path}/{child.name}" if path else child.name
        reason = names.danger(child.name)
        if reason:
            _add(state, "unsafe-name", where, f"The name {_name(child.name)} {reason}. Rename it.")
        if child.name in seen:
            _add(
                state,
                "duplicate-entry",
                where,
                f"The folder has {_name(child.name)} twice, so what it holds is unclear. "
                "Write the commit anew with an ordinary Git client.",
            )
        seen.add(child.name)
        if child.mode not in _MODES or (child.oid and not child.oid.strip("0")):
            _add(
                state,
                "odd-mode",
                where,
                f"The entry {_name(child.name)} has mode {child.mode:o} or names no object. "
                "Write the commit anew with an ordinary Git client.",
            )
    return len(state.found) == before


def _too_many(state: _Survey, count: int, *, at: str = "") -> None:
    limit = state.options.max_files
    path = at
    while not at:
        inner = [
            (state.counted.get(f"{path}/{c.name}" if path else c.name, 0), c.name)
            for c in state.tree.children(path)
            if c.kind is Kind.FOLDER
        ]
        most = max(inner, default=(0, ""))
        if most[0] * 2 <= limit or not most[1]:
            break
        path = f"{path}/{most[1]}" if path else most[1]
    shown = f"{count}" if count < 10**9 else "over a billion"
    _add(
        state,
        "too-many-files",
        path,
        f"The commit has {shown} files and folders; the limit is {limit}. "
        "Keep generated files and large collections out of the repository.",
    )


def _name(name: str) -> str:
    return f"`{printable(name, limit=60)}`"


def _add(state: _Survey, code: str, path: str, message: str) -> None:
    if len(state.found) < _SHOWN:
        state.found.append(finding(code, _told(path), message))


def _told(path: str) -> str:
    """A path that every database and encoder takes, cut to a length that can be read."""
    shown = "".join(
        printable(c) if unicodedata.category(c) in ("Cc", "Cs") else c for c in path[:_PATH_SHOWN]
    )
    return shown + ("…" if len(path) > _PATH_SHOWN else "")
