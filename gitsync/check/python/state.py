"""One possible world: the heap, and how worlds fork, are taken back and are joined again.

Objects are changed through `State.change`, which copies an object the first time a state touches it
after a fork or a mark. So a fork costs one dictionary copy, and `rewound` gives the world as it was
at a mark although the execution has already gone on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gitsync.check.python.heap import DictObj, FunctionObj, ListObj, Namespace, Obj
from gitsync.check.python.values import (
    UNBOUND,
    Alias,
    Bound,
    Decorator,
    Opaque,
    Partial,
    Place,
    Ref,
    Super,
    TupleValue,
    Union,
    Unknown,
    Value,
    View,
    Wrapped,
)

MAX_OPTIONS = 12
Choice = tuple[Place, int, str]


class State:
    """A heap with a journal of replaced objects and the choices that led here."""

    __slots__ = ("epoch", "heap", "journal", "loaded", "path")

    def __init__(self) -> None:
        self.heap: dict[int, Obj] = {}
        self.journal: list[tuple[int, Obj | None]] = []
        self.epoch = object()
        self.path: tuple[Choice, ...] = ()
        self.loaded: frozenset[str] = frozenset()

    def add(self, oid: int, obj: Obj) -> Ref:
        """Put a new object into the heap."""
        obj.epoch = self.epoch
        self.journal.append((oid, None))
        self.heap[oid] = obj
        return Ref(oid)

    def change(self, oid: int) -> Obj:
        """The object, ready to be changed in place by this state only."""
        obj = self.heap[oid]
        if obj.epoch is not self.epoch:
            new = obj.copy()
            new.epoch = self.epoch
            self.journal.append((oid, obj))
            self.heap[oid] = new
            return new
        return obj

    def mark(self) -> int:
        """From here on `rewound` can take changes back."""
        self.epoch = object()
        return len(self.journal)

    def fork(self) -> State:
        """An independent copy; both share what neither has changed."""
        new = State()
        new.heap = dict(self.heap)
        new.journal = list(self.journal)
        new.path = self.path
        new.loaded = self.loaded
        self.epoch = object()
        return new

    def rewound(self, mark: int, path: tuple[Choice, ...], loaded: frozenset[str]) -> State:
        """A copy of this state as it was at the mark."""
        new = self.fork()
        for oid, old in reversed(new.journal[mark:]):
            if old is None:
                new.heap.pop(oid, None)
            else:
                new.heap[oid] = old
        del new.journal[mark:]
        new.path = path
        new.loaded = loaded
        return new


def common_path(a: tuple[Choice, ...], b: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """The choices both worlds share, from the start."""
    size = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        size += 1
    return a[:size]


def parting(a: tuple[Choice, ...], b: tuple[Choice, ...]) -> Choice | None:
    """The first choice in which two worlds differ."""
    size = len(common_path(a, b))
    rest = a[size:] or b[size:]
    return rest[0] if rest else None


def union(values: list[Value], place: Place | None) -> Value:
    """One of the values; nested unions are flattened, too many harmless ones blur."""
    flat: list[Value] = []
    for value in values:
        for option in value.options if isinstance(value, Union) else (value,):
            if option not in flat:
                flat.append(option)
            if place is None and isinstance(value, Union):
                place = value.place
    if len(flat) == 1:
        return flat[0]
    return Union(tuple(flat), place)


def merge(
    a: State, b: State, *, force: bool, harmful: Callable[[State, Value], bool]
) -> State | None:
    """One state for both if that loses nothing (or if forced); None if they stay apart.

    Two worlds that differ in a single location are exactly described by a union there.
    """
    if same(a, b):
        a.path = common_path(a.path, b.path)
        return a
    if a.loaded != b.loaded and not force:
        return None
    changes: list[tuple[int, Obj, Obj]] = []
    other = b.heap
    for oid, obj in a.heap.items():
        theirs = other.get(oid)
        if theirs is not None and theirs is not obj:
            changes.append((oid, obj, theirs))
    found: list[tuple[int, str | None, Value, Value]] = []
    for oid, left, right in changes:
        if type(left) is not type(right):
            return None
        differing = _differences(left, right)
        if differing is None:
            if not force:
                return None
            continue
        found.extend((oid, key, x, y) for key, x, y in differing)
        if len(found) > 1 and not force:
            return None
    choice = parting(a.path, b.path)
    place = choice[0] if choice else None
    new = a.fork()
    for oid, obj in other.items():
        if oid not in new.heap:
            new.heap[oid] = obj
    for oid, left, right in changes:
        if force and _differences(left, right) is None:
            changed = new.change(oid)
            if isinstance(changed, ListObj | DictObj):
                _blur(changed, left, right, place, a, b, harmful)
            elif isinstance(changed, Namespace):
                changed.taint = Unknown(place or Place("", 1, 1), "an undecided branch changes it")
    for oid, key, left_value, right_value in found:
        target = new.change(oid)
        if key is None or not isinstance(target, Namespace):
            continue
        joined = union([left_value, right_value], place)
        if isinstance(joined, Union) and len(joined.options) > MAX_OPTIONS:
            bad = harmful(a, left_value) or harmful(b, right_value)
            unbound = UNBOUND in joined.options
            blurred: Value = (
                Unknown(place or Place("", 1, 1), "too many possible values") if bad else Opaque()
            )
            joined = union([blurred, UNBOUND], place) if unbound and not bad else blurred
        if joined == UNBOUND:
            target.values.pop(key, None)
        else:
            target.values[key] = joined
    new.path = common_path(a.path, b.path)
    new.loaded = a.loaded & b.loaded
    return new


def covered(a: State, b: State) -> bool:
    """True if `b` allows all that `a` is: where `b` has a union, one of its options will do."""
    return same(a, b, cover=True)


def same(a: State, b: State, *, cover: bool = False) -> bool:
    """True if both worlds are alike, objects made in either taken for each other."""
    changed = []
    other = b.heap
    for oid, obj in a.heap.items():
        theirs = other.get(oid)
        if theirs is not None and theirs is not obj:
            changed.append((obj, theirs))
    return a.loaded == b.loaded and _Likeness(a, b, cover).all(changed)


def _refs(numbers: Any) -> Any:
    if isinstance(numbers, tuple):
        return tuple(Ref(n) for n in numbers)
    return Ref(numbers) if isinstance(numbers, int) else numbers


class _Likeness:
    """Compares two heaps up to the numbers of their objects."""

    LIMIT = 4000

    def __init__(self, a: State, b: State, cover: bool) -> None:
        self.cover = cover
        self.a = a
        self.b = b
        self.pairs: dict[int, int] = {}
        self.pending: list[tuple[Obj, Obj]] = []
        self.count = 0

    def all(self, changed: list[tuple[Obj, Obj]]) -> bool:
        self.pending = list(changed)
        while self.pending:
            self.count += 1
            if self.count > self.LIMIT or not self._objects(*self.pending.pop()):
                return False
        return True

    def _objects(self, left: Obj, right: Obj) -> bool:
        if left is right:
            return True
        if type(left) is not type(right):
            return False
        if (
            isinstance(left, Namespace)
            and isinstance(right, Namespace)
            and not self._mapping(left.values, right.values)
        ):
            return False
        for kind in type(left).__mro__:
            for slot in getattr(kind, "__slots__", ()):
                if slot in _SHAPELESS:
                    continue
                mine, theirs = getattr(left, slot), getattr(right, slot)
                if isinstance(left, FunctionObj) and slot in ("module", "owner", "closure"):
                    mine, theirs = _refs(mine), _refs(theirs)
                if not self._alike(mine, theirs):
                    return False
        return True

    def _mapping(self, left: dict[Any, Any], right: dict[Any, Any]) -> bool:
        if self.cover:
            for key, theirs in right.items():
                if isinstance(theirs, Union):
                    mine = left.get(key, UNBOUND)
                    if mine != theirs and not any(self._alike(mine, o) for o in theirs.options):
                        return False
                elif key not in left:
                    return False
        elif len(left) != len(right):
            return False
        for key, value in left.items():
            theirs = right.get(key)
            if self.cover and isinstance(theirs, Union):
                continue
            if theirs is None or not self._alike(value, theirs):
                return False
        return True

    def _alike(self, left: Any, right: Any) -> bool:
        if type(left) is not type(right):
            return False
        if isinstance(left, Ref):
            if self.pairs.setdefault(left.oid, right.oid) != right.oid:
                return False
            if left.oid == right.oid:
                return True  # compared with the changed objects, or the same object
            mine, theirs = self.a.heap.get(left.oid), self.b.heap.get(right.oid)
            if mine is None or theirs is None:
                return False
            if left.oid in self.b.heap and right.oid in self.a.heap:
                return False  # both old: really two things
            self.pending.append((mine, theirs))
            return True
        if isinstance(left, tuple | list):
            return len(left) == len(right) and all(map(self._alike, left, right))
        if isinstance(left, dict):
            return self._mapping(left, right)
        if isinstance(
            left, TupleValue | Bound | Wrapped | Partial | Alias | Super | Decorator | View
        ):
            return all(
                self._alike(getattr(left, f), getattr(right, f)) for f in type(left).__slots__
            )
        return bool(left == right)


def _blur(
    target: ListObj | DictObj,
    left: Obj,
    right: Obj,
    place: Place | None,
    state: State,
    other: State,
    harmful: Callable[[State, Value], bool],
) -> None:
    values: list[Value] = []
    for obj in (left, right):
        if isinstance(obj, ListObj):
            values += [*obj.items, *([obj.rest] if obj.rest else [])]
        elif isinstance(obj, DictObj):
            values += [*obj.items.values(), *([obj.rest] if obj.rest else [])]
    bad = any(
        harmful(other if isinstance(v, Ref) and v.oid not in state.heap else state, v)
        for v in values
    )
    target.rest = (
        Unknown(place or Place("", 1, 1), "an undecided branch fills the container")
        if bad
        else Opaque()
    )
    if isinstance(target, ListObj):
        target.items = []
    else:
        target.items = {}


def _differences(left: Obj, right: Obj) -> list[tuple[str | None, Value, Value]] | None:
    """Keys whose values differ; None if the objects differ in something that is no name."""
    if isinstance(left, ListObj) and isinstance(right, ListObj):
        same = left.items == right.items and left.rest == right.rest and left.kind == right.kind
        return [] if same else None
    if isinstance(left, DictObj) and isinstance(right, DictObj):
        same = (
            left.items == right.items
            and list(left.items) == list(right.items)
            and left.rest == right.rest
        )
        return [] if same else None
    if not isinstance(left, Namespace) or not isinstance(right, Namespace):
        return None
    if left.taint != right.taint or not _same_shape(left, right):
        return None
    out: list[tuple[str | None, Value, Value]] = []
    mine, theirs = left.values, right.values
    for key, value in mine.items():
        their = theirs.get(key, UNBOUND)
        if their is not value and their != value:
            out.append((key, value, their))
    out.extend((key, UNBOUND, value) for key, value in theirs.items() if key not in mine)
    return out


_SHAPELESS = {"values", "epoch", "taint", "places", "done"}


def _same_shape(left: Namespace, right: Namespace) -> bool:
    """Both are the same thing but for the names in it."""
    if type(left) is not type(right):
        return False
    for kind in type(left).__mro__:
        for slot in getattr(kind, "__slots__", ()):
            if slot not in _SHAPELESS and getattr(left, slot) != getattr(right, slot):
                return False
    return True
