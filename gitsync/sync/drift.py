"""Does an embedded repository show something else than the rows say?"""

from __future__ import annotations

from collections.abc import Sequence

from gitsync.errors import GitSyncError
from gitsync.git.refs import local_tips
from gitsync.instance import Instance
from gitsync.records import Branch, Workspace
from gitsync.sync.moves import picture
from gitsync.sync.objects import is_usable, repository_of


def drifted(instance: Instance, workspace: Workspace, rows: Sequence[Branch]) -> bool:
    """True if a turn would find something to do (or a repository to rebuild)."""
    path = repository_of(instance, workspace)
    if not is_usable(path):
        return any(row.published_sha is not None for row in rows)
    try:
        seen = picture(
            workspace, local_tips(path), rows, most=instance.settings.max_watched_branches
        )
    except GitSyncError:
        return True
    return bool(seen.moves or seen.unwatched)
