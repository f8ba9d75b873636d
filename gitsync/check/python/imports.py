"""The import statements: names, submodules, relative and star imports."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python.heap import DictObj, InstanceObj, ListObj, ModuleObj
from gitsync.check.python.loading import Loader
from gitsync.check.python.state import State
from gitsync.check.python.values import Const, Ext, Opaque, Ref, TupleValue, Unknown, Value
from gitsync.check.python.worlds import (
    Frame,
    Kind,
    Outcome,
    Raised,
)

type Found = tuple[State, Value | Raised]


class Importer(Loader):
    """Executes import statements for one entrypoint."""

    def statement(
        self, frame: Frame, state: State, node: ast.Import | ast.ImportFrom
    ) -> list[Outcome]:
        """`import …` and `from … import …`."""
        outcomes = [Outcome(state)]
        if isinstance(node, ast.ImportFrom):
            if node.module == "__future__" and not node.level:
                state_frame = frame
                self.m.state = state
                for alias in node.names:
                    self.m.bind(state_frame, alias.asname or alias.name, Opaque("__future__"))
                return outcomes
            return self._from(frame, state, node)
        for alias in node.names:
            after: list[Outcome] = []
            for outcome in outcomes:
                if outcome.kind is not Kind.NORMAL:
                    after.append(outcome)
                    continue
                after += self._import_one(frame, outcome.state, alias, node)
            outcomes = after
        return self.m.join(outcomes)

    def _import_one(
        self, frame: Frame, state: State, alias: ast.alias, node: ast.Import
    ) -> list[Outcome]:
        m = self.m
        out: list[Outcome] = []
        for after, value in self.load(frame, state, alias.name, node):
            if isinstance(value, Raised):
                out.append(Outcome(after, Kind.RAISE, raised=value))
                continue
            m.state = after
            if alias.asname is not None:
                for again, named in self._named(frame, after, alias.name, value, node):
                    m.state = again
                    if isinstance(named, Raised):
                        out.append(Outcome(again, Kind.RAISE, raised=named))
                    else:
                        m.bind(frame, alias.asname, named)
                        out.append(Outcome(again))
                continue
            top = alias.name.partition(".")[0]
            for again, first in self.load(frame, after, top, node):
                m.state = again
                if isinstance(first, Raised):
                    out.append(Outcome(again, Kind.RAISE, raised=first))
                else:
                    m.bind(frame, top, first)
                    out.append(Outcome(again))
        return out

    def _named(
        self, frame: Frame, state: State, name: str, loaded: Value, node: ast.Import
    ) -> list[Found]:
        """`import a.b as c` reads `b` from `a`: a package may have put something else there."""
        top, *rest = name.split(".")
        if not rest or not isinstance(loaded, Ref):
            return [(state, loaded)]
        live = self.load(frame, state, top, node)
        full = top
        for part in rest:
            after: list[Found] = []
            for world, owner in live:
                if isinstance(owner, Raised):
                    after.append((world, owner))
                else:
                    after += self.member(frame, world, owner, full, part, node)
            live = after
            full = f"{full}.{part}"
        return live

    def absolute(self, frame: Frame, node: ast.ImportFrom) -> str | Raised:
        """The dotted name that a from-import means."""
        m = self.m
        if not node.level:
            return node.module or ""
        package = m.space(frame.module).values.get("__package__")
        base = package.value if isinstance(package, Const) else ""
        if not isinstance(base, str) or not base:
            return m.error(
                frame, node, "ImportError", "a relative import needs a package around the file"
            )
        parts = base.split(".")
        if node.level > len(parts):
            return m.error(
                frame, node, "ImportError", "the relative import goes beyond the top package"
            )
        base = ".".join(parts[: len(parts) - node.level + 1])
        return f"{base}.{node.module}" if node.module else base

    def _from(self, frame: Frame, state: State, node: ast.ImportFrom) -> list[Outcome]:
        m = self.m
        m.state = state
        name = self.absolute(frame, node)
        if isinstance(name, Raised):
            return [Outcome(state, Kind.RAISE, raised=name)]
        out: list[Outcome] = []
        for after, module in self.load(frame, state, name, node):
            if isinstance(module, Raised):
                out.append(Outcome(after, Kind.RAISE, raised=module))
                continue
            live = [Outcome(after)]
            for alias in node.names:
                following: list[Outcome] = []
                for outcome in live:
                    if alias.name == "*":
                        following += self._star(frame, outcome.state, module, name, node)
                    else:
                        following += self._from_one(frame, outcome.state, module, name, alias, node)
                live = [o for o in following if o.kind is Kind.NORMAL]
                out += [o for o in following if o.kind is not Kind.NORMAL]
            out += live
        return m.join(out)

    def _from_one(
        self,
        frame: Frame,
        state: State,
        module: Value,
        name: str,
        alias: ast.alias,
        node: ast.ImportFrom,
        missing: str = "ImportError",
    ) -> list[Outcome]:
        m = self.m
        at = m.place(frame, node)
        out: list[Outcome] = []
        for after, value in self.member(frame, state, module, name, alias.name, node, missing):
            m.state = after
            m.at = at
            if isinstance(value, Raised):
                out.append(Outcome(after, Kind.RAISE, raised=value))
            else:
                m.bind(frame, alias.asname or alias.name, value)
                out.append(Outcome(after))
        return out

    def member(
        self,
        frame: Frame,
        state: State,
        module: Value,
        module_name: str,
        name: str,
        node: ast.AST,
        missing: str = "ImportError",
    ) -> list[Found]:
        """`from module import name`: an attribute, else a submodule, else the error `missing`."""
        m = self.m
        at = m.at

        def read() -> Value | None:
            m.at = at
            return self._attribute(frame, module, name, node)

        out: list[Found] = []
        for after, value in m.branches(state, read):
            if isinstance(value, Raised) or value is not None:
                out.append((after, value))
                continue
            package = m.state.heap.get(module.oid) if isinstance(module, Ref) else None
            is_package = (isinstance(package, ModuleObj) and package.package_paths is not None) or (
                isinstance(module, Ext) and module.kind == "m"
            )
            if not is_package:
                m.state = after
                out.append((after, self._missing(frame, module_name, name, node, missing)))
                continue
            full = f"{module_name}.{name}"
            for again, found in self.load(frame, after, full, node, optional=True):
                if found is None:
                    m.state = again
                    found = self._missing(frame, module_name, name, node, missing)
                out.append((again, found))
        return out

    def _missing(self, frame: Frame, module: str, name: str, node: ast.AST, kind: str) -> Raised:
        m = self.m
        shown = self.show(module)
        value = m.new(InstanceObj(Ext(f"builtins.{kind}", "c")))
        m.store(value.oid, "name", Const(module if kind == "ImportError" else name))
        return Raised(value, m.place(frame, node), f"{shown} has no name '{name}'")

    def _attribute(self, frame: Frame, module: Value, name: str, node: ast.AST) -> Value | None:
        from gitsync.check.python import calls

        m = self.m
        if isinstance(module, Ref):
            obj = m.obj(module)
            if not isinstance(obj, ModuleObj):
                from gitsync.check.python import attributes

                return attributes.get(m, frame, module, name, node)
            found = m.read(module.oid, name)
            if found is not None:
                return found
            if obj.taint is not None:
                return obj.taint
            if "\0star" in obj.values and "__all__" not in obj.values:
                return Opaque(name, third=True)
            hook = obj.values.get("__getattr__")
            if hook is not None:
                try:
                    return calls.call(m, frame, m.concrete(hook), [Const(name)], {}, node)
                except Raised as raised:
                    from gitsync.check.python.classes import exception_matches

                    if exception_matches(m, raised.value, Ext("builtins.AttributeError", "c")):
                        return None
                    raise
            return None
        if isinstance(module, Ext):
            return self._external_member(module, name)
        if isinstance(module, Unknown):
            return module
        if isinstance(module, Opaque):
            from gitsync.check.python.attributes import BACKPORTED

            if module.path == "typing_extensions" and name in BACKPORTED:
                return BACKPORTED[name]
            m.may_raise(m.place(frame, node))
            return Opaque(f"{module.path}.{name}", third=module.third)
        return Opaque()

    def _external_member(self, module: Ext, name: str) -> Value | None:
        found = self.exported(module.path, name)
        if found is not None:
            return found
        if f"{module.path}.{name}" in self.facts.modules:
            return None
        if self.knows_all_names(module.path, name):
            return None
        return Ext(f"{module.path}.{name}")

    def _star(
        self, frame: Frame, state: State, module: Value, name: str, node: ast.ImportFrom
    ) -> list[Outcome]:
        m = self.m
        m.state = state
        names: list[str] = []
        if isinstance(module, Ext):
            known = self.facts.modules.get(module.path, {})
            names = list(known.get("all") or ())
            if not names:
                names = [n for n in known.get("plain", known.get("names", ())) if n[:1] != "_"]
        elif isinstance(module, Ref):
            obj = m.obj(module)
            if not isinstance(obj, ModuleObj):
                return self._taint(frame, state, Unknown(m.place(frame, node), "a star import"))
            return self._star_local(frame, state, module, name, node)
        elif isinstance(module, Unknown):
            return self._taint(frame, state, module)
        else:
            # Names of a third-party package: harmless ones, but which is not known.
            m.store(frame.module, "\0star", Const(name))
            return [Outcome(m.state)]
        return self._star_names(frame, state, module, name, names, node)

    def _star_local(
        self, frame: Frame, state: State, module: Ref, name: str, node: ast.ImportFrom
    ) -> list[Outcome]:
        """The names that `__all__` lists, wherever it comes from; else the public ones."""
        m = self.m
        out: list[Outcome] = []

        def exported() -> list[str] | Unknown | None:
            listed = self._attribute(frame, module, "__all__", node)
            return None if listed is None else self._all_names(frame, listed, node)

        for after, names in m.branches(state, exported):
            m.state = after
            obj = cast(ModuleObj, m.obj(module))
            if isinstance(names, Raised):
                out.append(Outcome(after, Kind.RAISE, raised=names))
                continue
            if names is None and obj.taint is not None:
                names = obj.taint
            if isinstance(names, Unknown):
                out += self._taint(frame, after, names)
                continue
            is_listed = names is not None
            if names is None:
                names = [n for n in obj.values if not n.startswith(("_", "\0"))]
                if "\0star" in obj.values:
                    m.store(frame.module, "\0star", Const(name))
            out += self._star_names(frame, after, module, name, names, node, is_listed=is_listed)
        return out

    def _star_names(
        self,
        frame: Frame,
        state: State,
        module: Value,
        name: str,
        names: list[str],
        node: ast.ImportFrom,
        *,
        is_listed: bool = True,
    ) -> list[Outcome]:
        live = [Outcome(state)]
        out: list[Outcome] = []
        for each in names:
            alias = ast.alias(name=each, asname=None)
            following: list[Outcome] = []
            for outcome in live:
                if is_listed or not isinstance(module, Ref):
                    # read as an attribute, once its submodule was tried
                    following += self._from_one(
                        frame, outcome.state, module, name, alias, node, "AttributeError"
                    )
                else:
                    following += self._star_one(frame, outcome.state, module, alias, node)
            live = [o for o in following if o.kind is Kind.NORMAL]
            out += [o for o in following if o.kind is not Kind.NORMAL]
        return out + live

    def _star_one(
        self, frame: Frame, state: State, module: Ref, alias: ast.alias, node: ast.ImportFrom
    ) -> list[Outcome]:
        """One public name of a star import; it may be bound in some worlds only."""
        m = self.m
        out: list[Outcome] = []
        for after, value in m.branches(state, lambda: m.read(module.oid, alias.name)):
            m.state = after
            m.at = m.place(frame, node)
            if value is not None and not isinstance(value, Raised):
                m.bind(frame, alias.name, value)
            out.append(Outcome(after))
        return out

    def _all_names(self, frame: Frame, exported: Value, node: ast.AST) -> list[str] | Unknown:
        """What a star import reads from `__all__`: items by number, each of them a string."""
        m = self.m
        value = m.concrete(exported)
        items: list[Value] | None = None
        if isinstance(value, Unknown):
            return value
        if isinstance(value, Ref):
            obj = m.obj(value)
            if isinstance(obj, ListObj) and obj.kind in ("list", "tuple"):
                items = list(obj.items) if obj.rest is None else None
            elif not isinstance(obj, InstanceObj | DictObj):
                raise m.error(frame, node, "TypeError", "__all__ is no sequence")
        elif isinstance(value, TupleValue):
            items = list(value.items)
        elif isinstance(value, Const):
            if not isinstance(value.value, str):
                raise m.error(frame, node, "TypeError", "__all__ is no sequence of names")
            items = [Const(c) for c in value.value]
        if items is not None:
            items = [m.concrete(i) for i in items]
            if all(isinstance(i, Const) and isinstance(i.value, str) for i in items):
                return [i.value for i in items if isinstance(i, Const)]
            if not any(isinstance(i, Opaque | Unknown) for i in items):
                raise m.error(frame, node, "TypeError", "__all__ lists what is no string")
        return m.unknown(frame, node, "the names that __all__ lists are not known")

    def _taint(self, frame: Frame, state: State, cause: Unknown) -> list[Outcome]:
        self.m.state = state
        self.m.taint(frame.module, cause)
        return [Outcome(state)]
