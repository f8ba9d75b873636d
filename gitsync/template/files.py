"""Files as values: what a template yields and what a commit or a checkout takes.

Promise: every path in a `Files` or `Changes` mapping passed `check_path`: relative, POSIX, inside
the tree, never below `.git`. A mapping with deletions laid over a tree is a tree again
(`OverlayTree`), so a checker reads what is planned exactly as it reads what is committed.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from gitsync.errors import InvalidInput
from gitsync.text import printable
from gitsync.tree import Entry, Kind, TooLarge, Tree

type File = tuple[Kind, bytes]
type Files = Mapping[str, File]
type Changes = Mapping[str, tuple[Kind, bytes | None]]

MAX_PATH_BYTES = 1024
MAX_FILE_BYTES = 16 * 1024 * 1024
_PIECE = 64 * 1024
_HFS_IGNORED = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)


def is_git_name(name: str) -> bool:
    """True for `.git` in every spelling that some file system takes for it."""
    folded = unicodedata.normalize("NFKC", name.translate(_HFS_IGNORED)).casefold()
    folded = folded.split(":", 1)[0].rstrip(". ")
    return folded in {".git", "git~1"}


def check_path(path: str) -> str:
    """`path` itself if it may be written, else `InvalidInput`."""
    parts = path.split("/")
    reason = None
    if not path or any(part in {"", ".", ".."} for part in parts):
        reason = "it is empty, absolute or has empty, '.' or '..' components"
    elif "\\" in path or (
        # most paths are plain: nothing else costs as much here
        not (path.isascii() and path.isprintable())
        and any(unicodedata.category(c) in {"Cc", "Cs"} for c in path)
    ):
        reason = "it has a backslash, a control character or undecodable bytes"
    elif any(is_git_name(part) for part in parts):
        reason = "it lies in Git's own folder"
    elif len(path.encode("utf-8", "surrogateescape")) > MAX_PATH_BYTES:
        reason = f"it is longer than {MAX_PATH_BYTES} bytes"
    if reason:
        shown = printable(path, limit=200)
        raise InvalidInput(f"The path '{shown}' cannot be written: {reason}.", field="path")
    return path


def check_existing(path: str) -> str:
    """`path` itself if it may be deleted: whatever its characters, inside the tree, not Git's."""
    parts = path.split("/")
    if any(part in {"", ".", ".."} or "\0" in part or is_git_name(part) for part in parts):
        shown = printable(path, limit=200)
        raise InvalidInput(f"The path '{shown}' cannot be deleted.", field="path")
    return path


def check_link(path: str, target: str) -> str:
    """`target` itself if the link at `path` stays inside the tree, else `InvalidInput`.

    `..` is allowed at the beginning only: after a name that is itself a link it would lead on from
    wherever that link points to.
    """
    parts = target.split("/")
    ups = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    inside = ups <= path.count("/") and not any(p in {"", ".", ".."} for p in parts[ups:])
    if not inside or "\0" in target or any(is_git_name(part) for part in parts):
        raise InvalidInput(
            f"The link '{printable(path)}' to '{printable(target, limit=200)}' leaves the tree.",
            field="path",
        )
    return target


def blob_id(data: bytes) -> str:
    """The id Git gives to these bytes."""
    digest = hashlib.sha1(b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def entry_id(tree: Tree, path: str, entry: Entry) -> str:
    """The blob id of a file or link of `tree`, computed if the tree does not know it."""
    if entry.oid is not None:
        return entry.oid
    if entry.kind is Kind.LINK:
        return blob_id(tree.read(path, limit=_PIECE))
    digest = hashlib.sha1(b"blob %d\0" % tree.size(path), usedforsecurity=False)
    for piece in tree.stream(path):
        digest.update(piece)
    return digest.hexdigest()


def parents(path: str) -> list[str]:
    """The folders above `path`, outermost first, without the root."""
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(1, len(parts))]


