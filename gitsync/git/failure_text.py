"""What git's last words mean: from its stderr and exit status to one of our failures.

Promise: the message is printable, bounded, and holds neither a user name nor a secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gitsync.git.child import ChildLimits, Ended
from gitsync.git.failures import (
    AuthenticationFailed,
    FetchFailed,
    GitFailure,
    HostKeyUnknown,
    LimitHit,
    ObjectFormatUnsupported,
    ObjectsRefused,
    PushRefused,
    RefMissing,
    RefMoved,
    RemoteMalformed,
    RemoteMoved,
    RemoteThrottled,
    RemoteTimeout,
    RemoteUnreachable,
    RepositoryCorrupt,
    RepositoryNotFound,
    TlsFailed,
)
from gitsync.text import printable

_SECRETS = re.compile(
    r"(gh[opsur]_|github_pat_|glpat-|gldt-|ATBB|ATCTT|gs_)[A-Za-z0-9_-]{6,}|//[^/@\s]*@"
)
_RETRY_AFTER = 60.0


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    failure: type[GitFailure]
    message: str


def _rule(pattern: str, failure: type[GitFailure], message: str) -> _Rule:
    return _Rule(re.compile(pattern, re.IGNORECASE), failure, message)


# The first that matches wins; the words are git 2.39 to 2.5x, curl and OpenSSH in the C locale.
_RULES = (
    _rule(r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED|No \w+ host key is "
          r"known", HostKeyUnknown, "The SSH host key is not the known one"),
    _rule(r"Permission denied \(|Authentication failed|could not read (Username|Password)|"
          r"terminal prompts disabled|error: 40[13]\b|Permission to \S+ denied|"
          r"marked as read only|not allowed to push code|Load key .*: (error|invalid)",
          AuthenticationFailed, "The remote does not accept the credential"),
    _rule(r"error: (429|503)\b", RemoteThrottled, "The remote asks to come back later"),
    _rule(r"error: 30\d\b|unable to update url base from redirection|Maximum \(0\) redirects",
          RemoteMoved, "The remote redirects elsewhere"),
    _rule(r"error: 404\b|repository '.*' not found|does not appear to be a git repository|"
          r"Repository not found|project you were looking for could not be found",
          RepositoryNotFound, "The remote has no such repository, or hides it"),
    _rule(r"SSL certificate|certificate verif|server certificate|SSL peer|"
          r"SSL: (no alternative|certificate)", TlsFailed, "The certificate is not trusted"),
    _rule(r"mismatched (object )?(format|algorithms)|unknown object format",
          ObjectFormatUnsupported, "The repository uses another object format than SHA-1"),
    _rule(r"couldn't find remote ref|invalid refspec", RefMissing,
          "A branch is not at the remote any more"),
    _rule(r"stale info|fetch first|non-fast-forward|cannot lock ref|failed to update ref|"
          r"reference already exists", RefMoved, "The branch moved"),
    _rule(r"\[remote rejected\]|\[rejected\]|pre-receive hook declined|unpack failed",
          PushRefused, "The remote refuses the push"),
    _rule(r"out of memory|mmap failed|Cannot allocate memory|malloc failed|unable to create thread",
          LimitHit, "Git reached its memory limit"),
    _rule(r"died of signal 25|File size limit|File too large|exceeds maximum allowed size",
          LimitHit, "The objects are larger than the limit"),
    _rule(r"not a git repository|bad object refs/|unable to resolve reference|"
          r"packfile .* (cannot be accessed|is far too short|claims)|object file .* is empty|"
          r"loose object .* is corrupt|non-monotonic index|"
          r"index file .* (is too small|corrupt)|bad tree object|bad config|bad ref",
          RepositoryCorrupt, "The local copy is damaged"),
    _rule(r"fsck error|error in object|object of unexpected type|SHA1 COLLISION", ObjectsRefused,
          "The remote's objects are refused"),
    _rule(r"Could not resolve host|Couldn't connect|Failed to connect|Connection refused|"
          r"Connection reset|Network is unreachable|No route to host|Empty reply|recv failure|"
          r"port \d+: |error: 5\d\d\b|proxy CONNECT|kex_exchange_identification|"
          r"Connection closed|CONNECT tunnel failed|Operation too slow|timed out",
          RemoteUnreachable, "The remote cannot be reached"),
    _rule(r"not valid: is this a git repo|protocol error|bad line length|invalid index-pack|"
          r"not our ref|did not send all necessary|did not receive expected|"
          r"unexpected disconnect|early EOF|hung up|bad pack|pack (has|is|signature)|"
          r"inflate|index-pack failed|unresolved deltas|RPC failed|expected|unexpected|"
          r"transfer closed|Too large response headers|invalid server response|unpack-objects",
          RemoteMalformed, "The remote's answer is not what Git's protocol says"),
)  # fmt: skip


def failure(
    ended: Ended,
    *,
    limits: ChildLimits,
    action: str = "fetch",
    secrets: tuple[str, ...] = (),
) -> GitFailure:
    """The failure that a child which did not end well stands for."""
    words = _last_words(ended.stderr, secrets)
    if ended.cancelled:
        return FetchFailed(f"The {action} was cancelled.")
    if ended.timed_out:
        return RemoteTimeout(f"The {action} did not end within {limits.seconds:g} s.")
    # what the remote says is shown but never believed: it could name any failure
    own = "\n".join(line for line in _lines(ended.stderr) if not line.startswith("remote:"))
    for rule in _RULES:
        if rule.pattern.search(own):
            return _make(rule, words)
    if ended.code in (-25, 128 + 25):
        return LimitHit("The objects are larger than the limit.", limit="bytes")
    if ended.code in (-9, 137):
        return LimitHit(f"The {action} was killed.", limit="memory")
    return FetchFailed(f"The {action} failed with exit status {ended.code}: {words or 'no reason'}")


def _make(rule: _Rule, words: str) -> GitFailure:
    message = f"{rule.message}: {words}"
    if rule.failure is LimitHit:
        limit = "memory" if "memory" in rule.message else "bytes"
        return LimitHit(message, limit=limit)
    if rule.failure is RemoteThrottled:
        return RemoteThrottled(message, retry_after=_RETRY_AFTER)
    if rule.failure is RemoteMoved:
        return RemoteMoved(message, location="", same_host=False)
    return rule.failure(message)


def _last_words(stderr: str, secrets: tuple[str, ...]) -> str:
    """The telling lines, printable and without secrets, what the remote says cut short."""
    for secret in secrets:
        if secret:
            stderr = stderr.replace(secret, "[secret]")
    text = _SECRETS.sub(lambda m: "//…@" if m[0].startswith("//") else "[secret]", stderr)
    lines = _lines(text)
    own = [line for line in lines if line.startswith(("fatal:", "error:", "ssh:", "! "))]
    told = [line for line in lines if line.startswith("remote:")]
    return "; ".join(printable(line, limit=200) for line in (own[:2] + told[:1] or lines[:2]))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
