"""A scene for each test of this folder."""

from __future__ import annotations

import pytest

from tests.crash.scene import EmbeddedScene, Scene
from tests.hostile_runs import kit
from tests.postgres import fresh_postgres


@pytest.fixture
def host(tmp_path):
    """An honest Git host."""
    root = tmp_path / "root"
    root.mkdir()
    with kit.Host(root) as found:
        yield found


@pytest.fixture
def scene(tmp_path, host):
    """A workspace that follows a repository of that host, its first commit published."""
    with Scene(tmp_path, host) as found:
        yield found


@pytest.fixture
def embedded(tmp_path, host):
    """A workspace on the embedded host, its first commit published."""
    with EmbeddedScene(tmp_path, host) as found:
        yield found


@pytest.fixture(params=[Scene, EmbeddedScene], ids=["external", "embedded"])
def on_postgres(tmp_path, host, request):
    """The same on PostgreSQL, of either kind."""
    with (
        fresh_postgres() as url,
        request.param(
            tmp_path, host, database_url=url.replace("postgresql+psycopg", "postgresql")
        ) as found,
    ):
        yield found
