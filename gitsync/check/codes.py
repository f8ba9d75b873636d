"""Every finding code explained once: `gitsync explain` and `docs/findings.md` read from here."""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.model import Severity


@dataclass(frozen=True, slots=True)
class Code:
    """One finding code for a person: what it says, why it matters, an example and its fix."""

    code: str
    severity: Severity
    group: str  # "entrypoint", "layout", "config", "across", "package", "data", "skills", ...
    summary: str  # one sentence
    why: str  # one paragraph
    example: str  # a few lines that cause it
    fix: str  # the same lines mended, or one sentence
