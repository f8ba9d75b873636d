"""`importlib.util`, `pkgutil`, `inspect.getmembers` and `dir`: looking for modules and names."""

from __future__ import annotations

import ast
import posixpath
from typing import cast

from gitsync.check.python import (
    attributes,
    calls,
    comparing,
    containers,
    expressions,
)
from gitsync.check.python.finding import ROOT
from gitsync.check.python.heap import InstanceObj, ModuleObj
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import (
    FALSE,
    NONE,
    TRUE,
    Const,
    Ext,
    Names,
    Opaque,
    Partial,
    Ref,
    TupleValue,
    Unknown,
    Value,
)
from gitsync.check.python.worlds import SYS_MODULES, Frame, Kind, Outcome

SPEC = Ext("_frozen_importlib.ModuleSpec", "c")
LOADER = Ext("_frozen_importlib_external.SourceFileLoader", "c")
MAX_WALKED = 500


def _spec(m: Machine, name: str, path: str | None, folders: tuple[str, ...] | None) -> Value:
    """A module's spec; its loader can execute the file."""
    spec, loader = InstanceObj(SPEC), InstanceObj(LOADER)
    loader.values = {
        "name": Const(name),
        "path": Const(path),
        "exec_module": Partial(Ext("gitsync.exec_module", "f"), (Const(path),), ()),
        "create_module": Ext("gitsync.create_module", "f"),
    }
    spec.values = {
        "name": Const(name),
        "origin": Const(path),
        "has_location": Const(path is not None),
        "loader": m.new(loader),
        "submodule_search_locations": NONE
        if folders is None
        else m.list_of([Const(f"{ROOT}/{f}") for f in folders]),
        "\0folders": NONE if folders is None else TupleValue(tuple(map(Const, folders))),
    }
    return m.new(spec)


