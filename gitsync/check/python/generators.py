"""Generators: their bodies run where the consumer stands, one `yield` after the other.

A consumer hands in what shall happen at each `yield`: the rest of a `with` statement, a pass of a
loop, or just a note of the value. So everything happens in Python's order, exceptions of a `with`
body arrive at the `yield`, and what a consumer never asks for is never executed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from gitsync.check.python import (
    calls,
    classes,
    comprehensions,
    containers,
    expressions,
    instances,
    interrupting,
    invoking,
    iterables,
    reach,
)
from gitsync.check.python.heap import FunctionObj, ListObj, Namespace
from gitsync.check.python.machine import Machine
from gitsync.check.python.state import State
from gitsync.check.python.values import NONE, TRUE, Const, Coroutine, Ext, Lazy, Opaque, Ref, Value
from gitsync.check.python.worlds import Frame, Kind, Outcome, Raised

OVER = -1


def is_generator(m: Machine, value: Value) -> bool:
    """True for what calling a generator function of the repository gives."""
    if not isinstance(value, Coroutine) or not isinstance(value.function, Ref):
        return False
    obj = m.obj(value.function)
    return isinstance(obj, FunctionObj) and obj.is_generator


def drive(
    m: Machine,
    frame: Frame,
    value: Coroutine,
    node: ast.AST,
    take: Callable[[Value], bool],
    *,
    is_kept: bool = False,
) -> Value | None:
    """Run a generator; `take` gets each value and tells whether to go on. Gives its result.

    One that is kept waits where it was left, else it is closed there. None if it was advanced
    before and cannot be run up to that place again without harm.
    """
    function = cast(Ref, value.function)
    obj = cast(FunctionObj, m.obj(function))
    start = used(m, value.cell)
    if start == OVER:
        return NONE
    if start and not can_repeat(m, value):
        return None
    run = m.new(Namespace()).oid
    waits = is_kept and interrupting.may_notice(m, value)

    def go_back() -> Value:
        """The world as it was when the generator was left, for one that waits there."""
        place = m.space(run).values["closed"]
        if waits and isinstance(place, Const):
            m.state = m.left[place.value].fork()
        return NONE

    def at_yield(given: Value) -> Value:
        seen = m.space(run).values
        if "closed" in seen:
            return NONE
        found = seen.get("count")
        count = found.value if isinstance(found, Const) else 0
        m.store(run, "count", Const(count + 1))
        if count >= start:
            m.store(value.cell, "used", Const(count + 1))
            if not take(given):
                if waits:
                    m.left.append(m.state.fork())
                m.store(run, "closed", Const(len(m.left) - 1))
                raise m.error(frame, node, "GeneratorExit", "the generator is left here")
        kept = m.space(value.cell).values
        thrown = kept.get(f"thrown{count + 1}")
        if thrown is not None:
            raise Raised(thrown, m.at, "an exception is thrown into a generator")
        return kept.get(f"sent{count + 1}", NONE)

    words = dict(value.keywords)
    at = m.at
    try:
        result, given = invoking.run_function(
            m, frame, function, obj, list(value.args), words, node, at_yield=at_yield
        )
    except Raised as raised:
        if "closed" in m.space(run).values:
            return go_back()
        m.store(value.cell, "used", Const(OVER))
        m.at = at
        if classes.exception_matches(m, raised.value, Ext("builtins.StopIteration", "c")):
            raise m.error(
                frame, node, "RuntimeError", "a generator raises StopIteration"
            ) from raised
        raise
    if waits and "closed" in m.space(run).values:
        return go_back()
    m.store(value.cell, "used", Const(OVER))
    if given:  # the function could not be followed at all
        take(result)
    return result


def can_follow(m: Machine, value: Coroutine) -> bool:
    """True if `drive` can run this generator from where it stands."""
    if not is_generator(m, value):
        return False
    return used(m, value.cell) in (0, OVER) or can_repeat(m, value)


def can_repeat(m: Machine, value: Coroutine) -> bool:
    """True if running a generator once more up to where it waits changes nothing."""
    obj = cast(FunctionObj, m.obj(cast(Ref, value.function)))
    given = [*value.args, *(v for _, v in value.keywords)]
    if any(isinstance(v, Coroutine | Lazy) or iterables.is_iterator(m, v) for v in given):
        return False
    return interrupting.is_repeatable(obj.node)


def run_inside(
    m: Machine,
    frame: Frame,
    state: State,
    value: Coroutine,
    node: ast.AST,
    step: Callable[[Value], Outcome],
    *,
    is_loop: bool,
) -> list[Outcome]:
    """Execute statements where a generator yields: a loop's passes, or the body of a `with`.

    What a pass raises leaves the loop and closes the generator; what a `with` body raises is
    raised at the `yield`. A jump out of either ends in an outcome of its kind.
    """
    kept: list[Outcome] = []

    at = m.at

    def run() -> Outcome:
        end = m.new(Namespace()).oid

        def take(given: Value) -> bool:
            if not is_loop and "entered" in m.space(end).values:
                m.at = at
                raise m.error(frame, node, "RuntimeError", "the generator did not stop")
            m.store(end, "entered", TRUE)
            outcome = step(given)
            if outcome.kind in (Kind.NORMAL, Kind.CONTINUE) and (
                is_loop or outcome.kind is Kind.NORMAL
            ):
                return True
            if outcome.raised is not None and not is_loop:
                raise outcome.raised
            m.store(end, "kept", Const(len(kept)))
            kept.append(outcome)
            return not is_loop

        drive(m, frame, value, node, take)
        seen = m.space(end).values
        if not is_loop and "entered" not in seen:
            raise m.error(frame, node, "RuntimeError", "the generator did not yield")
        number = m.concrete(seen["kept"]) if "kept" in seen else None
        if not isinstance(number, Const):
            return Outcome(m.state)
        chosen: Outcome = kept[number.value]
        return replace(chosen, state=m.state)

    out: list[Outcome] = []
    for after, result in m.branches(state, run):
        if isinstance(result, Raised):
            out.append(Outcome(after, Kind.RAISE, raised=result))
        else:
            out.append(replace(result, state=after))
    return out


def delegate(
    m: Machine, frame: Frame, value: Coroutine, node: ast.AST, give: Callable[[Value], Value]
) -> Value:
    """`yield from generator`: what is sent goes to it, and it gives its result."""

    def take(given: Value) -> bool:
        sent = give(given)
        taken = used(m, value.cell)
        if sent != NONE and taken > 0:
            m.store(value.cell, f"sent{taken}", sent)
        return True

    result = drive(m, frame, value, node, take)
    return unfollowed(m, frame, value, node) if result is None else result


def collect(
    m: Machine,
    frame: Frame,
    value: Value,
    node: ast.AST,
    *,
    limit: int | None = None,
    is_kept: bool = False,
) -> tuple[list[Value], Value | None]:
    """The values of a generator, and what stands for further ones that are not known."""
    if not isinstance(value, Coroutine) or not is_generator(m, value):
        return [], Opaque()
    if limit == 0:
        return [], None
    kept = m.list_of([]).oid

    def take(given: Value) -> bool:
        changed = cast(ListObj, m.state.change(kept))
        changed.items.append(given)
        return len(changed.items) != limit

    if drive(m, frame, value, node, take, is_kept=is_kept) is None:
        return [], unfollowed(m, frame, value, node)
    found = cast(ListObj, m.state.heap[kept])
    return list(found.items), found.rest


def unfollowed(m: Machine, frame: Frame, value: Value, node: ast.AST) -> Value:
    """What a generator gives that was advanced by hand."""
    interrupting.doubt_effects(m, frame, value, node)
    if reach.touches(m.state, value):
        return m.unknown(frame, node, "a generator is advanced by hand")
    return Opaque()


def advance(
    m: Machine,
    frame: Frame,
    value: Coroutine | Lazy,
    node: ast.AST,
    *,
    sent: Value = NONE,
    default: Value | None = None,
) -> Value:
    """`next(generator)` or `generator.send(value)`."""
    if isinstance(value, Lazy):
        items = _next_of_expression(m, frame, value, node)
    elif not is_generator(m, value):
        return unfollowed(m, frame, value, node)
    else:
        taken = used(m, value.cell)
        if sent != NONE and taken > 0:
            m.store(value.cell, f"sent{taken}", sent)
        kept = interrupting.is_kept(node)
        items, rest = collect(m, frame, value, node, limit=1, is_kept=kept)
        if rest is not None:
            if default is not None:
                return containers.blurred(m, frame, [rest, default], node)
            m.may_raise(m.place(frame, node), "StopIteration")
            return rest
    if items:
        return items[0]
    if default is not None:
        return default
    raise m.error(frame, node, "StopIteration", "the generator gives nothing more")


def method(
    m: Machine,
    frame: Frame,
    owner: Coroutine | Lazy,
    name: str,
    args: list[Value],
    node: ast.AST,
) -> Value:
    """A method of a generator."""
    if isinstance(owner, Coroutine) and name == "send" and not is_generator(m, owner):
        result = invoking.run_coroutine(m, frame, owner, node)
        ended = m.error(frame, node, "StopIteration", "the coroutine has ended")
        m.store(cast(Ref, ended.value).oid, "value", result)
        raise ended
    if name in ("__next__", "__anext__", "send", "asend"):
        return advance(m, frame, owner, node, sent=args[0] if args else NONE)
    if name in ("__iter__", "__aiter__"):
        return owner
    if name in ("close", "aclose"):
        interrupting.close(m, frame, owner, node)
        return NONE
    if name in ("throw", "athrow") and isinstance(owner, Coroutine) and is_generator(m, owner):
        return interrupting.throw(m, frame, owner, args, node)
    return unfollowed(m, frame, owner, node)


def _next_of_expression(m: Machine, frame: Frame, value: Lazy, node: ast.AST) -> list[Value]:
    taken = used(m, value.cell)
    if taken == OVER:
        return []
    if iterables.is_iterator(m, value.source):
        found, _ = comprehensions.first_items(m, value, 1)
        m.store(value.cell, "used", Const(1 if found else OVER))
        return found
    if taken and not interrupting.repeatable(value.node):
        return [unfollowed(m, frame, value, node)]
    found, more = comprehensions.first_items(m, value, taken + 1)
    if more and len(found) <= taken:
        return [containers.blurred(m, frame, [*found, unfollowed(m, frame, value, node)], node)]
    m.store(value.cell, "used", Const(taken + 1 if len(found) > taken else OVER))
    return found[taken:]


def can_step(m: Machine, value: Lazy) -> bool:
    """True if `step` can take one item after the other from a generator expression."""
    if iterables.is_iterator(m, value.source):
        return True
    return interrupting.repeatable(value.node) and not any(
        iterables.is_iterator(m, found)
        for part in ast.walk(value.node)
        if isinstance(part, ast.Name)
        and (found := m.space(cast(Frame, value.frame).module).values.get(part.id)) is not None
    )


def step(m: Machine, frame: Frame, value: Lazy | Ref, node: ast.AST) -> Value | None:
    """The next item of an iterator, which loses it; None at its end."""
    if isinstance(value, Lazy):
        found = _next_of_expression(m, frame, value, node)
        return m.concrete(found[0]) if found else None
    own = instances.next_method(m, value)
    if own is not None:
        try:
            return m.concrete(calls.call(m, frame, own, [], {}, node))
        except Raised as raised:
            if classes.exception_matches(m, raised.value, Ext("builtins.StopIteration", "c")):
                return None
            raise
    changed = cast(ListObj, m.state.change(value.oid))
    return m.concrete(changed.items.pop(0)) if changed.items else None


def search(
    m: Machine,
    frame: Frame,
    value: Value,
    node: ast.AST,
    wanted: bool,
    test: Callable[[Value], bool] | None = None,
) -> Value | None:
    """`any` (wanted) or `all` over a generator, which stops at the item that decides.

    None if this is no generator. An item itself is asked for its truth, if there is no `test`.
    """
    kept = m.new(Namespace()).oid

    def take(given: Value) -> bool:
        count = m.space(kept).values.get("count", Const(0))
        m.store(kept, "count", Const(count.value + 1 if isinstance(count, Const) else 1))
        truth = expressions.is_true(m, frame, given, node) if test is None else test(given)
        if truth is not wanted:
            return True
        m.store(kept, "found", TRUE)
        return False

    more = False
    is_begun = isinstance(value, Lazy) and used(m, value.cell) > 0 and can_step(m, value)
    if isinstance(value, Ref | Lazy) and (is_begun or iterables.is_iterator(m, value)):
        while (item := step(m, frame, value, node)) is not None:
            if not take(item):
                break
        return Const(("found" in m.space(kept).values) is wanted)
    if isinstance(value, Coroutine) and is_generator(m, value):
        more = drive(m, frame, value, node, take) is None
    elif isinstance(value, Lazy) and used(m, value.cell) == 0:
        more = comprehensions.while_wanted(m, value, take)
        is_found = "found" in m.space(kept).values
        count = m.space(kept).values.get("count", Const(0))
        m.store(value.cell, "used", count if is_found else Const(OVER))
    else:
        return None
    if "found" in m.space(kept).values:
        return Const(wanted)
    return Opaque("bool()") if more else Const(not wanted)


def used(m: Machine, cell: int) -> int:
    """How many values were taken already; `OVER` if there are no more."""
    found = m.space(cell).values.get("used")
    return found.value if isinstance(found, Const) else 0
