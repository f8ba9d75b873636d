"""The objects behind a workspace: its repository, what is pinned in it, the packs beside it.

Promise: an embedded repository is primary data, a mirror is a cache; both come back from stored
packs when they are lost or damaged (decision 6). Functions here run inside the workspace's turn
unless they say otherwise.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gitsync.artifacts.bucket import pack_key
from gitsync.git.child import Guard, end_group
from gitsync.git.failures import RepositoryBusy
from gitsync.git.lock import RepoLock
from gitsync.git.mirror import Arrived, Mirror, export_pack, import_pack
from gitsync.git.objects import has_commit
from gitsync.git.refs import pin, set_branch
from gitsync.git.storage import make_bare, remove_leftovers
from gitsync.instance import Instance
from gitsync.records import Workspace
from gitsync.store import Dead, dataset_checks, objects, workspaces

LOCK_WAIT_S = 30.0
ORPHAN_WAIT_S = 2.0
ORPHAN_AGE_S = 24 * 3600.0
_AS_IT_ARRIVED = 16 * 1024 * 1024  # a larger pack is cleared of what no commit needs


def repository_of(instance: Instance, workspace: Workspace) -> Path:
    """Where the objects of a workspace lie."""
    return instance.repository_of(workspace.id, is_embedded=workspace.is_embedded)


@contextmanager
def held_repository(instance: Instance, workspace: Workspace) -> Iterator[Guard]:
    """Hold the repository's lock (a mirror's alone, an embedded one shared with pushes).

    The guard is for git children: it makes them inherit the lock and records their group.
    """
    path = repository_of(instance, workspace)
    with RepoLock(path).held(wait=LOCK_WAIT_S, shared=workspace.is_embedded) as descriptor:
        yield child_guard(instance, workspace.id, lock_fd=descriptor)


def child_guard(instance: Instance, workspace_id: str | None, *, lock_fd: int | None) -> Guard:
    """A guard that keeps a row per running child, so that a restart can end orphans."""

    def started(pgid: int) -> None:
        with instance.database.write(durable=False) as db:
            objects.note_child(
                db,
                pgid=pgid,
                boot=instance.boot,
                workspace_id=workspace_id,
                started=start_time(pgid) or "",
                now=instance.now(),
            )

    def ended(pgid: int) -> None:
        with instance.database.write(durable=False) as db:
            objects.drop_child(db, pgid=pgid, boot=instance.boot)

    return Guard(lock_fd=lock_fd, on_start=started, on_end=ended, cancel=instance.stopping)


def start_time(pid: int) -> str | None:
    """The kernel's start time of a process: with its id, this names it beyond reuse."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()[19]


def store_pack(
    instance: Instance,
    workspace: Workspace,
    sha: str,
    *,
    shallow: tuple[str, ...],
    guard: Guard,
    arrived: Arrived | None = None,
) -> tuple[str, list[str], int] | None:
    """Store what this commit adds to the packs already stored: key, new frontier, bytes.

    None if it is covered. What a fetch brought for it is stored as it `arrived`, unless it leaves
    out what no stored pack has. The caller adds the row in its publish transaction.
    """
    with instance.database.read() as db:
        rows = objects.packs_of(db, workspace.id)
        heads = {b.head_sha for b in workspaces.list_branches(db, workspace.id)}
    frontier: list[str] = rows[-1]["tips"] if rows else []
    if sha in frontier:
        return None
    repo = repository_of(instance, workspace)
    have = [tip for tip in frontier if has_commit(repo, tip)]
    tips = [sha, *(tip for tip in have if tip in heads)]
    key = pack_key(workspace.id, f"{len(rows):06d}-{sha}")
    is_whole = arrived is not None and not shallow and arrived.known <= set(frontier)
    if arrived is not None and is_whole and arrived.size <= _AS_IT_ARRIVED:
        instance.bucket.put_file(key, arrived.pack)
        return key, tips, arrived.size
    path = instance.staging / f"{secrets.token_hex(8)}.pack"
    size = 0
    try:
        with path.open("wb") as file:
            for piece in export_pack(repo, [sha], have, guard=guard):
                size += len(piece)
                file.write(piece)
        instance.bucket.put_file(key, path)
    finally:
        path.unlink(missing_ok=True)
    return key, tips, size


