"""Constructs that reach into namespaces: `globals()`, `exec`, `getattr`, `import_module`."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import (
    attributes,
    backed,
    calls,
    classes,
    containers,
    expressions,
    reach,
    slots,
    storing,
)
from gitsync.check.python.heap import ClassObj, DictObj, InstanceObj, ListObj, ModuleObj, Namespace
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import (
    FALSE,
    NONE,
    TRUE,
    Const,
    Ext,
    Method,
    Names,
    Opaque,
    Ref,
    TupleValue,
    Unknown,
    Value,
)
from gitsync.check.python.worlds import Frame, Raised


def _globals(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return Names(frame.module)


def _locals(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return Names(frame.scope if frame.scope is not None else frame.module)


def _vars(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if not args:
        return _locals(m, frame, args, keywords, node)
    value = args[0]
    obj = m.obj(value) if isinstance(value, Ref) else None
    if isinstance(value, Ref) and isinstance(obj, InstanceObj):
        return slots.dictionary(m, frame, value, obj.cls, node)
    if isinstance(value, Ref) and isinstance(obj, Namespace):
        return Names(value.oid)
    if isinstance(value, Unknown):
        return value
    return Opaque()


def _exec(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`exec`: it may bind anything in the namespace it is given, else in this one."""
    cause = m.unknown(frame, node, "exec runs code that is not known")
    spaces = [*args[1:], *keywords.values()]
    if not spaces:
        m.taint(frame.scope if frame.scope is not None else frame.module, cause)
        if frame.scope is not None:
            m.taint(frame.module, cause)
    for space in spaces:
        if isinstance(space, Names):
            m.taint(space.oid, cause)
        elif isinstance(space, Ref):
            obj = m.state.change(space.oid)
            if isinstance(obj, DictObj | ListObj):
                obj.rest = cause
    return NONE


