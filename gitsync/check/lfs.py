"""Which files of a checkout Git LFS replaces when they are committed, and by what.

Promise: `.gitattributes` is read as Git reads it, but for the filter only; a line that Git refuses
has no effect; files are streamed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gitsync.check.secrets import is_lfs_pointer
from gitsync.check.wildmatch import Pattern, parse_pattern

MAX_BYTES = 1024 * 1024
_LONGEST_LINE = 2048
_BLANK = b" \t\r\n"
_MACRO = b"[attr]"
_QUOTED = re.compile(rb'"((?:[^"\\]|\\(?:[abfnrtv"\\]|[0-3][0-7]{2}))*)"')


class Filters:
    """The filter of every file; `read` gives the `.gitattributes` of a folder, if it has one."""

    def __init__(self, read: Callable[[str], bytes | None], *, own: bytes | None) -> None:
        self._read = read
        top, own = read("") or b"", own or b""
        self._macros: dict[bytes, bytes] = {}
        for pattern, words in (*_split(top), *_split(own)):
            value = _filter(words, self._macros)
            if pattern.startswith(_MACRO) and value is not None:
                self._macros[pattern.removeprefix(_MACRO)] = value
        self._own = self._add(None, "", own)
        self._by_folder = {"": self._add(None, "", top)}

    def of(self, path: str) -> bytes:
        """The name of the filter that a file passes through; empty if there is none."""
        for attributes in (self._own, self._attributes(path.rpartition("/")[0])):
            value = attributes.filter_of(path) if attributes is not None else None
            if value is not None:
                return value
        return b""

    def _attributes(self, folder: str) -> _Attributes | None:
        if folder not in self._by_folder:
            outer = self._attributes(folder.rpartition("/")[0])
            data = self._read(folder)
            self._by_folder[folder] = self._add(outer, folder, data) if data else outer
        return self._by_folder[folder]

    def _add(self, outer: _Attributes | None, base: str, data: bytes) -> _Attributes | None:
        lines: list[tuple[Pattern, bytes]] = []
        for pattern, words in _split(data):
            value = _filter(words, self._macros)
            if value is None or pattern.startswith((b"!", _MACRO)):
                continue
            parsed = parse_pattern(pattern)
            if parsed is not None and not parsed.is_folder_only:
                lines.append((parsed, value))
        return _Attributes(base, tuple(reversed(lines)), outer) if lines else outer


def pointer_of(pieces: Iterable[bytes], *, size: int, tracked_as: str) -> bytes | None:
    """What Git LFS commits instead of the bytes; None if the bytes themselves are committed.

    The object id in the index tells whether the filter ran, as it does only where it is set up.
    """
    digest = hashlib.sha256()
    blob = hashlib.new("sha256" if len(tracked_as) == 64 else "sha1")
    blob.update(b"blob %d\0" % size)
    first = b""
    for piece in pieces:
        first = first or piece
        digest.update(piece)
        blob.update(piece)
    if not first or is_lfs_pointer(first) or blob.hexdigest() == tracked_as:
        return None
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest.hexdigest()}\n"
    return f"{text}size {size}\n".encode()


@dataclass(frozen=True, slots=True)
class _Attributes:
    """What one file says of filters, from the last line to the first."""

    base: str
    lines: tuple[tuple[Pattern, bytes], ...]
    outer: _Attributes | None

    def filter_of(self, path: str) -> bytes | None:
        here: _Attributes | None = self
        while here is not None:
            inner = path.removeprefix(f"{here.base}/") if here.base else path
            raw = inner.encode("utf-8", "surrogateescape")
            name = raw.rpartition(b"/")[2]
            for pattern, value in here.lines:
                if pattern.matches(name if pattern.is_name else raw):
                    return value
            here = here.outer
        return None


def _split(data: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    """Pattern and attributes of every line that has both."""
    for line in data[:MAX_BYTES].removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        text = line.strip(_BLANK)
        if not text or text.startswith(b"#") or len(line) >= _LONGEST_LINE:
            continue
        if text.startswith(_MACRO):
            name, *words = text.removeprefix(_MACRO).split() or [b""]
            yield _MACRO + name, words
        elif quoted := _QUOTED.match(text):
            pattern = quoted[1].decode("unicode_escape").encode("latin-1")
            yield pattern, text[quoted.end() :].split()
        else:
            pattern, *words = text.split()
            yield pattern, words


def _filter(words: list[bytes], macros: Mapping[bytes, bytes]) -> bytes | None:
    """What a line says of `filter`, the last word first; None if it says nothing."""
    for word in reversed(words):
        if word.startswith(b"filter="):
            return word.removeprefix(b"filter=")
        if word in (b"filter", b"-filter", b"!filter"):
            return b""
        if word in macros:
            return macros[word]
    return None
