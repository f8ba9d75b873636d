"""All tables: importing this module is what makes `metadata` whole, for migrations and checks.

Every module of this room named `*_tables` is taken; none needs to be listed.
"""

import importlib
import pkgutil

import gitsync.store
from gitsync.store.tables import metadata

for _module in pkgutil.iter_modules(gitsync.store.__path__, "gitsync.store."):
    if _module.name.endswith("_tables"):
        importlib.import_module(_module.name)

__all__ = ["metadata"]
