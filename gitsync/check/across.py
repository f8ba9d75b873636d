"""What only several files together show: twins, data set names, secrets, unused rollouts."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence

from gitsync.check import aging
from gitsync.check.config import Config, is_integer
from gitsync.check.found import finding, shown
from gitsync.check.rollouts import Rollout
from gitsync.check.suggest import edits, fold
from gitsync.model import Finding

_CALLS = 256
_CALLS_PER_SLOT = 64
_BATCH, _SAMPLES = 32, 8
_NEAR_LENGTH = 6


def check_across(
    configs: Sequence[Config], rollouts: Sequence[Rollout], stems: Iterable[str]
) -> Iterator[Finding]:
    """All findings that need more than one file; default files take no part."""
    judged = [c for c in configs if not c.is_default and c.kind != "benchmark" and c.document]
    by_name = {r.name: r for r in rollouts}
    yield from _twins(judged)
    known = frozenset(stems)
    for config in judged:
        yield from _near_miss(config, known)
        rollout = by_name.get(config.text("rollout") or "")
        if rollout is not None:
            yield from _secrets(config, rollout)
        if config.kind == "training":
            yield from _calls(config, rollout)
    yield from _unused(configs, rollouts)


def _twins(configs: Sequence[Config]) -> Iterator[Finding]:
    evaluations = {c.name: c for c in configs if c.kind == "eval"}
    for training in configs:
        twin = evaluations.get(training.name) if training.kind == "training" else None
        if twin is None or training.document is None:
            continue
        document = training.document
        ours, theirs = training.text("rollout"), twin.text("rollout")
        if ours and theirs and ours != theirs:
            yield finding(
                "twin-rollout-differs",
                training.path,
                f"`{shown(twin.path)}` has the same name and evaluates `{shown(theirs)}`, not "
                f"`{shown(ours)}`. Rename one of the files or correct the rollout.",
                at=document.value("experiment", "rollout"),
                subject=ours,
            )
        elif ours and theirs:
            mine, other = training.text("entrypoint"), twin.text("entrypoint")
            if mine and other and posixpath.normpath(mine) != posixpath.normpath(other):
                yield finding(
                    "twin-entrypoint-differs",
                    training.path,
                    f"`{shown(twin.path)}` evaluates `{shown(other)}`, this trains "
                    f"`{shown(mine)}`. Use one entrypoint for both.",
                    at=document.value("experiment", "entrypoint"),
                    subject=mine,
                )
        for key in ("agent_workflow_timeout_s", "grader_timeout_s"):
            left, right = training.table("training"), twin.table("evaluation")
            if key in left and key in right and _differ(left[key], right[key]):
                yield finding(
                    "twin-timeouts-differ",
                    training.path,
                    f"`{key}` is {shown(left[key])} here and {shown(right[key])} in "
                    f"`{shown(twin.path)}`. Make them equal unless you mean it.",
                    at=document.value("training", key),
                    subject=key,
                )


def _differ(left: object, right: object) -> bool:
    """True if two values are different ones; `nan` is itself, and `true` is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is not right
    return left != right and not (left != left and right != right)


def _near_miss(config: Config, stems: frozenset[str]) -> Iterator[Finding]:
    name = config.text("dataset")
    if name is None or name in stems or config.document is None:
        return
    near = min(
        (s for s in stems if is_near(name, s)),
        key=lambda s: (fold(s) != fold(name), s),
        default=None,
    )
    if near is not None:
        yield finding(
            "dataset-near-miss",
            config.path,
            f"No file in `data/` is called `{shown(name)}`, but `{shown(near)}` is there. Correct "
            "the name unless the platform has both.",
            at=config.document.value("experiment", "dataset"),
            subject=name,
        )


def is_near(name: str, other: str) -> bool:
    """True if two names are so alike that one is probably a slip of the pen."""
    left, right = fold(name), fold(other)
    if left == right:
        return True
    digits = str.maketrans("", "", "0123456789")
    if name.translate(digits) == other.translate(digits):
        return False
    if min(len(name), len(other)) < _NEAR_LENGTH:
        return False
    return edits(left, right) <= 2


def _secrets(config: Config, rollout: Rollout) -> Iterator[Finding]:
    document = config.document
    if document is None:
        return
    required, env = config.required, config.table("env")
    for name in rollout.code.secrets:
        if name not in (required or ()) and name not in env:
            has = "required" in config.table("secrets")
            yield finding(
                "secret-not-required",
                config.path,
                f"The code of `{shown(rollout.name)}` reads `{shown(name)}`, which this config "
                "does not provide. Add it to `[secrets].required`.",
                at=document.value("secrets", "required")
                if has
                else document.table("secrets")
                if "secrets" in document.values
                else (1, 1),
                subject=name,
            )
    listed = config.table("secrets").get("required")
    for index, name in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(name, str) or name in aging.provider_keys() or not _is_secret_name(name):
            continue
        if not rollout.mentions(name):
            yield finding(
                "unused-secret",
                config.path,
                f"Nothing in `{shown(rollout.path)}` mentions `{name}`. Remove it if it is not "
                "needed.",
                at=document.value("secrets", "required", index),
                subject=name,
            )


def _is_secret_name(name: str) -> bool:
    return (
        name.isascii()
        and name[:1].isupper()
        and name.replace("_", "A").isalnum()
        and (name == name.upper())
    )


def policy_calls(config: Config) -> tuple[int, str] | None:
    """Simultaneous policy calls of a training config and the key that decides them."""
    table = config.table("training")
    given = [k for k in ("rollout_batch_size", "n_samples_per_prompt") if k in table]
    batch, samples = (
        table.get("rollout_batch_size", _BATCH),
        table.get("n_samples_per_prompt", _SAMPLES),
    )
    if not given or not all(is_integer(v) and v >= 1 for v in (batch, samples)):
        return None
    return batch * samples, given[0]


def _calls(config: Config, rollout: Rollout | None) -> Iterator[Finding]:
    counted = policy_calls(config)
    if counted is None or config.document is None:
        return
    calls, key = counted
    limit = rollout.code.limit if rollout else None
    if calls > _CALLS or (limit is not None and calls > _CALLS_PER_SLOT * limit):
        served = f", and the code serves {limit} at a time" if limit is not None else ""
        yield finding(
            "too-many-policy-calls",
            config.path,
            f"Training makes {calls} policy calls at once{served}. Lower `rollout_batch_size` or "
            "`n_samples_per_prompt`.",
            at=config.document.value("training", key),
            subject=key,
        )


def _unused(configs: Sequence[Config], rollouts: Sequence[Rollout]) -> Iterator[Finding]:
    runs = [c for c in configs if c.kind != "benchmark"]
    if any(c.document is None for c in runs):
        return
    named = {c.text("rollout") for c in runs if not c.is_default}
    for rollout in rollouts:
        if rollout.name not in named and rollout.is_rollout:
            yield finding(
                "rollout-without-config",
                rollout.path,
                f"No evaluation or training config names `{shown(rollout.name)}`. Write "
                f"`configs/eval/{shown(rollout.name)}.toml` to run it.",
                subject=rollout.name,
            )
