"""Class objects: made by `class` and `type()`, their MRO, metaclass, abstract methods, hooks."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import calls, expressions, slots
from gitsync.check.python.facts import BASES, facts
from gitsync.check.python.heap import ClassObj, FunctionObj, InstanceObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    Const,
    Decorated,
    Decorator,
    Ext,
    Opaque,
    Ref,
    TupleValue,
    Unknown,
    Value,
    Wrapped,
)
from gitsync.check.python.worlds import Frame

# -- what touches a component ----------------------------------------------------------------


# -- looking at classes ----------------------------------------------------------------------


def is_class(m: Machine, value: Value) -> bool:
    """True if the value certainly is a class."""
    if isinstance(value, Ext):
        return value.kind == "c"
    return isinstance(value, Ref) and isinstance(m.obj(value), ClassObj)


def mro_of(m: Machine, value: Value) -> tuple[Value, ...]:
    """The MRO of a class value, itself first, `object` left out."""
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, ClassObj):
            return (value, *obj.mro)
    if isinstance(value, Ext):
        return (value, *(Ext(p, "c") for p in facts().class_facts(value.path).lineage))
    return (value,)


def class_attribute(m: Machine, cls: Value, name: str) -> Value | None:
    """An attribute found along the MRO in the repository's own classes; None otherwise."""
    for part in mro_of(m, cls):
        if isinstance(part, Ref):
            obj = m.obj(part)
            found = m.read(part.oid, name) if isinstance(obj, ClassObj) else None
            if found is not None:
                return found
    return None


def find_in_mro(m: Machine, cls: Value, name: str) -> tuple[Value, Value] | None:
    """(class, value) of an attribute; an opaque or external class before it hides it."""
    for part in mro_of(m, cls):
        if isinstance(part, Ref):
            obj = m.obj(part)
            found = m.read(part.oid, name) if isinstance(obj, ClassObj) else None
            if found is not None:
                return part, found
        elif isinstance(part, Ext):
            if part.path in BASES.values() and name in ("__init__", "run", "grade"):
                role = "run" if part.path == BASES["workflow"] else "grade"
                if name in ("__init__", role):
                    return part, Ext(f"{part.path}.{name}", "f")
        else:
            return part, part
    return None


def written_bases(m: Machine, cls: Value) -> list[tuple[Value, ...]]:
    """The bases of each of the repository's classes in the MRO, as they were written."""
    own = [m.obj(part) for part in mro_of(m, cls) if isinstance(part, Ref)]
    return [obj.raw_bases or () for obj in own if isinstance(obj, ClassObj)]


def has_opaque_base(m: Machine, cls: Value) -> bool:
    """True if something in the MRO cannot be looked into."""
    return any(not isinstance(part, Ref | Ext) for part in mro_of(m, cls))


_NEVER_CALLED = ("builtins.", "abc.", "typing.", "collections.abc.", "enum.", "osmosis_ai.")


def has_callable_base(m: Machine, cls: Value) -> bool:
    """True if a library's class in the MRO may make the instances callable."""
    return any(
        isinstance(part, Ext) and not part.path.startswith(_NEVER_CALLED) for part in mro_of(m, cls)
    )


def meta_attribute(m: Machine, cls: ClassObj, name: str) -> Value | None:
    """An attribute of the class's own metaclass."""
    for part in cls.meta:
        if isinstance(part, Ref):
            obj = m.obj(part)
            found = m.read(part.oid, name) if isinstance(obj, ClassObj) else None
            if found is not None:
                return found
    return None


def type_operator(m: Machine, left: Value, right: Value) -> Value | None:
    """A metaclass's own `__or__`, which makes `A | B` more than a type."""
    for value in (left, right):
        if isinstance(value, Ref):
            obj = m.obj(value)
            if isinstance(obj, ClassObj):
                for name in ("__or__", "__ror__"):
                    found = meta_attribute(m, obj, name)
                    if found is not None:
                        return found
    return None


def iterate_class(
    m: Machine, frame: Frame, value: Ref, obj: ClassObj, node: ast.AST
) -> tuple[list[Value], Value | None]:
    """Iterating a class: the members of an enum, or a metaclass's `__iter__`."""
    method = meta_attribute(m, obj, "__iter__")
    if method is not None:
        result = calls.call(m, frame, calls.bind(m, method, value), [], {}, node)
        return expressions.items_of(m, frame, result, node)
    if is_enum(obj):
        members = [
            v
            for v in obj.values.values()
            if isinstance(v, Ref) and isinstance(m.obj(v), InstanceObj) and m.obj(v).cls == value  # type: ignore[attr-defined]
        ]
        return list(dict.fromkeys(members)), None
    if any(not isinstance(part, Ref | Ext) for part in (*obj.meta, *obj.mro)):
        return [], Opaque()
    raise m.error(frame, node, "TypeError", f"the class {obj.name} cannot be iterated over")


def is_enum(obj: ClassObj) -> bool:
    """True for classes made by EnumType."""
    return any(
        isinstance(p, Ext) and p.path in ("enum.EnumType", "enum.EnumMeta") for p in obj.meta
    )


# -- exceptions ------------------------------------------------------------------------------


