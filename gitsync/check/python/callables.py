"""Asking what kind of callable a value is: `inspect.iscoroutinefunction` and its relatives."""

from __future__ import annotations

import ast
from collections.abc import Callable

from gitsync.check.python.heap import FunctionObj, ListObj
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import (
    FALSE,
    NONE,
    TRUE,
    Bound,
    Const,
    Coroutine,
    Decorator,
    Ext,
    Lazy,
    Opaque,
    Partial,
    Ref,
    TupleValue,
    Unknown,
    Value,
    Wrapped,
)
from gitsync.check.python.worlds import Frame

# Wrappers whose result is a plain function.
_FUNCTION_LIKE = ("contextmanager", "context")


def _unwrapped(value: Value) -> Value:
    """The function behind methods and partials, which these questions look through."""
    while isinstance(value, Bound | Partial):
        value = value.function
    return value


def _is_known(value: Value) -> bool:
    return not isinstance(value, Opaque | Unknown | Decorator) and not (
        isinstance(value, Ext) and value.kind not in ("c", "m")
    )


def _about_function(question: Callable[[FunctionObj], bool]) -> Rule:
    def ask(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        value = _unwrapped(args[0]) if args else NONE
        obj = m.obj(value) if isinstance(value, Ref) else None
        if isinstance(obj, FunctionObj):
            return Const(question(obj))
        return FALSE if _is_known(value) else Opaque("bool()")

    return ask


def _is_function(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Wrapped):
        return Const(value.kind in _FUNCTION_LIKE)
    if isinstance(value, Ref):
        return Const(isinstance(m.obj(value), FunctionObj))
    return FALSE if _is_known(value) else Opaque("bool()")


def _is_method(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Bound):
        return TRUE
    return FALSE if _is_known(value) else Opaque("bool()")


def _is_coroutine(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Coroutine):
        function = m.obj(value.function) if isinstance(value.function, Ref) else None
        if isinstance(function, FunctionObj):
            return Const(function.is_async and not function.is_generator)
    obj = m.obj(value) if isinstance(value, Ref) else None
    plain = isinstance(obj, FunctionObj | ListObj) or isinstance(value, Const | TupleValue | Lazy)
    return FALSE if plain else Opaque("bool()")


_COROUTINE_FUNCTION = _about_function(lambda f: f.is_async and not f.is_generator)
RULES: dict[str, Rule] = {
    "inspect.iscoroutinefunction": _COROUTINE_FUNCTION,
    "asyncio.coroutines.iscoroutinefunction": _COROUTINE_FUNCTION,
    "inspect.isgeneratorfunction": _about_function(lambda f: f.is_generator and not f.is_async),
    "inspect.isasyncgenfunction": _about_function(lambda f: f.is_generator and f.is_async),
    "inspect.isfunction": _is_function,
    "inspect.ismethod": _is_method,
    "inspect.iscoroutine": _is_coroutine,
    "inspect.isawaitable": _is_coroutine,
    "asyncio.coroutines.iscoroutine": _is_coroutine,
}
