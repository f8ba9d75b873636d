"""What the SDK and the standard library define, read from `facts.json`.

The data is written by `tests/check/generate_facts.py` from really imported modules; nothing of
them is imported here.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

from gitsync.check import aging

WORKFLOW = "osmosis_ai.rollout.agent_workflow.AgentWorkflow"
GRADER = "osmosis_ai.rollout.grader.Grader"
BASES = {"workflow": WORKFLOW, "grader": GRADER}
METHODS = {"workflow": "run", "grader": "grade"}
CLASS_NAMES = {"workflow": "AgentWorkflow", "grader": "Grader"}
LOCAL_BACKEND = "osmosis_ai.rollout.backend.local.backend.LocalBackend"
HARBOR_BACKEND = "osmosis_ai.rollout.backend.harbor.backend.HarborBackend"
CREATE_SERVER = "osmosis_ai.rollout.server.app.create_rollout_server"

# Arguments that the SDK's own calls cannot do without; all of theirs are keywords.
REQUIRED_ARGUMENTS = {
    LOCAL_BACKEND: ("workflow",),
    HARBOR_BACKEND: ("orchestrator", "tasks_dir"),
    CREATE_SERVER: ("backend",),
}
# Fields that the SDK's config classes cannot do without.
MODEL_FIELDS: dict[str, dict[str, type]] = {
    "osmosis_ai.rollout.types.config.BaseConfig": {"name": str},
    "osmosis_ai.rollout.types.config.AgentWorkflowConfig": {"name": str},
    "osmosis_ai.rollout.types.config.GraderConfig": {"name": str},
    "osmosis_ai.rollout.types.config.ConcurrencyConfig": {},
}
# Their fields that have a default, as they are annotated.
OPTIONAL_FIELDS: dict[str, dict[str, str]] = {
    "osmosis_ai.rollout.types.config.BaseConfig": {"description": "str | None"},
    "osmosis_ai.rollout.types.config.AgentWorkflowConfig": {"concurrency": "ConcurrencyConfig"},
    "osmosis_ai.rollout.types.config.GraderConfig": {"concurrency": "ConcurrencyConfig"},
    "osmosis_ai.rollout.types.config.ConcurrencyConfig": {"max_concurrent": "int | None"},
}
EXTRA_OF_PREFIX = (
    ("osmosis_ai.rollout.server", "server"),
    ("osmosis_ai.rollout.integrations.agents.strands", "strands"),
    ("osmosis_ai.rollout.integrations.agents.openai_agents", "openai-agents"),
    ("osmosis_ai.rollout.backend.harbor", "harbor"),
)


@dataclass(frozen=True, slots=True)
class ClassFacts:
    """A class outside the repository: its MRO without itself, its metaclass's MRO."""

    lineage: tuple[str, ...]
    metaclass: tuple[str, ...]
    abstract: tuple[str, ...]


_NO_CLASS = ClassFacts((), (), ())
_PYDANTIC_META = ("pydantic.ModelMetaclass", "abc.ABCMeta", "builtins.type")


class Facts:
    """Look-ups over the data file."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.modules: dict[str, dict[str, Any]] = data["modules"]
        self.stdlib = frozenset(data["stdlib"])
        self.compiled = frozenset(data["compiled"])
        self.builtins: dict[str, str] = data["builtins"]
        self.loaded = frozenset(data["loaded"])
        self.loaded_by_cli = frozenset(data["loaded_by_cli"]) - self.loaded
        self.dependencies: dict[str, list[str]] = data["dependencies"]
        self.native = frozenset(data["native"])
        self.signatures: dict[str, list[str]] = data["signatures"]
        self.requires: list[str] = data["requires"]
        self._classes: dict[str, dict[str, list[str]]] = data["classes"]
        self._exports: dict[str, str] = {}
        children: dict[str, list[str]] = {}
        for name in self.modules:
            parent, _, child = name.rpartition(".")
            if parent:
                children.setdefault(parent, []).append(child)
        self.children = {k: frozenset(v) for k, v in children.items()}

    def class_facts(self, path: str) -> ClassFacts:
        """The class at a canonical path; an unknown one is taken for a plain class."""
        if path in ("pydantic.BaseModel", "pydantic.main.BaseModel", "pydantic.RootModel"):
            return ClassFacts((), _PYDANTIC_META, ())
        found = self._classes.get(path)
        if found is None:
            return _NO_CLASS
        return ClassFacts(
            tuple(p for p in found.get("mro", ()) if p != "builtins.object"),
            tuple(found.get("meta", ())),
            tuple(found.get("abstract", ())),
        )

    def is_class(self, path: str) -> bool:
        """True if the path is certainly a class."""
        module, _, name = path.rpartition(".")
        kind = self.builtins.get(name) if module == "builtins" else None
        if kind is None:
            kind = self.modules.get(module, {}).get("names", {}).get(name)
        return path in self._classes or (kind is not None and kind.startswith("c:"))

    def export(self, module: str, name: str) -> tuple[str, str] | None:
        """(kind, canonical path) of a name in a known module; None if it has no such name."""
        kind: str | None = self.modules[module]["names"].get(name)
        if kind is None:
            return None
        path = kind[2:] if len(kind) > 2 else f"{module}.{name}"
        return kind[0], path


@functools.cache
def brought_by() -> dict[str, list[str]]:
    """Import name -> distributions, where they are not the same after normalising."""
    return dict(aging.rules("distributions")["brought_by"])


@functools.cache
def brings(distribution: str) -> frozenset[str]:
    """Top-level names of those modules that a distribution brings."""
    return frozenset(n for n, by in brought_by().items() if distribution in by and "." not in n)


@functools.cache
def facts() -> Facts:
    """The data file, read once per process."""
    text = resources.files(__package__).joinpath("facts.json").read_bytes()
    return Facts(json.loads(text))