def walk(tree: Tree, folder: str) -> Iterator[tuple[str, Entry]]:
    """All entries under `folder` that are no folders, with their paths from the root."""
    pending = [folder]
    while pending:
        here = pending.pop()
        for entry in tree.children(here):
            path = f"{here}/{entry.name}" if here else entry.name
            if entry.kind is Kind.FOLDER:
                pending.append(path)
            else:
                yield path, entry


class OverlayTree:
    """A tree with planned changes laid over it; deletions hide, folders appear and vanish."""

    def __init__(self, base: Tree, changes: Changes) -> None:
        self._base = base
        self._changes = dict(changes)
        self._names: dict[str, set[str]] = {}  # folder -> names that changes put or hide there
        self._made: dict[str, set[str]] = {"": set()}  # folder -> names that must be there
        for path, (_, data) in self._changes.items():
            for folder in ["", *parents(path)]:
                rest = path[len(folder) + 1 :] if folder else path
                name = rest.split("/", 1)[0]
                self._names.setdefault(folder, set()).add(name)
                if data is not None:
                    self._made.setdefault(folder, set()).add(name)

    def _base_entry(self, path: str) -> Entry | None:
        """The base's entry unless a change put a file on the way to it."""
        for folder in parents(path):
            if self._changes.get(folder, (None, None))[1] is not None:
                return None
        return self._base.entry(path)

    def entry(self, path: str) -> Entry | None:
        """See `Tree`."""
        name = path.rsplit("/", 1)[-1]
        if path in self._changes:
            kind, data = self._changes[path]
            if data is not None:
                return Entry(name, kind, blob_id(data), int(kind.value, 8))
        if path in self._made:
            return Entry(name, Kind.FOLDER, None, 0o40000)
        found = self._base_entry(path)
        if found is None or (path in self._changes and found.kind is not Kind.FOLDER):
            return None
        if found.kind is Kind.FOLDER and path in self._names and not self.children(path):
            return None  # everything in it is deleted
        return found if path not in self._names else Entry(name, found.kind, None, found.mode)

    def children(self, path: str) -> Sequence[Entry]:
        """See `Tree`."""
        if self._changes.get(path, (None, None))[1] is not None:
            return ()
        touched = self._names.get(path, set())
        entries = []
        if self._base_entry(path) is not None or path == "":
            entries = [e for e in self._base.children(path) if e.name not in touched]
        for name in touched:
            found = self.entry(f"{path}/{name}" if path else name)
            if found is not None:
                entries.append(found)
        return sorted(entries, key=_git_order)

    def size(self, path: str) -> int:
        """See `Tree`."""
        data = self._changes.get(path, (None, None))[1]
        return self._base.size(path) if data is None else len(data)

    def read(self, path: str, *, limit: int) -> bytes:
        """See `Tree`."""
        data = self._changes.get(path, (None, None))[1]
        if data is None:
            return self._base.read(path, limit=limit)
        if len(data) > limit:
            raise TooLarge(f"'{printable(path)}' is larger than {limit} bytes.", size=len(data))
        return data

    def stream(self, path: str) -> Iterator[bytes]:
        """See `Tree`."""
        data = self._changes.get(path, (None, None))[1]
        if data is None:
            yield from self._base.stream(path)
            return
        for start in range(0, len(data), _PIECE):
            yield data[start : start + _PIECE]


class EmptyTree:
    """A tree without files: the base of a first commit."""

    def entry(self, path: str) -> Entry | None:
        """Nothing is anywhere; the root is a folder."""
        return Entry("", Kind.FOLDER, None, 0o40000) if path == "" else None

    def children(self, path: str) -> Sequence[Entry]:
        """See `Tree`."""
        return ()

    def size(self, path: str) -> int:
        """There is no file to measure."""
        raise FileNotFoundError(path)

    def read(self, path: str, *, limit: int) -> bytes:
        """There is no file to read."""
        raise FileNotFoundError(path)

    def stream(self, path: str) -> Iterator[bytes]:
        """There is no file to read."""
        raise FileNotFoundError(path)


def _git_order(entry: Entry) -> bytes:
    """Git sorts a folder as if its name ended in a slash."""
    name = entry.name.encode("utf-8", "surrogateescape")
    return name + b"/" if entry.kind is Kind.FOLDER else name
