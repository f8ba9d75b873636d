"""What an artifact holds: the rollout and the closure of in-commit link targets (decision 1).

Promise: the same tree gives the same members in the same order; a link that leaves the commit, or
leads nowhere, adds nothing but itself; loops end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from gitsync.artifacts.tar import FORMAT
from gitsync.tree import Entry, Kind, Tree

MAX_LINK_BYTES = 4096
MAX_LINKS = 40  # Linux gives up after as many


@dataclass(frozen=True, slots=True)
class Members:
    """The files and links of one artifact, sorted by path bytes, and its reuse key (decision 2)."""

    rollout: str
    tree: str | None
    paths: tuple[tuple[str, Entry], ...]
    outside: tuple[tuple[str, str, str], ...]  # path, mode, oid of everything beyond the rollout

    @property
    def content_key(self) -> str:
        """Equal keys mean equal bytes."""
        value = [FORMAT, self.rollout, self.tree, [list(row) for row in self.outside]]
        return hashlib.sha256(json.dumps(value, ensure_ascii=True).encode()).hexdigest()


def join(folder: str, name: str) -> str:
    """A path one level deeper."""
    return f"{folder}/{name}" if folder else name


def path_bytes(path: str) -> bytes:
    """The exact bytes of a path; the sort key of every list of paths."""
    return path.encode("utf-8", "surrogateescape")


def walk(tree: Tree, path: str, *, max_files: int) -> Iterator[tuple[str, Entry]]:
    """All files and links below a folder; more than `max_files` end the walk."""
    stack, seen = [path], 0
    while stack:
        folder = stack.pop()
        for entry in tree.children(folder):
            full = join(folder, entry.name)
            if entry.kind is Kind.FOLDER:
                stack.append(full)
            elif entry.kind is not Kind.GITLINK:
                seen += 1
                if seen > max_files:
                    return
                yield full, entry


def resolve(tree: Tree, path: str) -> tuple[str | None, tuple[str, ...]]:
    """Follow links at every component: the final path (None if it is not in the commit) and all
    links on the way.
    """
    crossed: list[str] = []
    pending = [part for part in reversed(path.split("/")) if part]
    here: list[str] = []
    while pending:
        part = pending.pop()
        if part == ".":
            continue
        if part == "..":
            if not here:
                return None, tuple(crossed)
            here.pop()
            continue
        full = "/".join([*here, part])
        entry = tree.entry(full)
        if entry is None or entry.kind is Kind.GITLINK:
            return None, tuple(crossed)
        if entry.kind is not Kind.LINK:
            if pending and entry.kind is not Kind.FOLDER:
                return None, tuple(crossed)
            here.append(part)
            continue
        crossed.append(full)
        if len(crossed) > MAX_LINKS or tree.size(full) > MAX_LINK_BYTES:
            return None, tuple(crossed)
        text = tree.read(full, limit=MAX_LINK_BYTES).decode("utf-8", "surrogateescape")
        if not text or text.startswith("/") or "\0" in text:
            return None, tuple(crossed)
        pending.extend(part for part in reversed(text.split("/")) if part)
    return "/".join(here), tuple(crossed)


class LinkMemory:
    """Remembers which folders (by Git oid) hold links anywhere below, for a bounded number."""

    def __init__(self, *, most: int = 200_000) -> None:
        self._known: dict[str, bool] = {}
        self._most = most

    def has_links(self, tree: Tree, path: str, oid: str | None) -> bool:
        """True if a link lies below the folder; each distinct folder is read once."""
        if oid is not None and oid in self._known:
            return self._known[oid]
        found = any(
            entry.kind is Kind.LINK
            or (
                entry.kind is Kind.FOLDER
                and self.has_links(tree, join(path, entry.name), entry.oid)
            )
            for entry in tree.children(path)
        )
        if oid is not None:
            if len(self._known) >= self._most:
                self._known.clear()
            self._known[oid] = found
        return found


def content_key(tree: Tree, rollout: str, memory: LinkMemory, *, max_files: int = 50_000) -> str:
    """The reuse key of a rollout's artifact without listing it, when it holds no links."""
    entry = tree.entry(f"rollouts/{rollout}")
    if (
        entry is not None
        and entry.kind is Kind.FOLDER
        and not memory.has_links(tree, f"rollouts/{rollout}", entry.oid)
    ):
        return Members(rollout, entry.oid, (), ()).content_key
    return closure(tree, rollout, max_files=max_files).content_key


def closure(tree: Tree, rollout: str, *, max_files: int = 50_000) -> Members:
    """The members of one rollout's artifact."""
    start = f"rollouts/{rollout}"
    found: dict[str, Entry] = {}
    folders: set[str] = set()
    todo = [start]
    while todo and len(found) <= max_files:
        path = todo.pop()
        if path in found or any(_is_under(path, folder) for folder in folders):
            continue
        entry = tree.entry(path) if path else None
        if path and entry is None:
            continue
        if entry is not None and entry.kind is not Kind.FOLDER:
            fresh = [(path, entry)]
        else:
            folders.add(path)
            fresh = list(walk(tree, path, max_files=max_files))
        for full, each in fresh:
            if full in found:
                continue
            found[full] = each
            if each.kind is Kind.LINK:
                target, crossed = resolve(tree, full)
                todo.extend(crossed)
                if target is not None:
                    todo.append(target)
    root = tree.entry(start)
    prefix = start + "/"
    paths = sorted(found.items(), key=lambda item: path_bytes(item[0]))
    outside = tuple(
        (path, entry.kind.value, entry.oid or "")
        for path, entry in paths
        if not path.startswith(prefix)
    )
    oid = root.oid if root is not None else None
    return Members(rollout, oid, tuple(paths), outside)


def _is_under(path: str, folder: str) -> bool:
    return folder == "" or path == folder or path.startswith(folder + "/")
