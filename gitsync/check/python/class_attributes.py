"""Reading attributes of classes, of their instances and of what `super()` gives."""

from __future__ import annotations

import ast
import builtins

from gitsync.check.python import (
    backed,
    calls,
    classes,
    enums,
    exceptions,
    mixins,
    named_tuples,
    reflection,
    slots,
)
from gitsync.check.python.facts import BASES, METHODS
from gitsync.check.python.heap import ClassObj, DictObj, FunctionObj, InstanceObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    NONE,
    Bound,
    Const,
    Ext,
    Method,
    Names,
    Opaque,
    Ref,
    Super,
    TupleValue,
    Value,
    Wrapped,
)
from gitsync.check.python.worlds import REGISTRY, Frame, Raised

_BARE = (
    *(Ext(p, "c") for p in BASES.values()),
    Ext("abc.ABC", "c"),
    Ext("abc.ABCMeta", "c"),
    Ext("builtins.type", "c"),
    Ext("builtins.object", "c"),
    Ext("typing.Generic", "c"),
)
_WITH_DATA = (Ext("collections.UserDict", "c"), Ext("collections.UserList", "c"))
_OWN_METHOD = {BASES[role]: name for role, name in METHODS.items()}


def of_class(
    m: Machine, frame: Frame, owner: Ref, obj: ClassObj, name: str, node: ast.AST
) -> Value:
    """An attribute of a class of the repository."""
    if obj.taint is not None:
        return obj.taint
    hook = classes.meta_attribute(m, obj, "__getattribute__") if obj.meta else None
    if hook is not None:
        return calls.call(m, frame, hook, [owner, Const(name)], {}, node)
    return plainly_of_class(m, frame, owner, obj, name, node)


def plainly_of_class(
    m: Machine, frame: Frame, owner: Ref, obj: ClassObj, name: str, node: ast.AST
) -> Value:
    """What `type.__getattribute__` gives, and the metaclass's `__getattr__` where that raises."""
    if name not in obj.values:
        if name == "__abstractmethods__":
            return m.list_of([Const(n) for n in sorted(obj.abstract)], "frozenset")
        if name in ("__name__", "__qualname__"):
            return Const(obj.name if name == "__name__" else obj.qualname)
    if name == "__dict__":
        return Names(owner.oid)
    if name == "__mro__":
        return TupleValue((owner, *obj.mro, Ext("builtins.object", "c")))
    if name == "__bases__":
        return TupleValue(obj.bases)
    if name == "__class__":
        return obj.meta[0] if obj.meta else Ext("builtins.type", "c")
    if name == "__annotations__" and name not in obj.values:
        spaces = [obj]
        if any(Ext("typing.TypedDict") in raw for raw in classes.written_bases(m, owner)):
            held = [m.obj(part) for part in obj.mro if isinstance(part, Ref)]
            spaces = [*(p for p in reversed(held) if isinstance(p, ClassObj)), obj]
        noted: dict[Value, Value] = {}
        for space in spaces:
            noted |= reflection.of_class(m, frame, space, node)
        return m.new(DictObj(noted))
    if name == "__doc__" and name not in obj.values and isinstance(obj.node, ast.ClassDef):
        return Const(ast.get_docstring(obj.node, clean=False))
    found = class_lookup(m, owner, name)
    if found is None:
        fields = named_tuples.fields(m, owner) if name == "_fields" else None
        if fields is not None:
            return TupleValue(tuple(Const(field) for field, _ in fields))
        if name == "__dataclass_fields__":
            parts = reflection.fields_of(m, frame, owner, node)
            if parts is not None:
                return m.new(DictObj({Const(k): v for k, v in parts.items()}))
        if name == "__type_params__":
            return m.unknown(frame, node, "the type parameters of a class are read")
        if name in ("_make", "_field_defaults") and named_tuples.fields(m, owner) is not None:
            return named_tuples.of_class(m, owner, name)
        if name == "__base__":
            return obj.bases[0]
        if name == "__orig_bases__" and obj.raw_bases and obj.raw_bases != obj.bases:
            return TupleValue(obj.raw_bases)
        method = classes.meta_attribute(m, obj, name)
        if method is not None:
            if isinstance(method, Wrapped) and method.kind in ("property", "cached_property"):
                return calls.call(m, frame, method.function, [owner], {}, node)
            return calls.bind(m, method, owner)
        if name in (
            "mro",
            "__subclasses__",
            "register",
            "__init_subclass__",
            "__new__",
            "__init__",
            "__call__",
            "__doc__",
            "__eq__",
            "__hash__",
            "__repr__",
            "__str__",
            "__setattr__",
            "__getattribute__",
            "__delattr__",
            "__subclasshook__",
        ):
            return Method(owner, name)
        hook = classes.meta_attribute(m, obj, "__getattr__")
        if hook is not None:
            return calls.call(m, frame, hook, [owner, Const(name)], {}, node)
        if not enums.has_no_attribute(m, obj, name) and any(
            not isinstance(p, Ref) and p not in _BARE for p in (*obj.mro, *obj.meta)
        ):
            return Opaque(f"{obj.name}.{name}")
        raise m.error(frame, node, "AttributeError", f"the class {obj.name} has no '{name}'")
    return _from_class(m, frame, found, owner, node)


