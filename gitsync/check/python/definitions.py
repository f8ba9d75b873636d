"""Function objects, type parameters and context managers."""

from __future__ import annotations

import ast
from typing import Any

from gitsync.check.python import (
    attributes,
    calls,
    classes,
    expressions,
    generators,
    generics,
    invoking,
    reach,
)
from gitsync.check.python.heap import (
    ClassObj,
    DictObj,
    FunctionObj,
    InstanceObj,
    ListObj,
    ModuleObj,
    Scope,
)
from gitsync.check.python.machine import Machine
from gitsync.check.python.scopes import owned
from gitsync.check.python.values import (
    NONE,
    Const,
    Coroutine,
    Decorator,
    Ext,
    Managed,
    Opaque,
    Ref,
    TupleValue,
    Unknown,
    Value,
)
from gitsync.check.python.worlds import Frame, Raised

# `contextlib.closing` and the like: the method that is called on the way out.
CLOSING = {"closing": "close", "aclosing": "aclose"}


def make_function(
    m: Machine, frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
) -> Value:
    """The value of a `def` or `lambda`, its decorators applied."""
    decorators: list[tuple[Value, ast.expr]] = []
    name = "<lambda>"
    type_params: list[Any] = []
    if not isinstance(node, ast.Lambda):
        name = node.name
        decorators = list(zip(decorators_of(m, frame, node), node.decorator_list, strict=True))
        type_params = list(getattr(node, "type_params", ()) or ())
    args = node.args
    defaults = [expressions.evaluate(m, frame, d) for d in args.defaults]
    kwdefaults = [
        (a.arg, expressions.evaluate(m, frame, d))
        for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)
        if d is not None
    ]
    inner = with_type_params(m, frame, type_params)
    if not isinstance(node, ast.Lambda) and not frame.lazy_annotations:
        for arg in (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg):
            if arg is not None and arg.annotation is not None:
                expressions.evaluate(m, inner, arg.annotation)
        if node.returns is not None:
            expressions.evaluate(m, inner, node.returns)
    function = FunctionObj(node, name, frame.prefix + name, frame.module, frame.path)
    module = m.space(frame.module)
    function.shown_module = module.shown if isinstance(module, ModuleObj) else ""
    scope = owned(node)
    function.is_generator = scope.yields
    function.defaults = tuple(defaults)
    function.kwdefaults = tuple(kwdefaults)
    if inner.scope is not None and inner.kind != "module":
        function.closure = (inner.scope, *inner.closure)
    if frame.kind == "class":
        function.owner = frame.scope
    value: Value = m.new(function)
    at = m.at
    for decorator, where in reversed(decorators):
        m.at = m.place(frame, where)
        value = m.concrete(calls.decorate(m, frame, decorator, value, where))
    m.at = at
    return value


def decorators_of(
    m: Machine, frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
) -> list[Value]:
    """The decorators of a statement, each evaluated on its own line."""
    at = m.at
    found = []
    for decorator in node.decorator_list:
        m.at = m.place(frame, decorator)
        found.append(expressions.evaluate(m, frame, decorator))
    m.at = at
    return found


def with_type_params(m: Machine, frame: Frame, type_params: list[Any]) -> Frame:
    """A frame in which `[T]` of a PEP 695 statement is bound."""
    from dataclasses import replace

    if not type_params:
        return frame
    names = frozenset(p.name for p in type_params)
    scope = Scope("function", names)
    for param in type_params:
        scope.values[param.name] = generics.make(m, f"typing.{type(param).__name__}")
    ref = m.new(scope)
    if frame.kind == "class":
        scope.values.update(
            {k: v for k, v in m.space(frame.scope or 0).values.items() if k not in names}
        )
    closure = frame.closure if frame.scope is None else (frame.scope, *frame.closure)
    return replace(frame, scope=ref.oid, closure=closure, kind="function")


def enter_context(m: Machine, frame: Frame, node: ast.expr) -> Value:
    """The manager of a `with` item."""
    return expressions.evaluate(m, frame, node)


