"""Live-looking credentials and Git LFS pointers in files, found in constant memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gitsync.check.aging import rules

BLOCK = 1024 * 1024
_OVERLAP = 4096
_MOST = 100
_LFS = b"version https://git-lfs.github.com/spec/v1"

_SHAPES: list[dict[str, Any]] = rules("secrets")["shape"]
_TOKENS = re.compile(
    "|".join(
        f"(?P<s{n}>{'' if shape.get('is_block') else '(?<![A-Za-z0-9])'}(?:{shape['pattern']}))"
        for n, shape in enumerate(_SHAPES)
    ).encode()
)
# No finding, as it may be anything, but nothing to be shown either.
_PERHAPS = re.compile(rb"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,}")
_MARK = re.compile(rb"gitsync:\s*ignore\[")
_HINTS = tuple(hint.encode() for shape in _SHAPES for hint in shape["hints"])


@dataclass(frozen=True, slots=True)
class Secret:
    """A credential: whose it is, where it stands and at most its first four characters."""

    owner: str
    line: int
    column: int
    head: str


@dataclass(frozen=True, slots=True)
class Content:
    """What the bytes of a file say without being parsed."""

    secrets: tuple[Secret, ...] = ()
    is_lfs_pointer: bool = False
    has_marks: bool = False


CLEAN = Content()


def read_content(pieces: Iterable[bytes]) -> Content:
    """Search a file given in pieces; binary files (a NUL near the start) hold no text."""
    secrets: list[Secret] = []
    marks = lfs = False
    held = b""
    line, column, first = 1, 1, True
    for block in _blocks(pieces):
        data = held + block
        if first:
            if b"\0" in data[:8000]:
                return CLEAN
            lfs = is_lfs_pointer(data)
            first = False
        marks = marks or (b"gitsync:" in data and bool(_MARK.search(data)))
        cut = max(0, len(data) - _OVERLAP) if len(block) == BLOCK else len(data)
        if _may_hold(data):
            for match in _TOKENS.finditer(data):
                if match.start() >= cut or len(secrets) >= _MOST:
                    break
                if _is_live(match, data):
                    secrets.append(_secret(match, data, line, column))
        newlines = data.count(b"\n", 0, cut)
        if newlines:
            line += newlines
            column = 1
        column += _characters(data[data.rfind(b"\n", 0, cut) + 1 : cut])
        held = data[cut:]
    if not (secrets or marks or lfs):
        return CLEAN
    return Content(tuple(secrets), lfs, marks)


def is_lfs_pointer(data: bytes) -> bool:
    """True for the first bytes of a file that Git LFS put in another's place."""
    return data.startswith(_LFS) and len(data) < 1024 and b"\noid sha256:" in data


def redacted(text: str) -> str:
    """The text with at most the first four characters of each credential."""
    data = text.encode("utf-8", "surrogateescape")
    if not (_may_hold(data) or _PERHAPS.search(data)):
        return text
    clean = data
    for pattern in (_TOKENS, _PERHAPS):
        clean = pattern.sub(lambda match: match[0][:4] + "…".encode(), clean)
    return clean.decode("utf-8", "surrogateescape")


def _blocks(pieces: Iterable[bytes]) -> Iterable[bytes]:
    """Blocks of exactly `BLOCK` bytes, and a last one that may be shorter or empty."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= BLOCK:
            data = b"".join(held)
            yield from (data[at : at + BLOCK] for at in range(0, size - size % BLOCK, BLOCK))
            held, size = [data[size - size % BLOCK :]], size % BLOCK
    yield b"".join(held)


def _characters(data: bytes) -> int:
    return len(data.decode("utf-8", "replace"))


def _may_hold(data: bytes) -> bool:
    """True if a literal part of some shape occurs; much faster than the shapes themselves."""
    return any(hint in data for hint in _HINTS)


def _shape_of(match: re.Match[bytes]) -> dict[str, Any]:
    return _SHAPES[int((match.lastgroup or "s0")[1:])]


def _is_live(match: re.Match[bytes], data: bytes) -> bool:
    token = match[0]
    lower = token.lower()
    if b"example" in lower or b"xxx" in lower or data[match.end() : match.end() + 3] == b"...":
        return False
    shape = _shape_of(match)
    if shape.get("is_block"):
        return True
    body = token[4:]
    if not re.search(shape.get("random", "[0-9]").encode(), body):
        return False
    return len(set(body)) >= 6


def _secret(match: re.Match[bytes], data: bytes, line: int, column: int) -> Secret:
    start = match.start()
    newlines = data.count(b"\n", 0, start)
    before = _characters(data[data.rfind(b"\n", 0, start) + 1 : start])
    at = before + (column if not newlines else 1)
    return Secret(_shape_of(match)["owner"], line + newlines, at, match[0][:4].decode())
