"""Enums: their members, what stands for a member, and looking one up by value."""

from __future__ import annotations

import ast
import enum
from typing import cast

from gitsync.check.python import calls, classes, containers, subscripts
from gitsync.check.python.heap import ClassObj, FunctionObj, InstanceObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    NONE,
    Bound,
    Const,
    Decorator,
    Ext,
    Opaque,
    Ref,
    TupleValue,
    Value,
    Wrapped,
)
from gitsync.check.python.worlds import Frame

AUTO = Opaque("enum.auto()")
# Classes whose members are also values of the type they are made of.
_MIXED = (Ext("builtins.str", "c"), Ext("builtins.int", "c"), Ext("builtins.float", "c"))


def make_members(m: Machine, frame: Frame, ref: Ref, node: ast.AST) -> None:
    """The members of an enum become instances of it; no name may be given twice."""
    cls = cast(ClassObj, m.state.change(ref.oid))
    body = node.body if isinstance(node, ast.ClassDef) else []
    given = [
        target.id
        for part in body
        if isinstance(part, ast.Assign)
        for target in part.targets
        if isinstance(target, ast.Name) and not target.id.startswith("_")
    ]
    for name in given:
        if given.count(name) > 1:
            raise m.error(frame, node, "TypeError", f"the member {cls.name}.{name} is given twice")
    for key in _ignored(m, cls):
        cls.values.pop(key, None)
    made: list[tuple[Value, Ref]] = []
    for key, value in list(cls.values.items()):
        if isinstance(value, Decorator) and value.name in ("member", "nonmember"):
            is_member = value.name == "member"
            value = cls.values[key] = dict(value.parts)["value"]
            if not is_member:
                continue
        elif (
            key.startswith("_")
            or isinstance(value, Wrapped | Bound)
            or (isinstance(value, Ref) and isinstance(m.obj(value), FunctionObj))
        ):
            continue
        if value == AUTO:
            value = _next_value(m, ref, cls, key, [v for v, _ in made])
        same = [r for v, r in made if isinstance(v, Const) and containers.equal(m, v, value)]
        if same:  # another name for an earlier member
            cls.values[key] = same[0]
            continue
        member = InstanceObj(ref)
        member.values = {"value": value, "_value_": value, "name": Const(key), "_name_": Const(key)}
        held = m.new(member)
        cls.values[key] = held
        made.append((value, held))
        init = classes.class_attribute(m, ref, "__init__")
        if init is not None:
            args = list(value.items) if isinstance(value, TupleValue) else [value]
            calls.call(m, frame, calls.bind(m, init, held), args, {}, node)


def _ignored(m: Machine, cls: ClassObj) -> list[str]:
    """The names of a body that `_ignore_` takes away again."""
    value = cls.values.get("_ignore_")
    if isinstance(value, Const) and isinstance(value.value, str):
        return [*value.value.replace(",", " ").split(), "_ignore_"]
    held = m.obj(value) if isinstance(value, Ref) else None
    items = value.items if isinstance(value, TupleValue) else getattr(held, "items", ())
    return [str(i.value) for i in items if isinstance(i, Const)] + ["_ignore_"] * bool(items)


def _next_value(m: Machine, ref: Ref, cls: ClassObj, name: str, before: list[Value]) -> Value:
    """What `auto()` stands for."""
    lineage = set(cls.mro)
    own = classes.class_attribute(m, ref, "_generate_next_value_")
    if own is not None or Ext("enum.Flag") in lineage:
        return AUTO
    if Ext("enum.StrEnum") in lineage:
        return Const(name.lower())
    numbers = [v.value if isinstance(v, Const) else None for v in before]
    if any(type(n) is not int for n in numbers):
        return AUTO
    return Const(max((n for n in numbers if n is not None), default=0) + 1)


def by_value(
    m: Machine, frame: Frame, ref: Ref, cls: ClassObj, args: list[Value], node: ast.AST
) -> Value:
    """`Color(2)`: the member of that value."""
    members = [
        v for v in cls.values.values() if isinstance(v, Ref) and isinstance(m.obj(v), InstanceObj)
    ]
    if not members:
        return Opaque()  # the functional way to make an enum
    wanted = args[0] if args else NONE
    answers: list[bool | None] = []
    for member in members:
        held = cast(InstanceObj, m.obj(member)).values.get("value", NONE)
        answers.append(True if member == wanted else containers.equal(m, held, wanted))
        if answers[-1]:
            return member
    missing = classes.class_attribute(m, ref, "_missing_")
    flags = Ext("enum.Flag") in cls.mro
    if len(args) == 1 and missing is None and not flags and not any(a is None for a in answers):
        raise m.error(frame, node, "ValueError", f"{cls.name} has no member of this value")
    return subscripts.pick_any(m, frame, list(members), node)


def has_no_attribute(m: Machine, cls: ClassObj, name: str) -> bool:
    """True if neither the enum nor the classes it stands on have an attribute of that name."""
    known = (enum.Enum, enum.IntFlag, str, int, float)
    plain = all(
        isinstance(p, Ref) or (isinstance(p, Ext) and p.path.startswith(("enum.", "builtins.")))
        for p in (*cls.mro, *cls.meta)
    )
    return classes.is_enum(cls) and plain and not any(hasattr(kind, name) for kind in known)
