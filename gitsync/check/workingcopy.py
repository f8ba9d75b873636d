"""A folder on disk as the commit it would become: what is ignored and not tracked is not there.

Promise: git is never started and the checkout's configuration never read; no symlink is followed;
nothing outside the folder is opened, except the enclosing repository's index and ignore files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitsync.check.gitindex import read_index
from gitsync.check.ignore import MAX_BYTES, Rules, add_rules
from gitsync.errors import InvalidInput
from gitsync.tree import Entry, Kind, TooLarge

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
    """The files of a folder, uncommitted ones too: a `gitsync.tree.Tree`."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise InvalidInput(f"{str(root)[:200]!r} is no folder.", field="path")
        self._root = root.resolve()
        self._tracked: dict[str, int] = {}
        self._tracked_folders: set[str] = set()
        self._gitlinks: list[str] = []
        self._link_texts: frozenset[str] = frozenset()
        self._seen = 0
        self._prefix = ""  # the way from the repository's root, from which rules count
        self._rules: dict[str, Rules | None] = {}
        self._listed: dict[str, tuple[Entry, ...]] = {}
        self._by_name: dict[str, dict[str, Entry]] = {}
        outer = self._repository_rules()
        self._rules[""] = outer if outer is _ALL else self._with_ignore_file("", outer)

    def _repository_rules(self) -> Rules | None:
        """Read index and outer ignore files of the repository that holds the folder, if any."""
        repository = find_repository(self._root)
        if repository is None:
            return None
        inside = self._root.relative_to(repository.root).as_posix()
        prefix = "" if inside == "." else f"{inside}/"
        index = read_index(repository.git_dir) or {}
        self._tracked = {
            path.removeprefix(prefix): mode
            for path, mode in index.items()
            if path.startswith(prefix)
        }
        if prefix and not self._tracked:
            return None
        self._prefix = prefix
        self._gitlinks = [p for p, mode in self._tracked.items() if mode == _GITLINK]
        self._link_texts = self._find_link_texts()
        for path in self._tracked:
            while "/" in path:
                path = path.rpartition("/")[0]
                if path in self._tracked_folders:
                    break
                self._tracked_folders.add(path)
        return self._outer_rules(repository, prefix)

    def _find_link_texts(self) -> frozenset[str]:
        """Links that this checkout holds as files with their text, and that a commit keeps links.

        A checkout without symlinks is told by having none of its links as one.
        """
        found: set[str] = set()
        for path in (p for p, mode in self._tracked.items() if mode == _LINK):
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
        common = repository.git_dir
        pointer = _read_small(common / "commondir")
        if pointer:
            common = common / os.fsdecode(pointer.strip())
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
        return os.lstat(self._place(path)).st_size

    def read(self, path: str, *, limit: int) -> bytes:
        """The bytes of a file, or the text of a link; `TooLarge` if there are more than `limit`."""
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
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self._place(path), flags)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("no regular file")
            while piece := file.read(_PIECE):
                yield piece

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
            for name in self._absent(path):
                found.setdefault(name, self._planned(path, name))
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
        except PermissionError as e:
            raise InvalidInput(f"{path[:200]!r} is a folder that we may not read.") from e
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
                if self._tracked.get(where) == _GITLINK or (
                    not hidden and where not in self._tracked_folders and _is_nested(item.path)
                ):
                    yield Entry(name, Kind.GITLINK, None, _GITLINK)
                elif self._has_something(where, rules, hidden=hidden):
                    yield Entry(name, Kind.FOLDER, None, 0o40000)
            elif tracked or not hidden:
                kind = _kind_of(item.stat(follow_symlinks=False).st_mode)
                if where in self._link_texts:
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

    def _absent(self, path: str) -> set[str]:
        """Names of submodules below this folder whose folders are not on disk."""
        prefix = f"{path}/" if path else ""
        return {
            inner.removeprefix(prefix).split("/", 1)[0]
            for inner in self._gitlinks
            if inner.startswith(prefix)
        }

    def _planned(self, path: str, name: str) -> Entry:
        where = f"{path}/{name}" if path else name
        if self._tracked.get(where) == _GITLINK:
            return Entry(name, Kind.GITLINK, None, _GITLINK)
        return Entry(name, Kind.FOLDER, None, 0o40000)


_ALL = Rules("", ())  # inside an ignored folder all is, whatever its own ignore files say


def _kind_of(mode: int) -> Kind | None:
    if stat.S_ISLNK(mode):
        return Kind.LINK
    if stat.S_ISREG(mode):
        return Kind.EXECUTABLE if mode & stat.S_IXUSR else Kind.FILE
    return None


def _git_order(entry: Entry) -> bytes:
    name = entry.name.encode("utf-8", "surrogateescape")
    return name + b"/" if entry.kind is Kind.FOLDER else name


def _is_nested(path: bytes) -> bool:
    """True for the folder of another repository, which a commit would hold as a submodule."""
    dotgit = Path(os.fsdecode(path)) / ".git"
    return dotgit.is_file() or (dotgit / "HEAD").is_file()


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
