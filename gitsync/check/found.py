"""How the workspace checks make a finding: severity from the code's entry, text escaped."""

from __future__ import annotations

from gitsync.check.codes_workspace import SEVERITY
from gitsync.check.secrets import redacted
from gitsync.model import Finding, Severity
from gitsync.text import printable


def shown(value: object, *, limit: int = 80) -> str:
    """A value from the repository, fit for a message: escaped, short, no credential in it."""
    text = str(value).lower() if isinstance(value, bool) else str(value)  # as TOML and JSON do
    return printable(redacted(text), limit=limit)


def finding(
    code: str,
    path: str,
    message: str,
    *,
    at: tuple[int, int] = (1, 1),
    subject: str = "",
    severity: Severity | None = None,
) -> Finding:
    """One finding; `message` must have its foreign parts passed through `shown` already."""
    return Finding(
        code=code,
        severity=severity or SEVERITY[code],
        path=path,
        line=at[0],
        column=at[1],
        subject=printable(redacted(subject), limit=200),
        message=message,
    )
