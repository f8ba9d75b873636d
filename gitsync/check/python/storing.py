"""Setting and deleting attributes."""

from __future__ import annotations

import ast
from typing import cast

from gitsync.check.python import (
    calls,
    class_attributes,
    classes,
    expressions,
    making,
    protocols,
    reach,
    routing,
    slots,
)
from gitsync.check.python.facts import BASES
from gitsync.check.python.heap import (
    ClassObj,
    FunctionObj,
    InstanceObj,
    ListObj,
    ModuleObj,
    Namespace,
)
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    NONE,
    Const,
    Ext,
    Method,
    Opaque,
    PathValue,
    Ref,
    TupleValue,
    Unknown,
    Value,
    Wrapped,
)
from gitsync.check.python.worlds import REGISTRY, SYS_PATH, Frame


def put(
    m: Machine,
    frame: Frame,
    owner: Value,
    name: str,
    value: Value,
    node: ast.AST,
    *,
    plainly: bool = False,
) -> None:
    """`owner.name = value`; `plainly` as `object.__setattr__` does it."""
    if isinstance(owner, Unknown):
        m.doubt(owner)
        return
    if owner == Ext("sys") and name == "path":
        _set_path(m, frame, value, node)
        return
    if isinstance(owner, Ext):
        _guard_external(m, frame, owner, name, node)
    if isinstance(owner, Ref):
        obj = m.obj(owner)
        if isinstance(obj, InstanceObj) and name == "__class__":
            changed_instance = cast(InstanceObj, m.state.change(owner.oid))
            if isinstance(value, Ref) and isinstance(m.obj(value), ClassObj):
                changed_instance.cls = value
            else:
                m.taint(owner.oid, m.unknown(frame, node, "an object becomes something else"))
            return
        if isinstance(obj, InstanceObj) and _by_hook(
            m, frame, owner, obj, name, value, node, plainly=plainly
        ):
            return
        if isinstance(obj, ClassObj):
            hook = classes.meta_attribute(m, obj, "__setattr__")
            if hook is not None:
                calls.call(m, frame, hook, [owner, Const(name), value], {}, node)
                return
            _guard_member(m, frame, owner, obj, name, node)
            if name == "__abstractmethods__":
                changed = cast(ClassObj, m.state.change(owner.oid))
                items = calls.strings_of(m, frame, value, node)
                if items is None:
                    changed.doubt = m.unknown(frame, node, "the abstract methods are set by hand")
                else:
                    changed.abstract = frozenset(items)
                return
            if name in ("__bases__", "__class__"):
                changed = cast(ClassObj, m.state.change(owner.oid))
                changed.doubt = m.unknown(frame, node, "the bases are changed afterwards")
                return
            if name == "__qualname__" or name == "__module__" or name == "__name__":
                _rename(m, frame, owner, name, value, node)
                return
        if isinstance(obj, ModuleObj) and name == "__class__":
            m.taint(owner.oid, m.unknown(frame, node, "a module becomes something else"))
            return
        if isinstance(obj, FunctionObj) and name in ("__code__", "__defaults__", "__kwdefaults__"):
            m.doubt(m.unknown(frame, node, "the inside of a function is changed"))
        if isinstance(obj, Namespace):
            m.store(owner.oid, name, value)
            return
        raise m.error(frame, node, "AttributeError", f"no attribute '{name}' can be set here")
    if isinstance(owner, Const | TupleValue | PathValue | Method):
        raise m.error(frame, node, "AttributeError", f"no attribute '{name}' can be set here")
    if isinstance(owner, Opaque | Ext):
        path = owner.path
        key = f"attribute:{path}.{name}"
        registry = m.space(REGISTRY)
        routes = name in routing.URL_WORDS and not isinstance(value, Const)
        if routes and m.rehearsal is not None:
            m.rehearsal.routed.add(path)
        known = key in registry.values or isinstance(owner, Ext)
        if routes or known or reach.touches(m.state, value):
            m.store(REGISTRY, key, value)
        if isinstance(owner, Ext) and path.startswith(tuple(BASES.values())):
            m.doubt(m.unknown(frame, node, "the SDK's own class is changed here"))


