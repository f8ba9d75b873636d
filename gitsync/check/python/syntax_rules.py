"""Mistakes that Python's compiler finds after parsing: the file would not import.

`ast.parse` accepts `return` at module level, `break` outside a loop and the like. One walk without
recursion finds the first of them.
"""

from __future__ import annotations
import __future__

import ast

from gitsync.check.python import annotation_rules, pattern_rules
from gitsync.check.python.nesting import OPENING, Scope, children, function_kind
from gitsync.check.python.scopes import owned

Mistake = tuple[int, int, str]

_FEATURES = frozenset(__future__.all_feature_names)
_BLOCK_LIMIT = 20
_DEBUG = "__debug__"
_NO_DEBUG = "cannot assign to __debug__"
_STARRED = "starred assignment target must be in a list or tuple"


def first_mistake(tree: ast.Module, minor: int) -> Mistake | None:
    """The first mistake by position, or None."""
    found: list[Mistake] = []
    stack: list[tuple[ast.AST, Scope]] = [(tree, Scope("module", None))]
    _future_imports(tree, found)
    scopes: list[ast.AST] = []
    declares = yields = False
    while stack:
        node, scope = stack.pop()
        kind = type(node)
        if kind in _INTERESTING:
            _check(node, scope, found, minor)
            if kind in _SCOPED:
                scopes.append(node)
            elif kind is ast.Global or kind is ast.Nonlocal:
                declares = True
            elif kind is ast.Yield:
                yields = True
        if kind in OPENING:
            parts = children(node, scope)
            if scope.blocks <= _BLOCK_LIMIT and any(s.blocks > _BLOCK_LIMIT for _, s in parts):
                _add(found, node, "too many statically nested blocks")
            stack.extend(parts)
            continue
        for value in node.__dict__.values():
            if type(value) is list:
                stack.extend(
                    (v, scope) for v in value if isinstance(v, ast.AST) and type(v) not in _LEAVES
                )
            elif isinstance(value, ast.AST) and type(value) not in _LEAVES:
                stack.append((value, scope))
    for node in scopes:
        if declares:
            _scope_declarations(node, found)
        if yields and isinstance(node, ast.AsyncFunctionDef):
            _async_generator_return(node, found)
    return min(found) if found else None


_LEAVES = frozenset({ast.Constant, ast.Load, ast.Store, ast.Del, ast.Pass, ast.alias})
_SCOPED = frozenset({ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef})


