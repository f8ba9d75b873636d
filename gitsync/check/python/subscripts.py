"""Subscripts: reading, setting and deleting items of every kind of value."""

from __future__ import annotations

import ast
import builtins
from typing import cast

from gitsync.check.python import (
    attributes,
    backed,
    calls,
    classes,
    containers,
    generics,
    keys,
    named_tuples,
    operators,
    protocols,
    reach,
    sets,
)
from gitsync.check.python.facts import BASES
from gitsync.check.python.heap import ClassObj, DictObj, FunctionObj, InstanceObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    TRUE,
    Alias,
    Bound,
    Const,
    Ext,
    Names,
    Opaque,
    Partial,
    Ref,
    TupleValue,
    Unknown,
    Value,
    View,
    Wrapped,
)
from gitsync.check.python.worlds import REGISTRY, Frame


def item(m: Machine, frame: Frame, owner: Value, key: Value, node: ast.AST) -> Value:
    """`owner[key]`."""
    if isinstance(owner, Unknown):
        return owner
    if isinstance(owner, TupleValue):
        return _of_sequence(m, frame, list(owner.items), None, key, node)
    if isinstance(owner, Const):
        return _of_constant(m, frame, owner, key, node)
    if isinstance(owner, Names):
        return _of_names(m, frame, owner, key, node)
    if isinstance(owner, Alias):
        more = (key,) if reach.touches(m.state, key) else ()
        return Alias(owner.origin, (*owner.args, *more)) if more else owner
    if isinstance(owner, Ext):
        if owner.path == "sys.version_info" and isinstance(key, Const):
            return Const((3, m.minor)[key.value]) if key.value in (0, 1) else Opaque("int()")
        if owner.path.endswith(".__dict__") and isinstance(key, Const):
            whole = Ext(owner.path.removesuffix(".__dict__"), "c")
            return attributes.of_external(m, frame, whole, str(key.value), node)
        if owner.kind == "c" or owner.path.startswith(("typing.", "collections.abc.")):
            generics.check_listed(m, frame, owner, key, node)
            _check_parameters(m, frame, owner, key, node)
            return Alias(owner, (key,))
        m.may_raise(m.place(frame, node), "KeyError" if owner.path == "os.environ" else "")
        return Opaque(owner.path + "[]")
    if isinstance(owner, Ref):
        obj = m.obj(owner)
        if sets.is_set(obj):
            raise m.error(frame, node, "TypeError", "this value has no items")
        if isinstance(obj, ListObj):
            return _of_sequence(m, frame, obj.items, obj.rest, key, node)
        if isinstance(obj, DictObj):
            return _of_dict(m, frame, owner, obj, key, node)
        if isinstance(obj, ClassObj):
            return _of_class(m, frame, owner, obj, key, node)
        if isinstance(obj, InstanceObj):
            held = obj.values.get("\0tuple")
            if isinstance(held, TupleValue):
                return item(m, frame, held, key, node)
            method = classes.class_attribute(m, obj.cls, "__getitem__")
            if method is not None:
                return calls.call(m, frame, calls.bind(m, method, owner), [key], {}, node)
            inner = backed.plain(m, owner)
            if inner != owner:
                missing = classes.class_attribute(m, obj.cls, "__missing__")
                if missing is not None and containers.contains(m, inner, key) is False:
                    return calls.call(m, frame, calls.bind(m, missing, owner), [key], {}, node)
                return item(m, frame, inner, key, node)
            fields = named_tuples.items(m, obj)
            if fields is not None:
                return _of_sequence(m, frame, fields, None, key, node)
            if reach.holds(m.state, obj):
                return m.unknown(frame, node, "an object that holds a component is subscripted")
            hook = classes.class_attribute(m, obj.cls, "__missing__")
            if hook is not None:
                made = calls.call(m, frame, calls.bind(m, hook, owner), [key], {}, node)
                if reach.touches(m.state, made):
                    return m.unknown(frame, node, "a dictionary makes its items when asked")
            if protocols.whole_class(m, owner) is not None:
                raise m.error(frame, node, "TypeError", "this object has no items")
            return Opaque()
        raise m.error(frame, node, "TypeError", "this value has no items")
    if isinstance(owner, View):
        raise m.error(frame, node, "TypeError", "a view of a dictionary has no items by number")
    if isinstance(owner, Opaque):
        if owner.carries or f"carries:{owner.path}" in m.space(REGISTRY).values:
            return m.unknown(frame, node, "an object that was given a component class hands it out")
        m.may_raise(m.place(frame, node))
        return Opaque(owner.path + "[]", third=owner.third, routed=owner.routed)
    return Opaque()


