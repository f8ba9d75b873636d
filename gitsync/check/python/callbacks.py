"""Functions handed to the standard library, which may call them: what their code writes is lost.

A call that only keeps a function for later, such as `atexit.register`, changes nothing now.
"""

from __future__ import annotations

import ast

from gitsync.check.python import containers
from gitsync.check.python.heap import FunctionObj, InstanceObj, ModuleObj, Namespace
from gitsync.check.python.machine import Machine
from gitsync.check.python.scopes import owned
from gitsync.check.python.values import Bound, Method, Names, Partial, Ref, TupleValue, Value
from gitsync.check.python.worlds import Frame

_LATER = ("atexit.", "signal.", "_signal.", "weakref.", "logging.", "functools.", "unittest.")
_READING = frozenset(
    ["get", "keys", "values", "items", "copy", "index", "count", "__len__", "__contains__"]
)
MAX_DEPTH = 3


def called(m: Machine, frame: Frame, path: str, given: list[Value], node: ast.AST) -> None:
    """A function of the standard library at `path` is given these values."""
    if path.startswith(_LATER):
        return
    parts = [p for v in given for p in (v.items if isinstance(v, TupleValue) else (v,))]
    functions = [p for p in parts if _is_code(m, p)]
    for function in functions:
        if _spoil_written(m, frame, function, node, MAX_DEPTH):
            for part in parts:
                if part not in functions and isinstance(part, Ref | Names):
                    _spoil(m, frame, part, node)


def _is_code(m: Machine, value: Value) -> bool:
    if isinstance(value, Ref):
        return isinstance(m.obj(value), FunctionObj)
    return isinstance(value, Bound | Method | Partial)


def _is_module(m: Machine, value: Value) -> bool:
    return isinstance(value, Ref) and isinstance(m.obj(value), ModuleObj)


def _spoil_written(m: Machine, frame: Frame, function: Value, node: ast.AST, depth: int) -> bool:
    """Forget what the code may change; True if it may change its arguments too."""
    if isinstance(function, Method):
        if function.name not in _READING:
            _spoil(m, frame, function.owner, node)
        return False
    if isinstance(function, Partial):
        if _spoil_written(m, frame, function.function, node, depth):
            for value in (*function.args, *(v for _, v in function.keywords)):
                _spoil(m, frame, value, node)
            return True
        return False
    owner = function.owner if isinstance(function, Bound) else None
    code: Value = function.function if isinstance(function, Bound) else function
    obj = m.obj(code) if isinstance(code, Ref) else None
    if not isinstance(obj, FunctionObj):
        return False
    stored, used, bound = written(obj.node)
    names = stored | used
    arguments = obj.node.args
    parameters = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    if owner is not None and parameters and parameters[0] in names:
        _spoil(m, frame, owner, node)
    doubt = m.unknown(frame, node, "code that the library calls binds this name")
    for name in bound & owned(obj.node).declared_global:
        m.store(obj.module, name, doubt)
    for oid in obj.closure:
        for name in bound & owned(obj.node).declared_nonlocal & set(m.space(oid).values):
            m.store(oid, name, doubt)
    for name in names - set(parameters) - owned(obj.node).names:
        held = _outer(m, obj, name)
        if held is None or (name not in stored and _is_module(m, held)):
            continue
        if not _is_code(m, held):
            _spoil(m, frame, held, node)
        elif depth and held != code:
            _spoil_written(m, frame, held, node, depth - 1)
    return bool(names & set(parameters[owner is not None :]))


def _outer(m: Machine, function: FunctionObj, name: str) -> Value | None:
    """What a name that is not the function's own stands for."""
    for oid in (*function.closure, function.module):
        if name in m.space(oid).values:
            return m.read(oid, name)
    return None


def _spoil(m: Machine, frame: Frame, value: Value, node: ast.AST) -> None:
    """Forget the contents of whatever can be changed."""
    obj = m.obj(value) if isinstance(value, Ref) else None
    if isinstance(value, Ref | Names) and (
        isinstance(value, Names) or isinstance(obj, InstanceObj | ModuleObj)
    ):
        m.taint(value.oid, m.unknown(frame, node, "code that the library calls changes it"))
    elif isinstance(value, Ref) and not isinstance(obj, Namespace):
        containers.spoil(m, frame, value, node, [])


def written(node: ast.AST) -> tuple[frozenset[str], ...]:
    """Names in a function's code: of objects it changes, of those it calls or hands on; bound."""
    known: tuple[frozenset[str], ...] | None = getattr(node, "_written", None)
    if known is not None:
        return known
    stored: set[str] = set()
    used: set[str] = set()
    bound: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            bound.add(part.id)
        elif isinstance(part, ast.Attribute | ast.Subscript):
            if not isinstance(part.ctx, ast.Load):
                stored |= _base(part)
        elif isinstance(part, ast.AugAssign):
            stored |= _base(part.target)
        elif isinstance(part, ast.Call):
            is_read = isinstance(part.func, ast.Attribute) and part.func.attr in _READING
            for inner in (*([] if is_read else [part.func]), *part.args):
                used |= _base(inner)
            for word in part.keywords:
                used |= _base(word.value)
    known = (frozenset(stored), frozenset(used), frozenset(bound))
    node._written = known  # type: ignore[attr-defined]
    return known


def _base(node: ast.AST) -> set[str]:
    """The name that `name.a[b].c` starts with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()
