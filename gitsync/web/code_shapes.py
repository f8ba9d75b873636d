"""The answers about code: versions, rollouts, differences, reports (see `shapes`)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from gitsync.web.shapes import (
    BranchName,
    Count,
    DigestText,
    Entrypoint,
    Finding,
    GoodVersion,
    Moment,
    Page,
    Plain,
    PlainText,
    Shape,
    ShaText,
    Shown,
)

Verdict = Literal["ok", "error", "unresolvable"]
Tree = Annotated[str, Field(pattern="^[0-9a-f]{40}$")]


class Person(Shape):
    """Author or committer, as the commit says."""

    name: PlainText
    email: PlainText
    time: int = Field(description="Seconds since 1970.")
    offset: int = Field(description="Minutes east of UTC.")


class Version(Shape):
    """A code version in a list."""

    commit_sha: ShaText
    tree: Tree
    parents: list[ShaText]
    branches: list[BranchName] = Field(description="Branches it was the tip of.")
    author: Person
    committer: Person
    message: PlainText
    committed_at: str | None = Field(description="null if no calendar can show it.")
    published_at: Moment
    signature: str
    shallow: bool
    trigger: str
    sync_id: int | None


class Rollout(Shape):
    """A rollout of a version; tree and digest are null if only a config names it."""

    name: Shown
    tree: Tree | None
    digest: DigestText | None
    size: Count | None
    verdict: Verdict
    entrypoints: list[Entrypoint]


class Pin(Shape):
    """Why a version is kept."""

    name: str
    owner: str | None
    reason: str
    created_at: Moment
    expires_at: Moment | None


def _config(value: Any) -> Any:
    return value if isinstance(value, dict) else {}


Config = Annotated[Plain, BeforeValidator(_config), Field(json_schema_extra={"type": "object"})]


class Manifest(Version):
    """The whole version but its bytes."""

    schema_version: Literal[1]
    rollouts: list[Rollout]
    configs: list[Config] = Field(description="Every config with its content.")
    skills: list[Config]
    findings: list[Finding] = Field(description="All that belong to no entrypoint.")
    pins: list[Pin]


class ServedEntrypoint(Entrypoint):
    """An entrypoint with the newest version in which it could run."""

    last_good: GoodVersion | None


class ServedRollout(Shape):
    """A rollout as a branch serves it."""

    name: Shown
    tree: Tree | None
    digest: DigestText | None
    size: Count | None
    verdict: Verdict
    entrypoints: list[ServedEntrypoint]
    commit_sha: ShaText
    branch: BranchName
    published_at: Moment


class HeldBy(Shape):
    """A version that holds a rollout."""

    commit_sha: ShaText
    published_at: Moment
    digest: DigestText | None


class RolloutHistory(Shape):
    """One rollout: what is served and the versions that hold it."""

    name: Shown
    served: ServedRollout | None
    history: Page[HeldBy]


class Resolved(Shape):
    """The one rollout version a run gets."""

    commit_sha: ShaText
    branch: BranchName | None
    rollout: Shown
    entrypoint: Shown
    verdict: Literal["ok"]
    workflow: PlainText | None
    grader: PlainText | None
    findings: list[Finding]
    digest: DigestText
    size: Count
    url: str = Field(description="Where the tar with this digest is.")
    substituted: bool = Field(description="True: an older version, because the tip cannot run.")


# -- differences ----------------------------------------------------------------------------------


class Digests(Shape):
    """A digest before and after."""

    from_: DigestText | None = Field(alias="from")
    to: DigestText | None


class Components(Shape):
    """What an entrypoint exposes."""

    verdict: Verdict
    workflow: PlainText | None
    grader: PlainText | None


class EntrypointChange(Shape):
    """An entrypoint before and after; null where it does not exist."""

    entrypoint: Shown
    from_: Components | None = Field(alias="from")
    to: Components | None


class RolloutChange(Shape):
    """A rollout whose content or verdict changed."""

    name: Shown
    digest: Digests
    entrypoints: list[EntrypointChange]


class RolloutChanges(Shape):
    """Rollouts by what happened to them."""

    added: list[Shown]
    removed: list[Shown]
    changed: list[RolloutChange]


class KeyChange(Shape):
    """One key of a config, dotted."""

    key: PlainText
    from_: Plain = Field(alias="from")
    to: Plain


class ConfigChange(Shape):
    """A config before and after."""

    path: Shown
    change: Literal["added", "removed", "changed"]
    keys: list[KeyChange]


class FileChange(Shape):
    """A file before and after."""

    path: Shown
    change: Literal["added", "removed", "changed"]
    from_mode: str | None
    to_mode: str | None


class Difference(Shape):
    """What changed between two versions."""

    from_: ShaText = Field(alias="from")
    to: ShaText
    rollouts: RolloutChanges
    configs: list[ConfigChange]
    files: list[FileChange]


# -- reports --------------------------------------------------------------------------------------


class Reported(Shape):
    """One entrypoint in a report."""

    name: Shown
    entrypoint: Shown
    verdict: Verdict
    workflow: PlainText | None
    grader: PlainText | None
    findings: list[Finding]


class Report(Shape):
    """What a check says; nothing was published."""

    commit_sha: ShaText
    schema_version: Literal[1]
    verdict: Verdict
    rollouts: list[Reported]
    findings: list[Finding]
    refused: bool
    configs: list[Config]
    skills: list[Config]
