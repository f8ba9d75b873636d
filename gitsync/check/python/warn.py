"""The warnings, and the errors about backends: everything that is not the count itself."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from gitsync.check.python import dependencies, habits, reach, serving, wiring
from gitsync.check.python.contracts import breaches
from gitsync.check.python.facts import (
    BASES,
    HARBOR_BACKEND,
    facts,
)
from gitsync.check.python.heap import ClassObj
from gitsync.check.python.imports import Importer
from gitsync.check.python.machine import Machine
from gitsync.check.python.needed import needed_imports
from gitsync.check.python.project import Project
from gitsync.check.python.roles import Agreed, World
from gitsync.check.python.seen import BackendCall
from gitsync.check.python.source import LimitHit
from gitsync.check.python.state import State
from gitsync.check.python.values import NONE, Const, Opaque, Place, Ref, Value
from gitsync.check.python.wiring import WORDS, Wiring
from gitsync.check.python.worlds import Raised
from gitsync.model import Severity

if TYPE_CHECKING:
    from gitsync.check.python.check import Check


@dataclass(slots=True)
class Context:
    """All that the warnings look at."""

    check: Check
    machine: Machine
    importer: Importer
    worlds: list[World]
    oid: int
    path: str
    project: Project
    loaded: list[str]

    @property
    def finished(self) -> list[World]:
        """The worlds whose import succeeds."""
        return [w for w in self.worlds if w.raised is None]


def wiring_of(context: Context) -> Wiring:
    """Run the server code speculatively; a limit there is no reason to give up."""
    if context.oid < 0 or not context.finished:
        return Wiring()
    try:
        return wiring.explore(
            context.machine, context.worlds, context.oid, context.path, context.loaded
        )
    except LimitHit:
        return Wiring(calls=list(context.machine.seen.backends))


def defined_at(world: World, value: Value, place: Place) -> str:
    """`file.py:12`, where a class is defined."""
    obj = world.state.heap.get(value.oid) if isinstance(value, Ref) else None
    at = obj.place if isinstance(obj, ClassObj) else place
    parts = at.path.split("/")
    return f"{'/'.join(parts[2:]) if len(parts) > 2 else at.path}:{at.line}"


def harbor(context: Context, found: Wiring, agreed: dict[str, Agreed]) -> set[str]:
    """Warn about Harbor without own classes; the codes that the option waives."""
    waived: set[str] = set()
    for call in _distinct(found.calls):
        if call.path != HARBOR_BACKEND:
            continue
        agent = call.arguments.get("agent")
        grader = call.arguments.get("grader")
        native = (
            agent is not None and isinstance(agent[0], Const) and agent[0].value in facts().native
        )
        reward = call.complete and (grader is None or grader[0] == NONE)
        if native and agent is not None:
            context.check.add(
                "harbor-native",
                Severity.WARNING,
                agent[1],
                str(getattr(agent[0], "value", "")),
                f"The Harbor backend runs its own agent {getattr(agent[0], 'value', '')!r}; the "
                "rollout needs an AgentWorkflow class",
                "Write a workflow class, or allow native agents with accept_harbor_native",
            )
            if context.check.options.accept_harbor_native:
                waived.add("no-workflow")
                if reward:
                    waived.add("no-grader")
        if reward and agreed["grader"].text in ("no", "abstract"):
            place = grader[1] if grader is not None else call.place
            context.check.add(
                "harbor-native",
                Severity.WARNING,
                place,
                "grader",
                "The Harbor backend takes the task's own tests as reward; the rollout needs a "
                "Grader class",
                "Write a grader class, or allow native agents with accept_harbor_native",
            )
            if context.check.options.accept_harbor_native:
                waived.add("no-grader")
    return waived


def _distinct(calls: list[BackendCall]) -> list[BackendCall]:
    seen: set[Place] = set()
    out: list[BackendCall] = []
    for call in calls:
        if call.place not in seen:
            seen.add(call.place)
            out.append(call)
    return out


def declared_fits(context: Context, role: str, declared: str) -> bool:
    """True if a class named in `pyproject.toml` may be the one, and is one that may be exposed.

    Only the doubt which class it is can be waived, not whether the import succeeds.
    """
    if not context.finished or len(context.finished) < len(context.worlds):
        return False
    for world in context.finished:
        exposed = world.roles[role]
        others = [shown for _, shown, _, _ in exposed.concrete if shown != declared]
        if others and (exposed.doubt is not None or len(exposed.concrete) > 1):
            return False  # it would be one more
        if any(shown == declared for _, shown, _ in exposed.abstract):
            return False
    possible = [
        {c[1] for c in w.roles[role].concrete} for w in context.finished if not w.roles[role].doubt
    ]
    if possible and not any(declared in names for names in possible):
        return False
    m = context.machine
    found = wiring.look_up(m, context.finished[0].state, context.oid, context.path, declared)
    return bool(found) and all(_may_be(m, *each, role, declared) for each in found)


def _may_be(m: Machine, state: State, value: Value | Raised, role: str, declared: str) -> bool:
    """True for a concrete class of the role that keeps its contracts; for what is not known too."""
    if isinstance(value, Raised):
        return value.implicit
    obj = state.heap.get(value.oid) if isinstance(value, Ref) else None
    if not isinstance(obj, ClassObj):
        return isinstance(value, Opaque) and value.third
    fits = obj.shown == declared and obj.doubt is None and not obj.abstract
    if not fits or not reach.is_subclass(state, value, BASES[role]):
        return False
    try:
        return all(b.code == "unverified-method" for b in breaches(m, state, value, role))
    except LimitHit:
        return False


def everything(context: Context, found: Wiring, names: dict[str, str | None]) -> None:
    """All warnings."""
    _backends(context, found, names)
    _imports(context)
    _server(context, found)
    for role in BASES:
        if names[role] is None:
            continue
        for world in context.finished[:2]:
            concrete = world.roles[role].concrete
            if len(concrete) != 1 or not isinstance(concrete[0][0], Ref):
                continue
            habits.exposed_class(context, world, concrete[0][0], role)


# -- backends --------------------------------------------------------------------------------


def _backends(context: Context, found: Wiring, names: dict[str, str | None]) -> None:
    places: dict[tuple[Place, str], list[tuple[BackendCall, Value | None]]] = {}
    for call in found.calls:
        for word in WORDS.get(call.path, {}):
            argument = call.arguments.get(word)
            if argument is None and not call.complete:
                continue
            value = argument[0] if argument is not None else None
            place = argument[1] if argument is not None else call.place
            places.setdefault((place, word), []).append((call, value))
        if call.path == HARBOR_BACKEND:
            for word in wiring.REMOVED:
                if word in call.arguments:
                    _removed_argument(context, call, word)
    for (place, word), uses in places.items():
        role = WORDS[uses[0][0].path][word]
        _argument(context, place, word, role, uses, names)


def _removed_argument(context: Context, call: BackendCall, word: str) -> None:
    context.check.add(
        "removed-api",
        Severity.WARNING,
        call.arguments[word][1],
        word,
        f"HarborBackend no longer takes {word}=",
        "Use tasks_dir, code_dir and agent instead",
    )


def _argument(
    context: Context,
    place: Place,
    word: str,
    role: str,
    uses: list[tuple[BackendCall, Value | None]],
    names: dict[str, str | None],
) -> None:
    check = context.check
    exposed = names[role]
    verdicts: list[str] = []
    shown = ""
    for call, value in uses:
        if value == Const("") and word == "grader":
            value = NONE  # the backends ask whether there is one
        if isinstance(value, Const) and isinstance(value.value, str):
            text = value.value
            if call.path == HARBOR_BACKEND and word == "agent" and text in facts().native:
                verdicts.append("native")
                continue
            if ":" not in text:
                _broken(context, place, text, f"{text!r} names no module and class")
                return
            broken, reason, cls = wiring.resolve_string(
                context.machine, context.finished[0].state, context.oid, context.path, text
            )
            if broken:
                _broken(context, place, text, reason)
                return
            shown = text
            verdicts.append("other" if cls is not None and exposed and cls != exposed else "fine")
        elif value is None or value == NONE:
            verdicts.append("missing")
        elif isinstance(value, Ref) and isinstance(call.state.heap.get(value.oid), ClassObj):
            cls_obj = cast(ClassObj, call.state.heap[value.oid])
            shown = cls_obj.shown
            verdicts.append("fine" if shown == exposed else "other")
        else:
            verdicts.append("fine")
    if exposed is None or not verdicts:
        return
    if all(v == "other" for v in verdicts):
        check.add(
            "backend-mismatch",
            Severity.WARNING,
            place,
            shown,
            f"The backend is given {shown} as {word}, the entrypoint exposes {exposed}",
            "Give the backend the exposed class",
        )
    elif all(v == "missing" for v in verdicts):
        check.add(
            "backend-mismatch",
            Severity.WARNING,
            place,
            word,
            f"The backend is given no {word}, the entrypoint exposes {exposed}",
            f"Pass {word}={exposed.rpartition(':')[2]}",
        )


def _broken(context: Context, place: Place, text: str, reason: str) -> None:
    context.check.add(
        "bad-component-reference",
        Severity.ERROR,
        place,
        text,
        f"The backend cannot load {text!r}: {reason}",
        "Pass the class itself, or correct module:Class",
    )


# -- imports and the server ------------------------------------------------------------------


def _imports(context: Context) -> None:
    for needed in dependencies.undeclared(context.project, context.importer, context.loaded):
        if needed.extra is not None:
            what = f"{needed.name} needs the extra {needed.extra} of osmosis-ai"
            fix = f"Require osmosis-ai[{needed.extra}] in the rollout's pyproject.toml"
        else:
            what = f"The package {needed.name} is imported but not declared"
            fix = "Add it to the dependencies in the rollout's pyproject.toml"
        context.check.add(
            "undeclared-dependency", Severity.WARNING, needed.place, needed.name, what, fix
        )
    for node in needed_imports(context.machine.sources.parse(context.path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            context.check.add(
                "relative-import-entrypoint",
                Severity.WARNING,
                Place(context.path, node.lineno, node.col_offset + 1),
                "." * node.level + (node.module or ""),
                "The entrypoint uses a relative import, which fails when the file runs as a script",
                "Import by the full name from the rollout folder",
            )
            break


def _server(context: Context, found: Wiring) -> None:
    for place in context.machine.seen.started:
        context.check.add(
            "server-started-at-import",
            Severity.WARNING,
            place,
            "",
            "Importing the entrypoint starts a server and never ends",
            'Start it under if __name__ == "__main__"',
        )
    if found.server or serving.mentions_server(
        [context.machine.sources.parse(p) for p in context.loaded]
    ):
        return
    context.check.add(
        "no-server-wiring",
        Severity.WARNING,
        Place(context.path, 1, 1),
        "",
        f"Nothing in {context.path} or the modules it loads calls create_rollout_server",
        "Build a backend and pass it to create_rollout_server",
    )
