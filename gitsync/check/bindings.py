"""What the names of a Python file may stand for: imports, classes and their aliases, by scope.

Promise: nothing is run, the search is bounded and raises nothing. Where a name may be several
things, all are told; what cannot be told is `None`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_DEEPEST = 50
_STEPS, _STEPS_EACH = 20_000, 4
_TOLD_OF_STARS = {"os": ("environ",), "osmosis_ai": ("HarborBackend", "LocalBackend")}
_MAKES_SCOPE = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
_COMPREHENSION = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_PROPERTIES = {"property", "cached_property"}
# Two thirds of a syntax tree, in which nothing is bound and below which nothing lies.
_LEAVES = frozenset(
    {ast.Name, ast.Constant, ast.alias}.union(
        *(
            kind.__subclasses__()
            for kind in (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
        )
    )
)


@dataclass(slots=True, eq=False)
class Scope:
    """A module, function, class or comprehension and what its names are bound to."""

    node: ast.AST
    outer: Scope | None = None
    bound: dict[str, list[_Bound]] = field(default_factory=dict)
    elsewhere: dict[str, type] = field(default_factory=dict)
    returns: list[ast.expr] = field(default_factory=list)

    @property
    def is_class(self) -> bool:
        """True for the body of a class."""
        return isinstance(self.node, ast.ClassDef)

    def bind(self, name: str, value: _Bound) -> None:
        """One more thing that the name may stand for."""
        self.bound.setdefault(name, []).append(value)


@dataclass(frozen=True, slots=True)
class Instance:
    """An object of a class of the file."""

    of: Scope


@dataclass(frozen=True, slots=True)
class _Parameter:
    """What a function is handed; `place` is its position among them, None if only by name."""

    function: Scope
    name: str
    place: int | None


# A dotted name that is imported, a class or function of the file, an instance, or anything.
Value = str | Scope | Instance | None
_Bound = Value | _Parameter | tuple[ast.expr, Scope]
_UNKNOWN: frozenset[Value] = frozenset({None})
_NOTHING: frozenset[Value] = frozenset()


class Bindings:
    """The scopes of one module, learnt in one walk, and what expressions in them may be."""

    def __init__(self, module: ast.Module) -> None:
        self._top = Scope(module)
        self._declaring: list[Scope] = []
        self._scopes: dict[int, Scope] = {}
        self._calls: dict[str, list[tuple[ast.Call, Scope]]] = {}
        self._attributes: dict[str, list[tuple[ast.expr, ast.expr, Scope]]] = {}
        self._known: dict[tuple[Scope, str], frozenset[Value]] = {}
        self._busy: set[tuple[Scope, str]] = set()
        waiting: list[tuple[ast.AST, Scope]] = [(n, self._top) for n in module.body]
        while waiting:
            waiting.extend(self._learn(*waiting.pop()))
        self._left = _STEPS + _STEPS_EACH * len(self._scopes)
        self._move_declared()

    def values(self, node: ast.expr, place: ast.AST) -> frozenset[Value]:
        """All that an expression may be; `place` is the subscript or call that it stands in."""
        return self._of(node, self._scopes.get(id(place), self._top), 0)

    def _learn(self, node: ast.AST, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
        """Note what a node binds; yields its children with their scopes."""
        inner, inside = scope, set[int]()
        if isinstance(node, _MAKES_SCOPE):
            inner = Scope(node, scope)
            body = node.body if isinstance(node.body, list) else [node.body]
            inside = {id(n) for n in body}
            if isinstance(node, ast.Lambda):
                inner.returns.append(node.body)
            else:
                scope.bind(node.name, inner)
            if not isinstance(node, ast.ClassDef):
                _bind_parameters(node, inner, scope)
        elif isinstance(node, _COMPREHENSION):
            inner = Scope(node, scope)
            inside = {id(n) for n in children(node)}
        elif isinstance(node, ast.Subscript | ast.Call):
            self._scopes[id(node)] = scope
            if isinstance(node, ast.Call):
                self._calls.setdefault(_last_name(node.func), []).append((node, scope))
        elif isinstance(node, ast.Return) and node.value is not None:
            scope.returns.append(node.value)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            scope.elsewhere.update((name, type(node)) for name in node.names)
            self._declaring.append(scope)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for name, value in _imported(node):
                scope.bind(name, value)
        else:
            self._assignments(node, scope)
        for child in children(node):
            yield child, inner if id(child) in inside else scope

    def _assignments(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value, scope)
        elif isinstance(node, ast.AnnAssign):
            self._assign(node.target, node.value, scope)
        elif isinstance(node, ast.NamedExpr):
            while isinstance(scope.node, _COMPREHENSION) and scope.outer is not None:
                scope = scope.outer
            self._assign(node.target, node.value, scope)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._assign(node.target, None, scope)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._assign(node.optional_vars, None, scope)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            scope.bind(node.name, None)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            scope.bind(node.rest, None)

    def _assign(self, target: ast.expr, value: ast.expr | None, scope: Scope) -> None:
        waiting = [(target, value)]
        while waiting:
            target, value = waiting.pop()
            if isinstance(target, ast.Name):
                scope.bind(target.id, (value, scope) if value is not None else None)
            elif isinstance(target, ast.Attribute) and value is not None:
                held = self._attributes.setdefault(target.attr, [])
                held.append((target.value, value, scope))
            elif isinstance(target, ast.Starred):
                waiting.append((target.value, None))
            elif isinstance(target, ast.Tuple | ast.List):
                waiting.extend(_pairs(target.elts, value))

    def _move_declared(self) -> None:
        """What is bound under `global` or `nonlocal` belongs to another scope."""
        for scope in self._declaring:
            for name in scope.elsewhere:
                owner = self._owner(name, scope) or self._top
                for value in scope.bound.pop(name, ()):
                    owner.bind(name, value)

    def _owner(self, name: str, scope: Scope) -> Scope | None:
        """The scope whose binding a name in `scope` means."""
        here: Scope | None = scope
        while here is not None:
            declared = here.elsewhere.get(name)
            if declared is ast.Global:
                return self._top if name in self._top.bound else None
            if declared is None and name in here.bound and (here is scope or not here.is_class):
                return here
            here = here.outer
        return None

    def _of(self, node: ast.expr, scope: Scope, depth: int) -> frozenset[Value]:
        self._left -= 1
        if depth > _DEEPEST or self._left < 0:
            return _UNKNOWN
        if isinstance(node, ast.Name):
            owner = self._owner(node.id, scope)
            if owner is None:
                return frozenset({f"builtins.{node.id}"})
            return self._bound(owner, node.id, owner.bound[node.id], depth)
        if isinstance(node, ast.Attribute):
            found = self._of(node.value, scope, depth + 1)
            return _union(self._attribute(value, node.attr, depth) for value in found)
        if isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, ast.BoolOp):
            parts = node.values
        elif isinstance(node, ast.NamedExpr):
            parts = [node.value]
        elif isinstance(node, ast.Call):
            called = self._of(node.func, scope, depth + 1)
            return _union(self._result(value, node, scope, depth) for value in called)
        else:
            return _UNKNOWN
        return _union(self._of(part, scope, depth + 1) for part in parts)

    def _bound(
        self, owner: Scope, name: str, bound: Iterable[_Bound], depth: int
    ) -> frozenset[Value]:
        """All of these together; nothing of what is being asked for already."""
        key = (owner, name)
        if key in self._known:
            return self._known[key]
        if key in self._busy:
            return _NOTHING
        self._busy.add(key)
        found: set[Value] = set()
        for value in bound:
            if isinstance(value, tuple):
                found |= self._of(*value, depth + 1)
            elif isinstance(value, _Parameter):
                found |= self._handed(value, depth)
            else:
                found.add(value)
        self._busy.discard(key)
        if not self._busy:  # else a name on the way may have been left out
            self._known[key] = frozenset(found)
        return frozenset(found)

    def _handed(self, parameter: _Parameter, depth: int) -> frozenset[Value]:
        """What the calls in this file hand to a function, or anything else."""
        function = parameter.function
        name, owner = getattr(function.node, "name", ""), function.outer
        wanted: set[Value] = {function}
        if name == "__init__" and owner is not None:
            name, wanted = getattr(owner.node, "name", ""), {owner}
        found = _UNKNOWN
        for call, scope in self._calls.get(name, ()):
            if self._left < 0:
                break
            given = _argument(call, parameter)
            if given is not None and wanted & self._of(call.func, scope, depth + 1):
                found |= self._of(given, scope, depth + 1)
        return found

    def _attribute(self, value: Value, name: str, depth: int) -> frozenset[Value]:
        if isinstance(value, str):
            return frozenset({f"{value}.{name}"})
        owner = value.of if isinstance(value, Instance) else value
        if owner is None or not owner.is_class:
            return _UNKNOWN
        key = f".{name}"
        if (owner, key) in self._known:
            return self._read(self._known[owner, key], depth)
        bound = list(owner.bound.get(name, ()))
        for base, given, scope in self._attributes.get(name, ()):
            if self._left < 0:
                break
            if {owner, Instance(owner)} & self._of(base, scope, depth + 1):
                bound.append((given, scope))
        if bound:
            return self._read(self._bound(owner, key, bound, depth + 1), depth)
        bases = getattr(owner.node, "bases", [])
        inherited = _union(self._of(b, owner.outer or owner, depth + 1) for b in bases)
        return _union(
            self._attribute(base, name, depth + 1)
            for base in inherited
            if isinstance(base, Scope) and depth < _DEEPEST
        )

    def _read(self, values: frozenset[Value], depth: int) -> frozenset[Value]:
        """What reading an attribute gives, which for a property is its result."""
        found = set(values)
        for value in values:
            if isinstance(value, Scope) and not value.is_class:
                decorators = getattr(value.node, "decorator_list", [])
                if any(_last_name(d) in _PROPERTIES for d in decorators):
                    found.discard(value)
                    found |= self._returned(value, depth)
        return frozenset(found)

    def _result(self, value: Value, call: ast.Call, scope: Scope, depth: int) -> frozenset[Value]:
        if value == "typing.cast" and len(call.args) == 2:
            return self._of(call.args[1], scope, depth + 1)
        if not isinstance(value, Scope):
            return _UNKNOWN
        return frozenset({Instance(value)}) if value.is_class else self._returned(value, depth)

    def _returned(self, function: Scope, depth: int) -> frozenset[Value]:
        if isinstance(function.node, ast.AsyncFunctionDef):
            return _UNKNOWN
        returned = [(value, function) for value in function.returns]
        return self._bound(function, "()", returned, depth + 1) or _UNKNOWN


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one, without names, constants, aliases and operators."""
    for name in node._fields:
        value = getattr(node, name, None)
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, ast.AST) and type(child) not in _LEAVES:
                yield child


