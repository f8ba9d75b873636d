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
    generics,
    instances,
    invoking,
    lineage,
    named_tuples,
    reach,
    subscripts,
    wrapping,
)
from gitsync.check.python.facts import BASES
from gitsync.check.python.heap import (
    ClassObj,
    DictObj,
    FunctionObj,
    InstanceObj,
    ListObj,
    ModuleObj,
)
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import (
    NONE,
    TRUE,
    Bound,
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
        return wrapping.copy_attributes(m, value, wrapped, given.get("updated"))
    if name == "suppress":
        raise m.error(frame, node, "TypeError", "contextlib.suppress() is no decorator")
    if name == "accessor":
        return wrapping.with_accessor(decorator, value)
    if name == "cache":
        size = dict(decorator.parts).get("maxsize", NONE)
        return Wrapped("cache", value, classes.is_abstract(m, value), (size,))
    if name == "keep" and decorator.parts:
        return decorator.parts[0][1]
    return value


def _namespace(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    made = InstanceObj(Ext("types.SimpleNamespace", "c"))
    made.values = dict(keywords)
    return m.new(made)


def _nullcontext(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """A manager that gives what it was made with."""
    value = args[0] if args else keywords.get("enter_result", NONE)
    return m.list_of([value], "manager")


def _new_class(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`types.new_class(name, bases, kwds, exec_body)`."""
    name = args[0] if args else keywords.get("name", NONE)
    bases = args[1] if len(args) > 1 else keywords.get("bases", TupleValue(()))
    space: Value = m.new(DictObj({}))
    body = args[3] if len(args) > 3 else keywords.get("exec_body")
    if body is not None and body != NONE:
        calls.call(m, frame, body, [space], {}, node)
    words: dict[str, Value] = {}
    kwds = args[2] if len(args) > 2 else keywords.get("kwds")
    if kwds is not None and kwds != NONE:
        calls.spread(m, frame, kwds, words, node)
    return instances.class_from_parts(m, frame, [name, bases, space], words, node)


def _cast(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return args[1] if len(args) > 1 else NONE


def _unique(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`@enum.unique` refuses two members of one value."""
    value = args[0] if args else NONE
    obj = m.obj(value) if isinstance(value, Ref) else None
    if isinstance(obj, ClassObj) and not classes.is_enum(obj):
        raise m.error(frame, node, "AttributeError", f"{obj.name} is no enum")
    if isinstance(obj, ClassObj):
        seen: list[Value] = []
        for member in obj.values.values():
            made = m.obj(member) if isinstance(member, Ref) else None
            if isinstance(made, InstanceObj) and made.cls == value:
                held = made.values.get("_value_")
                if isinstance(held, Const) and held in seen:
                    raise m.error(frame, node, "ValueError", f"{obj.name} has a value twice")
                seen += [held] if isinstance(held, Const) else []
    return value


def _runtime_checkable(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    obj = m.obj(value) if isinstance(value, Ref) else None
    if isinstance(obj, ClassObj) and Ext("typing.Protocol") not in obj.bases:
        reason = f"@runtime_checkable is for protocols, which {obj.name} is not"
        raise m.error(frame, node, "TypeError", reason)
    return value


def _overload(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """What stands for every overload: a plain function that refuses to be called."""
    return Ext("typing._overload_dummy", "f")


def _new_type(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """No class: an object that gives back whatever it is called with."""
    return Decorator("new-type")


def _method_type(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) != 2 or args[1] == NONE:
        raise m.error(frame, node, "TypeError", "a method needs a function and an object")
    return Bound(args[0], args[1])


def _resolve_bases(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    items, rest = expressions.items_of(m, frame, args[0] if args else NONE, node)
    if rest is not None:
        return m.unknown(frame, node, "the bases are not known")
    return TupleValue(tuple(lineage.resolve_bases(m, frame, items, node)))


def _component_init(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`AgentWorkflow.__init__(self, config)`."""
    if not args or isinstance(args[0], Const):
        raise m.error(frame, node, "TypeError", "the constructor of the base is not given self")
    if isinstance(args[0], Ref) and isinstance(m.obj(args[0]), InstanceObj):
        instances.initialise_component(m, frame, args[0], args[1:], keywords, node)
    return NONE


def _type_variable(path: str) -> Rule:
    def make(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        return generics.make(m, path, *args)

    return make


def _copy(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, ListObj | DictObj | InstanceObj):
            return m.new(obj.copy())
    return value


def _reduce(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) < 2:
        return Opaque()
    items, rest = expressions.items_of(m, frame, args[1], node)
    if len(args) > 2:
        items = [args[2], *items]
    if rest is not None or not items:
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


def _reload(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Ref) and isinstance(m.obj(value), ModuleObj):
        m.taint(value.oid, m.unknown(frame, node, "a module is loaded again"))
    return value


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


def _object(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return m.new(InstanceObj(Ext("builtins.object", "c")))


def _type_new(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`type.__new__(meta, name, bases, namespace)` or `ABCMeta.__new__`."""
    from gitsync.check.python.class_methods import new_class

    if len(args) == 4:
        return new_class(m, frame, args, keywords, node)
    return Opaque()


def _object_new(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    cls = args[0] if args else NONE
    if isinstance(cls, Ref) and isinstance(m.obj(cls), ClassObj):
        return m.new(InstanceObj(cls))
    return Opaque()


def _update_abstract(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Ref) and isinstance(m.obj(value), ClassObj):
        changed = cast(ClassObj, m.state.change(value.oid))
        changed.abstract = classes.abstract_names(m, value)
    return value


def _module_type(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    name = args[0].value if args and isinstance(args[0], Const) else "?"
    made = ModuleObj(str(name), str(name), None, None)
    made.values["__name__"] = Const(str(name))
    return m.new(made)


RULES: dict[str, Rule] = {
    "builtins.object": _object,
    "builtins.object.__new__": _object_new,
    "builtins.type.__new__": _type_new,
    "abc.ABCMeta.__new__": _type_new,
    "builtins.staticmethod": wrapping.wrapper("staticmethod"),
    "builtins.classmethod": wrapping.wrapper("classmethod"),
    "builtins.property": wrapping.make_property,
    "functools.cached_property": wrapping.wrapper("cached_property"),
    "types.DynamicClassAttribute": wrapping.make_property,
    "enum.unique": _unique,
    "enum.property": wrapping.make_property,
    "abc.abstractmethod": wrapping.abstractmethod,
    "abc.abstractproperty": wrapping.abstract_wrapper("property"),
    "abc.abstractclassmethod": wrapping.abstract_wrapper("classmethod"),
    "abc.abstractstaticmethod": wrapping.abstract_wrapper("staticmethod"),
    "abc.update_abstractmethods": _update_abstract,
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
    "dataclasses.dataclass": _decorator("dataclass"),
    "dataclasses.field": dataclassing.field,
    "dataclasses.replace": dataclassing.replace,
    "collections.namedtuple": named_tuples.make,
    "builtins.method": _method_type,
    **{f"{base}.__init__": _component_init for base in BASES.values()},
    "types.resolve_bases": _resolve_bases,
    "dataclasses.make_dataclass": dataclassing.make,
    "types.SimpleNamespace": _namespace,
    "types.new_class": _new_class,
    "builtins.module": _module_type,
    "typing.cast": _cast,
    "typing.overload": _overload,
    "typing.runtime_checkable": _runtime_checkable,
    "typing.assert_type": _copy,
    "typing.NewType": _new_type,
    **{path: _type_variable(path) for path in generics.KINDS},
    "copy.copy": _copy,
    "copy.deepcopy": _copy,
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
