"""A workspace's bare mirror of an external remote: fetched, kept small, rebuildable.

Promise: only the watched branches are fetched, every object passes git's own checks, and the remote
gets no influence on names on our disk: tips are stored under hashes of their full refs. A mirror is
a cache; a damaged one raises `RepositoryCorrupt` and is rebuilt from packs and the remote.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pygit2
from pygit2.enums import ObjectType

from gitsync.git import child
from gitsync.git.child import MIB, ChildLimits, Ended, Guard
from gitsync.git.failure_text import failure
from gitsync.git.failures import (
    GitFailure,
    LimitHit,
    ObjectMissing,
    RefMissing,
    RefUnusable,
    RemoteTimeout,
    RepositoryCorrupt,
)
from gitsync.git.fsck import LENIENT, NAMES, settings
from gitsync.git.odb import ObjectStore, open_repository
from gitsync.git.remote import Network, Remote, access, is_ref
from gitsync.git.storage import make_bare, remove_leftovers
from gitsync.model import Sha

TIPS = "refs/gitsync/tips/"
KEPT = "refs/gitsync/kept/"
_MUCH = MIB


def _nowhere(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What one fetch may use.

    A first fetch that is too large or too slow for a limit is tried once more, `depth` commits
    deep, with the same limits; `depth=0` forbids that.
    """

    seconds: float = 300.0
    memory: int = 700 * MIB
    pack_bytes: int = 2048 * MIB
    depth: int = 50

    @property
    def child(self) -> ChildLimits:
        """The same for the child process."""
        return ChildLimits(seconds=self.seconds, memory=self.memory, file_bytes=self.pack_bytes)


@dataclass(frozen=True, slots=True)
class Arrived:
    """The one pack that a fetch brought: what its tips reach and `known` commits do not."""

    pack: Path
    size: int
    known: frozenset[str]


@dataclass(frozen=True, slots=True)
class FetchResult:
    """What is in the mirror now; behind a shallow boundary ancestry answers are wrong."""

    tips: Mapping[str, Sha]
    shallow: bool
    seconds: float
    arrived: Arrived | None = None

    @property
    def bytes(self) -> int:
        """Bytes of the pack that arrived."""
        return 0 if self.arrived is None else self.arrived.size


