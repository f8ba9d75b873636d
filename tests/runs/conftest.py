import pytest

from tests.runs.kit import Team, make_team


@pytest.fixture(scope="session")
def shared_team(live) -> Team:
    return make_team(live)


@pytest.fixture
def team(shared_team) -> Team:
    """A workspace where nothing waits; tests that change the workspace make their own."""
    yield shared_team
    shared_team.stop_all()
