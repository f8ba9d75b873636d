"""Standard functions that make or mark classes and types: `types.new_class`, `enum.unique`, …"""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import (
    calls,
    class_methods,
    classes,
    expressions,
    generics,
    instances,
    lineage,
)
from gitsync.check.python.facts import BASES
from gitsync.check.python.heap import ClassObj, DictObj, InstanceObj, ModuleObj
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import (
    CHECKABLE,
    NONE,
    TRUE,
    Bound,
    Const,
    Decorator,
    Ext,
    Opaque,
    Ref,
    TupleValue,
    Value,
)
from gitsync.check.python.worlds import Frame


def _object(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return m.new(InstanceObj(Ext("builtins.object", "c")))


def _object_new(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    cls = args[0] if args else NONE
    if isinstance(cls, Ref) and isinstance(m.obj(cls), ClassObj):
        return m.new(InstanceObj(cls))
    return Opaque()


def _type_new(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`type.__new__(meta, name, bases, namespace)` or `ABCMeta.__new__`."""
    if len(args) == 4:
        return class_methods.new_class(m, frame, args, keywords, node)
    return Opaque()


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


def _update_abstract(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Ref) and isinstance(m.obj(value), ClassObj):
        changed = cast(ClassObj, m.state.change(value.oid))
        changed.abstract = classes.abstract_names(m, value)
    return value


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
    if isinstance(value, Ref) and isinstance(obj, ClassObj):
        m.store(value.oid, CHECKABLE, TRUE)
    return value


def _enum_wrapper(name: str) -> Rule:
    """`enum.member` and `enum.nonmember`."""

    def wrap(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        return Decorator(name, (("value", (*args, NONE)[0]),))

    return wrap


def _cast(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return args[1] if len(args) > 1 else NONE


def _overload(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """What stands for every overload: a plain function that refuses to be called."""
    return Ext("typing._overload_dummy", "f")


def _new_type(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """No class: an object that gives back whatever it is called with."""
    return Decorator("new-type", (("type", args[1]),) if len(args) == 2 else ())


def _type_variable(path: str) -> Rule:
    def make(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        return generics.make(m, path, *args, *keywords.values())

    return make


def _method_type(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) != 2 or args[1] == NONE:
        raise m.error(frame, node, "TypeError", "a method needs a function and an object")
    return Bound(args[0], args[1])


def _module_type(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    name = args[0].value if args and isinstance(args[0], Const) else "?"
    made = ModuleObj(str(name), str(name), None, None)
    made.values["__name__"] = Const(str(name))
    return m.new(made)


def _namespace(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    made = InstanceObj(Ext("types.SimpleNamespace", "c"))
    made.values = dict(keywords)
    return m.new(made)


RULES: dict[str, Rule] = {
    "builtins.object": _object,
    "builtins.object.__new__": _object_new,
    "builtins.type.__new__": _type_new,
    "abc.ABCMeta.__new__": _type_new,
    "enum.unique": _unique,
    "abc.update_abstractmethods": _update_abstract,
    "builtins.method": _method_type,
    **{f"{base}.__init__": _component_init for base in BASES.values()},
    "types.resolve_bases": _resolve_bases,
    "types.SimpleNamespace": _namespace,
    "types.new_class": _new_class,
    "builtins.module": _module_type,
    "typing.cast": _cast,
    "typing.overload": _overload,
    "typing.runtime_checkable": _runtime_checkable,
    "typing_extensions.runtime_checkable": _runtime_checkable,
    "enum.member": _enum_wrapper("member"),
    "enum.nonmember": _enum_wrapper("nonmember"),
    "typing.NewType": _new_type,
    **{path: _type_variable(path) for path in generics.KINDS},
}
