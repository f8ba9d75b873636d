"""All tables: importing this module is what makes `metadata` whole, for migrations and checks."""

import gitsync.store.bootstrap_tables  # noqa: F401
from gitsync.store.tables import metadata

__all__ = ["metadata"]
