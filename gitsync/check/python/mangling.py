"""Private names: inside a class, `__name` means `_Class__name`, as the compiler writes it."""

from __future__ import annotations

import ast


def mangle(tree: ast.Module) -> None:
    """Rewrite the private names of a tree in place, without recursion."""
    stack: list[tuple[ast.AST, str | None]] = [(tree, None)]
    while stack:
        node, owner = stack.pop()
        inner = owner
        if owner is not None:
            _rename(node, owner)
        if isinstance(node, ast.ClassDef):
            plain: str = getattr(node, "plain_name", node.name)
            inner = plain.lstrip("_") or None
            outside = {id(n) for n in (*node.decorator_list, *node.bases, *node.keywords)}
            stack.extend(
                (child, owner if id(child) in outside else inner)
                for child in ast.iter_child_nodes(node)
            )
            continue
        stack.extend((child, inner) for child in ast.iter_child_nodes(node))


def _private(name: str) -> bool:
    return name.startswith("__") and not name.endswith("__") and "." not in name


def _rename(node: ast.AST, owner: str) -> None:
    def new(name: str) -> str:
        return f"_{owner}{name}" if _private(name) else name

    if isinstance(node, ast.Name):
        node.id = new(node.id)
    elif isinstance(node, ast.Attribute):
        node.attr = new(node.attr)
    elif isinstance(node, ast.arg):
        node.arg = new(node.arg)
    elif isinstance(node, ast.keyword):
        if node.arg is not None:
            node.arg = new(node.arg)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        if _private(node.name):
            node.plain_name = node.name  # type: ignore[union-attr]
            node.name = new(node.name)
    elif isinstance(node, ast.Global | ast.Nonlocal):
        node.names = [new(n) for n in node.names]
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        if node.name is not None:
            node.name = new(node.name)
    elif isinstance(node, ast.alias):
        bound = node.asname or node.name
        if _private(bound):
            node.asname = new(bound)
