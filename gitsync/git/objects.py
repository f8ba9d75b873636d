"""The files of a commit as a `gitsync.tree.Tree`, and what else is read from commits.

Promise: what is read is exactly what the commit holds; no filter or attribute has an effect, and
large blobs are streamed by a child in constant memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pygit2
from pygit2.enums import ObjectType

from gitsync.errors import NotFound
from gitsync.git import child
from gitsync.git.commits import (
    Commit,
    count_history,
    has_commit,
    is_ancestor,
    merge_base,
    read_commit,
    resolve,
)
from gitsync.git.failures import RepositoryCorrupt
from gitsync.git.odb import ObjectStore, open_repository, parse_tree
from gitsync.tree import Entry, Kind, TooLarge

__all__ = [
    "Change",
    "Commit",
    "CommitTree",
    "ObjectStore",
    "count_history",
    "diff",
    "has_commit",
    "is_ancestor",
    "line_patch",
    "merge_base",
    "open_commit",
    "open_repository",
    "read_commit",
    "resolve",
]

PIECE = 64 * 1024
IN_MEMORY = 1024 * 1024
_CACHED_ENTRIES = 200_000
# small windows: a mapped pack counts as memory of the child
_STREAMED = (
    ("core.bigFileThreshold", "1m"),
    ("core.packedGitWindowSize", "4m"),
    ("core.packedGitLimit", "32m"),
)
_TREE_BYTES = 16 * 1024 * 1024  # of one folder: over 50,000 entries with the longest names


@dataclass(slots=True)
class _Folder:
    entries: tuple[Entry, ...]
    by_name: dict[str, Entry]


class CommitTree:
    """The files of one commit, or of a folder of it: a `gitsync.tree.Tree`."""

    def __init__(self, store: ObjectStore, tree: str) -> None:
        self.oid = tree
        self._store = store
        self._folders: dict[str, _Folder] = {}
        self._cached = 0

    def entry(self, path: str) -> Entry | None:
        """The entry at `path`, links not followed; None if there is none."""
        found = Entry("", Kind.FOLDER, self.oid, 0o40000)
        if not path:
            return found
        for name in path.split("/"):
            if found.kind is not Kind.FOLDER or found.oid is None:
                return None
            step = self._folder(found.oid).by_name.get(name)
            if step is None:
                return None
            found = step
        return found

    def children(self, path: str) -> Sequence[Entry]:
        """The entries of a folder in Git's order; empty if `path` is no folder."""
        found = self.entry(path)
        if found is None or found.kind is not Kind.FOLDER or found.oid is None:
            return ()
        return self._folder(found.oid).entries

    def size(self, path: str) -> int:
        """Bytes of a file or of a link's text, without reading it."""
        return self._blob(path)[1]

    def read(self, path: str, *, limit: int) -> bytes:
        """The bytes of a file, or the text of a link; `TooLarge` beyond `limit`."""
        oid, size = self._blob(path)
        if size > limit:
            raise TooLarge(f"The file has {size} bytes; the limit is {limit}.", size=size)
        if size <= IN_MEMORY:
            return self._store.read(oid, ObjectType.BLOB, limit=limit)
        return b"".join(self._large(oid))

    def stream(self, path: str) -> Iterator[bytes]:
        """The bytes of a file in pieces of at most 64 KiB, in constant memory."""
        oid, size = self._blob(path)
        if size > IN_MEMORY:
            yield from self._large(oid)
            return
        data = self._store.read(oid, ObjectType.BLOB, limit=IN_MEMORY)
        for at in range(0, len(data), PIECE):
            yield data[at : at + PIECE]

    def _large(self, oid: str) -> Iterator[bytes]:
        args = [child.git_dir(self._store.path), "cat-file", "blob", oid]
        return child.stream(args, config=_STREAMED)

    def _blob(self, path: str) -> tuple[str, int]:
        found = self.entry(path)
        if found is None or found.oid is None or not (found.is_file or found.kind is Kind.LINK):
            raise NotFound(f"There is no file {path[:200]!r} in the commit.")
        kind, size = self._store.header(found.oid)
        if kind != ObjectType.BLOB:
            raise RepositoryCorrupt(f"The entry {path[:200]!r} names an object that is no file.")
        return found.oid, size

    def _folder(self, oid: str) -> _Folder:
        if (known := self._folders.get(oid)) is not None:
            return known
        entries = parse_tree(self._store.read(oid, ObjectType.TREE, limit=_TREE_BYTES), oid)
        by_name: dict[str, Entry] = {}
        for entry in entries:
            by_name.setdefault(entry.name, entry)
        self._cached += len(entries)
        if self._cached > _CACHED_ENTRIES:
            self._folders.clear()
            self._cached = len(entries)
        return self._folders.setdefault(oid, _Folder(entries, by_name))


def open_commit(repo: Path, rev: str, *, root: str = "") -> CommitTree:
    """The tree of a commit, given by its sha or a full ref; `root` is a folder in it."""
    store = ObjectStore(repo)
    tree = CommitTree(store, read_commit(repo, rev, store=store).tree)
    if not root:
        return tree
    inner = tree.entry(root)
    if inner is None or inner.kind is not Kind.FOLDER or inner.oid is None:
        raise NotFound(f"There is no folder {root[:200]!r} in commit {rev[:60]}.")
    return CommitTree(store, inner.oid)


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs; `old` is None for an added, `new` for a removed one."""

    path: str
    old: Entry | None
    new: Entry | None


def diff(
    old: CommitTree | None, new: CommitTree | None, *, limit: int = 100_000
) -> Iterator[Change]:
    """What differs between two trees, by path; equal folders are not entered, renames not guessed.

    Folders appear only as the files in them. Raises `TooLarge` after `limit` changes.
    """
    for n, change in enumerate(_differences(old, new)):
        if n >= limit:
            raise TooLarge(f"More than {limit} files differ.", size=n)
        yield change


def _differences(old: CommitTree | None, new: CommitTree | None) -> Iterator[Change]:
    stack = [""]
    while stack:
        here = stack.pop()
        ours = {e.name: e for e in old.children(here)} if old else {}
        theirs = {e.name: e for e in new.children(here)} if new else {}
        inner = []
        for name in sorted(ours.keys() | theirs.keys(), key=_bytes):
            a, b = ours.get(name), theirs.get(name)
            path = f"{here}/{name}" if here else name
            if a == b:
                continue
            if (a and a.kind is Kind.FOLDER) or (b and b.kind is Kind.FOLDER):
                inner.append(path)
            a = None if a is None or a.kind is Kind.FOLDER else a
            b = None if b is None or b.kind is Kind.FOLDER else b
            if a or b:
                yield Change(path, a, b)
        stack.extend(reversed(inner))


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def line_patch(old: bytes | None, new: bytes | None) -> bytes | None:
    """The hunks of a unified diff; None if one of the two is no text."""
    patch = pygit2.Patch.create_from(old, new)
    if patch.delta.is_binary:
        return None
    data = patch.data
    at = data.find(b"\n@@ ")
    return b"" if at < 0 else data[at + 1 :]