def _scope_declarations(node: ast.AST, found: list[Mistake]) -> None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        args = node.args
        names = {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
        names |= {a.arg for a in (args.vararg, args.kwarg) if a is not None}
        _declarations(node.body, names, found, module=False)
    elif isinstance(node, ast.ClassDef | ast.Module):
        _declarations(node.body, set(), found, module=isinstance(node, ast.Module))


def _add(found: list[Mistake], node: ast.AST, reason: str) -> None:
    found.append((getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1, reason))


def _check(node: ast.AST, scope: Scope, found: list[Mistake], minor: int) -> None:
    rule = _RULES.get(type(node))
    if rule is not None:
        rule(node, scope, found)
        if rule in _ANNOTATING:
            in_class = scope.kind == "class"
            for part, reason in annotation_rules.annotation_mistakes(
                node, in_class=in_class, minor=minor
            ):
                _add(found, part, reason)
    elif minor < 13 and getattr(node, "default_value", None) is not None:
        _add(found, node, "type parameter defaults need Python 3.13")


def _return(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    if scope.kind not in ("def", "async"):
        _add(found, node, "'return' outside function")
    elif scope.star_except:
        _add(found, node, "'break', 'continue' and 'return' cannot appear in an except* block")


def _loop_jump(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    word = "break" if isinstance(node, ast.Break) else "continue"
    if scope.star_except and not scope.loop:
        _add(found, node, "'break', 'continue' and 'return' cannot appear in an except* block")
    elif not scope.loop:
        _add(found, node, f"'{word}' outside loop")


def _yield(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    if scope.kind in ("comprehension", "generator"):
        _add(found, node, "'yield' inside a comprehension")
    elif scope.kind not in ("def", "async", "lambda"):
        _add(found, node, "'yield' outside function")
    elif isinstance(node, ast.YieldFrom) and scope.kind == "async":
        _add(found, node, "'yield from' inside async function")


def _await(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    if scope.kind == "generator":
        return  # an asynchronous generator expression may stand anywhere
    kind = function_kind(scope)
    if kind != "async":
        where = "function" if kind in ("module", "class") else "async function"
        _add(found, node, f"'await' outside {where}")


def _async_block(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    _targets(node, scope, found)
    if scope.kind != "async":
        word = "async for" if isinstance(node, ast.AsyncFor) else "async with"
        _add(found, node, f"'{word}' outside async function")


def _generators(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    for part in getattr(node, "generators", []):
        if isinstance(part.target, ast.Starred):
            _add(found, part.target, _STARRED)


def _async_comprehension(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    _generators(node, scope, found)
    generators = getattr(node, "generators", [])
    if any(g.is_async for g in generators) and function_kind(scope) != "async":
        _add(found, node, "asynchronous comprehension outside of an asynchronous function")


def _import_from(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    if not isinstance(node, ast.ImportFrom):
        return
    _import(node, scope, found)
    for alias in node.names:
        if alias.name == "*" and scope.kind != "module":
            _add(found, alias, "import * only allowed at module level")


def _import(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    for alias in getattr(node, "names", ()):
        if (alias.asname or alias.name.partition(".")[0]) == _DEBUG:
            _add(found, node, _NO_DEBUG)


def _function(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return
    args = node.args
    parameters = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    parameters += [a for a in (args.vararg, args.kwarg) if a is not None]
    seen: set[str] = set()
    for parameter in parameters:
        name = parameter.arg
        if name in seen:
            _add(found, parameter, f"duplicate argument '{name}' in function definition")
        if name == _DEBUG:
            _add(found, parameter, _NO_DEBUG)
        seen.add(name)
    _named(node, scope, found)
    _type_parameters(node, scope, found)


def _type_parameters(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    seen: set[str] = set()
    for parameter in getattr(node, "type_params", ()):
        if parameter.name in seen:
            _add(found, parameter, f"duplicate type parameter '{parameter.name}'")
        seen.add(parameter.name)


def _keywords(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    """A call or a class statement that gives a keyword twice."""
    seen: set[str] = set()
    for keyword in getattr(node, "keywords", ()):
        if keyword.arg is not None and keyword.arg in seen:
            _add(found, keyword, f"keyword argument repeated: {keyword.arg}")
        if keyword.arg == _DEBUG:
            _add(found, node, _NO_DEBUG)
        seen.add(keyword.arg or "")
    _named(node, scope, found)
    _type_parameters(node, scope, found)


def _nonlocal(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    """A `nonlocal` name must be bound in a function around this one."""
    for name in getattr(node, "names", ()):
        at = scope.parent
        while at is not None:
            if at.node is not None and name in owned(at.node).names:
                break
            at = at.parent
        if at is None and scope.kind != "module" and name != "__class__":
            _add(found, node, f"no binding for nonlocal '{name}' found")


def _own_nodes(body: list[ast.stmt]) -> list[ast.AST]:
    """The nodes of a scope in source order, nested scopes left out (their names stay)."""
    out: list[ast.AST] = []
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        out.append(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner: list[ast.AST] = [*node.decorator_list, *node.args.defaults]
            inner += [d for d in node.args.kw_defaults if d is not None]
            stack.extend(reversed(inner))
        elif isinstance(node, ast.Lambda):
            stack.extend(reversed(node.args.defaults))
        elif isinstance(node, ast.ClassDef):
            stack.extend(reversed([*node.decorator_list, *node.bases]))
        else:
            stack.extend(reversed(list(ast.iter_child_nodes(node))))
    return out


def _declarations(
    body: list[ast.stmt], params: set[str], found: list[Mistake], *, module: bool
) -> None:
    """`global` and `nonlocal` after use, of parameters, or where they cannot stand."""
    used: set[str] = set()
    declared: dict[str, tuple[str, ast.AST]] = {}
    nodes = _own_nodes(body)
    if not any(isinstance(n, ast.Global | ast.Nonlocal) for n in nodes):
        return
    for node in nodes:
        if isinstance(node, ast.Global | ast.Nonlocal):
            word = "global" if isinstance(node, ast.Global) else "nonlocal"
            for name in node.names:
                if name in params:
                    _add(found, node, f"name '{name}' is parameter and {word}")
                elif name in used:
                    _add(found, node, f"name '{name}' is used prior to {word} declaration")
                elif module and word == "nonlocal":
                    _add(found, node, "nonlocal declaration not allowed at module level")
                other = declared.setdefault(name, (word, node))
                if other[0] != word:
                    _add(found, other[1], f"name '{name}' is nonlocal and global")
        elif isinstance(node, ast.AnnAssign) and node.simple and not module:
            if isinstance(node.target, ast.Name) and node.target.id in declared:
                name, word = node.target.id, declared[node.target.id][0]
                _add(found, node, f"annotated name '{name}' can't be {word}")
        elif isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            used.add(node.name)


def _async_generator_return(node: ast.AsyncFunctionDef, found: list[Mistake]) -> None:
    own = _own_nodes(node.body)
    if any(isinstance(n, ast.Yield) for n in own):
        for item in own:
            if isinstance(item, ast.Return) and item.value is not None:
                _add(found, item, "'return' with value in async generator")


def _name(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    is_load = isinstance(getattr(node, "ctx", None), ast.Load)
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
    if name == _DEBUG and not is_load:
        _add(found, node, _NO_DEBUG)


def _named(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    """A statement or an `except` clause that binds its own name."""
    if getattr(node, "name", None) == _DEBUG:
        _add(found, node, _NO_DEBUG)


def _try(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    handlers = getattr(node, "handlers", [])
    for handler in handlers[:-1]:
        if handler.type is None:
            _add(found, handler, "default 'except:' must be last")


def _is_in_iterable(scope: Scope | None) -> bool:
    """True inside what a comprehension iterates over, a lambda in there included."""
    while scope is not None:
        if scope.is_iterable:
            return True
        scope = scope.parent
    return False


def _walrus(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    if not isinstance(node, ast.NamedExpr) or not isinstance(node.target, ast.Name):
        return
    name = node.target.id
    if _is_in_iterable(scope):
        reason = "assignment expression cannot be used in a comprehension iterable expression"
        _add(found, node, reason)
        return
    at = scope
    while at.kind in ("comprehension", "generator") and at.parent is not None:
        if name in at.iterated:
            reason = f"cannot rebind comprehension iteration variable '{name}'"
            _add(found, node, f"assignment expression {reason}")
            return
        at = at.parent
    if at.kind == "class" and at is not scope:
        reason = "assignment expression within a comprehension cannot be used in a class body"
        _add(found, node, reason)


def _targets(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    if isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Store):
        if sum(isinstance(e, ast.Starred) for e in node.elts) > 1:
            _add(found, node, "multiple starred expressions in assignment")
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Starred):
                _add(found, target, _STARRED)
        if isinstance(node.value, ast.Starred):
            _add(found, node.value, "can't use starred expression here")
    elif isinstance(node, ast.Expr | ast.FormattedValue) and isinstance(node.value, ast.Starred):
        _add(found, node.value, "can't use starred expression here")
    elif isinstance(node, ast.For | ast.AsyncFor) and isinstance(node.target, ast.Starred):
        _add(found, node.target, _STARRED)


def _match(node: ast.AST, scope: Scope, found: list[Mistake]) -> None:
    if not isinstance(node, ast.Match):
        return
    for case in node.cases[:-1]:
        if case.guard is None and pattern_rules.is_irrefutable(case.pattern):
            _add(found, case.pattern, "this pattern makes remaining patterns unreachable")
    for case in node.cases:
        for part, reason in pattern_rules.pattern_mistakes(case.pattern):
            _add(found, part, reason)


def _future_imports(tree: ast.Module, found: list[Mistake]) -> None:
    early = True
    for index, node in enumerate(tree.body):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__" and not node.level:
            for alias in node.names:
                if alias.name not in _FEATURES:
                    _add(found, node, f"future feature {alias.name} is not defined")
            if not early:
                _add(found, node, "from __future__ imports must occur at the beginning of the file")
        elif not (
            index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            early = False


_RULES = {
    ast.Return: _return,
    ast.Break: _loop_jump,
    ast.Continue: _loop_jump,
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
    ast.Await: _await,
    ast.AsyncFor: _async_block,
    ast.AsyncWith: _async_block,
    ast.ListComp: _async_comprehension,
    ast.SetComp: _async_comprehension,
    ast.DictComp: _async_comprehension,
    ast.ImportFrom: _import_from,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _function,
    ast.Name: _name,
    ast.Attribute: _name,
    ast.Import: _import,
    ast.ExceptHandler: _named,
    ast.For: _targets,
    ast.GeneratorExp: _generators,
    ast.FormattedValue: _targets,
    ast.NamedExpr: _walrus,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.Tuple: _targets,
    ast.List: _targets,
    ast.Assign: _targets,
    ast.Expr: _targets,
    ast.Match: _match,
    ast.Call: _keywords,
    ast.ClassDef: _keywords,
    ast.TypeAlias: _type_parameters,
    ast.Nonlocal: _nonlocal,
}
_ANNOTATING = (_function, _keywords, _type_parameters)
_INTERESTING = frozenset(
    {*_RULES, *_SCOPED, ast.Global, ast.Nonlocal, ast.TypeVar, ast.ParamSpec, ast.TypeVarTuple}
)