def _by_hook(
    m: Machine,
    frame: Frame,
    owner: Ref,
    obj: InstanceObj,
    name: str,
    value: Value,
    node: ast.AST,
    *,
    plainly: bool,
) -> bool:
    """Let `__setattr__`, a property or a descriptor store the value; False if none of them does."""
    hook = classes.class_attribute(m, obj.cls, "__setattr__") if not plainly else None
    if hook is not None:
        calls.call(m, frame, calls.bind(m, hook, owner), [Const(name), value], {}, node)
        return True
    raw = class_attributes.class_lookup(m, obj.cls, name)
    if isinstance(raw, Wrapped) and raw.kind == "property":
        setter = raw.args[0] if raw.args else NONE
        if setter == NONE:
            raise m.error(frame, node, "AttributeError", f"the property '{name}' has no setter")
        calls.call(m, frame, setter, [owner, value], {}, node)
        return True
    method = class_attributes.descriptor_method(m, raw, "__set__")
    if method is not None:
        calls.call(m, frame, method, [owner, value], {}, node)
        return True
    if class_attributes.descriptor_method(m, raw, "__delete__") is not None:
        raise m.error(frame, node, "AttributeError", f"the descriptor '{name}' takes no value")
    if not plainly:
        _guard_frozen(m, frame, obj.cls, name, node)
    _guard_slots(m, frame, obj.cls, name, node)
    return False


def _guard_frozen(m: Machine, frame: Frame, cls: Value, name: str, node: ast.AST) -> None:
    """A frozen dataclass has a `__setattr__` that refuses; subclasses only for its fields."""
    for part in classes.mro_of(m, cls):
        obj = m.obj(part) if isinstance(part, Ref) else None
        if not isinstance(obj, ClassObj) or not obj.frozen:
            continue
        if part == cls or name in [f.name for f in obj.fields or ()]:
            reason = f"the dataclass {obj.name} is frozen"
            raise m.error(frame, node, "dataclasses.FrozenInstanceError", reason)


def _guard_slots(m: Machine, frame: Frame, cls: Value, name: str, node: ast.AST) -> None:
    """Without a `__dict__` an instance takes the names of its slots only."""
    allowed: set[str] = set()
    for part in classes.mro_of(m, cls):
        if part == Ext("builtins.object"):
            continue
        obj = m.obj(part) if isinstance(part, Ref) else None
        own = slots.slots_of(m, obj.values) if isinstance(obj, ClassObj) else None
        if own is None or Const("__dict__") in own:
            return
        for slot in own:
            text = str(slot.value) if isinstance(slot, Const) else ""
            hidden = text.startswith("__") and not text.endswith("__")
            allowed.add(f"_{obj.name.lstrip('_')}{text}" if hidden else text)  # type: ignore[union-attr]
    if name not in allowed:
        raise m.error(frame, node, "AttributeError", f"the object has no attribute '{name}' to set")


def _guard_member(
    m: Machine, frame: Frame, owner: Ref, cls: ClassObj, name: str, node: ast.AST
) -> None:
    """A member of an enum can neither be set nor deleted."""
    if classes.is_enum(cls):
        member = cls.values.get(name)
        obj = m.obj(member) if isinstance(member, Ref) else None
        if isinstance(obj, InstanceObj) and obj.cls == owner:
            raise m.error(
                frame, node, "AttributeError", f"the member {cls.name}.{name} cannot be changed"
            )


def _set_path(m: Machine, frame: Frame, value: Value, node: ast.AST) -> None:
    """`sys.path = …`."""
    items, rest = expressions.items_of(m, frame, value, node)
    changed = cast(ListObj, m.state.change(SYS_PATH))
    changed.items, changed.rest = list(items), rest


