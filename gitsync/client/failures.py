"""What can go wrong between a client and a server."""

from __future__ import annotations

from typing import Any

from gitsync.errors import Conflict, GitSyncError


class ServerUnreachable(GitSyncError):
    """No answer: refused, timed out, broken off, or a gateway without a server behind it."""

    code = "SERVER_UNREACHABLE"
    transient = True


class ServerRefused(GitSyncError):
    """The server answered with an error; the details hold `status` and what the body said."""

    code = "SERVER_REFUSED"

    def __init__(self, message: str, *, status: int, **details: Any) -> None:
        super().__init__(message, status=status, **details)
        self.status = status

    @property
    def server_code(self) -> str:
        """The upper-case code of the answer."""
        return str(self.details.get("code") or self.code)


class NotAuthorised(ServerRefused):
    """No token, one that does not work, or one that may not do this."""

    code = "NOT_AUTHORISED"


class AnswerMalformed(GitSyncError):
    """Something answered that is no gitsync server, or not one this client understands."""

    code = "ANSWER_MALFORMED"


class DigestMismatch(GitSyncError):
    """The bytes that arrived are not the artifact that was asked for."""

    code = "DIGEST_MISMATCH"


class ArtifactUnsafe(GitSyncError):
    """The archive holds something that must not be extracted; nothing was left behind."""

    code = "ARTIFACT_UNSAFE"


class TargetExists(Conflict):
    """The folder to write is there already and not empty."""

    code = "TARGET_EXISTS"


class TargetUnwritable(GitSyncError):
    """The disk or the file system refused; nothing half-finished was left behind."""

    code = "TARGET_UNWRITABLE"


class CheckoutFailed(GitSyncError):
    """Git could not do what was asked; the message holds its own words."""

    code = "GIT_FAILED"
