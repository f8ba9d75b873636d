"""Built-in methods of classes, and those reached through `super()`."""

from __future__ import annotations

import ast

from gitsync.check.python import (
    attributes,
    backed,
    calls,
    classes,
    exceptions,
    expressions,
    instances,
    making,
    mixins,
    models,
    reach,
    storing,
)
from gitsync.check.python.facts import BASES
from gitsync.check.python.heap import ClassObj, DictObj, InstanceObj, Namespace
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    NONE,
    Const,
    Ext,
    Opaque,
    Ref,
    Super,
    TupleValue,
    Unknown,
    Value,
)
from gitsync.check.python.worlds import REGISTRY, Frame


def class_method(
    m: Machine,
    frame: Frame,
    owner: Ref,
    obj: ClassObj,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> Value:
    """Call a built-in method of a class."""
    if name == "register":
        return register(m, frame, owner, args[0] if args else NONE, node)
    if name == "mro":
        return m.list_of([owner, *obj.mro, Ext("builtins.object", "c")])
    if name == "__subclasses__":
        found = [
            Ref(oid)
            for oid, other in sorted(m.state.heap.items())
            if isinstance(other, ClassObj) and owner in other.bases
        ]
        return m.list_of(list(found))
    if name == "__new__":
        cls = args[0] if args else owner
        if not classes.is_class(m, cls):
            return Opaque()
        fresh = m.new(InstanceObj(cls))
        backed.equip(m, frame, fresh, cls, args[1:], node)
        return fresh
    if name == "_make" and args:
        items, rest = expressions.items_of(m, frame, args[0], node)
        return instances.new_instance(m, frame, owner, obj, items, {}, node, rest)
    if name == "__call__":
        return instances.new_instance(m, frame, owner, obj, args, keywords, node)
    if name == "__setattr__" and len(args) == 2 and isinstance(args[0], Const):
        storing.put(m, frame, owner, str(args[0].value), args[1], node)
        return NONE
    return NONE if name in ("__init__", "__init_subclass__") else Opaque()


def register(m: Machine, frame: Frame, target: Value, value: Value, node: ast.AST) -> Value:
    """`Base.register(X)`: X becomes a virtual subclass."""
    cycle = value == Ext("builtins.object", "c") or value in classes.mro_of(m, target)[1:]
    if cycle:
        raise m.error(frame, node, "RuntimeError", "a base cannot be registered as a subclass")
    known = m.space(REGISTRY).values.get("registered")
    pairs = known.items if isinstance(known, TupleValue) else ()
    m.store(REGISTRY, "registered", TupleValue((*pairs, TupleValue((target, value)))))
    for base in BASES.values():
        if not reach.is_subclass(m.state, target, base):
            continue
        key = f"virtual:{base}"
        old = m.space(REGISTRY).values.get(key)
        items = old.items if isinstance(old, TupleValue) else ()
        if classes.is_class(m, value):
            m.store(REGISTRY, key, TupleValue((*items, value)))
        elif not isinstance(value, Opaque):
            if isinstance(value, Unknown):
                m.doubt(value)
            else:
                raise m.error(frame, node, "TypeError", "only classes can be registered")
        else:
            doubt = m.unknown(frame, node, "an unknown class is registered")
            m.doubt(doubt)
    return value


def super_method(
    m: Machine,
    frame: Frame,
    owner: Super,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    unknown: Value | None = None,
) -> Value:
    """A built-in or SDK method reached through `super()`."""
    after = owner.after
    subject = owner.owner
    obj = m.obj(after) if isinstance(after, Ref) else None
    is_meta = isinstance(obj, ClassObj) and Ext("builtins.type") in obj.mro
    if name == "__new__":
        if len(args) == 4 and (is_meta or classes.is_class(m, args[0])):
            return new_class(m, frame, args, keywords, node)
        cls = args[0] if args else NONE
        if isinstance(cls, Ref):
            made = m.obj(cls)
            if isinstance(made, ClassObj):
                if made.abstract:
                    raise m.error(
                        frame, node, "TypeError", f"the abstract class {made.name} is instantiated"
                    )
                others = set(_providers_after(m, cls, after)) - set(_SDK)
                if (len(args) > 1 or keywords) and not others and unknown is None:
                    reason = "object.__new__() takes the class and nothing else"
                    raise m.error(frame, node, "TypeError", reason)
                fresh = m.new(InstanceObj(cls, tuple(args[1:])))
                backed.equip(m, frame, fresh, cls, args[1:], node)
                return fresh
        return Opaque()
    if name == "__call__" and isinstance(subject, Ref):
        cls_obj = m.obj(subject)
        if isinstance(cls_obj, ClassObj):
            return instances.new_instance(m, frame, subject, cls_obj, args, keywords, node)
    if name == "__init__" and isinstance(subject, Ref):
        instance = m.obj(subject)
        if isinstance(instance, InstanceObj):
            following = _providers_after(m, instance.cls, after)
            exceptions.set_arguments(m, subject, args if unknown is None else None)
            if following and models.is_model(following[0]):
                models.check_arguments(m, frame, instance.cls, args, keywords, node, unknown)
            if following and following[0] not in _SDK and unknown is None:
                backed.fill(m, frame, subject, args, keywords, node)
            if following and following[0] in _SDK:
                instances.initialise_component(
                    m, frame, subject, args, keywords, node, is_known=unknown is None
                )
            elif not following:
                if (args or keywords) and unknown is None:
                    raise m.error(frame, node, "TypeError", "object.__init__() takes no arguments")
            elif backed.plain(m, subject) == subject:
                for word, value in keywords.items():
                    m.store(subject.oid, word, value)
        return NONE
    if name in ("__setattr__", "__delattr__") and args and isinstance(args[0], Const):
        if isinstance(subject, Ref):
            _plainly_stored(m, frame, subject, str(args[0].value), args[1:], node)
        return NONE
    if name == "__init_subclass__" and keywords and unknown is None:
        others = set(_providers_after(m, subject, after)) - set(_SDK)
        if not others:
            reason = "__init_subclass__() is given keywords that nothing takes"
            raise m.error(frame, node, "TypeError", reason)
    if name == "__prepare__":
        return m.new(DictObj({}))
    if name in ("__init_subclass__", "__set_name__", "__exit__", "__enter__"):
        return NONE
    if name == "__getattribute__" and args and isinstance(args[0], Const):
        return attributes.plainly(m, frame, subject, str(args[0].value), node)
    mixed = mixins.bound(m, frame, subject, name)
    if mixed is not None:
        return calls.call(m, frame, mixed, args, keywords, node)
    if backed.has_method(m, subject, name):
        return backed.call(m, frame, subject, name, args, keywords, node)
    if name in ("run", "grade"):
        return Opaque()
    if (
        reach.touches(m.state, subject)
        and isinstance(subject, Ref)
        and isinstance(m.obj(subject), ClassObj)
    ):
        if name in ("__eq__", "__hash__", "__repr__", "__str__"):
            return Opaque()
        return m.unknown(frame, node, "a built-in method of a component class is called")
    return Opaque()


def _plainly_stored(
    m: Machine, frame: Frame, subject: Ref, name: str, values: list[Value], node: ast.AST
) -> None:
    """`object.__setattr__`, or `object.__delattr__` if there is no value."""
    space = m.obj(subject)
    if not values:
        storing.remove(m, frame, subject, name, node, plainly=True)
    elif isinstance(space, InstanceObj):
        storing.put(m, frame, subject, name, values[0], node, plainly=True)
    elif isinstance(space, Namespace):
        m.store(subject.oid, name, values[0])


# bases whose constructor is that of `object`
_SDK = [Ext(base, "c") for base in BASES.values()]
_PLAIN = ("abc.ABC", "typing.Generic", "typing.Protocol", "builtins.object")


def _providers_after(m: Machine, cls: Value, after: Value) -> list[Value]:
    """The classes behind `after` in the MRO that may have a constructor of their own."""
    lineage = list(classes.mro_of(m, cls))
    rest = lineage[lineage.index(after) + 1 :] if after in lineage else [Opaque()]
    return [p for p in rest if not isinstance(p, Ref) and p not in [Ext(n) for n in _PLAIN]]


def new_class(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`type.__new__(meta, name, bases, namespace)` from inside a metaclass."""
    meta, name, bases, space = args
    items, rest = expressions.items_of(m, frame, bases, node)
    values: dict[str, Value] = {}
    more = calls.spread(m, frame, space, values, node)
    if rest is not None or more is not None or not isinstance(name, Const):
        return m.unknown(frame, node, "the parts of the class are not known")
    lineage = classes.mro_of(m, meta)
    if any(not isinstance(p, Ref | Ext) for p in lineage):
        return m.unknown(frame, node, "the metaclass cannot be looked into")
    return making.create(m, frame, lineage, str(name.value), items, keywords, values, node)
