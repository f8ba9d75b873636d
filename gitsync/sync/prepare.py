"""Everything a version needs before its transaction: checked, built, stored.

Promise: when `prepare` returns, every artifact and pack the version will refer to is durable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gitsync.artifacts.bucket import artifact_key
from gitsync.check import fingerprint
from gitsync.check.secrets import redacted
from gitsync.errors import GitSyncError
from gitsync.git.child import Guard
from gitsync.git.commits import Commit, read_commit
from gitsync.git.mirror import Arrived
from gitsync.inspection import Inspected, Job, Survey, inspect_commit, options_key, survey
from gitsync.instance import MIB, Instance
from gitsync.model import (
    CheckOptions,
    EntrypointReport,
    Finding,
    Report,
    Severity,
    Sha,
    Verdict,
)
from gitsync.pool import JobFailed
from gitsync.records import Assessment, Outcome
from gitsync.store import Connection, datasets, objects, secrets, versions
from gitsync.store.versions import NewRollout
from gitsync.sync.objects import store_pack
from gitsync.sync.work import Work
from gitsync.text import printable, storable

MAX_ROLLOUTS = 10_000
_SECRET_CODES = {"committed-secret"}  # warns loudly, publishes all the same (decision 11)


class ArtifactVanished(GitSyncError):
    """An artifact that was to be reused is being deleted; the next turn builds it again."""

    code = "ARTIFACT_VANISHED"
    transient = True


@dataclass(slots=True)
class Prepared:
    """A commit that can be published, or must be refused."""

    sha: Sha
    commit: Commit
    report: Report
    rollouts: tuple[NewRollout, ...]
    options_key: str
    fingerprint: str
    shallow: tuple[str, ...] = ()
    is_shallow: bool = False
    uploaded: dict[str, int] = field(default_factory=dict)
    pack: tuple[str, list[str], int] | None = None

    @property
    def is_refused(self) -> bool:
        """True if the commit becomes no version."""
        return self.report.refused

    @property
    def outcome(self) -> Outcome:
        """Refused, or published with or without rollouts that cannot run."""
        if self.is_refused:
            return Outcome.REFUSED
        bad = any(
            not rollout.runnable or any(r.verdict is not Verdict.OK for r in rollout.reports)
            for rollout in self.rollouts
        )
        return Outcome.PUBLISHED_WITH_ERRORS if bad else Outcome.PUBLISHED

    @property
    def reason(self) -> str | None:
        """One sentence: the first finding that matters."""
        if self.outcome is Outcome.PUBLISHED:
            return None
        inner = [f for rollout in self.rollouts for r in rollout.reports for f in r.findings]
        bad = [
            f
            for f in (*inner, *self.report.findings)
            if f.severity in (Severity.ERROR, Severity.UNRESOLVED)
        ]
        first = min(bad, key=lambda f: f.order, default=None)
        if first is None:
            return "A rollout cannot run."
        return printable(f"{first.path}:{first.line} {first.code}: {first.message}", limit=500)

    def findings_json(self) -> list[dict[str, Any]]:
        """All findings, errors first, for the sync."""
        inner = [f for rollout in self.rollouts for r in rollout.reports for f in r.findings]
        rank = list(Severity)
        everything = sorted(
            {*inner, *self.report.findings}, key=lambda f: (rank.index(f.severity), f.order)
        )
        return [f.to_json() for f in everything]

    def version_values(self, commit: Commit) -> dict[str, Any]:
        """The columns of the version row."""
        return {
            "commit_sha": str(self.sha),
            "tree": commit.tree,
            "parents": [str(parent) for parent in commit.parents],
            "author": _person(commit.author),
            "committer": _person(commit.committer),
            "message": storable(redacted(commit.message)),
            "committed_at": max(-(2**62), min(2**62, commit.committer.time)),
            "signature": commit.signature,
            "shallow": self.is_shallow,
            "configs": _redacted(list(self.report.configs)),
            "skills": list(self.report.skills),
            "findings": [f.to_json() for f in self.report.findings],
            "fingerprint": self.fingerprint,
        }

    def check_artifacts(self, db: Connection) -> None:
        """Inside the transaction: what is reused must still be live (decision 5)."""
        reused = {r.digest for r in self.rollouts if r.digest is not None} - set(self.uploaded)
        states = objects.artifact_states(db, sorted(d for d in reused if d is not None))
        for digest in reused:
            if digest is not None and states.get(digest) != objects.LIVE:
                raise ArtifactVanished("A stored artifact is being removed; it is built again.")


def _redacted(value: Any) -> Any:
    """A JSON value without credentials: people commit them, rows and answers never repeat them."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, list):
        return [_redacted(item) for item in value]
    if isinstance(value, dict):
        return {redacted(key): _redacted(item) for key, item in value.items()}
    return value


def _person(signature: Any) -> dict[str, Any]:
    values = asdict(signature)
    values["name"], values["email"] = storable(values["name"]), storable(values["email"])
    values["time"] = max(-(2**62), min(2**62, values["time"]))
    return values


