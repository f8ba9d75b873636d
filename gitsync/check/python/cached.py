"""`functools.cache`: equal arguments give the same object, which matters where it is a class."""

from __future__ import annotations

import ast

from gitsync.check.python import calls, reach
from gitsync.check.python.heap import DictObj, ListObj, Namespace
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import TRUE, Const, Ext, Ref, TupleValue, Value, Wrapped
from gitsync.check.python.worlds import REGISTRY, Frame


def call_cached(
    m: Machine,
    frame: Frame,
    function: Wrapped,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> Value:
    """A call of a function that remembers its results."""
    given = [*args, *keywords.values()]
    for value in given:
        obj = m.obj(value) if isinstance(value, Ref) else None
        is_mutable = isinstance(obj, DictObj) or (
            isinstance(obj, ListObj) and obj.kind in ("list", "set", "deque")
        )
        if is_mutable:
            raise m.error(frame, node, "TypeError", "a cached function is given a mutable value")
    size = function.args[0] if function.args else Const(None)
    most = size.value if isinstance(size, Const) else 0
    if most == 0 or not all(map(_is_known, given)):
        return calls.call(m, frame, function.function, args, keywords, node)
    prefix = f"cached:{function.function!r}:"
    key = f"{prefix}{args!r}:{sorted(keywords.items(), key=lambda k: k[0])!r}"
    known = m.read(REGISTRY, key)
    if known is not None and m.read(REGISTRY, f"forgets:{prefix}") is not None:
        return _forgotten(m, frame, known, node)
    if known is not None:
        return known
    result = m.concrete(calls.call(m, frame, function.function, args, keywords, node))
    registry = m.state.heap.get(REGISTRY)
    names = registry.values if isinstance(registry, Namespace) else {}
    if isinstance(most, int) and sum(1 for n in names if n.startswith(prefix)) >= most:
        m.store(REGISTRY, f"forgets:{prefix}", TRUE)
        return _forgotten(m, frame, result, node)
    m.store(REGISTRY, key, result)
    return result


def _forgotten(m: Machine, frame: Frame, result: Value, node: ast.AST) -> Value:
    """A cache that was full may give the old object or a new one."""
    if reach.touches(m.state, result):
        return m.unknown(frame, node, "what a full cache has forgotten is not known")
    return result


def _is_known(value: Value) -> bool:
    """True if equal values certainly are one key."""
    if isinstance(value, TupleValue):
        return all(map(_is_known, value.items))
    return isinstance(value, Const | Ext | Ref)
