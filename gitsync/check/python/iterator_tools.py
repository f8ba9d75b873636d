"""`itertools`: what its functions give for items that are known."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable
from typing import Any, cast

from gitsync.check.python import (
    calls,
    containers,
    expressions,
    generators,
    iterables,
)
from gitsync.check.python.heap import ListObj
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import NONE, Const, Coroutine, Ref, TupleValue, Value
from gitsync.check.python.worlds import Frame

MAX_MADE = 2000


def _whole(
    m: Machine, frame: Frame, values: list[Value], node: ast.AST
) -> tuple[list[list[Value]], Value | None]:
    """The items of several iterables, or what stands for them where some are not known."""
    columns: list[list[Value]] = []
    some: list[Value] = []
    doubtful = False
    for value in values:
        items, rest = expressions.items_of(m, frame, value, node)
        columns.append(items)
        some += [*items, *([rest] if rest is not None else [])]
        doubtful = doubtful or rest is not None
    return columns, containers.blurred(m, frame, some, node) if doubtful else None


def _chain(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    columns, doubt = _whole(m, frame, args, node)
    items = [] if doubt is not None else [i for column in columns for i in column]
    return m.list_of(items, "iterator", doubt)


def _from_iterable(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    outer, doubt = _whole(m, frame, args[:1], node)
    if doubt is not None:
        return m.list_of([], "iterator", doubt)
    return _chain(m, frame, outer[0] if outer else [], {}, node)


def _islice(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    numbers: list[Any] = [a.value if isinstance(a, Const) else "?" for a in args[1:]]
    known = all(n is None or (isinstance(n, int) and n >= 0) for n in numbers)
    if not args or not known or not 1 <= len(numbers) <= 3:
        _, doubt = _whole(m, frame, args[:1], node)
        return m.list_of([], "iterator", doubt or m.unknown(frame, node, "the slice is not known"))
    start, stop, step = slice(*numbers).start, slice(*numbers).stop, slice(*numbers).step
    if iterables.is_iterator(m, args[0]) and stop is not None:
        changed = cast(ListObj, m.state.change(cast(Ref, args[0]).oid))
        items, changed.items = changed.items[:stop], changed.items[stop:]
        rest = None
    elif isinstance(args[0], Coroutine):
        items, rest = generators.collect(m, frame, args[0], node, limit=stop)
    else:
        items, rest = expressions.items_of(m, frame, args[0], node)
    if rest is not None and (stop is None or len(items) < stop):
        return m.list_of([], "iterator", containers.blurred(m, frame, [*items, rest], node))
    return m.list_of(items[start:stop:step], "iterator")


def _combined(work: Callable[..., Iterable[Any]], sizes: int) -> Rule:
    """`product`, `permutations` and the like; `sizes` trailing arguments are numbers."""

    def run(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        split = len(args) - sizes if sizes and len(args) > 1 else len(args)
        columns, doubt = _whole(m, frame, args[:split], node)
        numbers = [a.value for a in args[split:] if isinstance(a, Const)]
        if doubt is None and not keywords and len(numbers) == len(args) - split:
            some = list(itertools.islice(work(*columns, *numbers), MAX_MADE + 1))
            if len(some) <= MAX_MADE:
                rows: list[Value] = [TupleValue(tuple(row)) for row in some]
                return m.list_of(rows, "iterator")
        some_items = [i for c in columns for i in c] + list(keywords.values())
        each = containers.blurred(m, frame, some_items, node)
        return m.list_of([], "iterator", m.list_of([], "tuple", doubt or each))

    return run


def _while(keep: bool, *, first_only: bool) -> Rule:
    """`takewhile`, `dropwhile` and `filterfalse`."""

    def run(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        if len(args) != 2:
            raise m.error(frame, node, "TypeError", "this needs a function and an iterable")
        is_iterator = keep and iterables.is_iterator(m, args[1])
        columns, doubt = _whole(m, frame, args[1:], node)
        if doubt is not None:
            return m.list_of([], "iterator", doubt)
        items = columns[0]
        passed: list[Value] = []
        for at, item in enumerate(items):
            test = item if args[0] == NONE else calls.call(m, frame, args[0], [item], {}, node)
            if not expressions.is_true(m, frame, test, node):
                if first_only and is_iterator:
                    cast(ListObj, m.state.change(cast(Ref, args[1]).oid)).items = items[at + 1 :]
                if first_only:
                    passed = items[:at] if keep else items[at:]
                    return m.list_of(passed, "iterator")
                passed.append(item)
        return m.list_of(items if keep else passed, "iterator")

    return run


def _starmap(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    columns, doubt = _whole(m, frame, args[1:2], node)
    out: list[Value] = []
    for row in columns[0] if columns and doubt is None else []:
        items, rest = expressions.items_of(m, frame, row, node)
        if rest is not None:
            return m.list_of([], "iterator", m.unknown(frame, node, "the arguments are not known"))
        out.append(calls.call(m, frame, args[0], items, {}, node))
    if doubt is not None:
        doubt = m.unknown(frame, node, "the arguments are not known")
    return m.list_of(out, "iterator", doubt)


def _repeat(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    times = args[1] if len(args) > 1 else keywords.get("times")
    if isinstance(times, Const) and isinstance(times.value, int) and times.value <= MAX_MADE:
        return m.list_of([value] * times.value, "iterator")
    return m.list_of([], "iterator", value)


def _cycle(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    columns, doubt = _whole(m, frame, args[:1], node)
    items = columns[0] if columns else []
    if doubt is None and not items:
        return m.list_of([], "iterator")
    more = doubt or containers.blurred(m, frame, items, node)
    return m.list_of([] if doubt is not None else items, "iterator", more)


_LONGEST = _combined(lambda *columns: itertools.zip_longest(*columns, fillvalue=NONE), 0)


def _zip_longest(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    rows = None if keywords else iterables.in_turn(m, frame, args, node, longest=True)
    if rows is None:
        return _LONGEST(m, frame, args, keywords, node)
    return m.list_of([TupleValue(tuple(row)) for row in rows], "iterator")


RULES: dict[str, Rule] = {
    "itertools.chain": _chain,
    "itertools.chain.from_iterable": _from_iterable,
    "itertools.islice": _islice,
    "itertools.product": _combined(itertools.product, 0),
    "itertools.permutations": _combined(itertools.permutations, 1),
    "itertools.combinations": _combined(itertools.combinations, 1),
    "itertools.pairwise": _combined(itertools.pairwise, 0),
    "itertools.zip_longest": _zip_longest,
    "itertools.takewhile": _while(True, first_only=True),
    "itertools.dropwhile": _while(False, first_only=True),
    "itertools.filterfalse": _while(False, first_only=False),
    "itertools.starmap": _starmap,
    "itertools.repeat": _repeat,
    "itertools.cycle": _cycle,
}
