"""Read commits and their history.

Promise: a commit is read by our own parser, so odd ones (no author, dates that overflow, unknown
encodings) are values like any other; text is decoded safely and cut at 64 KiB (decision 30).
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pygit2
from pygit2.enums import ObjectType, SortMode

from gitsync.errors import InvalidInput, NotFound
from gitsync.git import child
from gitsync.git.failures import ObjectMissing, RefUnusable, RepositoryCorrupt
from gitsync.git.odb import ObjectStore
from gitsync.model import Sha, Signature
from gitsync.text import storable

_COMMIT_BYTES = 32 * 1024 * 1024
_TAG_BYTES = 1024 * 1024
_FULL = re.compile(r"[0-9a-fA-F]{40}")
_SHORT = re.compile(r"[0-9a-fA-F]{7,40}")
_PERSON = re.compile(
    rb"(?P<name>[^<]*)<(?P<email>.*)>(?:\s*(?P<time>-?\d{1,20}))?(?:\s+(?P<zone>[+-]\d{1,6}))?"
)
_PERSON_TEXT = 1000
_MAX_TIME = 2**63 - 1  # what a database holds; git allows more digits
_NOBODY = Signature(name="", email="", time=0)


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit; `encoding` is what its header names, `signature` only says there is one."""

    sha: Sha
    tree: str
    parents: tuple[Sha, ...]
    author: Signature
    committer: Signature
    message: str
    encoding: str
    signature: Literal["none", "unverified"]

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.strip().partition("\n")[0]


def read_commit(repo: Path, rev: str, *, store: ObjectStore | None = None) -> Commit:
    """The commit named by a full sha or a full ref (`refs/...` or `HEAD`), tags followed."""
    store = store or ObjectStore(repo)
    sha = rev.lower() if _FULL.fullmatch(rev) else _tip(store, rev)
    for _ in range(10):
        kind, _size = store.header(sha)
        if kind == ObjectType.COMMIT:
            return parse_commit(store.read(sha, ObjectType.COMMIT, limit=_COMMIT_BYTES), Sha(sha))
        if kind != ObjectType.TAG:
            break
        target = store.read(sha, ObjectType.TAG, limit=_TAG_BYTES).partition(b"\n")[0]
        sha = target.removeprefix(b"object ").decode("ascii", "replace")
        if not _FULL.fullmatch(sha):
            break
    raise RefUnusable(f"{rev[:200]!r} names an object that is no commit.")


def _tip(store: ObjectStore, ref: str) -> str:
    if ref != "HEAD" and not ref.startswith("refs/"):
        raise InvalidInput(f"{ref[:200]!r} is neither a full sha nor a full ref.", field="rev")
    try:
        return str(store.repository.references[ref].resolve().target)
    except (KeyError, ValueError, pygit2.GitError) as e:
        raise NotFound(f"There is no ref {ref[:200]!r}.") from e


def parse_commit(data: bytes, sha: Sha) -> Commit:
    """The meaning of a raw commit object; only a missing tree makes it unreadable."""
    head, _, message = data.partition(b"\n\n")
    fields: dict[bytes, bytes] = {}
    parents: list[Sha] = []
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        if key == b"parent" and _FULL.fullmatch(value.decode("ascii", "replace")):
            parents.append(Sha(value.decode("ascii")))
        else:
            fields.setdefault(key, value)
    tree = fields.get(b"tree", b"").decode("ascii", "replace")
    if not _FULL.fullmatch(tree):
        raise RepositoryCorrupt(f"Commit {sha} names no tree.")
    encoding = fields.get(b"encoding", b"").decode("ascii", "replace")[:100]
    return Commit(
        sha=sha,
        tree=tree,
        parents=tuple(parents),
        author=_person(fields.get(b"author"), encoding),
        committer=_person(fields.get(b"committer"), encoding),
        message=decoded(message, encoding),
        encoding=storable(encoding),
        signature="unverified" if {b"gpgsig", b"gpgsig-sha256"} & fields.keys() else "none",
    )


