"""Where a generator waits: whether it can be run up to there again, `throw` and `close`."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import calls, classes, containers, generators, iterables
from gitsync.check.python.heap import FunctionObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import FALSE, NONE, Const, Coroutine, Ext, Lazy, Ref, Value
from gitsync.check.python.worlds import Frame, Raised

_ENDS = ("GeneratorExit", "StopIteration")
_HANDLING = (ast.Try, ast.TryStar, ast.With, ast.AsyncWith)
_MUTATING = frozenset(
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
    if not generators.can_repeat(m, value):
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


def leave(m: Machine, frame: Frame, value: Coroutine, args: list[Value], node: ast.AST) -> Value:
    """`manager.__exit__(...)` by hand, of a manager that a generator makes."""
    if args[:1] != [NONE]:
        doubt = m.unknown(frame, node, "a manager is left by hand")
        m.doubt(doubt)
        return doubt
    try:
        generators.advance(m, frame, value, node)
    except Raised as raised:
        if not classes.exception_matches(m, raised.value, Ext("builtins.StopIteration", "c")):
            raise
    return FALSE


def doubt_effects(m: Machine, frame: Frame, value: Value, node: ast.AST) -> None:
    """Put all in doubt if a generator that cannot be followed changes more than its own names."""
    body: ast.AST | None = None
    if isinstance(value, Lazy):
        body = value.node
    elif isinstance(value, Coroutine) and generators.is_generator(m, value):
        body = _body(m, value)
    given = value.args if isinstance(value, Coroutine) else ()
    takes = any(isinstance(v, Coroutine | Lazy) for v in given)
    for arg in given:
        if iterables.is_iterator(m, arg):
            containers.spoil(m, frame, arg, node, [])
    if takes or (body is not None and changes_more(body)):
        m.doubt(m.unknown(frame, node, "a generator is advanced by hand"))


def changes_more(body: ast.AST) -> bool:
    """True if code changes more than its own names, as far as it is written there."""
    return any(map(_changes, ast.walk(body)))


def _changes(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute | ast.Subscript):
        return not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATING
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


def is_repeatable(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    """True if running a generator again up to where it waits makes no difference."""
    if isinstance(node, ast.Lambda):
        return repeatable(node)
    return repeatable(ast.Module(_up_to_yield(node.body), []))


def _up_to_yield(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements that may have run when a generator waits at a `yield`."""
    places = [at for at, stmt in enumerate(body) if _yields(stmt)]
    if len(places) != 1:
        return body
    before, stmt = body[: places[0]], body[places[0]]
    if isinstance(stmt, ast.Expr | ast.Assign) and isinstance(stmt.value, ast.Yield):
        given = stmt.value.value
        return before if given is None else [*before, ast.Expr(given)]
    if isinstance(stmt, ast.Try):
        later = [*stmt.orelse, *stmt.finalbody, *stmt.handlers]
        if not any(map(_yields, later)):
            return before + _up_to_yield(stmt.body)
    return [*before, stmt]


def _yields(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node))


# Calls by these names change nothing, and give equal values each time.
_PURE = frozenset(
    {
        "range",
        "enumerate",
        "zip",
        "len",
        "sorted",
        "reversed",
        "iter",
        "list",
        "tuple",
        "dict",
        "set",
        "str",
        "int",
        "getattr",
        "vars",
        "isinstance",
        "issubclass",
        "min",
        "max",
        "sum",
        "abs",
        "items",
        "values",
        "keys",
        "get",
        "upper",
        "lower",
        "format",
        "split",
    }
)
_CHANGING = (
    ast.ClassDef,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.Import,
    ast.ImportFrom,
    ast.Global,
    ast.Nonlocal,
    ast.Delete,
    ast.Await,
    ast.With,
    ast.NamedExpr,
)


def repeatable(node: ast.AST) -> bool:
    """True if running the body once more changes nothing and makes the same objects."""
    for child in ast.walk(node):
        if child is not node and isinstance(child, _CHANGING):
            return False
        if isinstance(child, ast.Attribute | ast.Subscript) and not isinstance(child.ctx, ast.Load):
            return False
        if isinstance(child, ast.Call):
            name = getattr(child.func, "id", None) or getattr(child.func, "attr", "")
            if name not in _PURE:
                return False
    return True
