"""Text, identity and version comparisons of abstract values."""

from __future__ import annotations

import ast
import posixpath

from gitsync.check.python import classes
from gitsync.check.python.heap import ClassObj, InstanceObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    Const,
    Ext,
    Opaque,
    PathValue,
    Ref,
    TupleValue,
    Unknown,
    Value,
)


def as_text(m: Machine, value: Value) -> str | None:
    """`str(value)` if it is certain."""
    if isinstance(value, Const):
        text = str(value.value)
        return text if len(text) < 65536 else None
    if isinstance(value, PathValue):
        return value.text
    if isinstance(value, Ref):
        obj = m.obj(value)
        if (
            isinstance(obj, InstanceObj)
            and obj.args is not None
            and len(obj.args) < 2
            and "args" not in obj.values
            and classes.is_exception(m, value)
            and classes.class_attribute(m, obj.cls, "__str__") is None
            and Ext("builtins.LookupError") not in classes.mro_of(m, obj.cls)
        ):
            return as_text(m, obj.args[0]) if obj.args else ""
        if isinstance(obj, InstanceObj) and classes.class_attribute(m, obj.cls, "__str__") is None:
            cls = m.obj(obj.cls) if isinstance(obj.cls, Ref) else None
            inner = obj.values.get("value")
            if (
                isinstance(cls, ClassObj)
                and classes.is_enum(cls)
                and isinstance(inner, Const)
                and Ext("enum.StrEnum") in cls.mro
            ):
                return str(inner.value)
    return None


def join_path(left: Value, right: Value) -> Value | None:
    """`Path / "name"`."""
    if isinstance(left, PathValue):
        if isinstance(right, Const) and isinstance(right.value, str):
            return PathValue(posixpath.normpath(posixpath.join(left.text, right.value)))
        if isinstance(right, PathValue):
            return PathValue(posixpath.normpath(posixpath.join(left.text, right.text)))
        return Opaque("pathlib.Path()")
    return None


def identical(m: Machine, left: Value, right: Value) -> bool | None:
    """`left is right` if it is certain."""
    if isinstance(left, Opaque | Unknown) or isinstance(right, Opaque | Unknown):
        return None
    if isinstance(left, Const) and isinstance(right, Const):
        if left == right:
            single = left.value is None or left.value is ... or isinstance(left.value, bool)
            return True if single else None
        return False
    if isinstance(left, Ref) and isinstance(right, Ref):
        return left.oid == right.oid
    if isinstance(left, Ext) and isinstance(right, Ext):
        if left.path == right.path:
            return True
        return False if left.kind in "cfm" and right.kind in "cfm" else None
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Ext) and one.kind == "v":
            return None
        if isinstance(one, Const) and one.value is None and not isinstance(other, Const):
            return False
    if type(left) is not type(right):
        return False
    return None


def compare_version(m: Machine, op: ast.cmpop, left: Value, right: Value) -> bool | None:
    """`sys.version_info` against a tuple."""
    if isinstance(right, Ext) and right.path == "sys.version_info":
        mirrored: dict[type[ast.cmpop], ast.cmpop] = {
            ast.Lt: ast.Gt(),
            ast.Gt: ast.Lt(),
            ast.LtE: ast.GtE(),
            ast.GtE: ast.LtE(),
        }
        left, right, op = right, left, mirrored.get(type(op), op)
    if not (isinstance(left, Ext) and left.path == "sys.version_info"):
        return None
    if not isinstance(right, TupleValue):
        return None
    wanted = tuple(i.value if isinstance(i, Const) else None for i in right.items)
    if not wanted or not all(isinstance(w, int) for w in wanted):
        return None
    have = (3, m.minor)
    numbers = tuple(w for w in wanted if isinstance(w, int))
    if numbers[:2] == have and len(numbers) > 2:
        return None
    less = have[: len(numbers)] < numbers[:2] if numbers[:2] != have else False
    # Equal so far: the real version has more parts, so it is the greater one.
    greater = not less
    return greater if isinstance(op, ast.Gt | ast.GtE) else less
