"""Owner of SQL: tables, transactions and every query of the service.

Call `database.read()` or `database.write()` for a connection and hand it to the functions of
`workspaces`, `turns`, `syncs`, `commits`, `versions`, `objects`, `events` and `people`. No other
room imports SQLAlchemy.
"""

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError as DatabaseFailed
from sqlalchemy.exc import IntegrityError as RowExists

from gitsync.store.database import Database
from gitsync.store.rows import Dead, Page, new_id
from gitsync.store.seal import Sealer

__all__ = [
    "Connection",
    "Database",
    "DatabaseFailed",
    "Dead",
    "Page",
    "RowExists",
    "Sealer",
    "new_id",
]
