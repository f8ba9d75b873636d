"""`with` statements: entering managers, and what they do with an exception."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from gitsync.check.python import (
    classes,
    definitions,
    generators,
    statements,
    targets,
)
from gitsync.check.python.heap import InstanceObj, Namespace
from gitsync.check.python.machine import Machine
from gitsync.check.python.state import State
from gitsync.check.python.values import (
    NONE,
    Managed,
    Opaque,
    Ref,
    Value,
)
from gitsync.check.python.worlds import Frame, Kind, Outcome, Raised


def with_statement(
    m: Machine, frame: Frame, state: State, node: ast.With | ast.AsyncWith
) -> list[Outcome]:
    """`with`, its managers entered from left to right."""
    return _with_items(m, frame, state, node, 0)


def _with_items(
    m: Machine, frame: Frame, state: State, node: ast.With | ast.AsyncWith, at: int
) -> list[Outcome]:
    if at == len(node.items):
        return statements.block(m, frame, state, node.body)
    item = node.items[at]
    out: list[Outcome] = []
    good, bad = statements.each(
        m, frame, state, lambda: definitions.enter_context(m, frame, item.context_expr)
    )
    out += bad

    def bind(value: Value) -> None:
        if item.optional_vars is not None:
            targets.assign(m, frame, item.optional_vars, value)

    def body(inside: State) -> list[Outcome]:
        return _with_items(m, frame, inside, node, at + 1)

    for world, manager in good:
        out += _inside(m, frame, world, manager, item.context_expr, bind, body)
    return m.join(out)


def call_inside(
    m: Machine, frame: Frame, manager: Value, call: Callable[[], Value], node: ast.AST
) -> Value:
    """A call that a manager was put around by decorating the function with it."""
    if isinstance(manager, Managed):  # each call makes a generator of its own
        manager = Managed(replace(manager.generator, cell=m.new(Namespace()).oid))

    def body(state: State) -> list[Outcome]:
        good, bad = statements.each(m, frame, state, call)
        return bad + [Outcome(world, Kind.RETURN, value) for world, value in good]

    outcome = m.pick_outcome(
        lambda: m.join(_inside(m, frame, m.state, manager, node, lambda _: None, body)),
        m.place(frame, node),
    )
    if outcome.raised is not None:
        raise outcome.raised
    return outcome.value or NONE


def _inside(
    m: Machine,
    frame: Frame,
    state: State,
    manager: Value,
    node: ast.AST,
    bind: Callable[[Value], None],
    body: Callable[[State], list[Outcome]],
) -> list[Outcome]:
    """What `body` ends in with the manager around it; `bind` takes what it gives."""

    def enter(value: Value) -> Value:
        bind(value)
        return NONE

    if isinstance(manager, Managed) and generators.can_follow(m, manager.generator):

        def at_yield(value: Value) -> Outcome:
            before = m.state

            def run() -> list[Outcome]:
                entered, out = statements.each(m, frame, before, lambda: enter(value))
                for world, _ in entered:
                    out += body(world)
                return m.join(out)

            return m.pick_outcome(run, m.place(frame, node))

        return generators.run_inside(
            m, frame, state, manager.generator, node, at_yield, is_loop=False
        )
    entered, out = statements.each(
        m, frame, state, lambda: enter(definitions.entered_value(m, frame, manager, node))
    )
    for inside, _ in entered:
        guards = m.guards + _may_swallow(m, inside, manager)
        with m.guarded(guards, m.import_guards + _is_foreign(manager)):
            results = body(inside)
        for result in results:
            out += _leave(m, frame, result, manager, node)
    return out


def _may_swallow(m: Machine, state: State, manager: Value) -> bool:
    """True if what the `with` body raises may end there, by what the manager's class says."""
    if isinstance(manager, Ref):
        obj = state.heap[manager.oid]
        return isinstance(obj, InstanceObj) and definitions.way_out(m, obj) is not None
    return classes.suppressed_exceptions(manager) is not None


def _leave(
    m: Machine, frame: Frame, result: Outcome, manager: Value, node: ast.AST
) -> list[Outcome]:
    suppressed = classes.suppressed_exceptions(manager)
    if suppressed is not None:
        if result.raised is None:
            return [result]
        m.state = result.state
        answers = [classes.exception_matches(m, result.raised.value, s) for s in suppressed]
        if True in answers:
            return [Outcome(result.state)]
        if None in answers:
            return [Outcome(result.state.fork()), *_unless_dropped(m, result)]
        return _unless_dropped(m, result)
    if result.raised is not None and _is_foreign(manager):
        other = result.state.fork()  # a manager may swallow the exception
        place = m.place(frame, node)
        other.path = (*other.path, (place, 0, "the context manager"))
        result.state.path = (*result.state.path, (place, 1, "the context manager"))
        return [Outcome(other), *_unless_dropped(m, result)]
    raised = result.raised
    out: list[Outcome] = []
    with m.handles(raised):
        left = m.branches(
            result.state, lambda: definitions.leave_context(m, frame, manager, raised, node)
        )
    for after, answer in left:
        if isinstance(answer, Raised):
            if raised is not None and raised.implicit:
                answer.implicit = True
            out.append(Outcome(after, Kind.RAISE, raised=answer))
        elif raised is not None and answer:
            out.append(Outcome(after))
        else:
            out += _unless_dropped(m, replace(result, state=after))
    return out


def _is_foreign(manager: Value) -> bool:
    """True for a manager that nothing is known of: it may swallow an exception."""
    return isinstance(manager, Opaque) and (manager.third or "ExitStack()" in manager.path)


def _unless_dropped(m: Machine, result: Outcome) -> list[Outcome]:
    """Nothing for an exception that may happen, if nobody catches it: as if there were no guard."""
    raised = result.raised
    dropped = raised is not None and raised.implicit and not m.is_caught(raised)
    return [] if dropped else [result]