def entered_value(m: Machine, frame: Frame, manager: Value, node: ast.AST) -> Value:
    """What `as` binds."""
    if isinstance(manager, Ref):
        obj = m.obj(manager)
        if isinstance(obj, InstanceObj):
            for name in ("__enter__", "__aenter__"):
                method = classes.class_attribute(m, obj.cls, name)
                if method is not None:
                    _require_exit(m, frame, obj, name, node)
                    value = calls.call(m, frame, calls.bind(m, method, manager), [], {}, node)
                    if isinstance(value, Coroutine):
                        return invoking.run_coroutine(m, frame, value, node)
                    return value
            if all(isinstance(p, Ref) for p in classes.mro_of(m, obj.cls)):
                raise m.error(frame, node, "TypeError", "this object is no context manager")
            if any(isinstance(p, Ext) for p in classes.mro_of(m, obj.cls)):
                return manager  # what the library's managers that are derived from give
        if isinstance(obj, ListObj) and obj.kind == "manager":
            return obj.items[0] if obj.items else NONE
        if isinstance(obj, ListObj | DictObj | FunctionObj | ClassObj | ModuleObj):
            raise m.error(frame, node, "TypeError", "this value is no context manager")
    if isinstance(manager, Managed):
        items, rest = generators.collect(m, frame, manager.generator, node, limit=1, is_kept=True)
        return items[0] if items else rest or NONE
    if isinstance(manager, Const | TupleValue):
        raise m.error(frame, node, "TypeError", "this value is no context manager")
    if isinstance(manager, Decorator):
        return dict(manager.parts).get("thing", NONE)
    if isinstance(manager, Unknown):
        return manager
    if isinstance(manager, Opaque) and manager.carries:
        return m.unknown(frame, node, "an object that was given a component class hands it out")
    m.may_raise(m.place(frame, node))
    if isinstance(manager, Opaque):
        return manager
    return Opaque()


def _require_exit(m: Machine, frame: Frame, obj: InstanceObj, enter: str, node: ast.AST) -> None:
    """`with` looks for the way out before it goes in."""
    leave = enter.replace("enter", "exit")
    whole = all(isinstance(p, Ref) for p in classes.mro_of(m, obj.cls))
    if whole and classes.class_attribute(m, obj.cls, leave) is None:
        raise m.error(frame, node, "TypeError", f"this object has no {leave}")


def way_out(m: Machine, obj: InstanceObj) -> Value | None:
    """The method of the repository that runs when the manager is left."""
    for name in ("__exit__", "__aexit__"):
        method = classes.class_attribute(m, obj.cls, name)
        if method is not None:
            return method
    return None


def is_left_with_effect(m: Machine, manager: Value) -> bool:
    """True if leaving the manager may bind a component, as far as its code tells."""
    obj = m.obj(manager) if isinstance(manager, Ref) else None
    found = way_out(m, obj) if isinstance(obj, InstanceObj) else None
    if isinstance(manager, Managed | Decorator):
        found = manager
    return found is not None and reach.touches(m.state, found)


def leave_context(
    m: Machine, frame: Frame, manager: Value, raised: Raised | None, node: ast.AST
) -> bool:
    """True if the manager swallows the exception."""
    what: list[Value] = []
    if isinstance(manager, Decorator) and manager.name in CLOSING:
        thing = dict(manager.parts).get("thing", NONE)
        method = attributes.get(m, frame, thing, CLOSING[manager.name], node)
    else:
        obj = m.obj(manager) if isinstance(manager, Ref) else None
        found = way_out(m, obj) if isinstance(obj, InstanceObj) else None
        if found is None:
            return False
        method = calls.bind(m, found, manager)
        what = [NONE, NONE, NONE]
        if raised is not None:
            what = [classes.class_of(m, raised.value), raised.value, Opaque("traceback")]
    value = calls.call(m, frame, method, what, {}, node)
    if isinstance(value, Coroutine):
        value = invoking.run_coroutine(m, frame, value, node)
    return bool(what) and raised is not None and expressions.is_true(m, frame, value, node)
