"""The pages of runs once more, on PostgreSQL."""

from __future__ import annotations

import pytest

from tests.live import live_server
from tests.postgres import fresh_postgres
from tests.web.test_pages_runs import *  # noqa: F403 - the same

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
