"""Lists, tuples, sets, dicts and strings: items, membership and equality."""

from __future__ import annotations

import ast
from typing import Any, cast

from gitsync.check.python import (
    backed,
    classes,
    comparing,
    comprehensions,
    generators,
    keys,
    mappings,
    reach,
    sets,
)
from gitsync.check.python.heap import (
    ClassObj,
    DictObj,
    InstanceObj,
    ListObj,
    Namespace,
)
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    Const,
    Coroutine,
    Ext,
    Lazy,
    Names,
    Opaque,
    PathValue,
    Ref,
    TupleValue,
    Unknown,
    Value,
)
from gitsync.check.python.worlds import Frame

MAX_CANDIDATES = 12
MAX_ITEMS = 50_000


def blurred(m: Machine, frame: Frame, values: list[Value], node: ast.AST) -> Value:
    """One value that stands for any of these and others like them."""
    if m.rehearsal is not None and 0 < len(values) <= MAX_CANDIDATES:
        return values[m.choose(len(values), m.place(frame, node)) if len(values) > 1 else 0]
    if any(reach.touches(m.state, v) for v in values):
        return m.unknown(frame, node, "the contents of the container are not known")
    first = values[0] if values else None
    return first if isinstance(first, Opaque) and len(values) == 1 else Opaque()


def spoil(m: Machine, frame: Frame, value: Value, node: ast.AST, more: list[Value]) -> Value | None:
    """Forget what a container holds: it, and perhaps `more`, in an order that is not known.

    Gives what stands for an item; None if the value is no container.
    """
    value = backed.plain(m, value)
    obj = m.obj(value) if isinstance(value, Ref) else None
    if not isinstance(value, Ref) or not isinstance(obj, ListObj | DictObj):
        return None
    held = list(obj.items if isinstance(obj, ListObj) else obj.items.values())
    known = [*held, *more, *([obj.rest] if obj.rest is not None else [])]
    changed = cast(ListObj | DictObj, m.state.change(value.oid))
    changed.rest = blurred(m, frame, known, node)
    changed.items.clear()
    return changed.rest


def put(m: Machine, frame: Frame, obj: DictObj, key: Value, value: Value, node: ast.AST) -> None:
    """Set an item of a dict object that may be changed in place."""
    keys.require_hashable(m, frame, key, node)
    if keys.put(m, obj, key, value):
        return
    known = [value, *([obj.rest] if obj.rest is not None else [])]
    obj.rest = blurred(m, frame, known, node)


def absorb(m: Machine, obj: DictObj, value: Value) -> None:
    """`**value` or `update(value)` into a dict object."""
    value = backed.plain(m, value)
    if isinstance(value, Ref):
        other = m.obj(value)
        if isinstance(other, DictObj):
            if obj.is_dressed or other.is_dressed:
                for key, item in other.items.items():
                    keys.put(m, obj, key, item)
            else:
                obj.items.update(other.items)
            obj.rest = other.rest or obj.rest
            return
    if isinstance(value, Names):
        space = m.settle(value.oid)
        obj.items.update({Const(k): v for k, v in visible(space).items()})
        obj.rest = space.taint or obj.rest
        return
    if isinstance(value, Unknown):
        obj.rest = value
    elif obj.rest is None:
        obj.rest = Opaque()


def visible(space: Namespace) -> dict[str, Value]:
    """The names of a namespace that code can see."""
    return {k: v for k, v in space.values.items() if not k.startswith("\0")}


def comprehended(
    m: Machine, frame: Frame, items: list[Value], more: bool, kind: str, node: ast.AST
) -> Value:
    """The result of a comprehension."""
    if more:
        return m.list_of([], kind, blurred(m, frame, items, node))
    if kind == "set":
        for item in items:
            keys.require_hashable(m, frame, item, node)
        return sets.new_set(m, items, None)
    return m.list_of(items, kind)


def known_items(
    m: Machine, frame: Frame, value: Value, node: ast.AST
) -> tuple[list[Value], Value | None] | None:
    """Items in order and unknown further ones; None if the value is of another kind."""
    value = mappings.snapshot(m, value)
    if isinstance(value, TupleValue):
        return list(value.items), None
    if isinstance(value, Const):
        if isinstance(value.value, str):
            return [Const(c) for c in value.value], None
        if isinstance(value.value, bytes):
            return [Const(c) for c in value.value], None
        return None
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, ListObj):
            items = list(obj.items)
            if obj.kind == "iterator":
                changed = cast(ListObj, m.state.change(value.oid))
                changed.items = []
            # The order of a set is not known; classes in it are tried in both ends' order.
            if (
                obj.kind in ("set", "frozenset")
                and len(items) > 1
                and any(reach.touches(m.state, i) for i in items)
            ):
                return [], blurred(m, frame, items, node)
            return [m.concrete(i) for i in items], obj.rest
        if isinstance(obj, InstanceObj):
            held = obj.values.get("\0tuple")
            return (list(held.items), None) if isinstance(held, TupleValue) else None
        if isinstance(obj, DictObj):
            keys = list(obj.items)
            rest = None
            if obj.rest is not None:
                rest = Opaque() if not isinstance(obj.rest, Unknown) else obj.rest
            return keys, rest
    if isinstance(value, Names):
        space = m.settle(value.oid)
        return [Const(k) for k in visible(space)], space.taint
    if isinstance(value, Lazy):
        return comprehensions.run_lazy(m, value)
    if isinstance(value, Coroutine):
        return generators.collect(m, frame, value, node)
    return None


