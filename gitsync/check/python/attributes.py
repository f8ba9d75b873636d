"""Reading attributes of every kind of value; of classes and instances by `class_attributes`."""

from __future__ import annotations

import ast

from gitsync.check.python import calls, class_attributes, classes, mappings, reflection, wrapping
from gitsync.check.python.heap import ClassObj, DictObj, FunctionObj, InstanceObj, ModuleObj, Obj
from gitsync.check.python.machine import Machine
from gitsync.check.python.plain_attributes import of_constant, of_function, of_path
from gitsync.check.python.values import (
    FALSE,
    NONE,
    Alias,
    Bound,
    Const,
    Coroutine,
    Decorator,
    Ext,
    Lazy,
    Managed,
    Method,
    Names,
    Opaque,
    Partial,
    PathValue,
    Ref,
    Super,
    TupleValue,
    Unknown,
    Value,
    View,
    Wrapped,
)
from gitsync.check.python.worlds import REGISTRY, SYS_MODULES, SYS_PATH, Frame

SPECIAL: dict[str, Value] = {
    "typing.TYPE_CHECKING": FALSE,
    "sys.platform": Const("linux"),
    "os.name": Const("posix"),
    "os.sep": Const("/"),
    "os.path.sep": Const("/"),
    "posixpath.sep": Const("/"),
    "os.pathsep": Const(":"),
    "sys.modules": Names(SYS_MODULES),
    "sys.path": Ref(SYS_PATH),
    "sys.implementation.name": Const("cpython"),
    "sys.flags.optimize": Const(0),
    "sys.maxsize": Const(2**63 - 1),
}
# What `typing_extensions` hands out: the same as `typing`, or what acts the same everywhere.
BACKPORTED: dict[str, Value] = {
    "TYPE_CHECKING": FALSE,
    "Generic": Ext("typing.Generic", "c"),
    "Protocol": Ext("typing.Protocol", "c"),
    "dataclass_transform": Ext("typing.dataclass_transform", "f"),
    "deprecated": Ext("warnings.deprecated", "f"),
    "final": Ext("typing.final", "f"),
    "overload": Ext("typing.overload", "f"),
    "override": Ext("typing.override", "f"),
    "runtime_checkable": Ext("typing.runtime_checkable", "f"),
}
TYPE_ALIAS = "type alias"  # the path of what a `type` statement binds
# what a rehearsal remembers the reading of
ASKED_FOR = frozenset(
    {"set_reward", "samples", "get_samples", "set_sample_reward", "register_sample_source"}
)
_HOLDS_COMPONENT = frozenset({"workflow", "grader", "agent", "workflow_cls", "grader_cls"})


def get(m: Machine, frame: Frame, owner: Value, name: str, node: ast.AST) -> Value:
    """`owner.name`."""
    if name in ASKED_FOR and m.rehearsal is not None:
        m.rehearsal.reads.append((owner, name, m.place(frame, node)))
    if isinstance(owner, Unknown):
        return owner
    if isinstance(owner, Opaque):
        return _of_opaque(m, frame, owner, name, node)
    if isinstance(owner, Ext):
        return of_external(m, frame, owner, name, node)
    if isinstance(owner, Ref):
        obj = m.obj(owner)
        if isinstance(obj, ModuleObj):
            return of_module(m, frame, owner, obj, name, node)
        if isinstance(obj, ClassObj):
            return class_attributes.of_class(m, frame, owner, obj, name, node)
        if isinstance(obj, InstanceObj):
            return class_attributes.of_instance(m, frame, owner, obj, name, node)
        if isinstance(obj, FunctionObj):
            return of_function(m, frame, owner, obj, name, node)
        return _of_container(m, frame, owner, obj, name, node)
    if isinstance(owner, Super):
        return class_attributes.of_super(m, frame, owner, name, node)
    if isinstance(owner, PathValue):
        return of_path(owner, name)
    if isinstance(owner, Const):
        return of_constant(m, frame, owner, name, node)
    if isinstance(owner, View):
        return get(m, frame, mappings.snapshot(m, owner), name, node)
    if isinstance(owner, TupleValue) and not hasattr(tuple, name):
        raise m.error(frame, node, "AttributeError", f"a tuple has no attribute '{name}'")
    if isinstance(owner, TupleValue | Names | Coroutine | Lazy | Managed):
        return Method(owner, name)
    return _of_wrapper(m, frame, owner, name, node)


def plainly(m: Machine, frame: Frame, owner: Value, name: str, node: ast.AST) -> Value:
    """What `object.__getattribute__` or that of `type` gives: without the hooks of the class."""
    obj = m.obj(owner) if isinstance(owner, Ref) else None
    if isinstance(owner, Ref) and isinstance(obj, InstanceObj) and obj.taint is None:
        return class_attributes.plainly_of_instance(m, frame, owner, obj, name, node)
    if isinstance(owner, Ref) and isinstance(obj, ClassObj) and obj.taint is None:
        return class_attributes.plainly_of_class(m, frame, owner, obj, name, node)
    return get(m, frame, owner, name, node)


_KINDS: dict[str, type] = {
    "list": list,
    "set": set,
    "frozenset": frozenset,
    "tuple": tuple,
    "dict": dict,
    "keys": type({}.keys()),
    "items": type({}.items()),
}


def _of_container(
    m: Machine, frame: Frame, owner: Ref, obj: Obj, name: str, node: ast.AST
) -> Value:
    """A method of a list, set or dict; other names do not exist."""
    kind = "dict" if isinstance(obj, DictObj) else getattr(obj, "kind", "")
    if name == "__class__":
        return Ext(f"builtins.{_KINDS.get(kind, list).__name__}", "c")
    plain = kind in ("list", "dict", "set", "frozenset", "keys", "items") and not (
        isinstance(obj, DictObj) and obj.factory is not None
    )
    names = ("appendleft", "popleft", "extendleft", "rotate", "move_to_end")
    known = any(name in vars(part) for part in _KINDS[kind].__mro__) if plain else True
    if not known and name not in names:
        raise m.error(frame, node, "AttributeError", f"a {kind} has no attribute '{name}'")
    return Method(owner, name)


