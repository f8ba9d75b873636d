"""The `pyproject.toml` of a rollout: complete, installable, and free of known version traps.

Promise: silent if the file is no TOML (the entrypoint's check says that); names and extras are
compared normalised (PEP 503, 685); `dynamic` fields are not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gitsync.check import aging, toml
from gitsync.check.build import flat_layout, harbor_packages
from gitsync.check.configs import toml_finding
from gitsync.check.found import finding, shown
from gitsync.check.lock import Lock, compare, read_lock
from gitsync.check.rollouts import Rollout
from gitsync.check.suggest import did_you_mean
from gitsync.model import Finding
from gitsync.tree import TooLarge, Tree

# Where rollouts run, for the markers of what they require.
_RUNS = [
    {
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": machine,
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "python_version": f"3.{minor}",
        "python_full_version": f"3.{minor}.{patch}",
        "extra": "",
    }
    for minor in range(12, 16)
    for patch in (0, 5, 12)
    for machine in ("x86_64", "aarch64")
]
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_ADVICE = {
    "name": "Use letters and digits, joined by `-`, `_` or `.`.",
    "version": "Write for example `0.1.0`.",
}
_UV_LISTS = (
    "dev-dependencies",
    "constraint-dependencies",
    "override-dependencies",
    "build-constraint-dependencies",
)
Requirements = list[tuple[tuple[str | int, ...], Requirement]]


def check_package(tree: Tree, rollout: Rollout) -> tuple[Finding, ...]:
    """All findings about one rollout's package; empty without a `pyproject.toml`."""
    path = f"{rollout.path}/pyproject.toml"
    entry = tree.entry(path)
    if entry is None or not entry.is_file:
        return ()
    try:
        document = toml.parse(tree.read(path, limit=toml.MAX_BYTES))
    except TooLarge as e:
        return (
            toml_finding(path, toml.TomlError(f"It has {e.details['size']} bytes.", limit=True)),
        )
    except toml.TomlError as e:
        return (toml_finding(path, e),) if e.limit else ()  # no TOML: each entrypoint says so
    return tuple(_Package(tree, rollout, path, document).check())


