"""What can be asked of a workspace, as values: a checkout and a service plan from the same ones.

Promise: an operation is checked when it is made (`from_json` refuses what it does not know), keeps
its meaning as JSON, and `plan` depends on the tree, the catalogue and the blobs it may read only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from gitsync.errors import InvalidInput
from gitsync.template import select_workspace
from gitsync.template.catalogue import Catalogue
from gitsync.template.plan import Plan
from gitsync.template.selection import SkillMode, check_rollout_name, use_starter
from gitsync.template.skills import plan_install, plan_repair, plan_uninstall, plan_upgrade
from gitsync.template.starter import plan_starter, plan_workspace
from gitsync.template.threeway import OnConflict, ReadBlob
from gitsync.template.update import plan_update
from gitsync.tree import Tree


class _Said:
    """What all operations have: their JSON form."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """The operation's name and arguments as plain JSON values."""
        return {"name": _NAMES[type(self)], **asdict(self)}  # type: ignore[call-overload]

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        """From the arguments of `to_json`; lists become tuples."""
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in arguments.items()})

    def next_steps(self, catalogue: Catalogue, *, is_pushed: bool = False) -> tuple[str, ...]:
        """What a person does afterwards in a checkout; `is_pushed` if the commit is made."""
        return ()


@dataclass(frozen=True, slots=True)
class ApplyStarter(_Said):
    """Add a starter as a rollout."""

    starter: str
    rollout: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    force: bool = False

    def check(self, catalogue: Catalogue) -> None:
        """Refuse an unknown starter, a bad name or value before anything is read."""
        use_starter(catalogue, self.starter, self.parameters, rollout=self.rollout)

    def plan(self, tree: Tree, catalogue: Catalogue, read_blob: ReadBlob) -> Plan:
        """See `plan_starter`."""
        use = use_starter(catalogue, self.starter, self.parameters, rollout=self.rollout)
        return plan_starter(tree, catalogue, use, force=self.force)

    def next_steps(self, catalogue: Catalogue, *, is_pushed: bool = False) -> tuple[str, ...]:
        """Those of the starter, for this rollout."""
        starter = catalogue.starter(self.starter)
        steps = starter.at(starter.next_steps, self.rollout or starter.name)
        if is_pushed:
            return ("git pull", *(step for step in steps if not step.startswith("git ")))
        return steps


@dataclass(frozen=True, slots=True)
class UpdateTemplate(_Said):
    """Bring the files to the present template, or to other parameters."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    rollout: str | None = None
    restore: Sequence[str] = ()
    on_conflict: OnConflict = OnConflict.REPORT

    def check(self, catalogue: Catalogue) -> None:
        """A bad name is refused; the rest depends on the lock."""
        if self.rollout is not None:
            check_rollout_name(self.rollout)

    def plan(self, tree: Tree, catalogue: Catalogue, read_blob: ReadBlob) -> Plan:
        """See `plan_update`."""
        return plan_update(
            tree,
            catalogue,
            parameters=self.parameters,
            rollout=self.rollout,
            restore=self.restore,
            on_conflict=OnConflict(self.on_conflict),
            read_blob=read_blob,
        )


@dataclass(frozen=True, slots=True)
class Adopt(_Said):
    """Add what an existing repository lacks of a workspace; `skills` None: the standard ones."""

    skills: Sequence[str] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def check(self, catalogue: Catalogue) -> None:
        """Refuse unknown skills and parameters."""
        select_workspace(catalogue, (), self.skills, self.parameters)

    def plan(self, tree: Tree, catalogue: Catalogue, read_blob: ReadBlob) -> Plan:
        """See `plan_workspace`."""
        selection = select_workspace(catalogue, (), self.skills, self.parameters)
        return plan_workspace(tree, catalogue, selection)


@dataclass(frozen=True, slots=True)
class InstallSkills(_Said):
    """Add skills."""

    skills: Sequence[str]
    mode: SkillMode = SkillMode.LINK

    def check(self, catalogue: Catalogue) -> None:
        """Refuse unknown skills."""
        _some(self.skills)
        for name in self.skills:
            catalogue.skill(name)

    def plan(self, tree: Tree, catalogue: Catalogue, read_blob: ReadBlob) -> Plan:
        """See `plan_install`."""
        mode = SkillMode(self.mode)
        return plan_install(tree, catalogue, self.skills, mode=mode, read_blob=read_blob)


@dataclass(frozen=True, slots=True)
class UpgradeSkills(_Said):
    """Bring installed skills, all if none is named, to the present version."""

    skills: Sequence[str] = ()
    on_conflict: OnConflict = OnConflict.REPORT

    def check(self, catalogue: Catalogue) -> None:
        """What is installed shows only in the lock."""

    def plan(self, tree: Tree, catalogue: Catalogue, read_blob: ReadBlob) -> Plan:
        """See `plan_upgrade`."""
        return plan_upgrade(
            tree,
            catalogue,
            self.skills,
            on_conflict=OnConflict(self.on_conflict),
            read_blob=read_blob,
        )


@dataclass(frozen=True, slots=True)
class UninstallSkills(_Said):
    """Remove skills that gitsync installed."""

    skills: Sequence[str]
    force: bool = False

    def check(self, catalogue: Catalogue) -> None:
        """What is installed shows only in the lock."""
        _some(self.skills)

    def plan(self, tree: Tree, catalogue: Catalogue, read_blob: ReadBlob) -> Plan:
        """See `plan_uninstall`."""
        return plan_uninstall(tree, catalogue, self.skills, force=self.force, read_blob=read_blob)


@dataclass(frozen=True, slots=True)
class RepairSkills(_Said):
    """Mend links and missing files; `mode` switches all skills to copies or to links."""

    mode: SkillMode | None = None
    force: bool = False

    def check(self, catalogue: Catalogue) -> None:
        """Nothing can be wrong before the tree is read."""

    def plan(self, tree: Tree, catalogue: Catalogue, read_blob: ReadBlob) -> Plan:
        """See `plan_repair`."""
        mode = None if self.mode is None else SkillMode(self.mode)
        return plan_repair(tree, catalogue, mode=mode, force=self.force)


type Operation = (
    ApplyStarter
    | UpdateTemplate
    | Adopt
    | InstallSkills
    | UpgradeSkills
    | UninstallSkills
    | RepairSkills
)

_KINDS: Mapping[str, Callable[[Mapping[str, Any]], Operation]] = {
    "apply": ApplyStarter.read,
    "update": UpdateTemplate.read,
    "adopt": Adopt.read,
    "install": InstallSkills.read,
    "upgrade": UpgradeSkills.read,
    "uninstall": UninstallSkills.read,
    "repair": RepairSkills.read,
}
_NAMES: Mapping[type, str] = {
    ApplyStarter: "apply",
    UpdateTemplate: "update",
    Adopt: "adopt",
    InstallSkills: "install",
    UpgradeSkills: "upgrade",
    UninstallSkills: "uninstall",
    RepairSkills: "repair",
}


def from_json(data: Mapping[str, Any]) -> Operation:
    """The inverse of `to_json`."""
    arguments = dict(data)
    read = _KINDS.get(str(arguments.pop("name", "")))
    if read is None:
        raise InvalidInput("There is no such operation.", field="operation")
    try:
        return read(arguments)
    except TypeError as e:
        raise InvalidInput("The operation's arguments are not understood.") from e


def _some(names: Sequence[str]) -> None:
    if not names:
        raise InvalidInput("Name at least one skill.", field="skills")
