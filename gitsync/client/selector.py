"""What `gitsync pull` is asked for: a digest, or words that the server resolves to one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gitsync.client.server import Json
from gitsync.errors import InvalidInput

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")
_SHA = re.compile(r"[0-9a-fA-F]{7,40}")


def parse_digest(text: str) -> str | None:
    """The sha256 in `text`, or None if it is none."""
    found = _DIGEST.fullmatch(text)
    return found[1].lower() if found else None


@dataclass(frozen=True, slots=True)
class Selector:
    """`ROLLOUT[:ENTRYPOINT][@SHA | @branch:NAME]`; without a pin the default branch's tip."""

    rollout: str
    entrypoint: str | None = None
    commit_sha: str | None = None
    branch: str | None = None

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Read it; `InvalidInput` shows the form."""
        head, at, pin = text.partition("@")
        rollout, colon, entrypoint = head.partition(":")
        branch = pin.removeprefix("branch:") if pin.startswith("branch:") else None
        broken = (
            not rollout
            or "/" in rollout
            or (colon and not entrypoint)
            or (at and not branch and not _SHA.fullmatch(pin))
        )
        if broken:
            raise InvalidInput(
                f"{text[:200]!r} names no rollout version. Write ROLLOUT, ROLLOUT:ENTRYPOINT, "
                "ROLLOUT@SHA (7 to 40 digits), ROLLOUT@branch:NAME, or a digest of 64 digits.",
                field="resolve",
            )
        return cls(rollout, entrypoint or None, None if branch else pin or None, branch)

    def body(self, *, prefer: str | None) -> Json:
        """The request that resolves it."""
        words = {
            "rollout": self.rollout,
            "entrypoint": self.entrypoint,
            "commit_sha": self.commit_sha.lower() if self.commit_sha else None,
            "branch": self.branch,
            "prefer": prefer,
        }
        return {key: value for key, value in words.items() if value is not None}