class _Package:
    def __init__(self, tree: Tree, rollout: Rollout, path: str, document: toml.Document) -> None:
        self._tree = tree
        self._rollout = rollout
        self._path = path
        self._document = document
        project = document.values.get("project")
        self._project: dict[str, Any] | None = project if isinstance(project, dict) else None
        dynamic = (self._project or {}).get("dynamic")
        self._dynamic = dynamic if isinstance(dynamic, list) else []

    def check(self) -> Iterator[Finding]:
        if self._project is None:
            yield self._add(
                "project-incomplete",
                "There is no `[project]`, so the rollout cannot be installed. Add it with a name, "
                "a version and dependencies.",
                (1, 1),
                "project",
            )
        else:
            yield from self._fields(self._project)
            found: list[Finding] = []
            requirements = self._requirements(self._project, found)
            yield from found
            yield from self._sdk(requirements)
            lock = read_lock(self._tree, f"{self._rollout.path}/uv.lock")
            yield from self._traps(requirements, lock)
            yield from self._lock(self._project, requirements, lock)
        reason = flat_layout(self._tree, self._rollout.path, self._document.values)
        if reason:
            yield self._add(
                "flat-layout",
                f"setuptools finds {reason} and stops the build. Name what belongs to the package "
                "in `[tool.setuptools.packages.find]` or `py-modules`.",
                (1, 1),
            )
        if self._rollout.code.packages_agent:
            yield from self._harbor()

    def _add(self, code: str, message: str, at: toml.Place, subject: str = "") -> Finding:
        return finding(code, self._path, message, at=at, subject=subject)

    def _fields(self, project: Mapping[str, Any]) -> Iterator[Finding]:
        header = self._document.table("project")
        for key in ("name", "version"):
            value = project.get(key)
            has_one = isinstance(value, str) and value.strip()
            can_be_absent = key == "version" and key in self._dynamic and key not in project
            if not has_one and not can_be_absent:
                yield self._add(
                    "project-incomplete",
                    f"`[project]` has no text as `{key}`, so the rollout cannot be installed. "
                    "Add it.",
                    header,
                    key,
                )
            elif isinstance(value, str) and not _is_usable(key, value):
                yield self._add(
                    "project-incomplete",
                    f"`{shown(value)}` is no {key} of a package, so the rollout cannot be "
                    f"installed. {_ADVICE[key]}",
                    self._document.value("project", key),
                    key,
                )
        name = project.get("name")
        if isinstance(name, str) and canonicalize_name(name) != canonicalize_name(
            self._rollout.name
        ):
            yield self._add(
                "project-name-differs",
                f"The project is called `{shown(name)}`, its folder `{shown(self._rollout.name)}`."
                " Use one name for both.",
                self._document.value("project", "name"),
                name,
            )
        if "requires-python" in project:
            yield from self._python(project["requires-python"])
        elif "requires-python" not in self._dynamic:
            yield self._add(
                "requires-python-missing",
                '`requires-python` is not set. Add `requires-python = ">=3.12"`.',
                header,
            )

    def _python(self, value: object) -> Iterator[Finding]:
        at = self._document.value("project", "requires-python")
        try:
            if not isinstance(value, str):
                raise InvalidSpecifier
            specifier = SpecifierSet(value)
        except InvalidSpecifier:
            yield self._add(
                "invalid-requirement",
                f"`{shown(value)}` is no version specifier. Write `>=3.12`.",
                at,
                "requires-python",
            )
            return
        if not needs_python(specifier):
            yield self._add(
                "requires-python",
                f"`{shown(value)}` does not fit: `osmosis-ai` needs Python 3.12 or newer. Write "
                "`>=3.12`.",
                at,
                shown(value),
            )

    def _requirements(self, project: Mapping[str, Any], found: list[Finding]) -> Requirements:
        """The readable dependencies; findings for the others."""
        groups: list[tuple[tuple[str | int, ...], object]] = []
        if "dependencies" in project and "dependencies" not in self._dynamic:
            groups.append((("project", "dependencies"), project["dependencies"]))
        optional = project.get("optional-dependencies")
        if isinstance(optional, dict):
            groups.extend((("project", "optional-dependencies", k), v) for k, v in optional.items())
        development = self._document.values.get("dependency-groups")
        if isinstance(development, dict):
            groups.extend((("dependency-groups", k), v) for k, v in development.items())
        for key in _UV_LISTS:
            if (values := self._uv(key)) is not None:
                groups.append((("tool", "uv", key), values))
        out: Requirements = []
        for steps, values in groups:
            if not isinstance(values, list):
                found.append(self._invalid(values, steps))
                continue
            for index, value in enumerate(values):
                if steps[0] == "dependency-groups" and isinstance(value, dict):
                    found.extend(self._included(value, (*steps, index)))
                    continue
                requirement = _requirement(value)
                if requirement is None:
                    found.append(self._invalid(value, (*steps, index)))
                elif steps == ("project", "dependencies"):
                    out.append(((*steps, index), requirement))
        return out

    def _included(
        self, value: Mapping[str, Any], steps: tuple[str | int, ...]
    ) -> Iterator[Finding]:
        """A finding if `{include-group = "..."}` names no group, or one that leads back to it."""
        development = self._document.values["dependency-groups"]
        groups: dict[str, Any] = {canonicalize_name(k): v for k, v in development.items()}
        seen: set[str] = set()
        waiting = [_group(value)]
        while waiting:
            name = waiting.pop()
            if name not in seen and isinstance(groups.get(name), list):
                waiting.extend(_group(v) for v in groups[name] if isinstance(v, dict))
            seen.add(name)
        if _group(value) not in groups or canonicalize_name(str(steps[1])) in seen:
            text = shown(value.get("include-group", value))
            yield self._add(
                "invalid-requirement",
                f"`{text}` is no other group that can be included. Name one of "
                "`[dependency-groups]` that does not include this one.",
                self._document.value(*steps),
                text,
            )

    def _invalid(self, value: object, steps: tuple[str | int, ...]) -> Finding:
        return self._add(
            "invalid-requirement",
            f"`{shown(value)}` is no requirement (PEP 508). Write for example `numpy>=2`.",
            self._document.value(*steps),
            shown(value),
        )

    def _sdk(self, requirements: Requirements) -> Iterator[Finding]:
        sdk = aging.rules("packages")["sdk"]
        for steps, requirement in requirements:
            if canonicalize_name(requirement.name) != sdk["name"]:
                continue
            at = self._document.value(*steps)
            known = {canonicalize_name(e) for e in sdk["extras"]}
            for extra in sorted(requirement.extras):
                if canonicalize_name(extra) not in known:
                    yield self._add(
                        "sdk-unknown-extra",
                        f"`{sdk['name']}` {sdk['version']} has no extra `{shown(extra)}`, so it is "
                        f"ignored.{did_you_mean(extra, sdk['extras'])} The extras are "
                        f"{', '.join(sdk['extras'])}.",
                        at,
                        extra,
                    )
            if requirement.url:
                continue
            if not requirement.specifier.contains(sdk["version"], prereleases=True):
                yield self._add(
                    "sdk-version-excluded",
                    f"`{shown(requirement)}` does not allow {sdk['version']}, with which rollouts "
                    f"are checked and run. Write `>={sdk['version']},<0.4`.",
                    at,
                    str(requirement.specifier),
                )
            elif requirement.specifier.contains(sdk["next"], prereleases=True):
                yield self._add(
                    "sdk-unbounded",
                    f"`{shown(requirement)}` also allows {sdk['next']}, which may differ. Add "
                    "`<0.4`.",
                    at,
                    str(requirement.specifier),
                )

    def _traps(self, requirements: Requirements, lock: Lock | None) -> Iterator[Finding]:
        rules = aging.rules("packages")
        sdk = [(s, r) for s, r in requirements if canonicalize_name(r.name) == rules["sdk"]["name"]]
        extras = {canonicalize_name(e) for _, r in sdk for e in r.extras}
        for trap in rules["trap"]:
            if trap["extra"] not in extras or trap["unless_extra"] in extras:
                continue
            bounds = list(self._uv_requirements("override-dependencies"))
            if not any(canonicalize_name(r.name) == trap["package"] for r in bounds):
                bounds = [r for _, r in requirements]
            bounds += self._uv_requirements("constraint-dependencies")
            named = [r for r in bounds if canonicalize_name(r.name) == trap["package"]]
            locked = lock.versions.get(trap["package"]) if lock else None
            if any(_keeps_below(r, trap["below"]) for r in named) or (
                locked is not None and locked < Version(trap["below"])
            ):
                continue
            steps = next(
                s for s, r in sdk if trap["extra"] in {canonicalize_name(e) for e in r.extras}
            )
            yield self._add(
                trap["code"],
                f"With the extra `{trap['extra']}`, `{trap['package']}` {trap['below']} and newer "
                "fail at the first model call that offers tools. Also require "
                f"`{trap['package']}{trap['capped']}`.",
                self._document.value(*steps),
                trap["package"],
            )

    def _uv(self, key: str) -> Any:
        """What `[tool.uv]` has under a key."""
        tool = self._document.values.get("tool")
        uv = tool.get("uv") if isinstance(tool, dict) else None
        return uv.get(key) if isinstance(uv, dict) else None

    def _uv_requirements(self, key: str) -> Iterator[Requirement]:
        values = self._uv(key)
        for value in values if isinstance(values, list) else ():
            requirement = _requirement(value)
            if requirement is not None:
                yield requirement

    def _lock(
        self, project: Mapping[str, Any], requirements: Requirements, lock: Lock | None
    ) -> Iterator[Finding]:
        if lock is None or "dependencies" in self._dynamic:
            return
        sources = self._uv("sources")
        named = {canonicalize_name(n) for n in sources} if isinstance(sources, dict) else set()
        reason = compare(lock, project, [r for _, r in requirements], sources=named)
        if reason:
            yield finding(
                "lock-stale",
                f"{self._rollout.path}/uv.lock",
                f"The lock does not fit the project: {reason}. Run `uv lock` and commit the "
                "result.",
            )

    def _harbor(self) -> Iterator[Finding]:
        packages = harbor_packages(self._tree, self._rollout.path)
        if len(packages) != 1:
            names = ", ".join(f"`{shown(p)}`" for p in packages) or "none"
            yield self._add(
                "harbor-package-count",
                f"`HarborBackend` packs the one package of the rollout, and there is {names}. Keep "
                "exactly one folder with an `__init__.py`, or pass `bundle=`.",
                (1, 1),
            )