@dataclass(slots=True)
class Mirror:
    """The mirror at `path`; the caller holds its `RepoLock` and hands the descriptor in `guard`."""

    path: Path
    guard: Guard = field(default_factory=Guard)

    def ensure(self) -> bool:
        """Make the repository if there is none; True if it was made."""
        return make_bare(self.path)

    def cleanup_leftovers(self) -> int:
        """Remove what a killed git left; call it when the turn is taken."""
        return remove_leftovers(self.path) if self.path.exists() else 0

    def remove(self) -> None:
        """Delete the whole mirror."""
        shutil.rmtree(self.path, ignore_errors=True)

    def is_shallow(self) -> bool:
        """True if some history was cut off."""
        file = self.path / "shallow"
        return file.exists() and file.stat().st_size > 0

    def tip(self, ref: str) -> Sha | None:
        """The last fetched tip of a branch."""
        found = open_repository(self.path).references.get(_tip_name(ref))
        return Sha(str(found.target)) if found else None

    def fetch(
        self,
        remote: Remote,
        refs: Sequence[str],
        network: Network,
        limits: FetchLimits | None = None,
        *,
        at: Callable[[str], None] = _nowhere,
    ) -> FetchResult:
        """Bring exactly these branches (full refs), all at once; other stored tips are dropped."""
        limits = limits or FetchLimits()
        for ref in refs:
            if not is_ref(ref):
                raise RefUnusable(f"{ref[:200]!r} is no full branch ref.")
        begun = time.monotonic()
        at("fetch.start")
        packs, known = self._packs(), self._known()
        if refs:
            self._fetch(remote, refs, network, limits)
        at("fetch.stored")
        tips = self._settle(refs)
        fresh = [(path, size) for path, size in self._packs().items() if path not in packs]
        return FetchResult(
            tips=tips,
            shallow=self.is_shallow(),
            seconds=time.monotonic() - begun,
            arrived=Arrived(*fresh[0], known) if len(fresh) == 1 else None,
        )

    def fetch_one(
        self, remote: Remote, ref: str, network: Network, limits: FetchLimits | None = None
    ) -> Sha:
        """Bring one branch and leave the other stored tips alone; its tip now."""
        if not is_ref(ref):
            raise RefUnusable(f"{ref[:200]!r} is no full branch ref.")
        self._fetch(remote, [ref], network, limits or FetchLimits())
        return self._arrived(ObjectStore(self.path), ref)

    def _fetch(
        self, remote: Remote, refs: Sequence[str], network: Network, limits: FetchLimits
    ) -> None:
        ended = self._run_fetch(remote, refs, network, limits, ())
        if ended.ok:
            return
        arrived = self._arriving()
        why = self._failure(ended, remote, limits, arrived)
        # only a first fetch can be too large for its history alone
        too_much = arrived > _MUCH and isinstance(why, LimitHit | RemoteTimeout)
        if not too_much or not limits.depth or any(self.tip(ref) for ref in refs):
            raise why
        ended = self._run_fetch(remote, refs, network, limits, (f"--depth={limits.depth}",))
        if not ended.ok:
            raise self._failure(ended, remote, limits, self._arriving())

    def _arriving(self) -> int:
        """Bytes of the largest half pack; a failed fetch leaves it, and it is removed here."""
        half = [f.stat().st_size for f in (self.path / "objects/pack").glob("tmp_pack_*")]
        self.cleanup_leftovers()
        return max(half, default=0)

    def _run_fetch(
        self,
        remote: Remote,
        refs: Sequence[str],
        network: Network,
        limits: FetchLimits,
        extra: tuple[str, ...],
    ) -> Ended:
        with access(remote, network) as way:
            return child.run(
                [
                    child.git_dir(self.path),
                    "fetch",
                    "--quiet",
                    "--no-progress",
                    "--no-tags",
                    "--no-write-fetch-head",
                    "--no-auto-maintenance",
                    "--no-recurse-submodules",
                    "--no-show-forced-updates",
                    "--update-shallow",
                    "--refmap=",
                    "--stdin",
                    *extra,
                    "--",
                    remote.url,
                ],
                limits=limits.child,
                config=[
                    *way.config,
                    ("transfer.fsckObjects", "true"),
                    ("fetch.unpackLimit", "1"),
                    ("core.bigFileThreshold", "1m"),
                    ("pack.threads", "1"),
                    *settings("fetch", (*LENIENT, *NAMES)),
                ],
                env=way.env,
                guard=self.guard,
                pass_fds=way.fds,
                stdin="".join(f"+{r}:{_tip_name(r)}\n" for r in refs).encode(
                    "utf-8", "surrogateescape"
                ),
            )

    def _failure(
        self, ended: Ended, remote: Remote, limits: FetchLimits, arrived: int
    ) -> GitFailure:
        if arrived >= limits.pack_bytes:
            # the signal that ended index-pack is not in git's words
            return LimitHit(
                f"The objects are larger than {limits.pack_bytes} bytes.", limit="bytes"
            )
        secrets = (remote.credential.secret,) if remote.credential else ()
        return failure(ended, limits=limits.child, secrets=secrets)

    def _settle(self, refs: Sequence[str]) -> dict[str, Sha]:
        """Read the tips that were fetched; forget branches that are no longer watched."""
        store = ObjectStore(self.path)
        wanted = {_tip_name(ref): ref for ref in refs}
        tips: dict[str, Sha] = {}
        for name in list(store.repository.references):
            if name.startswith(TIPS) and name not in wanted:
                store.repository.references.delete(name)
        for ref in wanted.values():
            tips[ref] = self._arrived(store, ref)
        return tips

    def _arrived(self, store: ObjectStore, ref: str) -> Sha:
        """The stored tip of a branch that was fetched; it must be a commit."""
        name = _tip_name(ref)
        found = store.repository.references.get(name)
        if found is None:
            raise RefMissing(f"{ref[:200]!r} did not arrive.")
        sha = Sha(str(found.target))
        if store.header(sha)[0] != ObjectType.COMMIT:
            store.repository.references.delete(name)
            raise RefUnusable(f"{ref[:200]!r} names an object that is no commit.")
        return sha

    def _packs(self) -> dict[Path, int]:
        """All packs and their bytes."""
        entries = os.scandir(self.path / "objects/pack")
        return {Path(f.path): f.stat().st_size for f in entries if f.name.endswith(".pack")}

    def _known(self) -> frozenset[str]:
        """The commits that a fetch tells the remote we have."""
        references = open_repository(self.path).references
        return frozenset(str(ref.target) for ref in references.iterator())

    # -- what must stay
    def keep(self, shas: Iterable[str]) -> None:
        """Pin exactly these commits, apart from those that a stored tip already reaches."""
        repository = open_repository(self.path)
        names = [n for n in repository.references if n.startswith((TIPS, KEPT))]
        tips = [str(repository.references[n].target) for n in names if n.startswith(TIPS)]
        loose = self._unreached({str(s) for s in shas}, tips)
        for name in names:
            if name.startswith(KEPT) and name.removeprefix(KEPT) not in loose:
                repository.references.delete(name)
        for sha in loose:
            try:
                repository.references.create(KEPT + sha, pygit2.Oid(hex=sha), force=True)
            except (pygit2.GitError, KeyError) as e:
                raise ObjectMissing(f"Commit {sha} is not in {self.path.name}.") from e

    def _unreached(self, shas: set[str], tips: list[str]) -> set[str]:
        """Those that no tip reaches: one walk through the history, which ends with the last."""
        left = set(shas) - set(tips)
        if not left or not tips:
            return left
        args = [child.git_dir(self.path), "rev-list", "--stdin"]
        stdin = "".join(f"{tip}\n" for tip in tips).encode()
        rest = b""
        for piece in child.stream(args, guard=self.guard, stdin=stdin):
            *lines, rest = (rest + piece).split(b"\n")
            left.difference_update(line.decode("ascii") for line in lines)
            if not left:
                break
        return left

    def pack_refs(self) -> None:
        """Put all refs into one file: a fetch with many loose refs is slow (decision 7)."""
        self._maintain(["pack-refs", "--all", "--prune"], seconds=120)

    def gc(self, *, prune: str = "2.weeks.ago", seconds: float = 900) -> None:
        """Repack and drop old unreachable objects; only inside the workspace's turn."""
        self._maintain(["gc", "--quiet", f"--prune={prune}"], seconds=seconds)

    def loose_weight(self) -> int:
        """How many packs there are; above some tens, `gc` pays."""
        return sum(1 for _ in (self.path / "objects/pack").glob("*.pack"))

    def check(self) -> None:
        """Raise `RepositoryCorrupt` unless everything that tips and pins reach is there."""
        self._maintain(["fsck", "--connectivity-only", "--no-dangling", "--no-progress"], 600)

    def _maintain(self, args: list[str], seconds: float) -> None:
        ended = child.run(
            [child.git_dir(self.path), *args],
            limits=ChildLimits(seconds=seconds),
            config=[("pack.threads", "1"), ("pack.windowMemory", "128m")],
            guard=self.guard,
        )
        if not ended.ok:
            if ended.timed_out:
                raise RemoteTimeout(f"git {args[0]} did not end within {seconds:g} s.")
            raise RepositoryCorrupt(
                f"git {args[0]} failed in {self.path.name}: {ended.stderr.strip()[-300:]!r}"
            )

    # -- packs beside the artifacts
    def export_pack(self, new: Iterable[str], have: Iterable[str] = ()) -> Iterator[bytes]:
        """A pack of what `new` commits reach and `have` do not, in pieces."""
        return export_pack(self.path, new, have, guard=self.guard)

    def rebuild(self, packs: Iterable[Iterable[bytes]]) -> None:
        """Add stored packs (in the order they were exported) to this mirror."""
        self.ensure()
        for pack in packs:
            import_pack(self.path, pack, guard=self.guard)


