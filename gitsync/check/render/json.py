"""The report as JSON: the document of `gitsync check --format json`."""

from __future__ import annotations

import json

from gitsync.model import Report


def to_json(report: Report) -> str:
    """ASCII only; bytes of paths that are no UTF-8 appear as lone surrogates."""
    out = report.to_json()
    for fact in ("refused", "configs", "skills"):
        out.pop(fact)
    return json.dumps(out, indent=2, ensure_ascii=True) + "\n"
