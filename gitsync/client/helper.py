"""Where the remote helper is: on Git's search path, or beside the running program."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HELPER = "git-remote-gitsync"


@dataclass(frozen=True, slots=True)
class Helper:
    """The program; `is_on_path` tells whether Git finds it by itself."""

    path: Path
    is_on_path: bool


def find_helper(env: Mapping[str, str]) -> Helper | None:
    """The installed helper, None if there is none."""
    found = shutil.which(HELPER, path=env.get("PATH", os.defpath))
    if found is not None:
        return Helper(Path(found).absolute(), True)
    for program in (sys.argv[0], sys.executable):
        beside = Path(program).absolute().parent / HELPER
        if os.access(beside, os.X_OK):
            return Helper(beside, False)
    return None
