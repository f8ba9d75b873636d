"""The server code that an import does not reach: `main()`, the script guard, backend arguments.

After the import, the script guard and the functions that build a backend are executed
speculatively, in copies of the finished worlds, with small budgets. Nothing seen there changes what
is exposed; it only gives warnings and better places.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from gitsync.check.python import dynamic, invoking, reach, statements
from gitsync.check.python.facts import (
    BASES,
    CREATE_SERVER,
    HARBOR_BACKEND,
    LOCAL_BACKEND,
)
from gitsync.check.python.heap import (
    ClassObj,
    DictObj,
    FunctionObj,
    InstanceObj,
    ListObj,
    ModuleObj,
    Namespace,
)
from gitsync.check.python.machine import Machine
from gitsync.check.python.roles import World
from gitsync.check.python.seen import BackendCall
from gitsync.check.python.source import LimitHit
from gitsync.check.python.state import State
from gitsync.check.python.values import (
    NONE,
    Alias,
    Bound,
    Const,
    Ext,
    Method,
    Names,
    Opaque,
    Partial,
    PathValue,
    Place,
    Ref,
    TupleValue,
    Value,
    Wrapped,
)
from gitsync.check.python.worlds import Frame, Kind, OutOfBudget, Raised

STEPS = 8_000
MAX_WORLDS = 3
WORDS = {
    LOCAL_BACKEND: {"workflow": "workflow", "grader": "grader"},
    HARBOR_BACKEND: {"agent": "workflow", "grader": "grader"},
}
_SERVING = (LOCAL_BACKEND, HARBOR_BACKEND, CREATE_SERVER)
REMOVED = ("task_dir", "user_code_dir", "workflow")


@dataclass(slots=True)
class Wiring:
    """What the entrypoint's server code says."""

    calls: list[BackendCall] = field(default_factory=list)
    server: bool = False
    hints: dict[str, tuple[Place, str]] = field(default_factory=dict)


def speculate(m: Machine, action: Callable[[], object]) -> None:
    """Run an action with a small budget; whatever it raises is of no interest."""
    steps, limit, was = m.steps, m.step_limit, m.speculative
    overflow, origin, trail = m.overflow, m.origin, m.trail
    m.step_limit = m.steps + STEPS
    m.speculative = True
    m.origin = "later"
    try:
        with m.guarded(0, 0):
            action()
    except (Raised, OutOfBudget):
        pass
    finally:
        m.step_limit, m.speculative = limit, was
        m.overflow, m.origin, m.trail = overflow, origin, trail
        m.steps = max(steps, m.steps)
        m.calling.clear()
        m.depth = 0


def explore(m: Machine, worlds: list[World], oid: int, path: str, modules: list[str]) -> Wiring:
    """Run the guard and the functions that mention a backend."""
    wiring = Wiring()
    finished = [w for w in worlds if w.raised is None][:MAX_WORLDS]
    tree = m.sources.parse(path)
    blocks = hidden_blocks(tree)
    started = list(m.seen.started)
    for world in finished:
        state = world.state
        for kind, body in blocks:
            speculate(m, partial(_block, m, state.fork(), oid, path, body, kind, wiring))
        # callers first: they know the arguments
        waiting = [(state, ref) for ref in _builders(state, modules)]
        waiting.sort(key=lambda w: cast(FunctionObj, w[0].heap[w[1].oid]).path != path)
        tried: set[int] = set()
        while waiting:
            where, ref = waiting.pop(0)
            function = cast(FunctionObj, where.heap[ref.oid])
            if id(function.node) not in tried and not _was_run(m, function):
                tried.add(id(function.node))
                ends: list[State] = []
                speculate(m, partial(_call, m, where.fork(), oid, path, ref, ends))
                for end in ends:  # functions that it has made but not called
                    made = [r for r in _builders(end, modules) if r.oid not in where.heap]
                    waiting += [(end, r) for r in made]
    m.seen.started = started
    wiring.calls = list(m.seen.backends)
    wiring.server = m.seen.server_created
    for role, base in BASES.items():
        for call in wiring.calls:
            for word, wanted in WORDS.get(call.path, {}).items():
                argument = call.arguments.get(word)
                if wanted != role or argument is None:
                    continue
                value, place = argument
                if isinstance(value, Const) and isinstance(value.value, str) and ":" in value.value:
                    wiring.hints.setdefault(
                        role, (place, f'The backend names "{value.value}"; import that class')
                    )
                elif isinstance(value, Ref) and reach.is_subclass(call.state, value, base):
                    obj = call.state.heap.get(value.oid)
                    if isinstance(obj, ClassObj):
                        wiring.hints.setdefault(
                            role, (place, f"The backend is given {obj.shown}; import that class")
                        )
    return wiring


def hidden_blocks(tree: ast.Module) -> list[tuple[str, list[ast.stmt]]]:
    """Bodies of `if __name__ == "__main__"` and `if TYPE_CHECKING` at module level."""
    out: list[tuple[str, list[ast.stmt]]] = []
    for node in tree.body:
        if isinstance(node, ast.If):
            text = ast.dump(node.test) if _small(node.test) else ""
            if "'__main__'" in text and "'__name__'" in text:
                out.append(("guard", node.body))
            elif "TYPE_CHECKING" in text:
                out.append(("typing", node.body))
    return out


def _small(node: ast.expr) -> bool:
    return (getattr(node, "end_lineno", 0) or 0) - node.lineno < 3


