"""`# gitsync: ignore[code]` on a line, and `[tool.gitsync] ignore` for a rollout.

Only warnings and hints can be suppressed; they stay in the report, marked. What suppresses
nothing is told, so that marks do not outlive their reason.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from gitsync.check import toml
from gitsync.check.explain import all_codes
from gitsync.check.files import FileAt, Files
from gitsync.check.found import finding, shown
from gitsync.check.markdown import universal
from gitsync.check.rollouts import Rollout
from gitsync.check.suggest import did_you_mean
from gitsync.model import EntrypointReport, Finding, Severity
from gitsync.tree import TooLarge

_MARK = re.compile(r"#\s*gitsync:\s*ignore\[([^\]]*)\]")
_MAX_BYTES = 1024 * 1024
_COMMENTED = (".sh", ".bash", ".zsh", ".yaml", ".yml", ".cfg", ".ini", ".conf", ".lock")
_COMMENTED_NAMES = (".env", "dockerfile", "makefile", ".git")
_QUIET = (Severity.WARNING, Severity.HINT)


@dataclass(frozen=True, slots=True)
class Mark:
    """One code that one line, or one rollout, does not want to hear of.

    `is_prose` if it may only be an example, which is not told where it covers nothing.
    """

    code: str
    path: str
    line: int
    column: int
    is_prose: bool = False


@dataclass(slots=True)
class Suppressions:
    """All marks of a tree, and which of them were needed."""

    lines: dict[tuple[str, int, str], Mark] = field(default_factory=dict)
    folders: dict[tuple[str, str], Mark] = field(default_factory=dict)
    used: set[Mark] = field(default_factory=set)

    def apply(self, found: Iterable[Finding]) -> list[Finding]:
        """The findings, with those that a mark covers marked as suppressed."""
        if not self.lines and not self.folders:
            return list(found)
        return [self._one(f) for f in found]

    def apply_to(self, report: EntrypointReport) -> EntrypointReport:
        """The same for the findings of an entrypoint; the verdict cannot change."""
        if not report.findings or (not self.lines and not self.folders):
            return report
        return replace(report, findings=tuple(self.apply(report.findings)))

    def _one(self, found: Finding) -> Finding:
        if found.severity not in _QUIET:
            return found
        mark = self.lines.get((found.path, found.line, found.code))
        if mark is None:
            parts = found.path.split("/", 2)
            if len(parts) >= 2 and parts[0] == "rollouts":
                mark = self.folders.get((parts[1], found.code))
        if mark is None:
            return found
        self.used.add(mark)
        return replace(found, suppressed=True)

    def unused(self) -> Iterator[Finding]:
        """A hint for each mark that covered nothing."""
        for mark in (*self.lines.values(), *self.folders.values()):
            if mark not in self.used and not mark.is_prose:
                known = all_codes()
                hint = "" if mark.code in known else did_you_mean(mark.code, known)
                yield finding(
                    "unused-suppression",
                    mark.path,
                    f"`{shown(mark.code)}` is ignored here, and nothing of that kind is found (or "
                    f"it is an error, which cannot be ignored).{hint} Remove the entry.",
                    at=(mark.line, mark.column),
                    subject=mark.code,
                )


def read_suppressions(
    files: Files, marked: Sequence[FileAt], rollouts: Sequence[Rollout]
) -> Suppressions:
    """The marks of all files that have some."""
    out = Suppressions()
    for file in marked:
        for mark in files.memo.get(
            "marks", file.entry.oid, file.path, partial(_marks, files, file), file.path
        ):
            out.lines[mark.path, mark.line, mark.code] = mark
    for rollout in rollouts:
        for mark in files.memo.get(
            "ignored",
            rollout.oid,
            rollout.path,
            partial(_ignored, files, rollout),
            rollout.path,
        ):
            out.folders[rollout.name, mark.code] = mark
    return out


def _marks(files: Files, file: FileAt) -> tuple[Mark, ...]:
    """Marks in the comments of a file."""
    try:
        data = files.tree.read(file.path, limit=_MAX_BYTES)
    except TooLarge:
        return ()
    if file.path.endswith(".toml"):
        try:
            comments: Iterable[tuple[int, int, str]] = toml.parse(data).comments
        except toml.TomlError:
            return ()
    elif file.path.endswith(".py"):
        comments = _python_comments(data)
    else:
        return tuple(_text_marks(file.path, data.decode("utf-8", "replace")))
    return tuple(
        Mark(code, file.path, line, column)
        for line, column, text in comments
        for found in _MARK.finditer(text)
        for code in _codes(found)
    )


def _codes(mark: re.Match[str]) -> Iterator[str]:
    return filter(None, (c.strip() for c in mark[1].split(",")))


def _text_marks(path: str, text: str) -> Iterator[Mark]:
    """Marks of a file that is not parsed; what stands in a comment for certain is no prose."""
    name = path.rpartition("/")[2].lower()
    has_comments = name.endswith(_COMMENTED) or name.startswith(_COMMENTED_NAMES)
    for number, line in enumerate(universal(text).split("\n"), 1):
        for found in _MARK.finditer(line):
            before = line[: found.start()]
            if before and not before[-1].isspace() and not before.endswith("<!--"):
                continue
            is_prose = not has_comments and "<!--" not in before
            for code in _codes(found):
                yield Mark(code, path, number, found.start() + 1, is_prose)


def _python_comments(data: bytes) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    try:
        for token in tokenize.tokenize(io.BytesIO(data).readline):
            if token.type == tokenize.COMMENT:
                found.append((token.start[0], token.start[1] + 1, token.string))
    except (SyntaxError, tokenize.TokenError, ValueError, MemoryError, RecursionError):
        pass
    return found


def _ignored(files: Files, rollout: Rollout) -> tuple[Mark, ...]:
    """`[tool.gitsync] ignore` of a rollout's `pyproject.toml`."""
    path = f"{rollout.path}/pyproject.toml"
    entry = files.tree.entry(path)
    if entry is None or not entry.is_file:
        return ()
    try:
        data = files.tree.read(path, limit=toml.MAX_BYTES)
        if b"gitsync" not in data:
            return ()
        document = toml.parse(data)
    except (TooLarge, toml.TomlError):
        return ()
    steps = ("tool", "gitsync", "ignore")
    value: object = document.values
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    if not isinstance(value, list):
        return ()
    return tuple(
        Mark(code, path, *document.value(*steps, index))
        for index, code in enumerate(value)
        if isinstance(code, str)
    )
