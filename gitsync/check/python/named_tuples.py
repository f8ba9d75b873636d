"""Named tuples: `typing.NamedTuple` and `collections.namedtuple`."""

from __future__ import annotations

import ast
import keyword

from gitsync.check.python import classes, expressions, making, reach
from gitsync.check.python.heap import ClassObj, DictObj, InstanceObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    ANNOTATIONS,
    NONE,
    Const,
    Ext,
    Method,
    Opaque,
    Ref,
    TupleValue,
    Value,
)
from gitsync.check.python.worlds import Frame

BASE = Ext("typing.NamedTuple", "f")
# what no body of a `NamedTuple` may define
_DEFINED = frozenset(
    (
        "__new__",
        "__init__",
        "__slots__",
        "__getnewargs__",
        "_fields",
        "_field_defaults",
        "_field_types",
        "_make",
        "_replace",
        "_asdict",
        "_source",
    )
)


def fields(m: Machine, cls: Value) -> list[tuple[str, bool]] | None:
    """(name, required) of each field of the named tuple in the MRO; None if there is none."""
    for part in classes.mro_of(m, cls):
        obj = m.obj(part) if isinstance(part, Ref) else None
        if isinstance(obj, ClassObj) and BASE in (obj.raw_bases or ()):
            return _written(obj.values)
    return None


def _written(values: dict[str, Value]) -> list[tuple[str, bool]]:
    annotations = values.get(ANNOTATIONS)
    entries = annotations.items if isinstance(annotations, TupleValue) else ()
    names = [str(e.items[0].value) for e in entries]  # type: ignore[attr-defined]
    return [(name, name not in values) for name in names]


def check_fields(
    m: Machine, frame: Frame, bases: list[Value], values: dict[str, Value], node: ast.AST
) -> None:
    """Raise for fields that `NamedTuple` refuses."""
    if BASE not in bases:
        return
    for name in values:
        if name in _DEFINED:
            raise m.error(frame, node, "AttributeError", f"NamedTuple defines {name} itself")
    optional = ""
    for name, required in _written(values):
        if name.startswith("_"):
            raise m.error(frame, node, "ValueError", f"the field {name} starts with an underscore")
        if required and optional:
            reason = f"the field {name} has no default but follows {optional}, which has"
            raise m.error(frame, node, "TypeError", reason)
        optional = optional if required else name


def fill(
    m: Machine,
    frame: Frame,
    made: Ref,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    unknown: Value | None,
) -> None:
    """The `__new__` that a named tuple has; nothing for other classes."""
    obj = m.obj(made)
    wanted = fields(m, obj.cls) if isinstance(obj, InstanceObj) else None
    if wanted is None or not isinstance(obj, InstanceObj):
        return
    names = [field for field, _ in wanted]
    given = dict(zip(names, args, strict=False))
    wrong = len(args) > len(names) or set(keywords) - (set(names) - set(given))
    lacking = [f for f, required in wanted if required and f not in given and f not in keywords]
    if wrong or (lacking and unknown is None):
        raise m.error(frame, node, "TypeError", "a named tuple is given other values than fields")
    for field, value in (given | keywords | dict.fromkeys(lacking, unknown or NONE)).items():
        m.store(made.oid, field, value)


def items(m: Machine, obj: InstanceObj) -> list[Value] | None:
    """The items of a named tuple in order, if it is one and all are known."""
    wanted = fields(m, obj.cls)
    if wanted is None:
        return None
    found = [
        obj.values.get(name) or classes.class_attribute(m, obj.cls, name) for name, _ in wanted
    ]
    return [v for v in found if v is not None] if None not in found else None


def of_class(m: Machine, cls: Ref, name: str) -> Value:
    """`_make` and `_field_defaults`, read from the class."""
    if name == "_make":
        return Method(cls, name)
    found = {f: classes.class_attribute(m, cls, f) for f, _ in fields(m, cls) or ()}
    return m.new(DictObj({Const(f): v for f, v in found.items() if v is not None}))


def call_method(
    m: Machine,
    frame: Frame,
    owner: Ref,
    name: str,
    keywords: dict[str, Value],
    node: ast.AST,
) -> Value:
    """`_replace` and `_asdict`."""
    obj = m.obj(owner)
    wanted = fields(m, obj.cls) if isinstance(obj, InstanceObj) else None
    held = items(m, obj) if isinstance(obj, InstanceObj) else None
    if wanted is None or held is None or not isinstance(obj, InstanceObj):
        return Opaque()
    now: dict[str, Value] = {f: v for (f, _), v in zip(wanted, held, strict=True)}
    if name == "_asdict":
        return m.new(DictObj({Const(f): v for f, v in now.items()}))
    if set(keywords) - set(now):
        raise m.error(frame, node, "ValueError", "_replace() is given a field that is none")
    made = InstanceObj(obj.cls)
    made.values = now | keywords
    return m.new(made)


def make(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`collections.namedtuple(typename, field_names, defaults=…)`."""
    given = dict(zip(("typename", "field_names"), args, strict=False)) | keywords
    name, listed = given.get("typename", NONE), given.get("field_names", NONE)
    if isinstance(listed, Const) and isinstance(listed.value, str):
        names: list[Value] = [Const(n) for n in listed.value.replace(",", " ").split()]
        rest: Value | None = None
    else:
        names, rest = expressions.items_of(m, frame, listed, node)
    plain = given.get("defaults", NONE)
    defaults, more = ([], None) if plain == NONE else expressions.items_of(m, frame, plain, node)
    texts = [n.value for n in names if isinstance(n, Const) and isinstance(n.value, str)]
    known = rest is None and more is None and len(texts) == len(names) and "rename" not in given
    if not known or not isinstance(name, Const) or len(defaults) > len(texts):
        if any(reach.touches(m.state, v) for v in given.values()):
            return m.unknown(frame, node, "a named tuple holds a component class")
        return Opaque("collections.namedtuple()")
    bad = [t for t in texts if not t.isidentifier() or keyword.iskeyword(t) or t.startswith("_")]
    if bad or len(set(texts)) != len(texts):
        raise m.error(frame, node, "ValueError", "a field of the named tuple has no usable name")
    values: dict[str, Value] = {
        ANNOTATIONS: TupleValue(tuple(TupleValue((Const(t), Const("object"), NONE)) for t in texts))
    }
    if defaults:
        values.update(zip(texts[-len(defaults) :], defaults, strict=True))
    return making.build(m, frame, str(name.value), [BASE], {}, values, node)
