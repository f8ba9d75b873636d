"""What goes over the wire: errors as statuses, records as JSON, bodies as models.

One table maps error classes to HTTP statuses; nothing below the doors knows of HTTP.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi.responses import JSONResponse

from gitsync import errors
from gitsync.git import failures
from gitsync.records import Branch, Delivery, Event, Sync, Token, User, Workspace
from gitsync.store import Page
from gitsync.sync.moves import short
from gitsync.sync.remotes import CredentialUnreadable
from gitsync.text import printable
from gitsync.web.shapes import plain

_STATUS: tuple[tuple[type[errors.GitSyncError], int], ...] = (
    (errors.InvalidInput, 400),
    (errors.Unauthenticated, 401),
    (errors.Forbidden, 403),
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.UpgradeRequired, 426),
    (errors.LimitExceeded, 429),
    (errors.NotSupported, 501),
    (failures.AddressRefused, 400),
    (CredentialUnreadable, 400),
    (failures.RefMoved, 409),
    (failures.PushRefused, 409),
    (failures.RepositoryBusy, 503),
    (failures.GitFailure, 502),
    (errors.ConfigError, 500),
)


_SHOWN_DETAILS = {
    "field",
    "issues",
    "last_good",
    "state",
    "retry_after",
    "status",  # of a client that is too old
    "existing_dataset_id",
    "platform_url",
}


def status_of(error: errors.GitSyncError) -> int:
    """The HTTP status of an error; 503 if waiting helps, else 500."""
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return status
    return 503 if error.transient else 500


def error_body(code: str, message: str, **more: Any) -> dict[str, Any]:
    """`{error, message, code, …}`, as every door answers."""
    message = printable(message, limit=8000)
    return {"error": message, "message": message, "code": code, **plain(more)}


def error_response(error: errors.GitSyncError) -> JSONResponse:
    """The answer for an error raised by a story or an owner."""
    status = status_of(error)
    more = {key: value for key, value in error.details.items() if key in _SHOWN_DETAILS}
    headers = {}
    if status in (429, 503) and "retry_after" in error.details:
        headers["Retry-After"] = str(max(1, round(float(error.details["retry_after"]))))
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="gitsync"'
    return JSONResponse(
        error_body(error.code, error.message, **more), status_code=status, headers=headers
    )


def when(value: datetime | None) -> str | None:
    """ISO 8601 with zone, milliseconds."""
    if value is None:
        return None
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def page_json(page: Page[Any], items: list[Any]) -> dict[str, Any]:
    """`{items, total_count, has_more, next}`."""
    return {
        "items": items,
        "total_count": page.total_count,
        "has_more": page.has_more,
        "next": page.next,
    }


def user_json(user: User) -> dict[str, Any]:
    """A person."""
    return {
        "id": user.id,
        "email": user.email,
        "name": user.name,
        "is_admin": user.is_admin,
        "created_at": when(user.created_at),
        "disabled_at": when(user.disabled_at),
    }


def token_json(token: Token) -> dict[str, Any]:
    """A token without its secret."""
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "kinds": None if token.kinds is None else list(token.kinds),
        "workspaces": list(token.workspaces),
        "created_at": when(token.created_at),
        "expires_at": when(token.expires_at),
        "last_used_at": when(token.last_used_at),
        "revoked_at": when(token.revoked_at),
    }


def clone_url(public_url: str, workspace: Workspace) -> str:
    """Where people clone it from."""
    if workspace.is_embedded:
        return f"{public_url}/git/{workspace.identity}.git"
    return workspace.clone_url or ""


def workspace_json(
    workspace: Workspace, branches: list[Branch], *, public_url: str, **more: Any
) -> dict[str, Any]:
    """A workspace as its members see it."""
    return {
        "id": workspace.id,
        "name": workspace.name,
        "identity": workspace.identity,
        "provider": workspace.provider,
        "clone_url": clone_url(public_url, workspace),
        "default_branch": None
        if workspace.default_branch is None
        else printable(short(workspace.default_branch)),
        "chosen_branch": None
        if workspace.chosen_branch is None
        else printable(short(workspace.chosen_branch)),
        "watch": workspace.watch,
        "state": workspace.state.value,
        "settings": workspace.settings,
        "created_at": when(workspace.created_at),
        "last_look_at": when(workspace.last_look_at),
        "last_error": workspace.last_error,
        "is_waiting": workspace.requested > workspace.done,
        "not_before": when(workspace.not_before),
        "branches": [branch_json(branch) for branch in branches],
        "url": f"{public_url}/workspaces/{workspace.id}",
        **more,
    }


def branch_json(branch: Branch) -> dict[str, Any]:
    """A branch by its short name."""
    return {
        "name": printable(short(branch.name)),
        "head_sha": branch.head_sha,
        "published_sha": branch.published_sha,
        "state": branch.state,
        "last_sync": branch.last_sync,
        "updated_at": when(branch.updated_at),
    }


def sync_json(sync: Sync) -> dict[str, Any]:
    """A sync."""
    return {
        "id": sync.id,
        "trigger": sync.trigger.value,
        "status": sync.status.value,
        "outcome": None if sync.outcome is None else sync.outcome.value,
        "branches": [
            {**move, "name": printable(short(str(move["name"])))} for move in sync.branches
        ],
        "requested_at": when(sync.requested_at),
        "requested_by": sync.requested_by,
        "started_at": when(sync.started_at),
        "finished_at": when(sync.finished_at),
        "steps": list(sync.steps),
        "findings": list(sync.findings),
        "error": sync.error,
        "rollouts": sync.rollouts,
    }


def delivery_json(delivery: Delivery) -> dict[str, Any]:
    """A delivery and what became of it."""
    return {
        "id": delivery.id,
        "provider": delivery.provider,
        "delivery_id": printable(delivery.delivery_id),
        "event": printable(delivery.event),
        "ref": None if delivery.ref is None else printable(delivery.ref),
        "before_sha": delivery.before_sha,
        "after_sha": delivery.after_sha,
        "received_at": when(delivery.received_at),
        "times": delivery.times,
        "outcome": delivery.outcome,
        "reason": delivery.reason,
        "sync_id": delivery.sync_id,
        "settled_at": when(delivery.settled_at),
        "redelivery_of": delivery.redelivery_of,
    }


def _shown(value: Any) -> Any:
    """Any JSON value with its texts escaped: events hold names of branches."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    return [_shown(item) for item in value] if isinstance(value, list | tuple) else value


def event_json(event: Event) -> dict[str, Any]:
    """An event, the same over SSE and as JSON."""
    return {
        "id": event.id,
        "type": event.type,
        "workspace_id": event.workspace_id,
        "data": _shown(event.data),
        "created_at": when(event.created_at),
    }
