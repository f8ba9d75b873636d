"""Expressions, in direct style: what is undecided goes through `machine.choose`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, cast

from gitsync.check.python import (
    attributes,
    backed,
    calls,
    classes,
    comprehensions,
    containers,
    definitions,
    generators,
    instances,
    invoking,
    keys,
    mappings,
    operators,
    protocols,
    sets,
    slices,
    specials,
    subscripts,
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
from gitsync.check.python.values import (
    FALSE,
    NONE,
    TRUE,
    Alias,
    Const,
    Coroutine,
    Ext,
    Managed,
    Opaque,
    PathValue,
    Ref,
    TupleValue,
    Unknown,
    Value,
)
from gitsync.check.python.worlds import Frame


def evaluate(m: Machine, frame: Frame, node: ast.expr) -> Value:
    """The value of an expression; never a `Union`."""
    rule = _RULES.get(type(node))
    if rule is None:
        return Opaque()
    value = rule(m, frame, node)
    return m.concrete(value)


def truth(m: Machine, frame: Frame, node: ast.expr) -> bool:
    """The truth of an expression; undecided ones are followed both ways."""
    if isinstance(node, ast.BoolOp):
        wanted = isinstance(node.op, ast.Or)
        for part in node.values:
            if truth(m, frame, part) is wanted:
                return wanted
        return not wanted
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not truth(m, frame, node.operand)
    return is_true(m, frame, evaluate(m, frame, node), node)


def is_true(m: Machine, frame: Frame, value: Value, node: ast.AST) -> bool:
    """The truth of a value."""
    known = known_truth(m, frame, value, node)
    if known is not None:
        return known
    return m.choose(2, m.place(frame, node), "the condition") == 0


def known_truth(m: Machine, frame: Frame, value: Value, node: ast.AST) -> bool | None:
    """The truth of a value if it is certain."""
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, TupleValue):
        return bool(value.items)
    value = mappings.snapshot(m, value)
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, ListObj):
            return True if obj.items else (None if obj.rest is not None else False)
        if isinstance(obj, DictObj):
            return True if obj.items else (None if obj.rest is not None else False)
        if isinstance(obj, InstanceObj):
            for name in ("__bool__", "__len__"):
                method = classes.class_attribute(m, obj.cls, name)
                if method is not None:
                    result = calls.call(m, frame, calls.bind(m, method, value), [], {}, node)
                    return known_truth(m, frame, result, node)
            inner = backed.plain(m, value)
            if inner != value:
                return known_truth(m, frame, inner, node)
            return None if classes.has_opaque_base(m, obj.cls) else True
        if isinstance(obj, ClassObj):
            for name in ("__bool__", "__len__"):
                method = classes.meta_attribute(m, obj, name)
                if method is not None:
                    result = calls.call(m, frame, calls.bind(m, method, value), [], {}, node)
                    return known_truth(m, frame, result, node)
        return True
    if isinstance(value, Ext):
        return True if value.kind in ("c", "f", "m") else None
    if isinstance(value, Alias | PathValue | Coroutine | Managed):
        return True
    return None


# -- literals --------------------------------------------------------------------------------


def _constant(m: Machine, frame: Frame, node: ast.Constant) -> Value:
    return Const(node.value)


def _name(m: Machine, frame: Frame, node: ast.Name) -> Value:
    return m.load(frame, node.id, node)


def _elements(m: Machine, frame: Frame, nodes: list[ast.expr]) -> tuple[list[Value], Value | None]:
    items: list[Value] = []
    rest: Value | None = None
    for node in nodes:
        if isinstance(node, ast.Starred):
            found, more = items_of(m, frame, evaluate(m, frame, node.value), node)
            items += found
            rest = more or rest
        else:
            items.append(evaluate(m, frame, node))
    return items, rest


def _tuple(m: Machine, frame: Frame, node: ast.Tuple) -> Value:
    items, rest = _elements(m, frame, node.elts)
    if rest is not None:
        return m.list_of(items, "tuple", rest)
    return TupleValue(tuple(items))


def _list(m: Machine, frame: Frame, node: ast.List) -> Value:
    items, rest = _elements(m, frame, node.elts)
    return m.list_of(items, "list", rest)


def _set(m: Machine, frame: Frame, node: ast.Set) -> Value:
    items, rest = _elements(m, frame, node.elts)
    for item in items:
        keys.require_hashable(m, frame, item, node)
    return sets.new_set(m, items, rest)


def _dict(m: Machine, frame: Frame, node: ast.Dict) -> Value:
    obj = DictObj({})
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        if key_node is None:
            whole = evaluate(m, frame, value_node)
            containers.absorb(m, obj, mappings.as_mapping(m, frame, whole, node) or whole)
            continue
        key = evaluate(m, frame, key_node)
        value = evaluate(m, frame, value_node)
        containers.put(m, frame, obj, key, value, value_node)
    return m.new(obj)


# -- operators -------------------------------------------------------------------------------


def _bool_op(m: Machine, frame: Frame, node: ast.BoolOp) -> Value:
    wanted = isinstance(node.op, ast.Or)
    value: Value = NONE
    for index, part in enumerate(node.values):
        value = evaluate(m, frame, part)
        if index < len(node.values) - 1 and is_true(m, frame, value, part) is wanted:
            return value
    return value


def _if_exp(m: Machine, frame: Frame, node: ast.IfExp) -> Value:
    return evaluate(m, frame, node.body if truth(m, frame, node.test) else node.orelse)


def _unary(m: Machine, frame: Frame, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        return TRUE if not truth(m, frame, node.operand) else FALSE
    value = evaluate(m, frame, node.operand)
    if isinstance(value, Const):
        try:
            if isinstance(node.op, ast.USub):
                return Const(-value.value)
            if isinstance(node.op, ast.UAdd):
                return Const(+value.value)
            return Const(~value.value)
        except TypeError:
            raise m.error(
                frame, node, "TypeError", "bad operand type for a unary operator"
            ) from None
    if isinstance(value, Unknown):
        return value
    names = {ast.USub: "__neg__", ast.UAdd: "__pos__", ast.Invert: "__invert__"}
    if protocols.lacks(m, value, names[type(node.op)]):
        raise m.error(frame, node, "TypeError", "bad operand type for a unary operator")
    return operators.operator_method(m, frame, names[type(node.op)], value, [], node) or Opaque()


def _bin_op(m: Machine, frame: Frame, node: ast.BinOp) -> Value:
    # Long sums lean to the left: walk down the spine instead of recursing.
    spine: list[ast.BinOp] = []
    left: ast.expr = node
    while isinstance(left, ast.BinOp):
        spine.append(left)
        left = left.left
    value = evaluate(m, frame, left)
    for part in reversed(spine):
        right = evaluate(m, frame, part.right)
        value = m.concrete(operators.binary(m, frame, part.op, value, right, part))
    return value


def _compare(m: Machine, frame: Frame, node: ast.Compare) -> Value:
    left = evaluate(m, frame, node.left)
    result: Value = TRUE
    for index, (op, right_node) in enumerate(zip(node.ops, node.comparators, strict=True)):
        right = evaluate(m, frame, right_node)
        last = index == len(node.ops) - 1
        found = operators.own_answer(m, frame, op, left, right, node)
        if found is not None and last:
            return found
        known = (
            operators.plainly_compared(m, frame, op, left, right, node)
            if found is None
            else known_truth(m, frame, found, node)
        )
        if last:
            if known is None:
                return Opaque("bool()")
            return TRUE if known else FALSE
        if known is None:
            known = m.choose(2, m.place(frame, node), "the comparison") == 0
        if not known:
            return FALSE
        result = TRUE
        left = right
    return result


# -- access ----------------------------------------------------------------------------------


def _attribute(m: Machine, frame: Frame, node: ast.Attribute) -> Value:
    # a.b.c.d… leans to the left too.
    spine: list[ast.Attribute] = []
    at: ast.expr = node
    while isinstance(at, ast.Attribute):
        spine.append(at)
        at = at.value
    value = evaluate(m, frame, at)
    for part in reversed(spine):
        value = m.concrete(attributes.get(m, frame, value, part.attr, part))
    return value


def _subscript(m: Machine, frame: Frame, node: ast.Subscript) -> Value:
    owner = evaluate(m, frame, node.value)
    if isinstance(node.slice, ast.Slice):
        bounds = [
            evaluate(m, frame, part) if part is not None else NONE
            for part in (node.slice.lower, node.slice.upper, node.slice.step)
        ]
        return slices.slice_of(m, frame, owner, bounds, node)
    key = evaluate(m, frame, node.slice)
    return subscripts.item(m, frame, owner, key, node)


def _call(m: Machine, frame: Frame, node: ast.Call) -> Value:
    return calls.evaluate_call(m, frame, node)


def _comprehension(m: Machine, frame: Frame, node: ast.expr) -> Value:
    return comprehensions.evaluate(m, frame, node)


def _lambda(m: Machine, frame: Frame, node: ast.Lambda) -> Value:
    return definitions.make_function(m, frame, node)


def _named(m: Machine, frame: Frame, node: ast.NamedExpr) -> Value:
    value = evaluate(m, frame, node.value)
    at = frame
    while at.kind == "comprehension":
        at = _outer(m, at)
    m.bind(at, node.target.id, value)
    return value


def _outer(m: Machine, frame: Frame) -> Frame:
    """The frame around a comprehension."""
    from dataclasses import replace

    if not frame.closure:
        return replace(frame, scope=None, kind="module")
    first = frame.closure[0]
    scope = m.state.heap[first]
    kind = scope.kind if isinstance(scope, Scope) else "function"
    return replace(frame, scope=first, closure=frame.closure[1:], kind=kind)


def _await(m: Machine, frame: Frame, node: ast.Await) -> Value:
    value = evaluate(m, frame, node.value)
    if isinstance(value, Coroutine):
        return invoking.run_coroutine(m, frame, value, node)
    if isinstance(value, Unknown):
        return value
    obj = m.obj(value) if isinstance(value, Ref) else None
    if isinstance(obj, InstanceObj) and classes.class_attribute(m, obj.cls, "__await__"):
        doubt = m.unknown(frame, node, "an object of its own kind is awaited")
        m.doubt(doubt)
        return doubt
    return Opaque(value.path + ".await") if isinstance(value, Opaque) else Opaque()


def _yield(m: Machine, frame: Frame, node: ast.Yield) -> Value:
    return _give(m, frame, NONE if node.value is None else evaluate(m, frame, node.value))


def _yield_from(m: Machine, frame: Frame, node: ast.YieldFrom) -> Value:
    value = evaluate(m, frame, node.value)
    if isinstance(value, Coroutine) and generators.is_generator(m, value):
        return generators.delegate(m, frame, value, node, lambda given: _give(m, frame, given))
    items, rest = items_of(m, frame, value, node)
    for item in items:
        _give(m, frame, item)
    if rest is not None:
        _give(m, frame, rest)
    return NONE


def _give(m: Machine, frame: Frame, value: Value) -> Value:
    """A generator hands a value to its consumer, and gets one back."""
    if frame.at_yield is not None:
        return frame.at_yield(value)
    if frame.yields is not None:
        collected = cast(ListObj, m.state.change(frame.yields))
        collected.items.append(value)
    return NONE


def _starred(m: Machine, frame: Frame, node: ast.Starred) -> Value:
    return evaluate(m, frame, node.value)


# -- comprehensions --------------------------------------------------------------------------


# -- iteration -------------------------------------------------------------------------------


def items_of(
    m: Machine, frame: Frame, value: Value, node: ast.AST
) -> tuple[list[Value], Value | None]:
    """The items that iterating gives, and what unknown further ones may be."""
    known = containers.known_items(m, frame, value, node)
    if known is not None:
        return known
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, InstanceObj):
            found = instances.iterate_instance(m, frame, value, obj, node)
            if found is not None:
                return found
        if isinstance(obj, ClassObj):
            return classes.iterate_class(m, frame, value, obj, node)
        if isinstance(obj, FunctionObj | ModuleObj):
            raise m.error(frame, node, "TypeError", "this value cannot be iterated over")
    if isinstance(value, Const) and not isinstance(value.value, str | bytes | tuple | frozenset):
        raise m.error(frame, node, "TypeError", "this value cannot be iterated over")
    if isinstance(value, Unknown):
        return [], value
    if isinstance(value, Opaque) and value.carries:
        return [], m.unknown(frame, node, "an object that was given a component is iterated over")
    m.may_raise(m.place(frame, node))
    if isinstance(value, Opaque):
        return [], Opaque(value.path + "[]", routed=value.routed)
    return [], Opaque()


# -- functions -------------------------------------------------------------------------------


# -- context managers ------------------------------------------------------------------------


_RULES: dict[type[ast.expr], Callable[[Machine, Frame, Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.JoinedStr: specials.joined_text,
    ast.BoolOp: _bool_op,
    ast.IfExp: _if_exp,
    ast.UnaryOp: _unary,
    ast.BinOp: _bin_op,
    ast.Compare: _compare,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Call: _call,
    ast.Lambda: _lambda,
    ast.NamedExpr: _named,
    ast.Await: _await,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
    ast.Starred: _starred,
    ast.ListComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _comprehension,
}