def prepare(
    work: Work,
    sha: Sha,
    path: Path,
    guard: Guard,
    *,
    shallow: bool,
    reuse: bool = True,
    arrived: Arrived | None = None,
) -> Prepared:
    """Check a commit, build and store what is missing."""
    instance = work.instance
    options = options_of(work.workspace.settings)
    try:
        surveyed, inspected = work.steps.timed(
            "check", lambda: _inspect(work, sha, path, options, reuse=reuse)
        )
    except JobFailed as e:
        return _unreadable(work, sha, path, e, options)
    prepared = Prepared(
        sha=sha,
        commit=surveyed.commit,
        report=inspected.report,
        rollouts=_rollouts(inspected),
        options_key=options_key(options),
        fingerprint=fingerprint(),
        is_shallow=shallow,
        shallow=_shallow_lines(path),
    )
    if prepared.is_refused:
        return prepared
    instance.at("artifacts.built")
    work.steps.timed("store", lambda: _upload(work, inspected, prepared))
    instance.at("artifacts.stored")
    if not work.workspace.is_embedded:
        prepared.pack = work.steps.timed(
            "pack",
            lambda: store_pack(
                instance,
                work.workspace,
                sha,
                shallow=prepared.shallow,
                guard=guard,
                arrived=arrived,
            ),
        )
        instance.at("pack.stored")
    return prepared


def options_of(settings: dict[str, Any]) -> CheckOptions:
    """Check options from the settings of a workspace."""
    return CheckOptions(accept_harbor_native=bool(settings.get("accept_harbor_native", False)))


def _inspect(
    work: Work, sha: Sha, path: Path, options: CheckOptions, *, reuse: bool
) -> tuple[Survey, Inspected]:
    instance = work.instance
    surveyed = instance.pool.run(survey, str(path), str(sha), MAX_ROLLOUTS)
    keys = {name: key for name, _, key in surveyed.rollouts}
    with instance.database.read() as db:
        stored = objects.known_digests(db, keys.values())
        known_datasets = datasets.names_of(db, work.workspace.id)
        known_secrets = secrets.names_of(db, work.workspace.id)
    known = known_reports(instance, work.workspace.id, keys, options) if reuse else {}
    instance.at("inspect.begin")
    inspected = instance.pool.run(
        inspect_commit,
        Job(
            repo=str(path),
            sha=str(sha),
            options=options,
            staging=str(instance.staging),
            known=known,
            artifacts=stored,
            keys=keys,
            max_artifact_bytes=instance.settings.max_artifact_mb * MIB,
            datasets=known_datasets,
            secrets=known_secrets,
        ),
    )
    return surveyed, inspected


def known_reports(
    instance: Instance, workspace_id: str, keys: Mapping[str, str], options: CheckOptions
) -> dict[str, tuple[EntrypointReport, ...]]:
    """By rollout name what the present checker said of equal content; `keys` are content keys."""
    with instance.database.read() as db:
        known = versions.known_assessments(
            db,
            workspace_id,
            keys.values(),
            options=options_key(options),
            fingerprint=fingerprint(),
        )
    by_key: dict[str, list[Assessment]] = {}
    for (key, _), assessment in known.items():
        by_key.setdefault(key, []).append(assessment)
    return {
        name: tuple(_report(name, a) for a in by_key[key])
        for name, key in keys.items()
        if key in by_key
    }


def _report(rollout: str, assessment: Assessment) -> EntrypointReport:
    return EntrypointReport(
        rollout=rollout,
        entrypoint=assessment.entrypoint,
        verdict=Verdict(assessment.verdict),
        workflow=assessment.workflow,
        grader=assessment.grader,
        findings=tuple(Finding.from_json(f) for f in assessment.findings),
    )


def _rollouts(inspected: Inspected) -> tuple[NewRollout, ...]:
    reports: dict[str, list[EntrypointReport]] = {}
    for report in inspected.report.rollouts:
        reports.setdefault(report.rollout, []).append(report)
    errors = [
        f.path
        for f in inspected.report.findings
        if f.severity is Severity.ERROR and f.code not in _SECRET_CODES
    ]
    return tuple(
        NewRollout(
            name=built.name,
            tree=built.tree,
            content_key=built.content_key,
            digest=built.digest,
            size=built.size,
            runnable=built.digest is not None and not _has_error(built.name, errors),
            reports=tuple(reports.get(built.name, ())),
        )
        for built in inspected.rollouts
    )


def _has_error(name: str, paths: Sequence[str]) -> bool:
    folder = f"rollouts/{name}"
    return any(path == folder or path.startswith(folder + "/") for path in paths)


def _upload(work: Work, inspected: Inspected, prepared: Prepared) -> None:
    instance = work.instance
    fresh = [b for b in inspected.rollouts if b.staged is not None and b.digest is not None]
    with instance.database.read() as db:
        states = objects.artifact_states(db, [b.digest for b in fresh if b.digest is not None])
    for built in fresh:
        if built.staged is None or built.digest is None or built.size is None:
            continue
        staged = Path(built.staged)
        try:
            if states.get(built.digest) != objects.LIVE and built.digest not in prepared.uploaded:
                instance.bucket.put_file(artifact_key(built.digest), staged)
                prepared.uploaded[built.digest] = built.size
        finally:
            staged.unlink(missing_ok=True)


def _shallow_lines(path: Path) -> tuple[str, ...]:
    file = path / "shallow"
    return tuple(file.read_text().split()) if file.is_file() else ()


def unreadable(error: JobFailed) -> Finding:
    """What is said of a commit that the checker could not finish."""
    return Finding(
        "inspection-failed",
        Severity.ERROR,
        "rollouts",
        1,
        1,
        str(error.details.get("reason", "")),
        f"{error.message} Make the files smaller or simpler, or ask the operator to raise the "
        "limit, then push again or press Sync now.",
    )


def _unreadable(
    work: Work, sha: Sha, path: Path, error: JobFailed, options: CheckOptions
) -> Prepared:
    """The checker could not finish: the commit is refused with a finding, nothing else stops."""
    return Prepared(
        sha=sha,
        commit=read_commit(path, sha),
        report=Report(findings=(unreadable(error),), refused=True),
        rollouts=(),
        options_key=options_key(options),
        fingerprint=fingerprint(),
    )
