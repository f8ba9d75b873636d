"""Statements: each takes one world and gives the worlds it may end in."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from gitsync.check.python import (
    calls,
    classes,
    contexts,
    definitions,
    exceptions,
    expressions,
    loops,
    making,
    patterns,
    targets,
)
from gitsync.check.python.attributes import TYPE_ALIAS
from gitsync.check.python.heap import InstanceObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.scopes import simple
from gitsync.check.python.state import State
from gitsync.check.python.values import NONE, Const, Opaque, Ref, TupleValue, Value
from gitsync.check.python.worlds import Frame, Kind, Outcome, Raised


def block(m: Machine, frame: Frame, state: State, body: list[ast.stmt]) -> list[Outcome]:
    """Execute statements one after the other in every world that is still running."""
    live = [Outcome(state)]
    done: list[Outcome] = []
    for stmt in body:
        after: list[Outcome] = []
        # The same statement makes the same object numbers in every world: they can be joined.
        first = last = m.next_oid
        for outcome in live:
            m.next_oid = first
            for result in statement(m, frame, outcome.state, stmt):
                (after if result.kind is Kind.NORMAL else done).append(result)
            last = max(last, m.next_oid)
        m.next_oid = last
        live = m.join(after) if len(after) > 1 else after
        if not live:
            break
    if len(done) > 1:
        done = m.join(done)
    return done + live


def statement(m: Machine, frame: Frame, state: State, node: ast.stmt) -> list[Outcome]:
    """Execute one statement in one world."""
    m.tick()
    m.at = m.place(frame, node)
    special = _COMPOUND.get(type(node))
    if special is not None:
        return special(m, frame, state, node)
    rule = _SIMPLE.get(type(node))
    if rule is None:
        return [Outcome(state)]
    run = m.plain if simple(node) else m.branches
    at = m.at
    out: list[Outcome] = []
    for after, value in run(state, lambda: _at(m, at, frame, node, rule)):
        if isinstance(value, Raised):
            out.append(Outcome(after, Kind.RAISE, raised=value))
        else:
            out.append(value if value.state is after else replace(value, state=after))
    return out


def _at(
    m: Machine,
    at: object,
    frame: Frame,
    node: ast.stmt,
    rule: Callable[[Machine, Frame, Any], Outcome | None],
) -> Outcome:
    m.at = m.place(frame, node)
    return rule(m, frame, node) or Outcome(m.state)


def each(
    m: Machine, frame: Frame, state: State, run: Callable[[], Value]
) -> tuple[list[tuple[State, Value]], list[Outcome]]:
    """Evaluate something: the worlds with a value, and the outcomes that raise."""
    good: list[tuple[State, Value]] = []
    bad: list[Outcome] = []
    for after, value in m.branches(state, run):
        if isinstance(value, Raised):
            bad.append(Outcome(after, Kind.RAISE, raised=value))
        else:
            good.append((after, value))
    return good, bad


# -- simple statements -----------------------------------------------------------------------


def _expr(m: Machine, frame: Frame, node: ast.Expr) -> None:
    if not isinstance(node.value, ast.Constant):
        expressions.evaluate(m, frame, node.value)


def _assign(m: Machine, frame: Frame, node: ast.Assign) -> None:
    value = expressions.evaluate(m, frame, node.value)
    for target in node.targets:
        targets.assign(m, frame, target, value)


def _ann_assign(m: Machine, frame: Frame, node: ast.AnnAssign) -> None:
    value = expressions.evaluate(m, frame, node.value) if node.value is not None else None
    if frame.kind in ("module", "class") and not frame.lazy_annotations and node.simple:
        m_value = expressions.evaluate(m, frame, node.annotation)
    else:
        m_value = None
    if value is not None:
        targets.assign(m, frame, node.target, value)
    if frame.kind == "class" and isinstance(node.target, ast.Name) and frame.scope is not None:
        making.note_annotation(m, frame, node, m_value)


def _aug_assign(m: Machine, frame: Frame, node: ast.AugAssign) -> None:
    targets.augment(m, frame, node)


def _delete(m: Machine, frame: Frame, node: ast.Delete) -> None:
    for target in node.targets:
        targets.delete(m, frame, target)


def _return(m: Machine, frame: Frame, node: ast.Return) -> Outcome:
    value = NONE if node.value is None else expressions.evaluate(m, frame, node.value)
    return Outcome(m.state, Kind.RETURN, value)


def _raise(m: Machine, frame: Frame, node: ast.Raise) -> None:
    place = m.place(frame, node)
    handled = frame.handled
    implicit = handled is not None and handled.implicit
    if node.exc is None:
        if handled is not None:
            raise Raised(
                handled.value,
                handled.place,
                handled.reason,
                implicit=handled.implicit,
                refused=handled.refused,
            )
        raise m.error(frame, node, "RuntimeError", "there is no active exception to raise again")
    value = expressions.evaluate(m, frame, node.exc)
    if isinstance(value, Const | TupleValue):
        raise m.error(frame, node, "TypeError", "only exceptions can be raised")
    if classes.is_class(m, value):
        value = m.concrete(calls.call(m, frame, value, [], {}, node))
    if node.cause is not None:
        cause = expressions.evaluate(m, frame, node.cause)
        if classes.is_class(m, cause):
            cause = m.concrete(calls.call(m, frame, cause, [], {}, node))
        if isinstance(value, Ref) and isinstance(m.obj(value), InstanceObj):
            m.store(value.oid, "__cause__", cause)
    context = m.handling[-1] if m.handling else value
    if isinstance(value, Ref) and isinstance(m.obj(value), InstanceObj) and context != value:
        m.store(value.oid, "__context__", context)
    raise Raised(value, place, "the module raises an exception here", implicit=implicit)


def _assert(m: Machine, frame: Frame, node: ast.Assert) -> None:
    if not expressions.truth(m, frame, node.test):
        raise m.error(frame, node, "AssertionError", "the assertion does not hold")


def _function(m: Machine, frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    value = definitions.make_function(m, frame, node)
    m.bind(frame, node.name, value)


def _type_alias(m: Machine, frame: Frame, node: ast.TypeAlias) -> None:
    if isinstance(node.name, ast.Name):
        m.bind(frame, node.name.id, Opaque(TYPE_ALIAS))


def _jump(kind: Kind) -> Callable[[Machine, Frame, ast.stmt], Outcome]:
    return lambda m, frame, node: Outcome(m.state, kind)


def _nothing(m: Machine, frame: Frame, node: ast.stmt) -> None:
    return None


# -- compound statements ---------------------------------------------------------------------


def _if(m: Machine, frame: Frame, state: State, node: ast.If) -> list[Outcome]:
    out: list[Outcome] = []
    for after, test in m.branches(state, lambda: expressions.truth(m, frame, node.test)):
        if isinstance(test, Raised):
            out.append(Outcome(after, Kind.RAISE, raised=test))
        else:
            first = m.next_oid
            m.arm(node, 0 if test else 1)
            out += block(m, frame, after, node.body if test else node.orelse)
            m.next_oid = max(first, m.next_oid)
    return m.join(out) if len(out) > 1 else out


def _loop(m: Machine, frame: Frame, state: State, node: ast.stmt) -> list[Outcome]:
    run = loops.while_statement if isinstance(node, ast.While) else loops.for_statement
    return run(m, frame, state, cast(Any, node))


def _try(m: Machine, frame: Frame, state: State, node: ast.Try | ast.TryStar) -> list[Outcome]:
    guarded = bool(node.handlers)
    m.guards += guarded
    try:
        results = block(m, frame, state, node.body)
    finally:
        m.guards -= guarded
    out: list[Outcome] = []
    raised = m.join([o for o in results if o.kind is Kind.RAISE])
    for outcome in raised:
        out += _handle(m, frame, outcome, node)
    for outcome in results:
        if outcome.kind is Kind.NORMAL:
            out += block(m, frame, outcome.state, node.orelse)
        elif outcome.kind is not Kind.RAISE:
            out.append(outcome)
    out = m.join(out)
    if not node.finalbody:
        return out
    final: list[Outcome] = []
    for outcome in out:
        with m.handles(outcome.raised):
            results = block(m, frame, outcome.state, node.finalbody)
        for after in results:
            if after.kind is Kind.NORMAL:
                final.append(replace(outcome, state=after.state))
            else:
                final.append(after)
    return m.join(final)


def _handle(
    m: Machine, frame: Frame, outcome: Outcome, node: ast.Try | ast.TryStar
) -> list[Outcome]:
    raised = cast(Raised, outcome.raised)
    if isinstance(node, ast.TryStar):

        def run(world: State, handler: ast.ExceptHandler, part: Raised) -> list[Outcome]:
            return _run_handler(m, frame, world, handler, part)

        return exceptions.handle_group(m, frame, outcome, raised, node.handlers, run)
    out: list[Outcome] = []
    live: list[State] = [outcome.state]
    for handler in node.handlers:
        missed: list[State] = []
        for world in live:

            def test(handler: ast.ExceptHandler = handler) -> bool | None:
                if handler.type is None:
                    return True
                m.at = m.place(frame, handler)
                kind = expressions.evaluate(m, frame, handler.type)
                if not classes.can_be_caught(m, kind):
                    raise m.error(
                        frame, handler, "TypeError", "only exception classes can be caught"
                    )
                return classes.exception_matches(m, raised.value, kind)

            for after, match in m.branches(world, test):
                if isinstance(match, Raised):
                    out.append(Outcome(after, Kind.RAISE, raised=match))
                    continue
                if match is None:
                    other = after.fork()
                    place = m.place(frame, handler)
                    other.path = (*other.path, (place, 1, "the kind of the exception"))
                    after.path = (*after.path, (place, 0, "the kind of the exception"))
                    missed.append(other)
                if match is not False:
                    out += _run_handler(m, frame, after, handler, raised)
                else:
                    missed.append(after)
        live = missed
        if not live:
            break
    if raised.implicit and not m.is_caught(raised):
        return out  # nobody catches it: as if there were no `try`
    out += [Outcome(world, Kind.RAISE, raised=raised) for world in live]
    return out


def _run_handler(
    m: Machine, frame: Frame, state: State, handler: ast.ExceptHandler, raised: Raised
) -> list[Outcome]:
    inner = replace(frame, handled=raised)
    m.state = state
    m.arm(handler, 1)
    if handler.name is not None:
        m.bind(frame, handler.name, raised.value)
    out: list[Outcome] = []
    with m.handles(raised):
        results = block(m, inner, state, handler.body)
    for result in results:
        if handler.name is not None:
            m.state = result.state
            space = result.state.change(m.owner_of(frame, handler.name))
            space.values.pop(handler.name, None)  # type: ignore[attr-defined]
        if result.raised is not None and raised.implicit and not result.raised.implicit:
            again = result.raised
            result = replace(
                result,
                raised=Raised(again.value, again.place, again.reason, implicit=True),
            )
        out.append(result)
    return out


def _match(m: Machine, frame: Frame, state: State, node: ast.Match) -> list[Outcome]:
    out: list[Outcome] = []

    def run() -> int:
        subject = expressions.evaluate(m, frame, node.subject)
        for index, case in enumerate(node.cases):
            matched = patterns.match(m, frame, case.pattern, subject)
            if matched is None:
                matched = m.choose(2, m.place(frame, case.pattern), "a pattern") == 0
            if matched and (case.guard is None or expressions.truth(m, frame, case.guard)):
                return index
        return -1

    for after, index in m.branches(state, run):
        if isinstance(index, Raised):
            out.append(Outcome(after, Kind.RAISE, raised=index))
        else:
            first = m.next_oid
            m.arm(node, index + 1)
            out += block(m, frame, after, node.cases[index].body if index >= 0 else [])
            m.next_oid = max(first, m.next_oid)
    return m.join(out)


def _import(
    m: Machine, frame: Frame, state: State, node: ast.Import | ast.ImportFrom
) -> list[Outcome]:
    return m.importer.statement(frame, state, node)


def _class(m: Machine, frame: Frame, state: State, node: ast.ClassDef) -> list[Outcome]:
    return making.define(m, frame, state, node)


_SIMPLE: dict[type[ast.stmt], Callable[[Machine, Frame, Any], Outcome | None]] = {
    ast.Expr: _expr,
    ast.Assign: _assign,
    ast.AnnAssign: _ann_assign,
    ast.AugAssign: _aug_assign,
    ast.Delete: _delete,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.TypeAlias: _type_alias,
    ast.Break: _jump(Kind.BREAK),
    ast.Continue: _jump(Kind.CONTINUE),
    ast.Pass: _nothing,
    ast.Global: _nothing,
    ast.Nonlocal: _nothing,
}
_COMPOUND: dict[type[ast.stmt], Callable[[Machine, Frame, State, Any], list[Outcome]]] = {
    ast.If: _if,
    ast.While: _loop,
    ast.For: _loop,
    ast.AsyncFor: _loop,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.With: contexts.with_statement,
    ast.AsyncWith: contexts.with_statement,
    ast.Match: _match,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.ClassDef: _class,
}
