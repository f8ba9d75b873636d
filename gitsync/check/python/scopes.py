"""Which names a function or class body owns, worked out once per node."""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Owned:
    """The names of a scope and what its body contains."""

    names: frozenset[str]
    declared_global: frozenset[str]
    declared_nonlocal: frozenset[str]
    yields: bool


_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def owned(node: ast.AST) -> Owned:
    """The names that a function, lambda or class binds; kept on the node."""
    known = getattr(node, "_owned", None)
    if isinstance(known, Owned):
        return known
    names: set[str] = set()
    global_names: set[str] = set()
    nonlocal_names: set[str] = set()
    yields = False
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        args = node.args
        for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
            names.add(arg.arg)
        names.update(a.arg for a in (args.vararg, args.kwarg) if a is not None)
    body = node.body if isinstance(node.body, list) else [node.body]  # type: ignore[attr-defined]
    stack: list[ast.AST] = list(body)
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is ast.Name:
            if not isinstance(item.ctx, ast.Load):  # type: ignore[attr-defined]
                names.add(item.id)  # type: ignore[attr-defined]
            continue
        if isinstance(item, _NESTED):
            if not isinstance(item, ast.Lambda):
                names.add(item.name)
                stack.extend(item.decorator_list)
            if isinstance(item, ast.ClassDef):
                stack.extend(item.bases)
                stack.extend(k.value for k in item.keywords)
            else:
                stack.extend(item.args.defaults)
                stack.extend(d for d in item.args.kw_defaults if d is not None)
            continue
        if isinstance(item, _COMPREHENSIONS):
            stack.append(item.generators[0].iter)
            # A walrus inside a comprehension binds in the scope around it.
            for inner in ast.walk(item):
                if isinstance(inner, ast.NamedExpr) and isinstance(inner.target, ast.Name):
                    names.add(inner.target.id)
            continue
        if isinstance(item, ast.Import | ast.ImportFrom):
            for alias in item.names:
                names.add(alias.asname or alias.name.partition(".")[0])
            continue
        if isinstance(item, ast.Global):
            global_names.update(item.names)
        elif isinstance(item, ast.Nonlocal):
            nonlocal_names.update(item.names)
        elif isinstance(item, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            if item.name is not None:
                names.add(item.name)
        elif isinstance(item, ast.MatchMapping):
            if item.rest is not None:
                names.add(item.rest)
        elif isinstance(item, ast.Yield | ast.YieldFrom):
            yields = True
        stack.extend(ast.iter_child_nodes(item))
    result = Owned(
        frozenset(names - global_names - nonlocal_names),
        frozenset(global_names),
        frozenset(nonlocal_names),
        yields,
    )
    node._owned = result  # type: ignore[attr-defined]
    return result


_QUIET = (ast.Constant, ast.Name)


def simple(node: ast.stmt) -> bool:
    """True if executing the statement will hardly ever need a choice."""
    if isinstance(node, ast.Assign):
        return isinstance(node.value, _QUIET) and all(isinstance(t, ast.Name) for t in node.targets)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if node.decorator_list or getattr(node, "type_params", None):
            return False
        args = node.args
        parts: list[ast.expr | None] = [*args.defaults, *args.kw_defaults, node.returns]
        parts += [a.annotation for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
        return all(p is None or isinstance(p, _QUIET) for p in parts)
    if isinstance(node, ast.Return):
        return node.value is None or isinstance(node.value, _QUIET)
    return isinstance(node, ast.Pass | ast.Global | ast.Nonlocal | ast.Break | ast.Continue)
