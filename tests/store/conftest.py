"""Every store test runs on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gitsync.store import Database, migrate
from tests.postgres import fresh_postgres

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request, tmp_path):
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'test.db'}"
    else:
        url = request.getfixturevalue("postgres_url")
    database = Database(url)
    migrate.upgrade(database, now=NOW)
    yield database
    database.close()


@pytest.fixture
def postgres_url():
    with fresh_postgres() as url:
        yield url
