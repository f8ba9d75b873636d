"""The index file of a checkout, read by ourselves: which paths are tracked, and as what.

Promise: never starts git and reads nothing of the checkout's configuration; a damaged index gives
`None`, never an exception.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MAX_BYTES = 256 * 1024 * 1024
_FIXED = 40
_EXTENDED = 0x4000
_SKIP_WORKTREE = 0x4000  # of the extended flags


class _Damaged(Exception):
    pass


class Tracked(NamedTuple):
    """An entry of the index; a path that ends in `/` is a whole folder that is left out."""

    mode: int
    oid: str
    is_left_out: bool = False


def read_index(git_dir: Path) -> dict[str, Tracked] | None:
    """What is known of every tracked path; empty without an index, None if it is damaged."""
    data = _load(git_dir / "index")
    if data is None:
        return {}
    for width in (20, 32):
        try:
            entries, rest = _parse(data, width)
            base = _shared(git_dir, rest, width)
        except (_Damaged, struct.error, IndexError, ValueError):
            continue
        return {**base, **entries}
    return None


def _load(file: Path) -> bytes | None:
    try:
        if file.is_file() and file.stat().st_size <= _MAX_BYTES:
            return file.read_bytes()
    except OSError:
        pass
    return None


def parse_index(data: bytes) -> dict[str, Tracked] | None:
    """The entries of an index in SHA-1 or SHA-256 form; None if it is damaged."""
    for width in (20, 32):
        try:
            return _parse(data, width)[0]
        except (_Damaged, struct.error, IndexError, ValueError):
            continue
    return None


def _parse(data: bytes, width: int) -> tuple[dict[str, Tracked], bytes]:
    """Entries and what follows them; `width` is the length of an object id."""
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in (2, 3, 4) or count > len(data) // _FIXED:
        raise _Damaged
    at = 12
    previous = b""
    entries: dict[str, Tracked] = {}
    for _ in range(count):
        start = at
        (mode,) = struct.unpack_from(">I", data, at + 24)
        at += _FIXED + width
        oid = data[at - width : at].hex()
        (flags,) = struct.unpack_from(">H", data, at)
        at += 2
        is_left_out = False
        if flags & _EXTENDED:
            is_left_out = bool(struct.unpack_from(">H", data, at)[0] & _SKIP_WORKTREE)
            at += 2
        if version == 4:
            strip, at = _varint(data, at)
            if strip > len(previous):
                raise _Damaged
            prefix = previous[: len(previous) - strip]
        else:
            prefix = b""
        end = data.index(b"\0", at)
        name = prefix + data[at:end]
        at = end + 1
        if version != 4:
            at = start + ((end - start) // 8 + 1) * 8
        previous = name
        if name:
            entries[name.decode("utf-8", "surrogateescape")] = Tracked(mode, oid, is_left_out)
    if at > len(data) - width or not _is_tail(data[at:-width]):
        raise _Damaged
    return entries, data[at:-width]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Git's offset encoding."""
    byte = data[at]
    at += 1
    value = byte & 127
    for _ in range(8):
        if not byte & 128:
            return value, at
        byte = data[at]
        at += 1
        value = ((value + 1) << 7) | (byte & 127)
    raise _Damaged


def _extensions(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at + 8 <= len(data):
        (size,) = struct.unpack_from(">I", data, at + 4)
        yield data[at : at + 4], data[at + 8 : at + 8 + size]
        at += 8 + size
    if at != len(data):
        raise _Damaged


def _is_tail(data: bytes) -> bool:
    return all(name.isalpha() for name, _ in _extensions(data))


def _shared(git_dir: Path, tail: bytes, width: int) -> dict[str, Tracked]:
    """The entries of the file that a split index builds upon."""
    for name, body in _extensions(tail):
        if name == b"link" and any(body[:width]):
            data = _load(git_dir / f"sharedindex.{body[:width].hex()}")
            if data is not None:
                return _parse(data, width)[0]
    return {}
