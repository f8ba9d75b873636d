from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.kit import IDENTITY, Stage, git, serving


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    repos = tmp_path / "repos"
    bare = repos / f"{IDENTITY}.git"
    bare.mkdir(parents=True)
    git("init", "-q", "--bare", "-b", "main", cwd=bare)
    git("config", "http.receivepack", "true", cwd=bare)
    with serving(repos) as found:
        yield found
