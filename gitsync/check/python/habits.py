"""Warnings about the exposed classes: removed API, missing rewards, policy calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, cast

from gitsync.check.python import classes, policy, warn
from gitsync.check.python.facts import (
    METHODS,
)
from gitsync.check.python.heap import ClassObj, FunctionObj, ModuleObj
from gitsync.check.python.roles import World
from gitsync.check.python.source import LimitHit
from gitsync.check.python.values import Place, Ref, Wrapped
from gitsync.model import Severity

if TYPE_CHECKING:
    pass


def _methods(world: World, cls: Ref) -> list[FunctionObj]:
    """The functions in the class and its local bases."""
    obj = cast(ClassObj, world.state.heap[cls.oid])
    out: list[FunctionObj] = []
    for part in (cls, *obj.mro):
        other = world.state.heap.get(part.oid) if isinstance(part, Ref) else None
        if not isinstance(other, ClassObj):
            continue
        for value in other.values.values():
            while isinstance(value, Wrapped):
                value = value.function
            function = world.state.heap.get(value.oid) if isinstance(value, Ref) else None
            if isinstance(function, FunctionObj):
                out.append(function)
    return out


def removed(context: warn.Context, world: World, cls: Ref, role: str) -> None:
    """Warn about API that the SDK no longer has."""
    calls_only = {"get_samples", "set_sample_reward"}
    for function in _methods(world, cls):
        args = function.node.args
        parameters = {a.arg for a in (*args.posonlyargs, *args.args)[1:]} | {"ctx", "context"}
        for node in ast.walk(function.node):
            name = ""
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                known = node.value.id in parameters
                if known and node.attr in {"samples", *calls_only}:
                    name = f"{node.value.id}.{node.attr}"
                elif node.attr == "register_sample_source":
                    name = node.attr
            elif isinstance(node, ast.Attribute) and node.attr == "register_sample_source":
                name = node.attr
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "register_sample_source"
            ):
                name = node.func.id
            if name:
                context.check.add(
                    "removed-api",
                    Severity.WARNING,
                    Place(function.path, node.lineno, node.col_offset + 1),  # type: ignore[attr-defined]
                    name,
                    f"{name} is no longer there in SDK 0.3.8",
                    "Use ctx.sample, ctx.set_reward() and set_sample_source()",
                )


def reward(context: warn.Context, world: World, cls: Ref) -> None:
    """Warn about a grader that never sets a reward."""
    machine = context.machine
    machine.state = world.state
    for _, found in machine.branches(
        world.state, lambda: classes.find_in_mro(machine, cls, METHODS["grader"])
    ):
        if not isinstance(found, tuple):
            return
        value = found[1]
        while isinstance(value, Wrapped):
            value = value.function
        function = world.state.heap.get(value.oid) if isinstance(value, Ref) else None
        if not isinstance(function, FunctionObj):
            return
        if not _sets_reward(world, function, cls):
            context.check.add(
                "reward-never-set",
                Severity.WARNING,
                Place(function.path, function.node.lineno, function.node.col_offset + 1),
                function.qualname,
                f"No path of {function.qualname} calls ctx.set_reward",
                "Set the reward before the method returns",
            )
        return


def _sets_reward(world: World, start: FunctionObj, cls: Ref) -> bool:
    """True if the name `set_reward` stands in the function or in code it may reach."""
    pending = [start]
    seen: set[int] = set()
    methods: dict[str, list[FunctionObj]] = {}
    for method in _methods(world, cls):
        methods.setdefault(method.name, []).append(method)
    while pending and len(seen) < 200:
        function = pending.pop()
        if id(function.node) in seen:
            continue
        seen.add(id(function.node))
        names: set[str] = set()
        for node in ast.walk(function.node):
            if isinstance(node, ast.Attribute):
                if node.attr == "set_reward":
                    return True
                names.add(node.attr)
            elif isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(node, ast.Constant) and node.value == "set_reward":
                return True
        spaces = [world.state.heap.get(oid) for oid in (*function.closure, function.module)]
        for name in names:
            if name in methods:  # through `super()` the overridden ones are reached too
                pending += methods[name] if "super" in names else methods[name][:1]
            for space in spaces:
                value = getattr(space, "values", {}).get(name)
                target = world.state.heap.get(value.oid) if isinstance(value, Ref) else None
                if isinstance(target, FunctionObj):
                    pending.append(target)
                elif isinstance(target, ModuleObj):
                    for other in target.values.values():
                        reached = (
                            world.state.heap.get(other.oid) if isinstance(other, Ref) else None
                        )
                        if isinstance(reached, FunctionObj) and reached.name in names:
                            pending.append(reached)
                elif isinstance(target, ClassObj) and isinstance(value, Ref):
                    pending += _methods(world, value)
    return False


def policy_calls(context: warn.Context, world: World, cls: Ref) -> None:
    """Warn about calls that bypass the rollout's own policy."""
    try:
        found = policy.findings(context.machine, world.state, cls, context.oid, context.path)
    except LimitHit:
        return
    for place, text in found:
        kind, _, origin = text.partition(":")
        name = origin.split("()")[0]
        if kind == "agent":
            what = f"The workflow builds {name}, the framework's own agent"
            fix = "Use OsmosisStrandsAgent or OsmosisAgent, so that samples stay connected"
        else:
            what = f"The workflow calls {name} itself instead of the policy of the rollout"
            fix = "Use an integration, or point the client at get_rollout_context()"
        context.check.add("hard-coded-provider-call", Severity.WARNING, place, name, what, fix)
