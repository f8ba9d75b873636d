"""Unary, binary and comparison operators on abstract values."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

from gitsync.check.python import (
    backed,
    calls,
    classes,
    comparing,
    containers,
    expressions,
    generators,
    keys,
    mappings,
    mixins,
    protocols,
    reach,
    sets,
)
from gitsync.check.python.heap import ClassObj, InstanceObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    FALSE,
    TRUE,
    Alias,
    Const,
    Coroutine,
    Ext,
    Lazy,
    Opaque,
    Ref,
    TupleValue,
    Unknown,
    Value,
)
from gitsync.check.python.worlds import Frame

MAX_CONSTANT = 4096


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Pow: operator.pow,
}


_OPERATOR_NAMES: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.BitOr: "or",
    ast.BitAnd: "and",
    ast.BitXor: "xor",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
}


_COMPARED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("__eq__", "__eq__"),
    ast.NotEq: ("__ne__", "__ne__"),
    ast.Lt: ("__lt__", "__gt__"),
    ast.LtE: ("__le__", "__ge__"),
    ast.Gt: ("__gt__", "__lt__"),
    ast.GtE: ("__ge__", "__le__"),
}


def binary(
    m: Machine, frame: Frame, op: ast.operator, left: Value, right: Value, node: ast.AST
) -> Value:
    """A binary operation on two values."""
    if isinstance(left, Unknown):
        return left
    if isinstance(left, Const):
        known = plain(right) if isinstance(right, Const) or isinstance(op, ast.Mod) else None
        if known is not None:
            return _constants(m, frame, op, left.value, known[0], node)
    left, right = mappings.snapshot(m, left), mappings.snapshot(m, right)
    joined = containers.combine(m, op, left, right)
    if joined is not None:
        return joined
    if isinstance(op, ast.Div):
        path = comparing.join_path(left, right)
        if path is not None:
            return path
    name = _OPERATOR_NAMES[type(op)]
    if isinstance(op, ast.BitOr) and (
        classes.is_class(m, left) or classes.is_class(m, right) or isinstance(left, Alias)
    ):
        method = classes.type_operator(m, left, right)
        if method is None:
            return Alias(Ext("types.UnionType", "c"), (left, right))
    if isinstance(left, Const) and isinstance(op, ast.Mod):
        protocols.show(m, frame, right, node)
    for owner, other, text in _sides(m, left, right, f"__{name}__", f"__r{name}__"):
        found = operator_method(m, frame, text, owner, [other], node)
        if found is not None:
            return found
    if isinstance(right, Unknown):
        return right
    if protocols.cannot_operate(m, name, left, right):
        raise m.error(frame, node, "TypeError", "the operands do not fit the operator")
    if isinstance(op, ast.Mod) and isinstance(left, Const) and isinstance(left.value, str | bytes):
        m.may_raise(m.place(frame, node))
        return Opaque("str()")
    if reach.touches(m.state, left) or reach.touches(m.state, right):
        return m.unknown(frame, node, "the result of this operation cannot be worked out")
    m.may_raise(m.place(frame, node))
    begins = left.known if isinstance(left, Opaque) else left
    if isinstance(op, ast.Add) and isinstance(begins, Const) and isinstance(begins.value, str):
        return Opaque("str()", known=begins)
    return Opaque()


def operator_method(
    m: Machine, frame: Frame, name: str, owner: Value, args: list[Value], node: ast.AST
) -> Value | None:
    """The result of a dunder method that the repository's own class defines."""
    method: Value | None = None
    if isinstance(owner, Ref):
        obj = m.obj(owner)
        if isinstance(obj, InstanceObj):
            method = classes.class_attribute(m, obj.cls, name)
        elif isinstance(obj, ClassObj):
            method = classes.meta_attribute(m, obj, name)
    if method is None:
        return None
    result = calls.call(m, frame, calls.bind(m, method, owner), args, {}, node)
    return None if result == Ext("builtins.NotImplemented") else result


