"""The raw objects of one repository, read with pygit2.

Promise: what is read is exactly what is stored: nobody's configuration, no replacement and no
filter has an effect, and an object whose bytes do not hash to its name is refused. One
`ObjectStore` belongs to one task; none is shared between threads.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pygit2
from pygit2.enums import ConfigLevel, ObjectType, RepositoryOpenFlag

from gitsync.git.failures import ObjectFormatUnsupported, ObjectMissing, RepositoryCorrupt
from gitsync.tree import Entry, Kind, TooLarge

_FORMAT = 0o170000
_WINDOW = 32 * 1024 * 1024


def _isolate() -> None:
    """Nothing of the user's or the machine's configuration may change what libgit2 does."""
    levels = (
        ConfigLevel.PROGRAMDATA,
        ConfigLevel.SYSTEM,
        ConfigLevel.XDG,
        ConfigLevel.GLOBAL,
    )
    for level in levels:
        pygit2.settings.search_path[level] = ""
    pygit2.settings.enable_strict_hash_verification(True)
    pygit2.settings.enable_fsync_gitdir(True)
    pygit2.settings.owner_validation = False
    pygit2.settings.mwindow_size = _WINDOW
    pygit2.settings.mwindow_mapped_limit = 8 * _WINDOW


_isolate()


def open_repository(path: Path) -> pygit2.Repository:
    """The bare repository at `path`; `RepositoryCorrupt` if it is none."""
    try:
        return pygit2.Repository(str(path), RepositoryOpenFlag.NO_SEARCH)
    except (pygit2.GitError, KeyError) as e:
        if "extension" in str(e) or "object format" in str(e):
            raise ObjectFormatUnsupported(f"{path.name} uses another object format.") from e
        raise RepositoryCorrupt(f"{path.name} is no readable Git repository.") from e


class ObjectStore:
    """The objects of one repository, read raw; opens the repository again once on a miss.

    A repack by another process moves objects; a reader that has the old packs open would miss them.
    """

    def __init__(self, path: Path) -> None:
        self.repository = open_repository(path)
        self.path = Path(self.repository.path)

    def header(self, oid: str) -> tuple[int, int]:
        """Type and size of an object, without reading it."""
        kind, size = self._try(oid, lambda odb: odb.read_header(pygit2.Oid(hex=oid)))
        return int(kind), size

    def read(self, oid: str, kind: ObjectType, *, limit: int) -> bytes:
        """The bytes of an object of the wanted type and at most `limit` bytes."""
        found, size = self.header(oid)
        if found != kind:
            raise RepositoryCorrupt(
                f"Object {oid} is a {ObjectType(found).name.lower()}, not a {kind.name.lower()}."
            )
        if size > limit:
            raise TooLarge(f"Object {oid} has {size} bytes; the limit is {limit}.", size=size)
        data: bytes = self._try(oid, lambda odb: odb.read(pygit2.Oid(hex=oid)))[1]
        return data

    def read_blob(self, oid: str, *, limit: int) -> bytes:
        """The bytes of a blob of at most `limit` bytes."""
        return self.read(oid, ObjectType.BLOB, limit=limit)

    def _try[T](self, oid: str, what: Callable[[pygit2.Odb], T]) -> T:
        for last in (False, True):
            try:
                return what(self.repository.odb)
            except KeyError as e:
                if last:
                    raise ObjectMissing(f"Object {oid} is missing in {self.path.name}.") from e
                self.repository = open_repository(self.path)
            except (pygit2.GitError, ValueError, OSError) as e:
                raise RepositoryCorrupt(f"Object {oid} in {self.path.name} is damaged.") from e
        raise AssertionError("unreachable")


def kind_of(mode: int) -> Kind:
    """What git takes a mode for; any odd format counts as a submodule, as git has it."""
    match mode & _FORMAT:
        case 0o100000:
            return Kind.EXECUTABLE if mode & 0o100 else Kind.FILE
        case 0o120000:
            return Kind.LINK
        case 0o040000:
            return Kind.FOLDER
        case _:
            return Kind.GITLINK


def parse_tree(data: bytes, oid: str) -> tuple[Entry, ...]:
    """The entries of a raw tree object, in stored order, duplicates and odd names included."""
    entries: list[Entry] = []
    at, end = 0, len(data)
    while at < end:
        space = data.find(b" ", at, at + 12)
        nul = data.find(b"\0", space + 1)
        if space < 0 or nul < 0 or nul + 21 > end:
            raise RepositoryCorrupt(f"Tree {oid} is damaged.")
        try:
            mode = int(data[at:space], 8)
        except ValueError as e:
            raise RepositoryCorrupt(f"Tree {oid} holds a mode that is no number.") from e
        entries.append(
            Entry(
                name=data[space + 1 : nul].decode("utf-8", "surrogateescape"),
                kind=kind_of(mode),
                oid=data[nul + 1 : nul + 21].hex(),
                mode=mode,
            )
        )
        at = nul + 21
    return tuple(entries)
