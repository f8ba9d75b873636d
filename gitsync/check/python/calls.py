"""Calls: local functions are worked out, classes instantiated, library functions modelled."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import cast

from gitsync.check.python import (
    backed,
    cached,
    callbacks,
    classes,
    containers,
    definitions,
    dynamic,
    expressions,
    generators,
    instances,
    invoking,
    mappings,
    ranking,
    reach,
    reading,
    routing,
    standard,
)
from gitsync.check.python.heap import ClassObj, DictObj, FunctionObj, InstanceObj, ModuleObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    NONE,
    TRUE,
    Alias,
    Bound,
    Const,
    Coroutine,
    DataclassInit,
    Decorated,
    Decorator,
    Ext,
    Managed,
    Method,
    Names,
    Opaque,
    Partial,
    Ref,
    Super,
    Unknown,
    Value,
    Wrapped,
)
from gitsync.check.python.worlds import REGISTRY, Frame


def evaluate_call(m: Machine, frame: Frame, node: ast.Call) -> Value:
    """A call expression."""
    function = expressions.evaluate(m, frame, node.func)
    args: list[Value] = []
    rest: Value | None = None
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            found, more = expressions.items_of(
                m, frame, expressions.evaluate(m, frame, arg.value), arg
            )
            args += found
            rest = more or rest
        else:
            args.append(expressions.evaluate(m, frame, arg))
    keywords: dict[str, Value] = {}
    kwrest: Value | None = None
    for keyword in node.keywords:
        value = expressions.evaluate(m, frame, keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        else:
            kwrest = spread(m, frame, value, keywords, node) or kwrest
    if isinstance(function, Ext):
        special = dynamic.FRAME_CALLS.get(function.path)
        if special is not None:
            return special(m, frame, args, keywords, node)
    return call(m, frame, function, args, keywords, node, rest=rest, kwrest=kwrest)


def spread(
    m: Machine, frame: Frame, value: Value, keywords: dict[str, Value], node: ast.AST
) -> Value | None:
    """`**value` into keyword arguments; what unknown further ones may be."""
    value = mappings.as_mapping(m, frame, value, node) or backed.plain(m, value)
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, DictObj):
            for key, item in obj.items.items():
                if isinstance(key, Const) and isinstance(key.value, str):
                    keywords[key.value] = m.concrete(item)
            return obj.rest
    if isinstance(value, Names):
        space = m.settle(value.oid)
        keywords.update(containers.visible(space))
        return space.taint
    return value if isinstance(value, Unknown) else Opaque()


def call(
    m: Machine,
    frame: Frame,
    function: Value,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    *,
    rest: Value | None = None,
    kwrest: Value | None = None,
) -> Value:
    """The result of calling a value."""
    from gitsync.check.python import library, methods

    m.tick()
    function = m.concrete(function)
    if isinstance(function, Ext | Opaque):
        library.notice(m, frame, function, args, keywords, rest, kwrest, node)
    if isinstance(function, Unknown):
        if m.rehearsal is not None:
            m.rehearsal.handed_on = True
        if any(reach.touches(m.state, v) for v in (*args, *keywords.values())):
            m.doubt(function)
        for value in args:
            if isinstance(value, Ref) and isinstance(m.obj(value), ModuleObj):
                m.taint(value.oid, function)  # it may have been filled
        return function
    if isinstance(function, Ref):
        obj = m.obj(function)
        if isinstance(obj, FunctionObj):
            return invoking.call_function(
                m, frame, function, obj, args, keywords, node, rest, kwrest
            )
        if isinstance(obj, ClassObj):
            return instances.instantiate(
                m, frame, function, obj, args, keywords, node, rest, kwrest
            )
        if isinstance(obj, InstanceObj):
            method = classes.class_attribute(m, obj.cls, "__call__")
            if method is not None:
                return call(
                    m,
                    frame,
                    bind(m, method, function),
                    args,
                    keywords,
                    node,
                    rest=rest,
                    kwrest=kwrest,
                )
            if args and len(args) == 1 and (kind := _context_decorator(m, obj.cls)):
                return _put_around(function, args[0], is_async=kind == "async")
            if classes.has_opaque_base(m, obj.cls) or classes.has_callable_base(m, obj.cls):
                return opaque_result(m, frame, "?", args, keywords, node)
        raise m.error(frame, node, "TypeError", "this value cannot be called")
    if isinstance(function, Bound):
        return call(
            m,
            frame,
            function.function,
            [function.owner, *args],
            keywords,
            node,
            rest=rest,
            kwrest=kwrest,
        )
    if isinstance(function, Partial):
        merged = {**dict(function.keywords), **keywords}
        return call(
            m,
            frame,
            function.function,
            [*function.args, *args],
            merged,
            node,
            rest=rest,
            kwrest=kwrest,
        )
    if isinstance(function, Method | Ext):
        args = [mappings.snapshot(m, arg) for arg in args]
    if isinstance(function, Method):
        return methods.call_method(m, frame, function, args, keywords, node, unknown=rest or kwrest)
    if isinstance(function, Ext):
        return library.call_external(m, frame, function, args, keywords, node, rest or kwrest)
    if isinstance(function, Opaque):
        m.may_raise(m.place(frame, node))
        if function.carries or f"carries:{function.path}" in m.space(REGISTRY).values:
            doubt = m.unknown(frame, node, "an object that was given a component class is called")
            if function.path.startswith("decorated:"):
                m.doubt(doubt)
            return doubt
        top, _, _ = function.path.removeprefix(PLAIN).partition(".")
        reading.notice_call(m, function.path, third=function.third)
        if args and function.path in _ENTERING:
            if definitions.is_left_with_effect(m, args[0]):
                m.doubt(m.unknown(frame, node, "a manager is left when a stack of them is"))
            return definitions.entered_value(m, frame, args[0], node)
        runs = function.path.endswith(("().run_until_complete", "Runner().run"))
        if runs and args and isinstance(args[0], Coroutine):
            return invoking.run_coroutine(m, frame, args[0], node)
        given = any(reach.touches(m.state, v) for v in (*args, *keywords.values()))
        if given and function.path in _LATER:
            m.doubt(m.unknown(frame, node, "a function is kept and called when a block is left"))
        if top in m.facts.stdlib:
            everything = [*args, *keywords.values()]
            if function.path.endswith("().shuffle"):
                ranking.shuffle(m, frame, args, keywords, node)
            callbacks.called(m, frame, function.path, everything, node)
        if given and top in m.facts.stdlib and top != "logging":  # which only shows
            owner, _, name = function.path.rpartition(".")
            m.store(REGISTRY, f"carries:{owner}", TRUE)
            if not name.startswith(_KEEPING):
                return m.unknown(frame, node, f"{function.path} is given a component class")
            return Opaque(f"{function.path}()", carries=True)
        return opaque_result(
            m, frame, function.path, args, keywords, node, like=function, kwrest=kwrest
        )
    if isinstance(function, Alias):
        return call(m, frame, function.origin, args, keywords, node, rest=rest, kwrest=kwrest)
    if isinstance(function, Managed) and args:
        made = m.obj(cast(Ref, function.generator.function))
        is_async = isinstance(made, FunctionObj) and made.is_async
        return _put_around(function, args[0], is_async=is_async)
    if isinstance(function, DataclassInit) and args and isinstance(args[0], Ref):
        from gitsync.check.python import dataclassing

        dataclassing.initialise(m, frame, args[0], function, args[1:], keywords, node, rest, kwrest)
        return NONE
    if isinstance(function, Decorator):
        return decorate(m, frame, function, args[0] if args else NONE, node)
    if isinstance(function, Wrapped):
        if function.kind == "context":
            from gitsync.check.python import contexts

            inner, (manager,) = function.function, function.args

            def run() -> Value:
                return call(m, frame, inner, args, keywords, node, rest=rest, kwrest=kwrest)

            return contexts.call_inside(m, frame, manager, run, node)
        if function.kind in ("staticmethod", "contextmanager", "cache"):
            result = (
                cached.call_cached(m, frame, function, args, keywords, node)
                if function.kind == "cache" and rest is None and kwrest is None
                else call(
                    m, frame, function.function, args, keywords, node, rest=rest, kwrest=kwrest
                )
            )
            if function.kind == "contextmanager":
                if isinstance(result, Coroutine) and generators.is_generator(m, result):
                    return Managed(result)
                items, more = expressions.items_of(m, frame, result, node)
                return m.list_of(items[:1] or ([more] if more else []), "manager")
            return result
        raise m.error(frame, node, "TypeError", "this value cannot be called")
    raise m.error(frame, node, "TypeError", "this value cannot be called")


# methods that keep what they are given and give back a receipt, at most
_KEEPING = (
    "add",
    "append",
    "call_",
    "connect",
    "create_task",
    "push",
    "put",
    "register",
    "set",
    "submit",
)
_LATER = tuple(
    f"contextlib.{kind}ExitStack().{name}"
    for kind in ("", "Async")
    for name in ("callback", "push", "push_async_callback", "push_async_exit")
)
_ENTERING = (
    "contextlib.ExitStack().enter_context",
    "contextlib.AsyncExitStack().enter_context",
    "contextlib.AsyncExitStack().enter_async_context",
)


def opaque_result(
    m: Machine,
    frame: Frame,
    path: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    *,
    like: Opaque | None = None,
    kwrest: Value | None = None,
) -> Value:
    """What a library that cannot be looked into gives: no component, but it may hold one."""
    carries = any(reach.touches(m.state, v) for v in (*args, *keywords.values()))
    third = like is not None and like.third
    routed = like is not None and (like.routed or routing.is_routed(m, keywords, kwrest))
    made = routing.made_by(path, args, keywords)
    return Opaque(made, third=third, routed=routed, carries=carries and third)


_BUILTIN_METHODS = ("builtins.dict.", "builtins.list.", "builtins.set.")
_BINDING = ("contextmanager", "cache", "context")


def _put_around(manager: Value, function: Value, *, is_async: bool) -> Value:
    """A function that a manager decorates; an asynchronous one only tells of its coroutine."""
    return function if is_async else Wrapped("context", function, False, (manager,))


def _context_decorator(m: Machine, cls: Value) -> str:
    """Whether instances of a class decorate functions: `sync`, `async`, or not at all."""
    for part in classes.mro_of(m, cls):
        if part == Ext("contextlib.ContextDecorator"):
            return "sync"
        if part == Ext("contextlib.AsyncContextDecorator"):
            return "async"
    return ""


def bind(m: Machine, method: Value, owner: Value) -> Value:
    """A class attribute read through an instance."""
    if isinstance(method, Wrapped):
        if method.kind == "staticmethod":
            return method.function
        if method.kind == "classmethod":
            cls = owner
            if isinstance(owner, Ref):
                obj = m.obj(owner)
                cls = obj.cls if isinstance(obj, InstanceObj) else owner
            return Bound(method.function, cls)
        if method.kind == "partialmethod":
            return Partial(Bound(method.function, owner), method.args, method.keywords)
        return Bound(method, owner) if method.kind in _BINDING else method
    if isinstance(method, Ref) and isinstance(m.obj(method), FunctionObj):
        return Bound(method, owner)
    if isinstance(method, Ext) and method.path.startswith(_BUILTIN_METHODS):
        return Bound(method, owner)
    if isinstance(method, Opaque) and isinstance(method.known, Decorated):
        function = bind(m, method.known.function, owner)
        return replace(method, known=Decorated(function, method.known.place))
    return method


# before the path of a function of the standard library, for what it made of a function: those that
# hand it back are modelled, so this is something else
PLAIN = "made by "


# -- local functions -------------------------------------------------------------------------


# -- instances -------------------------------------------------------------------------------


# -- decorators ------------------------------------------------------------------------------


def decorate(m: Machine, frame: Frame, decorator: Value, value: Value, node: ast.AST) -> Value:
    """`decorator(value)`, where an unknown decorator of a component gives a doubt."""
    from gitsync.check.python import library

    if isinstance(decorator, Unknown):
        return decorator
    component = isinstance(value, Ref) and isinstance(m.obj(value), ClassObj)
    if isinstance(decorator, Decorator):
        return standard.apply_decorator(m, frame, decorator, value, node)
    if isinstance(decorator, Opaque):
        library.notice(m, frame, decorator, [value], {}, None, None, node)
        m.may_raise(m.place(frame, node))
        if component:
            if reach.touches(m.state, value) or decorator.carries:
                return m.unknown(frame, node, "a class decorator cannot be looked into")
            return Opaque(f"{decorator.path}()", third=decorator.third)
        held = reach.touches(m.state, value)
        if held and decorator.path.startswith(PLAIN):  # an overload of a single dispatch
            m.store(REGISTRY, f"carries:{decorator.path.rpartition('.')[0]}", TRUE)
        known = Decorated(value, m.place(frame, node))
        path = f"decorated:{decorator.path}"
        return Opaque(path, third=decorator.third, carries=held, known=known)
    made = call(m, frame, decorator, [value], {}, node)
    if isinstance(made, Unknown) and _is_plain_decorator(m, decorator, value):
        made = Opaque("", carries=True)
    if isinstance(made, Opaque) and isinstance(decorator, Ext) and not component:
        top, _, _ = decorator.path.partition(".")
        if top in m.facts.stdlib and decorator.kind != "v":
            hidden = made.known
            if classes.is_abstract(m, value):
                hidden = Decorated(value, m.place(frame, node))
            return replace(made, path=f"{PLAIN}{decorator.path}", known=hidden)
    return made


def _is_plain_decorator(m: Machine, decorator: Value, value: Value) -> bool:
    """A function of the standard library that certainly gives no class for a function."""
    obj = m.obj(value) if isinstance(value, Ref) else None
    known = isinstance(decorator, Ext) and not decorator.path.endswith("operator.call")
    return isinstance(obj, FunctionObj) and known


def strings_of(m: Machine, frame: Frame, value: Value, node: ast.AST) -> list[str] | None:
    """The strings of a container if all are known."""
    items, rest = expressions.items_of(m, frame, value, node)
    if rest is not None:
        return None
    out: list[str] = []
    for item in items:
        if not isinstance(item, Const) or not isinstance(item.value, str):
            return None
        out.append(item.value)
    return out


def super_of(m: Machine, frame: Frame, args: list[Value], node: ast.AST) -> Value:
    """`super()` with or without arguments."""
    if len(args) >= 2:
        obj = m.obj(args[1]) if isinstance(args[1], Ref) else None
        made = obj.cls if isinstance(obj, InstanceObj) else args[1]
        lineage = classes.mro_of(m, made)
        known = isinstance(obj, InstanceObj | ClassObj) and classes.is_class(m, args[0])
        metas = obj.meta if isinstance(obj, ClassObj) else ()
        fits = args[0] in (*lineage, *metas)
        if known and not fits and all(isinstance(p, Ref | Ext) for p in lineage):
            reason = "super() is given an object that is no instance of the class"
            raise m.error(frame, node, "TypeError", reason)
        return Super(args[0], args[1])
    if frame.kind in ("class", "module") and not args:
        raise m.error(frame, node, "RuntimeError", "super() stands in no method")
    if frame.class_ref is not None and frame.first_arg is not None:
        return Super(frame.class_ref, frame.first_arg)
    if frame.first_arg is not None and isinstance(frame.first_arg, Ref):
        # Called while the class is being made: only a metaclass's own `__new__` does that.
        return Super(frame.first_arg, frame.first_arg)
    return Opaque("super()")
