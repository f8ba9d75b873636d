"""Config files as values: which keys a kind has, and what other checks ask of a parsed file."""

from __future__ import annotations

import datetime
import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from gitsync.check import toml
from gitsync.check.secrets import redacted
from gitsync.model import Finding, Severity

EXPERIMENT = ("rollout", "entrypoint", "model_path", "dataset", "branch", "commit_sha")
REQUIRED = EXPERIMENT[:4]
KEYS: dict[str, dict[str, tuple[str, ...]]] = {
    "eval": {
        "experiment": EXPERIMENT,
        "evaluation": (
            "limit",
            "n",
            "batch_size",
            "pass_threshold",
            "agent_workflow_timeout_s",
            "grader_timeout_s",
        ),
        "secrets": ("required",),
    },
    "training": {
        "experiment": EXPERIMENT,
        "training": (
            "lr",
            "total_epochs",
            "n_samples_per_prompt",
            "rollout_batch_size",
            "max_prompt_length",
            "max_response_length",
            "agent_workflow_timeout_s",
            "grader_timeout_s",
        ),
        "sampling": ("rollout_temperature", "rollout_top_p"),
        "checkpoints": ("checkpoint_save_freq", "eval_interval"),
        "secrets": ("required",),
    },
    "benchmark": {
        "experiment": ("benchmark",),
        "tasks": ("task_set", "task_names", "categories"),
        "agents": ("harness", "harness_api_key_secret", "model", "env"),
        "execution": (
            "attempts_per_task",
            "max_concurrent_attempts",
            "timeout_multiplier",
            "max_retries",
            "pass_threshold",
            "judge_model",
            "judge_api_key_secret",
        ),
        "verifier": ("required",),
        "secrets": ("required",),
    },
}
FREE = {"eval": ("advanced", "env"), "training": ("advanced", "env"), "benchmark": ("env",)}
REMOVED = ("eval", "llm", "runs", "timeouts", "grader", "rollout")
# Keys that hold the name of a secret, not the secret.
_SECRET_NAMES = {"api_key_secret", "harness_api_key_secret", "judge_api_key_secret"}
_SECRET_KEY = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|AUTHORIZATION|CREDENTIAL", re.IGNORECASE)
PLACEHOLDER = re.compile(r"<[^\W\d_][\w -]*>")


@dataclass(frozen=True, slots=True)
class Config:
    """One config file; `document` is None if it is no TOML."""

    path: str
    kind: str
    document: toml.Document | None = None
    found: tuple[Finding, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] | None = None
    fact: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, path: str, kind: str, document: toml.Document, found: Iterable[Finding]) -> Config:
        """A readable file, with what other checks ask of it worked out once."""
        experiment, secrets = document.values.get("experiment"), document.values.get("secrets")
        texts = {
            key: value
            for key, value in (experiment if isinstance(experiment, dict) else {}).items()
            if key in EXPERIMENT and usable(value) is not None
        }
        names = secrets.get("required") if isinstance(secrets, dict) else None
        required = (
            tuple(n for n in names if isinstance(n, str)) if isinstance(names, list) else None
        )
        found = tuple(found)
        fact = _fact(path, kind, document.values, found)
        return cls(path, kind, document, found, texts, required, fact)

    def facts(self) -> dict[str, Any]:
        """What the manifest says of the file; `content` is shared and must not be changed."""
        return dict(self.fact or _fact(self.path, self.kind, None, self.found))

    @property
    def name(self) -> str:
        """The path below the folder of its kind: what makes twins of two files."""
        return self.path.split("/", 2)[2]

    @property
    def is_default(self) -> bool:
        """True for a reference file, which names no rollout."""
        return self.path.endswith("/default.toml")

    @property
    def values(self) -> dict[str, Any]:
        """The parsed file, or nothing."""
        return self.document.values if self.document else {}

    def table(self, section: str) -> dict[str, Any]:
        """A section, empty if it is not there or no table."""
        value = self.values.get(section)
        return value if isinstance(value, dict) else {}

    def text(self, key: str) -> str | None:
        """A value of `[experiment]` that names something: text, not blank, no placeholder."""
        return self.texts.get(key)


def usable(value: object) -> str | None:
    """A text that is neither blank nor a placeholder."""
    if not isinstance(value, str) or not value.strip() or PLACEHOLDER.search(value):
        return None
    return value


def is_integer(value: object) -> bool:
    """A whole number; a boolean is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_real(value: object) -> bool:
    """A number of any kind, infinite ones included; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """A finite number; a boolean is none."""
    try:
        return is_real(value) and math.isfinite(cast(float, value))
    except OverflowError:  # an integer beyond all floats, which the SDK refuses too
        return False


def _fact(
    path: str, kind: str, values: dict[str, Any] | None, found: tuple[Finding, ...]
) -> dict[str, Any]:
    experiment = (values or {}).get("experiment")
    given = experiment if isinstance(experiment, dict) else {}
    texts = {k: given.get(k) if isinstance(given.get(k), str) else None for k in EXPERIMENT}
    valid = values is not None and all(f.severity is not Severity.ERROR for f in found)
    content = None if values is None else config_content(values)
    return {"path": path, "kind": kind, **texts, "valid": valid, "content": content}


def config_content(values: Mapping[str, Any]) -> dict[str, Any]:
    """A config in JSON's types, fit to be served and compared: no credential in it.

    Times and odd numbers become text. A value that is, or by its name should be, a credential
    becomes the digest of its text; apply the same to what it is compared with.
    """
    return {k: _plain(v, k) for k, v in values.items()}


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v, "") for v in value]
    if isinstance(value, str):
        is_secret = redacted(value) != value or bool(_SECRET_KEY.search(name))
        return _digest(value) if is_secret and name not in _SECRET_NAMES else value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return value


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
