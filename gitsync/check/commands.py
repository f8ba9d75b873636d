"""Command lines in prose: does the `osmosis` they run have such a command?"""

from __future__ import annotations

import re

from gitsync.check import aging
from gitsync.check.suggest import nearest

# Quoted text, which neither separates nor comments, comes first; a lone quote is a character.
_PART = re.compile(
    r"\"(?:\\.|[^\"\\])*\"|'[^']*'|\\.|(?P<end>&&|\|\||;|\|)|(?P<comment>(?:^|(?<=\s))#.*)|.",
    re.DOTALL,
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=(?:\"[^\"]*\"|'[^']*'|\S)*$")
_WORD = re.compile(r"[^\s\"']*(?:\"[^\"]*\"[^\s\"']*|'[^']*'[^\s\"']*|[\"'][^\s]*)*")
_STOP = ("<", "[", "{", "$", ".", "…", "\\")


Unknown = tuple[str, str | None]  # the words as written, and the command that was meant


def unknown_command(line: str) -> list[tuple[int, str, str | None]]:
    """Where `osmosis` is run with a command 0.3.8 does not have: offset, command, what is meant."""
    found: list[tuple[int, str, str | None]] = []
    for start, end in _segments(line):
        hit = _segment(line[start:end])
        if hit:
            found.append((start + hit[0], *hit[1]))
    return found


def _segments(line: str) -> list[tuple[int, int]]:
    """Where each command of a line begins and ends, without a comment behind them."""
    found: list[tuple[int, int]] = []
    start = 0
    for part in _PART.finditer(line):
        if part["comment"]:
            return [*found, (start, part.start())]
        if part["end"]:
            found.append((start, part.start()))
            start = part.end()
    return [*found, (start, len(line))]


def _words(text: str) -> list[tuple[int, str]]:
    words: list[tuple[int, str]] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _WORD.match(text, at)
        end = found.end() if found and found.end() > at else at + 1
        words.append((at, text[at:end]))
        at = end
    return words


def _segment(text: str) -> tuple[int, Unknown] | None:
    words = _words(text)
    index = _program(words)
    if index >= len(words) or words[index][1] != "osmosis":
        return None
    offset = words[index][0]
    command = _unknown([w for _, w in words[index + 1 :]])
    return (offset, command) if command else None


def _program(words: list[tuple[int, str]]) -> int:
    """The index of the word that is run, after prompts, assignments and runners."""
    at = 0
    while at < len(words):
        word = words[at][1]
        if word in ("$", "sudo", "uvx") or _ASSIGNMENT.fullmatch(word):
            at += 1
        elif word == "uv" and at + 1 < len(words) and words[at + 1][1] == "run":
            at += 2
        else:
            break
    return at


def _unknown(words: list[str]) -> Unknown | None:
    rules = aging.rules("commands")
    groups: dict[str, list[str]] = rules["groups"]
    at = 0
    while at < len(words):
        word = words[at]
        if word in rules["options"] or word.partition("=")[0] in rules["options_with_value"]:
            at += 1 if "=" in word or word in rules["options"] else 2
        else:
            break
    name = ""
    known = [*rules["commands"], *(g for g in groups if " " not in g)]
    for word in words[at:]:
        if word.startswith((*_STOP, "-")):
            return None
        if word not in known:
            meant = nearest(word, known)
            return f"{name} {word}".strip(), f"{name} {meant}".strip() if meant else None
        name = f"{name} {word}".strip()
        if name not in groups:
            return None
        known = groups[name]
    return None
