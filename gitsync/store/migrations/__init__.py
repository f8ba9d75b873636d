"""Alembic migrations; `gitsync.store.migrate` runs them."""
