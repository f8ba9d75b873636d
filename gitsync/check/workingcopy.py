"""A folder on disk as the commit it would become: what is ignored and not tracked is not there.

Promise: git is never started and the checkout's configuration never read; no symlink is followed;
nothing outside the folder is opened, except the enclosing repository's index, ignore and attribute
files. A file that Git LFS would replace is the pointer; one that a sparse checkout leaves out is
read from the given commit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitsync.check.gitindex import Tracked, read_index
from gitsync.check.ignore import MAX_BYTES, Rules, add_rules
from gitsync.check.lfs import Filters, pointer_of
from gitsync.errors import InvalidInput
from gitsync.tree import Entry, Kind, TooLarge, Tree

_PIECE = 64 * 1024
_LINK, _GITLINK = 0o120000, 0o160000
_MAX_DEPTH = 100
_MOST_ENTRIES = 200_000


@dataclass(frozen=True, slots=True)
class Repository:
    """Where a checkout begins, and the folder with its index and objects."""

    root: Path
    git_dir: Path


class WorkingCopy:
    """The files of a folder, uncommitted ones too: a `gitsync.tree.Tree`.

    `head` gives the commit that is checked out; it is asked only where files are left out.
    """

    def __init__(self, root: Path, *, head: Callable[[], Tree] | None = None) -> None:
        try:
            is_folder = root.is_dir()
        except OSError as e:
            raise InvalidInput(f"{str(root)[:200]!r} cannot be read ({e.strerror}).") from e
        if not is_folder:
            raise InvalidInput(f"{str(root)[:200]!r} is no folder.", field="path")
        self._root = root.resolve()
        self._tracked: dict[str, Tracked] = {}
        self._tracked_folders: set[str] = set()
        self._head: Tree | None = None
        self._off_disk: dict[str, dict[str, Entry]] = {}  # by folder and name
        self._link_texts: frozenset[str] = frozenset()
        self._seen = 0
        self._prefix = ""  # the way from the repository's root, from which rules count
        self._rules: dict[str, Rules | None] = {}
        self._listed: dict[str, tuple[Entry, ...]] = {}
        self._by_name: dict[str, dict[str, Entry]] = {}
        self._filters: Filters | None = None
        self._pointers: dict[str, bytes | None] = {}
        outer = self._repository_rules(head)
        self._rules[""] = outer if outer is _ALL else self._with_ignore_file("", outer)

    def _repository_rules(self, head: Callable[[], Tree] | None) -> Rules | None:
        """Read index and outer ignore files of the repository that holds the folder, if any."""
        repository = find_repository(self._root)
        if repository is None:
            return None
        inside = self._root.relative_to(repository.root).as_posix()
        prefix = "" if inside == "." else f"{inside}/"
        index = read_index(repository.git_dir) or {}
        self._tracked = {
            path.removeprefix(prefix): entry
            for path, entry in index.items()
            if path.startswith(prefix)
        }
        if prefix and not self._tracked:
            return None
        self._prefix = prefix
        self._add_off_disk(head)
        self._link_texts = self._find_link_texts()
        for path in self._tracked:
            while "/" in path:
                path = path.rpartition("/")[0]
                if path in self._tracked_folders:
                    break
                self._tracked_folders.add(path)
        self._filters = Filters(
            lambda folder: _read_small(repository.root / folder / ".gitattributes"),
            own=_read_small(_common_dir(repository.git_dir) / "info" / "attributes"),
        )
        return self._outer_rules(repository, prefix)

    def _add_off_disk(self, head: Callable[[], Tree] | None) -> None:
        """Note submodules, and what a sparse checkout leaves out."""
        for path, entry in self._tracked.items():
            if entry.mode == _GITLINK:
                self._plan(path, Entry(path.rpartition("/")[2], Kind.GITLINK, None, _GITLINK))
        left_out = [path for path, entry in self._tracked.items() if entry.is_left_out]
        if not left_out or head is None:
            return
        self._head = head()
        for path in _files_of(self._head, left_out):
            if (found := self._head.entry(path)) is not None and not _is_there(self._bytes(path)):
                self._plan(path, found)

    def _plan(self, path: str, entry: Entry) -> None:
        """Note an entry and its folders, which need not be on disk."""
        folder, _, name = path.rpartition("/")
        known = folder in self._off_disk
        self._off_disk.setdefault(folder, {})[name] = entry
        if folder and not known:
            self._plan(folder, Entry(folder.rpartition("/")[2], Kind.FOLDER, None, 0o40000))

    def _find_link_texts(self) -> frozenset[str]:
        """Links that this checkout holds as files with their text, and that a commit keeps links.

        A checkout without symlinks is told by having none of its links as one.
        """
        found: set[str] = set()
        for path in (p for p, entry in self._tracked.items() if entry.mode == _LINK):
            try:
                mode = os.lstat(self._bytes(path)).st_mode
            except OSError:
                continue
            if stat.S_ISLNK(mode):
                return frozenset()
            if stat.S_ISREG(mode):
                found.add(path)
        return frozenset(found)

    def _outer_rules(self, repository: Repository, prefix: str) -> Rules | None:
        rules: Rules | None = None
        common = _common_dir(repository.git_dir)
        exclude = _read_small(common / "info" / "exclude")
        if exclude:
            rules = add_rules(None, "", exclude)
        here = ""
        for part in prefix.split("/")[:-1]:
            data = _read_small(repository.root / here / ".gitignore")
            if data:
                rules = add_rules(rules, here, data)
            here = f"{here}/{part}" if here else part
            if rules is not None and rules.ignores(here, is_folder=True):
                return _ALL
        return rules

    def entry(self, path: str) -> Entry | None:
        """The entry at `path`, links not followed at any component; None if there is none."""
        if not path:
            return Entry("", Kind.FOLDER, None, 0o40000)
        found: Entry | None = None
        here = ""
        for name in path.split("/"):
            if found is not None and found.kind is not Kind.FOLDER:
                return None
            self._list(here)
            found = self._by_name[here].get(name)
            if found is None:
                return None
            here = f"{here}/{name}" if here else name
        return found

    def children(self, path: str) -> Sequence[Entry]:
        """The entries of a folder in Git's order; empty if `path` is no folder."""
        found = self.entry(path)
        return self._list(path) if found is not None and found.kind is Kind.FOLDER else ()

    def size(self, path: str) -> int:
        """Bytes of a file or of a link's text, without reading it."""
        if (head := self._in_head(path)) is not None:
            return head.size(path)
        pointer = self._pointer(path)
        return os.lstat(self._place(path)).st_size if pointer is None else len(pointer)

    def read(self, path: str, *, limit: int) -> bytes:
        """The bytes of a file, or the text of a link; `TooLarge` if there are more than `limit`."""
        if (head := self._in_head(path)) is not None:
            return head.read(path, limit=limit)
        entry = self.entry(path)
        if entry is not None and entry.kind is Kind.LINK and path not in self._link_texts:
            data = os.readlink(self._place(path))  # noqa: PTH115 - bytes, as Git stores them
            if len(data) > limit:
                raise TooLarge(f"The link has {len(data)} bytes.", size=len(data))
            return data
        pieces: list[bytes] = []
        size = 0
        for piece in self.stream(path):
            size += len(piece)
            if size > limit:
                size = max(size, self.size(path))
                raise TooLarge(f"The file has {size} bytes; the limit is {limit}.", size=size)
            pieces.append(piece)
        return b"".join(pieces)

    def stream(self, path: str) -> Iterator[bytes]:
        """The bytes of a file in pieces of at most 64 KiB, in constant memory."""
        if (head := self._in_head(path)) is not None:
            yield from head.stream(path)
        elif (pointer := self._pointer(path)) is not None:
            yield pointer
        else:
            yield from self._on_disk(path)

    def _on_disk(self, path: str) -> Iterator[bytes]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self._place(path), flags)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("no regular file")
            while piece := file.read(_PIECE):
                yield piece

    def _in_head(self, path: str) -> Tree | None:
        """The commit, if the file is left out of the checkout."""
        if self._head is None:
            return None
        entry = self.entry(path)
        return self._head if entry is not None and entry.oid is not None else None

    def _pointer(self, path: str) -> bytes | None:
        """What Git LFS commits instead of the file's bytes; None if they are committed."""
        if self._filters is None or self._filters.of(self._prefix + path) != b"lfs":
            return None
        if path not in self._pointers:
            entry, tracked = self.entry(path), self._tracked.get(path)
            self._pointers[path] = None
            if entry is not None and entry.is_file:
                size = os.lstat(self._place(path)).st_size
                oid = tracked.oid if tracked else ""
                self._pointers[path] = pointer_of(self._on_disk(path), size=size, tracked_as=oid)
        return self._pointers[path]

    def _place(self, path: str) -> bytes:
        if self.entry(path) is None:
            raise FileNotFoundError(path)
        return self._bytes(path)

    def _bytes(self, path: str) -> bytes:
        inner = path.encode("utf-8", "surrogateescape")
        return os.fsencode(self._root) + b"/" + inner

    def _list(self, path: str) -> tuple[Entry, ...]:
        if path not in self._listed:
            found = {e.name: e for e in self._scan(path)}
            for name, entry in self._off_disk.get(path, {}).items():
                found.setdefault(name, entry)
            entries = sorted(found.values(), key=_git_order)
            self._listed[path] = tuple(entries)
            self._by_name[path] = found
        return self._listed[path]

    def _scan(self, path: str) -> Iterator[Entry]:
        """What lies in a folder on disk and would be in the commit."""
        if self._seen > _MOST_ENTRIES:
            return
        try:
            items = list(os.scandir(self._bytes(path)))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as e:
            raise InvalidInput(
                f"{path[:200] or '.'!r} is a folder that cannot be read ({e.strerror}). Look at "
                "its permissions, or ignore it."
            ) from e
        self._seen += len(items)
        rules = self._rules.get(path)
        for item in items:
            name = item.name.decode("utf-8", "surrogateescape")
            if name == ".git":
                continue
            where = f"{path}/{name}" if path else name
            tracked = where in self._tracked
            is_folder = item.is_dir(follow_symlinks=False)
            hidden = self._is_hidden(rules, where, is_folder=is_folder)
            if is_folder:
                if (tracked and self._tracked[where].mode == _GITLINK) or (
                    not hidden and where not in self._tracked_folders and _is_nested(item.path)
                ):
                    yield Entry(name, Kind.GITLINK, None, _GITLINK)
                elif self._has_something(where, rules, hidden=hidden):
                    yield Entry(name, Kind.FOLDER, None, 0o40000)
            elif tracked or not hidden:
                kind = _kind_of(item)
                if kind is not None and where in self._link_texts:
                    kind = Kind.LINK
                if kind is not None:
                    yield Entry(name, kind, None, int(kind.value, 8))

    def _has_something(self, path: str, outer: Rules | None, *, hidden: bool) -> bool:
        """True if the commit would have the folder, which it has only with something in it."""
        if hidden and path not in self._tracked_folders:
            return False
        self._rules[path] = _ALL if hidden else self._with_ignore_file(path, outer)
        return path.count("/") >= _MAX_DEPTH or bool(self._list(path))

    def _is_hidden(self, rules: Rules | None, path: str, *, is_folder: bool) -> bool:
        if rules is None:
            return False
        return rules is _ALL or rules.ignores(self._prefix + path, is_folder=is_folder)

    def _with_ignore_file(self, path: str, outer: Rules | None) -> Rules | None:
        data = _read_small(self._root / path / ".gitignore")
        base = (self._prefix + path).rstrip("/")
        return add_rules(outer, base, data) if data else outer