def _of_class(
    m: Machine, frame: Frame, owner: Ref, obj: ClassObj, key: Value, node: ast.AST
) -> Value:
    method = classes.meta_attribute(m, obj, "__getitem__")
    if method is not None:
        return calls.call(m, frame, method, [owner, key], {}, node)
    if classes.is_enum(obj) and isinstance(key, Const) and isinstance(key.value, str):
        found = obj.values.get(key.value)
        if found is None:
            raise m.error(frame, node, "KeyError", f"the enum {obj.name} has no '{key.value}'")
        return m.concrete(found)
    method = classes.class_attribute(m, owner, "__class_getitem__")
    if method is not None:
        function = method.function if hasattr(method, "function") else method
        return calls.call(m, frame, function, [owner, key], {}, node)
    known = all(isinstance(p, Ref) or p in _SUBSCRIPTED_BY_GENERIC for p in obj.mro)
    generic = any(isinstance(p, Ext) and p.path in _GENERIC for p in obj.mro)
    if known and not generic:
        raise m.error(frame, node, "TypeError", f"the class {obj.name} cannot be subscripted")
    if known:
        generics.check_arguments(m, frame, obj, key, node)
    return Alias(owner, (key,))


_GENERIC = ("typing.Generic", "typing.Protocol", BASES["workflow"])
# classes that leave `Class[…]` to `typing.Generic`
_SUBSCRIPTED_BY_GENERIC = [
    Ext(p) for p in (*BASES.values(), "abc.ABC", "builtins.object", "typing.Generic")
]


def _check_parameters(m: Machine, frame: Frame, owner: Ext, key: Value, node: ast.AST) -> None:
    """Raise for classes that cannot be subscripted, or not with so many arguments."""
    many = isinstance(key, TupleValue) and len(key.items) != 1
    name = owner.path.rpartition(".")[2]
    if owner.path == BASES["workflow"] and many:
        raise m.error(frame, node, "TypeError", f"{name}[...] takes one argument")
    plain = owner.path.startswith("builtins.") and isinstance(getattr(builtins, name, None), type)
    if owner.path == BASES["grader"] or (
        plain and name != "type" and not hasattr(getattr(builtins, name), "__class_getitem__")
    ):
        raise m.error(frame, node, "TypeError", f"the class {name} cannot be subscripted")


def _pick(m: Machine, frame: Frame, values: list[Value], node: ast.AST) -> Value:
    """One of several values, by an unknown key."""
    distinct: list[Value] = []
    for value in values:
        if value not in distinct:
            distinct.append(value)
    if not distinct:
        return Opaque()
    if not any(reach.touches(m.state, v) for v in distinct):
        rehearsed = m.rehearsal is not None and any(_may_be_called(m, v) for v in distinct)
        if len(distinct) > 1 and not (rehearsed and len(distinct) <= containers.MAX_CANDIDATES):
            return Opaque()
    if len(distinct) > containers.MAX_CANDIDATES:
        return m.unknown(frame, node, "an unknown key selects the class")
    if len(distinct) == 1:
        return distinct[0]
    return distinct[m.choose(len(distinct), m.place(frame, node), "an unknown key")]


def _may_be_called(m: Machine, value: Value) -> bool:
    if isinstance(value, Ref):
        return isinstance(m.obj(value), FunctionObj | ClassObj | InstanceObj)
    return isinstance(value, Opaque | Bound | Partial | Wrapped)


