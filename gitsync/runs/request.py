"""What a client submits, checked as far as it can be without any code version.

The `osmosis` client type-checks nothing inside its sections, so all of it happens here; each
refusal is `VALIDATION` and names the field.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from gitsync.errors import InvalidInput
from gitsync.run_records import RunKind
from gitsync.text import printable

_SHA = re.compile(r"[0-9a-fA-F]{7,40}")
_ENV_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_SECRET_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_RESERVED = "_OSMOSIS_"
_TEXTS = ("rollout", "entrypoint", "model_path", "dataset")
_MOST_TEXT, _MOST_NAME, _MOST_VALUE, _MOST_NAMES = 1000, 255, 64 * 1024, 200
_MOST_FREE, _MOST_DEPTH = 64 * 1024, 32

# section of the body → section of the config file
SECTIONS: dict[RunKind, dict[str, str]] = {
    RunKind.EVAL: {"evaluation_config": "evaluation"},
    RunKind.TRAINING: {
        "training_config": "training",
        "sampling_config": "sampling",
        "checkpoints_config": "checkpoints",
    },
}
_REAL = {
    "pass_threshold",
    "agent_workflow_timeout_s",
    "grader_timeout_s",
    "lr",
    "rollout_temperature",
    "rollout_top_p",
}
_WHOLE = {
    "limit",
    "n",
    "batch_size",
    "total_epochs",
    "n_samples_per_prompt",
    "rollout_batch_size",
    "max_prompt_length",
    "max_response_length",
    "eval_interval",
    "checkpoint_save_freq",
}
_KEYS = {
    "evaluation_config": (
        "limit",
        "n",
        "batch_size",
        "pass_threshold",
        "agent_workflow_timeout_s",
        "grader_timeout_s",
    ),
    "training_config": (
        "lr",
        "total_epochs",
        "n_samples_per_prompt",
        "rollout_batch_size",
        "max_prompt_length",
        "max_response_length",
        "agent_workflow_timeout_s",
        "grader_timeout_s",
    ),
    "sampling_config": ("rollout_temperature", "rollout_top_p"),
    "checkpoints_config": ("eval_interval", "checkpoint_save_freq"),
}


@dataclass(frozen=True, slots=True)
class Submission:
    """A run as it was asked for. `sections` are those of the config file, without empty ones."""

    kind: RunKind
    rollout: str
    entrypoint: str
    model_path: str
    dataset: str
    branch: str | None
    commit_sha: str | None
    sections: Mapping[str, dict[str, Any]]
    env: Mapping[str, str]
    required: tuple[str, ...]
    provided: Mapping[str, str]

    def document(self) -> dict[str, Any]:
        """The config file that says the same."""
        experiment: dict[str, Any] = {name: getattr(self, name) for name in _TEXTS}
        if self.branch is not None:
            experiment["branch"] = self.branch
        if self.commit_sha is not None:
            experiment["commit_sha"] = self.commit_sha
        found: dict[str, Any] = {"experiment": experiment, **self.sections}
        if self.env:
            found["env"] = dict(self.env)
        if self.required:
            found["secrets"] = {"required": list(self.required)}
        return found

    @property
    def threshold(self) -> float:
        """The reward from which a sample passes."""
        return float(self.sections.get("evaluation", {}).get("pass_threshold", 1.0))


def _refuse(field: str, why: str) -> NoReturn:
    raise InvalidInput(f"{field} {why}", field=field)


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def read_body(data: bytes) -> dict[str, Any]:
    """The JSON object of a request body."""
    try:
        body = json.loads(data.decode("utf-8"), parse_constant=_constant)
    except (ValueError, RecursionError):
        raise InvalidInput("The request body is no JSON.") from None
    if not isinstance(body, dict):
        raise InvalidInput("The request body must be a JSON object.")
    return body


def parse(kind: RunKind, body: Mapping[str, Any]) -> Submission:
    """What the body asks for; `VALIDATION` with the field that is wrong."""
    known = {"experiment_config", *SECTIONS[kind], "advanced_config", "env_config", "secrets"}
    for key in body:
        if key not in known:
            what = "evaluation" if kind is RunKind.EVAL else "training"
            _refuse(printable(key, limit=100), f"is no part of an {what} run.")
    experiment = _experiment(_table(body, "experiment_config"))
    sections = {
        name: values
        for key, name in SECTIONS[kind].items()
        if (values := _settings(key, _table(body, key)))
    }
    if advanced := _free(_table(body, "advanced_config")):
        sections["advanced"] = advanced
    env = _env(_table(body, "env_config"))
    required, provided = _secrets(_table(body, "secrets"))
    both = sorted(env.keys() & {*required, *provided})
    if both:
        _refuse("env_config", f"and secrets both set {', '.join(both)}. Name each in one of them.")
    return Submission(
        kind=kind,
        sections=sections,
        env=env,
        required=required,
        provided=provided,
        **experiment,
    )


def _table(body: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = body.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        _refuse(key, "must be an object.")
    return {name: item for name, item in value.items() if item is not None}


def _text(field: str, value: object, *, most: int = _MOST_TEXT) -> str:
    if not isinstance(value, str):
        _refuse(field, "is missing." if value is None else "must be a string.")
    if not value.strip() or len(value) > most or not value.isprintable():
        _refuse(field, f"must have 1 to {most} printable characters.")
    return value


def _experiment(table: Mapping[str, Any]) -> dict[str, Any]:
    place = "experiment_config"
    for key in table:
        if key not in {*_TEXTS, "branch", "commit_sha"}:
            _refuse(f"{place}.{printable(key, limit=100)}", "is not known.")
    found: dict[str, Any] = {k: _text(f"{place}.{k}", table.get(k)) for k in _TEXTS}
    rollout, entrypoint = found["rollout"], found["entrypoint"]
    if "/" in rollout or "\\" in rollout or rollout in {".", ".."}:
        _refuse(f"{place}.rollout", f"must be the name of a folder in rollouts/, not {rollout!r}.")
    parts = entrypoint.split("/")
    if "\\" in entrypoint or any(part in {"", ".", ".."} for part in parts):
        _refuse(f"{place}.entrypoint", f"must be a file inside of the rollout, not {entrypoint!r}.")
    branch, commit_sha = table.get("branch"), table.get("commit_sha")
    if branch is not None:
        text = _text(f"{place}.branch", branch)
        if any(char.isspace() for char in text):
            _refuse(f"{place}.branch", "must not hold white space.")
    if commit_sha is not None and not (isinstance(commit_sha, str) and _SHA.fullmatch(commit_sha)):
        shown = printable(str(commit_sha), limit=60)
        _refuse(f"{place}.commit_sha", f"must have 7 to 40 hexadecimal digits, not {shown!r}.")
    if branch is not None and commit_sha is not None:
        _refuse(f"{place}.commit_sha", "and branch exclude each other; give one of them.")
    return found | {"branch": branch, "commit_sha": commit_sha}


def _settings(place: str, table: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in table.items():
        field = f"{place}.{printable(key, limit=100)}"
        if key not in _KEYS[place]:
            _refuse(field, f"is not known; {place} has {', '.join(_KEYS[place])}.")
        is_real = isinstance(value, int | float) and not isinstance(value, bool)
        if key in _WHOLE and not (is_real and isinstance(value, int) and abs(value) < 2**53):
            _refuse(field, f"must be a whole number, not {_shown(value)}.")
        if key in _REAL and not (is_real and abs(value) < 2**53 and math.isfinite(value)):
            _refuse(field, f"must be a finite number, not {_shown(value)}.")
        if key == "n" and value < 1:
            _refuse(field, f"must be 1 or more, not {value}.")
        if key.endswith("_timeout_s") and value <= 0:
            _refuse(field, f"must be above 0, not {value}.")
    return dict(table)


def _shown(value: object) -> str:
    return printable(json.dumps(value, default=str), limit=60)


def _free(table: dict[str, Any]) -> dict[str, Any]:
    if _depth(table) > _MOST_DEPTH:
        _refuse("advanced_config", f"is nested more than {_MOST_DEPTH} deep.")
    try:
        size = len(json.dumps(table, ensure_ascii=False, allow_nan=False).encode())
    except UnicodeEncodeError:
        _refuse("advanced_config", "holds text that is no Unicode.")
    except ValueError:
        _refuse("advanced_config", "holds a number that is too large.")
    if size > _MOST_FREE:
        _refuse("advanced_config", f"has more than {_MOST_FREE} bytes.")
    return table


def _depth(value: object) -> int:
    """How deep containers lie in each other; without recursion, as the input may be hostile."""
    deepest, level = 0, [value]
    while level and deepest <= _MOST_DEPTH:
        deepest += 1
        level = [
            item
            for holder in level
            if isinstance(holder, dict | list)
            for item in (holder.values() if isinstance(holder, dict) else holder)
        ]
    return deepest


def _value(field: str, value: object) -> str:
    if not isinstance(value, str):
        _refuse(field, "must be a string.")
    if len(value) > _MOST_VALUE or "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
        _refuse(field, f"must be text of at most {_MOST_VALUE} characters without NUL.")
    return value


def _env(table: Mapping[str, Any]) -> dict[str, str]:
    if len(table) > _MOST_NAMES:
        _refuse("env_config", f"has more than {_MOST_NAMES} names.")
    for name, value in table.items():
        field = f"env_config.{printable(name, limit=100)}"
        if not _ENV_NAME.fullmatch(name) or len(name) > _MOST_NAME:
            _refuse(field, "is no name of a variable: A-Z, 0-9 and _, no digit first.")
        if name.startswith(_RESERVED):
            _refuse(field, f"is reserved: names may not begin with {_RESERVED}.")
        _value(field, value)
    return dict(table)


def _secrets(table: Mapping[str, Any]) -> tuple[tuple[str, ...], dict[str, str]]:
    for key in table:
        if key not in {"required", "provided"}:
            _refuse(f"secrets.{printable(key, limit=100)}", "is not known.")
    required, provided = table.get("required", []), table.get("provided", {})
    if not isinstance(required, list):
        _refuse("secrets.required", "must be a list of names.")
    if not isinstance(provided, dict):
        _refuse("secrets.provided", "must be an object of names and values.")
    for place, names in (("required", required), ("provided", provided)):
        if len(names) > _MOST_NAMES:
            _refuse(f"secrets.{place}", f"has more than {_MOST_NAMES} names.")
        for name in names:
            if not isinstance(name, str) or not _SECRET_NAME.fullmatch(name) or len(name) > 255:
                shown = printable(str(name), limit=100)
                _refuse(
                    f"secrets.{place}", f"has {shown!r}: names are A-Z, 0-9 and _, a letter first."
                )
    for name, value in provided.items():
        if not _value(f"secrets.provided.{name}", value):
            _refuse(f"secrets.provided.{name}", "is empty.")
    return tuple(dict.fromkeys(required)), dict(provided)
