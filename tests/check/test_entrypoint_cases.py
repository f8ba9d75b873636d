"""Our own entrypoint cases: the answer, and that a real import through the SDK agrees with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.check.python import check_entrypoint
from gitsync.model import CheckOptions, EntrypointReport
from tests.check.cases import Case, all_cases
from tests.check.folder import Memory
from tests.check.generated.compare import disagreement
from tests.check.import_oracle import ImportOracle

CASES = {case.name: case for case in all_cases()}
# Errors that are not about what the import exposes.
OUTSIDE = {"bad-component-reference", "bad-pyproject", "outside-artifact"}


@pytest.fixture(scope="module")
def oracle() -> Iterator[ImportOracle]:
    with ImportOracle() as running:
        yield running


def check(case: Case) -> EntrypointReport:
    options = {o[7:]: True for o in case.options if o.startswith("option:")}
    tree = Memory({f"rollouts/demo/{path}": text for path, text in case.files.items()})
    return check_entrypoint(tree, "demo", case.entrypoint, options=CheckOptions(**options))


@pytest.mark.parametrize("name", CASES)
def test_the_case_gets_its_answer(name: str) -> None:
    case = CASES[name]
    report = check(case)
    said = [(f.code, f.line, f.message) for f in report.findings]
    if "any" in case.options and report.verdict == "unresolvable":
        return
    assert report.verdict.value == case.verdict, said
    assert sorted({f.code for f in report.findings}) == case.codes, said
    for role in ("workflow", "grader"):
        expected = getattr(case, role)
        if expected or case.verdict != "unresolvable":
            assert getattr(report, role) == expected, said


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if "noimport" not in c.options])
def test_a_real_import_agrees(name: str, oracle: ImportOracle, tmp_path: Path) -> None:
    case = CASES[name]
    for path, text in case.files.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    answers = [oracle.ask(tmp_path, case.entrypoint, env=env) for env in case.environments]
    report = check(case)
    if OUTSIDE & {f.code for f in report.findings}:
        return
    assert disagreement(report, answers) is None, answers


def test_every_rule_has_at_least_two_cases() -> None:
    seen: dict[str, int] = {}
    for case in CASES.values():
        for code in case.codes or ["ok"]:
            seen[code] = seen.get(code, 0) + 1
    assert len(CASES) >= 60
    wanted = [
        "no-workflow",
        "abstract-workflow",
        "multiple-workflows",
        "run-not-async",
        "bad-signature",
        "bad-init",
        "import-error",
        "syntax-error",
        "unresolvable",
        "backend-mismatch",
        "hard-coded-provider-call",
        "removed-api",
        "undeclared-dependency",
        "bad-component-reference",
        "server-started-at-import",
        "declared-component",
        "unverified-method",
        "harbor-native",
    ]
    assert {code: seen.get(code, 0) for code in wanted if seen.get(code, 0) < 2} == {}
