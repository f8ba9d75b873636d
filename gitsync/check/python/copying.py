"""`copy.copy` and `copy.deepcopy`: new objects of their own, and what stays the same object."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import backed, calls, classes
from gitsync.check.python.heap import ClassObj, DictObj, InstanceObj, ListObj, Obj
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import NONE, Ref, TupleValue, Value
from gitsync.check.python.worlds import REGISTRY, Frame

# A class that defines one of these decides itself what its copies are made of.
_PICKLED = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__")


def _copy(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else keywords.get("x", NONE)
    obj = m.obj(value) if isinstance(value, Ref) else None
    if not isinstance(obj, ListObj | DictObj | InstanceObj):
        return value
    made = _by_hook(m, frame, value, obj, "__copy__", [], node)
    if made is not None:
        return made
    new = m.new(obj.copy())
    inner = backed.plain(m, new)
    if isinstance(inner, Ref) and inner != new:
        backed.hold(m, new, m.new(m.obj(inner).copy()))
    return new


def _deepcopy(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else keywords.get("x", NONE)
    given = args[1] if len(args) > 1 else keywords.get("memo", NONE)
    memo = given if isinstance(given, Ref) else m.new(DictObj({}))
    return _deep(m, frame, value, memo, node)


def _deep(m: Machine, frame: Frame, value: Value, memo: Ref, node: ast.AST) -> Value:
    """A copy of everything that can change; by `memo` is known what was copied already."""
    value = m.concrete(value)
    if isinstance(value, TupleValue):
        return TupleValue(tuple(_deep(m, frame, v, memo, node) for v in value.items))
    obj = m.obj(value) if isinstance(value, Ref) else None
    if not isinstance(value, Ref) or not isinstance(obj, ListObj | DictObj | InstanceObj):
        return value
    m.tick()
    copied = f"copied:{memo.oid}:{value.oid}"
    known = m.space(REGISTRY).values.get(copied)
    if known is not None:
        return known
    made = _by_hook(m, frame, value, obj, "__deepcopy__", [memo], node)
    if made is not None:
        m.store(REGISTRY, copied, made)
        return made
    new = m.new(obj.copy())
    m.store(REGISTRY, copied, new)
    if isinstance(obj, ListObj):
        items = [_deep(m, frame, v, memo, node) for v in obj.items]
        cast(ListObj, m.state.change(new.oid)).items = items
    elif isinstance(obj, DictObj):
        pairs = {
            _deep(m, frame, k, memo, node): _deep(m, frame, v, memo, node)
            for k, v in obj.items.items()
        }
        cast(DictObj, m.state.change(new.oid)).items = pairs
    else:
        for name, held in list(m.settle(value.oid).values.items()):
            m.store(new.oid, name, _deep(m, frame, held, memo, node))
    return new


def _by_hook(
    m: Machine,
    frame: Frame,
    value: Value,
    obj: Obj,
    name: str,
    args: list[Value],
    node: ast.AST,
) -> Value | None:
    """What an instance's own class makes of it; None if it is copied in the usual way."""
    if not isinstance(obj, InstanceObj):
        return None
    method = classes.class_attribute(m, obj.cls, name)
    if method is not None:
        return m.concrete(calls.call(m, frame, calls.bind(m, method, value), args, {}, node))
    cls = m.obj(obj.cls) if isinstance(obj.cls, Ref) else None
    if isinstance(cls, ClassObj) and classes.is_enum(cls):
        return value
    if any(classes.class_attribute(m, obj.cls, n) is not None for n in _PICKLED):
        doubt = m.unknown(frame, node, "the class decides how its objects are copied")
        m.doubt(doubt)
        return doubt
    return None


RULES: dict[str, Rule] = {"copy.copy": _copy, "copy.deepcopy": _deepcopy}
