"""Whether two markers, or two sets of Python versions, mean the same in different words.

uv writes both anew when it locks: `python_version > "3.11"` becomes
`python_full_version >= "3.12"`, and `~=3.12` becomes `>=3.12, <4`. So they are compared by what
they say of the environments that tell them apart. Very long
markers are the same only in the same words.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

_MOST = 200
_MOST_TRIED = 50_000
_LONGEST = 600
# What uv takes for one system under two names, and where no system has both of two values.
_SYSTEMS = {
    "AIX": "aix",
    "Android": "android",
    "Darwin": "darwin",
    "Emscripten": "emscripten",
    "Linux": "linux",
    "Windows": "win32",
}
_NEVER = {("nt", "darwin"), ("nt", "ios"), ("nt", "linux"), ("posix", "win32")}
_PYTHON = {"python_version", "python_full_version"}
_LITERAL = r"\"([^\"]*)\"|'([^']*)'"
_OPERATOR = r"\s*(?:===|[<>=!~]=|[<>]|not\s+in|in)\s*"
_ATOM = re.compile(rf"(\w+){_OPERATOR}(?:{_LITERAL})|(?:{_LITERAL}){_OPERATOR}(\w+)")


def same_python(left: SpecifierSet, right: SpecifierSet) -> bool:
    """True if both admit the same releases of Python."""
    tried = {f"3.{minor}.{patch}" for minor in range(40) for patch in (0, 1, 99)}
    tried |= {"2.7.18", "4.0.0", "4.1.0", "5.0.0"}
    for specifier in (*left, *right):
        tried.update(_around(specifier.version))
    return all(left.contains(v) == right.contains(v) for v in tried)


def same_marker(left: str, right: str) -> bool:
    """True if both hold in the same environments; an empty one holds in all."""
    if left == right:
        return True
    if len(left) + len(right) > _LONGEST:
        return False
    try:
        ours, theirs = (Marker(text) if text else None for text in (left, right))
        for environment in _environments(f"{left}\n{right}"):
            ours_holds = ours is None or ours.evaluate(environment)
            if ours_holds != (theirs is None or theirs.evaluate(environment)):
                return False
    except (InvalidMarker, InvalidVersion, UndefinedComparison, UndefinedEnvironmentName):
        return False
    return True


def _environments(text: str) -> Iterator[dict[str, str]]:
    """Every combination of what the texts name, and of something that they do not."""
    values: dict[str, set[str]] = {}
    for match in _ATOM.finditer(text):
        name = match[1] or match[6]
        literal = next(g for g in match.groups()[1:5] if g is not None)
        values.setdefault("python" if name in _PYTHON else name, set()).add(literal)
    if "platform_system" in values and "sys_platform" in values:
        for system, platform in _SYSTEMS.items():
            if system in values["platform_system"] or platform in values["sys_platform"]:
                values["platform_system"].add(system)
                values["sys_platform"].add(platform)
    choices = [
        [(name, value) for value in sorted(_releases(given) if name == "python" else _parts(given))]
        for name, given in sorted(values.items())
    ]
    tried = itertools.islice(itertools.product(*choices), _MOST_TRIED)
    for environment in itertools.islice(filter(_exists, map(dict, tried)), _MOST):
        full = environment.pop("python", None)
        if full is not None:
            environment["python_full_version"] = full
            environment["python_version"] = ".".join(full.split(".")[:2])
        yield environment


def _exists(environment: dict[str, str]) -> bool:
    """False if no system is all of this at once."""
    system, platform = environment.get("platform_system"), environment.get("sys_platform")
    if system is not None:
        known = _SYSTEMS.get(system)
        if platform is None:
            platform = known
        elif (known or platform) != platform or (not known and platform in _SYSTEMS.values()):
            return False
    return (environment.get("os_name"), platform) not in _NEVER


def _parts(literals: Iterable[str]) -> set[str]:
    """The literals, the words in them (for `in`), and one that is neither."""
    found = {"", "something-else"}
    for literal in literals:
        found.update((literal, *re.split(r"[\s,|]+", literal)))
    return found


def _releases(literals: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for literal in literals:
        for word in re.split(r"[\s,|]+", literal):
            found.update(_around(word))
    return found or {"3.12.0"}


def _around(version: str) -> Iterator[str]:
    """A release and those beside it."""
    try:
        major, minor, patch, *_ = (*Version(version.removesuffix(".*")).release, 0, 0)
    except InvalidVersion:
        return
    for number in {max(0, minor - 1), minor, minor + 1}:
        yield from (f"{major}.{number}.{p}" for p in {0, max(0, patch - 1), patch, patch + 1})
