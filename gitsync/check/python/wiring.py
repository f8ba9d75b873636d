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

from gitsync.check.python import invoking, reach, statements
from gitsync.check.python.facts import (
    BASES,
    HARBOR_BACKEND,
    LOCAL_BACKEND,
)
from gitsync.check.python.heap import ClassObj, FunctionObj, ModuleObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.roles import World
from gitsync.check.python.seen import BackendCall
from gitsync.check.python.source import LimitHit
from gitsync.check.python.state import State
from gitsync.check.python.values import NONE, Const, Opaque, Place, Ref, Value
from gitsync.check.python.worlds import Frame, Kind, OutOfBudget, Raised

STEPS = 8_000
MAX_WORLDS = 3
WORDS = {
    LOCAL_BACKEND: {"workflow": "workflow", "grader": "grader"},
    HARBOR_BACKEND: {"agent": "workflow", "grader": "grader"},
}
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
        done = {c.place for c in m.seen.backends}
        for other in modules:
            for function in _functions(m.sources.parse(other)):
                if _mentions_backend(function) and not any(
                    p.path == other and function.lineno <= p.line <= (function.end_lineno or 0)
                    for p in done
                ):
                    ref = _function_ref(state, function)
                    if ref is not None:
                        speculate(m, partial(_call, m, state.fork(), oid, path, ref))
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


def _functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def _mentions_backend(node: ast.AST) -> bool:
    for item in ast.walk(node):
        name = item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "")
        if isinstance(name, str) and ("Backend" in name or name == "create_rollout_server"):
            return True
    return False


def _function_ref(state: State, node: ast.AST) -> Ref | None:
    for oid, obj in state.heap.items():
        if isinstance(obj, FunctionObj) and obj.node is node:
            return Ref(oid)
    return None


def _call(m: Machine, state: State, oid: int, path: str, ref: Ref) -> None:
    obj = cast(FunctionObj, state.heap[ref.oid])
    frame = Frame(module=oid, path=path)
    node = obj.node

    def run() -> Value:
        values, _ = invoking.run_function(
            m, frame, ref, obj, [], {}, node, rest=Opaque("argument"), kwrest=Opaque("argument")
        )
        return values

    m.branches(state, run)


def resolve_string(
    m: Machine, state: State, oid: int, path: str, text: str
) -> tuple[bool, str, str | None]:
    """Look a `module:attr` string up: (broken, reason, `module:qualname` of the class found)."""
    module_name, _, attr = text.rpartition(":")
    frame = Frame(module=oid, path=path)
    node = ast.parse("x").body[0]
    answers: list[tuple[bool, str, str | None]] = []

    def look() -> None:
        for after, found in m.importer.load(frame, state.fork(), module_name, node):
            m.state = after
            if isinstance(found, Raised):
                missing = not found.implicit
                answers.append((missing, f"the module {module_name} cannot be imported", None))
            elif isinstance(found, Ref):
                module = after.heap[found.oid]
                if not isinstance(module, ModuleObj) or module.taint is not None:
                    answers.append((False, "", None))
                    continue
                value = module.values.get(attr)
                if value is None and "__getattr__" in module.values:
                    answers.append((False, "", None))
                elif value is None or value == NONE:
                    answers.append((True, f"{module_name} has no name {attr}", None))
                elif isinstance(value, Ref) and isinstance(after.heap[value.oid], ClassObj):
                    cls = after.heap[value.oid]
                    answers.append((False, "", cls.shown))  # type: ignore[attr-defined]
                elif isinstance(value, Const) or (
                    isinstance(value, Ref) and isinstance(after.heap[value.oid], FunctionObj)
                ):
                    answers.append((True, f"{text} is certainly no class", None))
                else:
                    answers.append((False, "", None))
            else:
                answers.append((False, "", None))

    before = len(m.importer.loaded_files)
    try:
        speculate(m, look)
    except LimitHit:
        return False, "", None
    for extra in list(m.importer.loaded_files)[before:]:
        m.importer.loaded_files.pop(extra)
    if answers and all(a[0] for a in answers):
        return answers[0]
    named = {a[2] for a in answers}
    return False, "", next(iter(named)) if len(named) == 1 else None
