"""What people, CI and clusters run against a server: it speaks HTTP and Git, and knows no store.

`Server` is one server with a token, `find_place` says which one is meant, `pull` brings an artifact
to a folder, `clone` makes a checkout, `commit_status` tells whether a commit is live. Names are
imported when they are first used: a command that needs no server does not load an HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gitsync.client.artifact import Pulled, pull
    from gitsync.client.cloning import Cloned, clone
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
        TargetUnwritable,
    )
    from gitsync.client.place import Place, find_place
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
    "TargetUnwritable",
    "clone",
    "commit_status",
    "find_place",
    "pull",
]

_MODULES = {
    "Cloned": "cloning",
    "CommitStatus": "commit",
    "Place": "place",
    "Pulled": "artifact",
    "Server": "server",
    "clone": "cloning",
    "commit_status": "commit",
    "find_place": "place",
    "pull": "artifact",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'failures')}"), name)
