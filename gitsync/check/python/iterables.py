"""Functions of builtins that make or consume iterables."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import cast

from gitsync.check.python import (
    calls,
    classes,
    containers,
    definitions,
    expressions,
    generators,
    interrupting,
    protocols,
    subscripts,
)
from gitsync.check.python.heap import FunctionObj, InstanceObj, ListObj
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import (
    FALSE,
    NONE,
    TRUE,
    Bound,
    Const,
    Coroutine,
    Ext,
    Lazy,
    Method,
    Opaque,
    Partial,
    Ref,
    TupleValue,
    Unknown,
    Value,
)
from gitsync.check.python.worlds import Frame, Raised

# What some builtins do, as generators.
_BODIES = {
    "iter": """
def iterator(function, sentinel):
    while not (item := function()) == sentinel:
        yield item
""",
    "map": """
def map(function, iterable):
    for item in iterable:
        yield function(item)
""",
    "filter": """
def filter(function, iterable):
    for item in iterable:
        if item if function is None else function(item):
            yield item
""",
    "enumerate": """
def enumerate(iterable, start):
    for item in iterable:
        yield start, item
        start += 1
""",
}
_LAZY = {k: cast(ast.FunctionDef, ast.parse(text).body[0]) for k, text in _BODIES.items()}


def _lazily(m: Machine, frame: Frame, name: str, args: list[Value], node: ast.AST) -> Value:
    """A generator that does what the builtin does, when it is asked to."""
    function = definitions.make_function(m, replace(frame, scope=None, closure=()), _LAZY[name])
    return calls.call(m, frame, function, args, {}, node)


def _is_shared(m: Machine, value: Value) -> bool:
    """True for an iterator of which others may take items."""
    return is_iterator(m, value) or isinstance(value, Coroutine | Lazy)


def _has_effects(m: Machine, function: Value) -> bool:
    """True if it matters when a function is called."""
    if isinstance(function, Bound | Partial):
        return _has_effects(m, function.function)
    if isinstance(function, Method):
        return True
    obj = m.obj(function) if isinstance(function, Ref) else None
    return isinstance(obj, FunctionObj) and interrupting.changes_more(obj.node)


def _map(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) < 2:
        raise m.error(frame, node, "TypeError", "map() needs a function and an iterable")
    if len(args) == 2 and (_is_shared(m, args[1]) or _has_effects(m, args[0])):
        return _lazily(m, frame, "map", args, node)
    columns = _columns(m, frame, args[1:], node)
    rows = zip(*(c[0] for c in columns), strict=False)
    out = [calls.call(m, frame, args[0], list(row), {}, node) for row in rows]
    if all(rest is None for _, rest in columns):
        return m.list_of(out, "iterator")
    some = [containers.blurred(m, frame, [*i, *([r] if r else [])], node) for i, r in columns]
    return m.list_of(out, "iterator", calls.call(m, frame, args[0], some, {}, node))


def _filter(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) != 2:
        return Opaque()
    if _is_shared(m, args[1]) or _has_effects(m, args[0]):
        return _lazily(m, frame, "filter", args, node)
    items, rest = expressions.items_of(m, frame, args[1], node)
    out: list[Value] = []
    for item in items:
        test = item if args[0] == NONE else calls.call(m, frame, args[0], [item], {}, node)
        if expressions.is_true(m, frame, test, node):
            out.append(item)
    return m.list_of(out, "iterator", rest)


def is_iterator(m: Machine, value: Value) -> bool:
    """True for an iterator whose items are all known, and are lost when they are taken."""
    obj = m.obj(value) if isinstance(value, Ref) else None
    return isinstance(obj, ListObj) and obj.kind == "iterator" and obj.rest is None


def in_turn(
    m: Machine, frame: Frame, args: list[Value], node: ast.AST, *, longest: bool = False
) -> list[list[Value]] | None:
    """Rows of the items of several iterables, one of which may be the same iterator twice.

    None if there is no such iterator, or some items are not known.
    """
    if not any(is_iterator(m, arg) for arg in args):
        return None
    sources: list[Ref] = []
    for arg in args:
        if is_iterator(m, arg):
            sources.append(cast(Ref, arg))
            continue
        items, rest = expressions.items_of(m, frame, arg, node)
        if rest is not None:
            return None
        sources.append(m.list_of(items, "iterator"))
    rows: list[list[Value]] = []
    while True:
        m.tick()
        row: list[Value] = []
        ended = 0
        for source in sources:
            item = generators.step(m, frame, source, node)
            if item is None:
                ended += 1
                if not longest:
                    return rows
            row.append(NONE if item is None else item)
        if ended == len(sources):
            return rows
        rows.append(row)


def _columns(
    m: Machine, frame: Frame, args: list[Value], node: ast.AST
) -> list[tuple[list[Value], Value | None]]:
    """The items of several iterables; generators are asked for no more than the others have."""
    columns: list[tuple[list[Value], Value | None]] = [([], None)] * len(args)
    waiting: list[int] = []
    for at, value in enumerate(args):
        if isinstance(value, Coroutine) and len(args) > 1:
            waiting.append(at)
        else:
            columns[at] = expressions.items_of(m, frame, value, node)
    for at in waiting:
        ends = [
            len(items) + (other > at)
            for other, (items, rest) in enumerate(columns)
            if rest is None and other not in waiting
        ]
        limit = min(ends) if ends else None
        columns[at] = generators.collect(m, frame, args[at], node, limit=limit)
    return columns


def _zip(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    rows = in_turn(m, frame, args, node) if len(args) > 1 and not keywords else None
    if rows is not None:
        return m.list_of([TupleValue(tuple(row)) for row in rows], "iterator")
    columns = _columns(m, frame, args, node)
    strict = keywords.get("strict", FALSE)
    lengths = {len(items) for items, rest in columns if rest is None}
    if expressions.known_truth(m, frame, strict, node) and len(lengths) > 1:
        raise m.error(frame, node, "ValueError", "zip() is given iterables of different lengths")
    if any(rest is not None for _, rest in columns):
        everything = [v for items, rest in columns for v in (*items, *((rest,) if rest else ()))]
        blurred = containers.blurred(m, frame, everything, node)
        return m.list_of([], "iterator", TupleValue((blurred,) * len(columns)))
    return m.list_of(
        [TupleValue(tuple(row)) for row in zip(*(c[0] for c in columns), strict=False)], "iterator"
    )


def _enumerate(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    start = args[1] if len(args) > 1 else keywords.get("start", Const(0))
    if args and _is_shared(m, args[0]):
        return _lazily(m, frame, "enumerate", [args[0], start], node)
    items, rest = expressions.items_of(m, frame, args[0], node) if args else ([], None)
    base = start.value if isinstance(start, Const) and isinstance(start.value, int) else 0
    return m.list_of(
        [TupleValue((Const(base + i), v)) for i, v in enumerate(items)],
        "iterator",
        None if rest is None else TupleValue((Opaque("int()"), rest)),
    )


def _range(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    numbers = [a.value for a in args if isinstance(a, Const) and isinstance(a.value, int)]
    if len(numbers) == len(args) and 1 <= len(args) <= 3:
        try:
            span = range(*numbers)
        except ValueError:
            raise m.error(frame, node, "ValueError", "range() needs a step") from None
        if len(span) <= 2000:
            return TupleValue(tuple(Const(i) for i in span))
    return m.list_of([], "list", Opaque("int()"))


def _reversed(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    items, rest = expressions.items_of(m, frame, args[0], node) if args else ([], None)
    if rest is not None:
        return m.list_of([], "iterator", containers.blurred(m, frame, [*items, rest], node))
    return m.list_of(items[::-1], "iterator")


_STOP = Ext("builtins.StopIteration", "c")


def _next(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    default = args[1] if len(args) > 1 else None
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, ListObj) and obj.kind == "iterator":
            if obj.items:
                changed = cast(ListObj, m.state.change(value.oid))
                return m.concrete(changed.items.pop(0))
            if obj.rest is not None:
                return subscripts.pick_any(
                    m, frame, [obj.rest, *([default] if default is not None else [])], node
                )
            if default is not None:
                return default
            raise m.error(frame, node, "StopIteration", "the iterator is empty")
        if isinstance(obj, InstanceObj):
            method = classes.class_attribute(m, obj.cls, "__next__")
            if method is not None:
                try:
                    return calls.call(m, frame, calls.bind(m, method, value), [], {}, node)
                except Raised as raised:
                    if default is None or not classes.exception_matches(m, raised.value, _STOP):
                        raise
                    return default
    if isinstance(value, Coroutine | Lazy):
        return m.concrete(generators.advance(m, frame, value, node, default=default))
    if isinstance(value, Unknown):
        return value
    if isinstance(value, Opaque) and value.carries:
        return m.unknown(frame, node, "an object that was given a component is iterated over")
    if protocols.lacks(m, value, "__next__"):
        raise m.error(frame, node, "TypeError", "this value is no iterator")
    return Opaque()


def _iter(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if len(args) == 2:
        return _lazily(m, frame, "iter", args, node)
    if isinstance(value, Coroutine | Lazy):
        return value
    items, rest = expressions.items_of(m, frame, value, node)
    return m.list_of(items, "iterator", rest)


def _any_all(wanted: bool) -> Rule:
    def test(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        decided = generators.search(m, frame, args[0], node, wanted) if args else None
        if decided is not None:
            return decided
        items, rest = expressions.items_of(m, frame, args[0], node) if args else ([], None)
        for item in items:
            if expressions.is_true(m, frame, item, node) is wanted:
                return TRUE if wanted else FALSE
        if rest is not None:
            return Opaque("bool()")
        return FALSE if wanted else TRUE

    return test


RULES: dict[str, Rule] = {
    "builtins.map": _map,
    "builtins.filter": _filter,
    "builtins.zip": _zip,
    "builtins.enumerate": _enumerate,
    "builtins.range": _range,
    "builtins.reversed": _reversed,
    "builtins.next": _next,
    "builtins.iter": _iter,
    "builtins.any": _any_all(True),
    "builtins.all": _any_all(False),
}
