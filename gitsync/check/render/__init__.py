"""A report for its reader: a person, a program, a code scanner, a GitHub log.

Promise: no character of the repository reaches an output unescaped (decision 43), and no line that
holds a credential is quoted.
"""

from __future__ import annotations

from gitsync.check.render.github import to_github
from gitsync.check.render.json import to_json
from gitsync.check.render.sarif import to_sarif
from gitsync.check.render.text import to_text

__all__ = ["to_github", "to_json", "to_sarif", "to_text"]
