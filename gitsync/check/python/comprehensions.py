"""Comprehensions and generator expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import cast

from gitsync.check.python import containers, expressions, generators, iterables, reach, targets
from gitsync.check.python.heap import DictObj, ListObj, Namespace, Scope
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import Const, Lazy, Opaque, PathValue, Ref, TupleValue, Value
from gitsync.check.python.worlds import Frame, Kind, Outcome


def _comprehension_names(generators: list[ast.comprehension]) -> frozenset[str]:
    names: set[str] = set()
    for generator in generators:
        for inner in ast.walk(generator.target):
            if isinstance(inner, ast.Name):
                names.add(inner.id)
    return frozenset(names)


# calls that change nothing when they are given texts and numbers
_PURE = frozenset({"str", "int", "float", "bool", "len", "repr", "tuple"})
_EFFECTS = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


def _is_plain(m: Machine, value: Value) -> bool:
    if isinstance(value, TupleValue):
        return all(_is_plain(m, item) for item in value.items)
    return isinstance(value, Const | Opaque | PathValue) and not reach.touches(m.state, value)


def _made_of_names(
    node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, names: frozenset[str]
) -> bool:
    """True if the elements are worked out of the loop's own names, and nothing else is done."""
    parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    for inner in (n for part in parts for n in ast.walk(part)):
        if isinstance(inner, ast.Name) and inner.id not in names and inner.id not in _PURE:
            return False
        if isinstance(inner, _EFFECTS):
            return False
    return True


def _known_test(m: Machine, frame: Frame, node: ast.expr) -> bool | None:
    """Like `expressions.truth`, but None where just the last part of it is undecided."""
    if isinstance(node, ast.BoolOp):
        wanted = isinstance(node.op, ast.Or)
        for part in node.values[:-1]:
            if expressions.truth(m, frame, part) is wanted:
                return wanted
        return _known_test(m, frame, node.values[-1])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        known = _known_test(m, frame, node.operand)
        return None if known is None else not known
    return expressions.known_truth(m, frame, expressions.evaluate(m, frame, node), node)


def _decided(m: Machine, frame: Frame, tests: list[ast.expr]) -> bool | None:
    """Whether all tests hold; None if just the last thing that is asked is not known."""
    for test in tests[:-1]:
        if not expressions.truth(m, frame, test):
            return False
    return _known_test(m, frame, tests[-1]) if tests else True


def _comprehend(
    m: Machine,
    frame: Frame,
    node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp,
    emit: Callable[[Frame], None],
    first: Value | None = None,
    *,
    in_turn: bool = False,
) -> bool:
    """Run a comprehension; True if it may give more elements than were emitted, or fewer.

    With `in_turn` every emitted element is certainly one.
    """
    names = _comprehension_names(node.generators)
    scope = m.new(Scope("function", names))
    closure = frame.closure if frame.scope is None else (frame.scope, *frame.closure)
    inner = replace(frame, scope=scope.oid, closure=closure, kind="comprehension")
    more = False
    blurs = not in_turn and _made_of_names(node, names)

    def level(index: int) -> None:
        nonlocal more
        if index == len(node.generators):
            m.tick()
            emit(inner)
            return
        generator = node.generators[index]
        if index == 0 and first is not None:
            source = first
        else:
            source = expressions.evaluate(m, frame if index == 0 else inner, generator.iter)
        items: Iterable[Value]
        rest = None
        if isinstance(node, ast.GeneratorExp) and iterables.is_iterator(m, source):
            items = _one_by_one(m, inner, source, generator.iter)
        else:
            items, rest = expressions.items_of(m, inner, source, generator.iter)
        for item in items:
            m.tick()
            targets.assign(m, inner, generator.target, item)
            if blurs and index == len(node.generators) - 1 and _is_plain(m, item):
                holds = _decided(m, inner, generator.ifs)
                more = more or holds is None  # such elements need no world of their own
                if holds is not False:
                    level(index + 1)
            elif all(expressions.truth(m, inner, test) for test in generator.ifs):
                level(index + 1)
        if rest is not None:
            more = True
            targets.assign(m, inner, generator.target, rest)
            # With an unknown element the tests cannot be decided; one element stands for all.
            for test in generator.ifs:
                expressions.evaluate(m, inner, test)
            level(index + 1)

    level(0)
    return more


def _one_by_one(m: Machine, frame: Frame, source: Value, node: ast.AST) -> Iterator[Value]:
    """The items of an iterator, which keeps those that nobody asks for."""
    while (item := generators.step(m, frame, cast(Ref, source), node)) is not None:
        yield item


FEW = 3  # that many undecided filters are followed in every combination


