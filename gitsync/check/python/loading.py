"""Finding and loading modules: what a name means, and executing local files once, in order."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import statements
from gitsync.check.python.attributes import SPECIAL
from gitsync.check.python.facts import DISTRIBUTIONS, facts
from gitsync.check.python.files import Files
from gitsync.check.python.machine import Machine
from gitsync.check.python.source import TOO_NEW, Refused
from gitsync.check.python.state import State
from gitsync.check.python.values import (
    NONE,
    Const,
    Ext,
    InstanceObj,
    ListObj,
    Method,
    ModuleObj,
    Namespace,
    Opaque,
    Place,
    Ref,
    Unknown,
    Value,
)
from gitsync.check.python.worlds import (
    REGISTRY,
    SYS_MODULES,
    SYS_PATH,
    Frame,
    Kind,
    Outcome,
    Raised,
)

ROOT = "/srv/workspace"
PRIVATE = "_osmosis_rollout"
# A chain of imports deeper than this makes Python itself give up.
SAFE_CHAIN = 140
HOPELESS_CHAIN = 166

type Found = tuple[State, Value | Raised]


class Loader:
    """Finds and loads modules for one entrypoint."""

    def __init__(
        self, machine: Machine, files: Files, folder: str, installed: frozenset[str]
    ) -> None:
        self.m = machine
        self.files = files
        self.folder = folder
        self.installed = installed
        self.private = PRIVATE
        self.chain = 0
        self.facts = facts()
        self.loaded_files: dict[str, None] = {}

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
            m.state.add(oid, self._module(name, target, None))
            m.store(SYS_MODULES, name, Ref(oid))
            done += self.execute(m.state, Ref(oid), target)
        return m.join(done), oid

    def _private_package(self, state: State, name: str, folder: str) -> list[Outcome]:
        m = self.m
        m.state = state
        init = self._file(f"{folder}/__init__.py" if folder else "__init__.py")
        ref = m.new(self._module(name, init, (folder,)))
        m.store(SYS_MODULES, name, ref)
        return self.execute(state, ref, init) if init is not None else [Outcome(state)]

    def _module(
        self, name: str, path: str | None, package_paths: tuple[str, ...] | None
    ) -> ModuleObj:
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
        if package_paths is not None:
            paths: Value = Opaque("__path__")
            module.values["__path__"] = paths
        return module

    def _file(self, path: str) -> str | None:
        return self.files.resolve(path) if self.files.is_file(path) else None

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
        guards, m.guards = m.guards, 0
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
            outcomes = statements.block(m, frame, state, tree.body)
        finally:
            self.chain -= 1
            m.guards = guards
        m.at = at
        for outcome in outcomes:
            module = outcome.state.change(ref.oid)
            if isinstance(module, ModuleObj):
                module.done = True
        return m.join(outcomes)

    def show(self, name: str) -> str:
        """A module's name without the private prefix."""
        if name.startswith(self.private + "."):
            return name[len(self.private) + 1 :]
        return name

    def exported(self, module: str, name: str) -> Value | None:
        """A name of an SDK or standard-library module as a value."""
        path = f"{module}.{name}"
        if path in SPECIAL:
            return SPECIAL[path]
        known = self.facts.modules.get(module)
        if known is None:
            return None
        kept = self.m.read(REGISTRY, f"attribute:{path}")
        if kept is not None:
            return kept
        if path in self.facts.modules and name not in known["names"]:
            ours = path.startswith("osmosis_ai")
            return Ext(path, "m") if not ours or path in self.m.state.loaded else None
        found = self.facts.export(module, name)
        if found is None:
            return None
        kind, canonical = found
        if kind == "m":
            if canonical.startswith("osmosis_ai") and canonical not in self.m.state.loaded:
                self.m.state.loaded |= {canonical}
            if canonical.partition(".")[0] not in self.facts.stdlib and not canonical.startswith(
                "osmosis_ai"
            ):
                return Opaque(canonical)
            return Ext(canonical, "m")
        if canonical in SPECIAL:
            return SPECIAL[canonical]
        if path.startswith("typing.") or path.startswith("typing_extensions."):
            canonical = path.replace("typing_extensions.", "typing.")
        if module == "os.path" or module == "posixpath":
            canonical = f"os.path.{name}"
        if canonical.startswith("pydantic"):
            return Opaque(canonical) if kind != "c" else Ext(canonical, "c")
        return Ext(canonical, kind)

    def knows_all_names(self, module: str, name: str) -> bool:
        """True if a name that the data lacks certainly does not exist."""
        known = self.facts.modules.get(module)
        if known is None or known.get("opaque"):
            return False
        if module.startswith("osmosis_ai"):
            return True
        return self.m.minor == 12 and not name.startswith("_")

    def is_local(self, top: str) -> bool:
        """True if a module of that name was loaded from the repository."""
        found = self.m.space(SYS_MODULES).values.get(top)
        return isinstance(found, Ref)

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
        if obj.values.get("__path__") != Opaque("__path__"):
            return [(state, Unknown(m.place(frame, node), "the package changes its __path__"))]
        found = self._search(obj.package_paths, child)
        if found is None:
            if optional:
                return [(state, None)]  # type: ignore[list-item]
            return [(state, self._not_found(frame, name, node))]
        return self._load_local(frame, state, name, found, node, parent)

    def _not_found(self, frame: Frame, name: str, node: ast.AST) -> Raised:
        m = self.m
        value = m.new(InstanceObj(Ext("builtins.ModuleNotFoundError", "c")))
        return Raised(
            value, m.place(frame, node), f"there is no module {self.show(name)} in the rollout"
        )

    def _search(
        self, folders: tuple[str, ...], name: str
    ) -> tuple[str, tuple[str, ...] | None, str] | None:
        """(file, package folders, kind) of a local module: package, module, binary, namespace."""
        portions: list[str] = []
        for folder in folders:
            entries = self.files.names(folder)
            path = f"{folder}/{name}" if folder else name
            if name in entries and self.files.is_folder(path):
                init = self._file(f"{path}/__init__.py")
                if init is not None:
                    return init, (path,), "package"
                if any(
                    n.startswith("__init__.") and n.endswith((".so", ".pyc"))
                    for n in self.files.names(path)
                ):
                    return path, (path,), "binary"
            for entry in entries:
                if entry.startswith(f"{name}.") and entry.endswith(".so"):
                    return path, None, "binary"
            module = self._file(f"{path}.py") if f"{name}.py" in entries else None
            if module is not None:
                return module, None, "module"
            if f"{name}.pyc" in entries:
                return path, None, "binary"
            if name in entries and self.files.is_folder(path):
                portions.append(path)
        if portions:
            return "", tuple(portions), "namespace"
        return None

    def _search_path(self) -> tuple[list[str], Value | None]:
        """The local folders on `sys.path`, and what makes it uncertain."""
        obj = cast(ListObj, self.m.obj(Ref(SYS_PATH)))
        folders: list[str] = []
        doubt = obj.rest
        for item in obj.items:
            if isinstance(item, Const) and isinstance(item.value, str):
                text = item.value
                if text == ROOT or text.startswith(ROOT + "/"):
                    folders.append(text[len(ROOT) + 1 :])
                elif not text.startswith("/"):
                    doubt = doubt or Opaque()
            else:
                doubt = doubt or item
        return folders, doubt

    def _load_top(
        self, frame: Frame, state: State, name: str, node: ast.AST
    ) -> list[tuple[State, Value | Raised]]:
        m = self.m
        if name in self.facts.compiled or name in state.loaded or name in ("sys", "builtins"):
            return self._load_external(frame, state, name, node)
        folders, doubt = self._search_path()
        found = self._search(tuple(folders), name)
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
        if top in self.facts.stdlib or top == "osmosis_ai":
            known = self.facts.modules.get(name)
            exists = known is not None or top in self.facts.compiled or name.startswith("_")
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
            if known is not None:
                brought = known.get("loads", ())
                doubt = self._shadowed(state, brought, name)
                state.loaded |= {name, *brought}
                if doubt is not None:
                    return [(state, Unknown(m.place(frame, node), doubt))]
            return [(state, Ext(name, "m"))]
        loads = self.facts.dependencies.get(top)
        if loads:
            state.loaded |= set(loads)
        return self._third(frame, state, name, node)

    def _shadowed(self, state: State, brought: list[str], name: str) -> str | None:
        """A local file that a library would load instead of its own module."""
        entries = self.files.names(self.folder)
        for top in brought:
            if top.startswith("osmosis_ai") or top in state.loaded or top in self.facts.compiled:
                continue
            if f"{top}.py" in entries or (
                top in entries
                and f"{self.folder}/{top}/__init__.py"
                and self._file(f"{self.folder}/{top}/__init__.py")
            ):
                if top == name.partition(".")[0]:
                    continue
                return f"{name} would load the rollout's own {top}"
        return None

    def _third(
        self, frame: Frame, state: State, name: str, node: ast.AST
    ) -> list[tuple[State, Value | Raised]]:
        """A package that nobody here can read: there, or (inside a `try`) perhaps not."""
        m = self.m
        top = name.partition(".")[0]
        brought = top in self.facts.loaded or top in self.facts.dependencies
        value = Opaque(name, third=not (top in _SDK_OWN or (brought and top in _SDK_OWN)))
        if not m.guards:
            return [(state, value)]
        place = m.place(frame, node)
        other = state.fork()
        state.path = (*state.path, (place, 0, f"whether {top} is installed"))
        other.path = (*other.path, (place, 1, f"whether {top} is installed"))
        m.state = other
        missing = m.new(InstanceObj(Ext("builtins.ModuleNotFoundError", "c")))
        return [
            (state, value),
            (other, Raised(missing, place, f"{top} may not be installed", implicit=True)),
        ]

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
        module = self._module(name, path or None, folders)
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


_SDK_OWN = frozenset(
    [
        "pydantic",
        "pydantic_core",
        "fastapi",
        "starlette",
        "uvicorn",
        "httpx",
        "anyio",
        "typer",
        "rich",
        "click",
        "dotenv",
        "certifi",
        "keyring",
        "cryptography",
        "questionary",
        "prompt_toolkit",
        "packaging",
        "opentelemetry",
        "litellm",
        "strands",
        "agents",
        "harbor",
        "fsspec",
        "orjson",
        "aiohttp",
        "multidict",
        "urllib3",
        "mcp",
        "jwt",
        "yaml",
        "toml",
        "platformdirs",
        "pyarrow",
        "typing_extensions",
        "annotated_types",
    ]
)


def import_names(distribution: str) -> set[str]:
    """Top-level import names that a distribution probably brings."""
    names = {k for k, v in DISTRIBUTIONS.items() if v == distribution and "." not in k}
    return names | {distribution.replace("-", "_")}
