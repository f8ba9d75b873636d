"""The fixed places of a workspace: required folders, agent files, scaffold links."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gitsync.check.files import Files
from gitsync.check.found import finding
from gitsync.check.links import Links
from gitsync.check.markdown import MAX_BYTES, without_code
from gitsync.model import Finding
from gitsync.tree import Kind, TooLarge

FOLDERS = ("rollouts", "configs/training", "configs/eval", "data")
AGENT_FILES = ("AGENTS.md", "CLAUDE.md", "configs/AGENTS.md")
_IMPORT = re.compile(r"@(?:\./)?AGENTS\.md")


def check_layout(files: Files, links: Links) -> Iterator[Finding]:
    """Findings about the scaffold."""
    for path in FOLDERS:
        if not links.follow(path).is_folder:
            yield finding(
                "missing-directory",
                path,
                f"`{path}` must be a folder; without it nothing can be submitted or evaluated. "
                "`osmosis doctor --fix` makes it.",
            )
    for path in AGENT_FILES:
        if not links.follow(path).is_file:
            yield finding(
                "missing-agent-file",
                path,
                f"`{path}` is not there, so agents lack its rules. `osmosis doctor --fix` "
                "restores it.",
            )
    for path in (*FOLDERS, *AGENT_FILES, "configs"):
        entry = files.tree.entry(path)
        if entry is not None and entry.kind is Kind.LINK:
            yield finding(
                "scaffold-symlink",
                path,
                f"`{path}` is a symlink, and `osmosis doctor --fix` refuses to work with one. "
                "Replace it by what it points at.",
            )
    yield from _claude(files)


def _claude(files: Files) -> Iterator[Finding]:
    entry = files.tree.entry("CLAUDE.md")
    if entry is None or not entry.is_file:
        return
    try:
        text = files.tree.read("CLAUDE.md", limit=MAX_BYTES).decode("utf-8", "replace")
    except TooLarge:
        return
    if "AGENTS.md" not in without_code(text, _IMPORT):
        yield finding(
            "claude-import-missing",
            "CLAUDE.md",
            "Nothing here leads Claude Code to the rules of the workspace. Add a line "
            "`@AGENTS.md`, outside code.",
        )