def _in_worlds(
    m: Machine,
    frame: Frame,
    node: ast.ListComp | ast.SetComp | ast.DictComp,
    into: Ref,
    add: Callable[[Frame], None],
) -> Value | None:
    """Fill `into` item by item as a loop does, worlds that are alike joined after each item.

    Gives the source if that is not wanted here: without a filter, or with few items.
    """
    generator = node.generators[0]
    source = expressions.evaluate(m, frame, generator.iter)
    names = _comprehension_names(node.generators)
    if len(node.generators) > 1 or not generator.ifs or _made_of_names(node, names):
        return source
    items, rest = expressions.items_of(m, frame, source, generator.iter)
    if rest is not None or len(items) <= FEW:
        return m.list_of(items, "list", rest)
    scope = m.new(Scope("function", names))
    closure = frame.closure if frame.scope is None else (frame.scope, *frame.closure)
    inner = replace(frame, scope=scope.oid, closure=closure, kind="comprehension")
    state, at = m.state, m.at

    def one(item: Value) -> None:
        m.at = at
        m.tick()
        targets.assign(m, inner, generator.target, item)
        if all(expressions.truth(m, inner, test) for test in generator.ifs):
            add(inner)

    def run() -> list[Outcome]:
        live, out = [Outcome(state)], []
        for item in items:
            after: list[Outcome] = []
            for outcome in live:
                for done, raised in m.branches(outcome.state, partial(one, item)):
                    kind = Kind.NORMAL if raised is None else Kind.RAISE
                    after.append(Outcome(done, kind, raised=raised))
            joined = m.join(after)
            live = [o for o in joined if o.kind is Kind.NORMAL]
            out += [o for o in joined if o.kind is not Kind.NORMAL]
        return out + live

    outcome = m.pick_outcome(run, m.place(frame, node))
    m.at = at
    if outcome.raised is not None:
        raise outcome.raised
    return None


def _listed(m: Machine, frame: Frame, node: ast.ListComp | ast.SetComp, kind: str) -> Value:
    into = m.list_of([])

    def add(inner: Frame) -> None:
        value = expressions.evaluate(m, inner, node.elt)
        cast(ListObj, m.state.change(into.oid)).items.append(value)

    source = _in_worlds(m, frame, node, into, add)
    more = source is not None and _comprehend(m, frame, node, add, source)
    made = cast(ListObj, m.obj(into))
    if made.rest is not None:
        return m.list_of(made.items, kind, made.rest)
    return containers.comprehended(m, frame, made.items, more, kind, node)


def list_comp(m: Machine, frame: Frame, node: ast.ListComp) -> Value:
    """A list comprehension, evaluated at once."""
    return _listed(m, frame, node, "list")


def generator(m: Machine, frame: Frame, node: ast.GeneratorExp) -> Value:
    """Only the first source is evaluated where the expression stands."""
    source = expressions.evaluate(m, frame, node.generators[0].iter)
    return Lazy(node, frame, source, m.new(Namespace()).oid, m.at)


def run_lazy(m: Machine, value: Lazy) -> tuple[list[Value], Value | None]:
    """The items of a generator expression that nobody has taken yet."""
    used = m.space(value.cell).values.get("used", Const(0))
    m.store(value.cell, "used", Const(-1))
    node, frame = cast(ast.GeneratorExp, value.node), cast(Frame, value.frame)
    items: list[Value] = []

    def emit(inner: Frame) -> None:
        items.append(expressions.evaluate(m, inner, node.elt))

    at, m.at = m.at, value.at or m.at
    more = _comprehend(m, frame, node, emit, value.source)
    m.at = at
    if more:
        return [], containers.blurred(m, frame, items, node)
    taken = used.value if isinstance(used, Const) else 0
    if taken > 0 and iterables.is_iterator(m, value.source):
        taken = 0  # they are not in the source any more
    return [] if taken < 0 else items[taken:], None


class _Enough(Exception):
    """The first item is there; the others are not worked out, as Python does not."""


def while_wanted(m: Machine, value: Lazy, take: Callable[[Value], bool]) -> bool:
    """Hand the items over one by one until `take` says no; True if there may be further ones."""
    node, frame = cast(ast.GeneratorExp, value.node), cast(Frame, value.frame)

    def emit(inner: Frame) -> None:
        if not take(expressions.evaluate(m, inner, node.elt)):
            raise _Enough

    at, m.at = m.at, value.at or m.at
    try:
        return _comprehend(m, frame, node, emit, value.source, in_turn=True)
    except _Enough:
        return False
    finally:
        m.at = at


def first_items(m: Machine, value: Lazy, count: int) -> tuple[list[Value], bool]:
    """The first items, and whether there may be unknown ones among them or after them."""
    found: list[Value] = []

    def take(item: Value) -> bool:
        found.append(item)
        return len(found) < count

    return found, while_wanted(m, value, take)


def set_comp(m: Machine, frame: Frame, node: ast.SetComp) -> Value:
    """A set comprehension, evaluated at once."""
    return _listed(m, frame, node, "set")


def dict_comp(m: Machine, frame: Frame, node: ast.DictComp) -> Value:
    """A dict comprehension, evaluated at once."""
    into = m.new(DictObj({}))

    def add(inner: Frame) -> None:
        key = expressions.evaluate(m, inner, node.key)
        value = expressions.evaluate(m, inner, node.value)
        containers.put(m, frame, cast(DictObj, m.state.change(into.oid)), key, value, node)

    source = _in_worlds(m, frame, node, into, add)
    if source is not None and _comprehend(m, frame, node, add, source):
        obj = cast(DictObj, m.state.change(into.oid))
        values = [*obj.items.values(), *([obj.rest] if obj.rest is not None else [])]
        obj.rest = containers.blurred(m, frame, values, node)
        obj.items = {}
    return into


def evaluate(m: Machine, frame: Frame, node: ast.expr) -> Value:
    """The value of any comprehension."""
    if isinstance(node, ast.ListComp):
        return list_comp(m, frame, node)
    if isinstance(node, ast.SetComp):
        return set_comp(m, frame, node)
    if isinstance(node, ast.DictComp):
        return dict_comp(m, frame, node)
    return generator(m, frame, cast(ast.GeneratorExp, node))