# -- operators -------------------------------------------------------------------------------


def too_many(m: Machine, some: list[Value]) -> Value:
    """What stands for the items of a container that has grown too large to follow."""
    if any(reach.touches(m.state, v) for v in some):
        return Unknown(m.at, "the container grows too large")
    return Opaque()


def combine(m: Machine, op: ast.operator, left: Value, right: Value) -> Value | None:
    """Concatenation, repetition and set or dict operators; None if not one of these."""
    if isinstance(op, ast.Add):
        if isinstance(left, TupleValue) and isinstance(right, TupleValue):
            if len(left.items) + len(right.items) > MAX_ITEMS:
                return m.list_of([], "tuple", too_many(m, [*left.items[:9], *right.items[:9]]))
            return TupleValue(left.items + right.items)
        a, b = _list(m, left), _list(m, right)
        if a is not None and b is not None and not sets.is_set(a) and not sets.is_set(b):
            if len(a.items) + len(b.items) > MAX_ITEMS:
                return m.list_of([], a.kind, too_many(m, [*a.items[:9], *b.items[:9]]))
            return m.list_of([*a.items, *b.items], a.kind, a.rest or b.rest)
    if isinstance(op, ast.Mult):
        for seq, times in ((left, right), (right, left)):
            if not isinstance(times, Const) or not isinstance(times.value, int):
                continue
            if isinstance(seq, TupleValue) and len(seq.items) * times.value < MAX_ITEMS:
                return TupleValue(seq.items * times.value)
            found = _list(m, seq)
            if found is not None and len(found.items) * times.value < MAX_ITEMS:
                return m.list_of(found.items * times.value, found.kind, found.rest)
    if isinstance(op, ast.BitOr) and isinstance(left, Ref):
        obj = m.obj(left)
        if isinstance(obj, DictObj):
            new = obj.copy()
            absorb(m, new, right)
            return m.new(new)
    return sets.combine(m, op, left, right)


def _list(m: Machine, value: Value) -> ListObj | None:
    if isinstance(value, Ref):
        obj = m.obj(value)
        return obj if isinstance(obj, ListObj) else None
    return None


def update_in_place(m: Machine, owner: Ref, op: ast.operator, value: Value) -> bool:
    """`|=` on dicts, `|=` and the like on sets."""
    obj = m.obj(owner)
    if isinstance(obj, DictObj) and isinstance(op, ast.BitOr):
        changed = cast(DictObj, m.state.change(owner.oid))
        absorb(m, changed, value)
        return True
    return sets.combine_in_place(m, op, owner, value)


def equal(m: Machine, left: Value, right: Value) -> bool | None:
    """`left == right` if it is certain."""
    left, right = mappings.snapshot(m, left), mappings.snapshot(m, right)
    if isinstance(left, Const) and isinstance(right, Const):
        try:
            return bool(left.value == right.value)
        except (TypeError, ValueError, RecursionError):
            return None
    if left == right and isinstance(left, Ref):
        return True
    left, right = _comparable(m, left), _comparable(m, right)
    if isinstance(left, Opaque | Unknown) or isinstance(right, Opaque | Unknown):
        return None
    if isinstance(left, TupleValue) and isinstance(right, TupleValue):
        return _pairwise(m, list(left.items), list(right.items))
    if isinstance(left, PathValue) and isinstance(right, PathValue):
        return left.text == right.text
    a, b = (m.obj(v) if isinstance(v, Ref) else None for v in (left, right))
    if isinstance(a, InstanceObj) or isinstance(b, InstanceObj):
        return _equal_instances(m, left, right)
    if isinstance(left, Const) and isinstance(right, Const):
        return equal(m, left, right)
    if isinstance(left, Ref) and isinstance(right, Ref):
        return _equal_objects(m, left, right)
    for one, other in ((a, right), (b, left)):
        if isinstance(one, ListObj) and one.kind == "tuple" and isinstance(other, TupleValue):
            return None  # some of its items are not known
    if isinstance(left, Ref | TupleValue | PathValue | Const) and isinstance(
        right, Ref | TupleValue | PathValue | Const
    ):
        return False
    if isinstance(left, Const) or isinstance(right, Const):
        return None
    return comparing.identical(m, left, right)


def _pairwise(m: Machine, left: list[Value], right: list[Value]) -> bool | None:
    if len(left) != len(right):
        return False
    answers = [equal(m, a, b) for a, b in zip(left, right, strict=True)]
    return False if False in answers else (None if None in answers else True)