def decoded(data: bytes, encoding: str = "", *, limit: int = 64 * 1024) -> str:
    """Commit text as storable text: its own encoding if Python knows it, else UTF-8."""
    data = data[: 4 * limit]
    try:
        # only codecs from bytes to text: "zip", "hex" and the like would be no encoding at all
        known = encoding and codecs.lookup(encoding)._is_text_encoding
        text = data.decode(encoding if known else "utf-8", "replace")
    except (LookupError, ValueError):
        text = data.decode("utf-8", "replace")
    return storable(text, limit=limit)


def _person(raw: bytes | None, encoding: str) -> Signature:
    if not raw:
        return _NOBODY
    found = _PERSON.fullmatch(raw.strip()[:10_000])
    if not found:
        return Signature(name=decoded(raw, encoding, limit=_PERSON_TEXT), email="", time=0)
    zone = int(found["zone"] or 0)
    minutes = (abs(zone) // 100 * 60 + abs(zone) % 100) * (1 if zone >= 0 else -1)
    return Signature(
        name=decoded(found["name"].strip(), encoding, limit=_PERSON_TEXT),
        email=decoded(found["email"], encoding, limit=_PERSON_TEXT),
        time=max(-_MAX_TIME, min(int(found["time"] or 0), _MAX_TIME)),
        offset=minutes,
    )


def has_commit(repo: Path, sha: str) -> bool:
    """True if the object is there and is a commit."""
    try:
        return ObjectStore(repo).header(sha)[0] == ObjectType.COMMIT
    except ObjectMissing:
        return False


def is_ancestor(repo: Path, ancestor: Sha, descendant: Sha) -> bool:
    """True if `descendant` is `ancestor` or comes after it; wrong behind a shallow boundary."""
    if ancestor == descendant:
        return True
    return merge_base(repo, ancestor, descendant) == ancestor


def merge_base(repo: Path, one: Sha, two: Sha) -> Sha | None:
    """The best common ancestor; None if the histories are unrelated."""
    store = ObjectStore(repo)
    for sha in (one, two):
        if store.header(sha)[0] != ObjectType.COMMIT:
            raise RefUnusable(f"{sha} is no commit.")
    try:
        found = store.repository.merge_base(pygit2.Oid(hex=one), pygit2.Oid(hex=two))
        return Sha(str(found)) if found else None
    except (pygit2.GitError, KeyError, ValueError):
        return _merge_base_by_git(store.path, one, two)


def _merge_base_by_git(repo: Path, one: Sha, two: Sha) -> Sha | None:
    """The same by a child: git reads odd commits that libgit2 refuses to parse."""
    ended = child.run([child.git_dir(repo), "merge-base", one, two])
    if ended.code == 1:
        return None
    if not ended.ok:
        raise RepositoryCorrupt(f"The history of {one} cannot be read.")
    return Sha(ended.stdout.decode().strip())


def count_history(repo: Path, sha: Sha, *, limit: int = 1_000_000) -> int:
    """How many commits are reachable, counted up to `limit`."""
    store = ObjectStore(repo)
    count = 0
    try:
        for _ in store.repository.walk(pygit2.Oid(hex=sha), SortMode.NONE):
            count += 1
            if count >= limit:
                break
    except (pygit2.GitError, KeyError, ValueError):
        args = ["rev-list", "--count", f"--max-count={limit}", sha]
        ended = child.run([child.git_dir(store.path), *args])
        if not ended.ok:
            raise RepositoryCorrupt(f"The history of {sha} cannot be read.") from None
        return int(ended.stdout)
    return count


def resolve(repo: Path, text: str) -> Sha:
    """The commit that a full or short (at least 7 digits) sha means in this repository."""
    if not _SHORT.fullmatch(text):
        raise InvalidInput(
            f"{text[:60]!r} is no commit sha of 7 to 40 hexadecimal digits.", field="commit_sha"
        )
    store = ObjectStore(repo)
    ended = child.run([child.git_dir(store.path), "rev-parse", f"--disambiguate={text.lower()}"])
    names = [n for n in ended.stdout.decode("ascii", "replace").split() if _FULL.fullmatch(n)]
    commits = [n for n in names if store.header(n)[0] == ObjectType.COMMIT]
    if not commits:
        raise NotFound(f"There is no commit {text}.")
    if len(commits) > 1:
        raise InvalidInput(
            f"{text} is ambiguous: {len(commits)} commits begin so. Write more digits.",
            field="commit_sha",
        )
    return Sha(commits[0])
