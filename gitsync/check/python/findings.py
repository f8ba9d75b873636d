"""Making findings whose texts are safe to show and whose columns count characters."""

from __future__ import annotations

from gitsync.check.python.source import Sources
from gitsync.check.python.values import Place
from gitsync.model import Finding, Severity
from gitsync.text import printable


class Fatal(Exception):
    """A finding that ends the check."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.code)
        self.finding = finding


class Findings:
    """Collects the findings of one check."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.sources: Sources | None = None

    def add(
        self,
        code: str,
        severity: Severity,
        place: Place,
        subject: str,
        what: str,
        fix: str,
    ) -> Finding:
        """Record a finding once; the place's column is turned into characters."""
        finding = self.make(code, severity, place, subject, what, fix)
        same = (code, finding.path, finding.line, finding.column, subject)
        if not any((f.code, f.path, f.line, f.column, f.subject) == same for f in self.findings):
            self.findings.append(finding)
        return finding

    def make(
        self, code: str, severity: Severity, place: Place, subject: str, what: str, fix: str
    ) -> Finding:
        """A finding whose texts are safe to show."""
        column = place.column
        if self.sources is not None:
            column = self.sources.column(place.path, place.line, column)
        return Finding(
            code,
            severity,
            place.path,
            max(place.line, 1),
            max(column, 1),
            printable(subject, limit=300),
            printable(f"{what}. {fix}.", limit=1500),
        )

    def fatal(self, code: str, place: Place, subject: str, what: str, fix: str) -> Fatal:
        """A finding that ends the check."""
        severity = Severity.UNRESOLVED if code == "source-limit" else Severity.ERROR
        return Fatal(self.make(code, severity, place, subject, what, fix))

    def make_exact(self, code: str, place: Place, what: str, fix: str) -> Finding:
        """A finding whose column already counts characters."""
        return Finding(
            code,
            Severity.ERROR,
            place.path,
            max(place.line, 1),
            max(place.column, 1),
            "",
            printable(f"{what}. {fix}.", limit=1500),
        )