def _find_spec(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`importlib.util.find_spec`: local files are known, other packages may be there or not."""
    name = args[0] if args else keywords.get("name", NONE)
    if not isinstance(name, Const) or not isinstance(name.value, str) or name.value[:1] == ".":
        return Opaque("importlib.util.find_spec()")
    if m.space(SYS_MODULES).values.get(name.value) == NONE:
        raise m.error(frame, node, "ValueError", "the module has no spec")
    parent, _, child = name.value.rpartition(".")
    if not parent:
        found = m.importer.top_level(name.value)
        if found is None:
            return Opaque("importlib.util.find_spec()")
        return found if isinstance(found, Opaque) else _spec(m, name.value, *_places(found))
    package = m.importer.load_here(frame, parent, node)
    folders = m.importer.folders_of(package)
    if folders is None:
        return Opaque("importlib.util.find_spec()")
    inner = m.importer.search(folders, child)
    return NONE if inner is None else _spec(m, name.value, *_places(inner))


def _places(
    found: tuple[str, tuple[str, ...] | None, str],
) -> tuple[str | None, tuple[str, ...] | None]:
    return f"{ROOT}/{found[0]}" if found[0] else None, found[1]


def _from_location(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`importlib.util.spec_from_file_location(name, location)`."""
    name = args[0] if args else keywords.get("name", NONE)
    location = args[1] if len(args) > 1 else keywords.get("location", NONE)
    text = comparing.as_text(m, location)
    usual = set(keywords) <= {"name", "location", "submodule_search_locations"}
    if not isinstance(name, Const) or not isinstance(name.value, str) or not usual or not text:
        return m.unknown(frame, node, "the file that spec_from_file_location names is not known")
    if not text.endswith(".py") or not text.startswith(ROOT + "/"):
        return m.unknown(frame, node, "the file that spec_from_file_location names is not here")
    folders = None
    places = keywords.get("submodule_search_locations")
    if places is not None and places != NONE:
        folders = m.importer.folders_in(places)
        if folders is None:
            return m.unknown(frame, node, "where the module's parts are is not known")
    return _spec(m, name.value, posixpath.normpath(text), folders)


def _module_of(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`importlib.util.module_from_spec(spec)`."""
    spec = args[0] if args else keywords.get("spec", NONE)
    obj = m.obj(spec) if isinstance(spec, Ref) else None
    if isinstance(spec, Const):
        raise m.error(frame, node, "AttributeError", "None has no loader")
    if not isinstance(obj, InstanceObj) or obj.cls != SPEC:
        return m.unknown(frame, node, "the module that is made is not known")
    name, path = cast(Const, obj.values["name"]).value, cast(Const, obj.values["origin"]).value
    listed = obj.values["\0folders"]
    folders = None
    if isinstance(listed, TupleValue):
        folders = tuple(cast(Const, i).value for i in listed.items)
    module = m.importer.make_module(name, path[len(ROOT) + 1 :] if path else None, folders)
    module.values["__spec__"] = spec
    return m.new(module)


def _exec_module(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`loader.exec_module(module)`."""
    path = cast(Const, args[0]).value
    module = args[1] if len(args) > 1 else NONE
    if not isinstance(module, Ref) or not isinstance(m.obj(module), ModuleObj):
        m.doubt(m.unknown(frame, node, "the module that is executed is not known"))
        return NONE
    if path is None:
        return NONE
    real = m.importer.files.resolve(path[len(ROOT) + 1 :])
    if real is None or not m.importer.files.is_file(real):
        raise m.error(frame, node, "FileNotFoundError", f"there is no file {path[len(ROOT) + 1 :]}")
    state, at = m.state, m.at

    def run() -> list[Outcome]:
        return m.importer.execute(state, module, real)

    outcome = m.pick_outcome(run, m.place(frame, node))
    m.at = at
    if outcome.kind is Kind.RAISE and outcome.raised is not None:
        raise outcome.raised
    return NONE


def _modules_in(
    m: Machine, folders: tuple[str, ...], prefix: str
) -> list[tuple[str, str, bool, tuple[str, ...] | None]]:
    """(name, file, whether it is a package, its folders) as `pkgutil` finds them."""
    out: dict[str, tuple[str, str, bool, tuple[str, ...] | None]] = {}
    for folder in folders:
        for entry in sorted(m.importer.files.names(folder)):
            name = entry[:-3] if entry.endswith(".py") else entry
            if name == "__init__" or not name.isidentifier() or name in out:
                continue
            found = m.importer.search((folder,), name)
            if found is not None and found[2] in ("package", "module"):
                is_package = found[2] == "package"
                if is_package == (name == entry):
                    out[name] = (prefix + name, found[0], is_package, found[1])
    return list(out.values())


def _information(m: Machine, name: str, is_package: bool) -> Value:
    """`pkgutil.ModuleInfo`: a tuple with names."""
    made = InstanceObj(Ext("pkgutil.ModuleInfo", "c"))
    finder = Opaque("importlib.machinery.FileFinder()")
    parts = {"module_finder": finder, "name": Const(name), "ispkg": Const(is_package)}
    made.values = {**parts, "\0tuple": TupleValue(tuple(parts.values()))}
    return m.new(made)


def _iter_modules(deep: bool) -> Rule:
    """`pkgutil.iter_modules` and `pkgutil.walk_packages`, which imports the packages it meets."""

    def run(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        path = args[0] if args else keywords.get("path", NONE)
        prefix = args[1] if len(args) > 1 else keywords.get("prefix", Const(""))
        folders = m.importer.folders_in(path)
        if folders is None or not isinstance(prefix, Const):
            return m.list_of([], "iterator", m.unknown(frame, node, "the modules are not known"))
        out: list[Value] = []
        waiting = [(folders, prefix.value)]
        while waiting and len(out) < MAX_WALKED:
            here, before = waiting.pop()
            for name, _, is_package, _inner in _modules_in(m, here, before):
                out.append(_information(m, name, is_package))
                if deep and is_package:
                    package = m.importer.load_here(frame, name, node)
                    inner = m.importer.folders_of(package)
                    if inner is not None:
                        waiting.append((inner, f"{name}."))
        return m.list_of(out, "iterator")

    return run


def _resolve_name(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`pkgutil.resolve_name("package.module:attribute")`."""
    name = args[0] if args else NONE
    if not isinstance(name, Const) or ":" not in str(name.value):
        return m.unknown(frame, node, "the object that resolve_name finds is not known")
    module, _, rest = str(name.value).partition(":")
    value = m.importer.load_here(frame, module, node)
    for part in rest.split(".") if rest else ():
        value = m.concrete(attributes.get(m, frame, value, part, node))
    return value


def names_of(m: Machine, frame: Frame, value: Value, node: ast.AST) -> list[str] | Unknown | None:
    """`dir(value)` of a module or a namespace; None where it is not known."""
    oid = -1
    if isinstance(value, Names):
        oid = value.oid
    elif isinstance(value, Ref) and isinstance(m.obj(value), ModuleObj):
        hook = m.read(value.oid, "__dir__")
        if hook is not None:
            listed = calls.strings_of(m, frame, calls.call(m, frame, hook, [], {}, node), node)
            return None if listed is None else sorted(listed)
        oid = value.oid
    if oid < 0:
        return None
    space = m.settle(oid)
    if space.taint is not None:
        return space.taint
    return None if "\0star" in space.values else sorted(containers.visible(space))


def _dir(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    here: Value = Names(frame.scope if frame.scope is not None else frame.module)
    names = names_of(m, frame, args[0] if args else here, node)
    if isinstance(names, list):
        return m.list_of([Const(n) for n in names])
    return m.list_of([], "list", Opaque("str()"))


def _get_members(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`inspect.getmembers(module, predicate)`: sorted pairs of names and values."""
    owner = args[0] if args else keywords.get("object", NONE)
    test = args[1] if len(args) > 1 else keywords.get("predicate", NONE)
    if isinstance(owner, Ext) and owner.kind == "m":
        return m.list_of([], "list", TupleValue((Opaque("str()"), Opaque())))
    names = names_of(m, frame, owner, node) if isinstance(owner, Ref) else None
    if not isinstance(names, list):
        return m.unknown(frame, node, "inspect.getmembers can bring in anything")
    out: list[Value] = []
    for name in names:
        value = m.concrete(attributes.get(m, frame, owner, name, node))
        if test != NONE:
            answer = calls.call(m, frame, test, [value], {}, node)
            if not expressions.is_true(m, frame, answer, node):
                continue
        out.append(TupleValue((Const(name), value)))
    return m.list_of(out)


def _is_module(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Ref):
        return TRUE if isinstance(m.obj(value), ModuleObj) else FALSE
    if isinstance(value, Ext):
        return Const(value.kind == "m") if value.kind in "cfm" else Opaque("bool()")
    return FALSE if isinstance(value, Const | TupleValue) else Opaque("bool()")


RULES: dict[str, Rule] = {
    "importlib.util.find_spec": _find_spec,
    "_frozen_importlib_external.spec_from_file_location": _from_location,
    "_frozen_importlib.module_from_spec": _module_of,
    "gitsync.exec_module": _exec_module,
    "gitsync.create_module": lambda m, f, a, k, n: NONE,
    "pkgutil.iter_modules": _iter_modules(False),
    "pkgutil.walk_packages": _iter_modules(True),
    "pkgutil.resolve_name": _resolve_name,
    "pkgutil.extend_path": lambda m, f, a, k, n: a[0] if a else NONE,
    "builtins.dir": _dir,
    "inspect.getmembers": _get_members,
    "inspect.ismodule": _is_module,
}
