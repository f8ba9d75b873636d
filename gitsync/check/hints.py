"""Hints that only the service can give at a push, because it knows more than the files.

They never change what is published; `gitsync check` does not give them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gitsync.check.cache import Memo
from gitsync.check.config import is_integer, usable
from gitsync.check.data import stem_of
from gitsync.check.files import Files, is_data_set
from gitsync.check.found import finding, shown
from gitsync.check.links import Links
from gitsync.check.rollouts import Rollout, read_rollouts
from gitsync.model import Finding, Report
from gitsync.tree import Tree

_SANDBOX_KEYS = ("OPENSANDBOX_API_KEY", "DAYTONA_API_KEY")
_PER_SLOT = 8
_DEFAULT_SLOTS = 4

Fact = dict[str, Any]


def service_hints(
    report: Report,
    tree: Tree,
    *,
    datasets: frozenset[str] | None,
    secrets: frozenset[str] | None,
) -> tuple[Finding, ...]:
    """Hints about a report; `datasets` and `secrets` are names the workspace has, if known."""
    if report.refused:
        return ()
    rollouts = {r.name: r for r in read_rollouts(Files(tree, Memo()), Links(tree))}
    configs = [
        c
        for c in report.configs
        if c["valid"] and c["kind"] != "benchmark" and not c["path"].endswith("/default.toml")
    ]
    found: list[Finding] = list(_twins(configs, rollouts))
    for config in configs:
        found.extend(_dataset(config, tree, datasets))
        rollout = rollouts.get(config["rollout"] or "")
        if rollout is not None:
            found.extend(_sandbox(config, rollout, secrets))
            found.extend(_overload(config, rollout))
    return tuple(sorted(found, key=lambda f: f.order))


def _twins(configs: Sequence[Fact], rollouts: dict[str, Rollout]) -> Iterator[Finding]:
    kinds: dict[str, set[str]] = {}
    for config in configs:
        kinds.setdefault(config["rollout"] or "", set()).add(config["kind"])
    words = {"eval": "evaluation", "training": "training"}
    for name, has in kinds.items():
        if name not in rollouts or len(has) == 2:
            continue
        missing = "training" if "eval" in has else "eval"
        yield finding(
            "missing-twin",
            f"rollouts/{name}",
            f"`{shown(name)}` has no {words[missing]} config. Add "
            f"`configs/{missing}/{shown(name)}.toml` when you need one.",
            subject=name,
        )


def _dataset(config: Fact, tree: Tree, datasets: frozenset[str] | None) -> Iterator[Finding]:
    name = usable(config["dataset"])
    if datasets is None or name is None or name in datasets:
        return
    files = [f"data/{e.name}" for e in tree.children("data") if is_data_set(f"data/{e.name}")]
    held = next((path for path in sorted(files) if stem_of(path) == name), None)
    remedy = (
        "Upload it, or correct the name."
        if held is None
        else f"Upload it: `osmosis dataset upload {shown(held)}`."
    )
    yield finding(
        "unknown-dataset",
        config["path"],
        f"The workspace has no data set `{shown(name)}`. {remedy}",
        subject=name,
    )


def _names(config: Fact) -> set[str]:
    """Every name that the config gives to the code, as a secret or as a plain value."""
    content = config["content"] or {}
    env, table = content.get("env"), content.get("secrets")
    required = table.get("required") if isinstance(table, dict) else None
    names = {n for n in required if isinstance(n, str)} if isinstance(required, list) else set()
    return names | set(env if isinstance(env, dict) else ())


def _sandbox(config: Fact, rollout: Rollout, secrets: frozenset[str] | None) -> Iterator[Finding]:
    if "HarborBackend" not in rollout.code.backends:
        return
    if (_names(config) | (secrets or frozenset())).intersection(_SANDBOX_KEYS):
        return
    yield finding(
        "sandbox-key-missing",
        config["path"],
        f"`{shown(rollout.name)}` runs in Harbor, and no sandbox key is given. Add one of "
        f"{' or '.join(f'`{k}`' for k in _SANDBOX_KEYS)} to `required`.",
        subject=rollout.name,
    )


def _overload(config: Fact, rollout: Rollout) -> Iterator[Finding]:
    """More rows at once than eight waiting for each that the server runs."""
    section = (config["content"] or {}).get("evaluation")
    if config["kind"] != "eval" or not isinstance(section, dict):
        return
    batch, attempts = section.get("batch_size"), section.get("n", 1)
    slots = rollout.code.limit
    if slots is None and not rollout.code.limits and not rollout.code.has_workflow_config:
        slots = _DEFAULT_SLOTS if rollout.code.backends == {"LocalBackend"} else None
    if slots is None or not is_integer(batch) or not is_integer(attempts):
        return
    if batch * max(attempts, 1) > _PER_SLOT * slots:
        yield finding(
            "server-overload",
            config["path"],
            f"The evaluation sends {batch * max(attempts, 1)} rollouts at once to a server that "
            f"runs {slots}. Lower `batch_size` or raise `max_concurrent`.",
            subject=rollout.name,
        )
