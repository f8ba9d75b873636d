"""What the workspace checks need to know of Python files, without running any.

Promise: a file that cannot be parsed, or is over a limit, gives no facts and no exception; the
walk needs no recursion. (Whether a file is right is the entrypoint checker's question.)
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from gitsync.check.bindings import Bindings, Scope, children

MAX_BYTES = 1024 * 1024
MAX_TOKENS = 150_000
_MOST_GUARDS = 500
_INTERESTING = re.compile(rb"environ|max_concurrent|HarborBackend|LocalBackend")
_TOKEN = re.compile(rb"\w+|[^\w\s]")
_CATCHERS = {"KeyError", "LookupError", "Exception", "BaseException"}
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What one Python file reads from the environment and how it sets up its backend."""

    environment: tuple[str, ...] = ()
    limits: tuple[int, ...] = ()
    backends: tuple[str, ...] = ()
    packages_agent: bool = False
    has_workflow_config: bool = False


EMPTY = SourceFacts()


def read_source(data: bytes) -> SourceFacts:
    """The facts of one file."""
    if len(data) > MAX_BYTES or not _INTERESTING.search(data):
        return EMPTY
    if sum(1 for _ in _TOKEN.finditer(data)) > MAX_TOKENS:
        return EMPTY
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return EMPTY
    return _Reader(module, has_backends=b"Backend" in data).facts()


class _Reader:
    def __init__(self, module: ast.Module, *, has_backends: bool) -> None:
        self._module = module
        self._has_backends = has_backends
        self._bindings = Bindings(module)

    def facts(self) -> SourceFacts:
        environment: dict[str, None] = {}
        limits: list[int] = []
        backends: dict[str, None] = {}
        packages = configured = False
        for node, guards, caught in self._walk():
            if isinstance(node, ast.Subscript):
                name = self._read_of(node)
                if name and not caught and name not in guards:
                    environment[name] = None
            elif isinstance(node, ast.keyword) and node.arg == "max_concurrent":
                value = node.value
                if isinstance(value, ast.Constant) and type(value.value) is int:
                    limits.append(value.value)
            elif isinstance(node, ast.Call) and self._has_backends:
                for backend in self._backends(node):
                    backends[backend] = None
                    given = {k.arg: k.value for k in node.keywords if k.arg}
                    configured = configured or "workflow_config" in given
                    if backend == "HarborBackend" and "bundle" not in given:
                        packages = packages or self._is_class(given.get("agent"), node)
        return SourceFacts(tuple(environment), tuple(limits), tuple(backends), packages, configured)

    def _read_of(self, node: ast.Subscript) -> str | None:
        """NAME of `os.environ["NAME"]` where it is read."""
        key = node.slice
        if (
            isinstance(node.ctx, ast.Load)
            and isinstance(key, ast.Constant)
            and isinstance(key.value, str)
            and "os.environ" in self._bindings.values(node.value, node)
        ):
            return key.value
        return None

    def _backends(self, call: ast.Call) -> list[str]:
        """Which of the SDK's backends a call may make."""
        made = [v for v in self._bindings.values(call.func, call) if isinstance(v, str)]
        sdk = [v.rpartition(".")[2] for v in made if v.startswith("osmosis_ai.")]
        return [name for name in ("HarborBackend", "LocalBackend") if name in sdk]

    def _is_class(self, agent: ast.expr | None, call: ast.Call) -> bool:
        """True if it can only be a class; what is computed, or handed in, may be text."""
        values = self._bindings.values(agent, call) if agent is not None else frozenset()
        return bool(values) and all(isinstance(v, str | Scope) for v in values)

    def _walk(self) -> Iterator[tuple[ast.AST, frozenset[str], bool]]:
        """Every node, with the texts of the tests above it and whether a KeyError is caught."""
        stack: list[tuple[ast.AST, frozenset[str], bool]] = [(self._module, _NONE, False)]
        while stack:
            node, guards, caught = stack.pop()
            yield node, guards, caught
            for child, inner, safe in self._inside(node, guards, caught):
                stack.append((child, inner, safe))

    def _inside(
        self, node: ast.AST, guards: frozenset[str], caught: bool
    ) -> Iterator[tuple[ast.AST, frozenset[str], bool]]:
        safe: set[int] = set()
        guarded: dict[int, frozenset[str]] = {}
        if isinstance(node, ast.Try | ast.TryStar):
            if any(_catches(h.type) for h in node.handlers):
                safe = {id(n) for n in node.body}
        elif isinstance(node, ast.With | ast.AsyncWith):
            if any(_suppresses(item.context_expr) for item in node.items):
                safe = {id(n) for n in node.body}
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            texts = _added(guards, [node.test])
            guarded = {id(c): texts for c in children(node) if c is not node.test}
        elif isinstance(node, ast.BoolOp):
            texts = guards
            for operand in node.values:
                guarded[id(operand)] = texts
                texts = _added(texts, [operand])
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            texts = _added(guards, [test for g in node.generators for test in g.ifs])
            results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            guarded = {id(result): texts for result in results}
        for child in children(node):
            yield child, guarded.get(id(child), guards), caught or id(child) in safe


def _added(guards: frozenset[str], tests: list[ast.expr]) -> frozenset[str]:
    """The guards and the texts of these tests; no more once there are far too many."""
    if len(guards) > _MOST_GUARDS:
        return guards
    found = {
        n.value
        for test in tests
        for n in ast.walk(test)
        if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }
    return guards | found if found - guards else guards


def _catches(kind: ast.expr | None) -> bool:
    if kind is None:
        return True
    if isinstance(kind, ast.Tuple):
        return any(_catches(k) for k in kind.elts)
    name = kind.id if isinstance(kind, ast.Name) else getattr(kind, "attr", "")
    return name in _CATCHERS


def _suppresses(call: ast.expr) -> bool:
    if not isinstance(call, ast.Call):
        return False
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    return name == "suppress" and any(_catches(a) for a in call.args)