def _constants(
    m: Machine, frame: Frame, op: ast.operator, left: Any, right: Any, node: ast.AST
) -> Value:
    rule = _BINARY.get(type(op))
    if rule is None:
        return Opaque()
    if isinstance(op, ast.Pow | ast.LShift | ast.Mult) and not _small(op, left, right):
        return Opaque()
    if isinstance(op, ast.Mod) and isinstance(left, str | bytes):
        text = left if isinstance(left, str) else left.decode("latin-1")
        if len(text) > MAX_CONSTANT or _WIDE.search(text):
            return Opaque()
    try:
        result = rule(left, right)
    except ZeroDivisionError:
        raise m.error(frame, node, "ZeroDivisionError", "this divides by zero") from None
    except TypeError:
        raise m.error(frame, node, "TypeError", "the operands do not fit the operator") from None
    except (ValueError, OverflowError, MemoryError):
        return Opaque()
    if isinstance(result, str | bytes) and len(result) > MAX_CONSTANT * 16:
        return Opaque()
    if isinstance(result, int) and not isinstance(result, bool) and result.bit_length() > 4096:
        return Opaque()
    return Const(result)


# A width or precision of four digits or more, or one taken from the arguments.
_WIDE = re.compile(r"%[^A-Za-z%]*(\d{4}|\*)")


def _small(op: ast.operator, left: Any, right: Any) -> bool:
    if isinstance(op, ast.Mult):
        for text, times in ((left, right), (right, left)):
            if isinstance(text, str | bytes | tuple):
                # anything else than an integer is refused by Python
                return not isinstance(times, int) or len(text) * max(times, 0) <= MAX_CONSTANT
        return True
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return True
    return abs(right) <= 64 and abs(left) <= 2**32


def own_answer(
    m: Machine, frame: Frame, op: ast.cmpop, left: Value, right: Value, node: ast.AST
) -> Value | None:
    """What the repository's own comparison method gives, which may be anything; None without."""
    if not isinstance(left, Ref) and not isinstance(right, Ref):
        return None
    names = _COMPARED.get(type(op))
    if names is None:
        return None
    for owner, other, name in _sides(m, left, right, *names):
        found = operator_method(m, frame, name, owner, [other], node)
        if found is None and isinstance(op, ast.NotEq):
            equal = operator_method(m, frame, "__eq__", owner, [other], node)
            if equal is not None:
                known = expressions.known_truth(m, frame, equal, node)
                found = Opaque("bool()") if known is None else Const(not known)
        if found is not None:
            return found
    return None


def _sides(
    m: Machine, left: Value, right: Value, name: str, reflected: str
) -> list[tuple[Value, Value, str]]:
    """(owner, other, method) in the order Python asks; a subclass on the right goes first."""
    sides = [(left, right, name), (right, left, reflected)]
    if isinstance(left, Ref) and isinstance(right, Ref):
        a, b = m.obj(left), m.obj(right)
        if isinstance(a, InstanceObj) and isinstance(b, InstanceObj) and a.cls != b.cls:
            first = classes.class_attribute(m, b.cls, reflected)
            if a.cls in classes.mro_of(m, b.cls) and first is not None:
                return sides[::-1]
    return sides


def compare(
    m: Machine, frame: Frame, op: ast.cmpop, left: Value, right: Value, node: ast.AST
) -> bool | None:
    """The truth of a comparison; None if it is not certain."""
    found = own_answer(m, frame, op, left, right, node)
    if found is not None:
        return expressions.known_truth(m, frame, found, node)
    return plainly_compared(m, frame, op, left, right, node)


