"""Check a program and import it for real; name what does not agree."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from gitsync.check.python import check_entrypoint
from gitsync.model import CheckOptions, EntrypointReport
from tests.check.folder import Memory
from tests.check.generated.programs import Program, program
from tests.check.import_oracle import ImportOracle


@dataclass(slots=True)
class Tally:
    """What came of many programs."""

    programs: int = 0
    valid: int = 0
    valid_plain: int = 0
    valid_plain_unresolvable: int = 0
    said: dict[str, int] = field(default_factory=dict)
    disagreements: list[tuple[int, str, Program]] = field(default_factory=list)

    @property
    def valid_share(self) -> float:
        return self.valid / max(self.programs, 1)

    @property
    def unresolvable_share(self) -> float:
        return self.valid_plain_unresolvable / max(self.valid_plain, 1)


def report_of(made: Program) -> EntrypointReport:
    tree = Memory({f"rollouts/demo/{path}": text for path, text in made.files.items()})
    return check_entrypoint(
        tree, "demo", "main.py", options=CheckOptions(seconds_per_entrypoint=20.0)
    )


def real_answers(oracle: ImportOracle, made: Program, folder: Path) -> list[dict[str, Any]]:
    for path, text in made.files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    answers = []
    for values in itertools.product((None, "1"), repeat=len(made.flags)):
        env = {flag: value for flag, value in zip(made.flags, values, strict=True) if value}
        answers.append(oracle.ask(folder, "main.py", env=env))
    return answers


def good(answer: dict[str, Any]) -> bool:
    """Exactly one of each, and the contracts are kept."""
    if "error" in answer:
        return False
    return all(
        len(answer[role]) == 1 and all(answer[role][0][k] for k in ("init", "async", "bind"))
        for role in ("workflow", "grader")
    )


def disagreement(report: EntrypointReport, answers: list[dict[str, Any]]) -> str | None:
    """Why the report cannot stand beside the real imports; None if it can."""
    codes = sorted({f.code for f in report.findings if f.severity != "warning"})
    if any("The checker failed" in f.message for f in report.findings):
        return "internal failure"
    if report.verdict == "ok":
        for answer in answers:
            if not good(answer):
                return f"false ok: {answer}"
            for role in ("workflow", "grader"):
                # `type(...)` of an ABC calls itself a class of module abc; we say where it is made.
                real = answer[role][0]["name"]
                ours = getattr(report, role)
                if real != ours and not (
                    real.startswith("abc:") and real[4:] == ours.partition(":")[2]
                ):
                    return f"wrong name: {ours} is {real}"
    if report.verdict == "error" and any(good(a) for a in answers):
        return f"false error: {codes}"
    return None


def run_generated(count: int, seed: int, *, keep: int = 20) -> Tally:
    """Generate, check and import `count` programs; the same seed gives the same programs."""
    tally = Tally()
    root = Path(tempfile.mkdtemp(prefix="generated-"))
    try:
        with ImportOracle() as oracle:
            for index in range(count):
                number = seed * 1_000_003 + index
                made = program(Random(number))
                folder = root / str(index)
                folder.mkdir()
                answers = real_answers(oracle, made, folder)
                shutil.rmtree(folder)
                report = report_of(made)
                tally.programs += 1
                tally.said[report.verdict.value] = tally.said.get(report.verdict.value, 0) + 1
                if all(good(a) for a in answers):
                    tally.valid += 1
                    if not made.flags:
                        tally.valid_plain += 1
                        tally.valid_plain_unresolvable += report.verdict == "unresolvable"
                why = disagreement(report, answers)
                if why is not None and len(tally.disagreements) < keep:
                    tally.disagreements.append((number, why, made))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return tally
