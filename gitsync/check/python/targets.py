"""Assignment targets: names, attributes, items, unpacking; augmented assignment and `del`."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import (
    attributes,
    container_methods,
    containers,
    expressions,
    operators,
    slices,
    storing,
    subscripts,
)
from gitsync.check.python.heap import ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import Opaque, Ref, Value
from gitsync.check.python.worlds import Frame


def assign(m: Machine, frame: Frame, target: ast.expr, value: Value) -> None:
    """Bind a value to a target."""
    if isinstance(target, ast.Name):
        at = frame
        if frame.kind == "comprehension" and frame.scope is not None:
            m.store(frame.scope, target.id, value)
            return
        m.bind(at, target.id, value)
    elif isinstance(target, ast.Attribute):
        owner = expressions.evaluate(m, frame, target.value)
        storing.put(m, frame, owner, target.attr, value, target)
    elif isinstance(target, ast.Subscript):
        owner = expressions.evaluate(m, frame, target.value)
        if isinstance(target.slice, ast.Slice):
            slices.set_slice(m, frame, owner, value, target)
            return
        key = expressions.evaluate(m, frame, target.slice)
        subscripts.set_item(m, frame, owner, key, value, target)
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(m, frame, target, value)
    elif isinstance(target, ast.Starred):
        assign(m, frame, target.value, value)


def _unpack(m: Machine, frame: Frame, target: ast.Tuple | ast.List, value: Value) -> None:
    items, rest = expressions.items_of(m, frame, value, target)
    stars = [i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)]
    count = len(target.elts)
    if rest is not None:
        for index, part in enumerate(target.elts):
            if isinstance(part, ast.Starred):
                inner = m.list_of(list(items[index:]), "list", rest)
                assign(m, frame, part.value, inner)
            else:
                known = index < len(items) and not any(s < index for s in stars)
                assign(m, frame, part, items[index] if known else rest)
        return
    if (stars and len(items) < count - 1) or (not stars and len(items) != count):
        raise m.error(frame, target, "ValueError", "the number of values to unpack does not fit")
    if not stars:
        for part, item in zip(target.elts, items, strict=True):
            assign(m, frame, part, item)
        return
    star = stars[0]
    after = count - star - 1
    for part, item in zip(target.elts[:star], items[:star], strict=True):
        assign(m, frame, part, item)
    middle = items[star : len(items) - after]
    starred = cast(ast.Starred, target.elts[star])
    assign(m, frame, starred.value, m.list_of(list(middle)))
    for part, item in zip(target.elts[star + 1 :], items[len(items) - after :], strict=True):
        assign(m, frame, part, item)


def augment(m: Machine, frame: Frame, node: ast.AugAssign) -> None:
    """`target op= value`."""
    load: ast.expr
    target = node.target
    if isinstance(target, ast.Name):
        old = m.concrete(m.load(frame, target.id, target))
        value = expressions.evaluate(m, frame, node.value)
        m.bind(frame, target.id, combined(m, frame, node.op, old, value, node))
        return
    owner = expressions.evaluate(m, frame, target.value)
    if isinstance(target, ast.Attribute):
        old = m.concrete(attributes.get(m, frame, owner, target.attr, target))
        value = expressions.evaluate(m, frame, node.value)
        storing.put(
            m, frame, owner, target.attr, combined(m, frame, node.op, old, value, node), target
        )
        return
    load = target.slice
    if isinstance(load, ast.Slice):
        slices.set_slice(m, frame, owner, Opaque(), target)
        return
    key = expressions.evaluate(m, frame, load)
    old = m.concrete(subscripts.item(m, frame, owner, key, target))
    value = expressions.evaluate(m, frame, node.value)
    subscripts.set_item(m, frame, owner, key, combined(m, frame, node.op, old, value, node), target)


def combined(
    m: Machine, frame: Frame, op: ast.operator, old: Value, value: Value, node: ast.AST
) -> Value:
    """The new value; lists and dicts are changed in place, as Python does."""
    if isinstance(old, Ref):
        obj = m.obj(old)
        if isinstance(obj, ListObj) and obj.kind in ("list", "deque") and isinstance(op, ast.Add):
            items, rest = expressions.items_of(m, frame, value, node)
            changed = cast(ListObj, m.state.change(old.oid))
            if len(changed.items) + len(items) > containers.MAX_ITEMS:
                rest = containers.too_many(m, [*changed.items[:9], *items[:9]])
                changed.items, items = [], []
            changed.items.extend(items)
            changed.rest = rest or changed.rest
            container_methods.trim(changed)
            return old
        if containers.update_in_place(m, old, op, value):
            return old
        name = f"__i{operators._OPERATOR_NAMES[type(op)]}__"
        found = operators.operator_method(m, frame, name, old, [value], node)
        if found is not None:
            return found
    return operators.binary(m, frame, op, old, value, node)


def delete(m: Machine, frame: Frame, target: ast.expr) -> None:
    """`del target`."""
    if isinstance(target, ast.Name):
        m.unbind(frame, target.id, target)
    elif isinstance(target, ast.Attribute):
        owner = expressions.evaluate(m, frame, target.value)
        storing.remove(m, frame, owner, target.attr, target)
    elif isinstance(target, ast.Subscript):
        owner = expressions.evaluate(m, frame, target.value)
        if isinstance(target.slice, ast.Slice):
            slices.remove_slice(m, frame, owner, target)
            return
        key = expressions.evaluate(m, frame, target.slice)
        subscripts.remove_item(m, frame, owner, key, target)
    elif isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            delete(m, frame, part)
