"""Live-looking credentials and Git LFS pointers in files, found in constant memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

BLOCK = 1024 * 1024
_OVERLAP = 4096
_MOST = 100
_LFS = b"version https://git-lfs.github.com/spec/v1"

_TOKENS = re.compile(
    rb"(?<![A-Za-z0-9])(?:"
    rb"(?P<github>gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{36,})"
    rb"|(?P<openai>sk-proj-[A-Za-z0-9_-]{20,})"
    rb"|(?P<anthropic>sk-ant-[A-Za-z0-9_-]{20,})"
    rb"|(?P<aws>AKIA[A-Z0-9]{16})(?![A-Za-z0-9])"
    rb"|(?P<google>AIza[A-Za-z0-9_-]{35})(?![A-Za-z0-9])"
    rb"|(?P<slack>xoxb-[A-Za-z0-9-]{20,})"
    rb"|(?P<hugging_face>hf_[A-Za-z0-9]{30,})"
    rb")"
    rb"|(?P<private_key>-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    rb"(?:\\[nr]|[\s\"'+,()]|[A-Za-z-]{1,40}: [^\n]{0,200}\n){0,60}[A-Za-z0-9+/=]{16,})"
)
# no finding, as it may be anything, but nothing to be shown either
_PERHAPS = re.compile(rb"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,}")
_HINTS = re.compile(rb"gh[pousr]_|github_pat_|sk-(?:proj|ant)-|AKIA|AIza|xoxb-|hf_|PRIVATE KEY")
_OWNERS = {
    "github": "GitHub token",
    "openai": "OpenAI key",
    "anthropic": "Anthropic key",
    "aws": "AWS key id",
    "google": "Google API key",
    "slack": "Slack token",
    "hugging_face": "Hugging Face token",
    "private_key": "private key",
}


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
            lfs = data.startswith(_LFS) and len(data) < 1024 and b"\noid sha256:" in data
            first = False
        marks = marks or b"gitsync: ignore" in data
        cut = max(0, len(data) - _OVERLAP) if len(block) == BLOCK else len(data)
        if _HINTS.search(data):
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


def redacted(text: str) -> str:
    """The text with at most the first four characters of each credential."""
    data = text.encode("utf-8", "surrogateescape")
    if not (_HINTS.search(data) or _PERHAPS.search(data)):
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


def _is_live(match: re.Match[bytes], data: bytes) -> bool:
    token = match[0]
    lower = token.lower()
    if b"example" in lower or b"xxx" in lower or data[match.end() : match.end() + 3] == b"...":
        return False
    if match.lastgroup == "private_key":
        return True
    body = token[4:]
    if match.lastgroup != "aws" and not re.search(rb"[0-9]", body):
        return False
    return len(set(body)) >= 6


def _secret(match: re.Match[bytes], data: bytes, line: int, column: int) -> Secret:
    start = match.start()
    newlines = data.count(b"\n", 0, start)
    before = _characters(data[data.rfind(b"\n", 0, start) + 1 : start])
    at = before + (column if not newlines else 1)
    return Secret(
        _OWNERS[match.lastgroup or "private_key"], line + newlines, at, match[0][:4].decode()
    )
