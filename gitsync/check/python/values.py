"""What a name may hold while a module is executed abstractly.

Immutable values are plain objects; everything that can change or that has an identity lives in the
heap of a `State` and is pointed to by a `Ref`. Four values stand for what is not known:

- `Opaque`: unknown, but certainly no component class (results of library calls, third-party names);
- `Unknown`: may be anything, components included; it carries the place that causes the doubt;
- `Union`: one of several values, which one depends on an undecided choice;
- `UNBOUND` (only inside a `Union`): the name may not be bound at all.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """A node in a file; `column` counts from 1 in UTF-8 bytes until a finding is made of it."""

    path: str
    line: int
    column: int
    text: str = field(default="", compare=False)


class Value:
    """Anything a name can hold."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Const(Value):
    """A constant known exactly."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is Const
            and type(other.value) is type(self.value)
            and other.value == self.value
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Ref(Value):
    """A heap object."""

    oid: int


@dataclass(frozen=True, slots=True)
class TupleValue(Value):
    """A tuple with known items."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class PathValue(Value):
    """A `pathlib` path whose text is known."""

    text: str


@dataclass(frozen=True, slots=True)
class Ext(Value):
    """A name of the SDK, the standard library or builtins, by its canonical path."""

    path: str
    kind: str = field(default="v", compare=False)  # c(lass), f(unction), m(odule), v(alue)


@dataclass(frozen=True, slots=True)
class Opaque(Value):
    """Unknown, but no component class. `path` tells where it came from, as `a.b()` or `a.b`.

    `third` marks names of packages that nobody here can read; `routed` a client that was pointed
    at a URL which is not literal; `carries` an object that a component class was handed to;
    `known` is what can be said nevertheless, for the warnings: how a text begins (`Const`), or
    the function under a library's decorator (`Decorated`).
    """

    path: str = "?"
    third: bool = False
    routed: bool = False
    carries: bool = False
    known: Const | Decorated | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Decorated:
    """What a library's decorator was given; `place` is the decorator's."""

    function: Value
    place: Place


@dataclass(frozen=True, slots=True)
class Unknown(Value):
    """May be anything; `place` is what causes the doubt."""

    place: Place
    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Unbound(Value):
    """No value: the name is not bound."""


UNBOUND = Unbound()
CHECKABLE = "\0checkable"  # marks a protocol that `isinstance` takes
ANNOTATIONS = "\0annotations"  # what a class body annotates, kept beside its names


@dataclass(frozen=True, slots=True)
class Union(Value):
    """One of `options`; `place` is the choice that decides."""

    options: tuple[Value, ...]
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Bound(Value):
    """A callable with its first argument fixed: a method."""

    function: Value
    owner: Value


@dataclass(frozen=True, slots=True)
class Method(Value):
    """A built-in method of a value, such as `list.append`."""

    owner: Value
    name: str


@dataclass(frozen=True, slots=True)
class Wrapped(Value):
    """staticmethod, classmethod, property, cached_property, partialmethod or a setter of one."""

    kind: str
    function: Value
    abstract: bool = False
    args: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Partial(Value):
    """functools.partial."""

    function: Value
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Super(Value):
    """`super()`: look-ups go on after `after` in the MRO of `owner`."""

    after: Value
    owner: Value


@dataclass(frozen=True, slots=True)
class Alias(Value):
    """`Class[argument]`: not a class, but a base stands for its origin."""

    origin: Value
    args: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Names(Value):
    """The dictionary behind a namespace: `globals()`, `vars(module)`, `__dict__`."""

    oid: int
    live: bool = True


@dataclass(frozen=True, slots=True)
class View(Value):
    """`keys`, `values` or `items` of a dict, which shows what the dict holds when it is used."""

    owner: Value
    name: str


@dataclass(frozen=True, slots=True)
class FieldOf:
    """One field of a dataclass, as its constructor sees it."""

    name: str
    required: bool
    keyword_only: bool
    handed_on: bool = False  # an `InitVar`, which only `__post_init__` gets
    accepted: bool = True  # by the constructor
    factory: Value | None = None
    metadata: Value | None = None


@dataclass(frozen=True, slots=True)
class DataclassInit(Value):
    """The constructor that `dataclass` writes."""

    fields: tuple[FieldOf, ...]


@dataclass(frozen=True, slots=True)
class Decorator(Value):
    """A standard decorator waiting for its function; `parts` are its arguments."""

    name: str
    parts: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Coroutine(Value):
    """A coroutine not yet awaited."""

    function: Value
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    cell: int = 0  # of a generator: where it is written how far it has been advanced


@dataclass(frozen=True, slots=True)
class Managed(Value):
    """What a function under `contextlib.contextmanager` gives: runs its generator in a `with`."""

    generator: Coroutine


@dataclass(frozen=True, slots=True, eq=False)
class Lazy(Value):
    """A generator expression; `cell` holds how far it has been advanced."""

    node: ast.AST
    frame: object
    source: Value
    cell: int = 0
    at: Place | None = None


NONE = Const(None)
TRUE = Const(True)
FALSE = Const(False)
