"""`dataclasses.dataclass`: the constructor it writes, and what it refuses."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import classes, slots
from gitsync.check.python.machine import Machine
from gitsync.check.python.making import ANNOTATIONS, is_abc
from gitsync.check.python.values import (
    NONE,
    ClassObj,
    Const,
    Decorator,
    DictObj,
    InstanceObj,
    ListObj,
    Opaque,
    Ref,
    TupleValue,
    Value,
)
from gitsync.check.python.worlds import Frame


def _check_options(
    m: Machine, frame: Frame, cls: ClassObj, options: dict[str, Value], node: ast.AST
) -> None:
    """Raise for options that `dataclass` refuses."""
    is_ordered = options.get("order") == Const(True)
    if is_ordered and options.get("eq") == Const(False):
        raise m.error(frame, node, "ValueError", "order=True needs eq=True")
    if is_ordered and {"__lt__", "__le__", "__gt__", "__ge__"} & set(cls.values):
        raise m.error(frame, node, "TypeError", f"{cls.name} has an order of its own already")
    if options.get("slots") == Const(True) and "__slots__" in cls.values:
        raise m.error(frame, node, "TypeError", f"{cls.name} has __slots__ already")
    if options.get("weakref_slot") == Const(True) and options.get("slots") != Const(True):
        raise m.error(frame, node, "TypeError", "weakref_slot=True needs slots=True")


def _check_default(
    m: Machine, frame: Frame, name: str, default: Value | None, node: ast.AST
) -> None:
    """Raise for a default that all instances would share and could change."""
    obj = m.obj(default) if isinstance(default, Ref) else None
    is_mutable = isinstance(obj, DictObj) or (
        isinstance(obj, ListObj) and obj.kind in ("list", "set", "deque")
    )
    if isinstance(obj, InstanceObj):
        found = {n: classes.class_attribute(m, obj.cls, n) for n in ("__eq__", "__hash__")}
        is_mutable = found["__hash__"] == NONE or (
            found["__eq__"] is not None and found["__hash__"] is None
        )
    if is_mutable:
        reason = f"the field {name} has a mutable default; use field(default_factory=...)"
        raise m.error(frame, node, "ValueError", reason)


def _set_hash_and_slots(
    m: Machine, cls: ClassObj, options: dict[str, Value], *, own: list[str]
) -> None:
    """What `dataclass` adds beside the constructor, as far as a later class depends on it."""
    compares = options.get("eq") != Const(False)
    if "__hash__" not in cls.values and compares and options.get("unsafe_hash") != Const(True):
        cls.values["__hash__"] = Opaque("hash") if cls.frozen else NONE
    if options.get("slots") == Const(True):
        inherited = {
            slot
            for part in cls.mro
            if isinstance(part, Ref)
            for slot in slots.slots_of(m, m.space(part.oid).values) or ()
        }
        names = tuple(Const(name) for name in own if Const(name) not in inherited)
        cls.values["__slots__"] = TupleValue(names)


def apply_dataclass(
    m: Machine, frame: Frame, ref: Ref, options: dict[str, Value], node: ast.AST
) -> Value:
    """`@dataclass`: a generated constructor, and the abstract methods worked out anew."""
    cls = cast(ClassObj, m.state.change(ref.oid))
    fields: dict[str, tuple[str, bool, bool]] = {}
    cls.frozen = options.get("frozen") == Const(True)
    _check_options(m, frame, cls, options, node)
    for part in reversed(cls.mro):
        obj = m.obj(part) if isinstance(part, Ref) else None
        if isinstance(obj, ClassObj) and obj.fields is not None:
            fields.update({f[0]: f for f in obj.fields})
            if obj.frozen is not cls.frozen:
                reason = f"the dataclass {cls.name} is frozen or not as its base {obj.name} is not"
                raise m.error(frame, node, "TypeError", reason)
    keyword_only = options.get("kw_only") == Const(True)
    annotations = cls.values.get(ANNOTATIONS)
    written: list[str] = []
    for entry in annotations.items if isinstance(annotations, TupleValue) else ():
        parts = cast(TupleValue, entry).items
        name, text = (p.value if isinstance(p, Const) else "" for p in parts)
        head = str(text).split("[")[0].rpartition(".")[2].strip("\"' ")
        if head == "ClassVar":
            continue
        if head == "KW_ONLY":
            keyword_only = True
            continue
        written.append(str(name))
        default = cls.values.get(str(name))
        required = default is None
        only = keyword_only
        if isinstance(default, Decorator) and default.name == "field":
            given = dict(default.parts)
            if given.get("init") == Const(False):
                fields.pop(str(name), None)
                continue
            required = not ({"default", "default_factory"} & set(given))
            if {"default", "default_factory"} <= set(given):
                reason = f"the field {name} has a default and a default_factory"
                raise m.error(frame, node, "ValueError", reason)
            if "kw_only" in given:
                only = given["kw_only"] == Const(True)
            if "default" in given:
                cls.values[str(name)] = given["default"]
            else:
                cls.values.pop(str(name), None)
        _check_default(m, frame, str(name), cls.values.get(str(name)), node)
        fields[str(name)] = (str(name), required, only)
    cls.fields = tuple(fields.values())
    optional = ""
    for name, required, only in cls.fields:
        if only or options.get("init") == Const(False):
            continue
        if required and optional:
            reason = f"the dataclass field {name} has no default but follows {optional}, which has"
            raise m.error(frame, node, "TypeError", reason)
        optional = optional if required else name
    if options.get("init") != Const(False) and "__init__" not in cls.values:
        cls.values["__init__"] = Decorator(
            "dataclass-init",
            tuple((n, TupleValue((Const(r), Const(k)))) for n, r, k in cls.fields),
        )
    _set_hash_and_slots(m, cls, options, own=[n for n in fields if n in written])
    if is_abc(cls):
        cls.abstract = classes.abstract_names(m, ref)
    return ref
