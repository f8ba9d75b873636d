"""Functions of builtins that make or consume iterables."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

from gitsync.check.python import (
    backed,
    calls,
    classes,
    container_methods,
    containers,
    definitions,
    expressions,
    generators,
    keys,
    mappings,
    protocols,
    ranking,
    sets,
    subscripts,
)
from gitsync.check.python.heap import DictObj, InstanceObj, ListObj
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import (
    FALSE,
    NONE,
    TRUE,
    Const,
    Coroutine,
    Ext,
    Lazy,
    Opaque,
    Ref,
    TupleValue,
    Unknown,
    Value,
)
from gitsync.check.python.worlds import Frame, Raised


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


def _map(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) < 2:
        raise m.error(frame, node, "TypeError", "map() needs a function and an iterable")
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
    items, rest = expressions.items_of(m, frame, args[0], node) if args else ([], None)
    start = args[1] if len(args) > 1 else keywords.get("start", Const(0))
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


def _sorted(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    items, rest = expressions.items_of(m, frame, args[0], node) if args else ([], None)
    return ordered(m, frame, items, keywords, node, rest)


def ordered(
    m: Machine,
    frame: Frame,
    items: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    rest: Value | None = None,
) -> Value:
    """A new list of the items in the order of their keys."""
    if rest is None:
        ranked = ranking.rank(m, frame, items, keywords, node)
        backwards = expressions.known_truth(m, frame, keywords.get("reverse", FALSE), node)
        if backwards is not None or len(items) < 2:
            try:
                return m.list_of([r.value for r in sorted(ranked, reverse=bool(backwards))])
            except ranking.Unclear:
                pass
    everything = [*items, *([rest] if rest is not None else [])]
    return m.list_of([], "list", containers.blurred(m, frame, everything, node))


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


# what `iter(function, sentinel)` does
_UNTIL = cast(
    ast.FunctionDef,
    ast.parse(
        "def iterator(function, sentinel):\n"
        "    while not (item := function()) == sentinel:\n"
        "        yield item\n"
    ).body[0],
)


def _iter(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if len(args) == 2:
        asked = definitions.make_function(m, replace(frame, scope=None, closure=()), _UNTIL)
        return calls.call(m, frame, asked, args, {}, node)
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


def _max_min(
    m: Machine,
    frame: Frame,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    choose: Callable[..., ranking.Ranked],
) -> Value:
    items = args
    rest = None
    if len(args) == 1:
        items, rest = expressions.items_of(m, frame, args[0], node)
    if rest is None and items:
        try:
            return m.concrete(choose(ranking.rank(m, frame, items, keywords, node)).value)
        except ranking.Unclear:
            pass
    if rest is None and not items and "default" not in keywords:
        raise m.error(frame, node, "ValueError", "max() or min() is given nothing")
    if "default" in keywords:
        items = [*items, keywords["default"]]
    values = [*items, *([rest] if rest is not None else [])]
    return subscripts.pick_any(m, frame, values, node)


RULES: dict[str, Rule] = {
    "builtins.max": partial(_max_min, choose=max),
    "builtins.min": partial(_max_min, choose=min),
    "builtins.list": _sequence("list"),
    "builtins.tuple": _sequence("tuple"),
    "builtins.set": _sequence("set"),
    "builtins.frozenset": _sequence("frozenset"),
    "collections.deque": _deque,
    "builtins.dict": _dict,
    "builtins.dict.fromkeys": _from_keys,
    "collections.OrderedDict": _dict,
    "types.MappingProxyType": _dict,
    "builtins.mappingproxy": _dict,
    "collections.defaultdict": _defaultdict,
    "builtins.map": _map,
    "builtins.filter": _filter,
    "builtins.zip": _zip,
    "builtins.enumerate": _enumerate,
    "builtins.range": _range,
    "builtins.reversed": _reversed,
    "builtins.sorted": _sorted,
    "builtins.next": _next,
    "builtins.iter": _iter,
    "builtins.any": _any_all(True),
    "builtins.all": _any_all(False),
}
