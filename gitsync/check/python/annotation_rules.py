"""Mistakes in type parameters, type aliases and the definitions of generics.

These parts run in a scope of their own, in which nothing may be bound, awaited or yielded.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

Found = tuple[ast.AST, str]

_WORDS: dict[type[ast.AST], str] = {
    ast.NamedExpr: "named expression",
    ast.Yield: "yield expression",
    ast.YieldFrom: "yield expression",
    ast.Await: "await expression",
}
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def annotation_mistakes(node: ast.AST, *, in_class: bool, minor: int) -> list[Found]:
    """What the compiler refuses in the parts of a node that are evaluated as annotations."""
    found: list[Found] = []
    for part, where in _parts(node):
        stack: list[ast.AST] = [part]
        while stack:
            each = stack.pop()
            word = _WORDS.get(type(each))
            if word is not None:
                found.append((each, f"{word} cannot be used within {where}"))
            elif in_class and minor < 13 and isinstance(each, _COMPREHENSIONS):
                reason = "cannot use comprehension in annotation scope within class scope"
                found.append((each, reason))
            stack.extend(
                each.args.defaults if isinstance(each, ast.Lambda) else ast.iter_child_nodes(each)
            )
    return found


def _parts(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    for parameter in getattr(node, "type_params", ()):
        for part in (getattr(parameter, "bound", None), getattr(parameter, "default_value", None)):
            if part is not None:
                yield part, f"a {type(parameter).__name__} bound"
    if isinstance(node, ast.TypeAlias):
        yield node.value, "a type alias"
    if not getattr(node, "type_params", ()):
        return
    where = "the definition of a generic"
    if isinstance(node, ast.ClassDef):
        for part in (*node.bases, *(k.value for k in node.keywords)):
            yield part, where
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        args = node.args
        for each in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
            if each is not None and each.annotation is not None:
                yield each.annotation, where
        if node.returns is not None:
            yield node.returns, where
