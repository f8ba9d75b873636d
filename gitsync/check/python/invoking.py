"""Calling the repository's own functions: binding arguments, executing the body."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from gitsync.check.python import (
    expressions,
    reach,
)
from gitsync.check.python.heap import DictObj, FunctionObj, ListObj, Namespace, Scope
from gitsync.check.python.machine import Machine
from gitsync.check.python.scopes import owned
from gitsync.check.python.values import NONE, Const, Coroutine, Opaque, Ref, TupleValue, Value
from gitsync.check.python.worlds import MAX_DEPTH, Frame, Kind, Outcome, Raised

SAME_FUNCTION = 12


def call_function(
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
    """Call a function of the repository; generators and coroutines wait to be run."""
    if obj.is_generator or obj.is_async:
        bound = bind_arguments(m, frame, obj, args, keywords, node, rest, kwrest)
        del bound
        extra = args if rest is None else [*args, rest]
        cell = m.new(Namespace()).oid if obj.is_generator else 0
        return Coroutine(ref, tuple(extra), tuple(keywords.items()), cell)
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
    at_yield: Callable[[Value], Value] | None = None,
) -> tuple[Value, list[Value]]:
    """Execute a function's body; its result and what it yielded.

    With `at_yield`, that is called where the body yields, and nothing is gathered.
    """
    me = id(obj.node)
    again = [size for node_id, size in m.calling if node_id == me]
    wandering = len(again) >= SAME_FUNCTION and len(m.state.path) > again[0]
    if m.depth >= MAX_DEPTH or wandering:
        if not wandering and m.overflow is None:
            m.overflow = m.place(frame, node)
        return _not_worked_out(m, frame, ref, obj, args, keywords, node), [Opaque()]
    values = bind_arguments(m, frame, obj, args, keywords, node, rest, kwrest)
    if m.rehearsal is not None:
        m.rehearsal.entered[obj.node] = obj.path
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
        at_yield=at_yield,
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
