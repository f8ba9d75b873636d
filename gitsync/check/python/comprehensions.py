"""Comprehensions and generator expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from gitsync.check.python import containers, expressions, generators, iterables
from gitsync.check.python.heap import DictObj, Namespace, Scope
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import Const, Lazy, Ref, Value
from gitsync.check.python.worlds import Frame


def _comprehension_names(generators: list[ast.comprehension]) -> frozenset[str]:
    names: set[str] = set()
    for generator in generators:
        for inner in ast.walk(generator.target):
            if isinstance(inner, ast.Name):
                names.add(inner.id)
    return frozenset(names)


def _comprehend(
    m: Machine,
    frame: Frame,
    node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp,
    emit: Callable[[Frame], None],
    first: Value | None = None,
) -> bool:
    """Run a comprehension; True if it may give more elements than were emitted."""
    from dataclasses import replace

    from gitsync.check.python import targets

    names = _comprehension_names(node.generators)
    scope = m.new(Scope("function", names))
    closure = frame.closure if frame.scope is None else (frame.scope, *frame.closure)
    inner = replace(frame, scope=scope.oid, closure=closure, kind="comprehension")
    more = False

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
            if all(expressions.truth(m, inner, test) for test in generator.ifs):
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


def list_comp(m: Machine, frame: Frame, node: ast.ListComp) -> Value:
    """A list comprehension, evaluated at once."""
    items: list[Value] = []
    more = _comprehend(m, frame, node, lambda f: items.append(expressions.evaluate(m, f, node.elt)))
    return containers.comprehended(m, frame, items, more, "list", node)


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
        return _comprehend(m, frame, node, emit, value.source)
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
    items: list[Value] = []
    more = _comprehend(m, frame, node, lambda f: items.append(expressions.evaluate(m, f, node.elt)))
    return containers.comprehended(m, frame, items, more, "set", node)


def dict_comp(m: Machine, frame: Frame, node: ast.DictComp) -> Value:
    """A dict comprehension, evaluated at once."""
    obj = DictObj({})

    def emit(inner: Frame) -> None:
        key = expressions.evaluate(m, inner, node.key)
        containers.put(m, frame, obj, key, expressions.evaluate(m, inner, node.value), node)

    if _comprehend(m, frame, node, emit):
        values = [*obj.items.values(), *([obj.rest] if obj.rest is not None else [])]
        obj.rest = containers.blurred(m, frame, values, node)
        obj.items = {}
    return m.new(obj)


def evaluate(m: Machine, frame: Frame, node: ast.expr) -> Value:
    """The value of any comprehension."""
    if isinstance(node, ast.ListComp):
        return list_comp(m, frame, node)
    if isinstance(node, ast.SetComp):
        return set_comp(m, frame, node)
    if isinstance(node, ast.DictComp):
        return dict_comp(m, frame, node)
    return generator(m, frame, cast(ast.GeneratorExp, node))
