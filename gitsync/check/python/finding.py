"""Where a module name leads: local files, the SDK, the standard library, other packages."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import comparing
from gitsync.check.python.attributes import SPECIAL
from gitsync.check.python.facts import DISTRIBUTIONS, EXTRA_OF_PREFIX, facts
from gitsync.check.python.files import Files
from gitsync.check.python.heap import InstanceObj, ListObj, ModuleObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.state import State
from gitsync.check.python.values import Const, Ext, Opaque, Ref, TupleValue, Value
from gitsync.check.python.worlds import (
    REGISTRY,
    SYS_MODULES,
    SYS_PATH,
    Frame,
    Raised,
)

ROOT = "/srv/workspace"
PRIVATE = "_osmosis_rollout"
# A chain of imports deeper than this makes Python itself give up.
SAFE_CHAIN = 140
HOPELESS_CHAIN = 166

type Found = tuple[State, Value | Raised]


class Finder:
    """Answers what a name would load, for one entrypoint; loads nothing."""

    def __init__(
        self,
        machine: Machine,
        files: Files,
        folder: str,
        *,
        installed: frozenset[str],
        extras: frozenset[str],
    ) -> None:
        self.m = machine
        self.files = files
        self.folder = folder
        self.installed = installed
        self.missing_extras = {p: e for p, e in EXTRA_OF_PREFIX if e not in extras}
        self.private = PRIVATE
        self.chain = 0
        self.facts = facts()
        self.loaded_files: dict[str, None] = {}

    def _file(self, path: str) -> str | None:
        return self.files.resolve(path) if self.files.is_file(path) else None

    def is_local(self, top: str) -> bool:
        """True if a module of that name was loaded from the repository."""
        found = self.m.space(SYS_MODULES).values.get(top)
        return isinstance(found, Ref)

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

    def folders_of(self, package: Value) -> tuple[str, ...] | None:
        """Where a package's submodules are looked for; None if it is not known."""
        module = self.m.obj(package) if isinstance(package, Ref) else None
        if not isinstance(module, ModuleObj) or module.package_paths is None:
            return None
        listed = self.m.read(cast(Ref, package).oid, "__path__")
        return None if listed is None else self.folders_in(listed)

    def folders_in(self, listed: Value) -> tuple[str, ...] | None:
        """The repository's folders in a list of paths; None if some are not known."""
        items: list[Value] | tuple[Value, ...]
        obj = self.m.obj(listed) if isinstance(listed, Ref) else None
        if isinstance(listed, TupleValue):
            items = listed.items
        elif isinstance(obj, ListObj) and obj.rest is None:
            items = obj.items
        else:
            return None
        folders: list[str] = []
        for item in items:
            text = comparing.as_text(self.m, self.m.concrete(item))
            if text is None or not text.startswith("/"):
                return None
            if text == ROOT or text.startswith(ROOT + "/"):
                folders.append(text[len(ROOT) + 1 :])
        return tuple(folders)

    def top_level(self, name: str) -> tuple[str, tuple[str, ...] | None, str] | Opaque | None:
        """What a top-level name would load; an `Opaque` if that is no file of the rollout."""
        outside = Opaque("importlib.util.find_spec()")
        if name in self.facts.compiled or name in self.m.state.loaded:
            return outside
        found = self.search(tuple(self._search_path()[0]), name)
        if name in self.facts.loaded_by_cli:
            return outside
        return found

    def search(
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

    def _not_found(self, frame: Frame, name: str, node: ast.AST) -> Raised:
        m = self.m
        value = m.new(InstanceObj(Ext("builtins.ModuleNotFoundError", "c")))
        m.store(value.oid, "name", Const(name))
        return Raised(
            value, m.place(frame, node), f"there is no module {self.show(name)} in the rollout"
        )

    def _third(
        self, frame: Frame, state: State, name: str, node: ast.AST
    ) -> list[tuple[State, Value | Raised]]:
        """A package that nobody here can read: there, or (inside a `try`) perhaps not."""
        top = name.partition(".")[0]
        value = Opaque(name, third=top not in _SDK_OWN)
        if name in self.facts.loaded:  # by the SDK itself
            return [(state, value)]
        return [(state, value), *self._without(frame, state, top, node)]

    def _without(self, frame: Frame, state: State, package: str, node: ast.AST) -> list[Found]:
        """The world without a package, if a `try` around the import may catch that it is missing.

        Elsewhere a missing package ends the import, which is no matter of the code.
        """
        m = self.m
        if not (m.guards or m.import_guards):
            return []
        place = m.place(frame, node)
        other = state.fork()
        state.path = (*state.path, (place, 0, f"whether {package} is installed"))
        other.path = (*other.path, (place, 1, f"whether {package} is installed"))
        m.state = other
        missing = m.new(InstanceObj(Ext("builtins.ModuleNotFoundError", "c")))
        reason = f"{package} may not be installed"
        return [(other, Raised(missing, place, reason, implicit=True))]


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
