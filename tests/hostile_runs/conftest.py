"""The kit's repositories, built once, and a service beside which they are served."""

from __future__ import annotations

import pytest

from tests.hostile_runs import kit


@pytest.fixture(scope="session")
def all_repos(tmp_path_factory):
    """Folder and manifest entries of all that are not expensive."""
    out = tmp_path_factory.mktemp("all") / "repos"
    return out, kit.build(out)
