"""What all requests that change a repository share: their body, who may, and carrying out."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Depends, Request
from pydantic import Field

from gitsync import changes
from gitsync.errors import Forbidden, InvalidInput, LimitExceeded
from gitsync.instance import Instance
from gitsync.model import Sha
from gitsync.records import Role, Workspace
from gitsync.template.operations import Operation
from gitsync.web.answers import may
from gitsync.web.auth import Caller, CallerDep, InstanceDep, ReaderOf, check_access
from gitsync.web.query import Body

MAY = may(403, 429, 502)
MOST_AT_ONCE = 16
_running = threading.BoundedSemaphore(MOST_AT_ONCE)


class ChangeBody(Body):
    """How a change is made."""

    branch: str | None = Field(
        None, min_length=1, max_length=1_000, description="A new branch instead of the default one."
    )
    expected_sha: str | None = Field(
        None,
        pattern="^[0-9a-fA-F]{40}$",
        description="Only on top of this commit; zeros: only if there is no commit yet.",
    )
    message: str | None = Field(None, min_length=1, max_length=10_000)
    dry_run: bool = Field(False, description="Plan, diffs and findings; nothing is written.")
    as_: Literal["commit", "pull_request"] = Field("commit", alias="as")


class PullRequestUnsupported(InvalidInput):
    """No provider of ours can open a pull request yet."""

    code = "PULL_REQUEST_UNSUPPORTED"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that changes a workspace, and who sent it."""

    request: Request
    instance: Instance
    caller: Caller
    workspace: Workspace

    def change(self, body: ChangeBody, operation: Operation) -> dict[str, Any]:
        """Plan for readers, commit for members."""
        instance, caller, workspace = self.instance, self.caller, self.workspace
        if not body.dry_run:
            check_access(instance, caller, workspace.id, Role.MEMBER)
            if caller.user is None:
                raise Forbidden("A machine token cannot do this; use the token of a person.")
        if body.as_ == "pull_request":
            raise PullRequestUnsupported(
                f"gitsync cannot open a pull request at the provider {workspace.provider}. Give "
                "`branch`: the commit goes to a new branch, from which you open it yourself.",
                field="as",
            )
        user = caller.user
        wanted = changes.Wanted(
            operation,
            name=user.name if user else "",
            email=user.email if user else "",
            branch=body.branch,
            expected_sha=None if body.expected_sha is None else Sha.parse(body.expected_sha),
            message=body.message,
            requested_by=caller.id,
            request_key=_key(self.request, caller, body),
        )
        # a slow remote holds a thread for minutes: some must be left for everything else
        if not _running.acquire(blocking=False):
            raise LimitExceeded(
                f"gitsync makes {MOST_AT_ONCE} changes at this moment. Repeat this soon.",
                retry_after=5,
            )
        try:
            if body.dry_run:
                return changes.preview(instance, workspace, wanted)
            return changes.change(instance, workspace, wanted)
        finally:
            _running.release()


def _asked(
    request: Request, instance: InstanceDep, caller: CallerDep, workspace: ReaderOf
) -> Asked:
    return Asked(request, instance, caller, workspace)


AskedDep = Annotated[Asked, Depends(_asked)]


def _key(request: Request, caller: Caller, body: ChangeBody) -> str | None:
    """What names this request of this caller if it is repeated."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    parts = (caller.id, request.url.path, key, body.model_dump_json())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
