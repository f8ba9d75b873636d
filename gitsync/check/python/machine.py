"""The abstract machine: looks names up, binds them and raises errors, in the present world."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from gitsync.check.python.heap import InstanceObj, Namespace, Scope
from gitsync.check.python.state import union
from gitsync.check.python.values import UNBOUND, Const, Ext, Opaque, Place, Ref, Union, Value

if TYPE_CHECKING:
    pass
from gitsync.check.python.worlds import Frame, Raised, Worlds


class Machine(Worlds):
    """Executes modules abstractly; one instance per entrypoint."""

    def load(self, frame: Frame, name: str, node: ast.AST) -> Value:
        """The value of a name, as Python would look it up."""
        if frame.scope is not None:
            scope = cast(Scope, self.state.heap[frame.scope])
            if name in scope.declared_global:
                return self._load_global(frame, name, node)
            if name not in scope.declared_nonlocal:
                found = scope.values.get(name)
                if found is not None:
                    return self._settle(frame.scope, name, found, frame, node)
                if scope.kind == "class" and scope.taint is not None:
                    return scope.taint
                if name in scope.locals and scope.kind != "class":
                    if scope.taint is not None:
                        return scope.taint
                    raise self.error(
                        frame,
                        node,
                        "UnboundLocalError",
                        f"the local name '{name}' is not bound yet",
                    )
        for oid in frame.closure:
            outer = cast(Scope, self.state.heap[oid])
            if outer.kind == "class":
                continue
            if name in outer.declared_global:
                break
            found = outer.values.get(name)
            if found is not None:
                return self._settle(oid, name, found, frame, node)
            if name in outer.locals:
                if outer.taint is not None:
                    return outer.taint
                raise self.error(frame, node, "NameError", f"the name '{name}' is not bound yet")
        if name == "__class__" and frame.class_ref is not None:
            return frame.class_ref
        return self._load_global(frame, name, node)

    def _load_global(self, frame: Frame, name: str, node: ast.AST) -> Value:
        module = self.space(frame.module)
        found = module.values.get(name)
        if found is not None:
            return self._settle(frame.module, name, found, frame, node)
        if module.taint is not None:
            return module.taint
        if "\0star" in module.values and name not in self.facts.builtins:
            return Opaque(name, third=True)
        kind = self.facts.builtins.get(name)
        if kind is not None:
            return builtin(name, kind)
        if name == "__annotations__":
            from gitsync.check.python import reflection

            noted = reflection.in_scope(self, frame, node)
            if noted is not None:
                return noted
        raise self.error(frame, node, "NameError", f"the name '{name}' is not defined")

    def _settle(self, oid: int, name: str, found: Value, frame: Frame, node: ast.AST) -> Value:
        """Decide a union where it is read, and remember the decision in its place."""
        taint = self.space(oid).taint
        if taint is not None and not isinstance(found, Const):
            return taint
        if not isinstance(found, Union):
            return found
        where = found.place or self.place(frame, node)
        value = found.options[self.choose(len(found.options), where, name)]
        target = cast(Namespace, self.state.change(oid))
        if value is UNBOUND or value == UNBOUND:
            target.values.pop(name, None)
            return self.load(frame, name, node)
        target.values[name] = value
        return value

    def read(self, oid: int, name: str) -> Value | None:
        """A value of a namespace, a union decided and remembered; None if it is not bound."""
        found = self.space(oid).values.get(name)
        if isinstance(found, Union):
            found = found.options[self.choose(len(found.options), found.place or self.at, name)]
            target = cast(Namespace, self.state.change(oid))
            if found == UNBOUND:
                target.values.pop(name)
                return None
            target.values[name] = found
        return found

    def settle(self, oid: int) -> Namespace:
        """A namespace in which no value is a union any more."""
        for name, value in list(self.space(oid).values.items()):
            if isinstance(value, Union):
                self.read(oid, name)
        return self.space(oid)

    def bind(self, frame: Frame, name: str, value: Value) -> None:
        """Assign to a name from this frame."""
        self.store(self.owner_of(frame, name), name, value)

    def owner_of(self, frame: Frame, name: str) -> int:
        """The namespace that an assignment to `name` would change."""
        if frame.scope is None:
            return frame.module
        scope = cast(Scope, self.state.heap[frame.scope])
        if name in scope.declared_global:
            return frame.module
        if name in scope.declared_nonlocal:
            for oid in frame.closure:
                outer = cast(Scope, self.state.heap[oid])
                if outer.kind != "class" and name in outer.locals:
                    return oid
        return frame.scope

    def unbind(self, frame: Frame, name: str, node: ast.AST) -> None:
        """`del name`."""
        oid = self.owner_of(frame, name)
        space = self.space(oid)
        value = space.values.get(name)
        if value is None:
            if space.taint is not None:
                return
            raise self.error(frame, node, "NameError", f"the name '{name}' is not defined")
        if isinstance(value, Union):
            self._settle(oid, name, value, frame, node)
        target = cast(Namespace, self.state.change(oid))
        target.values.pop(name, None)

    def error(self, frame: Frame, node: ast.AST, kind: str, reason: str) -> Raised:
        """An exception that is certainly raised here: a built-in one, or one with a dotted path."""
        path = kind if "." in kind else f"builtins.{kind}"
        value = self.new(InstanceObj(Ext(path, "c")))
        return Raised(value, self.at_or(frame, node), reason)

    @contextmanager
    def guarded(self, guards: int, import_guards: int) -> Iterator[None]:
        """Run with so many `try` around: in this module, and around the imports that led here.

        A library call is thought to fail only under the first; a package to be missing under both.
        """
        before = self.guards, self.import_guards
        self.guards, self.import_guards = guards, import_guards
        try:
            yield
        finally:
            self.guards, self.import_guards = before

    @contextmanager
    def handles(self, raised: Raised | None) -> Iterator[None]:
        """Run what Python runs while an exception is being handled."""
        before = self.handling
        if raised is not None:
            self.handling = [*before, raised.value]
        try:
            yield
        finally:
            self.handling = before

    def is_caught(self, raised: Raised) -> bool:
        """True if something further out may catch an exception that may happen."""
        return bool(self.guards or (self.import_guards and isinstance(raised.value, Ref)))

    def may_raise(self, node_place: Place, kind: str = "") -> None:
        """Something here may fail, with `kind` if that is known: in a `try` both ways are run."""
        if not (self.guards or (kind and self.import_guards)):
            return
        trail = self.trail
        if trail is None:
            return
        size = len(self.state.journal)
        if trail.raise_seen == size:
            return
        if kind:
            if self.choose(2, node_place, "an exception") == 1:
                value = self.new(InstanceObj(Ext(f"builtins.{kind}", "c")))
                raise Raised(value, node_place, f"{kind} may be raised", implicit=True)
            return
        trail.raise_seen = size
        if self.choose(2, node_place, "an exception") == 1:
            raise Raised(Opaque("exception"), node_place, "a library call may fail", implicit=True)

    def at_or(self, frame: Frame, node: ast.AST) -> Place:
        """The statement being executed, else the node itself."""
        return self.at if self.at.path else self.place(frame, node)


type Rule = Callable[["Machine", Frame, list[Value], dict[str, Value], ast.AST], Value]


def builtin(name: str, kind: str) -> Value:
    """A name of the builtins module as a value."""
    constants: dict[str, Value] = {
        "None": Const(None),
        "True": Const(True),
        "False": Const(False),
        "Ellipsis": Const(...),
        "__debug__": Const(True),
        "NotImplemented": Ext("builtins.NotImplemented"),
    }
    if name in constants:
        return constants[name]
    if kind.startswith("c:"):
        return Ext(kind[2:], "c")
    return Ext(f"builtins.{name}", "f" if kind.startswith("f") else "v")


def joined(values: Sequence[Value]) -> Value:
    """One of several values."""
    return union(list(values), None)
