"""What `list`, `set`, `dict` and their kin make of what they are given."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import (
    backed,
    classes,
    container_methods,
    containers,
    expressions,
    keys,
    mappings,
    reach,
    sets,
)
from gitsync.check.python.heap import DictObj, InstanceObj, ListObj
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import NONE, Const, Coroutine, Lazy, Opaque, Ref, TupleValue, Value
from gitsync.check.python.worlds import Frame


def _sequence(kind: str) -> Rule:
    def build(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        items, rest = expressions.items_of(m, frame, args[0], node) if args else ([], None)
        if kind == "tuple" and rest is None:
            return TupleValue(tuple(items))
        if kind in ("set", "frozenset"):
            for item in items:
                keys.require_hashable(m, frame, item, node)
            return sets.new_set(m, items, rest, kind)
        return m.list_of(items, kind, rest)

    return build


def _deque(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    made = m.list_of([], "deque")
    container_methods.fill_deque(m, frame, made, args, keywords, node)
    return made


def _dict(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    obj = DictObj({})
    if args:
        first = mappings.as_mapping(m, frame, args[0], node) or args[0]
        found = m.obj(first) if isinstance(first, Ref) else None
        is_list = isinstance(first, TupleValue | Coroutine | Lazy) or isinstance(found, ListObj)
        if isinstance(found, InstanceObj) and backed.plain(m, first) == first:
            is_list = classes.class_attribute(m, found.cls, "__iter__") is not None
        if is_list:
            items, rest = expressions.items_of(m, frame, first, node)
            for pair in items:
                parts, more = expressions.items_of(m, frame, pair, node)
                if len(parts) == 2 and more is None:
                    containers.put(m, frame, obj, parts[0], parts[1], node)
                else:
                    obj.rest = containers.blurred(m, frame, [pair], node)
            obj.rest = rest or obj.rest
        else:
            containers.absorb(m, obj, first)
    for name, value in keywords.items():
        obj.items[Const(name)] = value
    return m.new(obj)


def _from_keys(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    obj = DictObj({})
    items, rest = expressions.items_of(m, frame, args[0], node) if args else ([], None)
    value = args[1] if len(args) > 1 else NONE
    for item in items:
        containers.put(m, frame, obj, item, value, node)
    if rest is not None:
        obj.rest = containers.blurred(m, frame, [value], node)
    return m.new(obj)


def _defaultdict(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    ref = cast(Ref, _dict(m, frame, args[1:], keywords, node))
    obj = cast(DictObj, m.state.change(ref.oid))
    obj.factory = args[0] if args else None
    return ref


def _proxy(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """A view of a dict shows what is put into the dict later."""
    inner = backed.plain(m, args[0]) if args else NONE
    if isinstance(inner, Ref) and isinstance(m.obj(inner), DictObj):
        return inner
    return _dict(m, frame, args, keywords, node)


def _chain(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """What is written into a chain goes into its first dict."""
    holds = any(reach.touches(m.state, arg) for arg in args)
    if args:
        doubt = m.unknown(frame, node, "a ChainMap may write into its first dict")
        containers.spoil(m, frame, args[0], node, [doubt])
    if holds:
        return m.unknown(frame, node, "a ChainMap hands out a component class")
    return Opaque("collections.ChainMap()")


RULES: dict[str, Rule] = {
    "builtins.list": _sequence("list"),
    "builtins.tuple": _sequence("tuple"),
    "builtins.set": _sequence("set"),
    "builtins.frozenset": _sequence("frozenset"),
    "collections.deque": _deque,
    "builtins.dict": _dict,
    "builtins.dict.fromkeys": _from_keys,
    "collections.OrderedDict": _dict,
    "types.MappingProxyType": _proxy,
    "builtins.mappingproxy": _proxy,
    "collections.ChainMap": _chain,
    "collections.defaultdict": _defaultdict,
}
