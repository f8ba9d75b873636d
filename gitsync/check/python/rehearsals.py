"""Rehearsals: methods of an exposed class run speculatively, with a context that is not known.

What a rehearsal notices gives warnings only. Functions and coroutines that a library is handed are
run too: it may call them now or later. Nothing seen here changes what is exposed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import cast

from gitsync.check.python import calls, classes, instances, invoking, policy
from gitsync.check.python.heap import ClassObj, DictObj, FunctionObj, InstanceObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.seen import Rehearsal
from gitsync.check.python.state import State
from gitsync.check.python.values import (
    Bound,
    Const,
    Coroutine,
    Decorated,
    Ext,
    Opaque,
    Partial,
    Ref,
    TupleValue,
    Value,
    Wrapped,
)
from gitsync.check.python.wiring import speculate
from gitsync.check.python.worlds import Frame, Raised

CONTEXT = Opaque("ctx")
_ANYTHING = Opaque("argument")
_TELLING = "logging.getLogger()."  # tells what it is given, and keeps nothing
_MOST_ARGUMENTS = 5
_NOWHERE = ast.Pass(lineno=1, col_offset=0)
# Packages that call at once what they are given; others keep it for later.
_RUNNERS = ("aiometer", "anyio", "asyncer", "backoff", "joblib", "tenacity", "tqdm", "trio")
# Modules whose functions are worked out, or call nothing of what they are given.
_WORKED_OUT = ("builtins", "functools", "itertools", "dataclasses", "typing", "operator", "copy")


def rehearse(m: Machine, state: State, cls: Ref, frame: Frame, names: Sequence[str]) -> Rehearsal:
    """Run methods of a class, each in a copy of the world; what was noticed."""
    made = Rehearsal(cut_short=True)
    if not names:
        return made

    def run() -> None:
        for name in names:
            ends = _run_method(m, state.fork(), frame, cls, name)
            made.finished |= any(not isinstance(end, Raised) for _, end in ends)
        made.cut_short = m.overflow is not None

    m.rehearsal = made
    try:
        speculate(m, run)
    finally:
        m.rehearsal = None
    return made


def methods_of(state: State, cls: Ref) -> list[str]:
    """The methods of the class and its local bases, special ones left out."""
    names: list[str] = []
    obj = cast(ClassObj, state.heap[cls.oid])
    for part in (cls, *obj.mro):
        other = state.heap.get(part.oid) if isinstance(part, Ref) else None
        if isinstance(other, ClassObj):
            names += [n for n in other.values if n not in names and not n.startswith("__")]
    return names


def looked_through(value: Value) -> tuple[Value, bool]:
    """The function behind wrappers and a library's decorators; False if it takes no `self`."""
    is_bound = True
    while True:
        if isinstance(value, Wrapped):
            is_bound = is_bound and value.kind != "staticmethod"
            value = value.function
        elif isinstance(value, Opaque) and isinstance(value.known, Decorated):
            value = value.known.function
        else:
            return value, is_bound


def _run_method(
    m: Machine, state: State, frame: Frame, cls: Ref, name: str
) -> list[tuple[State, Value | Raised]]:
    node = _NOWHERE

    def run() -> Value:
        obj = cast(ClassObj, m.obj(cls))
        found = classes.find_in_mro(m, cls, name)
        if found is None:
            return Opaque()
        value, is_bound = looked_through(found[1])
        function = m.obj(value) if isinstance(value, Ref) else None
        if not isinstance(function, FunctionObj) or not isinstance(value, Ref):
            return Opaque()
        made: Value
        if "__init__" in _own_names(m, cls):
            made = instances.new_instance(
                m, frame, cls, obj, [Opaque("config")], {}, node, kwrest=Opaque("config")
            )
        else:
            made = m.new(InstanceObj(cls))
            if isinstance(made, Ref):
                m.store(made.oid, "config", Opaque("config"))
        args = [made] if is_bound else []
        spec = function.node.args
        keywords: dict[str, Value] = {}
        more: Opaque | None = _ANYTHING
        if name in ("run", "grade"):
            args.append(CONTEXT)
            if spec.vararg is not None:
                more = None  # what hands its arguments on hands on this one only
        else:
            named = {a.arg for a in (*spec.args, *spec.kwonlyargs)}
            keywords = {word: CONTEXT for word in ("ctx", "context") if word in named}
        result = invoking.run_function(
            m, frame, value, function, args, keywords, node, rest=more, kwrest=more
        )[0]
        if isinstance(result, Coroutine):
            return invoking.run_coroutine(m, frame, result, node)
        return result

    return m.branches(state, run)


def _own_names(m: Machine, cls: Ref) -> set[str]:
    names: set[str] = set()
    for part in classes.mro_of(m, cls):
        obj = m.obj(part) if isinstance(part, Ref) else None
        if isinstance(obj, ClassObj):
            names |= set(obj.values)
    return names


# -- what libraries are handed ---------------------------------------------------------------


