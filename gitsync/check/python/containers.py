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
    protocols,
    reach,
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
    if any(reach.touches(m.state, v) for v in values):
        return m.unknown(frame, node, "the contents of the container are not known")
    first = values[0] if values else None
    return first if isinstance(first, Opaque) and len(values) == 1 else Opaque()


def hashable(m: Machine, key: Value) -> bool:
    """True if equal keys are equal values here."""
    if isinstance(key, TupleValue):
        return all(hashable(m, k) for k in key.items)
    if isinstance(key, Ref):
        obj = m.obj(key)
        if isinstance(obj, InstanceObj):
            return classes.class_attribute(m, obj.cls, "__hash__") is None
        return isinstance(obj, ClassObj | FunctionObj | ModuleObj)
    return isinstance(key, Const | PathValue) or (isinstance(key, Ext) and key.kind in "cfm")


def require_hashable(m: Machine, frame: Frame, key: Value, node: ast.AST) -> None:
    """Raise what Python does for a key, or an item of a set, that certainly has no hash."""
    if isinstance(key, TupleValue):
        for item in key.items:
            require_hashable(m, frame, item, node)
    elif isinstance(key, Ref):
        obj = m.obj(key)
        kind = "dict" if isinstance(obj, DictObj) else getattr(obj, "kind", "")
        if isinstance(obj, ListObj | DictObj) and kind in ("list", "set", "dict", "deque"):
            raise m.error(frame, node, "TypeError", f"a {kind} cannot be hashed")
        if protocols.has_no_hash(m, key):
            raise m.error(frame, node, "TypeError", "this object cannot be hashed")


def same_key(items: dict[Value, Value], key: Value) -> Value:
    """The key that stands for this one in a dict: 1, 1.0 and True are one key."""
    if key in items or not isinstance(key, Const) or not isinstance(key.value, int | float):
        return key
    for kind in (int, float, bool):
        try:
            other = Const(kind(key.value))
        except (OverflowError, ValueError):
            continue
        if other.value == key.value and other in items:
            return other
    return key


def as_key(m: Machine, frame: Frame, key: Value, node: ast.AST) -> Value:
    """A value as a dict or a set sees it; raises for one that has no hash."""
    from gitsync.check.python import enums

    require_hashable(m, frame, key, node)
    return enums.plain_value(m, key)


def put(m: Machine, frame: Frame, obj: DictObj, key: Value, value: Value, node: ast.AST) -> None:
    """Set an item of a dict object that may be changed in place."""
    key = as_key(m, frame, key, node)
    if hashable(m, key):
        obj.items[same_key(obj.items, key)] = value
        return
    known = [value, *([obj.rest] if obj.rest is not None else [])]
    obj.rest = blurred(m, frame, known, node)


def absorb(m: Machine, obj: DictObj, value: Value) -> None:
    """`**value` or `update(value)` into a dict object."""
    value = backed.plain(m, value)
    if isinstance(value, Ref):
        other = m.obj(value)
        if isinstance(other, DictObj):
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


def new_set(m: Machine, items: list[Value], rest: Value | None, kind: str = "set") -> Value:
    """A set of values."""
    out: list[Value] = []
    for item in items:
        if item not in out or not hashable(m, item):
            out.append(item)
    return m.list_of(out, kind, rest)


def comprehended(
    m: Machine, frame: Frame, items: list[Value], more: bool, kind: str, node: ast.AST
) -> Value:
    """The result of a comprehension."""
    if more:
        return m.list_of([], kind, blurred(m, frame, items, node))
    if kind == "set":
        return new_set(m, items, None)
    return m.list_of(items, kind)


def known_items(
    m: Machine, frame: Frame, value: Value, node: ast.AST
) -> tuple[list[Value], Value | None] | None:
    """Items in order and unknown further ones; None if the value is of another kind."""
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
        if a is not None and b is not None and "set" not in (a.kind, b.kind):
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
    a_set, b_set = _list(m, left), _list(m, right)
    if a_set and b_set and a_set.kind in ("set", "frozenset"):
        if isinstance(op, ast.BitOr):
            return new_set(m, [*a_set.items, *b_set.items], a_set.rest or b_set.rest, a_set.kind)
        if a_set.rest is None and b_set.rest is None:
            if isinstance(op, ast.BitAnd):
                return new_set(m, [i for i in a_set.items if i in b_set.items], None, a_set.kind)
            if isinstance(op, ast.Sub):
                return new_set(
                    m, [i for i in a_set.items if i not in b_set.items], None, a_set.kind
                )
    return None


def _list(m: Machine, value: Value) -> ListObj | None:
    if isinstance(value, Ref):
        obj = m.obj(value)
        return obj if isinstance(obj, ListObj) else None
    return None


