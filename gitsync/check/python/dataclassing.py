"""`dataclasses.dataclass`: the constructor it writes, and what it refuses."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import calls, classes, expressions, keys, making, reach, slots
from gitsync.check.python.heap import ClassObj, DictObj, InstanceObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.making import is_abc
from gitsync.check.python.values import (
    ANNOTATIONS,
    NONE,
    TRUE,
    Alias,
    Const,
    DataclassInit,
    Decorator,
    Ext,
    FieldOf,
    Opaque,
    Ref,
    TupleValue,
    Value,
)
from gitsync.check.python.worlds import Frame

_OPTIONS = frozenset(
    [
        "init",
        "repr",
        "eq",
        "order",
        "unsafe_hash",
        "frozen",
        "match_args",
        "kw_only",
        "slots",
        "weakref_slot",
    ]
)
_FIELD_OPTIONS = frozenset(
    ["default", "default_factory", "init", "repr", "hash", "compare", "metadata", "kw_only"]
)


def field(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`dataclasses.field(...)`, which takes keywords only."""
    if args or set(keywords) - _FIELD_OPTIONS:
        raise m.error(frame, node, "TypeError", "field() is given an argument it does not take")
    if {"default", "default_factory"} <= set(keywords):
        raise m.error(frame, node, "ValueError", "a field has a default and a default_factory")
    return Decorator("field", tuple(keywords.items()))


