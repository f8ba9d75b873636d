"""The lines around a finding, read from the commit it was found in, with what its code means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gitsync.check.codes import Code
from gitsync.check.explain import all_codes
from gitsync.errors import GitSyncError
from gitsync.git.objects import CommitTree, open_commit
from gitsync.instance import Instance
from gitsync.model import Sha
from gitsync.records import Workspace
from gitsync.sync.objects import is_usable, repository_of
from gitsync.text import printable

AROUND = 3
FILE_BYTES = 1024 * 1024
LINE_LIMIT = 240
MOST_BLOCKING, MOST_ADVICE = 100, 25
MOST_IN_FULL, MOST_SAME = 50, 3  # with their source: of all that block, of one code
MOST_FILES = 40  # read for one page; findings beyond are shown without their source
_ORDER = {"error": 0, "unresolved": 1, "warning": 2, "hint": 3}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of source; `is_hit` is the one the finding names."""

    number: int
    text: str
    is_hit: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """A finding as a page shows it; `caret` is the text before the caret, None without source."""

    finding: dict[str, Any]
    code: Code | None
    lines: tuple[Line, ...]
    caret: str | None


class _Sources:
    """Files of one commit as lines, each read once."""

    def __init__(self, tree: CommitTree | None) -> None:
        self._tree = tree
        self._files: dict[str, list[str]] = {}

    def lines(self, path: str) -> list[str]:
        if path in self._files:
            return self._files[path]
        if self._tree is None or len(self._files) >= MOST_FILES:
            return []
        try:
            entry = self._tree.entry(path)
            is_file = entry is not None and entry.is_file
            data = self._tree.read(path, limit=FILE_BYTES) if is_file else b""
        except GitSyncError:
            data = b""
        is_text = b"\0" not in data[:8000]
        found = data.decode("utf-8", "replace").splitlines() if is_text else []
        self._files[path] = found
        return found


@dataclass(frozen=True, slots=True)
class Kind:
    """Findings of one code: the first ones in full, then those that say the same again."""

    code: str
    shown: list[Shown]
    same: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Explained:
    """Findings as a page shows them, how many there are, and how many of them it leaves out."""

    blocking: list[Kind]
    all_blocking: int
    more_blocking: int
    advice: list[Shown]
    all_advice: int
    more_advice: int


def explained(
    instance: Instance,
    workspace: Workspace,
    sha: Sha,
    findings: Iterable[dict[str, Any]],
    *,
    unread: tuple[int, int] = (0, 0),
) -> Explained:
    """Findings, the worst first, each with its source and its explanation.

    `unread` counts those that block and those that do not, which are not among `findings`.
    """
    ordered = sorted(
        (f for f in findings if not f.get("suppressed")),
        key=lambda f: (_ORDER.get(f["severity"], 9), f["path"], f["line"], f["column"]),
    )
    blocking = [f for f in ordered if is_blocking(f)]
    advice = ordered[len(blocking) :]
    sources = _Sources(_tree(instance, workspace, sha) if ordered else None)
    codes = all_codes()

    def with_source(finding: dict[str, Any]) -> Shown:
        return _shown(finding, codes.get(finding["code"]), sources.lines(finding["path"]))

    kinds: dict[str, Kind] = {}
    in_full = 0
    for finding in blocking[:MOST_BLOCKING]:
        kind = kinds.setdefault(finding["code"], Kind(finding["code"], [], []))
        if len(kind.shown) < MOST_SAME and in_full < MOST_IN_FULL:
            kind.shown.append(with_source(finding))
            in_full += 1
        else:
            kind.same.append(finding)
    return Explained(
        list(kinds.values()),
        len(blocking) + unread[0],
        max(0, len(blocking) - MOST_BLOCKING) + unread[0],
        [with_source(f) for f in advice[:MOST_ADVICE]],
        len(advice) + unread[1],
        max(0, len(advice) - MOST_ADVICE) + unread[1],
    )


def is_blocking(finding: dict[str, Any]) -> bool:
    """True if a rollout cannot run because of it."""
    return finding["severity"] in ("error", "unresolved")


def _tree(instance: Instance, workspace: Workspace, sha: Sha) -> CommitTree | None:
    path = repository_of(instance, workspace)
    try:
        return open_commit(path, sha) if is_usable(path) else None
    except GitSyncError:
        return None  # the mirror is being rebuilt: the finding says enough without its source


def _shown(finding: dict[str, Any], code: Code | None, source: list[str]) -> Shown:
    at = int(finding["line"])
    if not 1 <= at <= len(source):
        return Shown(finding, code, (), None)
    first, last = max(1, at - AROUND), min(len(source), at + AROUND)
    lines = tuple(
        Line(number, _visible(source[number - 1])[:LINE_LIMIT], number == at)
        for number in range(first, last + 1)
    )
    before = _visible(source[at - 1][: max(0, int(finding["column"]) - 1)])
    return Shown(finding, code, lines, before if len(before) < LINE_LIMIT else None)


def _visible(text: str) -> str:
    return printable(text.replace("\t", "    "), limit=4 * LINE_LIMIT)
