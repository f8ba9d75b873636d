"""Write commits without a work tree, and move branches only from where they were seen.

Promise: the same arguments give the same commit, byte for byte; what is not changed keeps its
object and mode; a branch is moved forward from its expected old tip or not at all, never forced,
and no hook of ours runs. Objects are durable when their commit is returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from pygit2.enums import ObjectType

from gitsync.errors import InvalidInput
from gitsync.git import child
from gitsync.git.child import ChildLimits, Guard
from gitsync.git.commits import is_ancestor, read_commit
from gitsync.git.failure_text import failure
from gitsync.git.failures import PushRefused, RefMoved
from gitsync.git.lock import RepoLock
from gitsync.git.odb import ObjectStore, parse_tree
from gitsync.git.packing import NewPack
from gitsync.git.remote import Network, Remote, access, is_ref
from gitsync.model import ZERO_SHA, Sha, Signature
from gitsync.text import printable, storable
from gitsync.tree import Entry, Kind

_TREE_BYTES = 64 * 1024 * 1024
_LOCK_SECONDS = 30.0
_DOTGIT = {".git", "git~1"}


@dataclass(frozen=True, slots=True)
class Put:
    """What a path is to hold; for a link, `content` is its target."""

    content: bytes
    kind: Kind = Kind.FILE


def write_commit(
    repo: Path,
    *,
    base: Sha | None,
    changes: Mapping[str, Put | None],
    message: str,
    author: Signature,
    committer: Signature | None = None,
) -> Sha:
    """Write one commit on top of `base` and return its sha; None in `changes` deletes a path.

    A folder is deleted with everything in it. A file never silently replaces a folder, nor a folder
    a file: delete the old path in the same changes. No ref is moved. The caller holds the
    repository's lock, or nobody else knows of the repository yet.
    """
    store, pack = ObjectStore(repo), NewPack(repo)
    root = read_commit(repo, base, store=store).tree if base else None
    plan = _Folder()
    for path, put in changes.items():
        plan.add(path, _segments(path), put)
    tree = _write_tree(store, pack, root, plan, "") or pack.add(ObjectType.TREE, b"")
    who = committer or author
    text = storable(message).strip("\n") + "\n"
    lines = [f"tree {tree}", *([f"parent {base}"] if base else [])]
    lines += [f"author {_person(author)}", f"committer {_person(who)}", "", text]
    sha = Sha(pack.add(ObjectType.COMMIT, "\n".join(lines).encode()))
    pack.store()
    return sha


def _segments(path: str) -> list[str]:
    parts = path.split("/")
    for part in parts:
        if part in ("", ".", "..") or part.lower() in _DOTGIT or "\0" in part:
            raise InvalidInput(
                f"{path[:200]!r} is no path of a file in a repository.", field="path"
            )
    return parts


class _Folder:
    """The changes below one folder."""

    def __init__(self) -> None:
        self.deleted: set[str] = set()
        self.put: dict[str, Put] = {}
        self.inner: dict[str, _Folder] = {}

    def add(self, path: str, parts: list[str], put: Put | None) -> None:
        name, *rest = parts
        if rest:
            if name in self.put:
                raise InvalidInput(f"{path[:200]!r} is below a path that is a file.", field="path")
            self.inner.setdefault(name, _Folder()).add(path, rest, put)
        elif put is None:
            self.deleted.add(name)
        else:
            if name in self.inner and self.inner[name].writes:
                raise InvalidInput(f"{path[:200]!r} is both a file and a folder.", field="path")
            if put.kind not in (Kind.FILE, Kind.EXECUTABLE, Kind.LINK):
                raise InvalidInput(f"{path[:200]!r} is to be no file and no link.", field="path")
            self.put[name] = put

    @property
    def writes(self) -> bool:
        """True if something is put below here."""
        return bool(self.put) or any(f.writes for f in self.inner.values())


def _write_tree(
    store: ObjectStore, pack: NewPack, old: str | None, plan: _Folder, at: str
) -> str | None:
    """The new tree of one folder; None if nothing is left in it."""
    entries: dict[str, Entry] = {}
    if old is not None:
        data = store.read(old, ObjectType.TREE, limit=_TREE_BYTES)
        entries = {e.name: e for e in parse_tree(data, old)}
    for name in plan.deleted:
        entries.pop(name, None)
    for name, inner in plan.inner.items():
        there = entries.get(name)
        if there is not None and there.kind is not Kind.FOLDER:
            if not inner.writes:
                continue
            raise InvalidInput(f"{at + name!r} is a file, not a folder.", field="path")
        below = _write_tree(store, pack, there.oid if there else None, inner, f"{at}{name}/")
        if below is None:
            entries.pop(name, None)
        else:
            entries[name] = Entry(name, Kind.FOLDER, below, 0o40000)
    for name, put in plan.put.items():
        there = entries.get(name)
        if there is not None and there.kind is Kind.FOLDER:
            raise InvalidInput(f"{at + name!r} is a folder, not a file.", field="path")
        oid = pack.add(ObjectType.BLOB, put.content)
        entries[name] = Entry(name, put.kind, oid, int(put.kind.value, 8))
    if not entries:
        return None
    rows = [
        b"%o %s\0%s" % (e.mode, _raw(e.name), bytes.fromhex(e.oid or ""))
        for e in sorted(entries.values(), key=_order)
    ]
    return pack.add(ObjectType.TREE, b"".join(rows))


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _order(entry: Entry) -> bytes:
    return _raw(entry.name) + (b"/" if entry.kind is Kind.FOLDER else b"")


def _person(who: Signature) -> str:
    clean = {ord(c): None for c in "<>\n\0"}
    name, email = who.name.translate(clean).strip(), who.email.translate(clean).strip()
    sign, minutes = "-" if who.offset < 0 else "+", abs(who.offset)
    return f"{name or 'gitsync'} <{email}> {who.time} {sign}{minutes // 60:02}{minutes % 60:02}"


def _must_follow(repo: Path, ref: str, new: Sha, expected: Sha | None) -> None:
    if not is_ref(ref):
        raise InvalidInput(f"{ref[:200]!r} is no full branch ref.", field="branch")
    if expected is not None and not is_ancestor(repo, expected, new):
        raise InvalidInput(f"{new} does not follow {expected}; branches are not forced.")


def move_branch(
    repo: Path, ref: str, new: Sha, *, expected: Sha | None, guard: Guard | None = None
) -> None:
    """Move a branch of an embedded repository; `RefMoved` unless its tip is `expected`.

    `expected=None` means that the branch must not exist yet.
    """
    _must_follow(repo, ref, new, expected)
    guard = guard or Guard()
    with ExitStack() as stack:
        if guard.lock_fd is None:
            # the lock file that git makes must not look like a leftover to a push that begins
            fd = stack.enter_context(RepoLock(repo).held(wait=_LOCK_SECONDS, shared=True))
            guard = replace(guard, lock_fd=fd)
        ended = child.run(
            [child.git_dir(repo), "update-ref", "--no-deref", ref, new, expected or ZERO_SHA],
            config=[("core.logAllRefUpdates", "true")],
            env={"GIT_COMMITTER_NAME": "gitsync", "GIT_COMMITTER_EMAIL": "gitsync@localhost"},
            guard=guard,
        )
    if not ended.ok:
        raise failure(ended, limits=ChildLimits(), action="update")


def push(
    repo: Path,
    remote: Remote,
    ref: str,
    new: Sha,
    network: Network,
    *,
    expected: Sha | None,
    limits: ChildLimits | None = None,
    guard: Guard | None = None,
) -> None:
    """Push a commit to a branch of a remote; `RefMoved` unless the tip there is `expected`.

    Repeating a push that arrived, because its answer was lost, succeeds and changes nothing.
    """
    _must_follow(repo, ref, new, expected)
    limits = limits or ChildLimits(seconds=120)
    with access(remote, network) as way:
        ended = child.run(
            [
                child.git_dir(repo),
                "push",
                "--porcelain",
                "--no-verify",
                "--no-recurse-submodules",
                # the lease makes the remote compare the old tip; that `new` follows it was checked
                f"--force-with-lease={ref}:{expected or ''}",
                "--",
                remote.url,
                f"{new}:{ref}",
            ],
            limits=limits,
            config=[*way.config, ("push.gpgSign", "false"), ("pack.threads", "1")],
            env=way.env,
            guard=guard,
            pass_fds=way.fds,
        )
    if ended.ok:
        return
    for line in ended.stdout.decode("utf-8", "replace").splitlines():
        if line.startswith("!\t"):
            _refused(line, ref)
    secrets = (remote.credential.secret,) if remote.credential else ()
    raise failure(ended, limits=limits, action="push", secrets=secrets)


def _refused(line: str, ref: str) -> None:
    """Raise what a rejected line of `--porcelain` says."""
    why = printable(line.rpartition("\t")[2], limit=300)
    if why.startswith("[rejected]") or "failed to update ref" in why or "cannot lock ref" in why:
        raise RefMoved(f"{ref} moved: {why}.")
    raise PushRefused(f"The remote refuses {ref}: {why}.")
