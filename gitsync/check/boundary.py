"""The one place where an unforeseen failure of ours becomes a finding instead of an exception.

Promise: an error of the tree's reader passes, because then nothing can be said; everything else is
a bug in one part, which must not hide what the other parts found.
"""

from __future__ import annotations

from collections.abc import Callable

from gitsync.check.found import finding
from gitsync.errors import GitSyncError
from gitsync.model import Finding


def attempt[T](path: str, step: Callable[[], T], otherwise: Callable[[Finding], T]) -> T:
    """The result of a step, or what `otherwise` makes of the finding that it failed."""
    try:
        return step()
    except GitSyncError:
        raise
    except Exception as e:  # the boundary, see the module's promise
        return otherwise(
            finding(
                "check-failed",
                path,
                f"This part could not be checked ({type(e).__name__}). Nothing is known to be "
                "wrong with it; please report this to the operator.",
                subject=type(e).__name__,
            )
        )
