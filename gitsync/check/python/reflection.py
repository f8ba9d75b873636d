"""What code reads about itself: annotations, signatures, fields and the parts of types.

Where a component class stands in there it is handed out, as the class itself if that is known.
"""

from __future__ import annotations

import ast
import re
from typing import cast

from gitsync.check.python import classes, generics, reach
from gitsync.check.python.heap import (
    ClassObj,
    DictObj,
    FunctionObj,
    InstanceObj,
    ListObj,
    ModuleObj,
    Namespace,
)
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import (
    ANNOTATIONS,
    NONE,
    Alias,
    Bound,
    Const,
    DataclassInit,
    Ext,
    FieldOf,
    Opaque,
    Partial,
    Ref,
    TupleValue,
    Value,
    Wrapped,
)
from gitsync.check.python.worlds import SYS_MODULES, Frame

_WORD = re.compile(r"[^\W\d]\w*")
_MISSING = Ext("dataclasses.MISSING")
MAX_NESTED = 20


def _of_text(
    m: Machine, frame: Frame, text: str, spaces: list[Namespace], node: ast.AST
) -> Value | None:
    """A doubt if the text of a type names something that touches a component."""
    for word in _WORD.findall(text):
        held = next((s.values[word] for s in spaces if word in s.values), None)
        if held is not None and reach.touches(m.state, held):
            return m.unknown(frame, node, "an annotation names a component class")
    return None


def _written(obj: Namespace) -> list[tuple[Value, str, Value]]:
    """(name, text, value) of what the body of a class annotates."""
    noted = obj.values.get(ANNOTATIONS)
    entries = noted.items if isinstance(noted, TupleValue) else ()
    parts = [cast(TupleValue, entry).items for entry in entries]
    return [(name, str(cast(Const, text).value), value) for name, text, value in parts]


def _spaces_of_class(m: Machine, frame: Frame, obj: ClassObj) -> list[Namespace]:
    home = obj.values.get("__module__", NONE)
    modules = m.space(SYS_MODULES).values
    found = modules.get(str(home.value)) if isinstance(home, Const) else None
    oids = [found.oid] if isinstance(found, Ref) else []
    return [obj, *(m.space(oid) for oid in (*oids, frame.module))]


def of_class(
    m: Machine, frame: Frame, obj: ClassObj, node: ast.AST, *, worked_out: bool = False
) -> dict[Value, Value]:
    """`__annotations__` of a class; `worked_out` as `get_type_hints` gives them."""
    found: dict[Value, Value] = {}
    spaces = _spaces_of_class(m, frame, obj)
    for name, text, value in _written(obj):
        late = isinstance(value, Const) and isinstance(value.value, str)
        if reach.touches(m.state, value) or not (worked_out or (late and m.minor >= 14)):
            found[name] = value
        else:
            plain = Opaque("annotation") if late else value
            found[name] = _of_text(m, frame, text, spaces, node) or plain
    return found


def of_function(m: Machine, frame: Frame, obj: FunctionObj, node: ast.AST) -> dict[Value, Value]:
    """`__annotations__` of a function: the names are known, a type is in doubt or harmless."""
    if isinstance(obj.node, ast.Lambda):
        return {}
    spec = obj.node.args
    every = (*spec.posonlyargs, *spec.args, spec.vararg, *spec.kwonlyargs, spec.kwarg)
    types = {a.arg: a.annotation for a in every if a is not None and a.annotation is not None}
    if obj.node.returns is not None:
        types["return"] = obj.node.returns
    spaces = [m.space(oid) for oid in (*obj.closure, obj.module)]
    found: dict[Value, Value] = {}
    for name, kind in types.items():
        doubt = _of_text(m, frame, ast.unparse(kind), spaces, node)
        found[Const(name)] = doubt or Opaque("annotation")
    return found