def _eval(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    cause = m.unknown(frame, node, "eval gives a value that is not known")
    source = args[0] if args else NONE
    if (
        isinstance(source, Const)
        and isinstance(source.value, str)
        and len(args) == 1
        and source.value.isidentifier()
    ):
        return m.load(frame, source.value, node)
    return cause


def _super(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return calls.super_of(m, frame, args, node)


def _import_function(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`__import__(name)`."""
    name = args[0] if args else keywords.get("name", NONE)
    if not isinstance(name, Const) or not isinstance(name.value, str):
        cause = m.unknown(frame, node, "the module that __import__ loads is not known")
        m.doubt(cause)
        return cause
    level = args[4] if len(args) > 4 else keywords.get("level", Const(0))
    if level != Const(0):
        return m.unknown(frame, node, "__import__ with a level")
    module = m.importer.load_here(frame, name.value, node)
    fromlist = args[3] if len(args) > 3 else keywords.get("fromlist")
    if fromlist is not None and expressions.known_truth(m, frame, fromlist, node) is not False:
        return module
    top = name.value.partition(".")[0]
    return module if top == name.value else m.importer.load_here(frame, top, node)


def _import_module(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`importlib.import_module(name, package)`."""
    name = args[0] if args else keywords.get("name", NONE)
    if not isinstance(name, Const) or not isinstance(name.value, str):
        cause = m.unknown(frame, node, "the module that import_module loads is not known")
        m.doubt(cause)
        return cause
    text = name.value
    if text.startswith("."):
        package = args[1] if len(args) > 1 else keywords.get("package", NONE)
        if not isinstance(package, Const) or not isinstance(package.value, str):
            return m.unknown(frame, node, "the package that import_module starts from is not known")
        level = len(text) - len(text.lstrip("."))
        parts = package.value.split(".")
        if level > len(parts):
            raise m.error(frame, node, "ImportError", "the relative import goes too far up")
        base = ".".join(parts[: len(parts) - level + 1])
        text = f"{base}.{text.lstrip('.')}" if text.strip(".") else base
    return m.importer.load_here(frame, text, node)


def _reload(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`importlib.reload(module)`: its file is executed once more, its names are kept."""
    value = args[0] if args else NONE
    obj = m.obj(value) if isinstance(value, Ref) else None
    if isinstance(value, Ref) and isinstance(obj, ModuleObj) and obj.path is not None:
        path, state, at = obj.path, m.state, m.at
        outcome = m.pick_outcome(
            lambda: m.importer.execute(state, value, path), m.place(frame, node)
        )
        m.at = at
        if outcome.raised is not None:
            raise outcome.raised
    return value


def _getattr(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) < 2:
        return Opaque()
    owner, name = args[0], args[1]
    if isinstance(name, Const) and isinstance(name.value, str):
        if len(args) == 2:
            return m.concrete(attributes.get(m, frame, owner, name.value, node))
        try:
            with m.guarded(0, m.guards + m.import_guards):
                return m.concrete(attributes.get(m, frame, owner, name.value, node))
        except Raised as raised:
            if raised.refused is None and classes.exception_matches(
                m, raised.value, Ext("builtins.AttributeError", "c")
            ):
                return args[2]
            raise
    if isinstance(owner, Ref | Unknown | Names) or reach.touches(m.state, owner):
        if isinstance(owner, Ref):
            obj = m.obj(owner)
            if isinstance(obj, Namespace):
                values = list(containers.visible(m.settle(owner.oid)).values())
                if obj.taint is not None:
                    return obj.taint
                if any(reach.touches(m.state, v) for v in (*values, *args[2:])):
                    return m.unknown(frame, node, "getattr with a name that is not known")
                return Opaque()
        return m.unknown(frame, node, "getattr with a name that is not known")
    if m.rehearsal is not None:
        m.rehearsal.handed_on = True
    return Opaque()


def _plain_setattr(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) == 3 and isinstance(args[1], Const):
        storing.put(m, frame, args[0], str(args[1].value), args[2], node, plainly=True)
        return NONE
    return _setattr(m, frame, args, keywords, node)


def _setattr(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) != 3:
        return NONE
    owner, name, value = args
    if isinstance(name, Const) and isinstance(name.value, str):
        storing.put(m, frame, owner, name.value, value, node)
        return NONE
    cause = m.unknown(frame, node, "setattr with a name that is not known")
    if (
        isinstance(owner, Ref)
        and isinstance(m.obj(owner), Namespace)
        and (not isinstance(m.obj(owner), InstanceObj) or reach.touches(m.state, value))
    ):
        if isinstance(m.obj(owner), ClassObj) and not reach.is_component(m.state, owner):
            return NONE
        m.taint(owner.oid, cause)
    return NONE


def _delattr(*, plainly: bool) -> Rule:
    """`delattr`, or what `object.__delattr__` does."""

    def delete(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        if len(args) == 2:
            if isinstance(args[1], Const):
                storing.remove(m, frame, args[0], str(args[1].value), node, plainly=plainly)
            elif isinstance(args[0], Ref) and isinstance(m.obj(args[0]), ModuleObj):
                m.taint(args[0].oid, m.unknown(frame, node, "a name that is not known is deleted"))
        return NONE

    return delete


def _plain_getattr(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) == 2 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        return m.concrete(attributes.plainly(m, frame, args[0], args[1].value, node))
    return _getattr(m, frame, args, keywords, node)


def _hasattr(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) == 2 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        if isinstance(args[0], Opaque | Unknown):
            return Opaque("bool()")
        if isinstance(args[0], Const):
            return Const(hasattr(args[0].value, args[1].value))
        space = m.obj(args[0]) if isinstance(args[0], Ref) else None
        if isinstance(space, ModuleObj) and space.taint is None:
            held = m.read(cast(Ref, args[0]).oid, args[1].value)
            if held is not None and not isinstance(held, Unknown):
                return TRUE
        try:
            with m.guarded(0, m.guards + m.import_guards):
                found = attributes.get(m, frame, args[0], args[1].value, node)
        except Raised as raised:
            missing = Ext("builtins.AttributeError", "c")
            if raised.implicit or classes.exception_matches(m, raised.value, missing) is False:
                raise
            return FALSE
        if isinstance(args[0], Ext) and isinstance(found, Ext) and found.kind == "v":
            return Opaque("bool()")
        if isinstance(found, Method) and not _is_listed(m, args[0], args[1].value):
            return Opaque("bool()")
        return Opaque("bool()") if isinstance(found, Opaque | Unknown) else TRUE
    return Opaque("bool()")


def _is_listed(m: Machine, owner: Value, name: str) -> bool:
    """True if a built-in container certainly has the method."""
    obj = m.obj(owner) if isinstance(owner, Ref) else None
    if isinstance(owner, TupleValue) or (isinstance(obj, DictObj) and obj.factory is None):
        return True
    plain = isinstance(obj, ListObj) and obj.kind in ("list", "set", "frozenset")
    return plain or backed.has_method(m, owner, name)


def _current_exception(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`sys.exception()`; harmless where none is being handled as far as is known."""
    return m.handling[-1] if m.handling else Opaque("exception")


def _exc_info(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = _current_exception(m, frame, args, keywords, node)
    kind = classes.class_of(m, value) if isinstance(value, Ref) else Opaque("type()")
    return TupleValue((kind, value, Opaque("traceback")))


FRAME_CALLS: dict[str, Rule] = {
    "sys.exception": _current_exception,
    "sys.exc_info": _exc_info,
    "builtins.globals": _globals,
    "builtins.locals": _locals,
    "builtins.vars": _vars,
    "builtins.exec": _exec,
    "builtins.eval": _eval,
    "builtins.super": _super,
    "builtins.__import__": _import_function,
    "importlib.import_module": _import_module,
    "_frozen_importlib.__import__": _import_function,
    "importlib.reload": _reload,
    "builtins.getattr": _getattr,
    "builtins.setattr": _setattr,
    "builtins.type.__setattr__": _setattr,
    "builtins.object.__setattr__": _plain_setattr,
    "builtins.object.__delattr__": _delattr(plainly=True),
    "builtins.type.__delattr__": _delattr(plainly=True),
    "builtins.delattr": _delattr(plainly=False),
    "builtins.object.__getattribute__": _plain_getattr,
    "builtins.type.__getattribute__": _plain_getattr,
    "builtins.hasattr": _hasattr,
}
