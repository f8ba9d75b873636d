"""The check of a tree: one call that answers with findings, and never runs what it reads.

`inspect` works on any `Tree` (a commit, a working copy, a planned overlay). It is safe to call in a
process that lives long: what did not change is remembered by Git object id.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from pathlib import Path

from gitsync.check import aging
from gitsync.check.config import config_content
from gitsync.check.entrypoints import Known
from gitsync.check.hints import service_hints
from gitsync.check.inspection import inspect
from gitsync.check.workingcopy import WorkingCopy

__all__ = [
    "Known",
    "WorkingCopy",
    "config_content",
    "fingerprint",
    "inspect",
    "service_hints",
]

_FOLDER = Path(__file__).parent


def fingerprint() -> str:
    """What an assessment depends on beside its tree and options (decision 8)."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"c{_code()}-r{aging.digest()}-py{python}"


@functools.cache
def _code() -> str:
    """What changes with any line of the checker: nobody has to think of a number."""
    total = hashlib.sha256()
    for file in sorted((*_FOLDER.rglob("*.py"), *_FOLDER.rglob("*.json"))):
        total.update(f"{file.relative_to(_FOLDER)}\0".encode() + file.read_bytes())
    return total.hexdigest()[:12]
