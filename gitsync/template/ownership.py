"""`.osmosis/template.json`: which paths the template manages and which it only adds.

Promise: an absent or damaged file means the lists of the template itself; a path that matches
both lists is managed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from gitsync.template.catalogue import Catalogue
from gitsync.template.globs import Globs
from gitsync.tree import Tree

OWNERSHIP_PATH = ".osmosis/template.json"
_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Ownership:
    """The two lists as patterns from the root."""

    managed: Globs
    additive: Globs

    def is_managed(self, path: str) -> bool:
        """True if updates own `path`."""
        return self.managed.covers(path)

    def is_additive(self, path: str) -> bool:
        """True if `path` is written only where nothing is."""
        return not self.managed.covers(path) and self.additive.covers(path)


def read_ownership(tree: Tree, catalogue: Catalogue) -> Ownership:
    """The lists that hold for this tree; those of the catalogue if it has no good ones."""
    managed: object = None
    additive: object = None
    entry = tree.entry(OWNERSHIP_PATH)
    if entry is not None and entry.is_file and tree.size(OWNERSHIP_PATH) <= _MAX_BYTES:
        try:
            data = json.loads(tree.read(OWNERSHIP_PATH, limit=_MAX_BYTES))
            managed, additive = data.get("overwriteManaged"), data.get("additive")
        except (ValueError, RecursionError, AttributeError):
            managed = additive = None
    return Ownership(_globs(managed, catalogue.managed), _globs(additive, catalogue.additive))


def _globs(value: object, default: tuple[str, ...]) -> Globs:
    lines = default
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        lines = tuple(value)
    return Globs.parse(lines, is_anchored=True)
