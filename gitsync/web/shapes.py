"""The answers of the API as models: what OpenAPI promises, and what is really sent.

Promise: an answer with a key that is not described here is a bug (500) that the tests find. Text
that comes from a repository is made safe by its type, `Shown` or `Plain`, not by memory.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from gitsync.records import CommitState, Outcome, Role, SyncStatus, Trigger, WorkspaceState
from gitsync.run_records import RunKind
from gitsync.text import printable, storable

SHA, DIGEST = "0123456789abcdef0123456789abcdef01234567", "9f86d081884c7d65" * 4


def _shown(value: Any) -> Any:
    return printable(value, limit=4000) if isinstance(value, str) else value


def plain(value: Any) -> Any:
    """Any JSON value without what JSON, UTF-8 or a 64-bit reader cannot hold."""
    if isinstance(value, str):
        return value if value.isascii() else storable(value)
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    is_odd = isinstance(value, float) and not math.isfinite(value)
    if is_odd or (isinstance(value, int) and abs(value) >= 2**63):
        return str(value)
    return value


Shown = Annotated[str, BeforeValidator(_shown)]  # one escaped line, as for a terminal
Plain = Annotated[Any, BeforeValidator(plain)]
PlainText = Annotated[str, BeforeValidator(plain)]
# made by `wire.when`: ISO 8601 in UTC with milliseconds
Moment = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
ShaText = Annotated[str, Field(pattern="^[0-9a-f]{40}$", examples=[SHA])]
AnySha = Annotated[str, Field(pattern="^([0-9a-f]{40}|[0-9a-f]{64})$", examples=[SHA])]
DigestText = Annotated[str, Field(pattern="^[0-9a-f]{64}$", examples=[DIGEST])]
Count = Annotated[int, Field(ge=0)]
BranchName = Annotated[Shown, Field(examples=["main"])]


def _open_schema(schema: dict[str, Any]) -> None:
    schema.pop("additionalProperties", None)  # answers may grow


class Shape(BaseModel):
    """An answer, or a part of one; fields with a default are left out when there is no value."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra=_open_schema, ser_json_inf_nan="null"
    )


class Page[T](Shape):
    """A piece of a list."""

    items: list[T]
    total_count: Count = Field(description="How many there are in all.")
    has_more: bool
    next: str | None = Field(description="Send it as `after` to get the following piece.")


class Error(Shape):
    """Every error answer of every path."""

    error: str = Field(description="The same as message.")
    message: str = Field(description="A sentence for people.")
    code: str = Field(
        description="Stable, UPPER_SNAKE.", pattern="^[A-Z][A-Z0-9_]*$", examples=["NOT_FOUND"]
    )
    field: str | None = Field(None, description="The value that is wrong.")
    issues: list[dict[str, Any]] = Field([], description="Every problem, if there are several.")
    last_good: GoodVersion | None = Field(None, description="With ROLLOUT_INVALID only.")
    state: str = Field("", description="The state of the workspace that is in the way.")
    retry_after: float = Field(0, description="Seconds; also in the header Retry-After.")


class GoodVersion(Shape):
    """The newest version of a branch whose entrypoint could run."""

    commit_sha: ShaText
    digest: DigestText


class Problem(Shape):
    """Why a sync or a look did not succeed."""

    code: str
    message: Shown
    transient: bool = Field(description="True: it is tried again by itself.")


class Finding(Shape):
    """One thing wrong with one file."""

    code: str = Field(examples=["no-grader"])
    severity: Literal["error", "unresolved", "warning", "hint"]
    path: Shown = Field(examples=["rollouts/chess/main.py"])
    line: Annotated[int, Field(ge=1)]
    column: Annotated[int, Field(ge=1)]
    subject: Shown
    message: Shown
    suppressed: bool = False


# -- workspaces -----------------------------------------------------------------------------------


class Branch(Shape):
    """A watched branch: what was seen last and what it serves."""

    name: BranchName
    head_sha: ShaText | None
    published_sha: ShaText | None
    state: Literal["live", "gone", "unwatched"]
    last_sync: int | None
    updated_at: Moment


class Webhook(Shape):
    """Where a forge sends its deliveries; the secret is shown once."""

    url: str
    secret: str = ""


class Workspace(Shape):
    """A workspace as its members see it."""

    id: str = Field(examples=["ws_7h3k9m2p4q6r8s1t"])
    name: str
    identity: str = Field(examples=["acme--local/rollouts"])
    provider: Literal["embedded", "github", "generic"]
    clone_url: str
    default_branch: BranchName | None
    chosen_branch: BranchName | None
    watch: Literal["default", "all"]
    state: WorkspaceState
    settings: Plain
    created_at: Moment
    last_look_at: Moment | None
    last_error: Problem | None
    is_waiting: bool = Field(description="A look was asked for that has not ended.")
    not_before: Moment | None
    branches: list[Branch]
    url: str
    webhook: Webhook | None = None
    aliases: list[str] = Field([], description="Identities it had before and did not release.")


class ChangedWorkspace(Workspace):
    """A workspace after a change."""

    warnings: list[str]


class CreatedWorkspace(Workspace):
    """A new workspace, with what is shown only once."""

    sync_id: int
    public_key: str | None = Field(description="Public half of a generated SSH key.")
    warnings: list[str]
    clone_command: str = Field(description="What to type to get a working copy.")
    commit_sha: ShaText | None = Field(
        None, description="The first commit, if the workspace was made from the template."
    )


