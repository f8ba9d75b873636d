"""What a value certainly cannot do: its type is wholly known and lacks a special method."""

from __future__ import annotations

import ast
from collections.abc import ItemsView, KeysView

from gitsync.check.python import calls, classes, keys
from gitsync.check.python.heap import (
    ClassObj,
    DictObj,
    FunctionObj,
    InstanceObj,
    ListObj,
    ModuleObj,
)
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import NONE, Const, Ext, Ref, TupleValue, Value
from gitsync.check.python.worlds import Frame

_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")
MAX_SHOWN = 200
_KINDS: dict[str, type] = {
    "list": list,
    "set": set,
    "frozenset": frozenset,
    "keys": KeysView,
    "items": ItemsView,
}


def whole_class(m: Machine, value: Value) -> ClassObj | None:
    """The class of an instance, if it and all its bases are the repository's own."""
    obj = m.obj(value) if isinstance(value, Ref) else None
    if not isinstance(obj, InstanceObj) or not isinstance(obj.cls, Ref):
        return None
    lineage = classes.mro_of(m, obj.cls)
    for part in lineage:
        found = m.obj(part) if isinstance(part, Ref) else None
        if not isinstance(found, ClassObj) or found.taint is not None or found.doubt is not None:
            return None
    cls = m.obj(obj.cls)
    return cls if isinstance(cls, ClassObj) else None


def _type_of(m: Machine, value: Value) -> type | None:
    if isinstance(value, Const):
        return type(value.value)
    if isinstance(value, TupleValue):
        return tuple
    obj = m.obj(value) if isinstance(value, Ref) else None
    if isinstance(obj, ListObj):
        return _KINDS.get(obj.kind)
    if isinstance(obj, DictObj):
        return dict
    if isinstance(obj, FunctionObj):
        return type(whole_class)
    return type(ast) if isinstance(obj, ModuleObj) else None


def lacks(m: Machine, value: Value, *names: str) -> bool:
    """True if the value certainly has none of these special methods."""
    kind = _type_of(m, value)
    if kind is not None:
        return not any(hasattr(kind, n) for n in names)
    if whole_class(m, value) is None:
        return False
    cls = classes.class_of(m, value)
    return all(classes.class_attribute(m, cls, n) is None for n in names)


def cannot_operate(m: Machine, name: str, left: Value, right: Value) -> bool:
    """True if a binary operator certainly refuses the two values."""
    if name == "add" and cannot_join(m, left, right):
        return True
    sides = (lacks(m, left, f"__{name}__"), lacks(m, right, f"__r{name}__"))
    if all(sides):
        return True
    # A built-in type does not know the repository's classes, but any object can be formatted.
    mine, theirs = _type_of(m, left), _type_of(m, right)
    if mine is not None and theirs is not None and {mine, theirs} & {set, frozenset}:
        return not {mine, theirs} <= {set, frozenset, KeysView, ItemsView}
    if mine is None and theirs is not None:
        return sides[0] and whole_class(m, left) is not None and lacks(m, left, "__index__")
    if theirs is None and mine is not None and not (name == "mod" and mine in (str, bytes)):
        return sides[1] and whole_class(m, right) is not None and lacks(m, right, "__index__")
    return False


def cannot_join(m: Machine, left: Value, right: Value) -> bool:
    """True for sequences of two kinds, which `+` does not put together."""
    kinds = [_type_of(m, v) for v in (left, right)]
    if not all(k in (list, tuple, str, bytes) for k in kinds):
        return False
    return kinds[0] is not kinds[1]


_ORDERED: dict[type, str] = {
    bool: "number",
    int: "number",
    float: "number",
    str: "str",
    bytes: "bytes",
}
_ORDERED_TOO: dict[type, str] = {
    list: "list",
    tuple: "tuple",
    set: "set",
    frozenset: "set",
    KeysView: "set",
    ItemsView: "set",
}