def class_lookup(m: Machine, cls: Value, name: str) -> Value | None:
    """The raw attribute along the MRO; an opaque base hides what comes after it."""
    for part in classes.mro_of(m, cls):
        if isinstance(part, Ref):
            obj = m.obj(part)
            found = m.read(part.oid, name) if isinstance(obj, ClassObj) else None
            if found is not None:
                return found
        elif isinstance(part, Ext):
            kept = m.space(REGISTRY).values.get(f"attribute:{part.path}.{name}")
            if kept is not None:
                return m.concrete(kept)
            if part.path in BASES.values() and name in ("run", "grade", "__init__"):
                wanted = "run" if part.path == BASES["workflow"] else "grade"
                if name in (wanted, "__init__"):
                    return Ext(f"{part.path}.{name}", "f")
    return None


def _from_class(m: Machine, frame: Frame, found: Value, cls: Value, node: ast.AST) -> Value:
    """A class attribute read through the class."""
    if isinstance(found, Wrapped):
        if found.kind == "staticmethod":
            return found.function
        if found.kind == "classmethod":
            return Bound(found.function, cls)
        return found
    got = _by_descriptor(m, frame, found, [NONE, cls], node)
    return found if got is None else got


def descriptor_method(m: Machine, found: Value | None, name: str) -> Value | None:
    """`__get__`, `__set__` or `__delete__` of a class attribute that is an instance; else None."""
    obj = m.obj(found) if isinstance(found, Ref) else None
    method = classes.class_attribute(m, obj.cls, name) if isinstance(obj, InstanceObj) else None
    return None if method is None or found is None else calls.bind(m, method, found)


def _by_descriptor(
    m: Machine, frame: Frame, found: Value, args: list[Value], node: ast.AST
) -> Value | None:
    """What the `__get__` of a class attribute gives, None if it has none."""
    method = descriptor_method(m, found, "__get__")
    return None if method is None else calls.call(m, frame, method, args, {}, node)


def of_instance(
    m: Machine, frame: Frame, owner: Ref, obj: InstanceObj, name: str, node: ast.AST
) -> Value:
    """An attribute of an instance: `__getattribute__`, then `__getattr__` where that raises."""
    if obj.taint is not None:
        return obj.taint
    hook = classes.class_attribute(m, obj.cls, "__getattribute__")
    late = classes.class_attribute(m, obj.cls, "__getattr__")
    try:
        if hook is None:
            return plainly_of_instance(m, frame, owner, obj, name, node)
        return calls.call(m, frame, calls.bind(m, hook, owner), [Const(name)], {}, node)
    except Raised as raised:
        if late is None or not classes.exception_matches(m, raised.value, _ATTRIBUTE_ERROR):
            raise
    return calls.call(m, frame, calls.bind(m, late, owner), [Const(name)], {}, node)


_ATTRIBUTE_ERROR = Ext("builtins.AttributeError", "c")