def _block(
    m: Machine, state: State, oid: int, path: str, body: list[ast.stmt], kind: str, wiring: Wiring
) -> None:
    before = {n: v for n, v in state.heap[oid].values.items()}  # type: ignore[attr-defined]
    frame = Frame(module=oid, path=path)
    for outcome in statements.block(m, frame, state, body):
        module = outcome.state.heap[oid]
        if outcome.kind is Kind.RAISE or not isinstance(module, ModuleObj):
            continue
        for name, value in module.values.items():
            if before.get(name) == value or not isinstance(value, Ref):
                continue
            for role, base in BASES.items():
                obj = outcome.state.heap.get(value.oid)
                if isinstance(obj, ClassObj) and reach.is_subclass(outcome.state, value, base):
                    where = (
                        "only under the script guard"
                        if kind == "guard"
                        else ("only while type checking")
                    )
                    wiring.hints.setdefault(
                        role,
                        (
                            module.places.get(name, obj.place),
                            f"{obj.name} is bound {where}; bind it",
                        ),
                    )


def _was_run(m: Machine, function: FunctionObj) -> bool:
    """True if the import, or the function around this one, has built the backend in it."""
    node = function.node
    first = (node.lineno, node.col_offset + 1)
    last = (node.end_lineno or node.lineno, (node.end_col_offset or 0) + 1)
    return any(
        c.place.path == function.path and first <= (c.place.line, c.place.column) <= last
        for c in m.seen.backends
    )


def _builders(state: State, modules: list[str]) -> list[Ref]:
    """The functions that name a backend or the server: methods, inner ones and lambdas too."""
    wanted = set(modules)
    return [
        Ref(oid)
        for oid, obj in state.heap.items()
        if isinstance(obj, FunctionObj) and obj.path in wanted and _mentions_backend(state, obj)
    ]


def _mentions_backend(state: State, function: FunctionObj, depth: int = 2) -> bool:
    """True if the function, or one that it names, names a backend or the server."""
    names = reach.mentioned(function)
    if any("Backend" in name or name == "create_rollout_server" for name in names):
        return True
    spaces = [state.heap.get(oid) for oid in (*function.closure, function.module)]
    for name in names:
        for space in spaces:
            if isinstance(space, Namespace) and name in space.values:
                value = space.values[name]
                value = value.function if isinstance(value, Partial) else value
                if isinstance(value, Ext) and value.path in _SERVING:
                    return True
                named = state.heap.get(value.oid) if isinstance(value, Ref) and depth else None
                other = named if isinstance(named, FunctionObj) and named is not function else None
                if other is not None and _mentions_backend(state, other, depth - 1):
                    return True
                break
    return False


def _call(m: Machine, state: State, oid: int, path: str, ref: Ref, ends: list[State]) -> None:
    obj = cast(FunctionObj, state.heap[ref.oid])
    frame = Frame(module=oid, path=path)
    node = obj.node

    def run() -> Value:
        values, _ = invoking.run_function(
            m, frame, ref, obj, [], {}, node, rest=Opaque("argument"), kwrest=Opaque("argument")
        )
        return values

    ends += [after for after, _ in m.branches(state, run)]


_NO_CLASS = (Alias, Bound, Const, Method, Names, Partial, PathValue, TupleValue, Wrapped)


def _is_no_class(m: Machine, value: Value) -> bool:
    if isinstance(value, Ref):
        return isinstance(m.obj(value), FunctionObj | InstanceObj | ListObj | DictObj | ModuleObj)
    return isinstance(value, _NO_CLASS) or (isinstance(value, Ext) and value.kind in "fm")


def look_up(
    m: Machine, state: State, oid: int, path: str, text: str
) -> list[tuple[State, Value | Raised]]:
    """What `module:attr` gives in each world it may lead to; empty if a limit is hit."""
    module_name, _, attr = text.rpartition(":")
    frame = Frame(module=oid, path=path)
    node = ast.parse("x").body[0]
    found: list[tuple[State, Value | Raised]] = []

    def read(module: Value) -> Value:
        words = [module, Const(attr), NONE]
        return m.concrete(dynamic.FRAME_CALLS["builtins.getattr"](m, frame, words, {}, node))

    def look() -> None:
        for after, module in m.importer.load(frame, state.fork(), module_name, node):
            if isinstance(module, Raised):
                reason = f"the module {module_name} cannot be imported"
                lost = Raised(module.value, module.place, reason, implicit=module.implicit)
                found.append((after, lost))
            else:
                found.extend(m.branches(after, partial(read, module)))

    before = len(m.importer.loaded_files)
    try:
        speculate(m, look)
    except LimitHit:
        return []
    for extra in list(m.importer.loaded_files)[before:]:
        m.importer.loaded_files.pop(extra)
    return found


def resolve_string(
    m: Machine, state: State, oid: int, path: str, text: str
) -> tuple[bool, str, str | None]:
    """Look a `module:attr` string up: (broken, reason, `module:qualname` of the class found)."""
    module_name, _, attr = text.rpartition(":")
    if not module_name or module_name.startswith("."):
        return True, "it names no module", None

    def judged(after: State, value: Value | Raised) -> tuple[bool, str, str | None]:
        m.state = after
        if isinstance(value, Raised):
            return not value.implicit, value.reason, None
        if value == NONE:
            return True, f"{module_name} has no name {attr}", None
        obj = m.obj(value) if isinstance(value, Ref) else None
        if isinstance(obj, ClassObj):
            return False, "", obj.shown
        return _is_no_class(m, value), f"{text} is certainly no class", None

    answers = [judged(*found) for found in look_up(m, state, oid, path, text)]
    if answers and all(a[0] for a in answers):
        return answers[0]
    named = {a[2] for a in answers}
    return False, "", next(iter(named)) if len(named) == 1 else None