def cannot_order(m: Machine, left: Value, right: Value) -> bool:
    """True if `<` certainly refuses the two values."""
    kinds = [_order_kind(m, v) for v in (left, right)]
    if None in kinds:
        return False
    return kinds[0] != kinds[1] or kinds[0] == "none"


def _order_kind(m: Machine, value: Value) -> str | None:
    kind = _type_of(m, value)
    if kind is not None:
        return _ORDERED.get(kind) or _ORDERED_TOO.get(kind) or "none"
    obj = m.obj(value) if isinstance(value, Ref) else None
    if isinstance(obj, ClassObj) and not any(isinstance(part, Ref) for part in obj.meta):
        return "none" if all(isinstance(p, Ref | Ext) for p in obj.mro) else None
    if isinstance(value, Ext):
        return "none" if value.kind in "cf" else None
    cls = whole_class(m, value)
    if cls is None or keys.is_ordered(m, classes.class_of(m, value)):
        return None
    return "none" if lacks(m, value, *_ORDER) else None


def cannot_contain(m: Machine, owner: Value, item: Value) -> bool:
    """True if `item in owner` certainly fails."""
    if isinstance(owner, Const) and isinstance(owner.value, str):
        return isinstance(item, Const) and not isinstance(item.value, str)
    return lacks(m, owner, "__contains__", "__iter__", "__getitem__")


def has_no_hash(m: Machine, value: Value) -> bool:
    """True for instances of a class that defines equality but no hash, or hash as None."""
    obj = m.obj(value) if isinstance(value, Ref) else None
    if isinstance(obj, InstanceObj) and classes.class_attribute(m, obj.cls, "__hash__") == NONE:
        return True
    if whole_class(m, value) is None:
        return False
    for part in classes.mro_of(m, classes.class_of(m, value)):
        found = m.obj(part) if isinstance(part, Ref) else None
        if not isinstance(found, ClassObj) or found.fields is not None:
            return False
        if "__hash__" in found.values:
            return found.values["__hash__"] == NONE
        if "__eq__" in found.values:
            return True
    return False


def own_text(
    m: Machine, frame: Frame, value: Value, node: ast.AST, *, name: str = "__str__"
) -> Value | None:
    """What the `__str__` or `__repr__` of the repository's own class gives.

    The texts of what a container holds are asked for as well.
    """
    obj = m.obj(value) if isinstance(value, Ref) else None
    if isinstance(obj, InstanceObj):
        names = [name] if name == "__repr__" else [name, "__repr__"]
        if whole_class(m, value) is None:
            names = [name]  # a base that cannot be looked into may bring the other one
        for each in names:
            method = classes.class_attribute(m, obj.cls, each)
            if method is not None:
                return m.concrete(calls.call(m, frame, calls.bind(m, method, value), [], {}, node))
    elif isinstance(obj, ListObj | DictObj) or isinstance(value, TupleValue):
        _show_items(m, frame, value, obj, node, set())
    return None


def show(m: Machine, frame: Frame, value: Value, node: ast.AST) -> None:
    """Ask for the text of a value, or of each item of a tuple, as the `%` operator does."""
    for each in value.items if isinstance(value, TupleValue) else (value,):
        own_text(m, frame, m.concrete(each), node)


def _show_items(
    m: Machine, frame: Frame, value: Value, obj: object, node: ast.AST, seen: set[int]
) -> None:
    held: list[Value] = []
    if isinstance(value, TupleValue):
        held = list(value.items)
    elif isinstance(obj, DictObj):
        held = [part for pair in obj.items.items() for part in pair]
    elif isinstance(obj, ListObj):
        held = list(obj.items)
    for item in held[:MAX_SHOWN]:
        found = m.obj(item) if isinstance(item, Ref) else None
        if isinstance(found, InstanceObj):
            own_text(m, frame, item, node, name="__repr__")
        elif isinstance(item, TupleValue) or isinstance(found, ListObj | DictObj):
            if isinstance(item, Ref):
                if item.oid in seen:
                    continue
                seen.add(item.oid)
            _show_items(m, frame, item, found, node, seen)