def _of_sequence(
    m: Machine, frame: Frame, items: list[Value], rest: Value | None, key: Value, node: ast.AST
) -> Value:
    key = operators.operator_method(m, frame, "__index__", key, [], node) or key
    if isinstance(key, Const) and isinstance(key.value, int):
        at = key.value
        if rest is None:
            if -len(items) <= at < len(items):
                return m.concrete(items[at])
            raise m.error(frame, node, "IndexError", "the index is out of range")
        if 0 <= at < len(items):
            return m.concrete(items[at])
        return rest
    if isinstance(key, Const):
        raise m.error(frame, node, "TypeError", "the index is no integer")
    if isinstance(key, Unknown):
        return key
    return _pick(m, frame, [*items, *([rest] if rest is not None else [])], node)


def _of_constant(m: Machine, frame: Frame, owner: Const, key: Value, node: ast.AST) -> Value:
    if isinstance(key, Const):
        try:
            return Const(owner.value[key.value])
        except (IndexError, KeyError):
            raise m.error(frame, node, "IndexError", "the index is out of range") from None
        except TypeError:
            raise m.error(frame, node, "TypeError", "this value has no such item") from None
    if owner.value is None:
        raise m.error(frame, node, "TypeError", "None has no items")
    return Opaque()


def _of_names(m: Machine, frame: Frame, owner: Names, key: Value, node: ast.AST) -> Value:
    space = m.space(owner.oid)
    if isinstance(key, Const) and isinstance(key.value, str):
        found = m.read(owner.oid, key.value)
        if found is not None:
            return found if space.taint is None else space.taint
        if space.taint is not None:
            return space.taint
        raise m.error(frame, node, "KeyError", f"there is no name '{key.value}'")
    return _pick(m, frame, list(containers.visible(m.settle(owner.oid)).values()), node)


def _of_dict(
    m: Machine, frame: Frame, owner: Ref, obj: DictObj, key: Value, node: ast.AST
) -> Value:
    keys.require_hashable(m, frame, key, node)
    held = keys.find(m, obj, key)
    if held is not None:
        found = obj.items.get(held)
        if found is not None:
            if obj.rest is not None:
                return _pick(m, frame, [m.concrete(found), obj.rest], node)
            return m.concrete(found)
        if obj.rest is not None:
            return obj.rest
        if obj.factory is not None:
            value = calls.call(m, frame, obj.factory, [], {}, node)
            changed = cast(DictObj, m.state.change(owner.oid))
            keys.put(m, changed, key, value)
            return value
        shown = repr(key.value)[:60] if isinstance(key, Const) else "this key"
        raise m.error(frame, node, "KeyError", f"the dictionary has no {shown}")
    if isinstance(key, Unknown):
        return key
    values = [m.concrete(v) for v in obj.items.values()]
    m.may_raise(m.place(frame, node))
    return _pick(m, frame, [*values, *([obj.rest] if obj.rest is not None else [])], node)


def set_item(
    m: Machine, frame: Frame, owner: Value, key: Value, value: Value, node: ast.AST
) -> None:
    """`owner[key] = value`."""
    if isinstance(owner, Unknown):
        m.doubt(owner)
        return
    if isinstance(owner, Names):
        set_name(m, frame, owner, key, value, node)
        return
    if isinstance(owner, Ref):
        obj = m.obj(owner)
        if isinstance(obj, DictObj):
            changed = cast(DictObj, m.state.change(owner.oid))
            containers.put(m, frame, changed, key, value, node)
            return
        if isinstance(obj, ListObj):
            key = operators.operator_method(m, frame, "__index__", key, [], node) or key
            seq = cast(ListObj, m.state.change(owner.oid))
            at = key.value if isinstance(key, Const) and isinstance(key.value, int) else None
            if at is not None and seq.rest is None:
                if not -len(seq.items) <= at < len(seq.items):
                    raise m.error(frame, node, "IndexError", "the index is out of range")
                seq.items[at] = value
            else:
                known = [*seq.items, value] + ([seq.rest] if seq.rest is not None else [])
                seq.rest = containers.blurred(m, frame, known, node)
                seq.items = []
            return
        if isinstance(obj, InstanceObj):
            method = classes.class_attribute(m, obj.cls, "__setitem__")
            if method is not None:
                calls.call(m, frame, calls.bind(m, method, owner), [key, value], {}, node)
            elif backed.plain(m, owner) != owner:
                set_item(m, frame, backed.plain(m, owner), key, value, node)
            elif protocols.whole_class(m, owner) is not None:
                raise m.error(frame, node, "TypeError", "this object has no items")
            elif reach.touches(m.state, value):
                m.store(owner.oid, "\0items", m.unknown(frame, node, "items of an object"))
            return
        raise m.error(frame, node, "TypeError", "items cannot be set here")
    if isinstance(owner, TupleValue | Const):
        raise m.error(frame, node, "TypeError", "items cannot be set here")
    if isinstance(owner, Opaque) and reach.touches(m.state, value):
        m.store(REGISTRY, f"carries:{owner.path}", TRUE)


