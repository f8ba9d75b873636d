"""Template operations on a local checkout, and plans as commits.

Promise: whoever applies a template (a checkout here, the service in `gitsync.changes`, a bootstrap)
goes through the same operations and plans; nothing is written unless the whole plan is. On a
checkout, an apply that was killed before is undone first. No Git hook and no user configuration
takes part: Git is only read, and only to find the base of a three-way decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gitsync.errors import Conflict, GitSyncError, NotFound
from gitsync.git.odb import ObjectStore
from gitsync.git.write import Put, write_commit
from gitsync.model import Finding, Sha, Signature
from gitsync.template import select_workspace
from gitsync.template.catalogue import Catalogue, builtin
from gitsync.template.diff import file_patches
from gitsync.template.disk import DiskTree
from gitsync.template.files import MAX_FILE_BYTES
from gitsync.template.journal import apply_plan, recover
from gitsync.template.operations import Operation
from gitsync.template.plan import Plan
from gitsync.template.selection import render
from gitsync.template.threeway import ReadBlob


@dataclass(frozen=True, slots=True)
class Applied:
    """What a local operation did, or would do: the plan, its diffs, and what the check says."""

    plan: Plan
    is_written: bool
    diffs: tuple[tuple[str, bytes], ...] = ()
    findings: tuple[Finding, ...] = ()


def find_checkout(start: Path) -> Path:
    """The folder with `.git` at or above `start`."""
    here = start.resolve()
    for folder in (here, *here.parents):
        if (folder / ".git").exists():
            return folder
    raise NotFound(f"{here} is not inside a Git checkout. Go to your workspace, or use --path.")


def local_blobs(root: Path) -> ReadBlob:
    """Blobs of the checkout's repository by id; None where it has no such object."""
    store: ObjectStore | None = None

    def read(blob: str) -> bytes | None:
        nonlocal store
        try:
            if store is None:
                store = ObjectStore(_git_folder(root))
            return store.read_blob(blob, limit=MAX_FILE_BYTES)
        except GitSyncError:
            return None

    return read


def _git_folder(root: Path) -> Path:
    """Where the objects are: `.git`, or what the file `.git` of a linked work tree names."""
    git = root / ".git"
    if git.is_file():
        named = git.read_text("utf-8", "replace").removeprefix("gitdir:").strip()
        folder = (root / named).resolve()
        common = folder / "commondir"
        if common.is_file():
            return (folder / common.read_text("utf-8", "replace").strip()).resolve()
        return folder
    return git


def apply_locally(
    root: Path,
    operation: Operation,
    *,
    is_dry: bool = False,
    check: Callable[[Plan], Iterable[Finding]] | None = None,
) -> Applied:
    """Plan on the files as they are and, unless dry or blocked, write them all or none."""
    recover(root)
    tree = DiskTree(root)
    plan = operation.plan(tree, builtin(), local_blobs(root))
    if is_dry:
        findings = tuple(check(plan)) if check else ()
        return Applied(plan, False, tuple(file_patches(tree, plan)), findings)
    if plan.is_blocked:
        return Applied(plan, False)
    apply_plan(root, plan)
    return Applied(plan, bool(plan.changes))


def commit_plan(
    repo: Path, *, base: Sha | None, plan: Plan, message: str, author: Signature
) -> Sha:
    """Write one commit on top of `base` whose tree is exactly the plan's; no ref is moved."""
    puts = {
        path: None if data is None else Put(data, kind)
        for path, (kind, data) in plan.changes.items()
    }
    return write_commit(repo, base=base, changes=puts, message=message, author=author)


def export_template(target: Path, *, catalogue: Catalogue | None = None) -> int:
    """Write the default rendering of everything into a new folder; the number of files.

    The result is what `OSMOSIS_WORKSPACE_TEMPLATE_PATH` expects.
    """
    found = catalogue or builtin()
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise Conflict(f"{target} exists and is not an empty folder.")
    selection = select_workspace(found, list(found.starters), list(found.skills), {})
    files = {path: file.file for path, file in render(found, selection).items()}
    target.mkdir(parents=True, exist_ok=True)
    apply_plan(target, Plan("Export the template", (), files))
    return len(files)
