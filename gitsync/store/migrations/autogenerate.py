"""For developers: `python -m gitsync.store.migrations.autogenerate "message"` writes a migration.

The difference is taken between a fresh SQLite database at the newest revision and the tables.
"""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from alembic.autogenerate import RevisionContext
from alembic.runtime.environment import EnvironmentContext

from gitsync.store import migrate
from gitsync.store.database import Database
from gitsync.store.schema import metadata


def main(message: str) -> None:
    """Write the next revision file."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{Path(folder) / 'scratch.db'}")
        config, scripts = migrate._scripts()
        head = scripts.get_current_head()
        if head:
            migrate.upgrade(database, now=datetime.now(UTC))
        number = f"{int(head or '0') + 1:04d}"
        with database.write() as connection:
            revision = RevisionContext(
                config,
                scripts,
                dict(
                    message=message,
                    autogenerate=True,
                    sql=False,
                    head="head",
                    splice=False,
                    branch_label=None,
                    version_path=None,
                    rev_id=number,
                    depends_on=None,
                ),
            )

            def fn(rev, context):  # type: ignore[no-untyped-def]
                revision.run_autogenerate(rev, context)
                return []

            with EnvironmentContext(config, scripts, fn=fn) as environment:
                environment.configure(
                    connection=connection,
                    target_metadata=metadata,
                    render_as_batch=True,
                    user_module_prefix="gitsync.store.tables.",
                )
                environment.run_migrations()
            print([script and script.path for script in revision.generate_scripts()])
        database.close()


if __name__ == "__main__":
    main(sys.argv[1])
