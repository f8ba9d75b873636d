"""How Git and remotes fail, each with a code and whether waiting helps.

Promise: messages are one line, free of control characters and of secrets, and say what to do where
a setting or a person can help.
"""

from __future__ import annotations

from gitsync.errors import GitSyncError


class GitFailure(GitSyncError):
    """Something about Git or a remote stopped us."""

    code = "GIT"


class FetchFailed(GitFailure):
    """A fetch ended without what it was to bring, for no reason that has a class of its own."""

    code = "FETCH_FAILED"
    transient = True


class RemoteUnreachable(GitFailure):
    """No connection: name unknown, port closed, connection reset, server error."""

    code = "REMOTE_UNREACHABLE"
    transient = True


class RemoteTimeout(RemoteUnreachable):
    """The deadline for the whole exchange passed."""

    code = "REMOTE_TIMEOUT"


class RemoteThrottled(RemoteUnreachable):
    """The remote asks us to come back later; `retry_after` (seconds) is in the details."""

    code = "REMOTE_THROTTLED"

    @property
    def retry_after(self) -> float:
        """Seconds to wait, clamped to something sane."""
        return float(self.details["retry_after"])


class RemoteMalformed(GitFailure):
    """The answer is not Git's protocol: a login page, a cut answer, a broken packet."""

    code = "REMOTE_MALFORMED"
    transient = True


class TlsFailed(GitFailure):
    """The certificate of the remote or of the proxy is not trusted."""

    code = "TLS_FAILED"


class AuthenticationFailed(GitFailure):
    """The remote does not accept the credential, or wants one."""

    code = "AUTHENTICATION_FAILED"


class HostKeyUnknown(GitFailure):
    """The SSH host key is not among the known hosts, or it changed."""

    code = "HOST_KEY_UNKNOWN"


class RepositoryNotFound(GitFailure):
    """The remote has no such repository, or hides it from this credential."""

    code = "REPOSITORY_NOT_FOUND"


class AddressRefused(GitFailure):
    """The address policy forbids the host; the message names the setting that would allow it."""

    code = "ADDRESS_REFUSED"


class RemoteMoved(GitFailure):
    """The remote redirects; `location` and `same_host` are in the details, nothing was followed."""

    code = "REMOTE_MOVED"


class RefMissing(GitFailure):
    """A watched branch was there at the look and is gone at the fetch; look again."""

    code = "REF_MISSING"
    transient = True


class RefUnusable(GitFailure):
    """A branch names something that is no commit."""

    code = "REF_UNUSABLE"


class RefMoved(GitFailure):
    """The branch changed under us; re-read and try again."""

    code = "REF_MOVED"
    transient = True


class PushRefused(GitFailure):
    """The remote's own rules refuse our push: protection, a hook, missing permission."""

    code = "PUSH_REFUSED"


class ObjectsRefused(GitFailure):
    """The remote sent objects that Git's own checks refuse."""

    code = "OBJECTS_REFUSED"


class ObjectFormatUnsupported(GitFailure):
    """The repository uses object names other than SHA-1."""

    code = "OBJECT_FORMAT_UNSUPPORTED"


class RepositoryCorrupt(GitFailure):
    """A repository on our disk is damaged; mirrors are rebuilt from packs and the remote."""

    code = "REPOSITORY_CORRUPT"
    transient = True


class ObjectMissing(RepositoryCorrupt):
    """An object that should be there is not."""

    code = "OBJECT_MISSING"


class LimitHit(GitFailure):
    """A limit of ours ended the work; `limit` in the details is bytes, refs, memory or output."""

    code = "GIT_LIMIT"


class RepositoryBusy(GitFailure):
    """Another process holds the repository's lock."""

    code = "REPOSITORY_BUSY"
    transient = True
