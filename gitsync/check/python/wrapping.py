"""Wrappers of functions: properties, static and class methods, `wraps`, `abstractmethod`."""

from __future__ import annotations

import ast

from gitsync.check.python import classes
from gitsync.check.python.heap import ClassObj, FunctionObj, InstanceObj
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import (
    NONE,
    TRUE,
    Bound,
    Const,
    Decorator,
    Ext,
    Opaque,
    Partial,
    Ref,
    TupleValue,
    Value,
    Wrapped,
)
from gitsync.check.python.worlds import Frame


def wrapper(kind: str) -> Rule:
    """A type whose instances stand for one function."""

    def wrap(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        return Wrapped(kind, args[0] if args else keywords.get("func", NONE))

    return wrap


def abstract_wrapper(kind: str) -> Rule:
    """The same, always abstract: the old names of `abc`."""

    def wrap(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        return Wrapped(kind, args[0] if args else NONE, True)

    return wrap


_ACCESSORS = ("fget", "fset", "fdel")


def make_property(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`property(fget, fset, fdel)`; the setter and the deleter are kept beside the getter."""
    parts = [
        args[at] if at < len(args) else keywords.get(name, NONE)
        for at, name in enumerate(_ACCESSORS)
    ]
    return Wrapped("property", parts[0], False, tuple(parts[1:]))


def accessor(name: str, owner: Wrapped) -> Decorator:
    """`prop.getter`, `prop.setter` or `prop.deleter`, waiting for its function."""
    return Decorator("accessor", (("name", Const(name)), ("owner", owner)))


def with_accessor(decorator: Decorator, function: Value) -> Value:
    """The property that an accessor makes: the old one with one function exchanged."""
    parts = dict(decorator.parts)
    owner = parts["owner"]
    if not isinstance(owner, Wrapped):
        return owner
    setter, deleter = (*owner.args, NONE, NONE)[:2]
    getter = owner.function
    name = parts["name"]
    if name == Const("getter"):
        getter = function
    elif name == Const("setter"):
        setter = function
    else:
        deleter = function
    return Wrapped(owner.kind, getter, owner.abstract, (setter, deleter))


# `__isabstractmethod__` of these cannot be set: it is worked out from what they wrap.
_COMPUTED = ("property", "staticmethod", "classmethod", "partialmethod")


def abstractmethod(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`@abstractmethod` sets a flag, which some values do not let it."""
    value = args[0] if args else NONE
    if isinstance(value, Ref) and isinstance(m.obj(value), FunctionObj | ClassObj | InstanceObj):
        m.store(value.oid, "__isabstractmethod__", TRUE)
        return value
    if isinstance(value, Const) or (isinstance(value, Wrapped) and value.kind in _COMPUTED):
        shown = value.kind if isinstance(value, Wrapped) else type(value.value).__name__
        reason = f"abstractmethod cannot mark a {shown}; write it nearest to the function"
        raise m.error(frame, node, "AttributeError", reason)
    if isinstance(value, Wrapped):
        return Wrapped(value.kind, value.function, True, value.args, value.keywords)
    return value


NOTHING = TupleValue(())
_NAMES = ("__name__", "__qualname__")


def copy_attributes(m: Machine, value: Value, wrapped: Value, given: dict[str, Value]) -> Value:
    """What `wraps` and `update_wrapper` do: names and attributes of one callable for another."""
    # by default the attributes in `__dict__` are taken over too
    whole = given.get("updated") != NOTHING
    obj = m.obj(value) if isinstance(value, Ref) else None
    source = m.obj(wrapped) if isinstance(wrapped, Ref) else None
    if isinstance(obj, ClassObj) and isinstance(value, Ref):
        changed = m.state.change(value.oid)
        if isinstance(source, ClassObj) and isinstance(changed, ClassObj):
            changed.name, changed.qualname = source.name, source.qualname
            changed.module = source.module
        return value
    if not isinstance(obj, FunctionObj) or not isinstance(value, Ref):
        return value
    if isinstance(source, FunctionObj):
        for name, item in source.values.items() if whole else ():
            if name not in _NAMES:  # which do not stand in `__dict__`
                m.store(value.oid, name, item)
    for name in _NAMES:
        shown = _text_of(m, wrapped, name)
        if "assigned" in given and shown is not None:
            listed = given["assigned"]
            if isinstance(listed, TupleValue) and Const(name) not in listed.items:
                continue
            shown = shown if isinstance(listed, TupleValue) else Opaque("str()")
        if shown is not None:
            m.store(value.oid, name, shown)
    if whole and classes.is_abstract(m, wrapped):
        m.store(value.oid, "__isabstractmethod__", TRUE)
    m.store(value.oid, "__wrapped__", wrapped)
    return value


def _text_of(m: Machine, wrapped: Value, name: str) -> Value | None:
    """The name of what is no plain function; None if it has none."""
    obj = m.obj(wrapped) if isinstance(wrapped, Ref) else None
    if isinstance(obj, ClassObj | FunctionObj):
        known = obj.values.get(name)
        return known or Const(obj.name if name == "__name__" else obj.qualname)
    if isinstance(wrapped, Wrapped | Bound):
        return _text_of(m, wrapped.function, name)
    if isinstance(wrapped, Ext) and wrapped.kind in "cf" and wrapped.path.count(".") == 1:
        return Const(wrapped.path.rpartition(".")[2])
    return None if isinstance(wrapped, Partial | Const) else Opaque("str()")


def update_wrapper(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`functools.update_wrapper(wrapper, wrapped)`."""
    given = dict(zip(("wrapper", "wrapped"), args, strict=False)) | keywords
    if "wrapper" not in given or "wrapped" not in given:
        raise m.error(frame, node, "TypeError", "update_wrapper() needs the wrapped function")
    return copy_attributes(m, given["wrapper"], given["wrapped"], given)