_VITAL = frozenset({"builtins", "abc", "importlib", "sys", "types", "functools", "dataclasses"})


def _guard_external(m: Machine, frame: Frame, owner: Ext, name: str, node: ast.AST) -> None:
    """Changing what everything stands on puts everything in doubt."""
    if owner.kind == "c" and owner.path.startswith("builtins."):
        raise m.error(frame, node, "TypeError", f"{owner.path} cannot be changed")
    if owner.path in _VITAL and (owner.path != "sys" or name in ("modules", "meta_path")):
        m.doubt(m.unknown(frame, node, f"{owner.path}.{name} is replaced"))


def _rename(m: Machine, frame: Frame, owner: Ref, name: str, value: Value, node: ast.AST) -> None:
    changed = cast(ClassObj, m.state.change(owner.oid))
    if not isinstance(value, Const) or not isinstance(value.value, str):
        if name != "__name__":
            changed.doubt = m.unknown(frame, node, "the class is renamed")
    elif name == "__qualname__":
        changed.qualname = value.value
    elif name == "__module__":
        changed.module = making.shown_module(m, frame, value.value)
        changed.values["__module__"] = value
    else:
        changed.name = value.value


def remove(
    m: Machine,
    frame: Frame,
    owner: Value,
    name: str,
    node: ast.AST,
    *,
    plainly: bool = False,
) -> None:
    """`del owner.name`; `plainly` as `object.__delattr__` does it."""
    if isinstance(owner, Unknown):
        m.doubt(owner)
        return
    obj = m.obj(owner) if isinstance(owner, Ref) else None
    if not isinstance(owner, Ref) or not isinstance(obj, Namespace):
        return
    if isinstance(obj, InstanceObj) and _deleted_by_hook(
        m, frame, owner, obj, name, node, plainly=plainly
    ):
        return
    if isinstance(obj, ClassObj):
        hook = classes.meta_attribute(m, obj, "__delattr__") if not plainly else None
        if hook is not None:
            calls.call(m, frame, hook, [owner, Const(name)], {}, node)
            return
        _guard_member(m, frame, owner, obj, name, node)
    if m.read(owner.oid, name) is not None:
        changed = cast(Namespace, m.state.change(owner.oid))
        changed.values.pop(name)
    elif obj.taint is None and (
        not isinstance(obj, InstanceObj) or protocols.whole_class(m, owner) is not None
    ):
        raise m.error(frame, node, "AttributeError", f"there is no '{name}' to delete")


def _deleted_by_hook(
    m: Machine,
    frame: Frame,
    owner: Ref,
    obj: InstanceObj,
    name: str,
    node: ast.AST,
    *,
    plainly: bool,
) -> bool:
    """Let `__delattr__`, a property or a descriptor delete; False if none of them does."""
    hook = classes.class_attribute(m, obj.cls, "__delattr__") if not plainly else None
    if hook is not None:
        calls.call(m, frame, calls.bind(m, hook, owner), [Const(name)], {}, node)
        return True
    raw = class_attributes.class_lookup(m, obj.cls, name)
    if isinstance(raw, Wrapped) and raw.kind == "property":
        deleter = (*raw.args, NONE, NONE)[1]
        if deleter == NONE:
            raise m.error(frame, node, "AttributeError", f"the property '{name}' has no deleter")
        calls.call(m, frame, deleter, [owner], {}, node)
        return True
    method = class_attributes.descriptor_method(m, raw, "__delete__")
    if method is not None:
        calls.call(m, frame, method, [owner], {}, node)
        return True
    if class_attributes.descriptor_method(m, raw, "__set__") is not None:
        raise m.error(frame, node, "AttributeError", f"the descriptor '{name}' has no __delete__")
    if not plainly:
        _guard_frozen(m, frame, obj.cls, name, node)
    return False
