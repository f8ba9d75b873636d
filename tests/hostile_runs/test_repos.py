"""Every hostile repository ends as stated, in its bounds, beside a healthy workspace."""

from __future__ import annotations

import pytest

from tests.hostile_runs import kit
from tests.hostile_runs.repos import Result, run_cases
from tests.postgres import fresh_postgres

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


def _hold(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print("\n" + result.summary())
    assert not result.faults, "\n".join(result.faults)


@pytest.mark.slow
def test_every_hostile_repository_ends_as_stated(all_repos, tmp_path, capsys):
    repos, cases = all_repos
    result = run_cases(tmp_path, repos, cases)
    _hold(result, capsys)
    assert len({j.case for j in result.judged}) == len(cases) >= 130
    assert set(kit.KNOWN) <= set(cases), "an exception without a case"
    assert result.healthy_pushes >= 10


@pytest.mark.slow
@pytest.mark.postgres
def test_odd_commits_and_names_fit_into_postgresql(all_repos, tmp_path, capsys):
    repos, cases = all_repos
    names = ("path-newline", "path-control", "path-not-utf8", "path-long-name", "ref-slash-default")
    chosen = {n: c for n, c in cases.items() if c["group"] == "commits" or n in names}
    with fresh_postgres() as url:
        result = run_cases(tmp_path, repos, chosen, database_url=url.replace("+psycopg", ""))
    _hold(result, capsys)
    assert len(chosen) >= 18


@pytest.mark.slow
def test_the_judge_finds_what_is_wrong(tmp_path):
    """A good state declared hostile must be a fault, or the runs above prove nothing."""
    repos = tmp_path / "repos"
    cases = kit.build(repos, only={"modes"})
    wrong = dict(cases["modes"], must=kit.FINDING, accept=[kit.FINDING])
    wrong["states"] = [dict(s, must=kit.FINDING) for s in wrong["states"]]
    wrong["bytes"] = {path: "0" * 64 for path in wrong["bytes"]}
    result = run_cases(tmp_path, repos, {"modes": wrong})
    said = "\n".join(result.faults)
    assert "allowed ['refuse-with-finding']" in said and "has other bytes" in said
