"""The stories of runs once more, on PostgreSQL: nothing depends on the database."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gitsync.run_records import RunState
from gitsync.store import run_life
from gitsync.store import runs as run_store
from tests.postgres import postgres_server
from tests.runs.kit import make_team
from tests.runs.test_hostile import *  # noqa: F403 - its tests are run here too
from tests.runs.test_life import *  # noqa: F403 - the same
from tests.runs.test_submit import *  # noqa: F403 - the same

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with postgres_server(tmp_path_factory.mktemp("postgres")) as found:
        yield found


@pytest.fixture(scope="module")
def shared_team(live):
    return make_team(live)


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hasty")
    quick = {"executor_lease_s": 0.4, "run_attempts": 2, "submits_per_minute": 9}
    with postgres_server(folder, **quick) as found:
        yield make_team(found)


def test_a_stop_at_the_moment_of_the_finish_stays(team):
    run = team.submit()
    executor = team.executor()
    claim = executor.claim()
    database = team.live.running.instance.database
    with ThreadPoolExecutor(1) as pool:
        with database.write() as db:
            held = run_store.lock_run(db, run["id"])
            finishing = pool.submit(executor.say, claim, "finish", state="finished")
            time.sleep(0.5)  # it has read the run, and waits for the row
            now = team.live.running.instance.now()
            assert run_life.end(db, held, RunState.STOPPED, now=now, stopped_by="somebody")
        assert finishing.result()["state"] == "stopped"
    assert team.got(f"eval-runs/{run['id']}")["eval_run"]["status"] == "stopped"
