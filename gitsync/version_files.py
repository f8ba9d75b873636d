"""The files of a version: all of them in pieces, and the lines that differ from another one.

Promise: what is read is bounded by the piece that is asked for, however large the tree is; texts
of repositories are told without control characters, line by line, but not escaped for HTML.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from gitsync.git.objects import CommitTree, diff, line_patch, open_commit
from gitsync.instance import Instance
from gitsync.model import Sha
from gitsync.records import Workspace
from gitsync.sync.objects import ensure_repository
from gitsync.text import printable
from gitsync.tree import Entry, Kind, TooLarge

COUNTED = 5000  # files; in a larger tree their number is not told
COMPARED_BYTES = 128 * 1024  # of a file; the lines of a larger one are not compared
FILE_LINES, ALL_LINES = 250, 1500  # told of one file, and of all files of a piece


@dataclass(frozen=True, slots=True)
class File:
    """A file of a tree, or a link."""

    path: str
    mode: str  # as Git shows it
    size: int | None  # of a submodule, whose bytes are elsewhere


@dataclass(frozen=True, slots=True)
class Files:
    """A piece of a tree in the order of Git."""

    items: tuple[File, ...]
    total: int | None  # None if there are more than we count
    has_more: bool


def files_of(
    instance: Instance, workspace: Workspace, sha: Sha, *, limit: int, offset: int
) -> Files:
    """Some of the files of a version."""
    tree = open_commit(ensure_repository(instance, workspace), sha)
    found = _walk(tree)
    before = sum(1 for _ in islice(found, offset))
    shown = list(islice(found, limit))
    most = max(COUNTED, offset + limit)
    after = sum(1 for _ in islice(found, most - before - len(shown) + 1))
    total = before + len(shown) + after
    return Files(
        tuple(
            File(
                printable(path),
                f"{entry.mode:06o}",
                None if entry.kind is Kind.GITLINK else tree.size(path),
            )
            for path, entry in shown
        ),
        None if total > most else total,
        after > 0,
    )


def _walk(tree: CommitTree) -> Iterator[tuple[str, Entry]]:
    """All but the folders themselves, each folder where its name stands."""
    stack = [("", iter(tree.children("")))]
    while stack:
        prefix, entries = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
        elif entry.kind is Kind.FOLDER:
            path = prefix + entry.name
            stack.append((f"{path}/", iter(tree.children(path))))
        else:
            yield prefix + entry.name, entry


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that differs, with its lines as a unified diff."""

    path: str
    change: str
    old_mode: str | None
    new_mode: str | None
    lines: tuple[str, ...]
    more: int  # lines that are not told
    why: str | None  # there are no lines


def changes_of(
    instance: Instance, workspace: Workspace, base: Sha, sha: Sha, *, limit: int, offset: int
) -> list[FileChange]:
    """Some of the files that differ between two versions."""
    repo = ensure_repository(instance, workspace)
    old, new = open_commit(repo, base), open_commit(repo, sha)
    left, found = ALL_LINES, []
    for change in islice(diff(old, new), offset, offset + limit):
        lines, why = _lines(old, new, change.path, change.old, change.new)
        shown = lines[: min(FILE_LINES, left)]
        left -= len(shown)
        found.append(
            FileChange(
                printable(change.path),
                "added" if change.old is None else "removed" if change.new is None else "changed",
                None if change.old is None else change.old.kind.value,
                None if change.new is None else change.new.kind.value,
                tuple(shown),
                len(lines) - len(shown),
                why,
            )
        )
    return found


def _lines(
    old: CommitTree, new: CommitTree, path: str, one: Entry | None, two: Entry | None
) -> tuple[list[str], str | None]:
    if Kind.GITLINK in (one and one.kind, two and two.kind):
        return [], "a submodule"
    if one and two and one.oid == two.oid:
        return [], None  # only its mode differs
    try:
        before = None if one is None else old.read(path, limit=COMPARED_BYTES)
        after = None if two is None else new.read(path, limit=COMPARED_BYTES)
    except TooLarge:
        return [], "too large to compare by lines"
    patch = line_patch(before, after)
    if patch is None:
        return [], "not text"
    return patch.decode("utf-8", "replace").removesuffix("\n").split("\n") if patch else [], None
