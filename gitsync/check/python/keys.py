"""What a value equals and hashes like, as a key of a dict or an item of a set.

`canonical` gives one abstract value for all that Python takes for the same key: 1, 1.0 and True, a
text and an instance of a subclass of `str`, two frozen dataclasses with equal fields.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

from gitsync.check.python import calls, classes, protocols
from gitsync.check.python.facts import BASES
from gitsync.check.python.heap import (
    ClassObj,
    DictObj,
    FunctionObj,
    InstanceObj,
    ListObj,
    ModuleObj,
)
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import Const, Ext, Opaque, PathValue, Ref, TupleValue, Value
from gitsync.check.python.worlds import Frame

# What `dataclass` gives a class, under names of which the second is none that code can write.
BY_FIELDS = Opaque("hash")
COMPARED = "\0compared"
ORDERED = "\0ordered"
_IDENTITY = frozenset(
    {*BASES.values(), "abc.ABC", "enum.Enum", "typing.Generic", "typing.Protocol"}
)
_EQUALITY = {"__eq__", "__hash__", COMPARED}
_MIXED = {Ext("builtins.str", "c"), Ext("builtins.int", "c"), Ext("builtins.float", "c")}


def canonical(m: Machine, value: Value) -> Value | None:
    """The same value for equal ones, another for all others; None if that is not certain."""
    if isinstance(value, Const):
        number = value.value
        if isinstance(number, bool) or (isinstance(number, float) and number.is_integer()):
            return Const(int(number))
        return value
    if isinstance(value, TupleValue):
        return _canonical_tuple(m, value.items)
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, InstanceObj):
            return _canonical_instance(m, value, obj)
        if isinstance(obj, ListObj) and obj.kind == "frozenset" and obj.rest is None:
            found = item_set(m, obj.items)
            return None if found is None else _as_value(found)
        return value if isinstance(obj, ClassObj | FunctionObj | ModuleObj) else None
    if isinstance(value, PathValue) or (isinstance(value, Ext) and value.kind in "cfm"):
        return value
    return None


def _as_value(items: frozenset[Value]) -> Value:
    return TupleValue((Opaque("frozenset"), *sorted(items, key=repr)))


def _canonical_tuple(m: Machine, items: Iterable[Value]) -> TupleValue | None:
    parts = [canonical(m, i) for i in items]
    found = tuple(p for p in parts if p is not None)
    return TupleValue(found) if len(found) == len(parts) else None


def _canonical_instance(m: Machine, value: Ref, obj: InstanceObj) -> Value | None:
    from gitsync.check.python import named_tuples

    held = plain_value(m, value)
    if isinstance(held, Const):
        return canonical(m, held)
    items = named_tuples.items(m, obj)
    if items is not None and _own_equality(m, obj.cls) is None:
        return _canonical_tuple(m, items)
    if by_identity(m, obj.cls):
        return value
    names = compared_fields(m, obj.cls)
    if names is None or classes.class_attribute(m, obj.cls, "__hash__") != BY_FIELDS:
        return None
    parts = _canonical_tuple(m, field_values(m, value, obj, names))
    return None if parts is None else TupleValue((obj.cls, parts))


def plain_value(m: Machine, value: Value) -> Value:
    """The constant that a `StrEnum`, `IntEnum` member or an own kind of text or number equals."""
    obj = m.obj(value) if isinstance(value, Ref) else None
    if not isinstance(obj, InstanceObj) or not isinstance(obj.cls, Ref):
        return value
    cls = m.obj(obj.cls)
    if not isinstance(cls, ClassObj) or not _MIXED & {*cls.mro}:
        return value
    inner = obj.values.get("_value_") if classes.is_enum(cls) else _made_with(m, obj, cls)
    return inner if isinstance(inner, Const) and _own_equality(m, obj.cls) is None else value


def _made_with(m: Machine, obj: InstanceObj, cls: ClassObj) -> Value | None:
    """The constant of `Name("text")`, where `Name` is a subclass of `str` or `int`."""
    if classes.class_attribute(m, obj.cls, "__new__") is not None or len(obj.args or ()) != 1:
        return None
    inner = (obj.args or ())[0]
    kind = str if Ext("builtins.str", "c") in cls.mro else int
    return inner if isinstance(inner, Const) and type(inner.value) is kind else None


def _own_equality(m: Machine, cls: Value) -> Value | None:
    return classes.class_attribute(m, cls, "__eq__") or classes.class_attribute(m, cls, "__hash__")


def by_identity(m: Machine, cls: Value) -> bool:
    """True if instances of a class are equal to nothing but themselves."""
    for part in classes.mro_of(m, cls):
        obj = m.obj(part) if isinstance(part, Ref) else None
        if isinstance(obj, ClassObj):
            if (
                obj.taint is not None
                or obj.doubt is not None
                or {"__eq__", "__hash__"} & {*obj.values}
            ):
                return False
        elif not isinstance(part, Ext) or not _is_identity(part.path):
            return False
    return True


def _is_identity(path: str) -> bool:
    head, _, name = path.rpartition(".")
    kind = getattr(builtins, name, None) if head == "builtins" else None
    return path in _IDENTITY or (
        isinstance(kind, type) and vars(kind).get("__eq__", object.__eq__) is object.__eq__
    )


def compared_fields(m: Machine, cls: Value) -> list[str] | None:
    """The fields that `dataclass` compares; None for a class that compares otherwise."""
    for part in classes.mro_of(m, cls):
        obj = m.obj(part) if isinstance(part, Ref) else None
        if not isinstance(obj, ClassObj) or "__eq__" in obj.values:
            return None
        found = obj.values.get(COMPARED)
        if isinstance(found, TupleValue):
            return [str(n.value) for n in found.items if isinstance(n, Const)]
    return None


def is_ordered(m: Machine, cls: Value) -> bool:
    """True if `dataclass` makes the instances of a class orderable."""
    return any(
        isinstance(obj, ClassObj) and obj.values.get(ORDERED) == Const(True)
        for obj in (m.obj(part) for part in classes.mro_of(m, cls) if isinstance(part, Ref))
    )


def field_values(m: Machine, value: Ref, obj: InstanceObj, names: list[str]) -> list[Value]:
    """The values of an instance's fields, in order."""
    return [
        m.read(value.oid, name) or classes.class_attribute(m, obj.cls, name) or Opaque()
        for name in names
    ]


