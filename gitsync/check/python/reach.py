"""What can be reached through a value: does it touch a component class?"""

from __future__ import annotations

import ast

from gitsync.check.python.facts import BASES, facts
from gitsync.check.python.heap import (
    ClassObj,
    DictObj,
    FunctionObj,
    InstanceObj,
    ListObj,
    ModuleObj,
    Namespace,
)
from gitsync.check.python.state import State
from gitsync.check.python.values import (
    Alias,
    Bound,
    Const,
    Coroutine,
    Decorator,
    Ext,
    Lazy,
    Managed,
    Names,
    Opaque,
    Partial,
    Ref,
    Super,
    TupleValue,
    Unbound,
    Union,
    Unknown,
    Value,
    View,
    Wrapped,
)
from gitsync.check.python.worlds import REGISTRY

_DYNAMIC = frozenset(
    {
        "exec",
        "eval",
        "__import__",
        "import_module",
        "getattr",
        "vars",
        "globals",
        "locals",
        "setattr",
    }
)


def is_subclass(state: State, value: Value, base: str) -> bool:
    """True if a class is (also virtually) a subclass of the SDK class at a path."""
    if isinstance(value, Ext):
        return value.path == base or base in facts().class_facts(value.path).lineage
    if not isinstance(value, Ref):
        return False
    obj = state.heap.get(value.oid)
    if not isinstance(obj, ClassObj):
        return False
    if any(isinstance(b, Ext) and is_subclass(state, b, base) for b in obj.mro):
        return True
    registry = state.heap.get(REGISTRY)
    if not isinstance(registry, Namespace):
        return False
    entry = registry.values.get(f"virtual:{base}")
    if isinstance(entry, TupleValue):
        return any(v == value or v in obj.mro for v in entry.items)
    return False


def is_component(state: State, value: Value) -> bool:
    """True for subclasses of the SDK's two bases, the bases included."""
    return any(is_subclass(state, value, base) for base in BASES.values())


def touches(state: State, value: Value, depth: int = 5) -> bool:
    """True if a component class can be reached through the value, or it may be one itself."""
    if isinstance(value, Const | Opaque | Unbound):
        return False
    if isinstance(value, Unknown):
        return True
    if depth == 0:
        return True
    if isinstance(value, Ext):
        return is_component(state, value)
    if isinstance(value, Ref):
        return _object_touches(state, value, depth)
    if isinstance(value, TupleValue):
        return any(touches(state, v, depth - 1) for v in value.items)
    if isinstance(value, Union):
        return any(touches(state, v, depth - 1) for v in value.options)
    if isinstance(value, Bound):
        return touches(state, value.function, depth - 1) or touches(state, value.owner, depth - 1)
    if isinstance(value, Wrapped):
        return touches(state, value.function, depth - 1)
    if isinstance(value, Managed):
        value = value.generator
    if isinstance(value, Partial | Coroutine):
        parts = (value.function, *value.args, *(v for _, v in value.keywords))
        return any(touches(state, v, depth - 1) for v in parts)
    if isinstance(value, Alias):
        return any(touches(state, v, depth - 1) for v in (value.origin, *value.args))
    if isinstance(value, Lazy):
        return touches(state, value.source, depth - 1) or _lazy_touches(state, value, depth - 1)
    if isinstance(value, Super | View):
        return touches(state, value.owner, depth - 1)
    if isinstance(value, Decorator):
        return any(touches(state, v, depth - 1) for _, v in value.parts)
    if isinstance(value, Names):
        found = state.heap.get(value.oid)
        return found is None or (
            isinstance(found, Namespace)
            and (
                found.taint is not None
                or any(touches(state, v, depth - 2 if depth > 2 else 1) for v in _plain(found))
            )
        )
    return False


def _lazy_touches(state: State, value: Lazy, depth: int) -> bool:
    module = state.heap.get(getattr(value.frame, "module", -1))
    names = {n.id for n in ast.walk(value.node) if isinstance(n, ast.Name)}
    return bool(names & _DYNAMIC) or (
        isinstance(module, Namespace)
        and any(touches(state, module.values[n], depth) for n in names if n in module.values)
    )


