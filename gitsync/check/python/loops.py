"""Loops: known items one by one, unknown numbers of passes until no new world appears."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import cast

from gitsync.check.python import (
    expressions,
    generators,
    instances,
    iterables,
    reach,
    statements,
    targets,
)
from gitsync.check.python.heap import DictObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.state import State, covered, merge
from gitsync.check.python.values import (
    Coroutine,
    Lazy,
    Opaque,
    Ref,
    TupleValue,
    Unknown,
    Value,
    View,
)
from gitsync.check.python.worlds import Frame, Kind, Outcome, Raised

MAX_PASSES = 20_000


UNKNOWN_PASSES = 3


def while_statement(m: Machine, frame: Frame, state: State, node: ast.While) -> list[Outcome]:
    """`while`, in every world that reaches it."""
    out: list[Outcome] = []
    exits: list[Outcome] = []
    forked = False

    def one_pass(worlds: list[Outcome]) -> list[Outcome]:
        nonlocal forked
        again: list[Outcome] = []
        for world in worlds:
            m.tick()
            results = m.branches(world.state, lambda: expressions.truth(m, frame, node.test))
            forked = forked or len(results) > 1
            for after, test in results:
                if isinstance(test, Raised):
                    out.append(Outcome(after, Kind.RAISE, raised=test))
                elif not test:
                    exits.append(Outcome(after))
                else:
                    ended = statements.block(m, frame, after, node.body)
                    forked = forked or len(ended) > 1
                    for result in ended:
                        if result.kind is Kind.BREAK:
                            out.append(Outcome(result.state))
                        elif result.kind in (Kind.NORMAL, Kind.CONTINUE):
                            again.append(Outcome(result.state))
                        else:
                            out.append(result)
        return m.join(again)

    live = [Outcome(state)]
    while live and not forked:
        live = one_pass(live)
    if live:
        _, left = _until_settled(m, frame, node, live, one_pass)
        exits += left
    for result in m.join(exits):
        out += statements.block(m, frame, result.state, node.orelse)
    return m.join(out)


def for_statement(
    m: Machine, frame: Frame, state: State, node: ast.For | ast.AsyncFor
) -> list[Outcome]:
    """`for`: known items one by one, then any number of unknown ones."""
    out: list[Outcome] = []
    exits: list[Outcome] = []

    def start() -> tuple[list[Value], Value | None, Value] | Coroutine | Lazy | Ref:
        value = expressions.evaluate(m, frame, node.iter)
        if isinstance(value, Ref) and any(map(_leaves, node.body)):
            own = instances.own_iterator(m, frame, value, node.iter)
            if isinstance(own, Ref) and instances.next_method(m, own) is not None:
                return own
            value = own or value
        if isinstance(value, Coroutine) and generators.can_follow(m, value):
            return value
        if isinstance(value, Lazy) and _is_left_early(node) and generators.can_step(m, value):
            return value
        if iterables.is_iterator(m, value) and isinstance(node.iter, ast.Name | ast.Attribute):
            return cast(Ref, value)
        if isinstance(value, Lazy) and _is_left_early(node):
            return [], generators.unfollowed(m, frame, value, node.iter), value
        return *expressions.items_of(m, frame, value, node.iter), value

    for after, found in m.branches(state, start):
        if isinstance(found, Raised):
            out.append(Outcome(after, Kind.RAISE, raised=found))
            continue
        if isinstance(found, Coroutine):
            for result in _over_generator(m, frame, after, node, found):
                (exits if result.kind is Kind.NORMAL else out).append(
                    Outcome(result.state) if result.kind is Kind.BREAK else result
                )
            continue
        if isinstance(found, Lazy | Ref):
            exits += _step_by_step(m, frame, after, node, found, out)
            continue
        items, rest, source = found
        live = _over_items(m, frame, after, node, items, source, out)
        if len(items) > MAX_PASSES:
            rest = rest or Opaque()
        if rest is not None and live:
            choice = (m.place(frame, node.iter), 1, "the number of items")
            item = rest

            def one_more(worlds: list[Outcome], item: Value = item) -> list[Outcome]:
                return _one_pass(m, frame, worlds, node, item, out)

            before = len(out)
            heads, live = _until_settled(m, frame, node, live, one_more)
            for outcome in (*heads, *live):
                outcome.state.path = (*outcome.state.path, choice)
            for outcome in out[before:]:
                outcome.state.path = (*outcome.state.path, (choice[0], 2, choice[2]))
            exits += heads
        exits += live
    for result in m.join(exits):
        out += statements.block(m, frame, result.state, node.orelse)
    return m.join(out)


def _over_items(
    m: Machine,
    frame: Frame,
    state: State,
    node: ast.For | ast.AsyncFor,
    items: list[Value],
    source: Value,
    out: list[Outcome],
) -> list[Outcome]:
    """One pass for each known item; what the passes do to the container itself is seen."""
    done: list[Outcome] = []
    groups = [([Outcome(state)], items, 0)]
    while groups:
        live, items, at = groups.pop()
        while live and at < min(len(items), MAX_PASSES):
            live = _one_pass(m, frame, live, node, items[at], out)
            at += 1
            same: list[Outcome] = []
            for world in live:
                now = _changed(world.state, source, items, at)
                if now is None:
                    same.append(world)
                elif isinstance(now, list):
                    groups.append(([world], now, at))
                else:
                    m.state = world.state
                    raised = m.error(frame, node.iter, "RuntimeError", "it changes in the loop")
                    out.append(Outcome(world.state, Kind.RAISE, raised=raised))
            live = same
        done += live
    return done


def _changed(state: State, source: Value, items: list[Value], at: int) -> list[Value] | bool | None:
    """What a list holds now, or True for a dict or set of another size; None if all is as before.

    Only the items from `at` on matter.
    """
    view = source.name if isinstance(source, View) else ""
    owner = source.owner if isinstance(source, View) else source
    obj = state.heap.get(owner.oid) if isinstance(owner, Ref) else None
    if not isinstance(obj, ListObj | DictObj) or obj.rest is not None or not items:
        return None
    if isinstance(obj, ListObj) and obj.kind == "list":
        new = obj.items[at : at + 1] != items[at : at + 1] or len(obj.items) != len(items)
        return list(obj.items) if new else None
    if isinstance(obj, ListObj) and obj.kind not in ("set", "deque"):
        return None
    if len(obj.items) != len(items):
        return True
    if view in ("values", "items") and isinstance(obj, DictObj) and at < len(items):
        key, value = next(islice(obj.items.items(), at, None))
        fresh: Value = TupleValue((key, value)) if view == "items" else value
        if fresh != items[at]:
            return [*items[:at], fresh, *items[at + 1 :]]
    return None


def _is_left_early(node: ast.For | ast.AsyncFor) -> bool:
    """True if a loop over an iterator with a name may leave items in it, or takes some itself."""
    if not isinstance(node.iter, ast.Name):
        return False
    name = node.iter.id
    return any(
        _leaves(stmt)
        or any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(stmt))
        for stmt in node.body
    )


def _leaves(stmt: ast.stmt) -> bool:
    return any(isinstance(part, ast.Break | ast.Return | ast.Raise) for part in ast.walk(stmt))


def _step_by_step(
    m: Machine,
    frame: Frame,
    state: State,
    node: ast.For | ast.AsyncFor,
    iterator: Lazy | Ref,
    out: list[Outcome],
) -> list[Outcome]:
    """One item per pass is taken out of an iterator, which keeps the others."""
    exits: list[Outcome] = []
    live = [Outcome(state)]
    for number in range(MAX_PASSES):
        if number == instances.MAX_STEPS and not iterables.is_iterator(m, iterator):
            for world in live:
                m.state = world.state
                m.doubt(m.unknown(frame, node.iter, "an iterator goes on and on"))
            return exits + live
        again: list[Outcome] = []
        for world in live:
            for after, item in m.branches(
                world.state, lambda: generators.step(m, frame, iterator, node.iter)
            ):
                if isinstance(item, Raised):
                    out.append(Outcome(after, Kind.RAISE, raised=item))
                elif item is None:
                    exits.append(Outcome(after))
                else:
                    again += _one_pass(m, frame, [Outcome(after)], node, item, out)
        live = m.join(again)
        if not live:
            break
    return exits


def _over_generator(
    m: Machine, frame: Frame, state: State, node: ast.For | ast.AsyncFor, value: Coroutine
) -> list[Outcome]:
    """The passes run where the generator yields; `BREAK` stands for a loop that was left."""

    def one_pass(item: Value) -> Outcome:
        before = m.state

        def run() -> list[Outcome]:
            out: list[Outcome] = []
            again = _one_pass(m, frame, [Outcome(before)], node, item, out)
            out = [replace(o, kind=Kind.BREAK) if o.kind is Kind.NORMAL else o for o in out]
            return m.join([*out, *again])

        return m.pick_outcome(run, m.place(frame, node))

    return generators.run_inside(m, frame, state, value, node.iter, one_pass, is_loop=True)


def _until_settled(
    m: Machine,
    frame: Frame,
    node: ast.stmt,
    live: list[Outcome],
    one_more: Callable[[list[Outcome]], list[Outcome]],
) -> tuple[list[Outcome], list[Outcome]]:
    """Repeat a pass until no new world appears; what still changes then is blurred.

    Gives the worlds at the loop's head, where it may end, and those after the last pass.
    """
    seen: list[State] = []
    heads: list[Outcome] = []
    exact = 1 if m.rehearsal is not None else UNKNOWN_PASSES
    for number in range(2 * exact):
        fresh = [o for o in live if not any(covered(o.state, s) for s in seen)]
        if not fresh:
            return heads, []
        if number >= exact and seen:
            fresh = [Outcome(_widen(m, seen[-1], o.state, node, frame)) for o in fresh]
            fresh = [o for o in fresh if not any(covered(o.state, s) for s in seen)]
        for outcome in fresh:
            heads.append(Outcome(outcome.state.fork()))
            seen.append(outcome.state.fork())
        live = one_more(fresh)
        if not live:
            return heads, []
    doubt = [o for o in live if not any(covered(o.state, s) for s in seen)]
    return heads, [Outcome(_widen(m, seen[-1], o.state, node, frame)) for o in doubt]


def _one_pass(
    m: Machine,
    frame: Frame,
    live: list[Outcome],
    node: ast.For | ast.AsyncFor,
    item: Value,
    out: list[Outcome],
) -> list[Outcome]:
    again: list[Outcome] = []
    for world in live:
        m.tick()

        def bind(item: Value = item) -> None:
            targets.assign(m, frame, node.target, item)

        for after, value in m.branches(world.state, bind):
            if isinstance(value, Raised):
                out.append(Outcome(after, Kind.RAISE, raised=value))
                continue
            for result in statements.block(m, frame, after, node.body):
                if result.kind is Kind.BREAK:
                    out.append(Outcome(result.state))
                elif result.kind in (Kind.NORMAL, Kind.CONTINUE):
                    again.append(Outcome(result.state))
                else:
                    out.append(result)
    return m.join(again)


def _widen(m: Machine, previous: State | None, state: State, node: ast.stmt, frame: Frame) -> State:
    """What still changes from pass to pass is not known after many more of them."""
    if previous is None:
        return state
    joined = merge(previous, state, force=True, harmful=reach.touches)
    if joined is None:
        if m.overflow is None:
            m.overflow = m.place(frame, node)
        return state
    place = m.place(frame, node)
    for oid, obj in list(state.heap.items()):
        before = previous.heap.get(oid)
        if before is None or before is obj:
            continue
        old = getattr(before, "values", None)
        new = getattr(obj, "values", None)
        if old is None or new is None:
            continue
        target = joined.change(oid)
        for key, value in new.items():
            if old.get(key) != value:
                bad = reach.touches(state, value) or (
                    key in old and reach.touches(previous, old[key])
                )
                target.values[key] = (  # type: ignore[attr-defined]
                    Unknown(place, "a loop changes it") if bad else Opaque()
                )
    return joined