def of_module(m: Machine, frame: Frame, oid: int, node: ast.AST) -> Value | None:
    """`__annotations__` of a local module; None if it annotates nothing."""
    module = m.space(oid)
    path = module.path if isinstance(module, ModuleObj) else None
    body = m.sources.parse(path).body if path is not None else []
    noted = [n for s in body for n in _statements(s) if isinstance(n, ast.AnnAssign)]
    if not noted:
        return None
    found: dict[Value, Value] = {}
    for each in noted:
        if isinstance(each.target, ast.Name):
            doubt = _of_text(m, frame, ast.unparse(each.annotation), [module], node)
            found[Const(each.target.id)] = doubt or Opaque("annotation")
    whole = len(noted) == sum(isinstance(s, ast.AnnAssign) for s in body)
    return m.new(DictObj(found, None if whole else Opaque("annotation")))


def in_scope(m: Machine, frame: Frame, node: ast.AST) -> Value | None:
    """The name `__annotations__` in a class body or in a module; None if it is not bound."""
    scope = m.space(frame.scope) if frame.scope is not None else None
    if frame.kind == "class" and scope is not None and ANNOTATIONS in scope.values:
        return m.new(DictObj({name: value for name, _, value in _written(scope)}))
    return of_module(m, frame, frame.module, node)


def _statements(node: ast.stmt) -> list[ast.AST]:
    """A statement of a module and those inside it that run in the same namespace."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = [node]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            found.append(each)
            waiting += ast.iter_child_nodes(each)
    return found


def _inner(m: Machine, value: Value) -> Value:
    """The function or class behind wrappers."""
    while isinstance(value, Wrapped | Bound | Partial):
        value = value.function
    return value


def _hints(worked_out: bool) -> Rule:
    """`typing.get_type_hints` and `inspect.get_annotations`."""

    def read(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        subject = _inner(m, args[0] if args else keywords.get("obj", NONE))
        obj = m.obj(subject) if isinstance(subject, Ref) else None
        deep = worked_out or bool(keywords) or len(args) > 1
        spaces = [*args[1:], *(v for k, v in keywords.items() if k not in ("obj", "eval_str"))]
        if any(reach.touches(m.state, v) for v in spaces):
            return m.unknown(frame, node, "types are looked up among component classes")
        if isinstance(obj, FunctionObj):
            return m.new(DictObj(of_function(m, frame, obj, node)))
        if isinstance(obj, ModuleObj):
            return of_module(m, frame, cast(Ref, subject).oid, node) or m.new(DictObj({}))
        if isinstance(obj, ClassObj):
            found: dict[Value, Value] = {}
            lineage = reversed(classes.mro_of(m, subject)) if worked_out else [subject]
            for part in lineage:
                of = m.obj(part) if isinstance(part, Ref) else None
                if isinstance(of, ClassObj):
                    found |= of_class(m, frame, of, node, worked_out=deep)
            return m.new(DictObj(found))
        return Opaque("typing.get_type_hints()")

    return read


def _signature(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`inspect.signature` shows defaults and annotations."""
    subject = _inner(m, args[0] if args else NONE)
    obj = m.obj(subject) if isinstance(subject, Ref) else None
    shown: list[Value] = []
    if isinstance(obj, ClassObj):
        for name in ("__new__", "__init__"):
            part = classes.class_attribute(m, subject, name)
            if isinstance(part, DataclassInit):
                shown += [v for f in part.fields for v in _parts(m, frame, subject, f, node)]
            elif part is not None and (made := _inner(m, part)) != subject:
                subject_part = m.obj(made) if isinstance(made, Ref) else None
                if isinstance(subject_part, FunctionObj):
                    shown += _shown(m, frame, subject_part, node)
    elif isinstance(obj, FunctionObj):
        shown = _shown(m, frame, obj, node)
    elif isinstance(obj, InstanceObj):
        shown = [subject]
    carries = any(reach.touches(m.state, v) for v in shown)
    return Opaque("inspect.signature()", carries=carries)


def _shown(m: Machine, frame: Frame, obj: FunctionObj, node: ast.AST) -> list[Value]:
    types = of_function(m, frame, obj, node).values()
    return [*obj.defaults, *(v for _, v in obj.kwdefaults), *types]


