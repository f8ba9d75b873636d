"""Instances: `Class(...)`, generated constructors, enum members, three-argument `type()`."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import (
    calls,
    classes,
    containers,
    expressions,
    making,
    reach,
    subscripts,
)
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    NONE,
    ClassObj,
    Const,
    Decorator,
    DictObj,
    Ext,
    FunctionObj,
    InstanceObj,
    Opaque,
    Ref,
    TupleValue,
    Unknown,
    Value,
    Wrapped,
)
from gitsync.check.python.worlds import Frame


def iterate_instance(
    m: Machine, frame: Frame, value: Ref, obj: InstanceObj, node: ast.AST
) -> tuple[list[Value], Value | None] | None:
    """Iterating an instance of a local class."""
    method = classes.class_attribute(m, obj.cls, "__iter__")
    if method is not None:
        result = calls.call(m, frame, calls.bind(m, method, value), [], {}, node)
        if result == value:
            doubt = reach.touches(m.state, value)
            return [], m.unknown(frame, node, "an iterator of its own") if doubt else Opaque()
        return expressions.items_of(m, frame, result, node)
    if reach.holds(m.state, obj):
        return [], m.unknown(frame, node, "an object that holds a component is iterated over")
    if isinstance(obj.cls, Ref):
        cls = m.obj(obj.cls)
        if (
            isinstance(cls, ClassObj)
            and all(isinstance(p, Ref) for p in cls.mro)
            and classes.class_attribute(m, obj.cls, "__getitem__") is None
        ):
            raise m.error(frame, node, "TypeError", "this object cannot be iterated over")
    return [], Opaque()


def instantiate(
    m: Machine,
    frame: Frame,
    ref: Ref,
    cls: ClassObj,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    rest: Value | None = None,
    kwrest: Value | None = None,
) -> Value:
    """`Class(...)`."""
    if cls.doubt is not None:
        return cls.doubt
    if Ext("builtins.type") in cls.mro:
        return _call_metaclass(m, frame, ref, args, keywords, node)
    hook = classes.meta_attribute(m, cls, "__call__")
    if hook is not None and not m.speculative:
        return calls.call(
            m, frame, calls.bind(m, hook, ref), args, keywords, node, rest=rest, kwrest=kwrest
        )
    if classes.is_enum(cls):
        return _enum_member(m, frame, ref, cls, args, node)
    return new_instance(m, frame, ref, cls, args, keywords, node, rest, kwrest)


def new_instance(
    m: Machine,
    frame: Frame,
    ref: Ref,
    cls: ClassObj,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    rest: Value | None = None,
    kwrest: Value | None = None,
) -> Value:
    """`type.__call__`: `__new__`, then `__init__`."""
    made: Value
    new = _constructor_part(m, ref, "__new__")
    if isinstance(new, Wrapped):
        new = new.function
    if isinstance(new, Ref) and isinstance(m.obj(new), FunctionObj):
        made = calls.call(m, frame, new, [ref, *args], keywords, node, rest=rest, kwrest=kwrest)
        if not (isinstance(made, Ref) and isinstance(m.obj(made), InstanceObj)):
            return made
        if m.obj(made).cls != ref:  # type: ignore[attr-defined]
            return made
    else:
        if cls.abstract:
            names = ", ".join(sorted(cls.abstract))
            raise m.error(
                frame, node, "TypeError", f"the abstract class {cls.name} is instantiated ({names})"
            )
        made = m.new(InstanceObj(ref, tuple(args)))
    init = _constructor_part(m, ref, "__init__")
    if isinstance(init, Decorator) and init.name == "dataclass-init":
        _dataclass_init(m, frame, made, init, args, keywords, node, rest, kwrest)
    elif isinstance(init, Ref) and isinstance(m.obj(init), FunctionObj):
        calls.call(m, frame, init, [made, *args], keywords, node, rest=rest, kwrest=kwrest)
    elif isinstance(init, Ext):
        value = args[0] if args else keywords.get("config", NONE)
        if isinstance(made, Ref):
            m.store(made.oid, "config", value)
    elif isinstance(made, Ref):
        for name, value in keywords.items():
            m.store(made.oid, name, value)
        fields = _named_fields(m, cls)
        for field, value in zip(fields, args, strict=False):
            m.store(made.oid, field, value)
        if (
            not fields
            and not keywords
            and args
            and all(isinstance(p, Ref) for p in cls.mro)
            and (new is None)
        ):
            raise m.error(frame, node, "TypeError", f"{cls.name}() takes no arguments")
    return made


def _named_fields(m: Machine, cls: ClassObj) -> list[str]:
    if Ext("builtins.tuple") not in cls.mro:
        return []
    annotations = cls.values.get(making.ANNOTATIONS)
    out: list[str] = []
    for entry in annotations.items if isinstance(annotations, TupleValue) else ():
        if isinstance(entry, TupleValue) and isinstance(entry.items[0], Const):
            out.append(str(entry.items[0].value))
    return out


def _constructor_part(m: Machine, ref: Ref, name: str) -> Value | None:
    found = classes.find_in_mro(m, ref, name)
    return found[1] if found is not None else None


def _dataclass_init(
    m: Machine,
    frame: Frame,
    made: Ref,
    init: Decorator,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    rest: Value | None,
    kwrest: Value | None,
) -> None:
    positional: list[str] = []
    required: set[str] = set()
    for name, flags in init.parts:
        needs, only = cast(TupleValue, flags).items
        if only != Const(True):
            positional.append(name)
        if needs == Const(True):
            required.add(name)
    if len(args) > len(positional):
        raise m.error(frame, node, "TypeError", "the dataclass is given too many arguments")
    given = {**dict(zip(positional, args, strict=False)), **keywords}
    for name, value in given.items():
        if name not in dict(init.parts):
            raise m.error(frame, node, "TypeError", f"the dataclass has no field '{name}'")
        m.store(made.oid, name, value)
    missing = required - set(given)
    if missing:
        unknown = kwrest or rest
        if unknown is None:
            raise m.error(frame, node, "TypeError", f"the dataclass lacks '{sorted(missing)[0]}'")
        for name in missing:
            m.store(made.oid, name, unknown)
    if kwrest is not None:
        for name in dict(init.parts):
            if name not in given:
                m.store(made.oid, name, kwrest)
    cls = m.obj(made).cls  # type: ignore[attr-defined]
    post = classes.class_attribute(m, cls, "__post_init__")
    if post is not None:
        calls.call(m, frame, calls.bind(m, post, made), [], {}, node, rest=Opaque())
    else:
        for name, _ in init.parts:
            if (
                name not in m.space(made.oid).values
                and classes.class_attribute(m, cls, name) is None
            ):
                m.store(made.oid, name, Opaque())


def _call_metaclass(
    m: Machine,
    frame: Frame,
    ref: Ref,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> Value:
    """`Meta("Name", bases, namespace)`."""
    if len(args) != 3:
        return m.unknown(frame, node, "a metaclass is called in an unusual way")
    return class_from_parts(m, frame, args, {**keywords, "metaclass": ref}, node)


def class_from_parts(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """Three-argument `type()`."""
    name, bases, space = args
    items, rest = expressions.items_of(m, frame, bases, node)
    values: dict[str, Value] = {}
    more = calls.spread(m, frame, space, values, node)
    if isinstance(space, Ref) and isinstance(m.obj(space), DictObj):
        pass
    elif more is None or not isinstance(more, Unknown):
        more = more or None
    harmful = any(reach.touches(m.state, v) for v in (*items, *((rest,) if rest else ())))
    if rest is not None or more is not None or not isinstance(name, Const):
        if harmful or isinstance(rest, Unknown) or isinstance(more, Unknown):
            return m.unknown(frame, node, "the parts of the class are not known")
        return Opaque()
    return making.build(m, frame, str(name.value), items, keywords, values, node)


def _enum_member(
    m: Machine, frame: Frame, ref: Ref, cls: ClassObj, args: list[Value], node: ast.AST
) -> Value:
    members = [
        v for v in cls.values.values() if isinstance(v, Ref) and isinstance(m.obj(v), InstanceObj)
    ]
    for member in members:
        obj = m.obj(member)
        if (
            isinstance(obj, InstanceObj)
            and args
            and containers.equal(m, obj.values.get("value", NONE), args[0])
        ):
            return member
    return subscripts.pick_any(m, frame, list(members), node)
