"""The entrypoint checker: what an import would expose, without importing.

`check_entrypoint` answers for one entrypoint of one tree. It never raises for what is in the tree,
executes nothing of it and keeps the limits of the options.
"""

from __future__ import annotations

import sys
import threading

from gitsync.check.python.check import Check
from gitsync.check.python.locating import NamedAt
from gitsync.model import CheckOptions, EntrypointReport, Finding, Severity, Verdict
from gitsync.tree import Tree

# Pure-Python recursion of the evaluator; the parser's own limits do not depend on this.
_RECURSION = 60_000
_lock = threading.Lock()
_running = 0
_before = 0


def check_entrypoint(
    tree: Tree,
    rollout: str,
    entrypoint: str,
    *,
    options: CheckOptions,
    named_at: NamedAt | None = None,
) -> EntrypointReport:
    """The report of one entrypoint; an internal failure becomes an `unresolvable` finding."""
    _deepen()
    try:
        return Check(tree, rollout, entrypoint, options, named_at).run()
    except Exception as error:  # the one boundary: a bug here must not stop other rollouts
        return _failed(rollout, entrypoint, error)
    finally:
        _restore()


def _deepen() -> None:
    global _running, _before
    with _lock:
        if _running == 0:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, _RECURSION))
        _running += 1


def _restore() -> None:
    global _running
    with _lock:
        _running -= 1
        if _running == 0:
            sys.setrecursionlimit(_before)


def _failed(rollout: str, entrypoint: str, error: Exception) -> EntrypointReport:
    finding = Finding(
        "unresolvable",
        Severity.UNRESOLVED,
        f"rollouts/{rollout}/{entrypoint}",
        1,
        1,
        "",
        f"The checker failed on this entrypoint ({type(error).__name__}). "
        "Simplify the code it loads, and report this to the maintainers of gitsync.",
    )
    return EntrypointReport(rollout, entrypoint, Verdict.UNRESOLVABLE, None, None, (finding,))


__all__ = ["NamedAt", "check_entrypoint"]
