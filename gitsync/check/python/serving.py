"""Whether code that was not reached uses the SDK's `create_rollout_server`."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gitsync.check.python.facts import CREATE_SERVER

_SDK, _NAME = CREATE_SERVER.partition(".")[0], CREATE_SERVER.rpartition(".")[2]


def mentions_server(trees: Sequence[ast.Module]) -> bool:
    """True if a module uses the function, or one that may be it, other than by importing it.

    A function of the same name that the repository defines is another one.
    """
    modules = [list(ast.walk(tree)) for tree in trees]
    is_own = any(
        isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and n.name == _NAME
        for nodes in modules
        for n in nodes
    )
    imports = [[n for n in nodes if isinstance(n, ast.ImportFrom)] for nodes in modules]
    handed_on = {name for found in imports for name in _of_sdk(found)}
    for nodes, found in zip(modules, imports, strict=True):
        names = _of_sdk(found)
        names |= {a.asname or a.name for i in found for a in i.names if a.name in handed_on}
        if not is_own and any(a.name == "*" for i in found for a in i.names):
            names.add(_NAME)
        roots = _modules_of_sdk(nodes)
        for node in nodes:
            if isinstance(node, ast.Name) and node.id in names:
                return True
            is_named = isinstance(node, ast.Attribute) and node.attr == _NAME
            if is_named and (not is_own or _root(node) in roots):
                return True
    return False


def _of_sdk(found: Sequence[ast.ImportFrom]) -> set[str]:
    """The names that imports from the SDK give the function."""
    return {
        alias.asname or _NAME
        for node in found
        if not node.level and (node.module or "").partition(".")[0] == _SDK
        for alias in node.names
        if alias.name in (_NAME, "*")
    }


def _modules_of_sdk(nodes: Sequence[ast.AST]) -> set[str]:
    """The names under which modules of the SDK are known."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            inside = [a for a in node.names if a.name.partition(".")[0] == _SDK]
            names |= {a.asname or _SDK for a in inside}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == _SDK:
            names |= {a.asname or a.name for a in node.names}
    return names


def _root(node: ast.AST) -> str:
    """`a` of `a.b.c`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
