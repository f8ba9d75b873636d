"""The branches of a workspace where they really are: on our own host, or at a remote.

Promise: a branch moves forward from the tip it was seen at or not at all; nobody's commit is
overwritten, and a repeated push of what has arrived changes nothing. All of it runs while the
caller holds the repository's lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gitsync.errors import Conflict, NotFound
from gitsync.git.child import Guard
from gitsync.git.host import adopt_head
from gitsync.git.lock import RepoLock
from gitsync.git.lsrefs import Tips, look
from gitsync.git.mirror import Mirror
from gitsync.git.objects import has_commit
from gitsync.git.refs import local_tips
from gitsync.git.write import move_branch, push
from gitsync.instance import Instance
from gitsync.model import Sha
from gitsync.records import Workspace
from gitsync.store import workspaces
from gitsync.sync import triggers
from gitsync.sync.moves import short
from gitsync.sync.objects import (
    LOCK_WAIT_S,
    ensure_repository,
    held_repository,
    is_usable,
    rebuild,
    repository_of,
)
from gitsync.sync.remotes import remote_of
from gitsync.sync.turn import fetch_limits
from gitsync.text import printable


class NoDefaultBranch(Conflict):
    """HEAD names no branch, so there is none to commit to."""

    code = "NO_DEFAULT_BRANCH"


class NotReadYet(Conflict):
    """The first look at the repository has not ended."""

    code = "SYNC_IN_PROGRESS"


class Branches(Protocol):
    """What a change needs to know and to do."""

    path: Path

    def default(self) -> tuple[str, Sha | None]:
        """The default branch (full ref) and its tip; None if it has no commit yet."""

    def tip(self, ref: str) -> Sha | None:
        """The tip of a branch; None if there is no such branch."""

    def bring(self, ref: str, sha: Sha) -> Sha:
        """Make the objects of a tip readable here; the tip that is, which may be newer."""

    def move(self, ref: str, new: Sha, *, expected: Sha | None) -> None:
        """Move or make (`expected` None) a branch; `RefMoved` unless its tip is `expected`."""


@dataclass(slots=True)
class EmbeddedBranches:
    """On our own host: the repository here is the one."""

    instance: Instance
    workspace: Workspace
    path: Path
    guard: Guard

    def default(self) -> tuple[str, Sha | None]:
        """See `Branches`."""
        return _default(local_tips(self.path), self.workspace)

    def tip(self, ref: str) -> Sha | None:
        """See `Branches`."""
        return local_tips(self.path).heads.get(ref)

    def bring(self, ref: str, sha: Sha) -> Sha:
        """All objects are here."""
        return sha

    def move(self, ref: str, new: Sha, *, expected: Sha | None) -> None:
        """See `Branches`; a look is asked for first, as for every push (decision 19)."""
        triggers.before_push(self.instance, self.workspace)
        move_branch(self.path, ref, new, expected=expected, guard=self.guard)
        adopt_head(self.path, [ref])


@dataclass(slots=True)
class RemoteBranches:
    """At a remote, with a mirror here."""

    instance: Instance
    workspace: Workspace
    path: Path
    guard: Guard

    def default(self) -> tuple[str, Sha | None]:
        """See `Branches`."""
        chosen = self.workspace.chosen_branch
        return _default(self._look("default" if chosen is None else [chosen]), self.workspace)

    def tip(self, ref: str) -> Sha | None:
        """See `Branches`."""
        return self._look([ref]).heads.get(ref)

    def _look(self, watch: str | list[str]) -> Tips:
        remote = remote_of(self.instance, self.workspace)
        if isinstance(watch, list):
            return look(remote, self.instance.network, watch=watch)
        return look(remote, self.instance.network, watch="default")

    def bring(self, ref: str, sha: Sha) -> Sha:
        """See `Branches`."""
        if has_commit(self.path, sha):
            return sha
        remote, limits = remote_of(self.instance, self.workspace), fetch_limits(self.instance)
        return Mirror(self.path, self.guard).fetch_one(remote, ref, self.instance.network, limits)

    def move(self, ref: str, new: Sha, *, expected: Sha | None) -> None:
        """See `Branches`."""
        remote = remote_of(self.instance, self.workspace)
        push(
            self.path, remote, ref, new, self.instance.network, expected=expected, guard=self.guard
        )


def _default(tips: Tips, workspace: Workspace) -> tuple[str, Sha | None]:
    ref = workspace.chosen_branch or tips.default_branch
    if ref is None:
        raise NoDefaultBranch(
            "HEAD of the repository names no branch. Choose a default_branch for the workspace."
        )
    return ref, tips.heads.get(ref)


@contextmanager
def held_branches(instance: Instance, workspace: Workspace) -> Iterator[Branches]:
    """Hold the workspace's repository and look at its branches; one change at a time."""
    path = repository_of(instance, workspace)
    # pushes share the lock of an embedded repository, so our own changes need one more among them
    with _in_turn(path), held_repository(instance, workspace) as guard:
        if not is_usable(path):
            rebuild(instance, workspace, guard)
        if workspace.is_embedded:
            yield EmbeddedBranches(instance, workspace, path, guard)
        else:
            Mirror(path, guard).cleanup_leftovers()
            yield RemoteBranches(instance, workspace, path, guard)


@contextmanager
def _in_turn(path: Path) -> Iterator[None]:
    with RepoLock(path.with_name(f"{path.name}.changes")).held(wait=LOCK_WAIT_S):
        yield


def known_tip(
    instance: Instance, workspace: Workspace, ref: str | None = None
) -> tuple[Path, Sha | None]:
    """The repository, and the tip of a branch (the default one) as it was seen last.

    Asks no remote, so that readers cost nothing. None: the branch has no commit yet.
    """
    path = ensure_repository(instance, workspace)
    if workspace.is_embedded:
        tips = local_tips(path)
        tip = tips.heads.get(ref or _default(tips, workspace)[0])
    else:
        tip = _seen_tip(instance, workspace, ref)
    if tip is None and ref is not None:
        raise NotFound(f"There is no branch {printable(short(ref))}.", field="branch")
    return path, tip


def _seen_tip(instance: Instance, workspace: Workspace, ref: str | None) -> Sha | None:
    """The tip of a remote's branch by the last look at it."""
    name = ref or workspace.chosen_branch or workspace.default_branch or ""
    with instance.database.read() as db:
        row = workspaces.find_branch(db, workspace.id, name) if name else None
    if row is not None and row.head_sha is not None and row.state == "live":
        return Sha(row.head_sha)
    if workspace.requested > workspace.done:
        raise NotReadYet("The repository has not been read yet. Repeat this in a moment.")
    if workspace.last_error is not None:
        raise Conflict(
            f"The repository cannot be read: {workspace.last_error.get('message', '')}",
            state=workspace.state.value,
        )
    return None
