"""A rollout's `uv.lock`, compared with its project; nothing is resolved."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name, canonicalize_version
from packaging.version import InvalidVersion, Version

from gitsync.check import toml
from gitsync.check.found import shown
from gitsync.check.sameness import same_marker, same_python
from gitsync.tree import TooLarge, Tree

_MAX_BYTES = 8 * 1024 * 1024
_MOST_COMPARED = 30
# With one of these the version comes from there, and uv does not repeat what the project asks for.
_SOURCES = ("url", "git", "path", "directory", "editable", "virtual")
_ELSEWHERE = "?"  # a folder, or what `[tool.uv.sources]` says, which is not compared


@dataclass(frozen=True, slots=True)
class Lock:
    """The parts of a lock that the checks need; `values` is empty if it is no TOML."""

    values: dict[str, Any]
    versions: dict[str, Version]


@dataclass(frozen=True, slots=True)
class Key:
    """One requirement in canonical spelling; `specifiers` is None if it comes from a source.

    `origin` is its URL in the spelling of the lock, empty without one, or `_ELSEWHERE`.
    """

    name: str
    extras: frozenset[str]
    specifiers: frozenset[str] | None
    marker: str
    origin: str = ""

    def wants_the_same(self, other: Key) -> bool:
        """True if the other asks for the same, perhaps in other environments."""
        if (self.name, self.extras) != (other.name, other.extras):
            return False
        if _ELSEWHERE not in (self.origin, other.origin):
            return (self.origin, self.specifiers) == (other.origin, other.specifiers)
        return (
            self.specifiers is None
            or other.specifiers is None
            or self.specifiers == other.specifiers
        )


def read_lock(tree: Tree, path: str) -> Lock | None:
    """The lock at `path`; None if there is none, or one too large to read."""
    entry = tree.entry(path)
    if entry is None or not entry.is_file:
        return None
    try:
        values = toml.parse_values(tree.read(path, limit=_MAX_BYTES), max_bytes=_MAX_BYTES)
    except TooLarge:
        return None
    except toml.TomlError as e:
        return None if e.limit else Lock({}, {})
    versions: dict[str, Version] = {}
    for package in _tables(values.get("package")):
        name, version = package.get("name"), package.get("version")
        if isinstance(name, str) and isinstance(version, str):
            try:
                found = Version(version)
            except InvalidVersion:
                continue
            name = canonicalize_name(name)
            versions[name] = max(found, versions.get(name, found))
    return Lock(values, versions)


def compare(
    lock: Lock,
    project: Mapping[str, Any],
    requirements: Sequence[Requirement],
    *,
    sources: Collection[str] = (),
) -> str | None:
    """Why the lock does not fit the project; None if it does.

    `sources` are the packages that `[tool.uv.sources]` names.
    """
    name = project.get("name")
    if not isinstance(name, str):
        return None
    wanted = canonicalize_name(name)
    package = next(
        (
            p
            for p in _tables(lock.values.get("package"))
            if isinstance(p.get("name"), str) and canonicalize_name(p["name"]) == wanted
        ),
        None,
    )
    if package is None:
        return f"it has no package `{shown(name)}`"
    python = project.get("requires-python")
    locked = lock.values.get("requires-python")
    if isinstance(python, str) and not _same_python(python, locked):
        return f"`requires-python` is `{shown(locked)}` there and `{shown(python)}` in the project"
    metadata = package.get("metadata")
    listed = _tables(metadata.get("requires-dist") if isinstance(metadata, dict) else None)
    theirs = {k for k in (_locked_key(entry) for entry in listed) if k is not None}
    theirs = {replace(k, origin=_ELSEWHERE) if k.name in sources else k for k in theirs}
    names = sorted({k.name for k in _unmatched({_key(r) for r in requirements}, theirs)})
    if not names:
        return None
    return "it differs in " + ", ".join(f"`{shown(n)}`" for n in names[:5])


def _unmatched(ours: set[Key], theirs: set[Key]) -> set[Key]:
    """The requirements of one side that the other does not have."""
    left, right = ours - theirs, theirs - ours
    if len(left) + len(right) > _MOST_COMPARED:
        return left | right
    matched: set[Key] = set()
    for key in left:
        wanted = {o for o in right if key.wants_the_same(o)}
        found = {o for o in wanted if same_marker(key.marker, o.marker)}
        # With several sources uv splits a requirement into one per source.
        if not found and wanted and same_marker(key.marker, _any_of(o.marker for o in wanted)):
            found = wanted
        if found:
            matched |= {key, *found}
    return (left | right) - matched


def _any_of(markers: Iterable[str]) -> str:
    given = sorted(markers)
    return " or ".join(f"({m})" for m in given) if all(given) else ""


def _tables(value: object) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _same_python(ours: str, theirs: object) -> bool:
    try:
        return isinstance(theirs, str) and (
            ours == theirs or same_python(SpecifierSet(ours), SpecifierSet(theirs))
        )
    except InvalidSpecifier:
        return True


def _specifiers(text: str) -> frozenset[str]:
    """Canonical single specifiers: `>= 2024.07.04` and `>=2024.7.4` are one."""
    return frozenset(_canonical(s.operator, s.version) for s in SpecifierSet(text))


def _canonical(operator: str, version: str) -> str:
    if operator == "===":
        return operator + version
    number, wildcard = version.removesuffix(".*"), ".*" * version.endswith(".*")
    is_exact = not wildcard and operator != "~="
    return operator + canonicalize_version(number, strip_trailing_zero=is_exact) + wildcard


def _origin(url: str) -> str:
    """A URL as the lock spells it: without user and fragment, the revision for Git as a query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    scheme, path, query = parts.scheme, parts.path, parts.query
    if scheme == "file":
        return _ELSEWHERE
    if scheme.startswith("git+"):
        scheme = scheme.removeprefix("git+")
        path, _, revision = path.partition("@")
        query = f"rev={revision}" if revision else ""
    return urlunsplit((scheme, parts.netloc.rpartition("@")[2], path, query, ""))


def _locked_origin(entry: Mapping[str, Any]) -> str:
    url, git = entry.get("url"), entry.get("git")
    if isinstance(url, str):
        return _origin(url)
    if isinstance(git, str):
        return re.sub(r"subdirectory=[^&]*&?", "", _origin(git)).rstrip("?&")
    return _ELSEWHERE if any(source in entry for source in _SOURCES) else ""


def _key(requirement: Requirement) -> Key:
    return Key(
        canonicalize_name(requirement.name),
        frozenset(canonicalize_name(e) for e in requirement.extras),
        None if requirement.url else _specifiers(str(requirement.specifier)),
        str(requirement.marker) if requirement.marker else "",
        _origin(requirement.url) if requirement.url else "",
    )


def _locked_key(entry: Mapping[str, Any]) -> Key | None:
    """The same of an entry of `requires-dist`; None for those of an extra."""
    name, specifier, marker = (entry.get(k) for k in ("name", "specifier", "marker"))
    if not isinstance(name, str):
        return None
    extras = entry.get("extras")
    try:
        parsed = str(Marker(marker)) if isinstance(marker, str) else ""
        if "extra ==" in parsed:
            return None
        origin = _locked_origin(entry)
        return Key(
            canonicalize_name(name),
            frozenset(
                canonicalize_name(e)
                for e in (extras if isinstance(extras, list) else ())
                if isinstance(e, str)
            ),
            None if origin else _specifiers(specifier if isinstance(specifier, str) else ""),
            parsed,
            origin,
        )
    except (InvalidMarker, InvalidSpecifier):
        return Key(canonicalize_name(name), frozenset(), frozenset({"?"}), "")