def is_usable(path: Path) -> bool:
    """True if there is a repository at all; damage shows when it is read."""
    return (path / "HEAD").is_file() and (path / "objects").is_dir()


def rebuild(instance: Instance, workspace: Workspace, guard: Guard) -> int:
    """Make a lost repository again from its stored packs; how many there were."""
    path = repository_of(instance, workspace)
    if path.exists():
        Mirror(path).remove()
    make_bare(path)
    with instance.database.read() as db:
        rows = objects.packs_of(db, workspace.id)
        branches = workspaces.list_branches(db, workspace.id)
    for row in rows:
        if row["shallow"]:
            (path / "shallow").write_text("".join(f"{sha}\n" for sha in row["shallow"]))
        import_pack(path, instance.bucket.pieces(row["object_key"]), guard=guard)
    for sha in {tip for row in rows for tip in row["tips"]}:
        pin(path, sha)
    if workspace.is_embedded:
        for branch in branches:
            if branch.state == "live" and branch.head_sha and has_commit(path, branch.head_sha):
                set_branch(path, branch.name, branch.head_sha)
    return len(rows)


def ensure_repository(instance: Instance, workspace: Workspace) -> Path:
    """The repository for a reader, outside a turn; a lost one is rebuilt first."""
    path = repository_of(instance, workspace)
    if not is_usable(path):
        with RepoLock(path).held(wait=LOCK_WAIT_S) as descriptor:
            if not is_usable(path):
                rebuild(
                    instance, workspace, child_guard(instance, workspace.id, lock_fd=descriptor)
                )
    return path


def sweep(instance: Instance, dead: Dead) -> dict[str, int]:
    """At a start: end orphans of dead servers, remove what they left in the data folder.

    The staging folders go last: their names are what tells the next start who is dead. A lock file
    that a killed push leaves in an embedded repository would refuse every later push.
    """
    ended = staged = 0
    with instance.database.write() as db:
        children = objects.take_children(db, dead)
    for pgid, _ in children:
        # also members of a group whose leader is gone; a number that is somebody else's is spared
        ended += end_group(pgid, grace=0.2)
    swept = sum(_sweep_repository(path) for path in instance.repos.glob("*.git"))
    for folder in (instance.repos, instance.mirrors):
        for half_made in folder.glob(".*.git.*"):
            shutil.rmtree(half_made, ignore_errors=True)
            swept += 1
    is_ours = instance.database.is_sqlite or instance.settings.artifact_store is None
    halves = instance.bucket.sweep_leftovers() if is_ours else 0
    orphans = _sweep_orphans(instance)
    for leftover in instance.staging.parent.iterdir():
        if leftover != instance.staging:
            staged += sum(1 for _ in leftover.glob("*"))
            shutil.rmtree(leftover, ignore_errors=True)
    return {
        "children": ended,
        "staged": staged,
        "repositories": swept,
        "objects": halves,
        "orphans": orphans,
    }


def _sweep_repository(path: Path) -> int:
    try:
        with RepoLock(path).held(wait=ORPHAN_WAIT_S):
            return remove_leftovers(path)
    except RepositoryBusy:
        return 0  # its child lives on, and cleans up by itself


def _sweep_orphans(instance: Instance) -> int:
    """Remove stored objects that no row names: their server died before its transaction.

    Young ones stay, in case a backup of the rows is put back; so does a store that we may share.
    """
    if instance.settings.artifact_store is not None:
        return 0
    old = {key for key, age in instance.bucket.local_ages() if age > ORPHAN_AGE_S}
    with instance.database.read() as db:
        kept = objects.pack_keys(db) | dataset_checks.stored_keys(db)
        names = {key: key.rpartition("/")[2].removesuffix(".tar") for key in old - kept}
        known = objects.artifact_states(db, sorted(names.values()))
    doomed = [key for key, name in names.items() if name not in known]
    for key in doomed:
        instance.bucket.delete(key)
    return len(doomed)
