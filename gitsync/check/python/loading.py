"""Loading modules: executing local files once, in order, parents first."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import statements
from gitsync.check.python.finding import HOPELESS_CHAIN, ROOT, SAFE_CHAIN, Finder
from gitsync.check.python.heap import InstanceObj, ModuleObj, Namespace
from gitsync.check.python.source import TOO_NEW, Refused
from gitsync.check.python.state import State
from gitsync.check.python.values import NONE, Const, Ext, Method, Opaque, Place, Ref, Unknown, Value
from gitsync.check.python.worlds import (
    SYS_MODULES,
    Frame,
    Kind,
    Outcome,
    Raised,
)


class Loader(Finder):
    """Loads modules for one entrypoint."""

    def load_entrypoint(self, entrypoint: str) -> tuple[list[Outcome], int]:
        """Load the private packages, then the entrypoint, as the SDK's loader does.

        `entrypoint` is the resolved path from the rollout folder. Gives the outcomes and the
        heap number of the entrypoint's module.
        """
        m = self.m
        state = m.state
        state.loaded = frozenset(
            n for n in self.facts.loaded if not n.startswith("osmosis_ai.rollout")
        )
        parts = entrypoint[: -len(".py")].split("/")
        outcomes = [Outcome(state)]
        name = self.private
        path = self.folder
        for part in [None, *parts[:-1]]:
            if part is not None:
                name = f"{name}.{part}"
                path = f"{path}/{part}" if path else part
            done: list[Outcome] = []
            for outcome in outcomes:
                if outcome.kind is Kind.NORMAL:
                    done += self._private_package(outcome.state, name, path)
                else:
                    done.append(outcome)
            outcomes = m.join(done)
        name = ".".join([self.private, *parts])
        target = f"{self.folder}/{entrypoint}" if self.folder else entrypoint
        done = []
        oid = -1
        for outcome in outcomes:
            if outcome.kind is not Kind.NORMAL:
                done.append(outcome)
                continue
            m.state = outcome.state
            if oid < 0:
                oid = m.next_oid
                m.next_oid += 1
            m.state.add(oid, self.make_module(name, target, None))
            m.store(SYS_MODULES, name, Ref(oid))
            done += self.execute(m.state, Ref(oid), target)
        return m.join(done), oid

    def _private_package(self, state: State, name: str, folder: str) -> list[Outcome]:
        m = self.m
        m.state = state
        init = self._file(f"{folder}/__init__.py" if folder else "__init__.py")
        ref = m.new(self.make_module(name, init, (folder,)))
        m.store(SYS_MODULES, name, ref)
        return self.execute(state, ref, init) if init is not None else [Outcome(state)]

    def make_module(
        self, name: str, path: str | None, package_paths: tuple[str, ...] | None
    ) -> ModuleObj:
        """A module that has not been executed yet."""
        shown = name
        if name == self.private:
            shown = "__init__"
        elif name.startswith(self.private + "."):
            shown = name[len(self.private) + 1 :]
        module = ModuleObj(name, shown, path, package_paths)
        package = name if package_paths is not None else name.rpartition(".")[0]
        module.values = {
            "__name__": Const(name),
            "__package__": Const(package),
            "__doc__": NONE,
            "__spec__": Method(NONE, "spec"),
            "__loader__": Method(NONE, "loader"),
            "__builtins__": Method(NONE, "builtins"),
        }
        if path is not None:
            module.values["__file__"] = Const(f"{ROOT}/{path}")
        elif package_paths is not None:
            module.values["__file__"] = NONE  # a namespace package has none
        if package_paths is not None:
            places: list[Value] = [Const(f"{ROOT}/{p}" if p else ROOT) for p in package_paths]
            module.values["__path__"] = self.m.list_of(places)
        return module

    def execute(self, state: State, ref: Ref, path: str) -> list[Outcome]:
        """Run a module's statements; its name must already stand in `sys.modules`."""
        m = self.m
        at = m.at
        self.loaded_files.setdefault(path)
        try:
            tree = m.sources.parse(path)
        except Refused as refused:
            m.state = state
            kind = "SyntaxError" if refused.code == "syntax-error" else "RecursionError"
            value = m.new(InstanceObj(Ext(f"builtins.{kind}", "c")))
            if refused.code == TOO_NEW:
                m.taint(ref.oid, Unknown(Place(path, refused.line, refused.column), refused.reason))
                return [Outcome(state)]
            raised = Raised(
                value, Place(path, refused.line, refused.column), refused.reason, refused=refused
            )
            return [Outcome(state, Kind.RAISE, raised=raised)]
        frame = Frame(module=ref.oid, path=path)
        frame.lazy_annotations = m.minor >= 14 or any(
            isinstance(n, ast.ImportFrom)
            and n.module == "__future__"
            and any(a.name == "annotations" for a in n.names)
            for n in tree.body[:20]
        )
        if frame.lazy_annotations:
            m.state = state
            m.store(ref.oid, "\0lazy", Const(True))
        docstring = ast.get_docstring(tree, clean=False)
        if docstring is not None:
            m.state = state
            m.store(ref.oid, "__doc__", Const(docstring))
        self.chain += 1
        try:
            if self.chain > SAFE_CHAIN:
                m.state = state
                place = Place(path, 1, 1)
                if self.chain > HOPELESS_CHAIN:
                    value = m.new(InstanceObj(Ext("builtins.RecursionError", "c")))
                    raised = Raised(value, at, "the chain of imports is too long for Python")
                    return [Outcome(state, Kind.RAISE, raised=raised)]
                if m.overflow is None:
                    m.overflow = place
            with m.guarded(0, m.guards + m.import_guards):
                outcomes = statements.block(m, frame, state, tree.body)
        finally:
            self.chain -= 1
        m.at = at
        for outcome in outcomes:
            module = outcome.state.change(ref.oid)
            if isinstance(module, ModuleObj):
                module.done = True
        return m.join(outcomes)

    def load_here(self, frame: Frame, name: str, node: ast.AST) -> Value:
        """Load a module from inside an expression."""
        m = self.m
        state = m.state
        at = m.at

        def run() -> list[Outcome]:
            out: list[Outcome] = []
            for after, value in self.load(frame, state, name, node):
                if isinstance(value, Raised):
                    out.append(Outcome(after, Kind.RAISE, raised=value))
                else:
                    out.append(Outcome(after, Kind.RETURN, value))
            return out

        outcome = m.pick_outcome(run, m.place(frame, node))
        m.at = at
        if outcome.raised is not None:
            raise outcome.raised
        return outcome.value or NONE

    def load(
        self,
        frame: Frame,
        state: State,
        name: str,
        node: ast.AST,
        *,
        optional: bool = False,
    ) -> list[tuple[State, Value | Raised]]:
        """Import a dotted name, parents first; gives the module the name stands for.

        With `optional`, a module that is not there gives None instead of an exception.
        """
        m = self.m
        m.state = state
        known = m.space(SYS_MODULES).values.get(name)
        if known is not None:
            if known == NONE:
                return [(state, self._not_found(frame, name, node))]
            return m.branches(state, lambda: m.read(SYS_MODULES, name) or NONE)
        parent, _, child = name.rpartition(".")
        if not parent:
            return self._load_child(frame, state, None, name, name, node, optional=optional)
        out: list[tuple[State, Value | Raised]] = []
        for after, found in self.load(frame, state, parent, node):
            if isinstance(found, Raised):
                out.append((after, found))
                continue
            m.state = after
            again = m.space(SYS_MODULES).values.get(name)
            if again is not None:
                out += m.branches(after, lambda: m.read(SYS_MODULES, name) or NONE)
                continue
            out += self._load_child(frame, after, found, name, child, node, optional=optional)
        return out

    def _load_child(
        self,
        frame: Frame,
        state: State,
        parent: Value | None,
        name: str,
        child: str,
        node: ast.AST,
        *,
        optional: bool,
    ) -> list[tuple[State, Value | Raised]]:
        m = self.m
        m.state = state
        if parent is None:
            return self._load_top(frame, state, name, node)
        if isinstance(parent, Unknown):
            return [(state, parent)]
        if isinstance(parent, Opaque):
            return self._third(frame, state, name, node)
        if isinstance(parent, Ext):
            return self._load_external(frame, state, name, node, optional=optional)
        obj = m.obj(parent) if isinstance(parent, Ref) else None
        if not isinstance(obj, ModuleObj):
            return [(state, Unknown(m.place(frame, node), "sys.modules was changed by hand"))]
        if obj.package_paths is None:
            if optional:
                return [(state, None)]  # type: ignore[list-item]
            return [(state, self._not_found(frame, name, node))]
        folders = self.folders_of(parent)
        if folders is None:
            doubt = Unknown(m.place(frame, node), "the package changes its __path__")
            m.state = state
            m.taint(cast(Ref, parent).oid, doubt)
            return [(m.state, doubt)]
        found = self.search(folders, child)
        if found is None:
            if optional:
                return [(state, None)]  # type: ignore[list-item]
            return [(state, self._not_found(frame, name, node))]
        return self._load_local(frame, state, name, found, node, parent)

    def _load_top(
        self, frame: Frame, state: State, name: str, node: ast.AST
    ) -> list[tuple[State, Value | Raised]]:
        m = self.m
        if name in self.facts.compiled or name in state.loaded or name in ("sys", "builtins"):
            return self._load_external(frame, state, name, node)
        folders, doubt = self._search_path()
        found = self.search(tuple(folders), name)
        known = name in self.facts.stdlib or name == "osmosis_ai" or name in self.facts.dependencies
        taken = name in self.facts.stdlib or name == "osmosis_ai" or name in self.installed
        if found is not None and found[2] == "namespace" and taken:
            found = None
        if found is not None and name in self.facts.loaded_by_cli:
            # The SDK's command line has loaded it, its bare loader has not: both may be.
            here = state.fork()
            here.path = (*here.path, (m.place(frame, node), 0, name))
            state.path = (*state.path, (m.place(frame, node), 1, name))
            return self._load_local(frame, here, name, found, node, None) + self._load_external(
                frame, state, name, node
            )
        if found is not None:
            return self._load_local(frame, state, name, found, node, None)
        if known:
            return self._load_external(frame, state, name, node)
        if doubt is not None:
            return [(state, Unknown(m.place(frame, node), "sys.path is changed in an unknown way"))]
        return self._third(frame, state, name, node)

    def _load_external(
        self, frame: Frame, state: State, name: str, node: ast.AST, *, optional: bool = False
    ) -> list[tuple[State, Value | Raised]]:
        m = self.m
        m.state = state
        top = name.partition(".")[0]
        out: list[tuple[State, Value | Raised]] = []
        if top in self.facts.stdlib or top == "osmosis_ai":
            known = self.facts.modules.get(name)
            exists = known is not None or name in self.facts.compiled or name.startswith("_")
            if top in self.facts.stdlib and known is None and "." in name and not optional:
                # `import os.path`: an attribute that is a module.
                parent, _, child = name.rpartition(".")
                export = self.facts.export(parent, child) if parent in self.facts.modules else None
                if export is not None and export[0] == "m":
                    return [(state, Ext(export[1], "m"))]
                if parent not in self.facts.modules or not self.facts.modules[parent].get(
                    "package"
                ):
                    exists = parent in self.facts.children
                else:
                    exists = parent not in self.facts.children
                if not exists and m.minor != 12:
                    exists = True
            if not exists:
                if optional:
                    return [(state, None)]  # type: ignore[list-item]
                return [(state, self._not_found(frame, name, node))]
            extra = self.missing_extras.get(name)
            if extra is not None and name not in state.loaded:
                out = self._without(frame, state, extra, node)
            if known is not None:
                brought = known.get("loads", ())
                doubt = self._shadowed(state, brought, name)
                state.loaded |= {name, *brought}
                if doubt is not None:
                    return [(state, Unknown(m.place(frame, node), doubt)), *out]
            return [(state, Ext(name, "m")), *out]
        loads = self.facts.dependencies.get(top)
        if loads:
            state.loaded |= set(loads)
        return self._third(frame, state, name, node)

    def _load_local(
        self,
        frame: Frame,
        state: State,
        name: str,
        found: tuple[str, tuple[str, ...] | None, str],
        node: ast.AST,
        parent: Value | None,
    ) -> list[tuple[State, Value | Raised]]:
        m = self.m
        path, folders, kind = found
        m.state = state
        if kind == "binary":
            return [(state, Unknown(m.place(frame, node), f"{name} is no readable source file"))]
        module = self.make_module(name, path or None, folders)
        ref = m.new(module)
        m.store(SYS_MODULES, name, ref)
        if kind == "namespace":
            self._attach(state, parent, name, ref)
            return [(state, ref)]
        out: list[tuple[State, Value | Raised]] = []
        for outcome in self.execute(state, ref, path):
            m.state = outcome.state
            if outcome.raised is not None:
                target = cast(Namespace, outcome.state.change(SYS_MODULES))
                target.values.pop(name, None)
                out.append((outcome.state, outcome.raised))
                continue
            current = m.space(SYS_MODULES).values.get(name, ref)
            self._attach(outcome.state, parent, name, current)
            out.append((outcome.state, current))
        return out

    def _attach(self, state: State, parent: Value | None, name: str, value: Value) -> None:
        """A loaded submodule becomes an attribute of its package."""
        if isinstance(parent, Ref):
            self.m.state = state
            self.m.store(parent.oid, name.rpartition(".")[2], value)
