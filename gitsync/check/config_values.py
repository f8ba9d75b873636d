"""The values of evaluation and training: with which ones no run starts, which look odd."""

from __future__ import annotations

from gitsync.check.config import KEYS, is_integer, is_number, is_real
from gitsync.check.config_checker import Checker


def check_evaluation(checker: Checker) -> None:
    """Findings about `[evaluation]`; none for a default file."""
    table = checker.table("evaluation")
    if table is None or checker.is_default:
        return
    for key in ("limit", "n", "batch_size"):
        if key not in table:
            continue
        value = table[key]
        if not is_integer(value) or (key == "n" and value < 1):
            checker.invalid("evaluation", key, "a whole number" + ", 1 or more" * (key == "n"))
        elif value < 1:
            meaning = "all rows are run" if key == "limit" else "the backend decides"
            checker.questionable("evaluation", key, f"is ignored: {meaning}")
    for key in ("pass_threshold", "agent_workflow_timeout_s", "grader_timeout_s"):
        if key not in table:
            continue
        value = table[key]
        is_time = key != "pass_threshold"
        if not is_number(value) or (is_time and value <= 0):
            checker.invalid("evaluation", key, "a finite number" + " above 0" * is_time)
        elif not is_time and not 0 <= value <= 1:
            checker.questionable("evaluation", key, "is outside [0, 1], where rewards lie")


def check_training(checker: Checker) -> None:
    """Findings about `[training]`, `[sampling]` and `[checkpoints]`; none for a default file."""
    if checker.is_default:
        return
    for section in ("training", "sampling", "checkpoints"):
        for key, value in (checker.table(section) or {}).items():
            if key not in KEYS["training"][section]:
                continue
            if key == "lr":
                good, wanted = is_real(value) and 0 < value <= 0.001, "above 0, at most 0.001"
            elif key == "rollout_temperature":
                good, wanted = is_real(value) and 0 <= value <= 2, "from 0 to 2"
            elif key == "rollout_top_p":
                good, wanted = is_real(value) and 0 < value <= 1, "above 0, at most 1"
            elif key.endswith("_timeout_s"):
                good, wanted = is_real(value) and value > 0, "a number above 0"
            else:
                good, wanted = is_integer(value) and value >= 1, "a whole number, 1 or more"
            if not good:
                checker.questionable(section, key, f"is unusual; expected is {wanted}")
