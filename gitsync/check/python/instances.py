"""Instances: `Class(...)`, generated constructors, enum members, three-argument `type()`."""

from __future__ import annotations

import ast

from gitsync.check.python import (
    backed,
    calls,
    classes,
    containers,
    enums,
    expressions,
    making,
    models,
    named_tuples,
    reach,
)
from gitsync.check.python.heap import ClassObj, DictObj, FunctionObj, InstanceObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    NONE,
    Alias,
    Const,
    Coroutine,
    DataclassInit,
    Ext,
    Opaque,
    Ref,
    TupleValue,
    Unknown,
    Value,
    Wrapped,
)
from gitsync.check.python.worlds import Frame, Raised


def iterate_instance(
    m: Machine, frame: Frame, value: Ref, obj: InstanceObj, node: ast.AST
) -> tuple[list[Value], Value | None] | None:
    """Iterating an instance of a local class."""
    result = own_iterator(m, frame, value, node)
    if result is not None:
        step = next_method(m, result)
        if isinstance(result, Ref) and step is not None:
            return _stepped(m, frame, result, step, "StopIteration", node)
        if result == value:
            doubt = reach.touches(m.state, value)
            return [], m.unknown(frame, node, "an iterator of its own") if doubt else Opaque()
        return expressions.items_of(m, frame, result, node)
    fields = named_tuples.items(m, obj)
    if fields is not None:
        return fields, None
    if backed.plain(m, value) != value:
        return expressions.items_of(m, frame, backed.plain(m, value), node)
    by_index = classes.class_attribute(m, obj.cls, "__getitem__")
    if by_index is not None:
        return _stepped(m, frame, value, calls.bind(m, by_index, value), "IndexError", node)
    if reach.holds(m.state, obj):
        return [], m.unknown(frame, node, "an object that holds a component is iterated over")
    if isinstance(obj.cls, Ref):
        cls = m.obj(obj.cls)
        if isinstance(cls, ClassObj) and all(isinstance(p, Ref) for p in cls.mro):
            raise m.error(frame, node, "TypeError", "this object cannot be iterated over")
    return [], Opaque()


def own_iterator(m: Machine, frame: Frame, value: Value, node: ast.AST) -> Value | None:
    """What the `__iter__` of the repository's own class gives; None if there is none."""
    obj = m.obj(value) if isinstance(value, Ref) else None
    method = (
        classes.class_attribute(m, obj.cls, "__iter__") if isinstance(obj, InstanceObj) else None
    )
    if method is None:
        return None
    return m.concrete(calls.call(m, frame, calls.bind(m, method, value), [], {}, node))


def next_method(m: Machine, value: Value) -> Value | None:
    """The `__next__` of an iterator of the repository's own class."""
    obj = m.obj(value) if isinstance(value, Ref) else None
    method = (
        classes.class_attribute(m, obj.cls, "__next__") if isinstance(obj, InstanceObj) else None
    )
    return None if method is None else calls.bind(m, method, value)


MAX_STEPS = 200


def _stepped(
    m: Machine, frame: Frame, value: Ref, step: Value, end: str, node: ast.AST
) -> tuple[list[Value], Value | None]:
    """What `__next__`, or `__getitem__` from 0 on, gives until it raises the end."""
    items: list[Value] = []
    for at in range(MAX_STEPS):
        m.tick()
        args: list[Value] = [Const(at)] if end == "IndexError" else []
        try:
            items.append(m.concrete(calls.call(m, frame, step, args, {}, node)))
        except Raised as raised:
            if not classes.exception_matches(m, raised.value, Ext(f"builtins.{end}", "c")):
                raise
            return items, None
    m.taint(value.oid, m.unknown(frame, node, "an iterator goes on and on"))
    return [], containers.blurred(m, frame, items, node)


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
        return enums.by_value(m, frame, ref, cls, args, node)
    if any(Ext("typing.TypedDict") in raw for raw in classes.written_bases(m, ref)):
        return _typed_dict(m, frame, cls, args, keywords, node, rest or kwrest)
    return new_instance(m, frame, ref, cls, args, keywords, node, rest, kwrest)