def _union(parts: Iterable[frozenset[Value]]) -> frozenset[Value]:
    return _NOTHING.union(*parts)


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _pairs(
    targets: list[ast.expr], value: ast.expr | None
) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Each target with its value, where the two sides stand side by side."""
    given = value.elts if isinstance(value, ast.Tuple | ast.List) else []
    starred = any(isinstance(e, ast.Starred) for e in (*targets, *given))
    if len(given) != len(targets) or starred:
        yield from ((target, None) for target in targets)
    else:
        yield from zip(targets, given, strict=True)


def _bind_parameters(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, inner: Scope, outer: Scope
) -> None:
    args = node.args
    placed = [*args.posonlyargs, *args.args]
    static = any(_last_name(d) == "staticmethod" for d in getattr(node, "decorator_list", ()))
    is_method = outer.is_class and not static and bool(placed)
    for index, arg in enumerate(placed):
        if is_method and not index:
            inner.bind(arg.arg, Instance(outer))
        else:
            inner.bind(arg.arg, _Parameter(inner, arg.arg, index - is_method))
    for arg in args.kwonlyargs:
        inner.bind(arg.arg, _Parameter(inner, arg.arg, None))
    for several in (args.vararg, args.kwarg):
        if several is not None:
            inner.bind(several.arg, None)
    defaults = [*zip(reversed(placed), reversed(args.defaults), strict=False)]
    for arg, default in (*defaults, *zip(args.kwonlyargs, args.kw_defaults, strict=True)):
        if default is not None:
            inner.bind(arg.arg, (default, outer))


def _argument(call: ast.Call, parameter: _Parameter) -> ast.expr | None:
    """The expression that a call gives for a parameter."""
    for keyword in call.keywords:
        if keyword.arg == parameter.name:
            return keyword.value
    place = parameter.place
    if place is None or place >= len(call.args):
        return None
    given = call.args[: place + 1]
    return None if any(isinstance(g, ast.Starred) for g in given) else given[-1]


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The names that an import binds, with the dotted names they stand for."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.split(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (top, top)
        return
    module = "." * node.level + (node.module or "")
    for alias in node.names:
        if alias.name != "*":
            yield alias.asname or alias.name, f"{module}.{alias.name}"
            continue
        for name in _TOLD_OF_STARS.get(module.split(".")[0], ()):
            if module == "os" or module.startswith("osmosis_ai."):
                yield name, f"{module}.{name}"
