"""Type variables: which a class is generic over, and what `typing` refuses of them."""

from __future__ import annotations

import ast

from gitsync.check.python import classes
from gitsync.check.python.heap import ClassObj, InstanceObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import Alias, Const, Ext, Ref, TupleValue, Value
from gitsync.check.python.worlds import Frame

KINDS: tuple[str, ...] = ("typing.TypeVar", "typing.ParamSpec", "typing.TypeVarTuple")
_GENERIC = Ext("typing.Generic", "c")
_PROTOCOL = Ext("typing.Protocol", "c")


def make(m: Machine, path: str, *args: Value) -> Ref:
    """A new type variable; each is another one, whatever its name."""
    return m.new(InstanceObj(Ext(path, "c"), args))


def kind_of(m: Machine, value: Value) -> str:
    """Which kind of type variable a value is; empty for everything else."""
    obj = m.obj(value) if isinstance(value, Ref) else None
    made = obj.cls if isinstance(obj, InstanceObj) else None
    return made.path if isinstance(made, Ext) and made.path in KINDS else ""


def variables(m: Machine, values: tuple[Value, ...]) -> list[Value] | None:
    """The type variables in some arguments, in order; None if one cannot be told."""
    found: list[Value] = []
    for value in values:
        obj = m.obj(value) if isinstance(value, Ref) else None
        inner: list[Value] | None = []
        if kind_of(m, value):
            inner = [value]
        elif isinstance(value, TupleValue):
            inner = variables(m, value.items)
        elif isinstance(value, Alias):
            inner = variables(m, value.args)
        elif isinstance(obj, ListObj) and obj.rest is None:
            inner = variables(m, tuple(obj.items))
        elif not isinstance(value, Const) and not classes.is_class(m, value):
            return None
        if inner is None:
            return None
        found += [v for v in inner if v not in found]
    return found


def parameters(m: Machine, obj: ClassObj) -> list[Value] | None:
    """`__parameters__` of a class; None if they cannot be told."""
    if obj.raw_bases is None:
        return None
    return _from_bases(m, obj.raw_bases)


def _from_bases(m: Machine, bases: tuple[Value, ...]) -> list[Value] | None:
    aliases = [b for b in bases if isinstance(b, Alias)]
    listed = [a for a in aliases if a.origin in (_GENERIC, _PROTOCOL)]
    return variables(m, tuple(arg for a in listed[:1] or aliases for arg in a.args))


def check_bases(m: Machine, frame: Frame, bases: list[Value], node: ast.AST) -> None:
    """Raise for bases with which `Generic.__init_subclass__` is not content."""
    aliases = [b for b in bases if isinstance(b, Alias)]
    listed = [a for a in aliases if a.origin == _GENERIC]
    if _GENERIC in bases:
        raise m.error(frame, node, "TypeError", "Generic as a base needs its type variables")
    if len(listed) > 1:
        raise m.error(frame, node, "TypeError", "Generic[...] can be a base only once")
    if listed:
        own = variables(m, listed[0].args)
        every = variables(m, tuple(arg for a in aliases for arg in a.args))
        if own is not None and every is not None and len(every) > len(own):
            reason = "some type variables of the bases are not listed in Generic[...]"
            raise m.error(frame, node, "TypeError", reason)


def check_listed(m: Machine, frame: Frame, owner: Ext, key: Value, node: ast.AST) -> None:
    """Raise for `Generic[T, T]`."""
    if owner in (_GENERIC, _PROTOCOL) and isinstance(key, TupleValue):
        own = [item for item in key.items if kind_of(m, item)]
        if len(set(own)) != len(own):
            reason = "the type variables of Generic[...] must differ"
            raise m.error(frame, node, "TypeError", reason)


def check_arguments(m: Machine, frame: Frame, obj: ClassObj, key: Value, node: ast.AST) -> None:
    """Raise for `Class[…]` with more or fewer arguments than type variables."""
    wanted = parameters(m, obj)
    if wanted is None or any(kind_of(m, v) != KINDS[0] for v in wanted):
        return
    if not wanted:
        raise m.error(frame, node, "TypeError", f"the class {obj.name} is not generic")
    given = len(key.items) if isinstance(key, TupleValue) else 1
    may_default = m.minor >= 13 and given < len(wanted)
    known = isinstance(key, TupleValue | Const | Alias) or classes.is_class(m, key)
    if known and given != len(wanted) and not may_default:
        reason = f"{obj.name}[...] takes {len(wanted)} arguments, not {given}"
        raise m.error(frame, node, "TypeError", reason)
