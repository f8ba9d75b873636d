"""What a worker process does with one commit: survey, check, build artifacts.

Runs in the pool (see `gitsync.pool`) under an address-space limit and a deadline.
Promise: reads the repository, writes only into the staging folder, executes nothing from either.
"""

from __future__ import annotations

import functools
import hashlib
import json
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gitsync.artifacts import ArtifactTooLarge, LinkMemory, closure, content_key, write_tar
from gitsync.check import inspect, service_hints
from gitsync.git.objects import Commit, open_commit, read_commit
from gitsync.model import CheckOptions, EntrypointReport, Finding, Report, Severity
from gitsync.tree import Entry, Kind, Tree

_links = LinkMemory()


def options_key(options: CheckOptions) -> str:
    """What identifies check options in a reuse key."""
    return hashlib.sha256(json.dumps(asdict(options), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Survey:
    """What a commit holds, before anything is checked."""

    commit: Commit
    rollouts: tuple[tuple[str, str | None, str], ...]  # name, tree, content key


@dataclass(frozen=True, slots=True)
class Job:
    """One commit to check; `known` are stored assessments that still fit, by rollout name."""

    repo: str
    sha: str
    options: CheckOptions
    staging: str | None  # None: build nothing
    known: dict[str, tuple[EntrypointReport, ...]]
    artifacts: dict[str, tuple[str, int]]  # by content key: digest, size
    keys: dict[str, str]  # by rollout name: content key
    max_artifact_bytes: int
    datasets: frozenset[str] | None = None  # what the workspace has; None: not known
    secrets: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """One rollout's artifact; `staged` is the file if it was built now."""

    name: str
    tree: str | None
    content_key: str
    digest: str | None
    size: int | None
    staged: str | None


@dataclass(frozen=True, slots=True)
class Inspected:
    """The answer for one commit."""

    report: Report
    rollouts: tuple[Built, ...]


def survey(repo: str, sha: str, max_rollouts: int) -> Survey:
    """Read the commit and list what may be a rollout; at most `max_rollouts`."""
    path = Path(repo)
    tree = open_commit(path, sha)
    found: list[tuple[str, str | None, str]] = []
    for entry in list(_rollouts(tree))[:max_rollouts]:
        found.append((entry.name, entry.oid, content_key(tree, entry.name, _links)))
    return Survey(read_commit(path, sha), tuple(found))


def _rollouts(tree: Tree) -> list[Entry]:
    return [e for e in tree.children("rollouts") if e.kind in (Kind.FOLDER, Kind.LINK)]


@dataclass(frozen=True, slots=True)
class KnownReports:
    """Stored assessments, as the checker asks for them."""

    reports: dict[str, tuple[EntrypointReport, ...]]

    def lookup(
        self, rollout: str, rollout_tree_oid: str | None, entrypoint: str
    ) -> EntrypointReport | None:
        """The stored answer; one that speaks of files elsewhere is worked out anew."""
        for report in self.reports.get(rollout, ()):
            prefix = f"rollouts/{rollout}"
            if report.entrypoint == entrypoint and all(
                f.path == prefix or f.path.startswith(prefix + "/") for f in report.findings
            ):
                return report
        return None


def inspect_commit(job: Job) -> Inspected:
    """Check a commit and build the artifacts that are not stored yet."""
    tree = open_commit(Path(job.repo), job.sha)
    report = inspect(tree, options=job.options, known=KnownReports(job.known))
    if not report.refused:
        hints = service_hints(report, tree, datasets=job.datasets, secrets=job.secrets)
        report = _with(report, hints)
    if report.refused or job.staging is None:
        return Inspected(report, ())
    built: list[Built] = []
    extra: list[Finding] = []
    for name in dict.fromkeys(r.rollout for r in report.rollouts):
        entry = tree.entry(f"rollouts/{name}")
        if entry is None or entry.kind not in (Kind.FOLDER, Kind.LINK):
            key = hashlib.sha256(f"{job.sha}/{name}".encode("utf-8", "surrogateescape"))
            built.append(Built(name, None, key.hexdigest(), None, None, None))
            continue
        key_text = job.keys.get(name) or content_key(tree, name, _links)
        if (stored := job.artifacts.get(key_text)) is not None:
            built.append(Built(name, entry.oid, key_text, *stored, None))
            continue
        try:
            digest, size, staged = _build(tree, name, Path(job.staging), job.max_artifact_bytes)
            built.append(Built(name, entry.oid, key_text, digest, size, staged))
        except ArtifactTooLarge as e:
            built.append(Built(name, entry.oid, key_text, None, None, None))
            extra.append(
                Finding(
                    "artifact-too-large",
                    Severity.ERROR,
                    f"rollouts/{name}",
                    1,
                    1,
                    name,
                    f"Rollout {name} is too large for an artifact: {e.message} Move data out of "
                    "the rollout, or ask the operator to raise GITSYNC_MAX_ARTIFACT_MB.",
                )
            )
    return Inspected(_with(report, extra), tuple(built))


def _with(report: Report, more: Iterable[Finding]) -> Report:
    """The report with further findings, in their order."""
    findings = tuple(sorted((*report.findings, *more), key=lambda f: f.order))
    return replace(report, findings=findings)


def _build(tree: Tree, name: str, staging: Path, limit: int) -> tuple[str, int, str]:
    members = closure(tree, name)
    path = staging / f"{secrets.token_hex(8)}.tar"
    try:
        with path.open("wb") as out:
            digest, size = write_tar(tree, members.paths, out, limit=limit)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return digest, size, str(path)


@functools.cache
def warm() -> bool:
    """Load what every job needs, so that the first push does not wait for it."""
    inspect(_Nothing(), options=CheckOptions())
    return True


class _Nothing:
    """A tree without files."""

    def entry(self, path: str) -> Entry | None:
        return None

    def children(self, path: str) -> list[Entry]:
        return []

    def size(self, path: str) -> int:
        raise FileNotFoundError(path)

    def read(self, path: str, *, limit: int) -> bytes:
        raise FileNotFoundError(path)

    def stream(self, path: str):  # type: ignore[no-untyped-def]
        raise FileNotFoundError(path)