def _is_usable(key: str, value: str) -> bool:
    """True if packaging tools take the text as the name or version of a project."""
    if key == "name":
        return _NAME.fullmatch(value) is not None
    try:
        Version(value)
    except InvalidVersion:
        return False
    return True


def _group(value: Mapping[str, Any]) -> str:
    return canonicalize_name(str(value.get("include-group", "")))


def _requirement(value: object) -> Requirement | None:
    try:
        return Requirement(value) if isinstance(value, str) else None
    except InvalidRequirement:
        return None


def _keeps_below(requirement: Requirement, limit: str) -> bool:
    """True if the requirement admits no version from `limit` on, where rollouts run."""
    if requirement.marker and not _holds_somewhere(requirement.marker):
        return False
    if requirement.url:
        return True
    base = Version(limit)
    major, minor = base.major, base.minor
    tried = [f"{major}.{minor + i}.{p}" for i in range(40) for p in (0, 1, 7, 99)]
    tried += [f"{major + i}.{m}.0" for i in range(1, 4) for m in (0, 50)] + ["9999.0"]
    tried += [s.version for s in requirement.specifier if s.operator == "=="]
    for text in tried:
        try:
            version = Version(text.removesuffix(".*"))
        except InvalidVersion:
            continue
        if version >= base and requirement.specifier.contains(version, prereleases=True):
            return False
    return True


