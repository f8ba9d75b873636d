"""What can be had: the workspace template with its starters, and the skills, read from folders.

Promise: a `Catalogue` is a checked value. Its source never decides where something is written
(paths are checked here), links in the source stay links, bytecode and caches are not part of it,
and a link in the source that points out of it is refused instead of followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from gitsync.errors import NotFound
from gitsync.template.files import MAX_FILE_BYTES, check_link, check_path
from gitsync.template.parameters import Parameters, Value, as_text
from gitsync.template.render import TemplateBroken
from gitsync.template.toml import read_toml
from gitsync.text import printable
from gitsync.tree import Kind

MANIFEST = "template.toml"
SKILLS_MANIFEST = "skills.toml"
MAX_SOURCE_FILES = 5000
_PACKAGE = Path(__file__).resolve().parent.parent
_CACHES = {"__pycache__", ".git", ".DS_Store"}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a template source at the path where its result lies by default."""

    kind: Kind
    data: bytes
    is_rendered: bool


@dataclass(frozen=True, slots=True)
class Starter:
    """A rollout with its configs that can be added to a workspace under any name.

    Patterns may hold `{rollout}`; in the source it stands for the starter's own name.
    """

    name: str
    description: str
    extras: tuple[str, ...]
    owned: tuple[str, ...]
    files: tuple[str, ...]
    shared: tuple[str, ...]
    next_steps: tuple[str, ...]
    parameters: Parameters
    renames: Mapping[str, str] = field(default_factory=dict)
    when: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The wire form, with the JSON Schema of the parameters."""
        return {
            "name": self.name,
            "description": self.description,
            "extras": list(self.extras),
            "parameters": self.parameters.schema(),
            "next_steps": list(self.at(self.next_steps, self.name)),
        }

    def wants(self, path: str, values: Mapping[str, Value]) -> bool:
        """True unless a parameter says that the source file at `path` is not to be written."""
        for pattern, (name, text) in self.when.items():
            if path == pattern.replace("{rollout}", self.name):
                return as_text(values[name]) == text
        return True

    def owns(self, path: str) -> bool:
        """True if the source file at `path` belongs to this starter alone."""
        if path in self.at(self.files, self.name):
            return True
        return any(path.startswith(f"{o}/") for o in self.at(self.owned, self.name))

    def at(self, patterns: Sequence[str], rollout: str) -> tuple[str, ...]:
        """The patterns with the rollout's name filled in."""
        return tuple(p.replace("{rollout}", rollout) for p in patterns)

    def target(self, path: str, rollout: str) -> str:
        """Where the source file at `path` goes for a rollout called `rollout`."""
        for pattern in self.files:
            if path == pattern.replace("{rollout}", self.name):
                return pattern.replace("{rollout}", rollout)
        for pattern in self.owned:
            source = pattern.replace("{rollout}", self.name)
            if path.startswith(f"{source}/"):
                return pattern.replace("{rollout}", rollout) + path[len(source) :]
        return path


@dataclass(frozen=True, slots=True)
class Skill:
    """An Agent Skill: a folder that is copied as it is, never rendered."""

    name: str
    use_when: str
    optional: bool
    files: Mapping[str, SourceFile] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """One workspace template with its starters and skills."""

    name: str
    version: str
    description: str
    parameters: Parameters
    managed: tuple[str, ...]
    additive: tuple[str, ...]
    renames: Mapping[str, str]
    files: Mapping[str, SourceFile] = field(repr=False)
    starters: Mapping[str, Starter] = field(repr=False)
    skills: Mapping[str, Skill] = field(repr=False)

    def starter(self, name: str) -> Starter:
        """The starter called `name`, or `NotFound` that lists those there are."""
        if name not in self.starters:
            listed = ", ".join(self.starters) or "none"
            raise NotFound(
                f"There is no starter '{printable(name, limit=80)}'. There are: {listed}."
            )
        return self.starters[name]

    def skill(self, name: str) -> Skill:
        """The skill called `name`, or `NotFound` that lists those there are."""
        if name not in self.skills:
            listed = ", ".join(self.skills) or "none"
            raise NotFound(f"There is no skill '{printable(name, limit=80)}'. There are: {listed}.")
        return self.skills[name]

    @property
    def default_skills(self) -> tuple[str, ...]:
        """The skills a new workspace gets unless it asks for others."""
        return tuple(s.name for s in self.skills.values() if not s.optional)


@lru_cache(maxsize=1)
def builtin() -> Catalogue:
    """The catalogue that ships with gitsync."""
    return load_catalogue(_PACKAGE / "template_repo", _PACKAGE / "skills_repo")


def load_catalogue(template: Path, skills: Path | None = None) -> Catalogue:
    """Read and check a template folder and, if given, a folder of skills."""
    files = _read_source(template)
    manifest = _manifest(files.pop(MANIFEST, None), MANIFEST)
    executable = _strings(manifest, "executable")
    starters: dict[str, Starter] = {}
    for path in sorted(p for p in files if p.endswith(f"/{MANIFEST}")):
        starter = _starter(_manifest(files.pop(path), path), path)
        starters[starter.name] = starter
    _check_starters(starters, files)
    renames = manifest.get("renames", {})
    for old, new in renames.items():
        check_path(old)
        check_path(new)
    return Catalogue(
        name=str(manifest["name"]),
        version=str(manifest["version"]),
        description=str(manifest.get("description", "")),
        parameters=Parameters.parse(manifest.get("parameters", {})),
        managed=_strings(manifest, "managed"),
        additive=_strings(manifest, "additive"),
        renames=renames,
        files={p: _with_mode(p, f, executable) for p, f in sorted(files.items())},
        starters=starters,
        skills=_read_skills(skills) if skills is not None else {},
    )


