"""What the entrypoint exposes: the two roles, world by world, then what all worlds agree on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from gitsync.check.python import classes, reach
from gitsync.check.python.facts import BASES, METHODS
from gitsync.check.python.heap import ClassObj, ModuleObj, Namespace
from gitsync.check.python.machine import Machine
from gitsync.check.python.state import State, parting
from gitsync.check.python.values import UNBOUND, Ext, Opaque, Place, Ref, Union, Unknown, Value
from gitsync.check.python.worlds import REGISTRY, Kind, Outcome, Raised


@dataclass(slots=True)
class Exposed:
    """What one role looks like in one world."""

    concrete: list[tuple[Value, str, str, Place]] = field(default_factory=list)
    abstract: list[tuple[Value, str, Place]] = field(default_factory=list)
    doubt: Unknown | None = None

    @property
    def answer(self) -> tuple[str, str]:
        """`one` and the class, `fail` and the code, or `doubt`."""
        if len(self.concrete) > 1:
            return "fail", "multiple"
        if self.doubt is not None:
            return "doubt", ""
        if len(self.concrete) == 1:
            return "one", self.concrete[0][1]
        return ("fail", "abstract") if self.abstract else ("fail", "no")


@dataclass(slots=True)
class World:
    """One possible import, finished."""

    state: State
    raised: Raised | None
    roles: dict[str, Exposed]


def examine(m: Machine, outcomes: list[Outcome], oid: int, path: str) -> list[World]:
    """The worlds in which the import may end; implicit failures are left out."""
    worlds: list[World] = []
    for outcome in outcomes:
        if outcome.kind is Kind.RAISE:
            if outcome.raised is not None and not outcome.raised.implicit:
                worlds.append(World(outcome.state, outcome.raised, {}))
            continue
        for state, found in m.branches(outcome.state, lambda: _settled(m, oid)):
            if not isinstance(found, Raised):
                worlds.append(World(state, None, {}))
    return worlds


def assign_roles(m: Machine, worlds: list[World], oid: int, path: str) -> None:
    """Work out both roles in every world whose import succeeds."""
    for world in worlds:
        if world.raised is None:
            world.roles = _roles(m, world.state, oid, path)


def _settled(m: Machine, oid: int) -> bool:
    """Decide every union in the namespace that could matter."""
    for name, value in list(m.space(oid).values.items()):
        if not isinstance(value, Union):
            continue
        harmful = any(o != UNBOUND and reach.touches(m.state, o) for o in value.options)
        third = any(isinstance(o, Opaque) and o.third for o in value.options)
        if harmful or third:
            place = value.place or m.at
            picked = value.options[m.choose(len(value.options), place, name)]
            target = cast(Namespace, m.state.change(oid))
            if picked == UNBOUND:
                target.values.pop(name)
            else:
                target.values[name] = picked
    return True


def _roles(m: Machine, state: State, oid: int, path: str) -> dict[str, Exposed]:
    m.state = state
    module = cast(ModuleObj, state.heap[oid])
    found = {role: Exposed() for role in BASES}
    doubt: Unknown | None = module.taint or m.overflow_doubt()
    registry = m.space(REGISTRY).values.get("doubt")
    if isinstance(registry, Unknown):
        doubt = doubt or registry
    third_bases: list[Unknown] = []
    suspects = suspicious(m)
    seen: set[Value] = set()
    for name, value in module.values.items():
        if name.startswith("\0"):
            continue
        place = module.places.get(name, Place(path, 1, 1))
        if isinstance(value, Unknown):
            doubt = doubt or value
            continue
        if isinstance(value, Opaque) and value.third:
            reason = suspects.get(value.path)
            if reason is not None and reason[1]:
                doubt = doubt or reason[0]
            elif reason is not None:
                third_bases.append(reason[0])
            continue
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, Ref):
            obj = state.heap.get(value.oid)
            if isinstance(obj, ClassObj):
                if obj.doubt is not None:
                    doubt = doubt or obj.doubt
                    continue
                if obj.third_base is not None:
                    cause = Unknown(
                        obj.third_base, f"a base of {obj.name} is of a package that is not here"
                    )
                    if _defines(m, value):
                        doubt = doubt or cause
                        continue
                    third_bases.append(cause)
                _sort_in(state, found, value, obj, name, place)
        elif isinstance(value, Ext) and value.kind == "c":
            _sort_external(m, found, value, name, place)
    for exposed in found.values():
        exposed.doubt = doubt
        if doubt is None and not exposed.concrete and third_bases:
            exposed.doubt = third_bases[0]
    return found


def suspicious(m: Machine) -> dict[str, tuple[Unknown, bool]]:
    """Third-party names that are bases; True if the class defines `run` or `grade`.

    Also those handed to a backend.
    """
    out: dict[str, tuple[Unknown, bool]] = {}
    for oid, obj in list(m.state.heap.items()):
        if not isinstance(obj, ClassObj) or obj.third_base is None:
            continue
        strong = _defines(m, Ref(oid))
        cause = Unknown(obj.third_base, f"a base of {obj.name} is of a package that is not here")
        for part in obj.mro:
            if isinstance(part, Opaque) and (strong or part.path not in out):
                out[part.path] = (cause, strong)
    for call in m.seen.backends:
        for word in ("workflow", "agent", "grader"):
            value = call.arguments.get(word)
            if value is not None and isinstance(value[0], Opaque) and value[0].third:
                cause = Unknown(
                    value[1], "a backend is given a class of a package that is not here"
                )
                out[value[0].path] = (cause, True)
    return out


def _defines(m: Machine, ref: Ref) -> bool:
    return any(classes.class_attribute(m, ref, name) is not None for name in METHODS.values())


def _sort_in(
    state: State,
    found: dict[str, Exposed],
    value: Ref,
    obj: ClassObj,
    name: str,
    place: Place,
) -> None:
    for role, base in BASES.items():
        if not reach.is_subclass(state, value, base):
            continue
        if obj.abstract:
            found[role].abstract.append((value, obj.shown, obj.place))
        else:
            found[role].concrete.append((value, obj.shown, name, place))


def _sort_external(
    m: Machine, found: dict[str, Exposed], value: Ext, name: str, place: Place
) -> None:
    """A class of the SDK itself: its bases do not count, a concrete subclass would."""
    for role, base in BASES.items():
        if value.path == base or not reach.is_subclass(m.state, value, base):
            continue
        module, _, qualname = value.path.rpartition(".")
        if not m.facts.class_facts(value.path).abstract:
            found[role].concrete.append((value, f"{module}:{qualname}", name, place))


_MAKE_SURE = "Check the condition in a function that the server calls, not while importing"


@dataclass(slots=True)
class Agreed:
    """What all worlds say of a role."""

    kind: str  # one, fail, doubt
    text: str = ""
    place: Place | None = None
    reason: str = ""
    fix: str = "Import one class by name"


def agree(worlds: list[World], role: str) -> Agreed:
    """The common answer of all worlds, or the place that divides them."""
    answers: list[tuple[str, str]] = []
    for world in worlds:
        answers.append(("fail", "import") if world.raised else world.roles[role].answer)
    first = answers[0]
    for world, answer in zip(worlds, answers, strict=True):
        registry = world.state.heap.get(REGISTRY)
        if world.raised is not None and isinstance(registry, Namespace):
            cause = registry.values.get("doubt")
            if isinstance(cause, Unknown):
                return Agreed("doubt", "", cause.place, cause.reason)
        if answer[0] == "doubt" and world.roles:
            doubt = world.roles[role].doubt
            if doubt is not None:
                return Agreed("doubt", "", doubt.place, doubt.reason)
    if all(answer == first for answer in answers):
        return Agreed(*first)
    for index, answer in enumerate(answers):
        if answer != first:
            choice = parting(worlds[0].state.path, worlds[index].state.path)
            if choice is not None:
                raised = worlds[0].raised or worlds[index].raised
                if raised is not None:
                    return Agreed("doubt", "", choice[0], _may_fail(raised), _MAKE_SURE)
                reason = f"{choice[2] or 'a condition'} decides it"
                return Agreed("doubt", "", choice[0], reason)
    return Agreed("doubt", "", _differing(worlds, role), "the possible imports differ")


def _may_fail(raised: Raised) -> str:
    """Why an import that fails under a condition is no answer."""
    where = f" at {raised.place.path.rpartition('/')[2]}:{raised.place.line}"
    shown = where if raised.place.path else ""
    return f"a condition decides whether the import fails{shown} ({raised.reason})"


def _differing(worlds: list[World], role: str) -> Place | None:
    """Where a class is bound that only some worlds have."""
    bound = [{(c[1], c[3]) for c in w.roles[role].concrete} if w.roles else set() for w in worlds]
    everywhere = set.intersection(*bound)
    some = sorted((p.path, p.line, p.column) for b in bound for _, p in b - everywhere)
    return Place(*some[0]) if some else None