def _tip_name(ref: str) -> str:
    digest = hashlib.sha256(ref.encode("utf-8", "surrogateescape")).hexdigest()
    return TIPS + digest[:40]


def export_pack(
    repo: Path, new: Iterable[str], have: Iterable[str] = (), *, guard: Guard | None = None
) -> Iterator[bytes]:
    """A self-contained-given-`have` pack of commits of a repository, in pieces."""
    revs = [*new, *(f"^{sha}" for sha in have)]
    return child.stream(
        [child.git_dir(repo), "pack-objects", "--stdout", "--revs", "-q", "--delta-base-offset"],
        config=[("pack.threads", "1"), ("pack.windowMemory", "128m")],
        guard=guard,
        stdin="".join(f"{rev}\n" for rev in revs).encode(),
    )


def import_pack(repo: Path, pack: Iterable[bytes], *, guard: Guard | None = None) -> None:
    """Store a pack; objects it refers to must be there."""
    scratch = repo / "objects/pack" / f"tmp_import_{os.getpid()}"
    try:
        with scratch.open("wb") as file:
            for piece in pack:
                file.write(piece)
        with scratch.open("rb") as file:
            ended = child.run(
                [child.git_dir(repo), "index-pack", "--stdin", "--fix-thin", "--strict"],
                guard=guard,
                stdin_file=file,
            )
        if not ended.ok:
            raise RepositoryCorrupt(f"A stored pack is damaged: {ended.stderr.strip()[-300:]!r}")
    finally:
        scratch.unlink(missing_ok=True)
