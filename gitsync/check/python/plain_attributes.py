"""Attributes of values that hold no other objects: functions, paths and constants."""

from __future__ import annotations

import ast
import posixpath

from gitsync.check.python import reflection
from gitsync.check.python.heap import DictObj, FunctionObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    Const,
    Ext,
    Method,
    Names,
    Opaque,
    PathValue,
    Ref,
    TupleValue,
    Value,
)
from gitsync.check.python.worlds import Frame

_INSIDE = ("__code__", "__closure__", "__defaults__", "__kwdefaults__", "__type_params__")


def of_function(
    m: Machine, frame: Frame, owner: Ref, obj: FunctionObj, name: str, node: ast.AST
) -> Value:
    """`function.name`."""
    own = m.read(owner.oid, name)
    if own is not None:
        return own
    if name == "__name__":
        return Const(obj.name)
    if name == "__qualname__":
        return Const(obj.qualname)
    if name == "__module__":
        return m.space(obj.module).values.get("__name__", Opaque())
    if name == "__globals__":
        return Names(obj.module)
    if name == "__dict__":
        return Names(owner.oid)
    if name == "__get__":
        return Method(owner, name)
    if name == "__annotations__":
        return m.new(DictObj(reflection.of_function(m, frame, obj, node)))
    if name in _INSIDE:
        return m.unknown(frame, node, "the inside of a function is used")
    if name.startswith("__"):
        return Opaque()
    raise m.error(frame, node, "AttributeError", f"the function {obj.name} has no '{name}'")


def of_path(owner: PathValue, name: str) -> Value:
    """`path.name`."""
    text = owner.text
    if name == "parent":
        return PathValue(posixpath.dirname(text) or ".")
    if name == "name":
        return Const(posixpath.basename(text))
    if name == "stem":
        return Const(posixpath.splitext(posixpath.basename(text))[0])
    if name == "suffix":
        return Const(posixpath.splitext(text)[1])
    if name == "parents":
        parts: list[Value] = []
        while text not in ("/", ".", "") and len(parts) < 64:
            text = posixpath.dirname(text)
            parts.append(PathValue(text))
        return TupleValue(tuple(parts))
    return Method(owner, name)


def of_constant(m: Machine, frame: Frame, owner: Const, name: str, node: ast.AST) -> Value:
    """`constant.name`."""
    if name == "__class__":
        return Ext(f"builtins.{type(owner.value).__name__}", "c")
    if not hasattr(owner.value, name):
        kind = type(owner.value).__name__
        raise m.error(frame, node, "AttributeError", f"a {kind} has no attribute '{name}'")
    return Method(owner, name)