# -- dataclasses -----------------------------------------------------------------------------


def _parts(m: Machine, frame: Frame, cls: Value, field: FieldOf, node: ast.AST) -> list[Value]:
    """The type, the default, the factory and the metadata of a field."""
    kind: Value = Opaque("annotation")
    for part in reversed(classes.mro_of(m, cls)):
        obj = m.obj(part) if isinstance(part, Ref) else None
        if isinstance(obj, ClassObj):
            kind = of_class(m, frame, obj, node).get(Const(field.name), kind)
    default = classes.class_attribute(m, cls, field.name)
    return [
        kind,
        _MISSING if default is None or field.factory is not None else default,
        field.factory or _MISSING,
        field.metadata or m.new(DictObj({})),
    ]


def _dataclass(m: Machine, value: Value) -> tuple[Value, ClassObj] | None:
    """The dataclass that a value is or is made by."""
    obj = m.obj(value) if isinstance(value, Ref) else None
    cls = obj.cls if isinstance(obj, InstanceObj) else value
    for part in classes.mro_of(m, cls):
        made = m.obj(part) if isinstance(part, Ref) else None
        if isinstance(made, ClassObj) and made.fields is not None:
            return cls, made
    return None


def fields_of(m: Machine, frame: Frame, value: Value, node: ast.AST) -> dict[str, Value] | None:
    """The `Field` objects of a dataclass by name; None for everything else."""
    found = _dataclass(m, value)
    if found is None:
        return None
    cls, made = found
    out: dict[str, Value] = {}
    for field in made.fields or ():
        if not field.handed_on:
            shown = InstanceObj(Ext("dataclasses.Field", "c"))
            names = ("type", "default", "default_factory", "metadata")
            parts = _parts(m, frame, cls, field, node)
            shown.values = {"name": Const(field.name), **dict(zip(names, parts, strict=True))}
            out[field.name] = m.new(shown)
    return out


