"""A run in words: why it waits, what came of it, which settings it has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from gitsync.run_records import Run, RunKind, RunState
from gitsync.store.run_pages import Waiting
from gitsync.web.pages.render import milliseconds
from gitsync.web.pages.run_charts import number

_WHOSE = {
    "workspace": "the workspace's",
    "user": "their own",
    "user_override": "their own, which wins over the workspace's",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step in the life of a run."""

    name: str
    at: datetime | None
    ms: float | None
    text: str


def why_pending(run: Run, found: Waiting, *, window_s: float) -> str:
    """One sentence: nobody is there, all are busy, or it is about to begin."""
    kind = run.kind.value
    if found.ahead == 0:
        place = "it is first in the queue"
    else:
        place = f"{_count(found.ahead, 'run')} {'waits' if found.ahead == 1 else 'wait'} before it"
    again = "" if run.attempt == 0 else f" Attempt {run.attempt} was lost with its executor."
    if not found.executors:
        return (
            f"No executor for {kind} runs of this workspace was heard of in the last "
            f"{window_s:g} seconds; {place}.{again}"
        )
    if found.busy >= found.executors:
        them = "The only executor" if found.executors == 1 else f"All {found.executors} executors"
        verb = "carries" if found.executors == 1 else "carry"
        return f"{them} for {kind} runs of this workspace {verb} out other runs; {place}.{again}"
    there = _count(found.executors, "executor")
    verb = "is" if found.executors == 1 else "are"
    return f"{there} for {kind} runs {verb} there, and {place}.{again}"


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def outcome_of(run: Run) -> str | None:
    """What came of it so far, in a few words; None if there is nothing to say."""
    results = run.results or {}
    if run.kind is RunKind.TRAINING:
        step = None if run.current_step is None else f"step {run.current_step}"
        if step and run.total_steps:
            step += f" of {run.total_steps}"
        reward = None if run.reward is None else f"reward {number(run.reward)}"
        return ", ".join(filter(None, (reward, step))) or None
    score, total = results.get("score"), results.get("total_runs")
    said = []
    if isinstance(score, int | float):
        said.append(f"mean reward {number(score)}")
    if isinstance(total, int) and total:
        said.append(f"{results.get('passed', 0)} of {_count(total, 'sample')} passed")
    return ", ".join(said) or None


def progress_of(run: Run) -> tuple[int, int] | None:
    """How many of how many steps or samples are done, if both are known."""
    if run.kind is RunKind.TRAINING:
        if run.current_step is None or not run.total_steps:
            return None
        return min(run.current_step, run.total_steps), run.total_steps
    rows = (run.results or {}).get("sampled_rows")
    tries = run.config.get("evaluation", {}).get("n", 1)
    if not isinstance(rows, int) or not isinstance(tries, int) or rows * tries < 1:
        return None
    return min(run.samples, rows * tries), rows * tries


def life_of(run: Run, *, by: str, executor: str | None, stopper: str | None) -> list[Step]:
    """Submitted, begun, ended; what has not happened is not there."""
    steps = [Step("Submitted", run.created_at, None, f"by {by}")]
    begun = run.started_at
    if begun is not None:
        text = f"by executor {executor}" if executor else ""
        if run.attempt > 1:
            text += f", attempt {run.attempt}"
        waited = begun - run.created_at
        steps.append(Step("Waited", None, _ms(waited), "for an executor"))
        steps.append(Step("Begun", begun, None, text))
    if run.completed_at is not None:
        since = run.completed_at - (begun or run.created_at)
        text = {
            RunState.STOPPED: f"by {stopper or 'somebody'}",
            RunState.FAILED: "see the reason above",
        }.get(run.state, outcome_of(run) or "")
        steps.append(
            Step(
                run.state.value.capitalize(), run.completed_at, _ms(since) if begun else None, text
            )
        )
    return steps


def _ms(span: timedelta) -> float:
    return max(0.0, span.total_seconds() * 1000)


def heard_of(run: Run, *, lease_s: float) -> datetime | None:
    """When the executor of a running run last said something."""
    if run.state is not RunState.RUNNING or run.lease_expires_at is None:
        return None
    return run.lease_expires_at - timedelta(seconds=lease_s)


# -- settings -------------------------------------------------------------------------------------


def secrets_of(run: Run) -> list[tuple[str, str]]:
    """Names and where their values come from."""
    stored = {name: _WHOSE.get(scope, scope) for name, scope in run.secret_scopes.items()}
    return sorted((stored | dict.fromkeys(run.provided, "sent along with the run")).items())


def settings_of(run: Run) -> dict[str, str]:
    """The settings of a run by dotted keys, as text; without those that the run tells itself."""
    found: dict[str, str] = {}
    for section, value in run.config.items():
        _flatten(section, value, found)
    for name, value in run.env_config.items():
        found[f"env.{name}"] = value
    return {key: value for key, value in sorted(found.items()) if key not in _TOLD}


def _flatten(key: str, value: Any, into: dict[str, str]) -> None:
    if isinstance(value, Mapping) and value and key.count(".") < 6:
        for name, item in value.items():
            _flatten(f"{key}.{name}", item, into)
    else:
        into[key] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def document(value: Any) -> str:
    """What an executor said beside its words, as text of several lines."""
    return json.dumps(value, ensure_ascii=False, indent=1)


def all_of(run: Run) -> dict[str, str]:
    """Settings with the code and the data, for a comparison."""
    return {
        "kind": run.kind.value,
        "rollout": run.rollout,
        "entrypoint": run.entrypoint,
        "commit": run.commit_sha,
        "artifact": run.digest,
        "data set": f"{run.dataset_name} ({run.dataset_id})",
        "model": run.model_path,
        **settings_of(run),
        **{f"secret {name}": whose for name, whose in secrets_of(run)},
    }


_TOLD = {
    "experiment.rollout",
    "experiment.entrypoint",
    "experiment.dataset",
    "experiment.model_path",
    "experiment.commit_sha",
    "secrets.required",
}


def differences(one: Run, two: Run) -> list[tuple[str, str | None, str | None]]:
    """Settings whose values differ."""
    first, second = all_of(one), all_of(two)
    keys = [*first, *(key for key in second if key not in first)]
    return [
        (key, first.get(key), second.get(key)) for key in keys if first.get(key) != second.get(key)
    ]


_NUMBERS = (
    ("score", "Mean reward"),
    ("pass_rate", "Share passed"),
    ("passed", "Passed"),
    ("graded", "With a reward"),
    ("failed", "Failed"),
    ("skipped", "Skipped"),
    ("total_tokens", "Tokens"),
)


def results_of(run: Run) -> dict[str, float]:
    """The numbers of a run by what people call them; `said` writes them."""
    results, found = run.results or {}, {}
    for key, name in _NUMBERS:
        value = results.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = float(value)
    for name, given in (("Reward", run.reward), ("Step", run.current_step)):
        if given is not None:
            found[name] = float(given)
    if run.started_at is not None and run.completed_at is not None:
        found["Took"] = (run.completed_at - run.started_at).total_seconds()
    return found


def said(name: str, value: float | None) -> str:
    """One number of `results_of` as people write it."""
    if value is None:
        return "–"
    if name == "Share passed":
        return f"{value:.0%}"
    return milliseconds(value * 1000) if name == "Took" else number(value)