def exception_matches(m: Machine, value: Value, kind: Value) -> bool | None:
    """Whether `except kind` catches an exception; None if it may."""
    if isinstance(kind, TupleValue):
        answers = [exception_matches(m, value, k) for k in kind.items]
        return True if True in answers else (None if None in answers else False)
    if kind in (Ext("builtins.BaseException"), Ext("builtins.Exception")) and isinstance(
        value, Opaque
    ):
        return True
    cls: Value = value
    if isinstance(value, Ref):
        obj = m.obj(value)
        cls = obj.cls if isinstance(obj, InstanceObj) else value
    if not isinstance(cls, Ref | Ext) or not isinstance(kind, Ref | Ext):
        return None
    lineage = mro_of(m, cls)
    if kind in lineage:
        return True
    return None if any(not isinstance(p, Ref | Ext) for p in lineage) else False


def is_exception(m: Machine, value: Value) -> bool:
    """True for an instance of an exception class."""
    return Ext("builtins.BaseException", "c") in (
        class_of(m, value),
        *mro_of(m, class_of(m, value)),
    )


def can_be_caught(m: Machine, kind: Value) -> bool:
    """False for what `except` certainly refuses."""
    if isinstance(kind, TupleValue):
        return all(can_be_caught(m, k) for k in kind.items)
    if isinstance(kind, Const):
        return False
    if not isinstance(kind, Ref):
        return True
    if not isinstance(m.obj(kind), ClassObj):
        return isinstance(m.obj(kind), ListObj)
    lineage = mro_of(m, kind)
    return Ext("builtins.BaseException", "c") in lineage or not all(
        isinstance(p, Ref) for p in lineage
    )


def class_of(m: Machine, value: Value) -> Value:
    """The class of an exception value."""
    if isinstance(value, Ref):
        obj = m.obj(value)
        return obj.cls if isinstance(obj, InstanceObj) else value
    return value if isinstance(value, Ext) else Ext("builtins.Exception", "c")


def is_group(m: Machine, value: Value) -> bool:
    """True if an exception is, or may be, a group of exceptions."""
    lineage = mro_of(m, class_of(m, value))
    return Ext("builtins.BaseExceptionGroup", "c") in lineage or isinstance(value, Unknown)


def suppressed_exceptions(manager: Value) -> tuple[Value, ...] | None:
    """The exceptions that `contextlib.suppress(...)` swallows; None for other managers."""
    if isinstance(manager, Decorator) and manager.name == "suppress":
        return tuple(v for _, v in manager.parts)
    return None


# -- making classes --------------------------------------------------------------------------


UNFINISHED = "\0unfinished"  # in a class whose hooks run: its abstract methods are not settled


def abstract_names(m: Machine, ref: Ref) -> frozenset[str]:
    """`__abstractmethods__` as ABCMeta works it out when the class statement ends."""
    cls = cast(ClassObj, m.obj(ref))
    names = {k for k, v in cls.values.items() if is_abstract(m, v)}
    for base in cls.bases:
        inherited: frozenset[str] | tuple[str, ...] = ()
        if isinstance(base, Ref):
            obj = m.obj(base)
            inherited = obj.abstract if isinstance(obj, ClassObj) else ()
        elif isinstance(base, Ext):
            inherited = facts().class_facts(base.path).abstract
        for name in inherited:
            found = _mro_value(m, ref, name)
            if found is None or is_abstract(m, found):
                names.add(name)
    return frozenset(names)


def _mro_value(m: Machine, ref: Ref, name: str) -> Value | None:
    for part in mro_of(m, ref):
        if isinstance(part, Ref):
            obj = m.obj(part)
            own = m.read(part.oid, name) if isinstance(obj, ClassObj) else None
            if own is not None:
                return own
            if isinstance(obj, ClassObj) and slots.has_slot(m, obj, name):
                return Opaque("slot")
        elif isinstance(part, Ext):
            found = facts().class_facts(part.path)
            if name in found.abstract:
                return None
            kind = facts()._classes.get(part.path)
            if kind is None and part.path.split(".")[0] not in facts().stdlib:
                continue
            if part.path.startswith("builtins.") and hasattr(__builtins_class(part.path), name):
                return Ext(f"{part.path}.{name}", "f")
        else:
            return Opaque()
    return None


def __builtins_class(path: str) -> object:
    import builtins

    return getattr(builtins, path.rpartition(".")[2], object)


def is_abstract(m: Machine, value: Value) -> bool:
    """`__isabstractmethod__` of a value."""
    value = m.concrete(value)
    if isinstance(value, Wrapped):
        if value.kind == "property":
            return value.abstract or any(is_abstract(m, v) for v in (value.function, *value.args))
        # a cached property is the one wrapper that does not ask its function
        return value.abstract or (
            value.kind != "cached_property" and is_abstract(m, value.function)
        )
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, FunctionObj | InstanceObj):
            flag = obj.values.get("__isabstractmethod__")
            if flag is None and isinstance(obj, InstanceObj):
                flag = class_attribute(m, obj.cls, "__isabstractmethod__")
            return isinstance(flag, Const) and bool(flag.value)
        if isinstance(obj, ClassObj):
            flag = obj.values.get("__isabstractmethod__")
            return isinstance(flag, Const) and bool(flag.value)
    if isinstance(value, Opaque) and isinstance(value.known, Decorated):
        named = value.path.endswith("functools.singledispatchmethod")
        return named and is_abstract(m, value.known.function)
    return isinstance(value, Ext) and value.path in (
        "osmosis_ai.rollout.agent_workflow.AgentWorkflow.run",
        "osmosis_ai.rollout.grader.Grader.grade",
    )
