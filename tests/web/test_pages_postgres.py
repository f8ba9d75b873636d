"""The pages of runs once more, on PostgreSQL."""

from __future__ import annotations

import pytest

from tests.postgres import postgres_server
from tests.web.test_pages_runs import *  # noqa: F403 - the same

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with postgres_server(tmp_path_factory.mktemp("postgres")) as found:
        yield found
