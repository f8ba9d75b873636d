"""`throw` and `close`: exceptions that arrive where a generator waits."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import calls, classes, generators
from gitsync.check.python.heap import FunctionObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import NONE, Const, Coroutine, Ext, Lazy, Ref, Value
from gitsync.check.python.worlds import Frame, Raised

_ENDS = ("GeneratorExit", "StopIteration")
_HANDLING = (ast.Try, ast.TryStar, ast.With, ast.AsyncWith)
_CHANGING = frozenset(
    {
        "add",
        "append",
        "appendleft",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "register",
        "remove",
        "setdefault",
        "update",
    }
)


def throw(m: Machine, frame: Frame, value: Coroutine, args: list[Value], node: ast.AST) -> Value:
    """`generator.throw(exception)`: what the generator yields next, if it goes on."""
    error = args[1] if len(args) > 1 and args[1] != NONE else (*args, NONE)[0]
    if classes.is_class(m, error):
        error = m.concrete(calls.call(m, frame, error, [], {}, node))
    taken = generators.used(m, value.cell)
    if taken in (0, generators.OVER) or not may_notice(m, value):
        m.store(value.cell, "used", Const(generators.OVER))
        raise Raised(error, m.at, "an exception is thrown into a generator")
    if not generators.repeatable(_body(m, value)):
        doubt = m.unknown(frame, node, "an exception is thrown into a generator")
        m.doubt(doubt)
        return doubt
    m.store(value.cell, f"thrown{taken}", error)
    return generators.advance(m, frame, value, node)


def close(m: Machine, frame: Frame, value: Coroutine | Lazy, node: ast.AST) -> None:
    """`generator.close()`: `GeneratorExit` is raised where it waits."""
    waits = isinstance(value, Coroutine) and generators.is_generator(m, value)
    if isinstance(value, Coroutine) and waits and generators.used(m, value.cell) > 0:
        ended = m.error(frame, node, "GeneratorExit", "the generator is closed")
        try:
            throw(m, frame, value, [ended.value], node)
        except Raised as raised:
            if not any(
                classes.exception_matches(m, raised.value, Ext(f"builtins.{name}", "c"))
                for name in _ENDS
            ):
                raise
        else:
            raise m.error(frame, node, "RuntimeError", "the generator does not end")
    m.store(value.cell, "used", Const(generators.OVER))


def doubt_effects(m: Machine, frame: Frame, value: Value, node: ast.AST) -> None:
    """Put all in doubt if a generator that cannot be followed changes more than its own names."""
    body: ast.AST | None = None
    if isinstance(value, Lazy):
        body = value.node
    elif isinstance(value, Coroutine) and generators.is_generator(m, value):
        body = _body(m, value)
    if body is not None and any(map(_changes, ast.walk(body))):
        m.doubt(m.unknown(frame, node, "a generator is advanced by hand"))


def _changes(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute | ast.Subscript):
        return not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING
    return isinstance(node, ast.Global | ast.Nonlocal)


def _body(m: Machine, value: Coroutine) -> ast.AST:
    return cast(FunctionObj, m.obj(cast(Ref, value.function))).node


def may_notice(m: Machine, value: Coroutine) -> bool:
    """True if something in the generator may notice an exception."""
    return any(isinstance(part, _HANDLING) for part in ast.walk(_body(m, value)))


def is_kept(node: ast.AST) -> bool:
    """True if the generator that a call advances has a name, so that it waits afterwards."""
    if not isinstance(node, ast.Call):
        return True
    subject: ast.AST | None = node.args[0] if node.args else None
    if isinstance(node.func, ast.Attribute):
        subject = node.func.value
    return not isinstance(subject, ast.Call)
