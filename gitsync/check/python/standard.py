"""Standard decorators, factories and helpers: `dataclass`, `partial`, `abstractmethod`, …"""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import (
    attributes,
    calls,
    classes,
    containers,
    dataclassing,
    expressions,
    invoking,
    named_tuples,
    reach,
    subscripts,
    wrapping,
)
from gitsync.check.python.heap import (
    ClassObj,
    DictObj,
    FunctionObj,
    ListObj,
)
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import (
    NONE,
    TRUE,
    Const,
    Coroutine,
    Decorator,
    Ext,
    Opaque,
    Partial,
    Ref,
    TupleValue,
    Unknown,
    Value,
    Wrapped,
)
from gitsync.check.python.worlds import Frame


def _partial(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if not args:
        raise m.error(frame, node, "TypeError", "partial() needs a function")
    return Partial(args[0], tuple(args[1:]), tuple(keywords.items()))


def _partialmethod(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return Wrapped(
        "partialmethod", args[0] if args else NONE, False, tuple(args[1:]), tuple(keywords.items())
    )


def _decorator(name: str, *, first: str | None = None) -> Rule:
    """A decorator that is used with or without arguments."""

    def make(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        if first is None and len(args) == 1 and not keywords:
            return apply_decorator(m, frame, Decorator(name), args[0], node)
        parts = list(keywords.items())
        if first is not None:
            parts += [(first, a) for a in args]
        return Decorator(name, tuple(parts))

    return make


def _lru_cache(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`@lru_cache`, `@lru_cache()`, `@lru_cache(4)`, `@lru_cache(maxsize=4)`."""
    usual = Const(128)
    if args and not isinstance(args[0], Const):
        size = args[1] if len(args) > 1 else keywords.get("maxsize", usual)
        return apply_decorator(m, frame, Decorator("cache", (("maxsize", size),)), args[0], node)
    size = args[0] if args else keywords.get("maxsize", usual)
    return Decorator("cache", (("maxsize", size),))


def apply_decorator(
    m: Machine, frame: Frame, decorator: Decorator, value: Value, node: ast.AST
) -> Value:
    """Apply a standard decorator that was made with arguments."""
    name = decorator.name
    if name == "dataclass":
        if isinstance(value, Ref) and isinstance(m.obj(value), ClassObj):
            options = dict(decorator.parts)
            if options.get("slots") == TRUE and reach.touches(m.state, value):
                made = cast(ClassObj, m.obj(value))
                copied = made.copy()
                copied.bases = made.bases
                value = m.new(copied)
            return dataclassing.apply_dataclass(m, frame, value, options, node)
        if isinstance(value, Ref | Const):
            raise m.error(frame, node, "AttributeError", "dataclass() takes classes only")
        return value
    if name == "wraps":
        given = dict(decorator.parts)
        wrapped = given.get("wrapped", NONE)
        return wrapping.copy_attributes(m, value, wrapped, given)
    if name in ("suppress", "closing", "aclosing"):
        raise m.error(frame, node, "TypeError", f"contextlib.{name}() is no decorator")
    if name == "accessor":
        return wrapping.with_accessor(decorator, value)
    if name == "cache":
        size = dict(decorator.parts).get("maxsize", NONE)
        return Wrapped("cache", value, classes.is_abstract(m, value), (size,))
    if name == "keep" and decorator.parts:
        return decorator.parts[0][1]
    return value


def _nullcontext(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """A manager that gives what it was made with."""
    value = args[0] if args else keywords.get("enter_result", NONE)
    return m.list_of([value], "manager")


def _reduce(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) < 2:
        return Opaque()
    items, rest = expressions.items_of(m, frame, args[1], node)
    if len(args) > 2:
        items = [args[2], *items]
    if not items and rest is None:
        raise m.error(frame, node, "TypeError", "reduce() of nothing has no result")
    if rest is not None:
        return containers.blurred(m, frame, [*items, *args[:1], *((rest,) if rest else ())], node)
    value = items[0]
    for item in items[1:]:
        value = calls.call(m, frame, args[0], [value, item], {}, node)
    return value


def _run_async(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Coroutine):
        return invoking.run_coroutine(m, frame, value, node)
    if _is_not_awaitable(m, value):
        raise m.error(frame, node, "ValueError", "asyncio.run() needs a coroutine")
    return value if isinstance(value, Unknown) else Opaque()


def _is_not_awaitable(m: Machine, value: Value) -> bool:
    obj = m.obj(value) if isinstance(value, Ref) else None
    return isinstance(value, Const) or isinstance(obj, FunctionObj | ClassObj | ListObj | DictObj)


def _future(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`asyncio.shield` and `ensure_future` refuse what cannot be awaited, functions among it."""
    if args and _is_not_awaitable(m, args[0]):
        reason = "a coroutine, a future or another awaitable is needed here"
        raise m.error(frame, node, "TypeError", reason)
    m.may_raise(m.place(frame, node))
    if any(reach.touches(m.state, v) for v in args):
        return m.unknown(frame, node, "a task hands a component class out")
    return Opaque("asyncio.Future()")


def _itemgetter(kind: str) -> Rule:
    def make(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        return Partial(Ext(f"gitsync.{kind}", "f"), tuple(args), ())

    return make


def _get_item(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    found = [subscripts.item(m, frame, args[-1], key, node) for key in args[:-1]]
    return found[0] if len(found) == 1 else TupleValue(tuple(m.concrete(f) for f in found))


def _get_attribute(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    found: list[Value] = []
    for name in args[:-1]:
        if not isinstance(name, Const):
            return m.unknown(frame, node, "attrgetter with a name that is not known")
        value = args[-1]
        for part in str(name.value).split("."):
            value = m.concrete(attributes.get(m, frame, value, part, node))
        found.append(value)
    return found[0] if len(found) == 1 else TupleValue(tuple(found))


def _method_caller(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if not args or not isinstance(args[0], Const):
        return m.unknown(frame, node, "methodcaller with a name that is not known")
    return Partial(
        Ext("gitsync.method", "f"), (args[0], TupleValue(tuple(args[1:]))), tuple(keywords.items())
    )


def _call_method(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    name, given, owner = args[0], args[1], args[2]
    method = attributes.get(m, frame, owner, str(cast(Const, name).value), node)
    return calls.call(m, frame, method, list(cast(TupleValue, given).items), keywords, node)


RULES: dict[str, Rule] = {
    "builtins.staticmethod": wrapping.wrapper("staticmethod"),
    "builtins.classmethod": wrapping.wrapper("classmethod"),
    "builtins.property": wrapping.make_property,
    "functools.cached_property": wrapping.wrapper("cached_property"),
    "types.DynamicClassAttribute": wrapping.make_property,
    "enum.property": wrapping.make_property,
    "abc.abstractmethod": wrapping.abstractmethod,
    "abc.abstractproperty": wrapping.abstract_wrapper("property"),
    "abc.abstractclassmethod": wrapping.abstract_wrapper("classmethod"),
    "abc.abstractstaticmethod": wrapping.abstract_wrapper("staticmethod"),
    "functools.partial": _partial,
    "functools.partialmethod": _partialmethod,
    "functools.wraps": _decorator("wraps", first="wrapped"),
    "functools.cache": _decorator("cache"),
    "functools.lru_cache": _lru_cache,
    "_functools.reduce": _reduce,
    "functools.update_wrapper": wrapping.update_wrapper,
    "contextlib.contextmanager": wrapping.wrapper("contextmanager"),
    "contextlib.asynccontextmanager": wrapping.wrapper("contextmanager"),
    "contextlib.nullcontext": _nullcontext,
    "contextlib.suppress": _decorator("suppress", first="kind"),
    "contextlib.closing": _decorator("closing", first="thing"),
    "contextlib.aclosing": _decorator("aclosing", first="thing"),
    "dataclasses.dataclass": _decorator("dataclass"),
    "dataclasses.field": dataclassing.field,
    "dataclasses.replace": dataclassing.replace,
    "collections.namedtuple": named_tuples.make,
    "dataclasses.make_dataclass": dataclassing.make,
    "asyncio.run": _run_async,
    "asyncio.runners.run": _run_async,
    "asyncio.tasks.shield": _future,
    "asyncio.tasks.ensure_future": _future,
    "operator.itemgetter": _itemgetter("item"),
    "operator.attrgetter": _itemgetter("attribute"),
    "operator.methodcaller": _method_caller,
    "gitsync.method": _call_method,
    "gitsync.item": _get_item,
    "gitsync.attribute": _get_attribute,
}
