"""Imports against declared dependencies: what the rollout's environment may lack."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass

from packaging.requirements import Requirement

from gitsync.check.python.facts import EXTRA_OF_PREFIX, brought_by, facts
from gitsync.check.python.imports import Importer
from gitsync.check.python.needed import needed_imports
from gitsync.check.python.project import Project, normalised
from gitsync.check.python.values import Place


@dataclass(frozen=True, slots=True)
class Needed:
    """An import that is not declared; `extra` is set for an SDK module whose extra is missing."""

    place: Place
    name: str
    extra: str | None = None


def brought(project: Project) -> tuple[set[str], set[str], bool]:
    """Declared distributions (with those of the SDK's extras), its extras, whether it is there."""
    declared: set[str] = set()
    extras: set[str] = set()
    has_sdk = False
    for requirement in project.dependencies or ():
        name = normalised(requirement.name)
        declared.add(name)
        if name == "osmosis-ai":
            has_sdk = True
            extras |= {normalised(e) for e in requirement.extras}
    if has_sdk:
        pending = [*extras]
        while pending:
            extra = pending.pop()
            for name, wanted, brings in sdk_requirements():
                if name == "osmosis-ai" and wanted == extra:
                    new = set(brings) - extras
                    extras |= new
                    pending += new
        for name, wanted, _ in sdk_requirements():
            if wanted is None or wanted in extras:
                declared.add(name)
    return declared, extras, has_sdk


@functools.cache
def sdk_requirements() -> tuple[tuple[str, str | None, tuple[str, ...]], ...]:
    """(distribution, the extra that wants it, its own extras) of the SDK."""
    out: list[tuple[str, str | None, tuple[str, ...]]] = []
    for text in facts().requires:
        requirement = Requirement(text)
        found = re.search(r'extra == "([^"]+)"', text)
        extra = normalised(found[1]) if found else None
        brings = tuple(normalised(e) for e in sorted(requirement.extras))
        out.append((normalised(requirement.name), extra, brings))
    return tuple(out)


def _provides(declared: set[str], module: str) -> bool:
    """True if one of the declared distributions probably brings the module."""
    parts = module.split(".")
    for size in (2, 1):
        if not declared.isdisjoint(brought_by().get(".".join(parts[:size]), ())):
            return True
    top = parts[0]
    for size in range(len(parts), 0, -1):
        if normalised("-".join(parts[:size])) in declared:
            return True
    # Distributions are often named after their package with an affix: `python-x`, `x-python`.
    for name in declared:
        bare = name.removeprefix("python-").removesuffix("-python").removeprefix("py")
        if bare and bare.replace("-", "_") == top.lower() and top not in brought_by():
            return True
        if (
            "-" in name
            and name.replace("-", "_").startswith(top.lower() + "_")
            and top
            in ("google", "azure", "opentelemetry", "ruamel", "zope", "sphinxcontrib", "jaraco")
        ):
            return True
    return False


def undeclared(project: Project, importer: Importer, paths: list[str]) -> list[Needed]:
    """The imports of the loaded local files that nothing declares."""
    if project.dependencies is None:
        return []
    declared, extras, has_sdk = brought(project)
    out: list[Needed] = []
    seen: set[tuple[str, str]] = set()
    for path in paths:
        for place, module, names in _absolute(importer.m.sources.parse(path), path):
            top = module.partition(".")[0]
            if top == "osmosis_ai":
                extra = _extra_of(module, names)
                if extra is not None and extra not in extras and has_sdk:
                    key = (path, f"extra:{extra}")
                    if key not in seen:
                        seen.add(key)
                        out.append(Needed(place, module, extra))
                elif not has_sdk and (path, top) not in seen:
                    seen.add((path, top))
                    out.append(Needed(place, top))
                continue
            if top in importer.facts.stdlib or top.startswith("__"):
                continue
            if importer.search((importer.folder,), top) is not None or importer.is_local(top):
                continue
            if _provides(declared, module) or any(
                _provides(declared, f"{module}.{n}") for n in names if "." not in module
            ):
                continue
            if (path, top) not in seen:
                seen.add((path, top))
                out.append(Needed(place, top))
    return out


def _absolute(tree: ast.Module, path: str) -> list[tuple[Place, str, tuple[str, ...]]]:
    """Absolute imports that must succeed: (place, module, names)."""
    out: list[tuple[Place, str, tuple[str, ...]]] = []
    for node in needed_imports(tree):
        place = Place(path, node.lineno, node.col_offset + 1)
        if isinstance(node, ast.Import):
            out += [(place, alias.name, ()) for alias in node.names]
        elif not node.level and node.module:
            out.append((place, node.module, tuple(a.name for a in node.names)))
    return out


def _extra_of(module: str, names: tuple[str, ...]) -> str | None:
    for candidate in (module, *(f"{module}.{n}" for n in names)):
        for prefix, extra in EXTRA_OF_PREFIX:
            if candidate == prefix or candidate.startswith(prefix + "."):
                return extra
    return None
