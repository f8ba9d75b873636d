"""What people, CI and clusters run against a server: it speaks HTTP and Git, and knows no store.

`Server` is one server with a token, `find_place` says which one is meant, `pull` brings an artifact
to a folder, `clone` makes a checkout, `commit_status` tells whether a commit is live.
"""

from gitsync.client.clone import Cloned, clone
from gitsync.client.commit import CommitStatus, commit_status
from gitsync.client.failures import (
    AnswerMalformed,
    ArtifactUnsafe,
    CheckoutFailed,
    DigestMismatch,
    NotAuthorised,
    ServerRefused,
    ServerUnreachable,
    TargetExists,
)
from gitsync.client.place import Place, find_place
from gitsync.client.pull import Pulled, pull
from gitsync.client.server import Server

__all__ = [
    "AnswerMalformed",
    "ArtifactUnsafe",
    "CheckoutFailed",
    "Cloned",
    "CommitStatus",
    "DigestMismatch",
    "NotAuthorised",
    "Place",
    "Pulled",
    "Server",
    "ServerRefused",
    "ServerUnreachable",
    "TargetExists",
    "clone",
    "commit_status",
    "find_place",
    "pull",
]