def update_in_place(m: Machine, owner: Ref, op: ast.operator, value: Value) -> bool:
    """`|=` on dicts and sets."""
    obj = m.obj(owner)
    if not isinstance(op, ast.BitOr):
        return False
    if isinstance(obj, DictObj):
        changed = cast(DictObj, m.state.change(owner.oid))
        absorb(m, changed, value)
        return True
    return False


def equal(m: Machine, left: Value, right: Value) -> bool | None:
    """`left == right` if it is certain."""
    left, right = _as_tuple(m, left), _as_tuple(m, right)
    if isinstance(left, Const) and isinstance(right, Const):
        try:
            return bool(left.value == right.value)
        except (TypeError, ValueError, RecursionError):
            return None
    if isinstance(left, TupleValue) and isinstance(right, TupleValue):
        if len(left.items) != len(right.items):
            return False
        answers = [equal(m, a, b) for a, b in zip(left.items, right.items, strict=True)]
        return False if False in answers else (None if None in answers else True)
    if isinstance(left, PathValue) and isinstance(right, PathValue):
        return left.text == right.text
    if isinstance(left, Ref) and isinstance(right, Ref):
        if left.oid == right.oid:
            return True
        a, b = m.obj(left), m.obj(right)
        plain = (ClassObj, FunctionObj, ModuleObj)
        if isinstance(a, plain) or isinstance(b, plain):
            return False
        if isinstance(a, ListObj) and isinstance(b, ListObj) and not a.rest and not b.rest:
            if a.kind != b.kind or len(a.items) != len(b.items):
                return False
            answers = [equal(m, x, y) for x, y in zip(a.items, b.items, strict=True)]
            return (
                None
                if a.kind == "set"
                else (False if False in answers else (None if None in answers else True))
            )
        if isinstance(a, DictObj) and isinstance(b, DictObj) and not a.rest and not b.rest:
            if len(a.items) != len(b.items):
                return False
            pairs = [(v, b.items.get(same_key(b.items, k))) for k, v in a.items.items()]
            if any(other is None for _, other in pairs):
                return False if all(isinstance(k, Const) for k in (*a.items, *b.items)) else None
            answers = [
                equal(m, m.concrete(v), m.concrete(other))
                for v, other in pairs
                if other is not None
            ]
            return False if False in answers else (None if None in answers else True)
        if _is_plain_enum(m, left) and _is_plain_enum(m, right):
            return False
        if isinstance(a, InstanceObj) and isinstance(b, InstanceObj) and a.cls == b.cls:
            cls = m.obj(a.cls) if isinstance(a.cls, Ref) else None
            if isinstance(cls, ClassObj) and classes.is_enum(cls):
                own = classes.class_attribute(m, a.cls, "__eq__")
                return False if own is None else None  # members of one enum differ
        return None
    if isinstance(left, Const) or isinstance(right, Const):
        other = right if isinstance(left, Const) else left
        const = left if isinstance(left, Const) else right
        if isinstance(other, Ref) and isinstance(m.obj(other), InstanceObj):
            from gitsync.check.python import enums

            held = enums.plain_value(m, other)
            if isinstance(held, Const):
                return equal(m, held, const)
            return False if _is_plain_enum(m, other) else None
        if isinstance(other, Ref | TupleValue | PathValue):
            return False
        return None
    return comparing.identical(m, left, right)


def _as_tuple(m: Machine, value: Value) -> Value:
    """A named tuple, or an own tuple, as the tuple that it compares like."""
    from gitsync.check.python import named_tuples

    obj = m.obj(value) if isinstance(value, Ref) else None
    held = named_tuples.items(m, obj) if isinstance(obj, InstanceObj) else None
    if held is not None:
        return TupleValue(tuple(held))
    plain = backed.plain(m, value)
    return plain if isinstance(plain, TupleValue) else value


def _is_plain_enum(m: Machine, value: Value) -> bool:
    """True for a member of an enum that is equal to itself only."""
    obj = m.obj(value) if isinstance(value, Ref) else None
    cls = m.obj(obj.cls) if isinstance(obj, InstanceObj) and isinstance(obj.cls, Ref) else None
    if not isinstance(obj, InstanceObj) or not isinstance(cls, ClassObj):
        return False
    bare = all(isinstance(p, Ref) or p == Ext("enum.Enum") for p in cls.mro)
    return bare and classes.is_enum(cls) and classes.class_attribute(m, obj.cls, "__eq__") is None


def contains(m: Machine, owner: Value, item: Value) -> bool | None:
    """`item in owner` if it is certain."""
    owner = backed.plain(m, owner)
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
        elif isinstance(obj, DictObj):
            items, rest = list(obj.items), obj.rest
    if items is None:
        return None
    answers = [equal(m, i, item) for i in items]
    if True in answers:
        return True
    return None if None in answers or rest is not None else False


def constant(value: Any) -> Value:
    """A Python value as an abstract one."""
    if isinstance(value, tuple):
        return TupleValue(tuple(constant(v) for v in value))
    return Const(value)
