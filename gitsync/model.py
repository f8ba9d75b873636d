"""Plain values shared by all rooms: frozen, checked when made, free of I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from gitsync.errors import InvalidInput


class Severity(StrEnum):
    """How bad a finding is; only `error` and `unresolved` make a rollout not runnable."""

    ERROR = "error"
    UNRESOLVED = "unresolved"
    WARNING = "warning"
    HINT = "hint"


class Verdict(StrEnum):
    """What a check says of an entrypoint, or of a whole tree."""

    OK = "ok"
    ERROR = "error"
    UNRESOLVABLE = "unresolvable"

    @classmethod
    def of(cls, findings: tuple[Finding, ...]) -> Verdict:
        """`error` if there is an error, else `unresolvable` if one is unresolved, else `ok`."""
        severities = {f.severity for f in findings if not f.suppressed}
        if Severity.ERROR in severities:
            return cls.ERROR
        return cls.UNRESOLVABLE if Severity.UNRESOLVED in severities else cls.OK


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong with one file, told to the person who pushed it.

    `path` is relative to the repository, `/`-separated, without a final slash; undecodable bytes
    are surrogate escapes. `line` and `column` count from 1; columns count characters.
    """

    code: str
    severity: Severity
    path: str
    line: int
    column: int
    subject: str
    message: str
    suppressed: bool = False

    @property
    def order(self) -> tuple[bytes, int, int, str, str]:
        """Sort key: path by bytes, line, column, code, subject."""
        return (
            self.path.encode("utf-8", "surrogateescape"),
            self.line,
            self.column,
            self.code,
            self.subject,
        )

    def to_json(self) -> dict[str, Any]:
        """The wire and row form; `suppressed` is there only when it is true."""
        out: dict[str, Any] = {
            "code": self.code,
            "severity": self.severity.value,
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "subject": self.subject,
            "message": self.message,
        }
        if self.suppressed:
            out["suppressed"] = True
        return out

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Finding:
        """The inverse of `to_json`."""
        return cls(
            code=data["code"],
            severity=Severity(data["severity"]),
            path=data["path"],
            line=data["line"],
            column=data["column"],
            subject=data["subject"],
            message=data["message"],
            suppressed=data.get("suppressed", False),
        )


@dataclass(frozen=True, slots=True)
class EntrypointReport:
    """What the check says of one entrypoint of one rollout.

    `workflow` and `grader` are `module:qualname` of the one exposed concrete class, else None.
    """

    rollout: str
    entrypoint: str
    verdict: Verdict
    workflow: str | None
    grader: str | None
    findings: tuple[Finding, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """`{name, entrypoint, verdict, workflow, grader, findings}`."""
        return {
            "name": self.rollout,
            "entrypoint": self.entrypoint,
            "verdict": self.verdict.value,
            "workflow": self.workflow,
            "grader": self.grader,
            "findings": [f.to_json() for f in self.findings],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> EntrypointReport:
        """The inverse of `to_json`."""
        return cls(
            rollout=data["name"],
            entrypoint=data["entrypoint"],
            verdict=Verdict(data["verdict"]),
            workflow=data["workflow"],
            grader=data["grader"],
            findings=tuple(Finding.from_json(f) for f in data["findings"]),
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What the check says of a whole tree.

    `rollouts` holds one element per (rollout, entrypoint), sorted by name and entrypoint;
    `findings` are all others, in the order of `Finding.order`. `refused` is set if the commit must
    not become a version at all (unsafe names, links that leave the repository). `configs` and
    `skills` are facts for the manifest, plain JSON values.
    """

    rollouts: tuple[EntrypointReport, ...] = ()
    findings: tuple[Finding, ...] = ()
    refused: bool = False
    configs: tuple[dict[str, Any], ...] = ()
    skills: tuple[dict[str, Any], ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst of all findings; warnings and hints never change it."""
        inner = tuple(f for r in self.rollouts for f in r.findings)
        return Verdict.of(self.findings + inner)

    def to_json(self) -> dict[str, Any]:
        """The document of `gitsync check --format json`, with the facts beside it."""
        return {
            "schema_version": 1,
            "verdict": self.verdict.value,
            "rollouts": [r.to_json() for r in self.rollouts],
            "findings": [f.to_json() for f in self.findings],
            "refused": self.refused,
            "configs": list(self.configs),
            "skills": list(self.skills),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Report:
        """The inverse of `to_json`."""
        return cls(
            rollouts=tuple(EntrypointReport.from_json(r) for r in data["rollouts"]),
            findings=tuple(Finding.from_json(f) for f in data["findings"]),
            refused=data["refused"],
            configs=tuple(data["configs"]),
            skills=tuple(data["skills"]),
        )


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What may change the answer of a check; part of the reuse key of an assessment."""

    accept_harbor_native: bool = False
    max_file_bytes: int = 1024 * 1024
    max_modules: int = 500
    max_entrypoint_bytes: int = 4 * 1024 * 1024
    max_file_tokens: int = 150_000
    max_entrypoint_tokens: int = 400_000
    seconds_per_entrypoint: float = 2.0
    max_files: int = 50_000
    max_depth: int = 64
    max_path_bytes: int = 4096


_SHA = re.compile(r"[0-9a-f]{40}")
_IDENTITY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")


class Sha(str):
    """A full, lower-case commit sha of 40 hexadecimal digits."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Accept exactly a full sha, any case."""
        value = text.lower()
        if not _SHA.fullmatch(value):
            raise InvalidInput(f"{text[:60]!r} is no full commit sha (40 hexadecimal digits).")
        return cls(value)


ZERO_SHA = "0" * 40


@dataclass(frozen=True, slots=True)
class Identity:
    """`owner/repo`: the name by which clients know a workspace; compared without case."""

    owner: str
    repo: str

    @classmethod
    def parse(cls, text: str) -> Identity:
        """Two segments of letters, digits, `-` (owner) and also `.`, `_` (repo)."""
        owner, _, repo = text.partition("/")
        if not _IDENTITY.fullmatch(text) or len(text) > 140 or repo in {".", ".."}:
            raise InvalidInput(
                f"{text[:160]!r} is no identity. Write OWNER/REPO with letters, digits, '-' and, "
                "in the second part, '.' and '_'.",
                field="identity",
            )
        return cls(owner, repo.removesuffix(".git"))

    @property
    def key(self) -> str:
        """The form that is unique."""
        return str(self).lower()

    def __str__(self) -> str:
        return f"{self.owner}/{self.repo}"


@dataclass(frozen=True, slots=True)
class Signature:
    """Author or committer of a commit; `time` in seconds since 1970 as stored, unclamped."""

    name: str
    email: str
    time: int
    offset: int = field(default=0)
