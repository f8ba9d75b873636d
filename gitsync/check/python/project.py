"""A rollout's `pyproject.toml`: Python version, dependencies, declared classes."""

from __future__ import annotations

import contextlib
import posixpath
import re
import tomllib
import urllib.parse
from dataclasses import dataclass, field
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from gitsync.check.python.files import Files
from gitsync.text import printable

MAX_BYTES = 256 * 1024
_NEWEST = 20


@dataclass(slots=True)
class Project:
    """What the check needs from the file; `error` is set if it is no TOML."""

    path: str
    exists: bool = False
    error: tuple[int, int, str] | None = None
    minor: int = 12
    dependencies: tuple[Requirement, ...] | None = None
    outside: list[tuple[int, int, str, str]] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)
    declared_place: tuple[int, int] = (1, 1)


def read_project(files: Files, folder: str, entrypoint: str) -> Project:
    """Read `pyproject.toml` of the rollout folder; never raises for its content."""
    path = f"{folder}/pyproject.toml"
    project = Project(path)
    if not files.is_file(path):
        return project
    project.exists = True
    if files.size(path) > MAX_BYTES:
        project.error = (1, 1, f"it is larger than {MAX_BYTES} bytes")
        return project
    try:
        text = files.read(path, limit=MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        project.error = (1, 1, "it is not UTF-8")
        return project
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > 500 or line.count("[") > 200 or line.count("{") > 200:
            project.error = (number, 1, "a line nests too deeply")
            return project
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        found = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        place = (int(found[1]), int(found[2])) if found else (1, 1)
        reason = re.sub(r" \(at .*\)$", "", printable(str(error), limit=200))
        project.error = (*place, reason)
        return project
    _fill(project, data, text, folder, entrypoint)
    return project


def _table(data: object, *keys: str) -> dict[str, Any]:
    for key in keys:
        if not isinstance(data, dict):
            return {}
        data = data.get(key)
    return data if isinstance(data, dict) else {}


def _fill(project: Project, data: dict[str, Any], text: str, folder: str, entry: str) -> None:
    table = _table(data, "project")
    wanted = table.get("requires-python")
    if isinstance(wanted, str):
        project.minor = _lowest_minor(wanted)
    listed = table.get("dependencies")
    dynamic = table.get("dynamic")
    if isinstance(dynamic, list) and "dependencies" in dynamic:
        listed = None
    if isinstance(listed, list):
        project.dependencies = tuple(_requirements(listed))
    for requirement in (*(project.dependencies or ()), *_further(data, table)):
        if requirement.url is not None and requirement.url[:5].lower() == "file:":
            target = urllib.parse.unquote(requirement.url[5:])
            _local(project, requirement.name, target, text, folder)
    for name, source in _table(data, "tool", "uv", "sources").items():
        for each in source if isinstance(source, list) else [source]:
            if isinstance(each, dict) and isinstance(each.get("path"), str):
                _local(project, name, each["path"], text, folder)
    declared = _table(data, "tool", "gitsync", "entrypoints", entry)
    for role in ("workflow", "grader"):
        value = declared.get(role)
        if isinstance(value, str) and value.count(":") == 1:
            project.declared[role] = value
    if declared:
        project.declared_place = _find(text, "tool.gitsync.entrypoints", entry)


def _requirements(listed: object) -> list[Requirement]:
    """The requirements in a list that can be read."""
    found: list[Requirement] = []
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, str):
            with contextlib.suppress(InvalidRequirement):
                found.append(Requirement(item))
    return found


def _further(data: dict[str, Any], table: dict[str, Any]) -> list[Requirement]:
    """Requirements outside `[project].dependencies`, which an install may need as well."""
    lists: list[object] = [_table(data, "build-system").get("requires")]
    lists += _table(table, "optional-dependencies").values()
    lists += _table(data, "dependency-groups").values()
    uv = _table(data, "tool", "uv")
    lists += [v for k, v in uv.items() if k.endswith("-dependencies")]
    return [r for listed in lists for r in _requirements(listed)]


def _local(project: Project, name: str, target: str, text: str, folder: str) -> None:
    """Note a path dependency that leads out of the rollout folder."""
    path = re.sub(r"^//(localhost)?", "", target)
    whole = posixpath.normpath(posixpath.join("/" + folder, path))
    inside = "/" + folder
    if whole != inside and not whole.startswith(inside + "/"):
        line, column = _find(text, target)
        project.outside.append((line, column, name, target))


def _find(text: str, *words: str) -> tuple[int, int]:
    """The line and column where all words stand."""
    for number, line in enumerate(text.split("\n"), 1):
        if all(word in line for word in words):
            stripped = len(line) - len(line.lstrip())
            return number, stripped + 1
    return 1, 1


def _lowest_minor(text: str) -> int:
    """The lowest Python 3 minor version that a specifier admits, at least 12."""
    with contextlib.suppress(ValueError):  # no specifier, or numbers that no tool reads
        specifiers = SpecifierSet(text)
        for minor in range(12, _NEWEST):
            # `>=3.12.4` admits some patch release of 3.12.
            if any(specifiers.contains(f"3.{minor}.{patch}") for patch in (0, 1, 5, 10, 99)):
                return minor
    return 12


def normalised(name: str) -> str:
    """A distribution name as packaging compares it."""
    return str(canonicalize_name(name))