def _equal_objects(m: Machine, left: Ref, right: Ref) -> bool | None:
    """Two objects that are no instances of a class of the repository."""
    a, b = m.obj(left), m.obj(right)
    if isinstance(a, ListObj) and isinstance(b, ListObj):
        if sets.is_set(a) and sets.is_set(b):
            return sets.equal(m, left, right)
        if a.kind != b.kind:
            return False
        if a.rest is not None or b.rest is not None:
            return None
        return _pairwise(m, [m.concrete(i) for i in a.items], [m.concrete(i) for i in b.items])
    if isinstance(a, DictObj) and isinstance(b, DictObj):
        if a.rest is not None or b.rest is not None:
            return None
        if len(a.items) != len(b.items):
            return False
        answers: list[bool | None] = []
        for key, value in a.items.items():
            held = keys.find(m, b, key)
            other = b.items.get(held) if held is not None else None
            if other is None:
                return False if held is not None else None
            answers.append(equal(m, m.concrete(value), m.concrete(other)))
        return False if False in answers else (None if None in answers else True)
    return False


def _equal_instances(m: Machine, left: Value, right: Value) -> bool | None:
    """Two values of which one is an instance: by its fields, else by what it is."""
    a, b = (m.obj(v) if isinstance(v, Ref) else None for v in (left, right))
    if isinstance(a, InstanceObj) and isinstance(b, InstanceObj) and a.cls == b.cls:
        cls = m.obj(a.cls) if isinstance(a.cls, Ref) else None
        if isinstance(cls, ClassObj) and classes.is_enum(cls):
            own = classes.class_attribute(m, a.cls, "__eq__")
            return False if own is None else None  # members of one enum differ
        names = keys.compared_fields(m, a.cls)
        if names is not None:
            mine = keys.field_values(m, cast(Ref, left), a, names)
            theirs = keys.field_values(m, cast(Ref, right), b, names)
            return _pairwise(m, [m.concrete(v) for v in mine], [m.concrete(v) for v in theirs])
    for value, obj in ((left, a), (right, b)):
        # dataclasses are equal to nothing of another class, like what has no equality of its own
        if isinstance(obj, InstanceObj):
            if not keys.by_identity(m, obj.cls) and keys.compared_fields(m, obj.cls) is None:
                return None
        elif isinstance(value, Ext) and value.kind == "v":
            return None
    return False


def _comparable(m: Machine, value: Value) -> Value:
    """What a value compares like: a named tuple as a tuple, a namespace as a dict."""
    from gitsync.check.python import named_tuples

    if isinstance(value, Names):
        space = m.settle(value.oid)
        shown: dict[Value, Value] = {Const(k): v for k, v in visible(space).items()}
        return m.new(DictObj(shown, space.taint))
    obj = m.obj(value) if isinstance(value, Ref) else None
    if not isinstance(obj, InstanceObj) or classes.class_attribute(m, obj.cls, "__eq__"):
        return value
    held = named_tuples.items(m, obj)
    if held is not None:
        return TupleValue(tuple(held))
    return backed.plain(m, keys.plain_value(m, value))


def contains(m: Machine, owner: Value, item: Value) -> bool | None:
    """`item in owner` if it is certain."""
    owner = backed.plain(m, mappings.snapshot(m, owner))
    if isinstance(owner, Const) and isinstance(item, Const):
        try:
            return item.value in owner.value
        except TypeError:
            return None
    if isinstance(owner, Names):
        if (
            isinstance(item, Const)
            and isinstance(item.value, str)
            and m.space(owner.oid).taint is None
        ):
            return m.read(owner.oid, item.value) is not None
        return None
    items: list[Value] | None = None
    rest: Value | None = None
    if isinstance(owner, TupleValue):
        items = list(owner.items)
    elif isinstance(owner, Ref):
        obj = m.obj(owner)
        if isinstance(obj, ListObj):
            items, rest = obj.items, obj.rest
            if obj.kind == "iterator":
                return _taken_until(m, owner, item)
        elif isinstance(obj, DictObj):
            held = keys.find(m, obj, item)
            if held is not None and held in obj.items:
                return True
            items, rest = list(obj.items), obj.rest
    if items is None:
        return None
    answers = [equal(m, i, item) for i in items]
    if True in answers:
        return True
    return None if None in answers or rest is not None else False


def _taken_until(m: Machine, owner: Ref, item: Value) -> bool | None:
    """`item in iterator`, which takes the items out up to the one it looks for."""
    changed = cast(ListObj, m.state.change(owner.oid))
    while changed.items:
        same = equal(m, changed.items.pop(0), item)
        if same:
            return True
        if same is None:
            changed.rest = too_many(m, changed.items)
            changed.items = []
    return False if changed.rest is None else None


def constant(value: Any) -> Value:
    """A Python value as an abstract one."""
    if isinstance(value, tuple):
        return TupleValue(tuple(constant(v) for v in value))
    return Const(value)
