"""What a look means: which branch is the default, which are watched, what moved.

Pure decisions over values; full refs everywhere, compared whole, so that a branch called `HEAD`, a
tag named like a branch or `refs/heads/refs/heads/main` is never mistaken for another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gitsync.git.lsrefs import Tips
from gitsync.model import Sha
from gitsync.records import Branch, Workspace

_USUAL = ("refs/heads/main", "refs/heads/master")


@dataclass(frozen=True, slots=True)
class Move:
    """One branch whose tip is not the one seen last; `to_sha` None means it is gone."""

    name: str
    from_sha: str | None
    to_sha: Sha | None


@dataclass(frozen=True, slots=True)
class Picture:
    """The remote as one look shows it, reduced to what the workspace watches."""

    default_branch: str | None
    watched: Mapping[str, Sha]
    moves: tuple[Move, ...]
    unwatched: tuple[str, ...]  # live rows that are still there but no longer watched
    too_many: int  # branches beyond the limit that are left out


def short(ref: str) -> str:
    """A branch as people write it."""
    return ref.removeprefix("refs/heads/")


def default_branch(workspace: Workspace, tips: Tips) -> str | None:
    """The remote's default branch: what its HEAD names; with a detached HEAD the last known one,
    then the usual names, then the only branch there is. A person's choice wins.
    """
    if workspace.chosen_branch is not None:
        return workspace.chosen_branch
    if tips.default_branch is not None:
        return tips.default_branch
    if workspace.default_branch in tips.heads:
        return workspace.default_branch
    for name in _USUAL:
        if name in tips.heads:
            return name
    return next(iter(tips.heads)) if len(tips.heads) == 1 else None


def picture(workspace: Workspace, tips: Tips, rows: Sequence[Branch], *, most: int) -> Picture:
    """Compare a look with the branches as they were seen last."""
    default = default_branch(workspace, tips)
    names = [default] if default in tips.heads else []
    if workspace.watch == "all":
        names += [name for name in sorted(tips.heads) if name != default]
    watched = {name: tips.heads[name] for name in names[:most] if name is not None}
    live = {row.name: row for row in rows if row.state == "live"}
    moves = [
        Move(name, live[name].head_sha if name in live else None, tip)
        for name, tip in watched.items()
        if name not in live or live[name].head_sha != tip
    ]
    # a look at the default branch alone says nothing of the others
    sees_all = workspace.watch == "all" or workspace.is_embedded
    absent = [row for row in live.values() if row.name not in watched]
    gone = [
        row for row in absent if row.name not in tips.heads and (sees_all or row.name == default)
    ]
    moves += [Move(row.name, row.head_sha, None) for row in gone]
    unwatched = tuple(row.name for row in absent if row not in gone)
    return Picture(default, watched, tuple(moves), unwatched, max(0, len(names) - most))
