"""What only benchmark configs have: task selectors, agents with their models, secret names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.check.config import KEYS, is_integer, is_number
from gitsync.check.config_checker import Checker
from gitsync.check.found import shown
from gitsync.check.suggest import did_you_mean

MODEL_KEYS: dict[str, tuple[str, ...]] = {
    "provider": ("type", "model", "api_key_secret"),
    "endpoint": ("type", "base_url", "model", "api_key_secret", "extra_headers"),
    "hosted": ("type", "base_model", "lora_model_name"),
}
_FILLED = ("model", "base_model", "lora_model_name", "base_url")
_RESERVED = ("DAYTONA_API_KEY", "DAYTONA_API_URL")
_MAX_AGENTS = 8
_MAX_SECRETS = 16


def check_benchmark(checker: Checker) -> None:
    """Add the findings of the sections that only a benchmark has."""
    _tasks(checker)
    shared = [*_execution(checker), *_names(checker, "verifier")]
    _names(checker, "secrets")
    agents = checker.values.get("agents")
    if "agents" not in checker.values:
        return
    if not isinstance(agents, list):
        checker.add(
            "wrong-type",
            "`agents` must be an array of tables. Write `[[agents]]` with two brackets.",
            checker.document.value("agents"),
            "agents",
        )
        return
    if not agents:
        checker.add(
            "agent-count",
            "No agent is listed. Add one to 8 `[[agents]]` tables.",
            checker.document.value("agents"),
        )
    if len(agents) > _MAX_AGENTS:
        checker.add(
            "agent-count",
            f"{len(agents)} agents are listed; 8 is the most. Split the file.",
            checker.document.table("agents", _MAX_AGENTS),
        )
    for index in range(len(agents)):
        _agent(checker, index, shared)


def _tasks(checker: Checker) -> None:
    experiment = checker.table("experiment") or {}
    tasks = checker.table("tasks") or {}
    if "task_set" in tasks:
        text = checker.string(tasks["task_set"], "tasks", "task_set")
        if text is not None and text != "parity":
            checker.add(
                "invalid-choice",
                f"`task_set` can only be `parity`, not `{shown(text)}`. Correct or remove it.",
                checker.document.value("tasks", "task_set"),
                text,
            )
    for key in ("task_names", "categories"):
        for index, text in checker.strings(tasks[key], "tasks", key) or () if key in tasks else ():
            if not text.strip():
                checker.add(
                    "blank-selector",
                    f"`{key}` holds a blank entry, which selects nothing. Remove it.",
                    checker.document.value("tasks", key, index),
                    key,
                )
    name = experiment.get("benchmark")
    if (
        isinstance(name, str)
        and name.lower() == "hle"
        and tasks.get("task_set") != "parity"
        and not checker.is_default
    ):
        checker.add(
            "hle-without-parity",
            'The whole of HLE is run without `task_set`. Add `task_set = "parity"` to `[tasks]`.',
            checker.document.value("experiment", "benchmark"),
        )


def _execution(checker: Checker) -> list[str]:
    """Judge `[execution]`; the judge's secret is what every agent is given."""
    table = checker.table("execution") or {}
    if not checker.is_default:
        for key, value in table.items():
            if key in ("attempts_per_task", "max_concurrent_attempts"):
                good, wanted = is_integer(value) and value >= 1, "a whole number, 1 or more"
            elif key == "max_retries":
                good, wanted = is_integer(value) and value >= 0, "a whole number, 0 or more"
            elif key == "timeout_multiplier":
                good, wanted = is_number(value) and value > 0, "a number above 0"
            elif key == "pass_threshold":
                good, wanted = is_number(value) and 0 <= value <= 1, "from 0 to 1"
            else:
                continue
            if not good:
                checker.questionable("execution", key, f"is unusual; expected is {wanted}")
    key = "judge_api_key_secret"
    if key not in table:
        return []
    name = checker.string(table[key], "execution", key)
    if name is None or not checker.secret_name(name, "execution", key):
        return []
    return [name]


def _names(checker: Checker, section: str) -> list[str]:
    """Judge a list of secret names."""
    table = checker.table(section) or {}
    if "required" not in table:
        return []
    names = checker.strings(table["required"], section, "required")
    if isinstance(table["required"], list) and len(table["required"]) > _MAX_SECRETS:
        checker.add(
            "too-many-secrets",
            f"`[{section}].required` has {len(table['required'])} names; 16 is the most.",
            checker.document.key(section, "required"),
            section,
        )
    for index, name in names or ():
        checker.secret_name(name, section, "required", index)
    return [name for _, name in names or ()]


