"""Every code explained: for `gitsync explain`, for SARIF rules and for `docs/findings.md`.

Promise: one source. `python -m gitsync.check.explain` prints the page that is kept in the docs.
"""

from __future__ import annotations

import sys
from functools import cache

from gitsync.check.codes import Code
from gitsync.check.codes_entrypoint import ENTRYPOINT_CODES
from gitsync.check.codes_workspace import WORKSPACE_CODES
from gitsync.check.suggest import nearest

_GROUPS = {
    "entrypoint": "Entrypoints",
    "layout": "Layout",
    "config": "Evaluation, training and benchmark configs",
    "across": "Across files",
    "package": "A rollout's `pyproject.toml`",
    "data": "Data",
    "skills": "Skills and instructions",
    "links": "Links and modes",
    "hygiene": "Hygiene",
    "refusal": "Refused commits",
    "checker": "About the check itself",
    "service": "Hints of the service at a push",
}
_INTRO = """\
# Findings

<!-- Written by `python -m gitsync.check.explain`; a test compares. -->

Every code that `gitsync check` and the service can give. **error**: what uses the file cannot
start, is wrong for certain, or a live credential is published. **unresolved**: it cannot be told
without running the code. **warning**: likely trouble. **hint**: advice. Only errors and unresolved
findings make the check fail. Warnings and hints can be ignored with `# gitsync: ignore[code]` on
the line, or for a rollout with `[tool.gitsync] ignore = ["code"]` in its `pyproject.toml`.
"""


@cache
def all_codes() -> dict[str, Code]:
    """Every code, those of entrypoints first."""
    return {c.code: c for c in (*ENTRYPOINT_CODES, *WORKSPACE_CODES)}


def suggestion(code: str) -> str | None:
    """The known code that was probably meant."""
    return nearest(code, all_codes())


def page() -> str:
    """The text of `docs/findings.md`."""
    parts = [_INTRO]
    for group, title in _GROUPS.items():
        codes = [c for c in all_codes().values() if c.group == group]
        if codes:
            parts.append(f"## {title}\n")
            parts.extend(_entry(c) for c in codes)
    return "\n".join(parts)


def _entry(code: Code) -> str:
    return (
        f"### `{code.code}`\n\n"
        f"*{code.severity.value}* · {code.summary}\n\n"
        f"{code.why}\n\n"
        f"{_block(code.example)}\n"
        f"{_fix(code.fix)}"
    )


def _fix(fix: str) -> str:
    if fix.rstrip().endswith(".") and "\n" not in fix:
        return f"{fix}\n"
    return f"Instead:\n\n{_block(fix)}"


def _block(text: str) -> str:
    fence = "~~~" if "```" in text else "```"
    return f"{fence}text\n{text.rstrip()}\n{fence}\n"


if __name__ == "__main__":
    sys.stdout.write(page())
