"""Comprehensions and generator expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import cast

from gitsync.check.python import containers, expressions
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    DictObj,
    Lazy,
    Scope,
    Value,
)
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


def list_comp(m: Machine, frame: Frame, node: ast.ListComp) -> Value:
    """A list comprehension, evaluated at once."""
    items: list[Value] = []
    more = _comprehend(m, frame, node, lambda f: items.append(expressions.evaluate(m, f, node.elt)))
    return containers.comprehended(m, frame, items, more, "list", node)


def generator(m: Machine, frame: Frame, node: ast.GeneratorExp) -> Value:
    """Only the first source is evaluated where the expression stands."""
    return Lazy(node, frame, expressions.evaluate(m, frame, node.generators[0].iter))


def run_lazy(m: Machine, value: Lazy) -> tuple[list[Value], Value | None]:
    """The items of a generator expression."""
    node, frame = cast(ast.GeneratorExp, value.node), cast(Frame, value.frame)
    items: list[Value] = []

    def emit(inner: Frame) -> None:
        items.append(expressions.evaluate(m, inner, node.elt))

    if _comprehend(m, frame, node, emit, value.source):
        return [], containers.blurred(m, frame, items, node)
    return items, None


class _Enough(Exception):
    """The first item is there; the others are not worked out, as Python does not."""


def first_of(m: Machine, value: Lazy, node: ast.AST) -> Value | None:
    """What `next()` of a fresh generator expression gives; None if it gives nothing."""
    expression, frame = cast(ast.GeneratorExp, value.node), cast(Frame, value.frame)
    is_plain = len(expression.generators) == 1 and not isinstance(value.source, Lazy)
    if not is_plain or expressions.items_of(m, frame, value.source, node)[1] is not None:
        items, rest = run_lazy(m, value)
        values = [*items, *([] if rest is None else [rest])]
        return containers.blurred(m, frame, values, node)
    found: list[Value] = []

    def emit(inner: Frame) -> None:
        found.append(expressions.evaluate(m, inner, expression.elt))
        raise _Enough

    try:
        _comprehend(m, frame, expression, emit, value.source)
    except _Enough:
        return found[0]
    return None


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