def follow(
    m: Machine,
    frame: Frame,
    function: Ext | Opaque,
    args: list[Value],
    keywords: dict[str, Value],
    unknown: Value | None,
    node: ast.AST,
) -> None:
    """Run what a library gets to call, and notice where the context goes out of sight."""
    if isinstance(function, Opaque) and isinstance(function.known, Decorated):
        _try_out(m, frame, function.known.function, args, keywords, node)
        return
    top = function.path.partition(".")[0]
    given = [*args, *keywords.values(), *([unknown] if unknown is not None else [])]
    if isinstance(function, Ext) and top in _WORKED_OUT:
        return
    is_plain = top in m.facts.stdlib and "()" not in function.path
    if not is_plain and not function.path.startswith(_TELLING):
        hand_on(m, given)
    runs = top in m.facts.stdlib or top in _RUNNERS
    for at, value in enumerate(given):
        if runs or not _is_function(m, value):
            _hand_over(m, frame, value, args[at + 1 :], _node_of(node, at))
        else:  # a tool of an agent, say: who calls it, and when, is not known
            cast(Rehearsal, m.rehearsal).handed_on = True


def hand_on(m: Machine, given: Sequence[Value]) -> None:
    """Code that cannot be followed is given values: remember it if the context is among them."""
    if m.rehearsal is not None and any(_holds_context(m, value) for value in given):
        m.rehearsal.handed_on = True


def _node_of(node: ast.AST, at: int) -> ast.AST:
    """The argument itself, where calls that it leads to are told."""
    if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
        return node
    nodes = [*node.args, *(k.value for k in node.keywords)]
    return nodes[at] if at < len(nodes) else node


def _holds_context(m: Machine, value: Value, depth: int = 3) -> bool:
    if value == CONTEXT:
        return True
    parts: Sequence[Value] = ()
    if isinstance(value, TupleValue):
        parts = value.items
    elif isinstance(value, Bound):
        parts = (value.owner,)
    elif isinstance(value, Partial):
        parts = (*value.args, *(v for _, v in value.keywords))
    elif isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, ListObj):
            parts = (*obj.items, *([obj.rest] if obj.rest is not None else []))
        elif isinstance(obj, DictObj | InstanceObj):
            held = obj.items if isinstance(obj, DictObj) else obj.values
            parts = tuple(held.values())
    return depth > 0 and any(_holds_context(m, part, depth - 1) for part in parts)


def _hand_over(
    m: Machine,
    frame: Frame,
    value: Value,
    after: list[Value],
    node: ast.AST,
) -> None:
    """Run one thing that was handed over: a coroutine, a function, or several of them."""
    if isinstance(value, Coroutine):
        _aside(m, lambda: invoking.run_coroutine(m, frame, value, node))
    elif isinstance(value, Opaque):
        if policy.is_request(value.path) and not value.routed:
            policy.notice(m, frame, value.path, after, {}, None, node)
    elif _is_function(m, value):
        _try_out(m, frame, value, after, {}, node)
    elif isinstance(value, Ref) and isinstance(obj := m.obj(value), ListObj):
        for item in (*obj.items, *([obj.rest] if obj.rest is not None else [])):
            if not isinstance(item, Const | Opaque) and not _is_list(m, item):
                _hand_over(m, frame, item, [], node)


def _is_list(m: Machine, value: Value) -> bool:
    return isinstance(value, Ref) and isinstance(m.obj(value), ListObj)


def _is_function(m: Machine, value: Value) -> bool:
    """True for what runs local code if it is called, and is not being run already."""
    if isinstance(value, Bound | Partial | Wrapped):
        return True
    obj = m.obj(value) if isinstance(value, Ref) else None
    if isinstance(obj, FunctionObj):
        return all(running != id(obj.node) for running, _ in m.calling)
    return (
        isinstance(obj, InstanceObj) and classes.class_attribute(m, obj.cls, "__call__") is not None
    )


def _try_out(
    m: Machine,
    frame: Frame,
    function: Value,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> None:
    """Call a function with these arguments or, if they do not fit, with as many as it takes."""
    more: list[tuple[list[Value], dict[str, Value]]] = [
        ([_ANYTHING] * count, {}) for count in range(_MOST_ARGUMENTS)
    ]
    for given, named in [(args, keywords), *more]:

        def call(given: list[Value] = given, named: dict[str, Value] = named) -> Value:
            result = calls.call(m, frame, function, given, named, node)
            if isinstance(result, Coroutine):
                return invoking.run_coroutine(m, frame, result, node)
            return result

        if _aside(m, call):
            return


def _aside(m: Machine, action: Callable[[], Value]) -> bool:
    """Do something in a copy of the world; False if all its ways end in an exception."""
    state, at, guards = m.state, m.at, m.guards
    m.guards = 0
    try:
        ends = m.branches(state.fork(), action)
    finally:
        m.state, m.at, m.guards = state, at, guards
    return any(not isinstance(end, Raised) for _, end in ends)
