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
from typing import Any, Protocol


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
    at a URL which is not literal; `carries` an object that a component class was handed to.
    """

    path: str = "?"
    third: bool = False
    routed: bool = False
    carries: bool = False


@dataclass(frozen=True, slots=True)
class Unknown(Value):
    """May be anything; `place` is what causes the doubt."""

    place: Place
    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Unbound(Value):
    """No value: the name is not bound."""


UNBOUND = Unbound()
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


class Obj(Protocol):
    """A heap object; `epoch` tells which state may change it in place."""

    epoch: object

    def copy(self) -> Obj:
        """A shallow copy that another state may change."""


class Namespace:
    """Names and values; `taint` is set when something unknown may have changed any of them."""

    __slots__ = ("epoch", "taint", "values")
    epoch: object

    def __init__(
        self, values: dict[str, Value] | None = None, taint: Unknown | None = None
    ) -> None:
        self.values: dict[str, Value] = {} if values is None else values
        self.taint = taint
        self.epoch = None

    def copy(self) -> Namespace:
        """A shallow copy that another state may change."""
        return Namespace(dict(self.values), self.taint)


class ModuleObj(Namespace):
    """A module: its dotted name as Python sees it, the name to show, its file, its state."""

    __slots__ = ("done", "name", "package_paths", "path", "places", "shown")

    def __init__(
        self,
        name: str,
        shown: str,
        path: str | None,
        package_paths: tuple[str, ...] | None,
        values: dict[str, Value] | None = None,
        taint: Unknown | None = None,
    ) -> None:
        super().__init__(values, taint)
        self.name = name
        self.shown = shown
        self.path = path
        self.package_paths = package_paths
        self.done = False
        self.places: dict[str, Place] = {}

    def copy(self) -> ModuleObj:
        """A shallow copy that another state may change."""
        new = ModuleObj(
            self.name, self.shown, self.path, self.package_paths, dict(self.values), self.taint
        )
        new.done = self.done
        new.places = dict(self.places)
        return new


@dataclass(frozen=True, slots=True)
class FieldOf:
    """One field of a dataclass, as its constructor sees it."""

    name: str
    required: bool
    keyword_only: bool
    handed_on: bool = False  # an `InitVar`, which only `__post_init__` gets
    accepted: bool = True  # by the constructor
    factory: Value | None = None


class ClassObj(Namespace):
    """A class made by the repository's code."""

    __slots__ = (
        "abstract",
        "bases",
        "doubt",
        "fields",
        "frozen",
        "meta",
        "module",
        "mro",
        "name",
        "node",
        "place",
        "qualname",
        "raw_bases",
        "registered",
        "third_base",
    )

    def __init__(self, name: str, qualname: str, module: str, place: Place) -> None:
        super().__init__()
        self.name = name
        self.qualname = qualname
        self.module = module
        self.place = place
        self.node: ast.AST | None = None
        self.bases: tuple[Value, ...] = ()
        self.raw_bases: tuple[Value, ...] | None = None  # as written: aliases, `NamedTuple`
        self.mro: tuple[Value, ...] = ()
        self.meta: tuple[Value, ...] = ()
        self.abstract: frozenset[str] = frozenset()
        self.registered: tuple[Value, ...] = ()
        self.third_base: Place | None = None
        self.doubt: Unknown | None = None
        self.fields: tuple[FieldOf, ...] | None = None  # as a dataclass
        self.frozen = False  # as a dataclass

    def copy(self) -> ClassObj:
        """A shallow copy that another state may change."""
        new = ClassObj(self.name, self.qualname, self.module, self.place)
        for slot in (*ClassObj.__slots__, "taint"):
            setattr(new, slot, getattr(self, slot))
        new.values = dict(self.values)
        return new

    @property
    def shown(self) -> str:
        """`module:qualname`."""
        return f"{self.module}:{self.qualname}"


class FunctionObj(Namespace):
    """A function made by the repository's code; its attributes are the namespace's values."""

    __slots__ = (
        "closure",
        "defaults",
        "is_async",
        "is_generator",
        "kwdefaults",
        "module",
        "name",
        "node",
        "owner",
        "path",
        "qualname",
        "shown_module",
    )

    def __init__(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        name: str,
        qualname: str,
        module: int,
        path: str,
    ) -> None:
        super().__init__()
        self.node = node
        self.name = name
        self.qualname = qualname
        self.module = module
        self.path = path
        self.shown_module = ""
        self.closure: tuple[int, ...] = ()
        self.defaults: tuple[Value, ...] = ()
        self.kwdefaults: tuple[tuple[str, Value], ...] = ()
        self.is_async = isinstance(node, ast.AsyncFunctionDef)
        self.is_generator = False
        self.owner: int | None = None

    def copy(self) -> FunctionObj:
        """A shallow copy that another state may change."""
        new = FunctionObj(self.node, self.name, self.qualname, self.module, self.path)
        for slot in (*FunctionObj.__slots__, "taint"):
            setattr(new, slot, getattr(self, slot))
        new.values = dict(self.values)
        return new


class Scope(Namespace):
    """The local variables of a function call, a class body or a comprehension."""

    __slots__ = ("class_ref", "declared_global", "declared_nonlocal", "kind", "locals")

    def __init__(self, kind: str, local_names: frozenset[str]) -> None:
        super().__init__()
        self.kind = kind
        self.locals = local_names
        self.declared_global: frozenset[str] = frozenset()
        self.declared_nonlocal: frozenset[str] = frozenset()
        self.class_ref: Value | None = None

    def copy(self) -> Scope:
        """A shallow copy that another state may change."""
        new = Scope(self.kind, self.locals)
        new.values = dict(self.values)
        new.taint = self.taint
        new.declared_global = self.declared_global
        new.declared_nonlocal = self.declared_nonlocal
        new.class_ref = self.class_ref
        return new


class InstanceObj(Namespace):
    """An instance of a class, or of an external class (`Ext`) such as an exception.

    `args` are those it was made with, None for what Python itself makes.
    """

    __slots__ = ("args", "cls")

    def __init__(self, cls: Value, args: tuple[Value, ...] | None = None) -> None:
        super().__init__()
        self.cls = cls
        self.args = args

    def copy(self) -> InstanceObj:
        """A shallow copy that another state may change."""
        new = InstanceObj(self.cls, self.args)
        new.values = dict(self.values)
        new.taint = self.taint
        return new


class ListObj:
    """A list (or an iterator, a set) of known items; `rest` stands for further unknown ones."""

    __slots__ = ("epoch", "items", "kind", "rest")
    epoch: object

    def __init__(self, items: list[Value], kind: str = "list", rest: Value | None = None) -> None:
        self.items = items
        self.kind = kind  # list, set, frozenset, iterator, deque
        self.rest = rest
        self.epoch = None

    def copy(self) -> ListObj:
        """A shallow copy that another state may change."""
        return ListObj(list(self.items), self.kind, self.rest)


class DictObj:
    """A dict of known constant-like keys; `rest` stands for unknown entries."""

    __slots__ = ("epoch", "factory", "items", "rest")
    epoch: object

    def __init__(
        self,
        items: dict[Value, Value],
        rest: Value | None = None,
        factory: Value | None = None,
    ) -> None:
        self.items = items
        self.rest = rest
        self.factory = factory
        self.epoch = None

    def copy(self) -> DictObj:
        """A shallow copy that another state may change."""
        return DictObj(dict(self.items), self.rest, self.factory)
