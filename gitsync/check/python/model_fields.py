"""Which values pydantic certainly refuses for an annotated field."""

from __future__ import annotations

import ast
import functools

from gitsync.check.python.heap import DictObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import NONE, Const, Ref, TupleValue, Value

_CONTAINERS = ("list", "dict", "set", "frozenset", "tuple", "List", "Dict", "Set", "Tuple")
_SCALARS = ("str", "int", "float", "bool")
_TRUTHS = ("0", "1", "off", "on", "f", "t", "false", "true", "n", "y", "no", "yes")


@functools.cache
def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def refuses(m: Machine, text: str, value: Value) -> bool:
    """True if a field annotated with `text` certainly does not take the value."""
    node = _parsed(text) if len(text) < 500 else None
    return node is not None and _refuses(m, node, value)


def _refuses(m: Machine, node: ast.expr, value: Value) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _refuses(m, node.left, value) and _refuses(m, node.right, value)
    if isinstance(node, ast.Constant) and node.value is None:
        return isinstance(value, Const | TupleValue | Ref) and value != NONE
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return refuses(m, node.value, value)
    name = node.value if isinstance(node, ast.Subscript) else node
    head = name.id if isinstance(name, ast.Name) else getattr(name, "attr", "")
    if isinstance(node, ast.Subscript) and head == "Optional":
        return value != NONE and _refuses(m, node.slice, value)
    if isinstance(node, ast.Subscript) and head == "Literal":
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        known = [Const(p.value) for p in parts if isinstance(p, ast.Constant)]
        is_text = isinstance(value, Const) and isinstance(value.value, str)
        return is_text and len(known) == len(parts) and value not in known
    if head in _CONTAINERS:
        return isinstance(value, Const) and isinstance(value.value, str | int | float | None)
    return head in _SCALARS and _not_scalar(m, head, value)


def _not_scalar(m: Machine, kind: str, value: Value) -> bool:
    if isinstance(value, Ref):
        return isinstance(m.obj(value), ListObj | DictObj)
    if not isinstance(value, Const):
        return isinstance(value, TupleValue)
    plain = value.value
    if plain is None:
        return True
    if kind == "str":
        return isinstance(plain, int | float)
    if kind == "bool":
        if isinstance(plain, str):
            return plain.strip().lower() not in _TRUTHS
        return isinstance(plain, int | float) and plain not in (0, 1)
    if isinstance(plain, str):
        return not _is_number(plain)
    return kind == "int" and isinstance(plain, float) and not plain.is_integer()


def _is_number(text: str) -> bool:
    try:
        float(text.replace("_", ""))
    except ValueError:
        return False
    return True
