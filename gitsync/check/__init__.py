"""The check of a tree: one call that answers with findings, and never runs what it reads.

`inspect` works on any `Tree` (a commit, a working copy, a planned overlay). It is safe to call in a
process that lives long: what did not change is remembered by Git object id.
"""

from __future__ import annotations

import sys

from gitsync.check import aging
from gitsync.check.config import config_content
from gitsync.check.entrypoints import Known
from gitsync.check.hints import service_hints
from gitsync.check.inspection import inspect
from gitsync.check.python import PYTHON_CHECK_VERSION
from gitsync.check.workingcopy import WorkingCopy

__all__ = [
    "WORKSPACE_CHECK_VERSION",
    "Known",
    "WorkingCopy",
    "config_content",
    "fingerprint",
    "inspect",
    "service_hints",
]

WORKSPACE_CHECK_VERSION = "1"


def fingerprint() -> str:
    """What an assessment depends on beside its tree and options (decision 8)."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    checker = f"w{WORKSPACE_CHECK_VERSION}-p{PYTHON_CHECK_VERSION}"
    return f"{checker}-r{aging.digest()}-py{python}"
