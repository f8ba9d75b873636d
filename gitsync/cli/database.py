"""The database for commands that work on it directly, on the server's own machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from gitsync.errors import StoreError
from gitsync.settings import Settings
from gitsync.store import Database, migrate


def utc_now() -> datetime:
    """The clock of these commands."""
    return datetime.now(UTC)


@contextmanager
def open_database(settings: Settings, *, must_be_current: bool = True) -> Iterator[Database]:
    """The database the settings name; nothing is created, and an old schema is refused."""
    url = settings.sqlalchemy_url
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).is_file():
        raise StoreError(
            f"There is no database {url.removeprefix('sqlite:///')}. Name the data folder with "
            "--data-dir or GITSYNC_DATA_DIR."
        )
    database = Database(url)
    try:
        if must_be_current:
            current, head = migrate.current_revision(database), migrate.head_revision()
            if current != head:
                raise StoreError(
                    f"The database has schema {current or 'none'}, this program needs {head}. "
                    "Run `gitsync db upgrade` while the server is stopped."
                )
        yield database
    finally:
        database.close()