_ALL = Rules("", ())  # inside an ignored folder all is, whatever its own ignore files say


def _kind_of(item: os.DirEntry[bytes]) -> Kind | None:
    """None for what Git does not store, and for a file that has just vanished."""
    try:
        mode = item.stat(follow_symlinks=False).st_mode
    except OSError:
        return None
    if stat.S_ISLNK(mode):
        return Kind.LINK
    if stat.S_ISREG(mode):
        return Kind.EXECUTABLE if mode & stat.S_IXUSR else Kind.FILE
    return None


def _git_order(entry: Entry) -> bytes:
    name = entry.name.encode("utf-8", "surrogateescape")
    return name + b"/" if entry.kind is Kind.FOLDER else name


def _files_of(tree: Tree, paths: Iterable[str]) -> Iterator[str]:
    """The paths, with the files in it for every folder (which ends in `/`)."""
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if not path.endswith("/"):
            yield path
            continue
        for entry in tree.children(path[:-1]):
            waiting.append(f"{path}{entry.name}{'/' * (entry.kind is Kind.FOLDER)}")


def _is_there(path: bytes) -> bool:
    try:
        os.lstat(path)
    except OSError:
        return False
    return True


def _common_dir(git_dir: Path) -> Path:
    """The folder that all worktrees of a repository share."""
    pointer = _read_small(git_dir / "commondir")
    return git_dir / os.fsdecode(pointer.strip()) if pointer else git_dir


def _is_nested(path: bytes) -> bool:
    """True for the folder of another repository, which a commit would hold as a submodule."""
    dotgit = Path(os.fsdecode(path)) / ".git"
    try:
        return dotgit.is_file() or (dotgit / "HEAD").is_file()
    except OSError:
        return False


def _read_small(file: Path) -> bytes | None:
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > MAX_BYTES:
            return None
        return file.read_bytes()
    except OSError:
        return None


def find_repository(root: Path) -> Repository | None:
    """The repository that holds a folder: the nearest `.git` upwards."""
    for folder in (root, *root.parents):
        dotgit = folder / ".git"
        if dotgit.is_dir():
            return Repository(folder, dotgit)
        if dotgit.is_file():
            text = (_read_small(dotgit) or b"").decode("utf-8", "surrogateescape")
            if text.startswith("gitdir:"):
                return Repository(folder, folder / text.removeprefix("gitdir:").strip())
    return None
