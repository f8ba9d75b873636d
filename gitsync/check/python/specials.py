"""What builtins leave to a special method: `repr`, `hash`, `round`, `format`; and f-strings."""

from __future__ import annotations

import ast

from gitsync.check.python import comparing, expressions, operators, protocols
from gitsync.check.python.heap import InstanceObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import NONE, Const, Opaque, Ref, Value
from gitsync.check.python.worlds import Frame

_METHODS = {
    "builtins.hash": "__hash__",
    "builtins.dir": "__dir__",
    "builtins.round": "__round__",
    "builtins.abs": "__abs__",
    "builtins.divmod": "__divmod__",
    "builtins.bin": "__index__",
    "builtins.oct": "__index__",
    "builtins.hex": "__index__",
    "builtins.reversed": "__reversed__",
    "builtins.bytes": "__bytes__",
    "builtins.complex": "__complex__",
    "math.floor": "__floor__",
    "math.ceil": "__ceil__",
    "math.trunc": "__trunc__",
    "_operator.index": "__index__",
    "posix.fspath": "__fspath__",
}
_TEXTS = ("builtins.repr", "builtins.ascii", "builtins.print", "builtins.format")
PATHS = frozenset((*_METHODS, *_TEXTS))


def own_result(
    m: Machine, frame: Frame, path: str, args: list[Value], node: ast.AST
) -> Value | None:
    """The answer of the special method that the repository wrote; None if there is none."""
    if path == "builtins.print":
        for arg in args:
            protocols.own_text(m, frame, arg, node)
        return NONE
    if path == "builtins.format":
        return formatted(m, frame, args[0], (*args, Const(""))[1], node)
    if path in _TEXTS:
        return protocols.own_text(m, frame, args[0], node, name="__repr__")
    return operators.operator_method(m, frame, _METHODS[path], args[0], args[1:], node)


def formatted(m: Machine, frame: Frame, value: Value, spec: Value, node: ast.AST) -> Value | None:
    """What the `__format__` of the repository's own class gives; None if it has none."""
    if not isinstance(value, Ref) or not isinstance(m.obj(value), InstanceObj):
        return None
    return operators.operator_method(m, frame, "__format__", value, [spec], node)


def joined_text(m: Machine, frame: Frame, node: ast.JoinedStr) -> Value:
    """An f-string."""
    parts: list[str] = []
    whole = True  # so far; the beginning is of use to the warnings
    for part in node.values:
        if isinstance(part, ast.Constant):
            if whole:
                parts.append(str(part.value))
            continue
        if not isinstance(part, ast.FormattedValue):
            whole = False
            continue
        value = expressions.evaluate(m, frame, part.value)
        spec = (
            Const("")
            if part.format_spec is None
            else expressions.evaluate(m, frame, part.format_spec)
        )
        special = formatted(m, frame, value, spec, part) if part.conversion == -1 else None
        name = "__str__" if part.conversion in (-1, 115) else "__repr__"
        own = special or protocols.own_text(m, frame, value, part, name=name)
        text = comparing.as_text(m, own or value) if own or name == "__str__" else None
        if special is None and part.format_spec is not None:
            text = None
        if whole and text is not None:
            parts.append(text)
        else:
            whole = False
    known = Const("".join(parts)[: operators.MAX_CONSTANT])
    return known if whole else Opaque("str()", known=known)
