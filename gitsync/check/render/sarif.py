"""The report as SARIF 2.1.0, for code scanners."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from gitsync import __version__
from gitsync.check.codes import Code
from gitsync.check.explain import all_codes
from gitsync.check.render.github import all_findings
from gitsync.model import Finding, Report, Severity
from gitsync.text import printable

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {
    Severity.ERROR: "error",
    Severity.UNRESOLVED: "error",
    Severity.WARNING: "warning",
    Severity.HINT: "note",
}


def to_sarif(report: Report) -> str:
    """One run with a rule per code that occurs."""
    found = list(all_findings(report))
    names = sorted({f.code for f in found})
    index = {name: i for i, name in enumerate(names)}
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "gitsync",
                        "version": __version__,
                        "rules": [_rule(name) for name in names],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {
                    "REPOSITORY": {"description": {"text": "The root of the repository."}}
                },
                "results": [_result(f, index[f.code]) for f in found],
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=True) + "\n"


def _rule(name: str) -> dict[str, Any]:
    code: Code | None = all_codes().get(name)
    if code is None:
        return {"id": name}
    return {
        "id": name,
        "shortDescription": {"text": code.summary},
        "fullDescription": {"text": code.why},
        "help": {"text": f"{code.why}\n\nFor example:\n{code.example}\n\nInstead:\n{code.fix}"},
        "defaultConfiguration": {"level": _LEVELS[code.severity]},
        "properties": {"tags": [code.group]},
    }


def _result(found: Finding, index: int) -> dict[str, Any]:
    out: dict[str, Any] = {
        "ruleId": found.code,
        "ruleIndex": index,
        "level": _LEVELS[found.severity],
        "message": {"text": printable(found.message, limit=4000)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {
                        "uri": quote(found.path.encode("utf-8", "surrogateescape")) or ".",
                        "uriBaseId": "REPOSITORY",
                    },
                    "region": {"startLine": found.line, "startColumn": found.column},
                }
            }
        ],
    }
    if found.suppressed:
        out["suppressions"] = [{"kind": "inSource"}]
    return out
