"""The stories of runs once more, on PostgreSQL: nothing depends on the database."""

from __future__ import annotations

import pytest

from tests.live import live_server
from tests.postgres import fresh_postgres
from tests.runs.kit import make_team
from tests.runs.test_life import *  # noqa: F403 - its tests are run here too
from tests.runs.test_submit import *  # noqa: F403 - the same

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with (
        fresh_postgres() as url,
        live_server(
            tmp_path_factory.mktemp("postgres"),
            database_url=url.replace("postgresql+psycopg", "postgresql"),
        ) as found,
    ):
        assert not found.running.instance.database.is_sqlite
        yield found


@pytest.fixture(scope="module")
def shared_team(live):
    return make_team(live)


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    with (
        fresh_postgres() as url,
        live_server(
            tmp_path_factory.mktemp("hasty"),
            database_url=url.replace("postgresql+psycopg", "postgresql"),
            executor_lease_s=0.4,
            run_attempts=2,
            submits_per_minute=9,
        ) as found,
    ):
        yield make_team(found)
