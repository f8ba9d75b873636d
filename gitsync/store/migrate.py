"""Schema upgrades with Alembic, under a lock, after a copy (decision 29)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, RevisionStep
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection

from gitsync.errors import StoreError
from gitsync.store.database import Database
from gitsync.store.schema import metadata

_ADVISORY_LOCK = 4711002


def _scripts() -> tuple[Config, ScriptDirectory]:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config, ScriptDirectory.from_config(config)


def current_revision(database: Database) -> str | None:
    """The revision of the schema, None for an empty database."""
    with database.read() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def head_revision() -> str:
    """The revision this program needs."""
    return str(_scripts()[1].get_current_head())


def upgrade(
    database: Database, *, now: datetime, at: Callable[[str], None] = lambda _: None
) -> str | None:
    """Bring the schema up to date; the path of the copy made before, if one was needed.

    A schema newer than this program is refused. Everything happens in one transaction, which a
    test may stop `at` its end.
    """
    current, head = current_revision(database), head_revision()
    if current == head:
        return None
    config, scripts = _scripts()
    known = {script.revision for script in scripts.walk_revisions()}
    if current is not None and current not in known:
        raise StoreError(
            f"The database has schema {current}, which this version of gitsync does not know. "
            "Install the newer version again, or restore the copy made before the upgrade."
        )
    copy = _copy_sqlite(database, current, now) if database.is_sqlite and current else None

    def steps(revision: str | tuple[str, ...], _context: MigrationContext) -> list[RevisionStep]:
        return scripts._upgrade_revs("head", revision)  # type: ignore[arg-type]

    with database.write() as connection:
        if not database.is_sqlite:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
        with EnvironmentContext(config, scripts, fn=steps) as environment:
            _configure(environment, connection)
            environment.run_migrations()
        at("migration.written")
    return copy


def _configure(environment: EnvironmentContext, connection: Connection) -> None:
    environment.configure(
        connection=connection,
        target_metadata=metadata,
        transactional_ddl=True,
        transaction_per_migration=False,
        render_as_batch=True,
    )


def _copy_sqlite(database: Database, revision: str, now: datetime) -> str:
    path = Path(f"{database.url.database}.before-{revision}-{now:%Y%m%dT%H%M%S}")
    connection = database.engine.raw_connection()
    try:
        connection.cursor().execute("VACUUM INTO ?", (str(path),))
    finally:
        connection.close()
    return str(path)


def differences(database: Database) -> list[object]:
    """What the schema has otherwise than the tables say; empty when they agree."""
    from alembic.autogenerate import compare_metadata

    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, metadata))


def check_integrity(database: Database) -> list[str]:
    """Problems the database itself reports; empty when it is sound."""
    if not database.is_sqlite:
        return []
    with database.read() as connection:
        found = [str(row[0]) for row in connection.execute(sa.text("PRAGMA integrity_check"))]
        broken = connection.execute(sa.text("PRAGMA foreign_key_check")).all()
    return [line for line in found if line != "ok"] + [f"foreign key: {row}" for row in broken]
