"""Markdown as the checks need it: blocks from markdown-it, then links, code and commands by place.

Promise: bounded work; what stands in code or in HTML is never taken for a link. Places count from
1, columns in characters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from typing import Any
from urllib.parse import unquote

from markdown_it import MarkdownIt

MAX_BYTES = 256 * 1024
_ESCAPABLE = re.compile(r"\\([!-/:-@\[-`{-~])")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SKIP = re.compile(
    r"<!--.*?-->|<[A-Za-z][A-Za-z0-9+.-]*:[^\s<>]*>|</?[A-Za-z][^<>]*>|\\.", re.DOTALL
)
_PARSER = MarkdownIt("commonmark", {"maxNesting": 30})
_PARSER.core.ruler.enableOnly(["normalize", "block"])
_QUOTE = re.compile(r"^[ \t]*(?:>[ \t]*)+")
_TICKS = re.compile(r"`+")
_SHELLS = {"", "sh", "bash", "zsh", "shell", "console", "text"}


@dataclass(frozen=True, slots=True)
class Link:
    """The target of a link, image or definition, as written, and where the link stands."""

    target: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Snippet:
    """A line of a shell block, or inline code: what a reader may type."""

    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Page:
    """What a Markdown file links to and tells a reader to type."""

    links: tuple[Link, ...] = ()
    snippets: tuple[Snippet, ...] = ()


def universal(text: str) -> str:
    """The text with every line ended by a single newline, as editors and Python take it."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_page(text: str, *, skip_lines: int = 0) -> Page:
    """Links and snippets of a text; the first `skip_lines` lines (a frontmatter) are left out."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    lines[:skip_lines] = [""] * min(skip_lines, len(lines))
    env: dict[str, Any] = {}
    links: list[Link] = []
    snippets: list[Snippet] = []
    try:
        tokens = _PARSER.parse("\n".join(lines), env)
    except RecursionError:
        return Page()
    for token in tokens:
        if token.map is None:
            continue
        first, after = token.map
        if token.type == "fence":
            words = token.info.split()
            info = words[0].lower() if words else ""
            if info in _SHELLS:
                for number, line in enumerate(token.content.split("\n")):
                    row = first + 1 + number
                    if line.strip() and row < len(lines):
                        column = max(0, lines[row].find(line)) + 1
                        snippets.append(Snippet(line, row + 1, column))
        elif token.type == "inline":
            text = "\n".join(_QUOTE.sub(_blank, line, count=1) for line in lines[first:after])
            _inline(text, first + 1, links, snippets)
    for label, reference in _references(env):
        place = reference.get("map")
        if not label.startswith("^") and isinstance(place, list):
            links.append(_definition(lines, int(place[0]), str(reference.get("href", ""))))
    return Page(tuple(links), tuple(snippets))


def _blank(quote: re.Match[str]) -> str:
    """Spaces for the marks of a quotation, so that columns stay right."""
    return " " * len(quote[0])


def _references(env: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Link definitions by label; those whose label was defined before too."""
    yield from env.get("references", {}).items()
    for reference in env.get("duplicate_refs", []):
        yield str(reference.get("label", "")), reference


def _definition(lines: list[str], row: int, href: str) -> Link:
    line = lines[row] if row < len(lines) else ""
    return Link(href, row + 1, max(0, line.find("[")) + 1)


