"""Path patterns as `.gitignore` writes them, matched in time linear in pattern times path.

Promise: a pattern from a stranger cannot make matching slow (no regular expression is built from
it) and cannot match outside its folder. Used for `.gitignore`, `template-ignore`, `template.json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from gitsync.template.files import parents

MAX_PATTERNS = 1000
_MAX_PATTERN = 500
_SPECIAL = frozenset("*?[\\")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line: its components, and what the line's marks say."""

    parts: tuple[str, ...]
    is_negative: bool
    is_folder_only: bool

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """True if this line names exactly `path`."""
        if self.is_folder_only and not is_folder:
            return False
        return _match_parts(self.parts, path.split("/"))


def parse_pattern(line: str, *, is_anchored: bool = False) -> Pattern | None:
    """Read one line; None for blank lines, comments and lines of absurd length."""
    text = line.rstrip("\r\n")
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    if not text or text.startswith("#") or len(text) > _MAX_PATTERN:
        return None
    is_negative = text.startswith("!")
    text = text[is_negative:]
    is_folder_only = text.endswith("/")
    text = text.rstrip("/")
    anchored = is_anchored or "/" in text
    parts = [part for part in text.split("/") if part]
    if not parts:
        return None
    if not anchored:
        parts.insert(0, "**")
    return Pattern(tuple(parts), is_negative, is_folder_only)


@dataclass(frozen=True, slots=True)
class Globs:
    """An ordered list of patterns; the last one that matches decides."""

    patterns: tuple[Pattern, ...] = ()
    _folders: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def parse(cls, lines: Iterable[str], *, is_anchored: bool = False) -> Globs:
        """Read the lines of a file; those beyond the limit are not read."""
        found: list[Pattern] = []
        for line in lines:
            pattern = parse_pattern(line, is_anchored=is_anchored)
            if pattern is not None and len(found) < MAX_PATTERNS:
                found.append(pattern)
        return cls(tuple(found))

    def decides(self, path: str, *, is_folder: bool) -> bool | None:
        """True: matched; False: matched by a `!` line; None: not mentioned."""
        for pattern in reversed(self.patterns):
            if pattern.matches(path, is_folder=is_folder):
                return not pattern.is_negative
        return None

    def covers(self, path: str) -> bool:
        """True if the file or a folder above it is matched; nothing below a folder is let out."""
        for folder in parents(path):
            if folder not in self._folders:
                self._folders[folder] = self.decides(folder, is_folder=True) is True
            if self._folders[folder]:
                return True
        return self.decides(path, is_folder=False) is True


def _match_parts(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Components against components; `**` stands for any number of them."""
    reach = {0}  # how many path components the pattern so far can have used
    for number, part in enumerate(pattern):
        if part == "**":
            first = min(reach, default=len(path) + 1)
            least = first + (number == len(pattern) - 1)  # a final `/**` needs something below
            reach = set(range(least, len(path) + 1))
        else:
            reach = {n + 1 for n in reach if n < len(path) and _match_name(part, path[n])}
        if not reach:
            return False
    return len(path) in reach


@lru_cache(maxsize=16_384)
def _match_name(pattern: str, name: str) -> bool:
    """One component: `*`, `?`, `[...]` and `\\`; two pointers, no backtracking tree."""
    if not _SPECIAL.intersection(pattern):
        return pattern == name
    tokens = _tokens(pattern)
    at, here = 0, 0
    star, resume = -1, 0
    while here < len(name):
        if at < len(tokens) and tokens[at] == "*":
            star, resume = at, here
            at += 1
        elif at < len(tokens) and _match_char(tokens[at], name[here]):
            at += 1
            here += 1
        elif star >= 0:
            resume += 1
            at, here = star + 1, resume
        else:
            return False
    return all(rest == "*" for rest in tokens[at:])


@lru_cache(maxsize=4096)
def _tokens(pattern: str) -> tuple[str, ...]:
    """`*`, `?`, a bracket expression, or a character with a backslash before it."""
    tokens: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            tokens.append("\\" + pattern[at + 1])
            at += 2
        elif char == "[" and (end := pattern.find("]", at + 2)) > 0:
            tokens.append(pattern[at : end + 1])
            at = end + 1
        else:
            if char != "*" or not tokens or tokens[-1] != "*":
                tokens.append(char if char in "*?" else "\\" + char)
            at += 1
    return tuple(tokens)


def _match_char(wanted: str, char: str) -> bool:
    if wanted == "?":
        return True
    if wanted.startswith("\\"):
        return wanted[1] == char
    if not wanted.startswith("["):
        return False
    body = wanted[1:-1]
    is_negative = body[:1] in {"!", "^"}
    body = body[is_negative:]
    found, at = False, 0
    while at < len(body):
        if at + 2 < len(body) and body[at + 1] == "-":
            found |= body[at] <= char <= body[at + 2]
            at += 3
        else:
            found |= body[at] == char
            at += 1
    return found != is_negative
