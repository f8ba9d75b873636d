"""The judges that have the last word: the SDK's loaders and validators, and `skills-ref`."""

from __future__ import annotations

import warnings
from pathlib import Path

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from osmosis_ai.cli.errors import CLIError
    from osmosis_ai.platform.cli.benchmark_config import load_benchmark_submit_config
    from osmosis_ai.platform.cli.dataset import _check_file_basics, _validate_file_with_warnings
    from osmosis_ai.platform.cli.eval_config import load_eval_submit_config
    from osmosis_ai.platform.cli.training_config import load_train_submit_config
    from skills_ref.validator import validate

LOADERS = {
    "eval": load_eval_submit_config,
    "training": load_train_submit_config,
    "benchmark": load_benchmark_submit_config,
}
# The codes that the workspace checks mark as refused by the loader.
SDK_CODES = {
    "toml-syntax",
    "toml-limit",
    "missing-section",
    "unknown-section",
    "missing-key",
    "unknown-key",
    "wrong-type",
    "branch-and-commit",
    "invalid-branch",
    "invalid-commit",
    "invalid-env-name",
    "reserved-env-name",
    "invalid-secret-name",
    "duplicate-secret",
    "env-secret-overlap",
    "agent-count",
    "invalid-choice",
    "blank-selector",
    "too-many-secrets",
    "authorization-header",
    "reserved-secret-name",
    "harness-key",
}
UPLOAD_CODES = {
    "too-few-rows",
    "data-encoding",
    "data-bom",
    "invalid-json",
    "row-not-object",
    "missing-column",
    "row-keys-differ",
    "column-count",
    "csv-syntax",
    "invalid-metadata",
    "metadata-type-differs",
}


def config_loads(kind: str, data: bytes, folder: Path) -> bool:
    """True if the SDK's loader takes the file."""
    file = folder / "config.toml"
    file.write_bytes(data)
    try:
        LOADERS[kind](file)
    except (CLIError, ValueError, RecursionError):
        return False
    return True


def data_uploads(name: str, data: bytes, folder: Path) -> bool:
    """True if the SDK's validation before an upload has nothing against the file."""
    file = folder / name
    file.write_bytes(data)
    try:
        path, suffix, _ = _check_file_basics(str(file))
        errors, _ = _validate_file_with_warnings(path, suffix)
    except (CLIError, ValueError, RecursionError):
        return False
    return not errors


def skill_is_valid(folder: Path) -> bool:
    """True if the reference validator has nothing against the skill."""
    return not validate(folder)
