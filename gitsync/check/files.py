"""What a tree holds, read once per changed folder: files, links, what names and bytes say.

Promise: an unchanged folder costs one look-up; no file is held in memory as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gitsync.check import names
from gitsync.check.cache import Memo
from gitsync.check.found import finding, shown
from gitsync.check.secrets import CLEAN, Content, read_content
from gitsync.model import Finding, Severity
from gitsync.text import printable
from gitsync.tree import Entry, Kind, Tree

MIB = 1024 * 1024
LARGE = 5 * MIB
LARGEST = 256 * MIB
LARGEST_SUM = 1024 * MIB
DATA_SUFFIXES = (".jsonl", ".csv", ".parquet")
_POINTED = ("rollouts/", "configs/", "data/", ".agents/")
_CACHES = {"__pycache__", ".venv", "node_modules", ".pytest_cache"}
_STATE = {".osmosis/evals", ".osmosis/benchmarks"}
_ENV_SAMPLES = {".env.example", ".env.sample", ".env.template"}


class FileAt(NamedTuple):
    """A regular file of the tree."""

    path: str
    entry: Entry
    size: int


@dataclass(frozen=True, slots=True)
class Holding:
    """Everything below one folder."""

    files: tuple[FileAt, ...] = ()
    folders: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    gitlinks: tuple[str, ...] = ()
    marked: tuple[FileAt, ...] = ()
    found: tuple[Finding, ...] = ()
    bytes: int = 0


class Files:
    """Walks one tree, helped by what is known of its unchanged folders."""

    def __init__(self, tree: Tree, memo: Memo) -> None:
        self.tree = tree
        self.memo = memo

    def all(self) -> Holding:
        """Everything in the tree."""
        root = self.tree.entry("")
        return self.below("", root.oid if root else None)

    def below(self, path: str, oid: str | None, *, generated: bool = False) -> Holding:
        """Everything below a folder; `generated` if it lies in one that was reported already."""
        return self.memo.get(
            "holding", oid, path, lambda: self._read(path, generated), path, generated
        )

    def content(self, file: FileAt) -> Content:
        """What the bytes of a file say."""
        if not file.size or (file.size > LARGEST and not is_data_set(file.path)):
            return CLEAN
        return self.memo.get(
            "content", file.entry.oid, file.path, lambda: read_content(self.tree.stream(file.path))
        )

    def _read(self, path: str, generated: bool) -> Holding:
        children = self.tree.children(path)
        held = {c.name for c in children}
        parts: list[Holding] = []
        files: list[FileAt] = []
        folders: list[str] = []
        links: list[str] = []
        gitlinks: list[str] = []
        marked: list[FileAt] = []
        found: list[Finding] = []
        for child in children:
            where = f"{path}/{child.name}" if path else child.name
            found.extend(_name_findings(where, child.name))
            if child.kind is Kind.FOLDER:
                folders.append(where)
                made = not generated and _is_generated_folder(where, child.name, self.tree)
                if made:
                    found.append(_generated(where))
                parts.append(self.below(where, child.oid, generated=generated or made))
            elif child.kind is Kind.LINK:
                links.append(where)
            elif child.kind is Kind.GITLINK:
                gitlinks.append(where)
                found.append(_submodule(where))
            else:
                try:
                    file = FileAt(where, child, self.tree.size(where))
                    found.extend(self._file(file))
                except OSError as e:
                    found.append(unreadable(where, e))
                    continue
                files.append(file)
                if self.content(file).has_marks:
                    marked.append(file)
                if not generated and _is_generated_file(child.name):
                    found.append(_generated(where))
        found.extend(self._collisions(path, held))
        return Holding(
            files=tuple(files) + tuple(f for p in parts for f in p.files),
            folders=tuple(folders) + tuple(f for p in parts for f in p.folders),
            links=tuple(links) + tuple(f for p in parts for f in p.links),
            gitlinks=tuple(gitlinks) + tuple(f for p in parts for f in p.gitlinks),
            marked=tuple(marked) + tuple(f for p in parts for f in p.marked),
            found=tuple(found) + tuple(f for p in parts for f in p.found),
            bytes=sum(f.size for f in files if not is_data_set(f.path))
            + sum(p.bytes for p in parts),
        )

    def _collisions(self, path: str, held: set[str]) -> list[Finding]:
        """Paths that are one on other systems; folders that are, with what they both hold."""
        if len({names.folded(n) for n in held}) == len(held):
            return []
        paths: set[str] = set()
        groups: dict[str, list[str]] = {}
        for name in held:
            groups.setdefault(names.folded(name), []).append(name)
        for group in groups.values():
            if len(group) < 2:
                continue
            for name in group:
                where = f"{path}/{name}" if path else name
                paths.add(where)
                entry = self.tree.entry(where)
                if entry is not None and entry.kind is Kind.FOLDER:
                    inner = self.below(where, entry.oid)
                    paths.update(f.path for f in inner.files)
                    paths.update((*inner.folders, *inner.links, *inner.gitlinks))
        return [
            finding(
                "name-collision",
                later,
                f"`{shown(later)}` and `{shown(first)}` are one file on macOS and Windows. "
                "Rename one of them.",
            )
            for later, first in names.collisions(paths)
        ]

    def _file(self, file: FileAt) -> list[Finding]:
        name = file.path.rsplit("/", 1)[-1]
        found: list[Finding] = []
        if name == ".env" or (name.startswith(".env.") and name not in _ENV_SAMPLES):
            found.append(
                finding(
                    "env-file",
                    file.path,
                    f"`{shown(name)}` is committed, and such files hold secrets. Remove it from "
                    "the repository, ignore it, and change every secret that was in it.",
                )
            )
        if file.size > LARGEST and not is_data_set(file.path):
            found.append(
                finding(
                    "file-over-limit",
                    file.path,
                    f"The file has {file.size} bytes; {LARGEST} is the most for a file that is "
                    "no data set. Store it elsewhere.",
                )
            )
            return found
        if file.size > LARGE and not file.path.startswith("data/"):
            found.append(
                finding(
                    "file-too-large",
                    file.path,
                    f"The file has {file.size / MIB:.1f} MiB, and every version keeps a copy. "
                    "Move data sets to `data/` and keep other large files out of the repository.",
                )
            )
        content = self.content(file)
        for secret in content.secrets:
            found.append(
                finding(
                    "committed-secret",
                    file.path,
                    f"This looks like a live credential ({secret.owner}, `{secret.head}…`). Revoke "
                    "it, then pass it as a secret by name.",
                    at=(secret.line, secret.column),
                    subject=secret.owner,
                )
            )
        if content.is_lfs_pointer and file.path.startswith(_POINTED):
            found.append(
                finding(
                    "lfs-pointer",
                    file.path,
                    "The commit holds a Git LFS pointer instead of the file. Store the file itself "
                    "in Git (`git lfs migrate export`).",
                )
            )
        return found


def unreadable(path: str, error: OSError) -> Finding:
    """A file of a working copy that vanished, or that we may not read."""
    return finding(
        "check-failed",
        path,
        f"`{printable(path, limit=120)}` could not be read ({type(error).__name__}), so nothing "
        "is known of it. Look at its permissions.",
        subject=type(error).__name__,
    )


def is_data_set(path: str) -> bool:
    """True for a file under `data/` that is checked row by row."""
    return path.startswith("data/") and path.lower().endswith(DATA_SUFFIXES)


def over_the_sum(total: int) -> list[Finding]:
    """All files together may be too large as well."""
    if total <= LARGEST_SUM:
        return []
    return [
        finding(
            "tree-too-large",
            "data",
            f"The files that are no data sets have {total} bytes together; the limit is "
            f"{LARGEST_SUM}. Store large files elsewhere.",
        )
    ]


def _name_findings(path: str, name: str) -> list[Finding]:
    reason = names.unportable(name)
    if reason is None:
        return []
    return [
        finding(
            "unportable-name",
            path,
            f"`{shown(name)}` {reason} on Windows, so the repository cannot be cloned there. "
            "Rename it.",
        )
    ]


def _is_generated_folder(path: str, name: str, tree: Tree) -> bool:
    if name in _CACHES or name.endswith(".egg-info") or path in _STATE:
        return True
    return name == "venv" and tree.entry(f"{path}/pyvenv.cfg") is not None


def _is_generated_file(name: str) -> bool:
    return name.endswith(".pyc") or name == ".DS_Store"


def _generated(path: str) -> Finding:
    return finding(
        "generated-file",
        path,
        f"`{printable(path, limit=120)}` is made by a tool and does not belong in the repository. "
        "Remove it (`git rm -r --cached`) and ignore it.",
    )


def _submodule(path: str) -> Finding:
    inside = path.startswith("rollouts/")
    return finding(
        "submodule",
        path,
        f"`{printable(path, limit=120)}` is a submodule, and submodules are not fetched: the "
        "version has none of its files. Commit the files themselves.",
        severity=Severity.ERROR if inside else Severity.WARNING,
    )
