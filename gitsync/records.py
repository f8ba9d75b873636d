"""What the store keeps, as plain frozen values; all times are aware UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from gitsync.model import Signature


class WorkspaceState(StrEnum):
    """Whether a workspace is followed."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    DISCONNECTED = "disconnected"


class Trigger(StrEnum):
    """What asked for a look."""

    WEBHOOK = "webhook"
    PUSH = "push"
    POLL = "poll"
    MANUAL = "manual"
    READER = "reader"
    CONNECT = "connect"


class SyncStatus(StrEnum):
    """How far a sync is."""

    PENDING = "pending"
    SYNCING = "syncing"
    SUCCESS = "success"
    FAILED = "failed"


class Outcome(StrEnum):
    """How a sync ended (decision 14)."""

    PUBLISHED = "published"
    PUBLISHED_WITH_ERRORS = "published_with_errors"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    SUPERSEDED = "superseded"
    WAITING = "waiting"
    ERROR = "error"

    @property
    def status(self) -> SyncStatus:
        """A sync failed if a rollout is not runnable or the sync could not finish."""
        bad = {self.PUBLISHED_WITH_ERRORS, self.REFUSED, self.ERROR}
        return SyncStatus.FAILED if self in bad else SyncStatus.SUCCESS


class CommitState(StrEnum):
    """Why a commit is live, or not (decision 14)."""

    UNKNOWN = "unknown"
    QUEUED = "queued"
    SYNCING = "syncing"
    PUBLISHED = "published"
    PUBLISHED_WITH_ERRORS = "published_with_errors"
    REFUSED = "refused"
    SUPERSEDED = "superseded"
    UNREACHABLE = "unreachable"
    ERROR = "error"

    @property
    def is_final(self) -> bool:
        """True if waiting longer changes nothing unless somebody acts."""
        return self not in {self.UNKNOWN, self.QUEUED, self.SYNCING}


class Role(StrEnum):
    """What a member may do; later ones include earlier ones."""

    READER = "reader"
    MEMBER = "member"
    ADMIN = "admin"
    OWNER = "owner"

    @property
    def rank(self) -> int:
        """For comparison: reader 0 … owner 3."""
        return list(Role).index(self)


@dataclass(frozen=True, slots=True)
class User:
    """A person."""

    id: str
    email: str
    name: str
    is_admin: bool
    created_at: datetime
    disabled_at: datetime | None


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token without its secret; `role` is set for machine tokens only."""

    id: str
    user_id: str | None
    name: str
    role: str | None
    kinds: tuple[str, ...] | None
    workspaces: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A signed-in browser, without its secret."""

    id: str
    user_id: str
    how: str  # link, password
    agent: str
    address: str
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class DeviceLogin:
    """A device that asks for a token; what it says of itself is text from outside."""

    device_name: str
    agent: str
    address: str
    created_at: datetime
    expires_at: datetime
    state: str
    user_id: str | None


@dataclass(frozen=True, slots=True)
class Workspace:
    """A team space that follows one repository. Branch names are full refs."""

    id: str
    name: str
    identity: str
    provider: str
    clone_url: str | None
    root: str
    state: WorkspaceState
    watch: str
    default_branch: str | None
    chosen_branch: str | None
    settings: dict[str, Any]
    created_at: datetime
    requested: int
    done: int
    owed_since: datetime | None
    fence: int
    not_before: datetime | None
    hold: str | None
    failures: int
    lag_looks: int
    suspect: dict[str, Any] | None
    last_look_at: datetime | None
    last_error: dict[str, Any] | None

    @property
    def is_embedded(self) -> bool:
        """True if its repository lives on our own Git host."""
        return self.provider == "embedded"


@dataclass(frozen=True, slots=True)
class Branch:
    """A watched branch: `head_sha` was seen last, `published_sha` is what it serves."""

    name: str
    head_sha: str | None
    published_sha: str | None
    state: str
    last_sync: int | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Turn:
    """The right to work on a workspace until the lease ends; `fence` guards every write."""

    workspace_id: str
    fence: int
    requested: int