def plainly_of_instance(
    m: Machine, frame: Frame, owner: Ref, obj: InstanceObj, name: str, node: ast.AST
) -> Value:
    """What `object.__getattribute__` gives."""
    if name == "__class__":
        return obj.cls
    if name == "__dict__":
        return slots.dictionary(m, frame, owner, obj.cls, node)
    raw = class_lookup(m, obj.cls, name)
    if isinstance(raw, Wrapped) and raw.kind == "property":
        return calls.call(m, frame, raw.function, [owner], {}, node)
    own = m.read(owner.oid, name)
    if own is not None and not _is_data_descriptor(m, raw):
        return own
    if isinstance(raw, Wrapped) and raw.kind == "cached_property":
        value = m.concrete(calls.call(m, frame, raw.function, [owner], {}, node))
        m.store(owner.oid, name, value)
        return value
    kept = exceptions.attribute(m, frame, owner, obj, name, node)
    if kept is not None:
        return kept
    if raw is not None:
        got = _by_descriptor(m, frame, raw, [owner, obj.cls], node)
        return calls.bind(m, raw, owner) if got is None else got
    mixed = mixins.bound(m, frame, owner, name)
    if mixed is not None:
        return mixed
    limit = reflection.of_variable(m, frame, owner, name, node)
    if limit is not None:
        return limit
    if backed.has_method(m, owner, name):
        return Method(owner, name)
    if name in ("_replace", "_asdict") and named_tuples.fields(m, obj.cls) is not None:
        return Method(owner, name)
    shown = m.obj(obj.cls).name if isinstance(obj.cls, Ref) else "object"  # type: ignore[attr-defined]
    missing = f"the {shown} object has no attribute '{name}'"
    if isinstance(obj.cls, Ext) and obj.cls.path.startswith("builtins.") and name[:2] != "__":
        kind = getattr(builtins, obj.cls.path.partition(".")[2], None)
        if isinstance(kind, type) and kind is not type and not hasattr(kind, name):
            raise m.error(frame, node, "AttributeError", missing)
    lineage = classes.mro_of(m, obj.cls)
    if name == "data" and backed.plain(m, owner) != owner and set(lineage) & set(_WITH_DATA):
        return backed.plain(m, owner)
    if classes.class_attribute(m, obj.cls, "__getattr__") is not None and name not in _OF_OBJECT:
        raise m.error(frame, node, "AttributeError", missing)
    if any(not isinstance(p, Ref) and p not in _BARE for p in lineage):
        for part in lineage:
            if not isinstance(part, Ref):
                path = part.path if isinstance(part, Ext | Opaque) else "?"
                return Opaque(f"{path}().{name}")
    if name.startswith("__"):
        return Method(owner, name)
    raise m.error(frame, node, "AttributeError", missing)


_OF_OBJECT = frozenset(dir(object))


def _is_data_descriptor(m: Machine, raw: Value | None) -> bool:
    """True if a class attribute goes before the instance's own attribute."""
    return descriptor_method(m, raw, "__get__") is not None and any(
        descriptor_method(m, raw, name) is not None for name in ("__set__", "__delete__")
    )


def of_super(m: Machine, frame: Frame, owner: Super, name: str, node: ast.AST) -> Value:
    """An attribute found behind a class in the MRO."""
    cls = owner.owner
    instance = False
    if isinstance(cls, Ref):
        obj = m.obj(cls)
        if isinstance(obj, InstanceObj):
            cls = obj.cls
            instance = True
        elif isinstance(obj, ClassObj) and owner.after in obj.meta:
            return _of_meta_super(m, owner, obj, name)
    lineage = list(classes.mro_of(m, cls))
    rest = lineage[lineage.index(owner.after) + 1 :] if owner.after in lineage else []
    if not rest and owner.after not in lineage and isinstance(owner.after, Ref):
        # `super().__new__(mcs, …)` in a metaclass: the owner is the metaclass itself.
        rest = list(classes.mro_of(m, owner.after))[1:]
    for part in rest:
        if isinstance(part, Ref):
            found_in = m.obj(part)
            found = m.read(part.oid, name) if isinstance(found_in, ClassObj) else None
            if found is not None:
                if isinstance(found, Wrapped) and found.kind in ("property", "cached_property"):
                    return calls.call(m, frame, found.function, [owner.owner], {}, node)
                if isinstance(found, Wrapped) and found.kind == "staticmethod":
                    return found.function
                if isinstance(found, Wrapped) and found.kind == "classmethod":
                    return Bound(found.function, owner.owner if not instance else cls)
                got = _by_descriptor(
                    m, frame, found, [owner.owner if instance else NONE, cls], node
                )
                if got is not None:
                    return got
                held = m.obj(found) if isinstance(found, Ref) else None
                if isinstance(found, Const | TupleValue) or not isinstance(
                    held, FunctionObj | None
                ):
                    return found
                return Bound(found, owner.owner)
        elif not isinstance(part, Ext):
            return Opaque(f"super().{name}")
        elif part.path in BASES.values() and name in ("__init__", _OWN_METHOD[part.path]):
            break
    return Method(owner, name)


def _of_meta_super(m: Machine, owner: Super, obj: ClassObj, name: str) -> Value:
    metas = list(obj.meta)
    for part in metas[metas.index(owner.after) + 1 :]:
        found_in = m.obj(part) if isinstance(part, Ref) else None
        if isinstance(part, Ref) and isinstance(found_in, ClassObj):
            found = m.read(part.oid, name)
            if found is not None:
                return Bound(found, owner.owner)
    return Method(owner, name)
