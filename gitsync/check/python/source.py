"""From bytes to a syntax tree, with the limits kept before the parser sees anything.

A file that Python would refuse raises `Refused` with the finding's code and place; a file over a
limit raises `LimitHit`. The parser's own RecursionError and MemoryError become `too-complex`.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import warnings

from gitsync.check.python.files import Files
from gitsync.check.python.mangling import mangle
from gitsync.check.python.syntax_rules import first_mistake
from gitsync.model import CheckOptions
from gitsync.text import printable
from gitsync.tree import TooLarge

TOO_NEW = "too-new"


class Refused(Exception):
    """Python would not compile this file."""

    def __init__(self, code: str, path: str, line: int, column: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.path = path
        self.line = line
        self.column = column
        self.reason = reason


class LimitHit(Exception):
    """A limit of the options was reached before the answer was known."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


class Sources:
    """Reads and parses the files of one entrypoint, each once, under shared limits."""

    def __init__(self, files: Files, options: CheckOptions, minor: int) -> None:
        self._files = files
        self._options = options
        self._minor = minor
        self._trees: dict[str, ast.Module | Refused] = {}
        self._bytes = 0
        self._tokens = 0
        self._lines: dict[str, list[str]] = {}

    def parse(self, path: str) -> ast.Module:
        """The tree of the file at a real path; raises `Refused` or `LimitHit`."""
        known = self._trees.get(path)
        if known is None:
            try:
                known = self._read(path)
            except Refused as refused:
                known = refused
            self._trees[path] = known
        if isinstance(known, Refused):
            raise known
        return known

    def column(self, path: str, line: int, column: int) -> int:
        """A column in bytes (as `ast` counts) turned into one in characters."""
        lines = self._lines.get(path)
        if lines is None or not 1 <= line <= len(lines):
            return column
        return len(lines[line - 1].encode()[: column - 1].decode("utf-8", "ignore")) + 1

    @property
    def read_paths(self) -> tuple[str, ...]:
        """The files parsed so far, in order."""
        return tuple(p for p, t in self._trees.items() if isinstance(t, ast.Module))

    def _read(self, path: str) -> ast.Module:
        options = self._options
        if len(self._trees) >= options.max_modules:
            raise LimitHit(path, f"more than {options.max_modules} modules are loaded")
        size = self._files.size(path)
        if size > options.max_file_bytes:
            raise LimitHit(path, f"the file is larger than {options.max_file_bytes} bytes")
        self._bytes += size
        if self._bytes > options.max_entrypoint_bytes:
            raise LimitHit(path, f"the entrypoint loads over {options.max_entrypoint_bytes} bytes")
        try:
            data = self._files.read(path, limit=options.max_file_bytes)
        except TooLarge:
            raise LimitHit(
                path, f"the file is larger than {options.max_file_bytes} bytes"
            ) from None
        text, is_whole = _decode(data, path)
        self._count(path, text)
        if not is_whole:
            _parse(data, path, self._minor)  # bytes that are no text may stand in a comment
        if not text.isascii():
            self._lines[path] = re.split(r"\r\n|\r|\n", text)
        return _parse(text, path, self._minor)

    def _count(self, path: str, text: str) -> None:
        """Tokens are at most characters, so short files need no exact count."""
        options = self._options
        count = len(text)
        if count > options.max_file_tokens or self._tokens + count > options.max_entrypoint_tokens:
            count = _tokens(text, options.max_file_tokens)
        else:
            count = min(count, len(_WORDS.findall(text)))
        if count > options.max_file_tokens:
            raise LimitHit(path, f"the file has more than {options.max_file_tokens} tokens")
        self._tokens += count
        if self._tokens > options.max_entrypoint_tokens:
            raise LimitHit(
                path, f"the entrypoint loads more than {options.max_entrypoint_tokens} tokens"
            )


_WORDS = re.compile(r"\w+|[^\w\s]|\n")


def _tokens(text: str, limit: int) -> int:
    """Exact tokens of a text, counted no further than one over the limit."""
    count = 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in tokenize.generate_tokens(io.StringIO(text).readline):
                count += 1
                if count > limit:
                    break
    except (SyntaxError, tokenize.TokenError):
        pass  # the parser stops at the same place and names it
    return count


# Codecs that no source is written in, some of them very slow on purpose-made input.
_ODD = frozenset(
    [
        "punycode",
        "idna",
        "unicode_escape",
        "raw_unicode_escape",
        "utf_7",
        "utf7",
        "u7",
        "unicode_1_1_utf_7",
        "undefined",
        "mbcs",
        "oem",
    ]
)


def _decode(data: bytes, path: str) -> tuple[str, bool]:
    """Text as Python decodes source: byte order mark, coding cookie, else UTF-8.

    False beside it if it is meant as UTF-8 and is none everywhere.
    """
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise Refused("syntax-error", path, line, 1, "source code cannot contain null bytes")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        if str(error).startswith("invalid or missing encoding declaration"):
            return data.decode("utf-8", "replace"), False
        raise Refused("syntax-error", path, 1, 1, str(error)) from None
    if encoding.replace("-", "_").lower() in _ODD:
        raise Refused(TOO_NEW, path, 1, 1, f"it is encoded as {encoding}")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        if encoding == "utf-8":
            return data.decode("utf-8", "replace"), False
        raise Refused(
            "syntax-error", path, 1, 1, f"the file cannot be decoded as {encoding}"
        ) from None
    except (LookupError, ValueError, TypeError, AssertionError) as error:
        raise Refused("syntax-error", path, 1, 1, f"{type(error).__name__} decoding") from None
    return text, True


_PRIVATE = re.compile(r"(?<!\w)__(?!\w*__\b)\w")


def _parse(text: str | bytes, path: str, minor: int) -> ast.Module:
    ours = sys.version_info.minor
    newline = text
    if isinstance(text, str) and "\r" in text:
        newline = io.IncrementalNewlineDecoder(None, True).decode(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(newline, feature_version=(3, min(minor, ours)))
    except SyntaxError as error:
        if minor > ours:
            raise Refused(
                TOO_NEW, path, error.lineno or 1, error.offset or 1, f"needs Python 3.{minor}"
            ) from None
        reason = printable(str(error.msg), limit=200)
        raise Refused(
            "syntax-error", path, max(error.lineno or 1, 1), max(error.offset or 1, 1), reason
        ) from None
    except (RecursionError, MemoryError):
        raise Refused("too-complex", path, 1, 1, "nested too deeply") from None
    except ValueError as error:
        raise Refused("syntax-error", path, 1, 1, printable(str(error), limit=200)) from None
    if isinstance(newline, str) and _PRIVATE.search(newline):
        mangle(tree)
    mistake = first_mistake(tree, minor)
    if mistake is not None:
        line, column, reason = mistake
        raise Refused("syntax-error", path, line, column, reason)
    return tree
