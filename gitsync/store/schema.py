"""All tables: importing this module is what makes `metadata` whole, for migrations and checks."""

from gitsync.store.tables import metadata

__all__ = ["metadata"]