def _of_opaque(m: Machine, frame: Frame, owner: Opaque, name: str, node: ast.AST) -> Value:
    kept = m.space(REGISTRY).values.get(f"attribute:{owner.path}.{name}")
    if kept is not None:
        return m.concrete(kept)
    if owner.path == "typing_extensions" and name in BACKPORTED:
        return BACKPORTED[name]
    if name == "register" and owner.path.endswith("functools.singledispatch"):
        return Opaque(f"{owner.path}.{name}")
    if owner.carries or f"carries:{owner.path}" in m.space(REGISTRY).values:
        return m.unknown(frame, node, "an object that was given a component class hands it out")
    if owner.path == TYPE_ALIAS and name == "__value__":
        return m.unknown(frame, node, "the value of a type alias is worked out late")
    if name in _HOLDS_COMPONENT and owner.path.startswith("osmosis_ai."):
        return m.unknown(frame, node, "the backend hands out a component class")
    m.may_raise(m.place(frame, node))
    return Opaque(f"{owner.path}.{name}", third=owner.third, routed=owner.routed)


def of_external(m: Machine, frame: Frame, owner: Ext, name: str, node: ast.AST) -> Value:
    """An attribute of something in the SDK or the standard library."""
    path = f"{owner.path}.{name}"
    if path in SPECIAL:
        return SPECIAL[path]
    if owner.kind == "m":
        return _module_name(m, frame, owner, name, node)
    if owner.path == "sys.version_info":
        if name == "major":
            return Const(3)
        return Const(m.minor) if name == "minor" else Opaque("int()")
    if owner.kind == "c":
        if name in ("__name__", "__qualname__"):
            return Const(owner.path.rpartition(".")[2])
        if name == "__module__":
            return Const(owner.path.rpartition(".")[0])
        if name == "__abstractmethods__":
            names = m.facts.class_facts(owner.path).abstract
            return m.list_of([Const(n) for n in names], "frozenset")
        if name == "__dict__":
            return Ext(path)
        if name in ("__mro__", "__bases__"):
            mro = classes.mro_of(m, owner)
            parts = mro if name == "__mro__" else mro[1:2]
            return TupleValue((*parts, Ext("builtins.object", "c")))
        kept = m.space(REGISTRY).values.get(f"attribute:{path}")
        if kept is not None:
            return m.concrete(kept)
        return Ext(path, "f" if path.startswith("builtins.") else "v")
    if owner.kind == "v" and owner.path.startswith("builtins."):
        return Ext(path, "f")
    m.may_raise(m.place(frame, node))
    return Ext(path, "v")


def _module_name(m: Machine, frame: Frame, owner: Ext, name: str, node: ast.AST) -> Value:
    found = m.importer.exported(owner.path, name)
    if found is not None:
        return found
    kept = m.space(REGISTRY).values.get(f"attribute:{owner.path}.{name}")
    if kept is not None:
        return m.concrete(kept)
    if m.importer.knows_all_names(owner.path, name) and not name.startswith("__"):
        raise m.error(
            frame, node, "AttributeError", f"the module {owner.path} has no attribute '{name}'"
        )
    return Ext(f"{owner.path}.{name}", "v")


def of_module(
    m: Machine, frame: Frame, owner: Ref, obj: ModuleObj, name: str, node: ast.AST
) -> Value:
    """An attribute of a local module."""
    found = m.read(owner.oid, name)
    if found is not None:
        return found if obj.taint is None or isinstance(found, Const) else obj.taint
    if name == "__dict__":
        return Names(owner.oid)
    if obj.taint is not None:
        return obj.taint
    if name == "__class__":
        return Ext("builtins.module", "c")
    if name == "__annotations__":
        return reflection.of_module(m, frame, owner.oid, node) or m.new(DictObj({}))
    hook = obj.values.get("__getattr__")
    if hook is not None:
        return calls.call(m, frame, m.concrete(hook), [Const(name)], {}, node)
    if "\0star" in obj.values:
        return Opaque(name, third=True)
    if name in ("__doc__", "__loader__", "__spec__", "__builtins__"):
        return Opaque()
    raise m.error(
        frame, node, "AttributeError", f"the module {obj.shown or obj.name} has no name '{name}'"
    )


def _of_wrapper(m: Machine, frame: Frame, owner: Value, name: str, node: ast.AST) -> Value:
    if isinstance(owner, Wrapped):
        if owner.kind == "property" and name in ("getter", "setter", "deleter"):
            return wrapping.accessor(name, owner)
        if owner.kind == "property" and name in ("fset", "fdel"):
            return (*owner.args, NONE, NONE)[name == "fdel"]
        if name in ("__func__", "fget", "func", "__wrapped__"):
            return owner.function
        return Method(owner, name)
    if isinstance(owner, Bound):
        if name == "__func__":
            return owner.function
        if name == "__self__":
            return owner.owner
        return get(m, frame, owner.function, name, node)
    if isinstance(owner, Partial):
        return reflection.of_partial(m, owner, name)
    if isinstance(owner, Decorator) and name == "__supertype__":
        return dict(owner.parts).get("type", Opaque())
    if isinstance(owner, Alias):
        part = reflection.of_alias(m, frame, owner, name, node)
        return get(m, frame, owner.origin, name, node) if part is None else part
    return Opaque()
