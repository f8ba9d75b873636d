"""One line of a `.gitignore` or `.gitattributes`, read and matched byte for byte as Git does it.

Promise: a pattern from a stranger cannot make matching slow. What a star may take is decided once
and never taken back where a later wildcard could absorb the rest, so no pattern backtracks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_SPECIAL = re.compile(rb"[*?\[\\]")
_CLASSES = {
    b"alnum": rb"[0-9A-Za-z]",
    b"alpha": rb"[A-Za-z]",
    b"blank": rb"[ \t]",
    b"cntrl": rb"[\x00-\x1f\x7f]",
    b"digit": rb"[0-9]",
    b"graph": rb"[!-~]",
    b"lower": rb"[a-z]",
    b"print": rb"[ -~]",
    b"punct": rb"[!-/:-@\[-`{-~]",
    b"space": rb"[ \t\n\v\f\r]",
    b"upper": rb"[A-Z]",
    b"xdigit": rb"[0-9A-Fa-f]",
}
_FOLDERS = rb"(?:[^/]*/)*?"
_STAR, _DEEP, _REST = b"*", b"**/", b"**"


@dataclass(frozen=True, slots=True)
class Pattern:
    """What one line says: which names or paths it is about, and whether it lets them in again."""

    matches: Callable[[bytes], object]
    is_negative: bool
    is_folder_only: bool
    is_name: bool  # without a slash it is compared with the last component only


def parse_lines(data: bytes) -> list[Pattern]:
    """The patterns of a file in order; lines that can match nothing are left out."""
    found: list[Pattern] = []
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if line.startswith(b"#"):
            continue
        text = _trimmed(line.removesuffix(b"\r").split(b"\0", 1)[0])
        is_negative = text.startswith(b"!")
        pattern = parse_pattern(text[is_negative:], is_negative=is_negative)
        if pattern is not None:
            found.append(pattern)
    return found


def parse_pattern(text: bytes, *, is_negative: bool = False) -> Pattern | None:
    """One pattern without the sign before it; None if it can match nothing."""
    is_folder_only = text.endswith(b"/")
    text = text[:-1] if is_folder_only else text
    is_name = b"/" not in text
    matches = _matcher(text.removeprefix(b"/"), is_name)
    return None if matches is None else Pattern(matches, is_negative, is_folder_only, is_name)


def _trimmed(line: bytes) -> bytes:
    """Without the spaces at the end, unless a backslash keeps one."""
    end = at = 0
    while at < len(line):
        at += 2 if line[at : at + 1] == b"\\" else 1
        if line[at - 1 : at] != b" " or line[at - 2 : at - 1] == b"\\":
            end = at
    return line[:end]


def _matcher(text: bytes, is_name: bool) -> Callable[[bytes], object] | None:
    special = _SPECIAL.search(text)
    if special is None:
        return text.__eq__ if text else None
    if is_name and text.startswith(b"*") and not _SPECIAL.search(text, 1):
        suffix = text[1:]
        return lambda name: name.endswith(suffix)
    tokens = _tokens(text, special.start())
    return None if tokens is None else re.compile(_expression(tokens), re.DOTALL).fullmatch


def _tokens(text: bytes, first_special: int) -> list[bytes] | None:
    """Wildcards as themselves, all else as an expression for one byte; None if malformed."""
    found: list[bytes] = []
    at = 0
    while at < len(text):
        char = text[at : at + 1]
        if char == b"*":
            end = at + len(text[at:]) - len(text[at:].lstrip(b"*"))
            # Git compares the literal start by itself, so what follows it counts as a start too.
            is_whole = at == first_special or text[at - 1 : at] == b"/"
            rest = text[end : end + 2]
            if end - at > 1 and is_whole and not rest:
                found.append(_REST)
            elif end - at > 1 and is_whole and rest[:1] == b"/":
                found.append(_DEEP)
                end += 1
            elif end - at > 1 and is_whole and rest == b"\\/":
                found.extend([_STAR, b"/", _DEEP])
                end += 2
            else:
                found.append(_STAR)
            at = end
        elif char == b"[":
            bracket = _bracket(text, at + 1)
            if bracket is None:
                return None
            expression, at = bracket
            found.append(expression)
        elif char == b"?":
            found.append(rb"[^/]")
            at += 1
        else:
            at += char == b"\\"
            if at >= len(text):
                return None
            found.append(re.escape(text[at : at + 1]))
            at += 1
    return found


def _bracket(text: bytes, at: int) -> tuple[bytes, int] | None:
    """The expression for a set of bytes and where the set ends; None if it is not closed."""
    is_negative = text[at : at + 1] in (b"!", b"^")
    at += is_negative
    held: set[int] = set()
    before: int | None = None
    first = True
    while first or text[at : at + 1] != b"]":
        first = False
        char = text[at : at + 1]
        following = text[at + 1 : at + 2]
        if char == b"-" and before is not None and following not in (b"", b"]"):
            at += 2 if following == b"\\" else 1
            if at >= len(text):
                return None
            held.update(range(before, text[at] + 1))
            before = None
        elif char == b"[" and following == b":" and (named := _named(text, at)) is not None:
            members, at = named
            if members is None:
                return None
            held |= members
            before = None
        else:
            at += char == b"\\"
            if at >= len(text):
                return None
            before = text[at]
            held.add(before)
        at += 1
        if at >= len(text):
            return None
    members = {n for n in range(1, 256) if (n in held) != is_negative} - {ord("/")}
    if not members:
        return rb"(?!)", at + 1
    return b"[" + b"".join(b"\\x%02x" % n for n in sorted(members)) + b"]", at + 1


def _named(text: bytes, at: int) -> tuple[set[int] | None, int] | None:
    """Members and end of `[:name:]`; no members if there is no such name, None if it is none."""
    end = text.find(b"]", at + 2)
    if end < 0:
        return None, at
    if end - at < 3 or text[end - 1 : end] != b":":
        return None
    expression = _CLASSES.get(text[at + 2 : end - 1])
    if expression is None:
        return None, end
    return {n for n in range(128) if re.fullmatch(expression, bytes([n]))}, end


def _expression(tokens: list[bytes]) -> bytes:
    """Everything between two `**/` once, at the first place where it fits."""
    groups: list[list[bytes]] = [[]]
    for token in tokens:
        if token == _DEEP:
            groups.append([])
        else:
            groups[-1].append(token)
    out = _group(groups[0])
    for number, group in enumerate(groups[1:], 2):
        inner = _FOLDERS + _group(group)
        is_last = number == len(groups) and group[-1:] != [_REST]
        out += inner if is_last else b"(?>" + inner + b")"
    return out


def _group(tokens: list[bytes]) -> bytes:
    """Bytes and stars; all stars but the last take as little as they can, for good."""
    pieces: list[bytes] = [b""]
    for token in tokens:
        if token == _STAR:
            pieces.append(b"")
        else:
            pieces[-1] += b".*" if token == _REST else token
    inner = b"".join(b"(?>[^/]*?" + piece + b")" for piece in pieces[1:-1])
    last = b"[^/]*" + pieces[-1] if len(pieces) > 1 else b""
    return pieces[0] + inner + last