def _fields(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`dataclasses.fields`; in full only where a component stands in one."""
    found = fields_of(m, frame, args[0], node) if len(args) == 1 else None
    if found is None or not any(reach.touches(m.state, v) for v in found.values()):
        return Opaque("dataclasses.fields()")
    return TupleValue(tuple(found.values()))


def _as_plain(kind: str) -> Rule:
    """`dataclasses.asdict` and `astuple`, containers and nested dataclasses included."""

    def convert(m: Machine, value: Value, depth: int) -> Value | None:
        obj = m.obj(value) if isinstance(value, Ref) else None
        if depth > MAX_NESTED:
            return None
        made = _dataclass(m, value) if isinstance(obj, InstanceObj) else None
        if made is not None and isinstance(obj, InstanceObj):
            names = [f.name for f in made[1].fields or () if not f.handed_on]
            held = [obj.values.get(n) or classes.class_attribute(m, made[0], n) for n in names]
            inner = [None if v is None else convert(m, m.concrete(v), depth + 1) for v in held]
            parts = [v for v in inner if v is not None]
            if obj.taint is not None or len(parts) < len(names):
                return obj.taint
            if kind == "tuple":
                return TupleValue(tuple(parts))
            return m.new(DictObj({Const(n): v for n, v in zip(names, parts, strict=True)}))
        if isinstance(obj, ListObj) and obj.kind == "list" and obj.rest is None:
            listed = [convert(m, m.concrete(v), depth + 1) for v in obj.items]
            return None if None in listed else m.list_of([v for v in listed if v is not None])
        if isinstance(obj, DictObj) and obj.rest is None:
            pairs = {k: convert(m, m.concrete(v), depth + 1) for k, v in obj.items.items()}
            whole = {k: v for k, v in pairs.items() if v is not None}
            return m.new(DictObj(whole)) if len(whole) == len(pairs) else None
        if isinstance(value, TupleValue):
            listed = [convert(m, m.concrete(v), depth + 1) for v in value.items]
            whole_items = [v for v in listed if v is not None]
            return TupleValue(tuple(whole_items)) if len(whole_items) == len(listed) else None
        return value

    def run(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        value = args[0] if args else NONE
        obj = m.obj(value) if isinstance(value, Ref) else None
        if len(args) == 1 and not keywords and isinstance(obj, InstanceObj):
            made = convert(m, value, 0)
            if made is not None and made != value:
                return made
        if any(reach.touches(m.state, v) for v in (*args, *keywords.values())):
            return m.unknown(frame, node, "an object that holds a component is taken apart")
        return Opaque(f"dataclasses.as{kind}()")

    return run


# -- types -----------------------------------------------------------------------------------


def _arguments(owner: Alias) -> tuple[Value, ...]:
    """The arguments in order; `Class[a, b]` is given a tuple."""
    first = owner.args[0] if owner.args else NONE
    return first.items if len(owner.args) == 1 and isinstance(first, TupleValue) else owner.args


def of_alias(m: Machine, frame: Frame, owner: Alias, name: str, node: ast.AST) -> Value | None:
    """`__origin__`, `__args__` and `__metadata__` of `Class[…]`; None for other names."""
    if name not in ("__origin__", "__args__", "__metadata__"):
        return None
    given = _arguments(owner)
    if owner.origin in (Ext("typing.Annotated"), Ext("typing_extensions.Annotated")) and given:
        parts = {
            "__origin__": given[0],
            "__args__": TupleValue(given[:1]),
            "__metadata__": TupleValue(given[1:]),
        }
        return parts[name]
    plain = not any(isinstance(arg, Alias) for arg in owner.args)
    if (classes.is_class(m, owner.origin) and len(owner.args) == 1) or (
        plain and owner.origin == Ext("types.UnionType")
    ):
        return owner.origin if name == "__origin__" else TupleValue(given)
    if reach.touches(m.state, owner):
        return m.unknown(frame, node, "a type is made of a component class")
    return Opaque("type")


def _part_of_type(name: str) -> Rule:
    """`typing.get_args` and `typing.get_origin`."""

    def read(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        value = args[0] if args else NONE
        if isinstance(value, Alias):
            is_annotated = value.origin == Ext("typing.Annotated")
            if is_annotated and name == "__args__":
                return TupleValue(_arguments(value))
            if is_annotated:
                return value.origin
            return of_alias(m, frame, value, name, node) or Opaque("type")
        if reach.touches(m.state, value) and not classes.is_class(m, value):
            return m.unknown(frame, node, "a type is made of a component class")
        known = classes.is_class(m, value)
        return (TupleValue(()) if name == "__args__" else NONE) if known else Opaque("type")

    return read


def of_variable(m: Machine, frame: Frame, owner: Ref, name: str, node: ast.AST) -> Value | None:
    """What limits a type variable; None for other names and values."""
    if name not in ("__bound__", "__constraints__", "__default__"):
        return None
    obj = m.obj(owner)
    if not generics.kind_of(m, owner) or not isinstance(obj, InstanceObj):
        return None
    if any(reach.touches(m.state, v) for v in obj.args or ()):
        return m.unknown(frame, node, "a type variable is limited to component classes")
    return Opaque("type")


def of_partial(m: Machine, owner: Partial, name: str) -> Value:
    """`func`, `args` and `keywords` of a partial."""
    if name == "func":
        return owner.function
    if name == "args":
        return TupleValue(owner.args)
    if name == "keywords":
        return m.new(DictObj({Const(k): v for k, v in owner.keywords}))
    return Opaque()


RULES: dict[str, Rule] = {
    "typing.get_type_hints": _hints(True),
    "inspect.get_annotations": _hints(False),
    "inspect.signature": _signature,
    "dataclasses.fields": _fields,
    "dataclasses.asdict": _as_plain("dict"),
    "dataclasses.astuple": _as_plain("tuple"),
    "typing.get_args": _part_of_type("__args__"),
    "typing.get_origin": _part_of_type("__origin__"),
}
