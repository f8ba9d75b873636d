"""Waiting for the code version that a submit names (decision 38).

Promise: a commit or branch is called unknown only after a look at the repository has ended; a
commit that a watched branch contains becomes a version because a run asks for it.
"""

from __future__ import annotations

import threading

from gitsync.errors import GitSyncError, NotFound
from gitsync.git.commits import resolve as resolve_in_git
from gitsync.instance import Instance
from gitsync.model import Sha
from gitsync.records import Workspace, WorkspaceState
from gitsync.resolve import CommitNotFound, SyncInProgress, expand, full_ref, is_reachable
from gitsync.runs.request import Submission
from gitsync.store import Connection, commits, versions, workspaces
from gitsync.sync import triggers
from gitsync.sync.objects import is_usable, repository_of
from gitsync.sync.publish import publish_one

WAIT_S = 10.0


class _Publishing:
    """Older commits being published because somebody asked: one thread for each, not more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str, str], list[GitSyncError]] = {}

    def ensure(self, instance: Instance, workspace: Workspace, sha: Sha) -> list[GitSyncError]:
        """Where the thread for this commit leaves its failure; it is started if there is none."""
        key = (instance.boot, workspace.id, sha)
        with self._lock:
            if key in self._running:
                return self._running[key]
            outcome = self._running[key] = []

        def work() -> None:
            try:
                publish_one(instance, workspace, sha)
            except GitSyncError as e:
                outcome.append(e)
            finally:
                with self._lock:
                    del self._running[key]
                instance.signals.notify()

        threading.Thread(target=work, name=f"publish-{sha[:12]}", daemon=True).start()
        return outcome


_publishing = _Publishing()


class Awaited:
    """One submit's question whether its code version can be decided on; asked until it can."""

    def __init__(self, instance: Instance, workspace: Workspace, wanted: Submission) -> None:
        self._instance, self._workspace_id, self._wanted = instance, workspace.id, wanted
        self._failure: list[GitSyncError] = []
        self._has_asked = False

    def look(self) -> bool | None:
        """True once `submit` can tell; None while it is worth waiting. Raises what is final."""
        if self._failure:
            error = self._failure[0]
            if error.transient:
                raise error
            raise CommitNotFound(error.message, field="commit_sha") from error
        with self._instance.database.read() as db:
            workspace = workspaces.get_workspace(db, self._workspace_id)
            sha, is_there, is_coming = self._what_is_known(db, workspace)
        if is_there:
            return True
        if is_coming:
            return None
        sha = sha or self._in_repository(workspace)
        if sha is not None and is_reachable(self._instance, workspace, Sha(sha)):
            self._failure = _publishing.ensure(self._instance, workspace, Sha(sha))
            return None
        return self._has_looked(workspace)

    def _what_is_known(self, db: Connection, workspace: Workspace) -> tuple[str | None, bool, bool]:
        """The full sha if one is named and known; whether its version is there, or on its way."""
        text = self._wanted.commit_sha
        if text is None:
            name = workspace.chosen_branch or workspace.default_branch
            if self._wanted.branch is not None:
                name = full_ref(self._wanted.branch)
            row = None if name is None else workspaces.find_branch(db, workspace.id, name)
            return None, row is not None and row.published_sha is not None, False
        try:
            sha = expand(db, workspace.id, text)
        except CommitNotFound:
            return None, False, False
        if versions.find_version(db, workspace.id, sha) is not None:
            return sha, True, False
        found = commits.find_commit(db, workspace.id, sha)
        return sha, False, found is not None and not found.state.is_final

    def _in_repository(self, workspace: Workspace) -> str | None:
        text = self._wanted.commit_sha
        path = repository_of(self._instance, workspace)
        if text is None or not is_usable(path):
            return None
        try:
            return resolve_in_git(path, text)
        except NotFound:
            return None

    def _has_looked(self, workspace: Workspace) -> bool | None:
        """True if a look has ended since we asked, or nobody looks any more."""
        if workspace.state is not WorkspaceState.ACTIVE:
            return True
        if not self._has_asked:
            self._has_asked = True
            if triggers.request_look(self._instance, workspace.id):
                return None
        return True if workspace.requested == workspace.done else None


def not_yet(wanted: Submission) -> SyncInProgress:
    """What is said when the wait was too short."""
    what = wanted.commit_sha or wanted.branch or "the default branch"
    return SyncInProgress(
        f"{what} is still being synced. Nothing was submitted; repeat the command in a moment."
    )
