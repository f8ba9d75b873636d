"""Instances of the repository's own subclasses of `dict`, `list` and the like.

Beside their attributes they hold a plain container, kept under a name that no code can write. What
the class does not define itself is done by that container.
"""

from __future__ import annotations

import ast
import collections
from collections.abc import Sequence
from typing import cast

from gitsync.check.python import classes
from gitsync.check.python.heap import DictObj, InstanceObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import Ext, Method, Ref, TupleValue, Unknown, Value
from gitsync.check.python.worlds import Frame

_DATA = "\0data"
_KINDS = {
    "builtins.dict": "dict",
    "collections.UserDict": "dict",
    "builtins.list": "list",
    "collections.UserList": "list",
    "builtins.set": "set",
    "collections.deque": "deque",
}
_FILLING = {"dict": "update", "set": "update", "list": "extend", "deque": "extend"}
_TYPES: dict[str, type] = {
    "dict": dict,
    "list": list,
    "set": set,
    "deque": collections.deque,
}


def kind_of(m: Machine, cls: Value) -> str:
    """Which container an instance of a class holds; empty for none."""
    lineage = classes.mro_of(m, cls)
    if any(not isinstance(p, Ref | Ext) for p in lineage):
        return ""
    found = [_KINDS[p.path] for p in lineage if isinstance(p, Ext) and p.path in _KINDS]
    return found[0] if found else ""


def equip(
    m: Machine, frame: Frame, made: Ref, cls: Value, args: Sequence[Value], node: ast.AST
) -> None:
    """Give a new instance its container; a tuple gets its items from `__new__`."""
    from gitsync.check.python import expressions, named_tuples

    kind = kind_of(m, cls)
    is_tuple = len(args) == 1 and Ext("builtins.tuple") in classes.mro_of(m, cls)
    if is_tuple and named_tuples.fields(m, cls) is None:
        items, rest = expressions.items_of(m, frame, args[0], node)
        if rest is None:
            m.store(made.oid, "\0tuple", TupleValue(tuple(items)))
        elif isinstance(rest, Unknown):
            m.taint(made.oid, rest)
    if kind:
        hold(m, made, m.new(DictObj({})) if kind == "dict" else m.list_of([], kind))


def hold(m: Machine, made: Ref, inner: Ref) -> None:
    """Let an instance hold another container."""
    m.store(made.oid, _DATA, inner)


def plain(m: Machine, value: Value) -> Value:
    """The container inside an instance; every other value itself."""
    obj = m.obj(value) if isinstance(value, Ref) else None
    if not isinstance(value, Ref) or not isinstance(obj, InstanceObj):
        return value
    if _DATA in obj.values:
        return m.read(value.oid, _DATA) or value
    return obj.values.get("\0tuple", value)


def _lineage(m: Machine, made: Ref) -> tuple[Value, ...]:
    obj = m.obj(made)
    return tuple(classes.mro_of(m, obj.cls)) if isinstance(obj, InstanceObj) else ()


def fill(
    m: Machine,
    frame: Frame,
    made: Value,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> bool:
    """The container's own constructor; False if the value holds none."""
    from gitsync.check.python import attributes, calls, container_methods, methods

    inner = plain(m, made)
    obj = m.obj(inner) if isinstance(inner, Ref) else None
    if inner == made or not isinstance(obj, DictObj | ListObj):
        return False
    name = _FILLING["dict" if isinstance(obj, DictObj) else obj.kind]
    if isinstance(made, Ref) and Ext("collections.UserDict") in _lineage(m, made):
        update = attributes.get(m, frame, made, name, node)
        if args or keywords:
            calls.call(m, frame, update, args, keywords, node)
        return True
    if isinstance(obj, ListObj) and obj.kind == "deque":
        container_methods.fill_deque(m, frame, cast(Ref, inner), args, keywords, node)
    elif args or keywords:
        methods.call_method(m, frame, Method(inner, name), args, keywords, node)
    return True


def has_method(m: Machine, value: Value, name: str) -> bool:
    """True if the container inside a value has a method of that name."""
    inner = plain(m, value)
    if inner == value:
        return False
    if isinstance(inner, TupleValue):
        return name in ("index", "count")
    obj = m.obj(inner) if isinstance(inner, Ref) else None
    if not isinstance(obj, DictObj | ListObj):
        return False
    kind = "dict" if isinstance(obj, DictObj) else obj.kind
    return hasattr(_TYPES[kind], name) and (not name.startswith("__") or name in ITEM_METHODS)


ITEM_METHODS = ("__getitem__", "__setitem__", "__delitem__", "__contains__")


def call(
    m: Machine,
    frame: Frame,
    value: Value,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> Value:
    """Call a method of the container inside a value."""
    from gitsync.check.python import containers, methods, subscripts
    from gitsync.check.python.values import NONE, Const, Opaque

    inner = plain(m, value)
    if name == "__getitem__" and args:
        return subscripts.item(m, frame, inner, args[0], node)
    if name == "__setitem__" and len(args) == 2:
        subscripts.set_item(m, frame, inner, args[0], args[1], node)
        return NONE
    if name == "__delitem__" and args:
        subscripts.remove_item(m, frame, inner, args[0], node)
        return NONE
    if name == "__contains__" and args:
        known = containers.contains(m, inner, args[0])
        return Opaque("bool()") if known is None else Const(known)
    return methods.call_method(m, frame, Method(inner, name), args, keywords, node)
