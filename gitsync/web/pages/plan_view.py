"""A plan as a page shows it: diffs by line, reasons without options of the command line.

Promise: what the check found in files that the change does not touch is shown apart from the rest.
"""

from __future__ import annotations

import re
from typing import Any

DIFFS, DIFF_LINES = 40, 400
_HEADS = ("+++ ", "--- ", "diff --git ", "index ", "new file mode ", "deleted file mode ")
_OPTION = re.compile(r"[;,] (or )?--[a-z]+\b.*")
_CHANGES = ("create", "replace", "delete")


def view(found: dict[str, Any]) -> dict[str, Any]:
    """The answer to a change, as the template reads it."""
    touched = {step["path"] for step in found["steps"] if step["action"] in _CHANGES}
    bad = [f for f in found["findings"] if f["severity"] in ("error", "unresolved")]
    own = [f for f in bad if _is_of(f["path"], touched)]
    return {
        **found,
        "steps": [s | {"reason": _OPTION.sub("", s["reason"])} for s in found["steps"]],
        "diffs": [_diff(patch) for patch in (found.get("diffs") or [])[:DIFFS]],
        "bad": own,
        "elsewhere": [f for f in bad if f not in own],
    }


def _is_of(path: str, touched: set[str]) -> bool:
    """True if a finding may be of the change: in a file, folder or rollout that it touches."""
    if path in touched:
        return True
    parts = path.split("/")
    home = "/".join(parts[:2]) if parts[0] == "rollouts" else path
    return any(one.startswith(f"{home}/") for one in touched)


def _diff(patch: dict[str, Any]) -> dict[str, Any]:
    """A unified diff as lines with their kind."""
    lines = [line for line in str(patch["patch"]).splitlines() if not line.startswith(_HEADS)]
    return {
        "path": patch["path"],
        "lines": [(_kind(line), line) for line in lines[:DIFF_LINES]],
        "more": max(0, len(lines) - DIFF_LINES),
    }


def _kind(line: str) -> str:
    return {"+": "plus", "-": "gone", "@": "place"}.get(line[:1], "")