def replace(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`dataclasses.replace(instance, **changes)`: the constructor again, with the old values."""
    old = m.obj(args[0]) if len(args) == 1 and isinstance(args[0], Ref) else None
    cls = old.cls if isinstance(old, InstanceObj) else None
    init = classes.class_attribute(m, cls, "__init__") if cls is not None else None
    if not isinstance(old, InstanceObj) or not isinstance(init, DataclassInit) or cls is None:
        if any(reach.touches(m.state, v) for v in (*args, *keywords.values())):
            return m.unknown(frame, node, "a copy with other values is made")
        return Opaque()
    given: dict[str, Value] = {}
    for part in init.fields:
        held = old.values.get(part.name) or classes.class_attribute(m, cls, part.name)
        if part.accepted and not part.handed_on and held is not None:
            given[part.name] = held
    return calls.call(m, frame, cls, [], given | keywords, node)


def _check_options(
    m: Machine, frame: Frame, cls: ClassObj, options: dict[str, Value], node: ast.AST
) -> None:
    """Raise for options that `dataclass` refuses."""
    if set(options) - _OPTIONS:
        name = min(set(options) - _OPTIONS)
        raise m.error(frame, node, "TypeError", f"dataclass() has no option '{name}'")
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
    m: Machine, cls: ClassObj, options: dict[str, Value], *, own: list[str], compared: list[str]
) -> None:
    """What `dataclass` adds beside the constructor, as far as a later class depends on it."""
    if options.get("eq") != Const(False):
        has_hash = cls.frozen or options.get("unsafe_hash") == Const(True)
        cls.values.setdefault("__hash__", keys.BY_FIELDS if has_hash else NONE)
        cls.values[keys.ORDERED] = Const(options.get("order") == Const(True))
        cls.values[keys.COMPARED] = TupleValue(tuple(Const(name) for name in compared))
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
    fields: dict[str, FieldOf] = {}
    apart: set[str] = set()  # fields that do not count when instances are compared
    cls.frozen = options.get("frozen") == Const(True)
    _check_options(m, frame, cls, options, node)
    for part in reversed(cls.mro):
        obj = m.obj(part) if isinstance(part, Ref) else None
        if isinstance(obj, ClassObj) and obj.fields is not None:
            fields.update({f.name: f for f in obj.fields})
            apart |= {f.name for f in obj.fields} - set(keys.compared_fields(m, part) or ())
            if obj.frozen is not cls.frozen:
                reason = f"the dataclass {cls.name} is frozen or not as its base {obj.name} is not"
                raise m.error(frame, node, "TypeError", reason)
    keyword_only = options.get("kw_only") == Const(True)
    annotations = cls.values.get(ANNOTATIONS)
    written: list[str] = []
    for entry in annotations.items if isinstance(annotations, TupleValue) else ():
        parts = cast(TupleValue, entry).items[:2]
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
        accepted, factory, metadata = True, None, None
        if isinstance(default, Decorator) and default.name == "field":
            given = dict(default.parts)
            if given.get("compare", TRUE) != TRUE:
                apart.add(str(name))
            accepted = given.get("init") != Const(False)
            factory, metadata = given.get("default_factory"), given.get("metadata")
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
        is_handed_on = head == "InitVar"
        fields[str(name)] = FieldOf(
            str(name), required, only, is_handed_on, accepted, factory, metadata
        )
    cls.fields = tuple(fields.values())
    optional = ""
    for field in cls.fields:
        if field.keyword_only or not field.accepted or options.get("init") == Const(False):
            continue
        if field.required and optional:
            reason = (
                f"the dataclass field {field.name} has no default but follows {optional}, which has"
            )
            raise m.error(frame, node, "TypeError", reason)
        optional = optional if field.required else field.name
    if options.get("init") != Const(False) and "__init__" not in cls.values:
        cls.values["__init__"] = DataclassInit(cls.fields)
    own = [n for n in fields if n in written]
    compared = [n for n in fields if n not in apart]
    _set_hash_and_slots(m, cls, options, own=own, compared=compared)
    if is_abc(cls):
        cls.abstract = classes.abstract_names(m, ref)
    return ref


def make(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`dataclasses.make_dataclass(name, fields, bases=…, namespace=…, **options)`."""
    given = dict(zip(("cls_name", "fields"), args, strict=False)) | keywords
    name, listed = given.pop("cls_name", NONE), given.pop("fields", NONE)
    space = given.pop("namespace", NONE)
    bases, more_bases = expressions.items_of(m, frame, given.pop("bases", TupleValue(())), node)
    items, more_items = expressions.items_of(m, frame, listed, node)
    values: dict[str, Value] = {}
    rest = None if space == NONE else calls.spread(m, frame, space, values, node)
    entries: list[Value] = []
    for item in items:
        parts: list[Value] = [item]
        if not isinstance(item, Const):
            parts, unclear = expressions.items_of(m, frame, item, node)
            rest = rest or unclear
        if not parts or not isinstance(parts[0], Const):
            rest = rest or Opaque()
            continue
        kind = parts[1] if len(parts) > 1 else Ext("typing.Any")
        entries.append(TupleValue((parts[0], Const(_type_text(parts[1:2])), kind)))
        if len(parts) > 2:
            values[str(parts[0].value)] = parts[2]
    if not isinstance(name, Const) or more_bases or more_items or rest:
        if any(reach.touches(m.state, v) for v in (*bases, *values.values(), listed)):
            return m.unknown(frame, node, "make_dataclass makes a component class")
        return Opaque("type()")
    values[ANNOTATIONS] = TupleValue(tuple(entries))
    made = making.build(m, frame, str(name.value), bases, {}, values, node)
    if isinstance(made, Ref) and isinstance(m.obj(made), ClassObj):
        return apply_dataclass(m, frame, made, given, node)
    return made


def _type_text(kinds: list[Value]) -> str:
    """The head of a type as an annotation would write it."""
    kind = kinds[0] if kinds else NONE
    if isinstance(kind, Const):
        return str(kind.value)
    origin = kind.origin if isinstance(kind, Alias) else kind
    return origin.path.rpartition(".")[2] if isinstance(origin, Ext) else "object"


def initialise(
    m: Machine,
    frame: Frame,
    made: Ref,
    init: DataclassInit,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    rest: Value | None,
    kwrest: Value | None,
) -> None:
    """Call the constructor that `dataclass` wrote."""
    taken = [f for f in init.fields if f.accepted]
    positional = [f.name for f in taken if not f.keyword_only]
    if len(args) > len(positional):
        raise m.error(frame, node, "TypeError", "the dataclass is given too many arguments")
    given = dict(zip(positional, args, strict=False))
    for name, keyword in keywords.items():
        if name in given or name not in [f.name for f in taken]:
            raise m.error(frame, node, "TypeError", f"the dataclass cannot take '{name}'")
        given[name] = keyword
    unknown = kwrest or rest
    missing = [f.name for f in taken if f.required and f.name not in given]
    if missing and unknown is None:
        raise m.error(frame, node, "TypeError", f"the dataclass lacks '{missing[0]}'")
    given.update(dict.fromkeys(missing, unknown or NONE))
    if kwrest is not None:
        given.update({f.name: kwrest for f in taken if f.name not in given})
    cls = m.obj(made).cls  # type: ignore[attr-defined]
    handed: list[Value] = []
    for field in init.fields:
        value: Value | None = given.get(field.name)
        if value is None and field.factory is not None:
            value = m.concrete(calls.call(m, frame, field.factory, [], {}, node))
        if field.handed_on:
            handed.append(value or classes.class_attribute(m, cls, field.name) or Opaque())
        elif value is not None:
            m.store(made.oid, field.name, value)
    post = classes.class_attribute(m, cls, "__post_init__")
    if post is not None:
        calls.call(m, frame, calls.bind(m, post, made), handed, {}, node)
