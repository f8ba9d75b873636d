"""Calls: local functions are worked out, classes instantiated, library functions modelled."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import cast

from gitsync.check.python import (
    classes,
    dynamic,
    expressions,
    instances,
    reach,
    standard,
)
from gitsync.check.python.facts import HARBOR_BACKEND, LOCAL_BACKEND
from gitsync.check.python.machine import (
    MAX_DEPTH,
    BackendCall,
    Frame,
    Kind,
    Machine,
    Outcome,
    Raised,
)
from gitsync.check.python.scopes import owned
from gitsync.check.python.values import (
    NONE,
    Alias,
    Bound,
    ClassObj,
    Const,
    Coroutine,
    Decorator,
    DictObj,
    Ext,
    FunctionObj,
    InstanceObj,
    ListObj,
    Method,
    Opaque,
    Partial,
    Ref,
    Scope,
    Super,
    TupleValue,
    Unknown,
    Value,
    Wrapped,
)

SAME_FUNCTION = 12


def evaluate_call(m: Machine, frame: Frame, node: ast.Call) -> Value:
    """A call expression."""
    from gitsync.check.python import library

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
    if isinstance(function, Ext | Opaque):
        library.notice(m, frame, function, args, keywords, rest or kwrest, node)
    return call(m, frame, function, args, keywords, node, rest=rest, kwrest=kwrest)


def spread(
    m: Machine, frame: Frame, value: Value, keywords: dict[str, Value], node: ast.AST
) -> Value | None:
    """`**value` into keyword arguments; what unknown further ones may be."""
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, DictObj):
            for key, item in obj.items.items():
                if isinstance(key, Const) and isinstance(key.value, str):
                    keywords[key.value] = m.concrete(item)
            return obj.rest
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
    if isinstance(function, Unknown):
        if any(reach.touches(m.state, v) for v in (*args, *keywords.values())):
            m.doubt(function)
        return function
    if isinstance(function, Ref):
        obj = m.obj(function)
        if isinstance(obj, FunctionObj):
            return _call_function(m, frame, function, obj, args, keywords, node, rest, kwrest)
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
            if classes.has_opaque_base(m, obj.cls):
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
    if isinstance(function, Method):
        return methods.call_method(m, frame, function, args, keywords, node)
    if isinstance(function, Ext):
        return library.call_external(m, frame, function, args, keywords, node, rest or kwrest)
    if isinstance(function, Opaque):
        m.may_raise(m.place(frame, node))
        if function.carries:
            return m.unknown(frame, node, "an object that was given a component class is called")
        return opaque_result(m, frame, function.path, args, keywords, node, like=function)
    if isinstance(function, Alias):
        return call(m, frame, function.origin, args, keywords, node, rest=rest, kwrest=kwrest)
    if isinstance(function, Decorator):
        return decorate(m, frame, function, args[0] if args else NONE, node)
    if isinstance(function, Wrapped):
        if function.kind in ("staticmethod", "contextmanager", "cache"):
            result = call(
                m, frame, function.function, args, keywords, node, rest=rest, kwrest=kwrest
            )
            if function.kind == "contextmanager":
                items, more = expressions.items_of(m, frame, result, node)
                return m.list_of(items[:1] or ([more] if more else []), "manager")
            return result
        raise m.error(frame, node, "TypeError", "this value cannot be called")
    raise m.error(frame, node, "TypeError", "this value cannot be called")


URL_WORDS = ("base_url", "api_base", "azure_endpoint", "endpoint_url", "server_url")


def is_routed(keywords: dict[str, Value]) -> bool:
    """True if the call names a URL that is not written down literally."""
    return any(word in keywords and not isinstance(keywords[word], Const) for word in URL_WORDS)


def opaque_result(
    m: Machine,
    frame: Frame,
    path: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    *,
    like: Opaque | None = None,
) -> Value:
    """What a library that cannot be looked into gives: no component, but it may hold one."""
    carries = any(reach.touches(m.state, v) for v in (*args, *keywords.values()))
    third = like is not None and like.third
    routed = like is not None and (like.routed or is_routed(keywords))
    return Opaque(f"{path}()", third=third, routed=routed, carries=carries and third)


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
        return Bound(method, owner) if method.kind in ("contextmanager", "cache") else method
    if isinstance(method, Ref) and isinstance(m.obj(method), FunctionObj):
        return Bound(method, owner)
    return method


# -- local functions -------------------------------------------------------------------------


def _call_function(
    m: Machine,
    frame: Frame,
    ref: Ref,
    obj: FunctionObj,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    rest: Value | None,
    kwrest: Value | None,
) -> Value:
    if obj.is_generator or obj.is_async:
        bound = bind_arguments(m, frame, obj, args, keywords, node, rest, kwrest)
        del bound
        extra = args if rest is None else [*args, rest]
        return Coroutine(ref, tuple(extra), tuple(keywords.items()))
    return run_function(m, frame, ref, obj, args, keywords, node, rest, kwrest)[0]


def run_function(
    m: Machine,
    frame: Frame,
    ref: Ref,
    obj: FunctionObj,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    rest: Value | None = None,
    kwrest: Value | None = None,
) -> tuple[Value, list[Value]]:
    """Execute a function's body; its result and what it yielded."""
    me = id(obj.node)
    again = [size for node_id, size in m.calling if node_id == me]
    wandering = len(again) >= SAME_FUNCTION and len(m.state.path) > again[0]
    if m.depth >= MAX_DEPTH or wandering:
        if not wandering and m.overflow is None:
            m.overflow = m.place(frame, node)
        return _not_worked_out(m, frame, ref, obj, args, keywords, node), [Opaque()]
    values = bind_arguments(m, frame, obj, args, keywords, node, rest, kwrest)
    info = owned(obj.node)
    scope = Scope("function", info.names)
    scope.declared_global = info.declared_global
    scope.declared_nonlocal = info.declared_nonlocal
    scope.values = values
    scope_ref = m.new(scope)
    yields = m.list_of([]) if obj.is_generator else None
    first = None
    parameters = [*obj.node.args.posonlyargs, *obj.node.args.args]
    if parameters:
        first = values.get(parameters[0].arg)
    elif obj.node.args.vararg is not None:
        star = values.get(obj.node.args.vararg.arg)
        if isinstance(star, TupleValue) and star.items:
            first = star.items[0]
    class_ref = None
    if obj.owner is not None:
        body_scope = m.state.heap.get(obj.owner)
        class_ref = body_scope.class_ref if isinstance(body_scope, Scope) else None
    module = m.space(obj.module)
    inner = Frame(
        module=obj.module,
        path=obj.path,
        scope=scope_ref.oid,
        closure=obj.closure,
        prefix=f"{obj.qualname}.<locals>.",
        kind="function",
        function=ref,
        first_arg=first,
        class_ref=class_ref or frame_class(m, obj),
        lazy_annotations=bool(module.values.get("\0lazy")),
        yields=yields.oid if yields is not None else None,
    )
    at = m.at
    m.depth += 1
    m.calling.append((me, len(m.state.path)))
    try:
        result = _body(m, inner, obj, at)
    finally:
        m.depth -= 1
        m.calling.pop()
    m.at = at
    given: list[Value] = []
    if yields is not None:
        collected = cast(ListObj, m.obj(yields))
        given = list(collected.items)
    return result, given