def _with_mode(path: str, file: SourceFile, executable: tuple[str, ...]) -> SourceFile:
    """Listed paths are executable even where an installer lost the bit."""
    if file.kind is Kind.FILE and any(fnmatchcase(path, glob) for glob in executable):
        return SourceFile(Kind.EXECUTABLE, file.data, file.is_rendered)
    return file


def _starter(manifest: Mapping[str, Any], path: str) -> Starter:
    starter = Starter(
        name=str(manifest["name"]),
        description=str(manifest.get("description", "")),
        extras=_strings(manifest, "extras"),
        owned=_strings(manifest, "owned"),
        files=_strings(manifest, "files"),
        shared=_strings(manifest, "shared"),
        next_steps=_strings(manifest, "next_steps"),
        parameters=Parameters.parse(manifest.get("parameters", {})),
        renames=manifest.get("renames", {}),
        when={p: (t["parameter"], t["is"]) for p, t in manifest.get("when", {}).items()},
    )
    declared = {p.name for p in starter.parameters.items}
    if any(name not in declared for name, _ in starter.when.values()):
        raise TemplateBroken(f"{path}: a file depends on a parameter that is not declared.")
    renamed = (*starter.renames, *starter.renames.values())
    for pattern in (*starter.owned, *starter.files, *starter.shared, *renamed):
        check_path(pattern.replace("{rollout}", "x"))
    if "/" not in path or path.rsplit("/", 2)[-2] != starter.name:
        raise TemplateBroken(f"{path}: the folder is not called like its starter.")
    return starter


def _check_starters(starters: Mapping[str, Starter], files: Mapping[str, SourceFile]) -> None:
    for starter in starters.values():
        for path in (*starter.at(starter.files, starter.name), *starter.shared):
            if path not in files:
                raise TemplateBroken(f"Starter {starter.name}: the template lacks {path}.")
    for path in files:
        owners = [s.name for s in starters.values() if s.owns(path)]
        if len(owners) > 1:
            raise TemplateBroken(f"{path} belongs to {' and '.join(owners)}.")


def _read_skills(folder: Path) -> dict[str, Skill]:
    files = _read_source(folder)
    manifest = _manifest(files.pop(SKILLS_MANIFEST, None), SKILLS_MANIFEST)
    skills: dict[str, Skill] = {}
    for name, table in manifest.get("skills", {}).items():
        inside = {p[len(name) + 1 :]: f for p, f in files.items() if p.startswith(f"{name}/")}
        if "SKILL.md" not in inside:
            raise TemplateBroken(f"Skill {name} has no SKILL.md.")
        skills[name] = Skill(
            name, str(table["use_when"]), table.get("optional", False) is True, inside
        )
    return skills


def _manifest(file: SourceFile | None, name: str) -> dict[str, Any]:
    if file is None:
        raise TemplateBroken(f"The template has no {name}.")
    manifest = read_toml(file.data, name=name)
    if manifest.get("schema") != 1:
        raise TemplateBroken(f"{name}: only schema 1 is understood.")
    return manifest


def _strings(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = table.get(key, [])
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise TemplateBroken(f"'{key}' of the template must be a list of strings.")
    return tuple(values)


def _read_source(root: Path) -> dict[str, SourceFile]:
    """Every file of a source folder at the path of its result; links are read, not followed."""
    out: dict[str, SourceFile] = {}
    pending = [root]
    while pending:
        folder = pending.pop()
        for entry in sorted(os.scandir(folder), key=lambda e: e.name):
            if entry.name in _CACHES or entry.name.endswith((".pyc", ".pyo")):
                continue
            here = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                pending.append(here)
                continue
            path, file = _read_one(here, here.relative_to(root).as_posix())
            if path in out or len(out) >= MAX_SOURCE_FILES:
                raise TemplateBroken(f"{printable(path)}: two sources for one path, or too many.")
            out[path] = file
    return out


def _read_one(here: Path, relative: str) -> tuple[str, SourceFile]:
    parts = [f".{p[4:]}" if p.startswith("dot-") else p for p in relative.split("/")]
    is_rendered = parts[-1].endswith(".jinja")
    path = check_path("/".join(parts).removesuffix(".jinja"))
    status = here.lstat()
    if stat.S_ISLNK(status.st_mode):
        target = check_link(path, os.readlink(here))  # noqa: PTH115  the exact text, unnormalised
        return path, SourceFile(Kind.LINK, os.fsencode(target), False)
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
        raise TemplateBroken(f"{printable(relative)} is no regular file or too large.")
    kind = Kind.EXECUTABLE if status.st_mode & 0o100 else Kind.FILE
    return path, SourceFile(kind, here.read_bytes(), is_rendered)