class SyncAsked(Shape):
    """The sync that will serve a request."""

    sync_id: int


class PublicKey(Shape):
    """The public half of a key that was generated, if one was."""

    public_key: str | None


class TryStep(Shape):
    """One step of reaching a remote."""

    name: Literal["policy", "dns", "tcp", "tls", "authentication", "ref"]
    ok: bool
    code: str | None
    message: Shown
    ms: Annotated[float, Field(ge=0)]


class Trial(Shape):
    """How far a remote could be reached; steps after a failed one are left out."""

    steps: list[TryStep]
    default_branch: BranchName | None


# -- people and tokens ----------------------------------------------------------------------------


class User(Shape):
    """A person."""

    id: str
    email: str
    name: str
    is_admin: bool
    created_at: Moment
    disabled_at: Moment | None


class NewUser(User):
    """A new person with their first sign-in link."""

    login_url: str


class LoginLink(Shape):
    """A one-time sign-in link, good for 24 hours."""

    url: str


class Member(User):
    """A person and their role in a workspace."""

    role: Role


class Token(Shape):
    """A token without its secret."""

    id: str
    name: str
    role: Literal["read", "push", "executor"] | None = Field(description="null: a person's token.")
    kinds: list[RunKind] | None = Field(description="Of an executor; null: every kind.")
    workspaces: list[str] = Field(description="Of a machine token.")
    created_at: Moment
    expires_at: Moment | None
    last_used_at: Moment | None
    revoked_at: Moment | None


class NewToken(Shape):
    """A new token; its secret is shown this once."""

    token: Token
    secret: str = Field(examples=["gs_…"])


class WhoAmI(Shape):
    """The caller and the token in use."""

    user: User | None
    token: Token


# -- syncs, commits, deliveries, events ------------------------------------------------------------


class Move(Shape):
    """What a sync found for one branch."""

    name: BranchName
    from_sha: ShaText | None
    to_sha: ShaText | None
    superseded_by: ShaText | None


class Step(Shape):
    """How long one step took."""

    name: str
    ms: Annotated[float, Field(ge=0)]


class Sync(Shape):
    """One attempt for a workspace."""

    id: int
    trigger: Trigger
    status: SyncStatus
    outcome: Outcome | None
    branches: list[Move]
    requested_at: Moment
    requested_by: str | None
    started_at: Moment | None
    finished_at: Moment | None
    steps: list[Step]
    findings: list[Finding]
    error: Problem | None
    rollouts: Count | None


class Entrypoint(Shape):
    """What the checker says of one entrypoint."""

    entrypoint: Shown = Field(examples=["main.py"])
    verdict: Literal["ok", "error", "unresolvable"]
    workflow: PlainText | None = Field(examples=["main:EchoFlow"])
    grader: PlainText | None
    findings: list[Finding]


class CommitRollout(Shape):
    """A rollout of a commit."""

    name: Shown
    verdict: Literal["ok", "error", "unresolvable"]
    digest: DigestText | None
    changed: bool = Field(description="Compared with the first parent.")
    findings: list[Finding]
    entrypoints: list[Entrypoint]


class TraceStep(Shape):
    """One step on the way of a commit."""

    step: str
    at: Moment | None
    text: Shown
    ms: float | None = None


class Commit(Shape):
    """Why a commit is live, or not."""

    commit_sha: ShaText
    branch: BranchName | None
    state: CommitState
    live: bool = Field(description="A branch serves it now.")
    superseded_by: ShaText | None
    reason: Shown | None = Field(description="Why it is not live; null if it is.")
    sync_id: int | None
    rollouts: list[CommitRollout]
    findings: list[Finding]
    trace: list[TraceStep]
    url: str


DeliveryOutcome = Literal["ignored", "branch_gone", "not_seen"] | Outcome | CommitState


class Delivery(Shape):
    """A webhook call or a native push, and what became of it."""

    id: int
    provider: str
    delivery_id: Shown
    event: Shown
    ref: Shown | None
    before_sha: AnySha | None
    after_sha: AnySha | None
    received_at: Moment
    times: Annotated[int, Field(ge=1, description="How often it arrived.")]
    outcome: DeliveryOutcome = Field(
        description="`queued`; `ignored` with a reason; `branch_gone`; `not_seen`: the remote "
        "never showed the announced commit; or what became of the sync and the commit."
    )
    reason: Shown | None
    sync_id: int | None
    settled_at: Moment | None
    redelivery_of: int | None


class Event(Shape):
    """Something that happened; ids grow in commit order."""

    id: int
    type: str = Field(examples=["sync.finished"])
    workspace_id: str | None
    data: Plain
    created_at: Moment


class Events(Shape):
    """The events after an id, oldest first."""

    items: list[Event]
    reset: bool = Field(description="Events were missed: load the state anew, go on from last_id.")
    last_id: Count


# -- health ---------------------------------------------------------------------------------------


class Health(Shape):
    """The process answers."""

    status: Literal["ok"]
    version: str


class Readiness(Shape):
    """Whether work flows."""

    status: Literal["ready", "not ready"]
    queue_depth: Count
    stuck_workspaces: list[str]
    executors: dict[str, Count] = Field(description="Who is there to carry out runs, by kind.")
    waiting_runs: dict[str, Count] = Field(description="Runs that wait for an executor, by kind.")
    remarks: list[str] = Field(description="What somebody should look at; none makes it unready.")


Error.model_rebuild()
