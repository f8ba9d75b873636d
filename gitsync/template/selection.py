"""What a workspace is made of, and the files that follow from it.

Promise: `render(catalogue, selection)` is a pure function. Each file carries its owner
(`workspace`, `starter:ROLLOUT`, `skill:NAME`), so that a lock can tell later whose it was. Values
are checked before the first template is rendered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gitsync.errors import Conflict, InvalidInput
from gitsync.template.agents import TABLE_BEGIN, TABLE_END
from gitsync.template.catalogue import Catalogue, SourceFile
from gitsync.template.files import File, check_link, check_path
from gitsync.template.parameters import Value, as_text
from gitsync.template.render import render_text
from gitsync.text import printable
from gitsync.tree import Kind

SKILLS_ROOT = ".agents/skills"
LINKS_ROOT = ".claude/skills"
_ROLLOUT = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_RESERVED = re.compile(r"default|aux|con|nul|prn|com[0-9]|lpt[0-9]")


class SkillMode(StrEnum):
    """How Claude Code sees a skill: through a link, or as a copy where links cannot be used."""

    LINK = "link"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class StarterUse:
    """A starter under the name of the rollout it became."""

    starter: str
    rollout: str
    parameters: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SkillUse:
    """A skill and how it is shown to Claude Code."""

    name: str
    mode: SkillMode = SkillMode.LINK


@dataclass(frozen=True, slots=True)
class Selection:
    """The parts of the template that a workspace uses; `workspace` None: only starters, skills."""

    workspace: Mapping[str, Value] | None = None
    starters: tuple[StarterUse, ...] = ()
    skills: tuple[SkillUse, ...] = ()

    def with_starter(self, use: StarterUse) -> Selection:
        """This selection with `use` added or, under the same rollout name, replaced."""
        others = [s for s in self.starters if s.rollout != use.rollout]
        return replace(self, starters=tuple(sorted([*others, use], key=lambda s: s.rollout)))

    def with_skill(self, use: SkillUse) -> Selection:
        """This selection with `use` added or replaced."""
        others = [s for s in self.skills if s.name != use.name]
        return replace(self, skills=tuple(sorted([*others, use], key=lambda s: s.name)))

    def without_skill(self, name: str) -> Selection:
        """This selection without the skill."""
        return replace(self, skills=tuple(s for s in self.skills if s.name != name))


@dataclass(frozen=True, slots=True)
class Rendered:
    """A file that the template wants, and whose it is."""

    kind: Kind
    data: bytes
    owner: str
    is_shared: bool = False

    @property
    def file(self) -> File:
        """Mode and bytes."""
        return self.kind, self.data


def check_rollout_name(name: str) -> str:
    """`name` itself if a rollout may be called so, else `InvalidInput`."""
    if not _ROLLOUT.fullmatch(name) or len(name) > 60 or _RESERVED.fullmatch(name):
        raise InvalidInput(
            f"'{printable(name, limit=80)}' is no name for a rollout. Use a-z, 0-9 and '-', begin "
            "with a letter, do not end in '-', at most 60 characters; 'default' and Windows "
            "device names are reserved.",
            field="rollout",
        )
    return name


def use_starter(
    catalogue: Catalogue,
    name: str,
    parameters: Mapping[str, object] | None = None,
    *,
    rollout: str | None = None,
) -> StarterUse:
    """A checked `StarterUse`: known starter, good rollout name, complete parameters."""
    starter = catalogue.starter(name)
    checked = check_rollout_name(rollout if rollout is not None else starter.name)
    return StarterUse(name, checked, starter.parameters.resolve(parameters or {}))


def complete(catalogue: Catalogue, selection: Selection) -> Selection:
    """The same selection with every parameter in it, checked."""
    workspace = selection.workspace
    if workspace is not None:
        workspace = catalogue.parameters.resolve(workspace)
    starters = tuple(
        use_starter(catalogue, use.starter, use.parameters, rollout=use.rollout)
        for use in selection.starters
    )
    return Selection(workspace, starters, selection.skills)


def render(catalogue: Catalogue, selection: Selection) -> dict[str, Rendered]:
    """Every file of the selection by its path."""
    out: dict[str, Rendered] = {}
    if selection.workspace is not None:
        _add(out, _render_workspace(catalogue, selection))
    for use in selection.starters:
        _add(out, render_starter(catalogue, use))
    for skill in selection.skills:
        _add(out, render_skill(catalogue, skill))
    return dict(sorted(out.items()))


def _add(out: dict[str, Rendered], more: Mapping[str, Rendered]) -> None:
    for path, file in more.items():
        there = out.get(path)
        if there is not None and not (there.is_shared and file.is_shared):
            raise Conflict(f"'{path}' is wanted by {there.owner} and by {file.owner}.", path=path)
        if there is None:
            out[path] = file


def _render_file(path: str, source: SourceFile, context: Mapping[str, str]) -> File:
    if not source.is_rendered:
        return source.kind, source.data
    text = render_text(source.data.decode("utf-8"), context, name=path)
    return source.kind, text.encode("utf-8")


def _render_workspace(catalogue: Catalogue, selection: Selection) -> dict[str, Rendered]:
    values = catalogue.parameters.resolve(selection.workspace or {})
    context = {name: as_text(value) for name, value in values.items()}
    context["skills_table"] = skills_table(catalogue, [s.name for s in selection.skills])
    context["managed"] = json.dumps(list(catalogue.managed), indent=2).replace("\n", "\n  ")
    context["additive"] = json.dumps(list(catalogue.additive), indent=2).replace("\n", "\n  ")
    shared = {path for s in catalogue.starters.values() for path in s.shared}
    out = {}
    for path, source in catalogue.files.items():
        if path in shared or any(s.owns(path) for s in catalogue.starters.values()):
            continue
        kind, data = _render_file(path, source, context)
        out[path] = Rendered(kind, data, "workspace")
    return out


def render_starter(catalogue: Catalogue, use: StarterUse) -> dict[str, Rendered]:
    """The files of one starter at the paths of its rollout."""
    starter = catalogue.starter(use.starter)
    check_rollout_name(use.rollout)
    values = starter.parameters.resolve(use.parameters)
    context = {name: as_text(value) for name, value in values.items()}
    context |= {"rollout": use.rollout, "starter": starter.name}
    out = {}
    for path, source in catalogue.files.items():
        is_shared = path in starter.shared
        if not is_shared and not starter.owns(path):
            continue
        if not starter.wants(path, values):
            continue
        target = path if is_shared else check_path(starter.target(path, use.rollout))
        kind, data = _render_file(path, source, context)
        owner = "shared" if is_shared else f"starter:{use.rollout}"
        out[target] = Rendered(kind, data, owner, is_shared)
    return out


def render_skill(catalogue: Catalogue, use: SkillUse) -> dict[str, Rendered]:
    """The canonical folder of a skill, and its link or copy for Claude Code."""
    skill = catalogue.skill(use.name)
    owner = f"skill:{skill.name}"
    out = {}
    for path, source in skill.files.items():
        file = Rendered(source.kind, source.data, owner)
        out[check_path(f"{SKILLS_ROOT}/{skill.name}/{path}")] = file
        if use.mode is SkillMode.COPY:
            out[f"{LINKS_ROOT}/{skill.name}/{path}"] = file
    if use.mode is SkillMode.LINK:
        link = f"{LINKS_ROOT}/{skill.name}"
        text = check_link(link, f"../../{SKILLS_ROOT}/{skill.name}")
        out[link] = Rendered(Kind.LINK, text.encode(), owner)
    return out


def skills_table(catalogue: Catalogue, names: Sequence[str]) -> str:
    """The Markdown between the two markers of AGENTS.md, markers included."""
    rows = [f"| `{n}` | {s.use_when} |" for n, s in catalogue.skills.items() if n in names]
    if not rows:
        return "\n".join((TABLE_BEGIN, "No skill is installed.", TABLE_END))
    return "\n".join((TABLE_BEGIN, "| Skill | Use it when |", "| --- | --- |", *rows, TABLE_END))
