"""What values point to: objects that change or have an identity, in the heap of a state."""

from __future__ import annotations

import ast
from typing import Protocol

from gitsync.check.python.values import (
    FieldOf,
    Place,
    Unknown,
    Value,
)


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

    __slots__ = ("epoch", "items", "kind", "limit", "rest")
    epoch: object

    def __init__(self, items: list[Value], kind: str = "list", rest: Value | None = None) -> None:
        self.items = items
        self.kind = kind  # list, set, frozenset, iterator, deque
        self.rest = rest
        self.limit: int | None = None  # how many items a deque keeps
        self.epoch = None

    def copy(self) -> ListObj:
        """A shallow copy that another state may change."""
        new = ListObj(list(self.items), self.kind, self.rest)
        new.limit = self.limit
        return new


class DictObj:
    """A dict of known constant-like keys; `rest` stands for unknown entries."""

    __slots__ = ("epoch", "factory", "is_dressed", "items", "rest")
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
        self.is_dressed = False  # some key is not what equal keys look like
        self.epoch = None

    def copy(self) -> DictObj:
        """A shallow copy that another state may change."""
        new = DictObj(dict(self.items), self.rest, self.factory)
        new.is_dressed = self.is_dressed
        return new
