"""Trying the exposed class out: a constructor or a method whose every course fails.

The signatures alone are judged in `contracts`. Here the constructor is executed speculatively with
an unknown config, and a method that is wrapped by `*args` with an unknown context: what then fails
in every possible way cannot keep the contract, whatever its signature says.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from gitsync.check.python import attributes, calls, classes, instances, invoking
from gitsync.check.python.heap import ClassObj, FunctionObj, InstanceObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.scopes import owned
from gitsync.check.python.seen import Seen
from gitsync.check.python.source import LimitHit
from gitsync.check.python.state import State
from gitsync.check.python.values import Const, Coroutine, Ext, Opaque, Place, Ref, Value
from gitsync.check.python.wiring import speculate
from gitsync.check.python.worlds import Frame, Raised

# Raised for what `main()` may still fill in before anybody makes an instance.
_LATER = (Ext("builtins.KeyError", "c"), Ext("builtins.IndexError", "c"))


def failing_constructor(m: Machine, state: State, cls: Ref, place: Place) -> Raised | None:
    """What `cls(config)` raises, if it does so whatever the config is."""
    obj = state.heap[cls.oid]
    if not isinstance(obj, ClassObj) or _set_up_later(state):
        return None
    frame, node = Frame(module=0, path=place.path), _nowhere(place)

    def run() -> Value:
        made = m.concrete(instances.new_instance(m, frame, cls, obj, [Opaque("config")], {}, node))
        inner = m.obj(made) if isinstance(made, Ref) else None
        if isinstance(made, Const) or (
            isinstance(inner, InstanceObj) and cls not in classes.mro_of(m, inner.cls)
        ):
            raise m.error(frame, node, "TypeError", "it gives something else than an instance")
        return made

    return _every_course(m, state, run, lambda kind: not set(_LATER) & set(classes.mro_of(m, kind)))


def failing_wrapper(
    m: Machine, state: State, cls: Ref, name: str, function: FunctionObj, place: Place
) -> Raised | None:
    """The TypeError of a method behind `*args`, if every call with one context raises it."""
    if function.owner is not None or function.node.args.vararg is None:
        return None
    frame, node = Frame(module=0, path=place.path), _nowhere(place)

    def run() -> Value:
        made = m.new(InstanceObj(cls))
        m.store(made.oid, "config", Opaque("config"))
        method = m.concrete(attributes.get(m, frame, made, name, node))
        given = calls.call(m, frame, method, [Opaque("ctx")], {}, node)
        if isinstance(given, Coroutine):
            return invoking.run_coroutine(m, frame, given, node)
        return given

    wanted = Ext("builtins.TypeError", "c")
    return _every_course(m, state, run, lambda kind: wanted in classes.mro_of(m, kind))


def _nowhere(place: Place) -> ast.AST:
    return ast.Pass(lineno=place.line, col_offset=place.column - 1)


def _set_up_later(state: State) -> bool:
    """True if some function binds globals: what is missing now may be there in production."""
    return any(
        isinstance(obj, FunctionObj) and owned(obj.node).declared_global
        for obj in state.heap.values()
    )


def _every_course(
    m: Machine, state: State, run: Callable[[], Value], counts: Callable[[Value], bool]
) -> Raised | None:
    """The exception of the first course, if all courses raise one for certain that counts."""
    found: list[Raised | None] = []

    def follow() -> None:
        m.overflow = None
        for after, value in m.branches(state.fork(), run):
            m.state = after
            certain = value if isinstance(value, Raised) and not value.implicit else None
            if certain is not None and not counts(classes.class_of(m, certain.value)):
                certain = None
            found.append(certain)
        if m.overflow is not None:  # some courses were not followed
            found.append(None)

    seen, at, current = m.seen, m.at, m.state
    loaded = len(m.importer.loaded_files)
    m.seen = Seen()
    try:
        speculate(m, follow)
    except LimitHit:
        return None
    finally:
        m.seen, m.at, m.state = seen, at, current
    for extra in list(m.importer.loaded_files)[loaded:]:
        m.importer.loaded_files.pop(extra)
    return found[0] if found and None not in found else None