def plainly_compared(
    m: Machine, frame: Frame, op: ast.cmpop, left: Value, right: Value, node: ast.AST
) -> bool | None:
    """The result where no `own_answer` is given."""
    if isinstance(op, ast.Is | ast.IsNot):
        same = comparing.identical(m, left, right)
        return same if same is None or isinstance(op, ast.Is) else not same
    left, right = mappings.snapshot(m, left), mappings.snapshot(m, right)
    if isinstance(op, ast.Eq | ast.NotEq):
        wanted = isinstance(op, ast.Eq)
        same = containers.equal(m, left, right)
        return same if same is None or wanted else not same
    if isinstance(op, ast.In | ast.NotIn):
        found = operator_method(m, frame, "__contains__", right, [left], node)
        if found is None:
            found = _searched(m, frame, right, left, node)
        if found is not None:
            inside = expressions.known_truth(m, frame, found, node)
        elif protocols.cannot_contain(m, right, left):
            raise m.error(frame, node, "TypeError", "this value cannot be searched")
        else:
            inside = containers.contains(m, right, left)
        return inside if inside is None or isinstance(op, ast.In) else not inside
    below = sets.ordered(m, op, left, right)
    if below is not None:
        return below
    parts = _parts(m, left), _parts(m, right)
    if parts[0] is not None and parts[1] is not None and parts[0][0] == parts[1][0]:
        return _by_parts(m, frame, op, parts[0][1], parts[1][1], node)
    version = comparing.compare_version(m, op, left, right)
    if version is not None:
        return version
    a, b = plain(keys.plain_value(m, left)), plain(keys.plain_value(m, right))
    if a is not None and b is not None:
        rules: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
            ast.Lt: operator.lt,
            ast.LtE: operator.le,
            ast.Gt: operator.gt,
            ast.GtE: operator.ge,
        }
        try:
            return bool(rules[type(op)](a[0], b[0]))
        except TypeError:
            raise m.error(frame, node, "TypeError", "the values cannot be ordered") from None
    if version is None and protocols.cannot_order(m, left, right):
        raise m.error(frame, node, "TypeError", "the values cannot be ordered")
    return None


def _parts(m: Machine, value: Value) -> tuple[object, list[Value]] | None:
    """What a sequence or an ordered dataclass is ordered by, and its kind; None for others."""
    if isinstance(value, TupleValue):
        return tuple, list(value.items)
    obj = m.obj(value) if isinstance(value, Ref) else None
    if isinstance(obj, ListObj) and obj.kind == "list" and obj.rest is None:
        return list, obj.items
    if isinstance(value, Ref) and isinstance(obj, InstanceObj):
        names = keys.compared_fields(m, obj.cls) if keys.is_ordered(m, obj.cls) else None
        return None if names is None else (obj.cls, keys.field_values(m, value, obj, names))
    return None


def _by_parts(
    m: Machine, frame: Frame, op: ast.cmpop, left: list[Value], right: list[Value], node: ast.AST
) -> bool | None:
    """The order of two sequences: that of the first items which differ, or of their lengths."""
    for mine, theirs in zip(map(m.concrete, left), map(m.concrete, right), strict=False):
        same: bool | None = isinstance(mine, Ref) and mine == theirs
        same = same or compare(m, frame, ast.Eq(), mine, theirs, node)
        if not same:
            return None if same is None else compare(m, frame, op, mine, theirs, node)
    return compare(m, frame, op, Const(len(left)), Const(len(right)), node)


def _searched(m: Machine, frame: Frame, owner: Value, item: Value, node: ast.AST) -> Value | None:
    """`item in owner` by a mixin, or by going through what `__iter__` gives; None for others."""
    if isinstance(owner, Coroutine | Lazy):

        def same(given: Value) -> bool:
            known = compare(m, frame, ast.Eq(), given, item, node)
            return m.choose(2, m.place(frame, node), "an item") == 0 if known is None else known

        return generators.search(m, frame, owner, node, True, same)
    obj = m.obj(owner) if isinstance(owner, Ref) else None
    if not isinstance(obj, InstanceObj):
        return None
    mixed = mixins.bound(m, frame, owner, "__contains__")
    if mixed is not None:
        return m.concrete(calls.call(m, frame, mixed, [item], {}, node))
    if classes.class_attribute(m, obj.cls, "__iter__") is None or backed.plain(m, owner) != owner:
        return None
    items, rest = expressions.items_of(m, frame, owner, node)
    answers = [containers.equal(m, each, item) for each in items]
    if True in answers:
        return TRUE
    return Opaque("bool()") if None in answers or rest is not None else FALSE


def plain(value: Value) -> tuple[Any] | None:
    """The Python value of a constant or a tuple of constants, in a tuple; None otherwise."""
    if isinstance(value, Const):
        return (value.value,)
    if isinstance(value, TupleValue):
        parts = [plain(i) for i in value.items]
        if all(p is not None for p in parts):
            return (tuple(p[0] for p in parts if p is not None),)
    return None
