"""Generated programs: the checker and a real import never contradict each other."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.check.generated.compare import Tally, report_of, run_generated
from tests.check.generated.programs import program

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


def shown(tally: Tally) -> str:
    parts = [f"{number}: {why}" for number, why, _ in tally.disagreements]
    for number, _, made in tally.disagreements[:1]:
        parts += [f"--- {number} {path}\n{text}" for path, text in made.files.items()]
    return "\n".join(parts)


def test_a_few_generated_programs_agree_with_the_import() -> None:
    tally = run_generated(60, 7)
    assert not tally.disagreements, shown(tally)


@pytest.mark.slow
def test_two_thousand_generated_programs_agree_with_the_import() -> None:
    tally = run_generated(2000, 1)
    assert not tally.disagreements, shown(tally)
    assert tally.valid_share >= 0.30
    assert tally.unresolvable_share <= 0.05


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_the_checker_never_fails_on_a_generated_program(rng: Random) -> None:
    report = report_of(program(rng))
    assert not [f for f in report.findings if "The checker failed" in f.message]