def item_set(m: Machine, items: Iterable[Value]) -> frozenset[Value] | None:
    """The items in their canonical form; None if it is not certain which are equal."""
    out = [canonical(m, i) for i in items]
    return None if None in out else frozenset(i for i in out if i is not None)


def require_hashable(m: Machine, frame: Frame, key: Value, node: ast.AST) -> None:
    """Raise what Python does for a key, or an item of a set, that certainly has no hash."""
    if isinstance(key, TupleValue):
        for item in key.items:
            require_hashable(m, frame, item, node)
    elif isinstance(key, Ref):
        obj = m.obj(key)
        kind = "dict" if isinstance(obj, DictObj) else getattr(obj, "kind", "")
        if isinstance(obj, ListObj | DictObj) and kind in ("list", "set", "dict", "deque"):
            raise m.error(frame, node, "TypeError", f"a {kind} cannot be hashed")
        if protocols.has_no_hash(m, key):
            raise m.error(frame, node, "TypeError", "this object cannot be hashed")
        if isinstance(obj, InstanceObj):
            method = classes.class_attribute(m, obj.cls, "__hash__")
            if isinstance(method, Ref):
                calls.call(m, frame, calls.bind(m, method, key), [], {}, node)


def find(m: Machine, obj: DictObj, key: Value) -> Value | None:
    """The key of a dict that stands for this one, else the key itself; None if not certain."""
    if key in obj.items:
        return key
    wanted = canonical(m, key)
    if wanted is None:
        return None
    if wanted in obj.items:
        return wanted
    if obj.is_dressed:
        for held in obj.items:
            if held != wanted and canonical(m, held) == wanted:
                return held
    return key


def put(m: Machine, obj: DictObj, key: Value, value: Value) -> bool:
    """Set an item of a dict that may be changed in place; False if the key is not certain."""
    held = find(m, obj, key)
    if held is None:
        return False
    if held not in obj.items and not obj.is_dressed:
        obj.is_dressed = canonical(m, held) != held
    obj.items[held] = value
    return True
