"""`__slots__`: what Python refuses of it, and which bases cannot be laid out together."""

from __future__ import annotations

import ast
import keyword

from gitsync.check.python import classes
from gitsync.check.python.facts import facts
from gitsync.check.python.heap import ClassObj, DictObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import Const, Ext, Names, Ref, TupleValue, Value
from gitsync.check.python.worlds import Frame

_SPECIAL = ("__dict__", "__weakref__")
# classes in Python that have no `__dict__` of their own
_BARE = ("abc.ABC", "typing.Generic", "typing.Protocol", "builtins.", "collections.abc.")
_HIDDEN = [Const(name) for name in _SPECIAL]
_WITHOUT = ("builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol")
_SOLID = frozenset(
    f"builtins.{n}"
    for n in (
        "int",
        "str",
        "bytes",
        "bytearray",
        "tuple",
        "list",
        "dict",
        "set",
        "frozenset",
        "float",
        "complex",
        "type",
        "BaseException",
        "property",
        "super",
    )
)


def slots_of(m: Machine, values: dict[str, Value]) -> list[Value] | None:
    """The items of `__slots__` in a class body; None if there is none, or it is not known."""
    value = values.get("__slots__")
    if isinstance(value, Const) and isinstance(value.value, str):
        return [value]
    if isinstance(value, TupleValue):
        return list(value.items)
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, ListObj) and obj.rest is None:
            return list(obj.items)
        if isinstance(obj, DictObj) and obj.rest is None:
            return list(obj.items)
    return None


def has_slot(m: Machine, cls: ClassObj, name: str) -> bool:
    """True if one of the slots is the attribute `name` of the class."""
    own = slots_of(m, cls.values) if "__slots__" in cls.values else None
    return any(
        isinstance(s, Const) and isinstance(s.value, str) and _mangled(s.value, cls.name) == name
        for s in own or ()
    )


def layout(m: Machine, cls: Value) -> tuple[bool, bool | None]:
    """Whether instances have slots, and whether they have a `__dict__`; None if not known."""
    has_slots, has_dict = False, False
    unknown = False
    for part in classes.mro_of(m, cls):
        obj = m.obj(part) if isinstance(part, Ref) else None
        own = slots_of(m, obj.values) if isinstance(obj, ClassObj) else None
        if own is not None:
            has_slots = has_slots or any(s not in _HIDDEN for s in own)
            has_dict = has_dict or Const("__dict__") in own
        elif isinstance(obj, ClassObj):
            unknown = unknown or "__slots__" in obj.values
            has_dict = has_dict or "__slots__" not in obj.values
        elif not isinstance(part, Ext) or part.path not in _WITHOUT:
            unknown = True
    return has_slots, None if unknown and not has_dict else has_dict


def dictionary(m: Machine, frame: Frame, owner: Ref, cls: Value, node: ast.AST) -> Value:
    """`__dict__` of an instance, in which its slots do not stand."""
    has_slots, has_dict = layout(m, cls)
    if has_dict is False:
        raise m.error(frame, node, "AttributeError", "the object has slots and no __dict__")
    if has_slots:
        return m.unknown(frame, node, "the object has slots beside its __dict__")
    return Names(owner.oid)


def check_slots(m: Machine, frame: Frame, cls: ClassObj, node: ast.AST) -> None:
    """Raise what `type.__new__` raises about the slots of a new class."""
    for slot in slots_of(m, cls.values) or ():
        if not isinstance(slot, Const):
            continue
        name = slot.value
        if not isinstance(name, str) or not name.isidentifier():
            raise m.error(frame, node, "TypeError", f"__slots__ of {cls.name} holds no name")
        if name in _SPECIAL and any(_has_dict(m, base) for base in cls.bases):
            reason = f"{cls.name} has a {name} already, so that it cannot be one of its slots"
            raise m.error(frame, node, "TypeError", reason)
        if _mangled(name, cls.name) in cls.values and name not in _SPECIAL:
            reason = f"{name} is a slot of {cls.name} and bound in its body as well"
            raise m.error(frame, node, "ValueError", reason)


def _mangled(name: str, owner: str) -> str:
    plain = owner.lstrip("_")
    is_private = name.startswith("__") and not name.endswith("__")
    return f"_{plain}{name}" if is_private and plain and not keyword.iskeyword(name) else name


def _has_dict(m: Machine, base: Value) -> bool:
    """True if instances of a base certainly have a `__dict__`."""
    if isinstance(base, Ext):
        return not base.path.startswith(_BARE)
    obj = m.obj(base) if isinstance(base, Ref) else None
    if not isinstance(obj, ClassObj):
        return False
    return "__slots__" not in obj.values or any(_has_dict(m, b) for b in obj.bases)


def check_layout(m: Machine, frame: Frame, cls: ClassObj, node: ast.AST) -> None:
    """Raise if two bases each bring a layout of instances of their own."""
    solid = {part for part in cls.mro if _is_solid(m, part)}
    for part in tuple(solid):
        solid -= set(classes.mro_of(m, part)[1:])
        if isinstance(part, Ext):
            solid -= {Ext(p) for p in facts().class_facts(part.path).lineage}
    if len(solid) > 1:
        names = ", ".join(sorted(_name(m, part) for part in solid))
        raise m.error(frame, node, "TypeError", f"the bases {names} do not fit together")


def _is_solid(m: Machine, part: Value) -> bool:
    if isinstance(part, Ext):
        return part.path in _SOLID
    obj = m.obj(part) if isinstance(part, Ref) else None
    if not isinstance(obj, ClassObj):
        return False
    slots = slots_of(m, obj.values) or ()
    return any(isinstance(s, Const) and s.value not in _SPECIAL for s in slots)


def _name(m: Machine, part: Value) -> str:
    if isinstance(part, Ext):
        return part.path.rpartition(".")[2]
    obj = m.obj(part) if isinstance(part, Ref) else None
    return obj.name if isinstance(obj, ClassObj) else "?"