def set_name(
    m: Machine, frame: Frame, owner: Names, key: Value, value: Value, node: ast.AST
) -> None:
    """`globals()[key] = value` and the like."""
    if isinstance(key, Const) and isinstance(key.value, str):
        target = m.obj(Ref(owner.oid))
        if isinstance(target, ClassObj):
            raise m.error(frame, node, "TypeError", "a class's __dict__ cannot be changed")
        m.store(owner.oid, key.value, value)
    else:
        m.taint(owner.oid, m.unknown(frame, node, "a name that is not known is bound"))


def remove_item(m: Machine, frame: Frame, owner: Value, key: Value, node: ast.AST) -> None:
    """`del owner[key]`."""
    if isinstance(owner, Names):
        space = m.space(owner.oid)
        if isinstance(key, Const) and key.value in space.values:
            m.state.change(owner.oid).values.pop(key.value)  # type: ignore[attr-defined]
        elif not isinstance(key, Const):
            m.taint(owner.oid, m.unknown(frame, node, "a name that is not known is deleted"))
        elif space.taint is None:
            raise m.error(frame, node, "KeyError", "there is no such name")
        return
    if isinstance(owner, Unknown):
        m.doubt(owner)
        return
    if isinstance(owner, TupleValue | Const):
        raise m.error(frame, node, "TypeError", "items cannot be deleted here")
    if not isinstance(owner, Ref):
        return
    obj = m.obj(owner)
    if isinstance(obj, InstanceObj):
        if item_method(m, frame, owner, "__delitem__", [key], node) is not None:
            return
        inner = backed.plain(m, owner)
        if inner != owner:
            remove_item(m, frame, inner, key, node)
        elif protocols.whole_class(m, owner) is not None:
            raise m.error(frame, node, "TypeError", "this object has no items to delete")
    elif isinstance(obj, DictObj):
        changed = cast(DictObj, m.state.change(owner.oid))
        keys.require_hashable(m, frame, key, node)
        held = keys.find(m, changed, key)
        if held is not None:
            if held in changed.items:
                del changed.items[held]
            elif changed.rest is None:
                raise m.error(frame, node, "KeyError", "the dictionary has no such key")
        else:
            changed.rest = containers.blurred(m, frame, list(changed.items.values()), node)
            changed.items = {}
    elif isinstance(obj, ListObj):
        key = operators.operator_method(m, frame, "__index__", key, [], node) or key
        seq = cast(ListObj, m.state.change(owner.oid))
        at = key.value if isinstance(key, Const) else None
        if isinstance(at, int) and seq.rest is None:
            if not -len(seq.items) <= at < len(seq.items):
                raise m.error(frame, node, "IndexError", "the index is out of range")
            del seq.items[at]
        else:
            known = [*seq.items] + ([seq.rest] if seq.rest is not None else [])
            seq.rest = containers.blurred(m, frame, known, node)
            seq.items = []


def item_method(
    m: Machine, frame: Frame, owner: Value, name: str, args: list[Value], node: ast.AST
) -> Value | None:
    """Call `__getitem__`, `__setitem__` or `__delitem__` of the repository's class; else None."""
    obj = m.obj(owner) if isinstance(owner, Ref) else None
    method = classes.class_attribute(m, obj.cls, name) if isinstance(obj, InstanceObj) else None
    if method is None:
        return None
    return m.concrete(calls.call(m, frame, calls.bind(m, method, owner), args, {}, node))


def pick_any(m: Machine, frame: Frame, values: list[Value], node: ast.AST) -> Value:
    """One of several values; which one is not known."""
    return _pick(m, frame, values, node)
