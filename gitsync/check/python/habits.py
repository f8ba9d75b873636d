"""Warnings about the exposed classes: removed API, missing rewards, policy calls."""

from __future__ import annotations

import ast

from gitsync.check.python import classes, policy, rehearsals, warn
from gitsync.check.python.facts import METHODS
from gitsync.check.python.heap import FunctionObj
from gitsync.check.python.rehearsals import CONTEXT
from gitsync.check.python.roles import World
from gitsync.check.python.seen import Rehearsal
from gitsync.check.python.source import LimitHit
from gitsync.check.python.values import Opaque, Place, Ref, Value
from gitsync.check.python.worlds import Frame
from gitsync.model import Severity

_REMOVED = ("samples", "get_samples", "set_sample_reward", "register_sample_source")
_ANYWHERE = "register_sample_source"  # it was of the SDK's modules and of their contexts


def exposed_class(context: warn.Context, world: World, cls: Ref, role: str) -> None:
    """Rehearse the methods of the exposed class and warn about what they do."""
    frame = Frame(module=context.oid, path=context.path)
    main = METHODS[role]
    others = [n for n in rehearsals.methods_of(world.state, cls) if n != main]
    try:
        seen = rehearsals.rehearse(context.machine, world.state, cls, frame, [main])
        more = rehearsals.rehearse(context.machine, world.state, cls, frame, others)
    except LimitHit:
        return
    _removed(context, [*seen.reads, *more.reads])
    if role == "grader":
        _reward(context, world, cls, seen)
    else:
        seen.calls += more.calls
        seen.routed |= more.routed
        _policy_calls(context, seen)


def _removed(context: warn.Context, reads: list[tuple[Value, str, Place]]) -> None:
    """Warn about API that the SDK no longer has."""
    for owner, attribute, place in reads:
        if attribute not in _REMOVED or not isinstance(owner, Opaque):
            continue
        if owner != CONTEXT and attribute != _ANYWHERE:
            continue
        name = attribute if attribute == _ANYWHERE else f"ctx.{attribute}"
        context.check.add(
            "removed-api",
            Severity.WARNING,
            place,
            name,
            f"{name} is no longer there in SDK 0.3.8",
            "Use ctx.sample, ctx.set_reward() and set_sample_source()",
        )


def _reward(context: warn.Context, world: World, cls: Ref, seen: Rehearsal) -> None:
    """Warn about a grader that never sets a reward."""
    if _may_set_reward(context, seen):
        return
    machine = context.machine
    _, found = machine.branches(
        world.state, lambda: classes.find_in_mro(machine, cls, METHODS["grader"])
    )[0]
    value = rehearsals.looked_through(found[1])[0] if isinstance(found, tuple) else None
    function = world.state.heap.get(value.oid) if isinstance(value, Ref) else None
    if not isinstance(function, FunctionObj):
        return
    context.check.add(
        "reward-never-set",
        Severity.WARNING,
        Place(function.path, function.node.lineno, function.node.col_offset + 1),
        function.qualname,
        f"No path of {function.qualname} calls ctx.set_reward",
        "Set the reward before the method returns",
    )


def _may_set_reward(context: warn.Context, seen: Rehearsal) -> bool:
    """True unless all that `grade` reaches was seen, and nothing asked for `set_reward`."""
    parse = context.machine.sources.parse
    if seen.cut_short or not seen.finished:
        return any(_mentions(parse(path)) for path in context.loaded)
    asked = [(owner, place) for owner, name, place in seen.reads if name == "set_reward"]
    if seen.handed_on or not all(isinstance(owner, Ref) for owner, _ in asked):
        return True
    others = {(place.path, place.line, place.column) for _, place in asked}
    return any(
        isinstance(part, ast.Attribute)
        and part.attr == "set_reward"
        and (path, part.lineno, part.col_offset + 1) not in others
        for node, path in seen.entered.items()
        for part in ast.walk(node)
    )


def _mentions(tree: ast.Module) -> bool:
    """True if the name stands anywhere in a module, also as a text."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "set_reward")
        or (isinstance(node, ast.Constant) and node.value == "set_reward")
        for node in ast.walk(tree)
    )


def _policy_calls(context: warn.Context, seen: Rehearsal) -> None:
    """Warn about calls that bypass the rollout's own policy."""
    for place, text in policy.findings(seen):
        kind, _, origin = text.partition(":")
        name = origin.split("()")[0].removesuffix("[]")
        if kind == "agent":
            what = f"The workflow builds {name}, the framework's own agent"
            fix = "Use OsmosisStrandsAgent or OsmosisAgent, so that samples stay connected"
        else:
            what = f"The workflow calls {name} itself instead of the policy of the rollout"
            fix = "Use an integration, or point the client at get_rollout_context()"
        context.check.add("hard-coded-provider-call", Severity.WARNING, place, name, what, fix)