def _typed_dict(
    m: Machine,
    frame: Frame,
    cls: ClassObj,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    unknown: Value | None,
) -> Value:
    """A `TypedDict` makes plain dictionaries."""
    if not args:
        return m.new(DictObj({Const(k): v for k, v in keywords.items()}, unknown))
    found = m.obj(args[0]) if isinstance(args[0], Ref) else None
    if len(args) > 1 or isinstance(args[0], Const):
        raise m.error(frame, node, "TypeError", f"{cls.name}() takes a dictionary")
    if not isinstance(found, DictObj):
        doubt = any(reach.touches(m.state, v) for v in (*args, *keywords.values()))
        return m.unknown(frame, node, "a dictionary is made of other items") if doubt else Opaque()
    items = found.items | {Const(k): v for k, v in keywords.items()}
    return m.new(DictObj(dict(items), found.rest or unknown))


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
        own_init = _constructor_part(m, ref, "__init__")
        if own_init is None and Ext("typing.Protocol") in cls.bases:
            raise m.error(frame, node, "TypeError", f"the protocol {cls.name} is instantiated")
        made = m.new(InstanceObj(ref, tuple(args) if rest is None else None))
        backed.equip(m, frame, made, ref, args if new is None and rest is None else (), node)
        deleter = classes.class_attribute(m, ref, "__del__")
        if deleter is not None and reach.touches(m.state, deleter):
            m.doubt(m.unknown(frame, node, "an object runs code when it is deleted"))
        if m.rehearsal is not None and classes.has_opaque_base(m, ref):
            from gitsync.check.python import rehearsals

            rehearsals.hand_on(m, [*args, *keywords.values()])
    init = _constructor_part(m, ref, "__init__")
    if isinstance(init, DataclassInit):
        from gitsync.check.python import dataclassing

        dataclassing.initialise(m, frame, made, init, args, keywords, node, rest, kwrest)
    elif isinstance(init, Ref) and isinstance(m.obj(init), FunctionObj):
        given = m.concrete(
            calls.call(m, frame, init, [made, *args], keywords, node, rest=rest, kwrest=kwrest)
        )
        if given != NONE and isinstance(given, Const | TupleValue | Ref | Coroutine):
            raise m.error(frame, node, "TypeError", f"__init__() of {cls.name} gives a value back")
    elif isinstance(init, Ref) and isinstance(m.obj(init), InstanceObj):
        # an object is called as it is, unless it binds itself
        if classes.class_attribute(m, m.obj(init).cls, "__get__") is None:  # type: ignore[attr-defined]
            calls.call(m, frame, init, args, keywords, node, rest=rest, kwrest=kwrest)
    elif isinstance(init, Ext):
        if isinstance(made, Ref):
            initialise_component(
                m, frame, made, args, keywords, node, is_known=not (rest or kwrest)
            )
    elif isinstance(made, Ref) and not backed.fill(m, frame, made, args, keywords, node):
        if new is None:
            named_tuples.fill(m, frame, made, args, keywords, node, rest or kwrest)
        models.check_arguments(m, frame, ref, args, keywords, node, rest or kwrest)
        for name, value in keywords.items():
            m.store(made.oid, name, value)
        if (
            named_tuples.fields(m, ref) is None
            and not keywords
            and args
            and all(isinstance(p, Ref) for p in cls.mro)
            and (new is None)
        ):
            raise m.error(frame, node, "TypeError", f"{cls.name}() takes no arguments")
    return made


def initialise_component(
    m: Machine,
    frame: Frame,
    made: Ref,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    *,
    is_known: bool = True,
) -> None:
    """`__init__(self, config=None)` of the SDK's two bases."""
    from gitsync.check.python import storing

    too_many = len(args) + len(keywords) > 1 or set(keywords) - {"config"}
    if too_many and is_known:
        reason = "the SDK's constructor takes the config and nothing else"
        raise m.error(frame, node, "TypeError", reason)
    value = args[0] if args else keywords.get("config", NONE)
    storing.put(m, frame, made, "config", value, node)


def _constructor_part(m: Machine, ref: Ref, name: str) -> Value | None:
    found = classes.find_in_mro(m, ref, name)
    return found[1] if found is not None else None


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
    refuse_aliases(m, frame, args[1], node)
    return class_from_parts(m, frame, args, {**keywords, "metaclass": ref}, node)


def refuse_aliases(m: Machine, frame: Frame, bases: Value, node: ast.AST) -> None:
    """`type()` itself does not resolve `Class[argument]`, as the class statement does."""
    items, _ = expressions.items_of(m, frame, bases, node)
    if any(isinstance(item, Alias) for item in items):
        reason = "type() takes no Class[argument] as a base; types.new_class() does"
        raise m.error(frame, node, "TypeError", reason)


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
