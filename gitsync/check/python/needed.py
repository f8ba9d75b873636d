"""Import statements that must succeed when their code runs."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from gitsync.check.python.facts import facts

_CATCHES = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_MARK = "TYPE_CHECKING"
# What a rollout finds where it runs, at the lowest and at the highest Python.
_HOST: dict[str, tuple[Any, Any]] = {
    "sys.platform": ("linux", "linux"),
    "os.name": ("posix", "posix"),
    "sys.version_info": ((3, 12, 0), (3, 99)),
    "sys.version_info[:2]": ((3, 12), (3, 99)),
    "sys.version_info[0]": (3, 3),
    "sys.version_info.major": (3, 3),
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def needed_imports(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    """Imports at any level in the order of their places.

    Left out are those whose ImportError is caught, those that run for type checkers only, those
    for another platform or an older Python and those in place of a standard module.
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
            if name not in left_out:
                stack.extend(reversed(getattr(node, name, ())))
    return out


def _left_out(node: ast.AST, marks: set[str]) -> tuple[str, ...]:
    """The blocks of a statement whose imports need not succeed."""
    if isinstance(node, ast.Try | ast.TryStar):
        if not any(_catches(h.type) for h in node.handlers):
            return ()
        return ("body", "handlers") if all(map(_succeeds, node.body)) else ("body",)
    if isinstance(node, ast.With | ast.AsyncWith):
        return ("body",) if any(_suppresses(i.context_expr) for i in node.items) else ()
    if isinstance(node, ast.If):
        known = _known(node.test, marks)
        return () if known is None else ("orelse",) if known else ("body",)
    return ()


def _succeeds(node: ast.stmt) -> bool:
    """True for an import of what the standard library has in every Python that is admitted."""
    modules = facts().modules
    if isinstance(node, ast.Import):
        return all(_standard(a.name) for a in node.names)
    if not isinstance(node, ast.ImportFrom) or node.level or not _standard(node.module or ""):
        return False
    has = modules[node.module or ""]["names"]
    return all(a.name in has or f"{node.module}.{a.name}" in modules for a in node.names)


def _standard(module: str) -> bool:
    """True if the standard library certainly has the module."""
    return module in facts().modules and module.partition(".")[0] in facts().stdlib


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
    """The truth of a condition at run time, if constants, TYPE_CHECKING or the host decide it."""
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
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compared(test.left, test.ops[0], test.comparators[0])
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and len(test.args) == 1:
        subject, prefix = test.func.value, _constant(test.args[0])
        if test.func.attr == "startswith" and ast.unparse(subject) == "sys.platform":
            return "linux".startswith(prefix) if isinstance(prefix, str) else None
    return None


def _compared(left: ast.expr, op: ast.cmpop, right: ast.expr) -> bool | None:
    """The truth of a comparison of the host's Python or platform with a constant."""
    if not isinstance(left, ast.Attribute | ast.Subscript) or type(op) not in _COMPARED:
        return None
    host = _HOST.get(ast.unparse(left))
    constant = _constant(right)
    if host is None or constant is None:
        return None
    try:
        answers = {_COMPARED[type(op)](have, constant) for have in host}
    except TypeError:
        return None
    return answers.pop() if len(answers) == 1 else None


def _constant(node: ast.expr) -> Any:
    """The value of a literal or of a tuple of literals."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple) and all(isinstance(e, ast.Constant) for e in node.elts):
        return ast.literal_eval(node)
    return None


def _name(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