@dataclass(frozen=True, slots=True)
class BranchMove:
    """What a sync found for one branch."""

    name: str
    from_sha: str | None
    to_sha: str | None
    superseded_by: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The wire and row form."""
        return {
            "name": self.name,
            "from_sha": self.from_sha,
            "to_sha": self.to_sha,
            "superseded_by": self.superseded_by,
        }


@dataclass(frozen=True, slots=True)
class Sync:
    """One attempt for a workspace."""

    id: int
    workspace_id: str
    trigger: Trigger
    status: SyncStatus
    outcome: Outcome | None
    requested_at: datetime
    requested_by: str | None
    started_at: datetime | None
    finished_at: datetime | None
    branches: tuple[dict[str, Any], ...]
    steps: tuple[dict[str, Any], ...]
    findings: tuple[dict[str, Any], ...]
    error: dict[str, Any] | None
    rollouts: int | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One webhook call, or one redelivery of it."""

    id: int
    workspace_id: str
    provider: str
    delivery_id: str
    event: str
    ref: str | None
    before_sha: str | None
    after_sha: str | None
    received_at: datetime
    times: int
    outcome: str
    reason: str | None
    sync_id: int | None
    settled_at: datetime | None
    redelivery_of: int | None


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """What is known of one commit of a workspace."""

    sha: str
    state: CommitState
    branch: str | None
    sync_id: int | None
    delivery_id: int | None
    superseded_by: str | None
    reason: str | None
    first_seen_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Assessment:
    """What a checker of one fingerprint said of one entrypoint; JSON findings."""

    entrypoint: str
    verdict: str
    workflow: str | None
    grader: str | None
    findings: tuple[dict[str, Any], ...]
    fingerprint: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class RolloutVersion:
    """One rollout in one code version; `tree` and `digest` are None if the commit lacks it."""

    name: str
    tree: str | None
    content_key: str
    digest: str | None
    size: int | None
    runnable: bool
    assessments: tuple[Assessment, ...]

    def assessment(self, entrypoint: str) -> Assessment | None:
        """The assessment of one entrypoint."""
        return next((a for a in self.assessments if a.entrypoint == entrypoint), None)

    def is_ok(self, entrypoint: str) -> bool:
        """True if a run may use this entrypoint (decision 11)."""
        found = self.assessment(entrypoint)
        return self.runnable and found is not None and found.verdict == "ok"


@dataclass(frozen=True, slots=True)
class VersionHead:
    """A code version without what grows with its configs and skills."""

    id: int
    workspace_id: str
    commit_sha: str
    published_at: datetime
    findings: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Version(VersionHead):
    """One immutable code version; `committed_at` is in seconds as the commit says."""

    tree: str
    parents: tuple[str, ...]
    author: dict[str, Any]
    committer: dict[str, Any]
    message: str
    committed_at: int
    signature: str
    shallow: bool
    trigger: str
    sync_id: int | None
    configs: tuple[dict[str, Any], ...]
    skills: tuple[dict[str, Any], ...]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; ids grow in commit order."""

    id: int
    workspace_id: str | None
    type: str
    data: dict[str, Any]
    created_at: datetime


class JobState(StrEnum):
    """How far a change is that gitsync makes to a repository."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Job:
    """A change that gitsync was asked to commit; `author` holds the time of the request.

    `commit_sha` is written and may be at the remote already; `target` is the branch it is for.
    """

    id: int
    workspace_id: str
    request_key: str | None
    requested_by: str | None
    operation: dict[str, Any]
    branch: str | None
    expected_sha: str | None
    message: str | None
    author: Signature
    state: JobState
    attempts: int
    target: str | None
    base_sha: str | None
    commit_sha: str | None
    sync_id: int | None
    outcome: dict[str, Any] | None
    error: dict[str, Any] | None
    created_at: datetime
    finished_at: datetime | None
