"""What can stop our work, drawn as one tree.

A user's mistake in a repository is a `Finding` (a value); everything raised on purpose is a
`GitSyncError`. An error carries a stable upper-case `code`, one message for a person and optional
details; it knows nothing of HTTP (see `gitsync.web.wire`) nor of exit codes (see `gitsync.cli`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class GitSyncError(Exception):
    """Something stopped our work; `transient` tells whether waiting helps."""

    code: ClassVar[str] = "ERROR"
    transient: ClassVar[bool] = False

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, Any] = details


class InvalidInput(GitSyncError):
    """A value from outside is malformed; `field` in the details names it."""

    code = "VALIDATION"


class NotFound(GitSyncError):
    """There is no such thing, or the caller may not know of it."""

    code = "NOT_FOUND"


class Conflict(GitSyncError):
    """The request does not fit the present state."""

    code = "CONFLICT"


class IdempotencyMismatch(Conflict):
    """An Idempotency-Key was used with another body."""

    code = "IDEMPOTENCY_MISMATCH"


class Unauthenticated(GitSyncError):
    """No token, or one that is unknown, expired or revoked."""

    code = "TOKEN_INVALID"


class Forbidden(GitSyncError):
    """The caller is known and may not do this."""

    code = "FORBIDDEN"


class LimitExceeded(GitSyncError):
    """Too many requests, or too large a thing; `retry_after` (seconds) may be in the details."""

    code = "RATE_LIMITED"
    transient = True


class UpgradeRequired(GitSyncError):
    """The client is older than the operator allows."""

    code = "UPGRADE_REQUIRED"


class NotSupported(GitSyncError):
    """Something the client knows and this service does not provide."""

    code = "NOT_SUPPORTED"


class ConfigError(GitSyncError):
    """The settings or the machine do not allow the service to start; the message names which."""

    code = "CONFIG"


class StoreError(GitSyncError):
    """The database refuses: too new, damaged, locked by another server."""

    code = "STORE"
