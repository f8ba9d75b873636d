"""`with` statements: entering managers, and what they do with an exception."""

from __future__ import annotations

import ast
from dataclasses import replace

from gitsync.check.python import (
    classes,
    definitions,
    generators,
    statements,
    targets,
)
from gitsync.check.python.machine import Machine
from gitsync.check.python.state import State
from gitsync.check.python.values import (
    NONE,
    Coroutine,
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
    for world, manager in good:
        if isinstance(manager, Managed) and generators.can_follow(m, manager.generator):
            out += _with_generator(m, frame, world, node, at, manager.generator)
            continue
        suppressed = classes.suppressed_exceptions(manager)

        def bind(manager: Value = manager) -> Value:
            value = definitions.entered_value(m, frame, manager, item.context_expr)
            if item.optional_vars is not None:
                targets.assign(m, frame, item.optional_vars, value)
            return NONE

        entered, failed = statements.each(m, frame, world, bind)
        out += failed
        for inside, _ in entered:
            m.guards += suppressed is not None
            try:
                results = _with_items(m, frame, inside, node, at + 1)
            finally:
                m.guards -= suppressed is not None
            for result in results:
                out += _leave(m, frame, result, manager, suppressed, item.context_expr)
    return m.join(out)


def _with_generator(
    m: Machine,
    frame: Frame,
    state: State,
    node: ast.With | ast.AsyncWith,
    at: int,
    generator: Coroutine,
) -> list[Outcome]:
    item = node.items[at]

    def body(value: Value) -> Outcome:
        before = m.state

        def bind() -> Value:
            if item.optional_vars is not None:
                targets.assign(m, frame, item.optional_vars, value)
            return NONE

        def run() -> list[Outcome]:
            entered, failed = statements.each(m, frame, before, bind)
            for world, _ in entered:
                failed += _with_items(m, frame, world, node, at + 1)
            return m.join(failed)

        return m.pick_outcome(run, m.place(frame, item.context_expr))

    return m.join(
        generators.run_inside(m, frame, state, generator, item.context_expr, body, is_loop=False)
    )


def _leave(
    m: Machine,
    frame: Frame,
    result: Outcome,
    manager: Value,
    suppressed: tuple[Value, ...] | None,
    node: ast.expr,
) -> list[Outcome]:
    if suppressed is not None:
        if result.raised is None:
            return [result]
        m.state = result.state
        answers = [classes.exception_matches(m, result.raised.value, s) for s in suppressed]
        if True in answers:
            return [Outcome(result.state)]
        if None in answers:
            return [Outcome(result.state.fork()), result]
        return [result]
    if isinstance(manager, Opaque) and manager.third and result.raised is not None:
        other = result.state.fork()  # a manager may swallow the exception
        place = m.place(frame, node)
        other.path = (*other.path, (place, 0, "the context manager"))
        result.state.path = (*result.state.path, (place, 1, "the context manager"))
        return [Outcome(other), result]
    if not isinstance(manager, Ref):
        return [result]
    raised = result.raised
    out: list[Outcome] = []

    def leave() -> bool:
        return definitions.leave_context(m, frame, manager, raised, node)

    for after, answer in m.branches(result.state, leave):
        if isinstance(answer, Raised):
            out.append(Outcome(after, Kind.RAISE, raised=answer))
        elif raised is not None and answer:
            out.append(Outcome(after))
        else:
            out.append(replace(result, state=after))
    return out
