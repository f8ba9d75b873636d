"""What exceptions hold and hand out, and how `except*` takes groups of them apart."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import cast

from gitsync.check.python import classes, expressions
from gitsync.check.python.heap import InstanceObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.state import State
from gitsync.check.python.values import NONE, Const, Ext, Opaque, Ref, TupleValue, Unknown, Value
from gitsync.check.python.worlds import Frame, Kind, Outcome, Raised

type Left = list[Value] | None  # the exceptions nobody took yet; None if they are not known
type RunHandler = Callable[[State, ast.ExceptHandler, Raised], list[Outcome]]

_GROUP = Ext("builtins.ExceptionGroup", "c")


def set_arguments(m: Machine, value: Ref, args: list[Value] | None) -> bool:
    """`BaseException.__init__`, None for arguments not known; False if this is no exception."""
    if not isinstance(m.obj(value), InstanceObj) or not classes.is_exception(m, value):
        return False
    changed = cast(InstanceObj, m.state.change(value.oid))
    changed.args = None if args is None else tuple(args)
    return True


def attribute(
    m: Machine, frame: Frame, owner: Ref, obj: InstanceObj, name: str, node: ast.AST
) -> Value | None:
    """An attribute that Python keeps in an exception; None for all others."""
    if name not in _ATTRIBUTES or not classes.is_exception(m, owner):
        return None
    lineage = classes.mro_of(m, obj.cls)
    kind = _ATTRIBUTES[name]
    if Ext(f"builtins.{kind}", "c") not in (obj.cls, *lineage):
        return None
    if name == "__cause__" or (name == "__context__" and obj.args is not None):
        return NONE  # else it is stored where the exception is raised
    if obj.args is None and name == "args":
        return Opaque("tuple()")
    if obj.args is None or name == "obj":
        return m.unknown(frame, node, f"what the exception keeps as {name} is not known")
    if name == "args":
        return TupleValue(obj.args)
    if name == "exceptions":
        items = _members(m, obj)
        return m.unknown(frame, node, "the group is not known") if items is None else items
    if name == "code" and len(obj.args) > 1:
        return TupleValue(obj.args)
    return obj.args[0] if obj.args else NONE


_ATTRIBUTES = {
    "args": "BaseException",
    "__cause__": "BaseException",
    "__context__": "BaseException",
    "code": "SystemExit",
    "exceptions": "BaseExceptionGroup",
    "message": "BaseExceptionGroup",
    "obj": "AttributeError",
    "value": "StopIteration",
}


def _members(m: Machine, obj: InstanceObj) -> TupleValue | None:
    given = obj.args[1] if obj.args is not None and len(obj.args) == 2 else NONE
    held = m.obj(given) if isinstance(given, Ref) else None
    if isinstance(held, ListObj) and held.rest is None:
        return TupleValue(tuple(held.items))
    return given if isinstance(given, TupleValue) else None


def _leaves(m: Machine, value: Value) -> Left:
    """The single exceptions in a group, or the exception itself."""
    if isinstance(value, Unknown):
        return None
    if not classes.is_group(m, value):
        return [value]
    obj = m.obj(value) if isinstance(value, Ref) else None
    items = _members(m, obj) if isinstance(obj, InstanceObj) else None
    if items is None:
        return None
    out: list[Value] = []
    for item in items.items:
        inner = _leaves(m, item)
        if inner is None or not isinstance(item, Ref):
            return None
        out += inner
    return out


def _group(m: Machine, whole: Value, items: Left) -> Ref:
    """A group of these exceptions, nested as they are in `whole`."""
    obj = m.obj(whole) if isinstance(whole, Ref) and classes.is_group(m, whole) else None
    if items is None or not isinstance(obj, InstanceObj):
        args = None if items is None else (Const(""), TupleValue(tuple(items)))
        return m.new(InstanceObj(_GROUP, args))
    members = _members(m, obj)
    kept: list[Value] = []
    for member in members.items if members is not None else ():
        if not classes.is_group(m, member):
            kept += [member] if member in items else []
        elif any(leaf in items for leaf in _leaves(m, member) or ()):
            kept.append(_group(m, member, items))
    message = obj.args[0] if obj.args else Const("")
    return m.new(InstanceObj(_GROUP, (message, TupleValue(tuple(kept)))))


def handle_group(
    m: Machine,
    frame: Frame,
    outcome: Outcome,
    raised: Raised,
    handlers: list[ast.ExceptHandler],
    run_handler: RunHandler,
) -> list[Outcome]:
    """`except*`: each clause takes what fits, what is left is raised again."""
    m.state = outcome.state
    out: list[Outcome] = []
    live: list[tuple[State, Left, bool]] = [(outcome.state, _leaves(m, raised.value), False)]
    for handler in handlers:
        following: list[tuple[State, Left, bool]] = []
        for world, left, failed in live:
            split = partial(_split, m, frame, handler, left)
            for after, found in m.branches(world, split):
                if isinstance(found, Raised):
                    out.append(Outcome(after, Kind.RAISE, raised=found))
                    continue
                taken, rest = found
                if taken == []:
                    following.append((after, rest, failed))
                    continue
                m.state = after
                part = _again(raised, _group(m, raised.value, taken))
                for result in run_handler(after, handler, part):
                    if result.kind in (Kind.NORMAL, Kind.RAISE):
                        bad = failed or result.kind is Kind.RAISE
                        following.append((result.state, rest, bad))
                    else:
                        out.append(result)
        live = following
    for world, left, failed in live:
        if left != [] or failed:
            m.state = world.fork() if left is None and not failed else world
            again = _again(raised, _group(m, raised.value, None if failed else left))
            if not failed and not classes.is_group(m, raised.value):
                again = raised
            if not again.implicit or m.is_caught(again):
                out.append(Outcome(m.state, Kind.RAISE, raised=again))
        if not failed and not left:
            out.append(Outcome(world))
    return out


def _again(raised: Raised, value: Value) -> Raised:
    return Raised(
        value, raised.place, raised.reason, implicit=raised.implicit, refused=raised.refused
    )


def _split(m: Machine, frame: Frame, handler: ast.ExceptHandler, left: Left) -> tuple[Left, Left]:
    """What a clause takes of the exceptions, and what it leaves."""
    if left == [] or handler.type is None:
        return [], left
    m.at = m.place(frame, handler)
    kind = expressions.evaluate(m, frame, handler.type)
    if not classes.can_be_caught(m, kind):
        raise m.error(frame, handler, "TypeError", "only exception classes can be caught")
    if left is None:
        pick = m.choose(2, m.at, "the kind of the exception")
        return (None, None) if pick == 0 else ([], None)
    taken: list[Value] = []
    rest: list[Value] = []
    for value in left:
        match = classes.exception_matches(m, value, kind)
        if match is None:
            match = m.choose(2, m.at, "the kind of the exception") == 0
        (taken if match else rest).append(value)
    return taken, rest
