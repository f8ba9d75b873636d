"""The owner of templates and skills: jinja2 and tomlkit live here.

Everything is a pure function over values and `Tree`s; the one exception, `journal`, writes planned
changes into a local checkout. Nothing here knows Git, the checker or a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gitsync.errors import InvalidInput
from gitsync.template.catalogue import Catalogue, builtin
from gitsync.template.files import EmptyTree, Files
from gitsync.template.selection import (
    Selection,
    SkillUse,
    render_starter,
    use_starter,
)
from gitsync.template.starter import plan_workspace
from gitsync.text import printable

__all__ = ["select_workspace", "starter_files", "workspace_files"]


def starter_files(name: str, parameters: Mapping[str, object] | None = None) -> Files:
    """The files of one starter under its own name: rollout, two configs, shared data."""
    catalogue = builtin()
    rendered = render_starter(catalogue, use_starter(catalogue, name, parameters))
    return {path: file.file for path, file in rendered.items()}


def select_workspace(
    catalogue: Catalogue,
    starters: Sequence[str],
    skills: Sequence[str] | None,
    parameters: Mapping[str, object] | None = None,
) -> Selection:
    """A whole workspace; `skills` None means the default ones.

    Each parameter goes to the workspace or to those of the chosen starters that declare it.
    """
    given = dict(parameters or {})
    own = {p.name for p in catalogue.parameters.items}
    chosen = [catalogue.starter(name) for name in starters]
    declared = own | {p.name for s in chosen for p in s.parameters.items}
    for name in given:
        if name not in declared:
            shown = printable(name, limit=80)
            raise InvalidInput(
                f"There is no parameter '{shown}'. Known: {', '.join(sorted(declared))}.",
                field=f"parameters.{shown}",
            )
    workspace = catalogue.parameters.resolve(
        {name: value for name, value in given.items() if name in own}
    )
    selection = Selection(workspace=workspace)
    for starter in chosen:
        names = {p.name for p in starter.parameters.items}
        values = {name: value for name, value in given.items() if name in names}
        selection = selection.with_starter(use_starter(catalogue, starter.name, values))
    for skill in catalogue.default_skills if skills is None else skills:
        selection = selection.with_skill(SkillUse(catalogue.skill(skill).name))
    return selection


def workspace_files(
    starters: Sequence[str],
    skills: Sequence[str] | None = None,
    parameters: Mapping[str, object] | None = None,
) -> Files:
    """A whole workspace with these starters and skills (None: the default ones), and its lock."""
    catalogue = builtin()
    selection = select_workspace(catalogue, starters, skills, parameters)
    plan = plan_workspace(EmptyTree(), catalogue, selection)
    return {path: (kind, data) for path, (kind, data) in plan.changes.items() if data is not None}