def _agent(checker: Checker, index: int, shared: list[str]) -> None:
    agent = checker.table("agents", index)
    if agent is None:
        return
    checker.unknown_keys(agent, KEYS["benchmark"]["agents"], "agents", index)
    checker.missing(agent, ("model",), "agents", index)
    if "env" in agent:
        checker.env("agents", index, "env")
    harness = None
    if "harness" in agent:
        harness = checker.string(agent["harness"], "agents", index, "harness")
    _harness_key(checker, index, agent, harness)
    names = list(shared)
    kind = _model(checker, index, names) if "model" in agent else None
    if harness == "cursor-cli":
        names.append("CURSOR_API_KEY")
    if harness == "mini-swe-agent" and kind != "hosted":
        names.append("MSWEA_API_KEY")
    _overlaps(checker, index, agent, names)


def _harness_key(
    checker: Checker, index: int, agent: Mapping[str, Any], harness: str | None
) -> None:
    key = "harness_api_key_secret"
    value = None
    if key in agent:
        value = checker.string(agent[key], "agents", index, key)
        if value is None:
            return
        checker.secret_name(value, "agents", index, key)
    if "harness" in agent and harness is None:
        return
    if harness == "cursor-cli" and value != "CURSOR_API_KEY":
        checker.add(
            "harness-key",
            "The harness `cursor-cli` reads `CURSOR_API_KEY`. Write "
            '`harness_api_key_secret = "CURSOR_API_KEY"`.',
            checker.document.value("agents", index, key if key in agent else "harness"),
            "cursor-cli",
        )
    elif harness != "cursor-cli" and value is not None:
        subject = f"The harness `{shown(harness)}`" if harness else "An agent without harness"
        checker.add(
            "harness-key",
            f"{subject} takes no `harness_api_key_secret`. Remove the key.",
            checker.document.value("agents", index, key),
            harness or "",
        )


def _model(checker: Checker, index: int, names: list[str]) -> str | None:
    """Judge an agent's model; its secret joins `names`. Returns the type if it is known."""
    at = ("agents", index, "model")
    model = checker.table(*at)
    if model is None:
        return None
    for key in _FILLED:
        if isinstance(model.get(key), str):
            checker.placeholder(model[key], *at, key)
    kind = None
    if "type" in model:
        kind = checker.string(model["type"], *at, "type")
        if kind is not None and kind not in MODEL_KEYS:
            checker.add(
                "invalid-choice",
                f"`type` must be `provider`, `endpoint` or `hosted`, not `{shown(kind)}`."
                f"{did_you_mean(kind, MODEL_KEYS)}",
                checker.document.value(*at, "type"),
                kind,
            )
            kind = None
    else:
        checker.missing(model, ("type",), *at)
    keys = MODEL_KEYS[kind] if kind else ()
    if kind:
        checker.unknown_keys(model, keys, *at)
        checker.missing(model, [k for k in keys if k not in ("type", "extra_headers")], *at)
    for key, value in model.items():
        if key in keys and key not in ("type", "extra_headers"):
            checker.string(value, *at, key)
    if "extra_headers" in keys and "extra_headers" in model:
        _headers(checker, *at, "extra_headers")
    secret = model.get("api_key_secret")
    if isinstance(secret, str) and kind != "hosted":
        _model_secret(checker, secret, names, *at, "api_key_secret")
    return kind


def _model_secret(checker: Checker, secret: str, names: list[str], *at: str | int) -> None:
    if not checker.secret_name(secret, *at):
        return
    names.append(secret)
    if secret in _RESERVED:
        checker.add(
            "reserved-secret-name",
            f"`{secret}` is reserved by the benchmark runner. Store the key under another name.",
            checker.document.value(*at),
            secret,
        )


def _headers(checker: Checker, *at: str | int) -> None:
    for key, value in (checker.table(*at) or {}).items():
        checker.string(value, *at, key)
        if key.casefold() == "authorization":
            checker.add(
                "authorization-header",
                "`extra_headers` must not hold an Authorization header. Use `api_key_secret`.",
                checker.document.key(*at, key),
            )


def _overlaps(checker: Checker, index: int, agent: Mapping[str, Any], names: list[str]) -> None:
    own = agent.get("env")
    shared = checker.values.get("env")
    for name in dict.fromkeys(names):
        if isinstance(own, dict) and name in own:
            checker.overlap(name, "a secret of this agent", "agents", index, "env")
        elif isinstance(shared, dict) and name in shared:
            checker.overlap(name, "a secret of an agent", "env")
