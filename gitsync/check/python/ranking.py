"""Order of values by Python's own rules, where it is certain: sorting, `heapq` and `bisect`."""

from __future__ import annotations

import ast
import bisect
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from gitsync.check.python import backed, calls, containers, expressions, operators, subscripts
from gitsync.check.python.heap import ListObj
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import FALSE, NONE, Const, Opaque, Ref, Value
from gitsync.check.python.worlds import Frame


class Unclear(Exception):
    """The order of two values is not certain."""


@dataclass(frozen=True, slots=True)
class Order:
    """Answers of `<` and `>` between ranks, as the code at `node` would get them."""

    m: Machine
    frame: Frame
    node: ast.AST

    def holds(self, op: ast.cmpop, left: Value, right: Value) -> bool:
        """Whether a comparison holds; `Unclear` if it is not certain."""
        known = operators.compare(self.m, self.frame, op, left, right, self.node)
        if known is None:
            raise Unclear
        return known


class Ranked:
    """A value that Python's own algorithms can order, by its key."""

    __slots__ = ("key", "order", "value")

    def __init__(self, order: Order, value: Value, key: Value) -> None:
        self.order = order
        self.value = value
        self.key = key

    def __lt__(self, other: Ranked) -> bool:
        return self.order.holds(ast.Lt(), self.key, other.key)

    def __gt__(self, other: Ranked) -> bool:
        return self.order.holds(ast.Gt(), self.key, other.key)


def rank(
    m: Machine, frame: Frame, items: list[Value], keywords: dict[str, Value], node: ast.AST
) -> list[Ranked]:
    """The items with what `key` gives for each, or as their own keys."""
    key = keywords.get("key", NONE)
    ranks = [
        i if key == NONE else m.concrete(calls.call(m, frame, key, [i], {}, node)) for i in items
    ]
    order = Order(m, frame, node)
    return [Ranked(order, *pair) for pair in zip(items, ranks, strict=True)]


def _list_of(m: Machine, args: list[Value]) -> tuple[Ref, ListObj] | None:
    """The first argument if it is a list of which all items are known."""
    value = backed.plain(m, args[0]) if args else NONE
    obj = m.obj(value) if isinstance(value, Ref) else None
    if isinstance(value, Ref) and isinstance(obj, ListObj) and obj.rest is None:
        return value, obj
    return None


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
        ranked = rank(m, frame, items, keywords, node)
        backwards = expressions.known_truth(m, frame, keywords.get("reverse", FALSE), node)
        if backwards is not None or len(items) < 2:
            try:
                return m.list_of([r.value for r in sorted(ranked, reverse=bool(backwards))])
            except Unclear:
                pass
    everything = [*items, *([rest] if rest is not None else [])]
    return m.list_of([], "list", containers.blurred(m, frame, everything, node))


def _max_min(
    m: Machine,
    frame: Frame,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    choose: Callable[..., Ranked],
) -> Value:
    items = args
    rest = None
    if len(args) == 1:
        items, rest = expressions.items_of(m, frame, args[0], node)
    if rest is None and items:
        try:
            return m.concrete(choose(rank(m, frame, items, keywords, node)).value)
        except Unclear:
            pass
    if rest is None and not items and "default" not in keywords:
        raise m.error(frame, node, "ValueError", "max() or min() is given nothing")
    if "default" in keywords:
        items = [*items, keywords["default"]]
    values = [*items, *([rest] if rest is not None else [])]
    return subscripts.pick_any(m, frame, values, node)


def _in_place(work: Callable[..., Any]) -> Rule:
    """A function that changes the list it is given first, and gives one of its items or nothing."""

    def run(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        found = _list_of(m, args)
        if found is not None:
            ref, obj = found
            ranked = rank(m, frame, list(obj.items), keywords, node)
            given: list[Any] = []
            for at, arg in enumerate(args[1:]):
                inner = arg.value if isinstance(arg, Const) else arg
                given.append(rank(m, frame, [arg], keywords, node)[0] if at == 0 else inner)
            try:
                result = work(ranked, *given)
            except IndexError:
                raise m.error(frame, node, "IndexError", "the heap is empty") from None
            except (Unclear, TypeError):
                pass
            else:
                cast(ListObj, m.state.change(ref.oid)).items = [r.value for r in ranked]
                return m.concrete(result.value) if isinstance(result, Ranked) else NONE
        blurred = containers.spoil(m, frame, args[0], node, args[1:]) if args else None
        return blurred or Opaque()

    return run


def _extremes(work: Callable[..., list[Ranked]]) -> Rule:
    """`nlargest` and `nsmallest`."""

    def run(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        count = args[0] if args else NONE
        items, rest = expressions.items_of(m, frame, args[1] if len(args) > 1 else NONE, node)
        if rest is None and isinstance(count, Const) and isinstance(count.value, int):
            try:
                found = work(count.value, rank(m, frame, items, keywords, node))
                return m.list_of([r.value for r in found])
            except Unclear:
                pass
        known = [*items, *([rest] if rest is not None else [])]
        return m.list_of([], "list", containers.blurred(m, frame, known, node))

    return run


def _place(work: Callable[..., int]) -> Rule:
    """`bisect_left` and `bisect_right`: where an item, or with a key its rank, belongs."""

    def run(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        found = _list_of(m, args)
        if found is not None and len(args) == 2 and not set(keywords) - {"key"}:
            try:
                ranked = rank(m, frame, list(found[1].items), keywords, node)
                return Const(work(ranked, Ranked(Order(m, frame, node), args[1], args[1])))
            except Unclear:
                pass
        return Opaque("int()")

    return run


def shuffle(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`random.shuffle(items)`."""
    for value in (*args, *keywords.values()):
        containers.spoil(m, frame, value, node, [])
    return NONE


RULES: dict[str, Rule] = {
    "builtins.max": partial(_max_min, choose=max),
    "builtins.min": partial(_max_min, choose=min),
    "builtins.sorted": _sorted,
    "random.Random.shuffle": shuffle,
    **{
        f"_heapq.{work.__name__}": _in_place(work)
        for work in (
            heapq.heappush,
            heapq.heappop,
            heapq.heapify,
            heapq.heapreplace,
            heapq.heappushpop,
        )
    },
    "heapq.nlargest": _extremes(heapq.nlargest),
    "heapq.nsmallest": _extremes(heapq.nsmallest),
    "_bisect.insort_left": _in_place(bisect.insort_left),
    "_bisect.insort_right": _in_place(bisect.insort_right),
    "_bisect.bisect_left": _place(bisect.bisect_left),
    "_bisect.bisect_right": _place(bisect.bisect_right),
}
