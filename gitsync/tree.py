"""What a checker or renderer reads: the files of one commit, a working copy or a planned overlay.

Promise: a `Tree` never executes anything, never follows a symlink by itself and never leaves its
root. Paths are relative POSIX strings, `""` is the root; bytes that are not UTF-8 appear as
surrogate escapes, so a path can be turned back into the exact bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gitsync.errors import GitSyncError


class Kind(StrEnum):
    """What a tree entry is; the values are Git's modes."""

    FILE = "100644"
    EXECUTABLE = "100755"
    LINK = "120000"
    FOLDER = "40000"
    GITLINK = "160000"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a folder.

    `oid` is the Git object id where the source knows it cheaply (a commit always does), else None:
    two entries with the same oid have the same bytes. `mode` is the raw mode as stored; `kind` its
    meaning (100664 and 100600 are files).
    """

    name: str
    kind: Kind
    oid: str | None
    mode: int

    @property
    def is_file(self) -> bool:
        """True for a regular file, executable or not."""
        return self.kind in (Kind.FILE, Kind.EXECUTABLE)


class TooLarge(GitSyncError):
    """A blob is larger than the reader allows; the details carry `size` in bytes."""

    code = "TOO_LARGE"


class Tree(Protocol):
    """A read-only view of files; every call takes a path from the root."""

    def entry(self, path: str) -> Entry | None:
        """The entry at `path`, links not followed at any component; None if there is none."""

    def children(self, path: str) -> Sequence[Entry]:
        """The entries of a folder in Git's order; empty if `path` is no folder."""

    def size(self, path: str) -> int:
        """Bytes of a file or of a link's text, without reading it."""

    def read(self, path: str, *, limit: int) -> bytes:
        """The bytes of a file, or the text of a link; `TooLarge` if there are more than `limit`."""

    def stream(self, path: str) -> Iterator[bytes]:
        """The bytes of a file in pieces of at most 64 KiB, in constant memory."""
