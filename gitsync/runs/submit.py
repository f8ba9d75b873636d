"""Adding a run: every check that needs the workspace, then one transaction.

Promise: a refusal leaves nothing behind and names the value; an accepted run is pinned to a full
sha, holds a lease on its version, and says in its first log entry which code it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gitsync.check import config_content
from gitsync.data_records import Dataset, DatasetState
from gitsync.errors import Conflict, InvalidInput, NotFound
from gitsync.instance import Instance
from gitsync.records import User, Workspace, WorkspaceState
from gitsync.resolve import Resolved, resolve
from gitsync.run_records import Run, RunKind
from gitsync.runs.life import executor_window, say_lonely
from gitsync.runs.request import Submission
from gitsync.store import (
    Connection,
    datasets,
    events,
    heads,
    run_life,
    run_output,
    runs,
    secrets,
    versions,
    workspaces,
)
from gitsync.sync.moves import short
from gitsync.text import printable

_KIND_OF_CONFIG = {RunKind.EVAL: "eval", RunKind.TRAINING: "training"}


class DatasetNotFound(NotFound):
    """The workspace has no data set of this name."""

    code = "DATASET_NOT_FOUND"


class DatasetNotReady(InvalidInput):
    """The data set is not uploaded, or did not pass its check."""

    code = "DATASET_NOT_READY"


class SecretNotFound(NotFound):
    """A secret is neither stored nor given with the run."""

    code = "SECRET_NOT_FOUND"


class EvaluationRequired(Conflict):
    """The workspace trains only what was evaluated."""

    code = "EVALUATION_REQUIRED"


@dataclass(frozen=True, slots=True)
class _Warning:
    message: str
    details: dict[str, Any] | None = None


def submit(instance: Instance, workspace: Workspace, wanted: Submission, *, by: User) -> Run:
    """Add the run, or say exactly why not; the caller has waited for the version (`ready`)."""
    found = _resolved(instance, workspace, wanted)
    stored = [name for name in wanted.required if name not in wanted.provided]
    with instance.database.read() as db:
        dataset = _dataset(db, workspace, wanted.dataset)
        scopes = secrets.resolve_secrets(db, workspace.id, by.id, stored)
        missing = sorted(name for name in stored if name not in scopes)
        if missing:
            raise SecretNotFound(
                f"Secret(s) not found: {', '.join(missing)}", field="secrets.required"
            )
        remarks = _remarks(db, workspace, wanted, found)
    document = wanted.document()
    shown = config_content(document)
    with instance.database.read() as db:
        configs = heads.configs_for(
            db, found.version.id, kind=_KIND_OF_CONFIG[wanted.kind], rollout=wanted.rollout
        )
    config_path, differs = _same_config(found.version.commit_sha, configs, shown)
    if differs is not None:
        remarks.insert(0, differs)
    hidden: dict[str, Any] = {"provided": dict(wanted.provided)} if wanted.provided else {}
    if shown != document:
        hidden["document"] = document
    now = instance.now()
    with instance.database.write() as db:
        current = workspaces.lock_workspace(db, workspace.id)
        if current.state is WorkspaceState.DISCONNECTED:
            raise Conflict(
                "The workspace is disconnected; it takes no more runs.", state="disconnected"
            )
        run = runs.add_run(
            db,
            workspace_id=workspace.id,
            kind=wanted.kind,
            commit_sha=found.version.commit_sha,
            version_id=found.version.id,
            branch=wanted.branch,
            ref=found.branch,
            rollout=wanted.rollout,
            entrypoint=wanted.entrypoint,
            digest=found.rollout.digest,
            size=found.rollout.size,
            assessment=_assessment(found),
            config_path=config_path,
            model_path=wanted.model_path,
            dataset_id=dataset.id,
            dataset_name=dataset.name,
            config={k: v for k, v in shown.items() if k != "env"},
            env_config=shown.get("env", {}),
            secret_scopes=scopes,
            provided=sorted(wanted.provided),
            created_by=by.id,
            now=now,
        )
        if hidden:
            sealed = instance.sealer.seal(json.dumps(hidden), runs.vault_place(run.id))
            runs.put_vault(db, run, sealed)
        _first_words(db, instance, run, found, remarks)
        events.add_event(
            db,
            "run.submitted",
            {"run": run.id, "name": run.name, "kind": run.kind.value},
            workspace_id=workspace.id,
            now=now,
        )
    return run


def _resolved(instance: Instance, workspace: Workspace, wanted: Submission) -> Resolved:
    try:
        return resolve(
            instance,
            workspace.id,
            wanted.rollout,
            entrypoint=wanted.entrypoint,
            branch=wanted.branch,
            commit_sha=wanted.commit_sha,
        )
    except (InvalidInput, NotFound) as e:
        if "field" not in e.details:
            raise
        field = f"experiment_config.{e.details['field']}"
        raise type(e)(e.message, **{**e.details, "field": field}) from e


def _dataset(db: Connection, workspace: Workspace, name: str) -> Dataset:
    field = "experiment_config.dataset"
    found = datasets.find_dataset(db, workspace.id, name)
    if found is None:
        raise DatasetNotFound(
            f"There is no data set {name!r} in this workspace. Upload it with "
            "`osmosis dataset upload`.",
            field=field,
        )
    if found.state is not DatasetState.UPLOADED:
        raise DatasetNotReady(
            f"The data set {name!r} cannot be used: it is {found.state.value}. "
            f"`osmosis dataset info {name}` says more.",
            field=field,
        )
    return found


def _assessment(found: Resolved) -> dict[str, Any]:
    assessment = found.assessment
    return {
        "fingerprint": assessment.fingerprint,
        "content_key": found.rollout.content_key,
        "verdict": assessment.verdict,
        "workflow": assessment.workflow,
        "grader": assessment.grader,
        "created_at": assessment.created_at.isoformat(),
    }


# -- what is said about it ------------------------------------------------------------------------


def _remarks(
    db: Connection, workspace: Workspace, wanted: Submission, found: Resolved
) -> list[_Warning]:
    """What the author should know although the run is accepted; a policy may refuse it here."""
    remarks = []
    if workspace.state is WorkspaceState.SUSPENDED:
        remarks.append(
            _Warning(
                "The workspace is suspended: pushes are not followed, and this is the code that "
                "was published last."
            )
        )
    row = None if found.branch is None else workspaces.find_branch(db, workspace.id, found.branch)
    if row is not None and row.head_sha is not None and row.head_sha != found.version.commit_sha:
        remarks.append(
            _Warning(
                f"{printable(short(row.name))} has the newer commit {row.head_sha}, which is not "
                "published (yet). This run does not have it.",
                {"head_sha": row.head_sha},
            )
        )
    policy = workspace.settings.get("train_requires_eval", "off")
    if wanted.kind is RunKind.TRAINING and policy != "off":
        digest = found.rollout.digest or ""
        if not runs.was_evaluated(db, workspace.id, digest, wanted.entrypoint):
            text = (
                f"No evaluation of this code (rollout {wanted.rollout}, {wanted.entrypoint}, "
                f"artifact {digest[:12]}) has finished with a reward for every sample."
            )
            if policy == "refuse":
                raise EvaluationRequired(
                    f"{text} This workspace asks for one before training: run `osmosis eval "
                    "submit` first.",
                    field="experiment_config.rollout",
                )
            remarks.append(_Warning(f"{text} Evaluate before you train."))
    return remarks


def _same_config(
    commit_sha: str, configs: Sequence[dict[str, Any]], shown: Mapping[str, Any]
) -> tuple[str | None, _Warning | None]:
    """The config of the commit that says the same, or the warning that none does."""
    wanted = _normal(shown)
    candidates = [config for config in configs if config["content"] is not None]
    for config in candidates:
        if _normal(config["content"]) == wanted:
            return config["path"], None
    text = f"The submitted config equals none of commit {commit_sha[:12]}: "
    nearest = min(
        candidates,
        key=lambda config: len(_differences(_normal(config["content"]), wanted)),
        default=None,
    )
    if nearest is None:
        text += "that commit has no such config for this rollout."
        return None, _Warning(text + " Commit it, so that others can repeat this run.")
    keys = _differences(_normal(nearest["content"]), wanted)
    text += f"{printable(nearest['path'])} differs in {', '.join(keys[:8])}."
    return None, _Warning(
        text + " Commit the change, so that others can repeat this run.",
        {"config": nearest["path"], "keys": keys[:50]},
    )


def _normal(content: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    """Settings by section and key; what is empty or absent is the same, as for the client."""
    found: dict[tuple[str, str], Any] = {}
    for section, table in content.items():
        if not isinstance(table, dict):
            found[section, ""] = table
            continue
        for key, value in table.items():
            if section == "secrets" and key == "required" and isinstance(value, list):
                value = sorted(str(name) for name in value) or None
            if value is not None:
                found[section, key] = value
    return found


def _differences(one: dict[tuple[str, str], Any], two: dict[tuple[str, str], Any]) -> list[str]:
    """Dotted keys whose values differ; no values, they might be secret."""
    return sorted(
        printable(".".join(part for part in key if part), limit=100)
        for key in one.keys() | two.keys()
        if one.get(key) != two.get(key)
    )


def _first_words(
    db: Connection, instance: Instance, run: Run, found: Resolved, remarks: list[_Warning]
) -> None:
    now = instance.now()
    branch = None if run.ref is None else short(run.ref)
    if branch is None and run.version_id is not None:
        seen = versions.branches_seen(db, [run.version_id]).get(run.version_id, [])
        branch = short(seen[0]) if seen else None
    where = "no branch" if branch is None else f"branch {printable(branch)}"
    how = "" if run.ref is not None else " (pinned by its commit)"
    run_output.add_log(
        db,
        run,
        "info",
        "submit",
        f"Accepted: {where}{how}, commit {run.commit_sha}, rollout {printable(run.rollout)}, "
        f"entrypoint {printable(run.entrypoint)}, artifact sha256:{run.digest}.",
        now=now,
        details={
            "branch": None if branch is None else printable(branch),
            "commit_sha": run.commit_sha,
            "rollout": printable(run.rollout),
            "entrypoint": printable(run.entrypoint),
            "digest": run.digest,
            "config": None if run.config_path is None else printable(run.config_path),
        },
    )
    for remark in remarks:
        run_output.add_log(
            db, run, "warning", "submit", remark.message, now=now, details=remark.details
        )
    window = executor_window(instance)
    if not run_life.is_anybody_there(db, run.workspace_id, run.kind.value, within_s=window):
        say_lonely(db, run, instance=instance)
