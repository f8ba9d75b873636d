"""All tables: importing this module is what makes `metadata` whole, for migrations and checks."""

from gitsync.store import bootstrap_tables, dataset_tables, job_tables, secret_tables
from gitsync.store.tables import metadata

__all__ = ["bootstrap_tables", "dataset_tables", "job_tables", "metadata", "secret_tables"]
