"""Slices: reading, setting and deleting several items at once."""

from __future__ import annotations

import ast
from typing import Any, cast

from gitsync.check.python import backed, containers, expressions, reach
from gitsync.check.python.heap import ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.subscripts import item_method
from gitsync.check.python.values import NONE, Const, Ext, Opaque, Ref, TupleValue, Unknown, Value
from gitsync.check.python.worlds import Frame


def slice_of(m: Machine, frame: Frame, owner: Value, bounds: list[Value], node: ast.AST) -> Value:
    """`owner[a:b:c]`."""
    if isinstance(owner, Unknown):
        return owner
    if isinstance(owner, Ext) and owner.path == "sys.version_info":
        return TupleValue((Const(3), Const(m.minor))) if bounds[1] == Const(2) else owner
    cut_out = m.unknown(frame, node, "an object is given a slice")
    found = item_method(m, frame, owner, "__getitem__", [cut_out], node)
    if found is not None:
        return Opaque() if found == cut_out and not reach.touches(m.state, owner) else found
    owner = backed.plain(m, owner)
    numbers: list[Any] = [b.value if isinstance(b, Const) else "?" for b in bounds]
    if all(n is None or isinstance(n, int) for n in numbers) and numbers[2] != 0:
        cut = slice(*numbers)
        if isinstance(owner, TupleValue):
            return TupleValue(owner.items[cut])
        if isinstance(owner, Const) and isinstance(owner.value, str | bytes):
            return Const(owner.value[cut])
        listed = containers._list(m, owner)
        if listed is not None and listed.rest is None:
            return m.list_of(list(listed.items[cut]), listed.kind)
    if reach.touches(m.state, owner):
        return m.list_of([], "list", m.unknown(frame, node, "the slice is not known"))
    return Opaque()


def set_slice(m: Machine, frame: Frame, owner: Value, value: Value, node: ast.AST) -> None:
    """`owner[a:b] = value`; with bounds that are not known the list is not known any more."""
    cut_out = m.unknown(frame, node, "an object is given a slice")
    if item_method(m, frame, owner, "__setitem__", [cut_out, value], node) is not None:
        return
    owner = backed.plain(m, owner)
    if isinstance(owner, Ref):
        obj = m.obj(owner)
        if isinstance(obj, ListObj):
            extra = expressions.items_of(m, frame, value, node)
            changed = cast(ListObj, m.state.change(owner.oid))
            bounds = _bounds(m, frame, node)
            if bounds is not None and changed.rest is None and extra[1] is None:
                try:
                    changed.items[bounds] = extra[0]
                except ValueError:
                    raise m.error(
                        frame, node, "ValueError", "the slice has another length"
                    ) from None
                return
            known = [*obj.items, *extra[0]] + [r for r in (obj.rest, extra[1]) if r is not None]
            changed.rest = containers.blurred(m, frame, known, node)
            changed.items = []


def remove_slice(m: Machine, frame: Frame, owner: Value, node: ast.AST) -> None:
    """`del owner[a:b:c]`."""
    cut_out = m.unknown(frame, node, "an object is given a slice")
    if item_method(m, frame, owner, "__delitem__", [cut_out], node) is not None:
        return
    owner = backed.plain(m, owner)
    obj = m.obj(owner) if isinstance(owner, Ref) else None
    if isinstance(owner, Ref) and isinstance(obj, ListObj):
        bounds = _bounds(m, frame, node)
        changed = cast(ListObj, m.state.change(owner.oid))
        if bounds is not None and changed.rest is None:
            del changed.items[bounds]
            return
        known = [*changed.items] + ([changed.rest] if changed.rest is not None else [])
        changed.rest = containers.blurred(m, frame, known, node)
        changed.items = []


def _bounds(m: Machine, frame: Frame, node: ast.AST) -> slice | None:
    """The slice that a target names, if its bounds are known."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Slice):
        return None
    numbers: list[int | None] = []
    for part in (node.slice.lower, node.slice.upper, node.slice.step):
        value = NONE if part is None else expressions.evaluate(m, frame, part)
        if not isinstance(value, Const) or not isinstance(value.value, int | None):
            return None
        numbers.append(value.value)
    return slice(*numbers) if numbers[2] != 0 else None
