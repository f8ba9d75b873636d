"""Sets, frozen sets and the views of a dict that are used as sets."""

from __future__ import annotations

import ast
from typing import TypeGuard, cast

from gitsync.check.python import keys, reach
from gitsync.check.python.heap import ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import Opaque, Ref, Unknown, Value

_VIEWS = ("keys", "items")
_KINDS = ("set", "frozenset", *_VIEWS)


def new_set(m: Machine, items: list[Value], rest: Value | None, kind: str = "set") -> Ref:
    """A set of values; those of which it is not certain whom they equal become its `rest`."""
    if len(items) < 2:
        return m.list_of(list(items), kind, rest)
    seen: set[Value] = set()
    out: list[Value] = []
    unclear: list[Value] = []
    for item in items:
        key = keys.canonical(m, item)
        if key is None:
            unclear.append(item)
        elif key not in seen:
            seen.add(key)
            out.append(item)
    if unclear:
        some = [*unclear, *([rest] if rest is not None else [])]
        reason = "it is not certain which items of a set are equal"
        harmful = any(reach.touches(m.state, v) for v in some)
        rest = Unknown(m.at, reason) if harmful else Opaque()
    return m.list_of(out, kind, rest)


def _sides(m: Machine, left: Value, right: Value) -> tuple[ListObj, ListObj] | None:
    """The operands of a set operator; a view takes any container as the other one."""
    a, b = (m.obj(v) if isinstance(v, Ref) else None for v in (left, right))
    if not isinstance(a, ListObj) or not isinstance(b, ListObj):
        return None
    both = a.kind in _KINDS and b.kind in _KINDS
    return (a, b) if both or a.kind in _VIEWS or b.kind in _VIEWS else None


def combine(m: Machine, op: ast.operator, left: Value, right: Value) -> Ref | None:
    """`|`, `&`, `-` and `^` of two sets; None if not these or not certain."""
    sides = _sides(m, left, right)
    if sides is None:
        return None
    a, b = sides
    kind = "frozenset" if a.kind == "frozenset" else "set"
    if isinstance(op, ast.BitOr):
        rests = [r for r in (a.rest, b.rest) if r is not None]
        worst = next((r for r in rests if isinstance(r, Unknown)), rests[0] if rests else None)
        return new_set(m, [*a.items, *b.items], worst, kind)
    mine, theirs = (None if s.rest is not None else keys.item_set(m, s.items) for s in sides)
    if mine is None or theirs is None:
        return None
    if isinstance(op, ast.BitAnd):
        kept = [i for i in a.items if keys.canonical(m, i) in theirs]
    elif isinstance(op, ast.Sub | ast.BitXor):
        kept = [i for i in a.items if keys.canonical(m, i) not in theirs]
        if isinstance(op, ast.BitXor):
            kept += [i for i in b.items if keys.canonical(m, i) not in mine]
    else:
        return None
    return new_set(m, kept, None, kind)


def combine_in_place(m: Machine, op: ast.operator, owner: Ref, value: Value) -> bool:
    """`|=` and the like, which change a set and leave a frozen one; False if not worked out."""
    obj = m.obj(owner)
    if not isinstance(obj, ListObj) or obj.kind != "set":
        return False
    made = combine(m, op, owner, value)
    if made is None:
        return False
    result = cast(ListObj, m.obj(made))
    changed = cast(ListObj, m.state.change(owner.oid))
    changed.items, changed.rest = list(result.items), result.rest
    return True


def is_subset(m: Machine, left: Value, right: Value) -> bool | None:
    """`left <= right` of two sets; None if they are none or it is not certain."""
    sides = _sides(m, left, right)
    if sides is None:
        return None
    mine, theirs = (None if s.rest is not None else keys.item_set(m, s.items) for s in sides)
    return None if mine is None or theirs is None else mine <= theirs


def ordered(m: Machine, op: ast.cmpop, left: Value, right: Value) -> bool | None:
    """`<`, `<=`, `>` and `>=` of two sets."""
    if isinstance(op, ast.Gt | ast.GtE):
        left, right = right, left
    below = is_subset(m, left, right)
    if below is not True or isinstance(op, ast.LtE | ast.GtE):
        return below
    above = is_subset(m, right, left)
    return None if above is None else not above


def equal(m: Machine, left: Ref, right: Ref) -> bool | None:
    """`left == right` for two sets; None if it is not certain."""
    below, above = is_subset(m, left, right), is_subset(m, right, left)
    if False in (below, above):
        return False
    return None if None in (below, above) else True


def is_view(obj: object) -> TypeGuard[ListObj]:
    """True for `keys()` and `items()` of a dict."""
    return isinstance(obj, ListObj) and obj.kind in _VIEWS


def is_set(obj: object) -> bool:
    """True for what compares as a set."""
    return isinstance(obj, ListObj) and obj.kind in _KINDS
