"""Where a node stands for Python's compiler: the function, class, loop and blocks around it.

`children` gives each part of an `OPENING` node with where that part stands; the parts of any other
node stand where the node does.
"""

from __future__ import annotations

import ast

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
OPENING = frozenset(
    {
        *_FUNCTIONS,
        *_LOOPS,
        *_COMPREHENSIONS,
        ast.ClassDef,
        ast.With,
        ast.AsyncWith,
        ast.Try,
        ast.TryStar,
    }
)


class Scope:
    """Where a node stands: the nearest function-like or class scope and the blocks inside it."""

    __slots__ = (
        "blocks",
        "is_iterable",
        "iterated",
        "kind",
        "loop",
        "node",
        "parent",
        "star_except",
    )

    def __init__(
        self,
        kind: str,
        parent: Scope | None,
        *,
        loop: bool = False,
        blocks: int = 0,
        star_except: bool = False,
    ) -> None:
        self.kind = kind
        self.parent = parent
        self.loop = loop
        self.blocks = blocks
        self.star_except = star_except
        self.node: ast.AST | None = None  # of a function
        self.iterated: frozenset[str] = frozenset()  # the targets of a comprehension
        self.is_iterable = False  # inside what a comprehension iterates over

    def inside(self, *, loop: bool | None = None, star: bool | None = None, add: int = 0) -> Scope:
        """The same place with `add` more blocks around it, a loop or an `except*` among them."""
        new = Scope(
            self.kind,
            self.parent,
            loop=self.loop if loop is None else loop,
            blocks=self.blocks + add,
            star_except=self.star_except if star is None else star,
        )
        new.node = self.node
        return new


def function_kind(scope: Scope) -> str:
    """The kind of the scope, looking through comprehensions."""
    at: Scope = scope
    while at.kind in ("comprehension", "generator") and at.parent is not None:
        at = at.parent
    return at.kind


def children(node: ast.AST, scope: Scope) -> list[tuple[ast.AST, Scope]]:
    """The parts of an `OPENING` node, each with where it stands."""
    kind = type(node)
    if isinstance(node, _FUNCTIONS):
        name = {"FunctionDef": "def", "AsyncFunctionDef": "async", "Lambda": "lambda"}[
            kind.__name__
        ]
        inner = Scope(name, scope)
        inner.node = node
        body = node.body if isinstance(node.body, list) else [node.body]
        inside = {id(n) for n in body}
        return [(c, inner if id(c) in inside else scope) for c in ast.iter_child_nodes(node)]
    if isinstance(node, ast.ClassDef):
        inner = Scope("class", scope)
        inside = {id(n) for n in node.body}
        return [(c, inner if id(c) in inside else scope) for c in ast.iter_child_nodes(node)]
    if isinstance(node, _LOOPS):
        inner = scope.inside(loop=True, star=False, add=1)
        inside = {id(n) for n in node.body}
        return [(c, inner if id(c) in inside else scope) for c in ast.iter_child_nodes(node)]
    if isinstance(node, ast.With | ast.AsyncWith):
        inner = scope.inside(add=len(node.items))
        inside = {id(n) for n in node.body}
        return [(c, inner if id(c) in inside else scope) for c in ast.iter_child_nodes(node)]
    if isinstance(node, ast.Try | ast.TryStar):
        inner = scope.inside(add=bool(node.handlers) + bool(node.finalbody))
        star = (
            scope.inside(star=True, loop=False, add=1) if isinstance(node, ast.TryStar) else inner
        )
        handlers = {id(n) for n in node.handlers}
        return [(c, star if id(c) in handlers else inner) for c in ast.iter_child_nodes(node)]
    if isinstance(node, _COMPREHENSIONS):
        if isinstance(node, ast.GeneratorExp):
            inner = Scope("generator", scope)
        else:
            inner = Scope("comprehension", scope)
        targets = [part.target for part in node.generators]
        inner.iterated = frozenset(
            n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)
        )
        outer, later = scope.inside(), Scope(inner.kind, scope)
        outer.iterated = scope.iterated
        outer.is_iterable = later.is_iterable = True
        first = node.generators[0].iter
        out: list[tuple[ast.AST, Scope]] = [(first, outer)]
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.comprehension):
                out.append((part.target, inner))
                out.extend((n, inner) for n in part.ifs)
                if part.iter is not first:
                    out.append((part.iter, later))
            else:
                out.append((part, inner))
        return out
    return [(c, scope) for c in ast.iter_child_nodes(node)]