def _inline(text: str, first_line: int, links: list[Link], snippets: list[Snippet]) -> None:
    """Walk one paragraph: code spans are taken whole, then links with their targets."""
    at = 0
    opened: list[int] = []
    starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]

    def place(at: int) -> tuple[int, int]:
        row = bisect_right(starts, at) - 1
        return first_line + row, at - starts[row] + 1

    while at < len(text):
        char = text[at]
        if char == "`":
            run = _run(text, at)
            end = _code_end(text, at + run, run)
            if end is None:
                at += run
                continue
            content = text[at + run : end]
            line, column = place(at + run)
            snippets.append(Snippet(content.replace("\n", " "), line, column))
            at = end + run
            continue
        if char in "<\\":
            skipped = _SKIP.match(text, at)
            at = skipped.end() if skipped else at + 1
            continue
        if char == "[":
            opened.append(at)
        elif char == "!" and text[at + 1 : at + 2] == "[":
            opened.append(at)
            at += 1
        elif char == "]" and opened:
            start = opened.pop()
            found = _destination(text, at + 1)
            if found is not None and "`" not in found[0]:
                target, at = found
                links.append(Link(target, *place(start)))
                if text[start] != "!":  # a link holds no link, only images
                    opened = [o for o in opened if text[o] == "!"]
                continue
        at += 1


def _run(text: str, at: int) -> int:
    found = _TICKS.match(text, at)
    return found.end() - at if found else 0


def _code_end(text: str, start: int, run: int) -> int | None:
    at = start
    while (at := text.find("`" * run, at)) != -1:
        length = _run(text, at)
        if length == run:
            return at
        at += length
    return None


_MAX_PARENTHESES = 32
_SPACES = re.compile(r"[ \t]*\n?[ \t]*")
_POINTED = re.compile(r"<((?:[^<>\n\\]|\\.)*)>")
_TITLE = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)", re.DOTALL)


def _destination(text: str, at: int) -> tuple[str, int] | None:
    """The target of `(target "title")` at this place, and where it ends."""
    if text[at : at + 1] != "(":
        return None
    at = _skip(text, at + 1)
    pointed = _POINTED.match(text, at)
    if pointed:
        target, at = pointed[1], pointed.end()
    else:
        start, depth = at, 0
        while at < len(text) and text[at] > " ":
            if text[at] == "\\" and at + 1 < len(text):
                at += 1
            elif text[at] == "(":
                depth += 1
                if depth > _MAX_PARENTHESES:
                    return None
            elif text[at] == ")":
                if not depth:
                    break
                depth -= 1
            at += 1
        if depth:
            return None
        target = text[start:at]
    after = _skip(text, at)
    if after > at:
        title = _TITLE.match(text, after)
        after = _skip(text, title.end()) if title else after
    if text[after : after + 1] != ")":
        return None
    return unescape(_ESCAPABLE.sub(r"\1", target)), after + 1


def _skip(text: str, at: int) -> int:
    found = _SPACES.match(text, at)
    return found.end() if found else at


def relative_path(target: str) -> str | None:
    """The path that a target names, without fragment and query; None if it is no relative path."""
    target = target.strip()
    if target.startswith("<") and target.endswith(">"):
        target = target[1:-1]
    if _SCHEME.match(target) or target.startswith("/"):
        return None
    path = unquote(re.split(r"[?#]", target, maxsplit=1)[0], errors="surrogateescape")
    return path or None


def without_code(text: str, pattern: re.Pattern[str]) -> str:
    """The text without fenced blocks, and without inline code in which the pattern occurs."""
    lines = universal(text).split("\n")
    try:
        tokens = _PARSER.parse("\n".join(lines))
    except RecursionError:
        return text
    for token in reversed(tokens):
        if token.map is None:
            continue
        first, after = token.map
        if token.type == "fence":
            lines[first:after] = []
        elif token.type == "inline":
            lines[first:after] = [_without_spans("\n".join(lines[first:after]), pattern)]
    return "\n".join(lines)


def _without_spans(text: str, pattern: re.Pattern[str]) -> str:
    """A paragraph without its inline code in which the pattern occurs."""
    kept: list[str] = []
    at = end = 0
    while (at := text.find("`", at)) != -1:
        run = _run(text, at)
        closing = _code_end(text, at + run, run)
        if closing is None:
            at += run
            continue
        if pattern.search(text, at, closing):
            kept.append(text[end:at])
            end = closing + run
        at = closing + run
    return "".join([*kept, text[end:]])