def _holds_somewhere(marker: Marker) -> bool:
    """True if the marker holds, or may hold, where rollouts run."""
    try:
        return any(marker.evaluate(environment) for environment in _RUNS)
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion):
        return True


def needs_python(specifier: SpecifierSet, *, minimum: str = "3.12") -> bool:
    """True if every Python that the specifier admits is new enough, and there is one."""
    floor = Version(minimum)
    bounds = [_lower_bound(s.operator, s.version) for s in specifier]
    lower = max((b for b in bounds if b is not None), default=None)
    if lower is None or lower < floor:
        return False
    newer = [f"3.{minor}.{patch}" for minor in range(12, 40) for patch in range(40)] + ["4.0.0"]
    newer += [s.version.removesuffix(".*") for s in specifier if s.operator != "==="]
    older = [f"3.{minor}.{patch}" for minor in range(12) for patch in (0, 1, 9, 30)]
    if any(specifier.contains(v, prereleases=True) for v in older):
        return False
    return any(Version(v) >= floor and specifier.contains(v, prereleases=True) for v in newer)


def _lower_bound(operator: str, version: str) -> Version | None:
    if operator not in (">=", "~=", "==", "===", ">"):
        return None
    try:
        return Version(version.removesuffix(".*"))
    except InvalidVersion:
        return None
