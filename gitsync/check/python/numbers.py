"""Builtins that work on plain constants: numbers, characters and their text, and ordering."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from gitsync.check.python import (
    calls,
    containers,
    expressions,
    operators,
    subscripts,
    targets,
)
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import NONE, Const, Opaque, Value
from gitsync.check.python.worlds import Frame

MAX_TEXT = 4096


def _constant(name: str, work: Callable[..., Any]) -> Rule:
    """A builtin that is worked out where all its arguments are constants."""

    def run(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        plain = [operators.plain(a) for a in args]
        if keywords or not all(p is not None and _is_small(p[0]) for p in plain):
            m.may_raise(m.place(frame, node))
            return Opaque(f"{name}()")
        try:
            result = work(*(p[0] for p in plain if p is not None))
        except ZeroDivisionError:
            raise m.error(frame, node, "ZeroDivisionError", "this divides by zero") from None
        except TypeError:
            raise m.error(
                frame, node, "TypeError", f"{name}() is given arguments that do not fit"
            ) from None
        except ValueError:
            raise m.error(
                frame, node, "ValueError", f"{name}() is given a value that does not fit"
            ) from None
        except (OverflowError, MemoryError):
            return Opaque(f"{name}()")
        return containers.constant(result)

    return run


def _is_small(value: Any) -> bool:
    if isinstance(value, tuple):
        return len(value) < 64 and all(map(_is_small, value))
    if isinstance(value, str | bytes):
        return len(value) <= MAX_TEXT
    return not isinstance(value, int) or value.bit_length() <= 512


def _sum(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if not args:
        raise m.error(frame, node, "TypeError", "sum() needs an iterable")
    items, rest = expressions.items_of(m, frame, args[0], node)
    total = args[1] if len(args) > 1 else keywords.get("start", Const(0))
    if rest is not None:
        return containers.blurred(m, frame, [*items, rest, total], node)
    for item in items:
        total = m.concrete(operators.binary(m, frame, ast.Add(), total, item, node))
    return total


def _extreme(largest: bool) -> Rule:
    """`max` and `min`: the first of the items whose keys are known to be in front."""

    def run(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        items, rest = list(args), None
        if len(args) == 1:
            items, rest = expressions.items_of(m, frame, args[0], node)
        key = keywords.get("key", NONE)
        if rest is None and not items:
            if "default" in keywords:
                return keywords["default"]
            raise m.error(frame, node, "ValueError", "max() or min() is given nothing")
        if rest is None:
            keys = items
            if key != NONE:
                keys = [calls.call(m, frame, key, [i], {}, node) for i in items]
            if len(items) == 1:
                return items[0]
            best = 0
            op = ast.Gt() if largest else ast.Lt()
            for at in range(1, len(items)):
                ahead = operators.compare(m, frame, op, keys[at], keys[best], node)
                if ahead is None:
                    break
                best = at if ahead else best
            else:
                return items[best]
        elif "default" in keywords:
            items = [*items, keywords["default"]]
        return subscripts.pick_any(m, frame, [*items, *([rest] if rest else [])], node)

    return run


def _operator(op: ast.operator, work: Callable[..., Value]) -> Rule:
    """A function of `operator` that stands for a binary operator, or for its form in place."""

    def run(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        if len(args) != 2 or keywords:
            raise m.error(frame, node, "TypeError", "this function takes two arguments")
        return work(m, frame, op, args[0], args[1], node)

    return run


_OPERATORS: dict[str, ast.operator] = {
    "add": ast.Add(),
    "concat": ast.Add(),
    "sub": ast.Sub(),
    "mul": ast.Mult(),
    "mod": ast.Mod(),
    "floordiv": ast.FloorDiv(),
    "truediv": ast.Div(),
    "or_": ast.BitOr(),
    "and_": ast.BitAnd(),
    "xor": ast.BitXor(),
}


def _set_item(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) != 3:
        raise m.error(frame, node, "TypeError", "setitem() takes three arguments")
    subscripts.set_item(m, frame, args[0], args[1], args[2], node)
    return NONE


def _delete_item(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) != 2:
        raise m.error(frame, node, "TypeError", "delitem() takes two arguments")
    subscripts.remove_item(m, frame, args[0], args[1], node)
    return NONE


RULES: dict[str, Rule] = {
    "_operator.setitem": _set_item,
    "_operator.delitem": _delete_item,
    **{
        f"_operator.i{name.rstrip('_')}": _operator(op, targets.combined)
        for name, op in _OPERATORS.items()
    },
    **{f"_operator.{name}": _operator(op, operators.binary) for name, op in _OPERATORS.items()},
    "builtins.sum": _sum,
    "builtins.max": _extreme(True),
    "builtins.min": _extreme(False),
    **{
        f"builtins.{work.__name__}": _constant(work.__name__, work)
        for work in (abs, divmod, round, ord, chr, repr, ascii, bin, oct, hex)
    },
}