def frame_class(m: Machine, obj: FunctionObj) -> Value | None:
    """The class whose body encloses a nested function."""
    for oid in obj.closure:
        scope = m.state.heap.get(oid)
        if isinstance(scope, Scope) and scope.kind == "class" and scope.class_ref is not None:
            return scope.class_ref
    return None


def _body(m: Machine, inner: Frame, obj: FunctionObj, at: object) -> Value:
    from gitsync.check.python import statements

    node = obj.node
    if isinstance(node, ast.Lambda):
        return expressions.evaluate(m, inner, node.body)
    body = node.body
    state = m.state
    place = m.at

    def run() -> list[Outcome]:
        outcomes = statements.block(m, inner, state, body)
        return m.join([_returned(o) for o in outcomes])

    outcome = m.pick_outcome(run, place)
    if outcome.raised is not None:
        raised = outcome.raised
        raise Raised(
            raised.value,
            raised.place,
            raised.reason,
            implicit=raised.implicit,
            refused=raised.refused,
        )
    return outcome.value or NONE


def _returned(outcome: Outcome) -> Outcome:
    if outcome.kind is Kind.NORMAL:
        return replace(outcome, kind=Kind.RETURN, value=NONE)
    return outcome


def _not_worked_out(
    m: Machine,
    frame: Frame,
    ref: Ref,
    obj: FunctionObj,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> Value:
    if any(reach.touches(m.state, v) for v in (ref, *args, *keywords.values())):
        doubt = m.unknown(frame, node, f"the call of {obj.name} cannot be worked out")
        for name in owned(obj.node).declared_global:
            m.store(obj.module, name, doubt)
        return doubt
    return Opaque()


def bind_arguments(
    m: Machine,
    frame: Frame,
    obj: FunctionObj,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    rest: Value | None,
    kwrest: Value | None,
) -> dict[str, Value]:
    """Parameters and their values; a call that cannot fit raises TypeError."""
    spec = obj.node.args
    positional = [*spec.posonlyargs, *spec.args]
    values: dict[str, Value] = {}
    left = dict(keywords)
    only = {a.arg for a in spec.posonlyargs}
    for parameter, arg in zip(positional, args, strict=False):
        values[parameter.arg] = arg
    extra = args[len(positional) :]
    if extra and spec.vararg is None:
        raise m.error(frame, node, "TypeError", f"{obj.name}() is given too many arguments")
    if spec.vararg is not None:
        more = TupleValue(tuple(extra))
        values[spec.vararg.arg] = more if rest is None else m.list_of(extra, "tuple", rest)
    for parameter in (*spec.args, *spec.kwonlyargs):
        if parameter.arg in left:
            if parameter.arg in values:
                raise m.error(
                    frame, node, "TypeError", f"{obj.name}() gets '{parameter.arg}' twice"
                )
            values[parameter.arg] = left.pop(parameter.arg)
    defaults = dict(
        zip(
            [a.arg for a in positional[len(positional) - len(obj.defaults) :]],
            obj.defaults,
            strict=True,
        )
    )
    defaults.update(obj.kwdefaults)
    unknown = kwrest if kwrest is not None else rest
    for parameter in (*positional, *spec.kwonlyargs):
        if parameter.arg in values:
            continue
        default = defaults.get(parameter.arg)
        if unknown is not None and (kwrest is not None or parameter in positional):
            harmful = reach.touches(m.state, unknown) or (
                default is not None and reach.touches(m.state, default)
            )
            if harmful or default is None:
                values[parameter.arg] = (
                    unknown
                    if not harmful
                    else m.unknown(frame, node, "the arguments of this call are not known")
                )
            else:
                values[parameter.arg] = Opaque()
        elif default is not None:
            values[parameter.arg] = default
        else:
            raise m.error(
                frame, node, "TypeError", f"{obj.name}() lacks the argument '{parameter.arg}'"
            )
    if spec.kwarg is not None:
        values[spec.kwarg.arg] = m.new(DictObj({Const(k): v for k, v in left.items()}, kwrest))
    elif left and not (only & set(left)):
        name = next(iter(left))
        raise m.error(frame, node, "TypeError", f"{obj.name}() takes no argument '{name}'")
    return values


def run_coroutine(m: Machine, frame: Frame, value: Coroutine, node: ast.AST) -> Value:
    """Await a local coroutine."""
    function = value.function
    obj = m.obj(function) if isinstance(function, Ref) else None
    if not isinstance(obj, FunctionObj) or not isinstance(function, Ref) or obj.is_generator:
        return Opaque()
    return run_function(m, frame, function, obj, list(value.args), dict(value.keywords), node)[0]


def run_generator(
    m: Machine, frame: Frame, value: Coroutine, node: ast.AST
) -> tuple[list[Value], Value | None]:
    """What a generator gives."""
    function = value.function
    obj = m.obj(function) if isinstance(function, Ref) else None
    if not isinstance(obj, FunctionObj) or not isinstance(function, Ref) or not obj.is_generator:
        return [], Opaque()
    _, given = run_function(m, frame, function, obj, list(value.args), dict(value.keywords), node)
    return given, None


# -- instances -------------------------------------------------------------------------------


# -- decorators ------------------------------------------------------------------------------


def decorate(m: Machine, frame: Frame, decorator: Value, value: Value, node: ast.AST) -> Value:
    """`decorator(value)`, where an unknown decorator of a component gives a doubt."""
    from gitsync.check.python import library

    if isinstance(decorator, Unknown):
        return decorator
    component = isinstance(value, Ref) and isinstance(m.obj(value), ClassObj)
    if isinstance(decorator, Ext | Opaque):
        library.notice(m, frame, decorator, [value], {}, None, node)
    if isinstance(decorator, Decorator):
        return standard.apply_decorator(m, frame, decorator, value, node)
    if isinstance(decorator, Opaque):
        m.may_raise(m.place(frame, node))
        if component:
            if reach.touches(m.state, value) or decorator.carries:
                return m.unknown(frame, node, "a class decorator cannot be looked into")
            return Opaque(f"{decorator.path}()", third=decorator.third)
        return Opaque(f"decorated:{decorator.path}", third=decorator.third)
    return call(m, frame, decorator, [value], {}, node)


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
        return Super(args[0], args[1])
    if frame.class_ref is not None and frame.first_arg is not None:
        return Super(frame.class_ref, frame.first_arg)
    if frame.first_arg is not None and isinstance(frame.first_arg, Ref):
        # Called while the class is being made: only a metaclass's own `__new__` does that.
        return Super(frame.first_arg, frame.first_arg)
    return Opaque("super()")


def record_backend(
    m: Machine,
    frame: Frame,
    path: str,
    keywords: dict[str, Value],
    unknown: Value | None,
    node: ast.AST,
) -> None:
    """Remember a call of an SDK backend for the warnings that are given at the end."""
    if path not in (LOCAL_BACKEND, HARBOR_BACKEND):
        return
    places: dict[str, ast.AST] = {}
    if isinstance(node, ast.Call):
        places = {k.arg: k.value for k in node.keywords if k.arg is not None}
    m.seen.backends.append(
        BackendCall(
            path,
            m.place(frame, node),
            {
                name: (value, m.place(frame, places.get(name, node)))
                for name, value in keywords.items()
            },
            unknown is None,
            m.state.fork() if m.speculative or keywords else m.state,
            m.origin,
        )
    )
