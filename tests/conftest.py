"""Shared by all tests: nothing of the user's environment may change a result."""

from __future__ import annotations

import os

import pytest

for name in list(os.environ):
    if name.startswith(("GIT_", "GITSYNC_", "OSMOSIS_")):
        del os.environ[name]
os.environ["GIT_CONFIG_NOSYSTEM"] = "1"
os.environ["GIT_CONFIG_GLOBAL"] = os.devnull
os.environ["GIT_TERMINAL_PROMPT"] = "0"
for who in ("AUTHOR", "COMMITTER"):
    os.environ[f"GIT_{who}_NAME"] = "Robin Tester"
    os.environ[f"GIT_{who}_EMAIL"] = "robin@example.com"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """In CI a skip is a failure: `.ci/run` installs everything a test may want."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def live(tmp_path_factory):
    """One server for all tests of this process that need nothing special of it."""
    from tests.live import live_server

    with live_server(tmp_path_factory.mktemp("live")) as found:
        yield found