def _plain(space: Namespace) -> list[Value]:
    return list(space.values.values())


def _object_touches(state: State, value: Ref, depth: int) -> bool:
    obj = state.heap.get(value.oid)
    if obj is None:
        return True
    if isinstance(obj, ClassObj):
        return is_component(state, value) or obj.doubt is not None
    if isinstance(obj, FunctionObj):
        return function_touches(state, obj, depth - 1)
    if isinstance(obj, ListObj):
        more = obj.rest is not None and touches(state, obj.rest, depth - 1)
        return more or any(touches(state, v, depth - 1) for v in obj.items)
    if isinstance(obj, DictObj):
        more = obj.rest is not None and touches(state, obj.rest, depth - 1)
        return more or any(
            touches(state, v, depth - 1) or touches(state, k, depth - 1)
            for k, v in obj.items.items()
        )
    if isinstance(obj, InstanceObj):
        return (
            obj.taint is not None
            or (isinstance(obj.cls, Ref) and is_component(state, obj.cls))
            or _class_holds(state, obj.cls)
            or any(touches(state, v, depth - 1) for v in obj.values.values())
        )
    if isinstance(obj, ModuleObj):
        return obj.taint is not None or any(
            _shallow(state, v, f"{obj.name}.") for v in obj.values.values()
        )
    return False


def _class_holds(state: State, cls: Value) -> bool:
    """True if the body of a class binds a component class to a name."""
    made = state.heap.get(cls.oid) if isinstance(cls, Ref) else None
    return isinstance(made, ClassObj) and any(
        isinstance(v, Ref)
        and isinstance(state.heap.get(v.oid), ClassObj)
        and is_component(state, v)
        for v in made.values.values()
    )


def holds(state: State, obj: InstanceObj) -> bool:
    """True if an object was given a component, by its attributes or by a library's method."""
    if any(touches(state, v) for v in obj.values.values()):
        return True
    registry = state.heap.get(REGISTRY)
    cls = state.heap.get(obj.cls.oid) if isinstance(obj.cls, Ref) else None
    lineage = cls.mro if isinstance(cls, ClassObj) else (obj.cls,)
    return isinstance(registry, Namespace) and any(
        f"carries:{part.path}()" in registry.values for part in lineage if isinstance(part, Ext)
    )


def _shallow(state: State, value: Value, package: str) -> bool:
    """True for a component class and for a submodule of the package that holds one."""
    if not isinstance(value, Ref):
        return isinstance(value, Unknown)
    obj = state.heap.get(value.oid)
    if isinstance(obj, ClassObj):
        return is_component(state, value)
    return (
        isinstance(obj, ModuleObj)
        and obj.name.startswith(package)
        and (
            obj.taint is not None
            or any(_shallow(state, v, f"{obj.name}.") for v in obj.values.values())
        )
    )


def mentioned(function: FunctionObj) -> frozenset[str]:
    """The names and attributes in a function's code; `import_module` for an import."""
    names: frozenset[str] | None = getattr(function.node, "_mentioned", None)
    if names is None:
        found: set[str] = set()
        for node in ast.walk(function.node):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                found.add("import_module")
                found.update(alias.name for alias in node.names)
        names = frozenset(found)
        function.node._mentioned = names  # type: ignore[union-attr]
    return names


def function_touches(state: State, function: FunctionObj, depth: int) -> bool:
    """True if a function's code, or code it names, mentions a component or a dynamic construct."""
    if depth <= 0:
        return True
    names = mentioned(function)
    if names & _DYNAMIC:
        return True
    module = state.heap.get(function.module)
    spaces = [state.heap.get(oid) for oid in function.closure]
    for name in names:
        for space in (*spaces, module):
            if isinstance(space, Namespace) and name in space.values:
                value = space.values[name]
                if isinstance(value, Ref) and state.heap.get(value.oid) is function:
                    break
                if touches(state, value, depth - 1):
                    return True
                break
    return any(touches(state, d, depth - 1) for d in function.defaults)
