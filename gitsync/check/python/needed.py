"""Import statements that must succeed when their code runs."""

from __future__ import annotations

import ast

_CATCHES = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_MARK = "TYPE_CHECKING"
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def needed_imports(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    """Imports at any level in the order of their places.

    Left out are those whose ImportError is caught and those that run for type checkers only.
    """
    out: list[ast.Import | ast.ImportFrom] = []
    marks = {_MARK}
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            out.append(node)
            marks |= {a.asname for a in node.names if a.name == _MARK and a.asname}
            continue
        left_out = _left_out(node, marks)
        for name in _BLOCKS:
            if name != left_out:
                stack.extend(reversed(getattr(node, name, ())))
    return out


def _left_out(node: ast.AST, marks: set[str]) -> str:
    """The block of a statement whose imports need not succeed."""
    if isinstance(node, ast.Try | ast.TryStar):
        return "body" if any(_catches(h.type) for h in node.handlers) else ""
    if isinstance(node, ast.With | ast.AsyncWith):
        return "body" if any(_suppresses(i.context_expr) for i in node.items) else ""
    if isinstance(node, ast.If):
        return {True: "orelse", False: "body", None: ""}[_known(node.test, marks)]
    return ""


def _catches(kind: ast.expr | None) -> bool:
    """True if an `except` clause catches ImportError, as far as its names show."""
    if kind is None:
        return True
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(_name(k) in _CATCHES for k in kinds)


def _suppresses(node: ast.expr) -> bool:
    """True for `suppress(ImportError)`."""
    return (
        isinstance(node, ast.Call)
        and _name(node.func) == "suppress"
        and any(isinstance(a, ast.Starred) or _catches(a) for a in node.args)
    )


def _known(test: ast.expr, marks: set[str]) -> bool | None:
    """The truth of a condition at run time, if constants and TYPE_CHECKING decide it."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.Name | ast.Attribute):
        is_mark = test.attr == _MARK if isinstance(test, ast.Attribute) else test.id in marks
        return False if is_mark else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _known(test.operand, marks)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = [_known(part, marks) for part in test.values]
        decisive = isinstance(test.op, ast.Or)
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    return None


def _name(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
