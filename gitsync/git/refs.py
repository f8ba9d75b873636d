"""Refs of a repository on our disk: its tips, pins that keep commits, branches set by us.

Pins live under `refs/gitsync/kept/`, which no client sees (`transfer.hideRefs`).
"""

from __future__ import annotations

from pathlib import Path

import pygit2
from pygit2.enums import ObjectType, ReferenceType

from gitsync.git.failures import ObjectMissing, RepositoryCorrupt
from gitsync.git.lsrefs import Tips
from gitsync.git.mirror import KEPT
from gitsync.git.odb import open_repository
from gitsync.git.remote import is_ref
from gitsync.model import Sha

_HEADS = "refs/heads/"


def local_tips(repo: Path) -> Tips:
    """What a look at an embedded repository shows, without any request."""
    repository = open_repository(repo)
    heads: dict[str, Sha] = {}
    dropped = 0
    for name in repository.references.iterator():
        if not name.name.startswith(_HEADS):
            continue
        if not is_ref(name.name) or name.type != ReferenceType.DIRECT:
            dropped += 1
            continue
        heads[name.name] = Sha(str(name.target))
    head = repository.references.get("HEAD")
    target = str(head.target) if head is not None else None
    if head is not None and head.type == ReferenceType.DIRECT:
        return Tips(None, heads, unborn=False, detached=Sha(str(target)), dropped=dropped)
    return Tips(target, heads, unborn=target not in heads, dropped=dropped)


def is_commit(repo: Path, sha: str) -> bool:
    """True if the object is there and is a commit (a branch may name a tag or a blob)."""
    try:
        found = open_repository(repo).odb.read_header(pygit2.Oid(hex=sha))
    except (KeyError, ValueError, pygit2.GitError):
        return False
    return bool(found[0] == ObjectType.COMMIT)


def pin(repo: Path, sha: str) -> None:
    """Keep a commit and its history, whatever happens to branches; again changes nothing."""
    _set(repo, KEPT + sha, sha)


def set_branch(repo: Path, ref: str, sha: str) -> None:
    """Point a branch (full ref) at a commit, as a restore does."""
    _set(repo, ref, sha)


def _set(repo: Path, ref: str, sha: str) -> None:
    try:
        open_repository(repo).references.create(ref, pygit2.Oid(hex=sha), force=True)
    except KeyError as e:
        raise ObjectMissing(f"Commit {sha} is not in {repo.name}.") from e
    except (pygit2.GitError, ValueError) as e:
        raise RepositoryCorrupt(f"{ref[:100]!r} cannot be set in {repo.name}.") from e


def loose_refs(repo: Path) -> int:
    """How many refs lie in files of their own."""
    return sum(1 for path in (repo / "refs").rglob("*") if path.is_file())
