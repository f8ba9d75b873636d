"""Every page and the stream of events on PostgreSQL: the same words as on SQLite."""

from __future__ import annotations

import pytest

from tests.live import live_server
from tests.postgres import fresh_postgres
from tests.web.conftest import publish_two
from tests.web.test_pages import enter, pages_of, text_of
from tests.web.test_pages_live import listening, newest

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


def test_every_page_works_on_postgres(tmp_path):
    with (
        fresh_postgres() as url,
        live_server(tmp_path, database_url=url.replace("postgresql+psycopg", "postgresql")) as live,
        enter(live) as chief,
    ):
        published = publish_two(live)
        here = pages_of(published)
        for name, path in here.items():
            answer = chief.get(path)
            assert answer.status_code == 200, (name, text_of(answer))
        assert "1 rollout failing" in text_of(chief.get("/workspaces"))
        assert "no-grader" in text_of(chief.get(here["trace"]))
        assert "configs/eval/alpha.toml" in text_of(chief.get(here["version"]))
        assert "PostgreSQL" in text_of(chief.get("/admin"))
        path = f"/live?workspace={published.workspace['id']}&after={newest(live)}"
        with listening(chief, path) as page:
            published.checkout.commit({"n.md": "1"})
            published.checkout.push("-q", "origin", "HEAD:main")
            page.wait(1)
        assert len(page.published()) == 1
