"""What works as a dict without being one: mappings of an own class, and views of dicts."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import calls, classes, containers, expressions, mixins
from gitsync.check.python.heap import DictObj, InstanceObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import Opaque, Ref, TupleValue, Value, View
from gitsync.check.python.worlds import Frame


def as_mapping(m: Machine, frame: Frame, value: Value, node: ast.AST) -> Ref | None:
    """What an object with `keys` and `__getitem__` of its own is as a dict; None for others."""
    obj = m.obj(value) if isinstance(value, Ref) else None
    if not isinstance(obj, InstanceObj):
        return None
    method = classes.class_attribute(m, obj.cls, "keys")
    get = classes.class_attribute(m, obj.cls, "__getitem__")
    mixed = mixins.bound(m, frame, value, "keys") if method is None and get is not None else None
    if get is None or (method is None and mixed is None):
        return None
    listed = mixed if method is None else calls.bind(m, method, value)
    keys = calls.call(m, frame, cast(Value, listed), [], {}, node)
    items, rest = expressions.items_of(m, frame, m.concrete(keys), node)
    made = DictObj({})
    for key in items:
        found = calls.call(m, frame, calls.bind(m, get, value), [key], {}, node)
        containers.put(m, frame, made, key, m.concrete(found), node)
    if rest is not None:
        made.rest = m.unknown(frame, node, "the keys of a mapping are not known")
    return m.new(made)


def snapshot(m: Machine, value: Value) -> Value:
    """What a view of a dict shows now, as a list; any other value itself."""
    if not isinstance(value, View):
        return value
    obj = m.obj(cast(Ref, value.owner))
    return shown_by(m, obj.items, obj.rest, value.name) if isinstance(obj, DictObj) else value


def shown_by(m: Machine, items: dict[Value, Value], rest: Value | None, name: str) -> Ref:
    """What a view of these items shows now."""
    if name == "keys":
        return m.list_of(list(items), "keys", None if rest is None else Opaque())
    if name == "values":
        return m.list_of([m.concrete(v) for v in items.values()], "list", rest)
    pairs: list[Value] = [TupleValue((k, m.concrete(v))) for k, v in items.items()]
    return m.list_of(pairs, "items", None if rest is None else TupleValue((Opaque(), rest)))
