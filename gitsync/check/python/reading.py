"""Files that are read while a module is imported: one that the commit lacks cannot be opened."""

from __future__ import annotations

import ast

from gitsync.check.python import comparing
from gitsync.check.python.finding import ROOT
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import NONE, TRUE, Const, PathValue, Value
from gitsync.check.python.worlds import REGISTRY, Frame

_READING = frozenset(("read_text", "read_bytes"))
_CHANGING = frozenset(
    (
        "write_text",
        "write_bytes",
        "mkdir",
        "touch",
        "rename",
        "replace",
        "symlink_to",
        "hardlink_to",
        "unlink",
        "rmdir",
    )
)
# Modules whose functions may make files.
_MAKERS = (
    "shutil.",
    "subprocess.",
    "posix.",
    "os.",
    "zipfile.",
    "tarfile.",
    "urllib.",
    "tempfile.",
)
_MARK = "files may have been made"


def notice_call(m: Machine, path: str, *, third: bool) -> None:
    """After this call the folder may hold more than the commit does."""
    if third or (path.startswith(_MAKERS) and not path.startswith(("os.path.", "os.environ"))):
        mark(m)


def mark(m: Machine) -> None:
    """From here on a file that the commit lacks may be there."""
    if _MARK not in m.space(REGISTRY).values:
        m.store(REGISTRY, _MARK, TRUE)


def notice_method(
    m: Machine, frame: Frame, path: PathValue, name: str, args: list[Value], node: ast.AST
) -> None:
    """A method of a path that reads or makes a file."""
    if name in _CHANGING:
        mark(m)
    elif name in _READING:
        _require(m, frame, path, node)
    elif name == "open":
        opened(m, frame, [path, *args], {}, node)


def opened(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> None:
    """`open(path, mode)`."""
    mode = args[1] if len(args) > 1 else keywords.get("mode", Const("r"))
    if not isinstance(mode, Const) or str(mode.value)[:1] != "r":
        mark(m)
        return
    _require(m, frame, args[0] if args else keywords.get("file", NONE), node)


def _require(m: Machine, frame: Frame, path: Value, node: ast.AST) -> None:
    text = comparing.as_text(m, path)
    if text is None or not text.startswith(ROOT + "/") or _MARK in m.space(REGISTRY).values:
        return
    inner = text[len(ROOT) + 1 :]
    if m.importer.files.is_file(inner):
        return
    kind = "IsADirectoryError" if m.importer.files.is_folder(inner) else "FileNotFoundError"
    raise m.error(frame, node, kind, f"the commit has no file {inner}")
