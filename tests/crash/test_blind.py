"""Kills at random moments with fixed seeds, on external and on embedded repositories."""

from __future__ import annotations

import pytest

from tests.crash.blind import run_blind


def _hold(found, capsys) -> None:
    with capsys.disabled():
        print(f"\n{found.summary()}")
    # every commit adds a little; what killed runs leave behind must not add up
    per_run = (found.bytes[-1] - found.bytes[0]) / max(1, found.runs - 1)
    assert per_run < 100_000, found.bytes


@pytest.mark.slow
def test_blind_kills_of_a_server_that_follows_a_remote(scene, capsys):
    found = run_blind(scene, seed=1, runs=16)
    _hold(found, capsys)
    assert found.leader_only == found.runs // 2
    assert found.with_git_child >= found.leader_only // 2


@pytest.mark.slow
def test_blind_kills_of_a_server_that_is_pushed_to(embedded, capsys):
    _hold(run_blind(embedded, seed=3, runs=8), capsys)


@pytest.mark.slow
@pytest.mark.postgres
def test_blind_kills_on_postgres(on_postgres, capsys):
    _hold(run_blind(on_postgres, seed=4, runs=4), capsys)
