"""Class objects: made by `class` and `type()`, their MRO, metaclass, abstract methods, hooks."""

from __future__ import annotations

import ast
from dataclasses import replace

from gitsync.check.python import attributes, calls, expressions
from gitsync.check.python.facts import BASES, facts
from gitsync.check.python.machine import REGISTRY, Frame, Kind, Machine, Outcome, Raised
from gitsync.check.python.scopes import owned
from gitsync.check.python.state import State
from gitsync.check.python.values import (
    Alias,
    Bound,
    ClassObj,
    Const,
    Coroutine,
    Decorator,
    DictObj,
    Ext,
    FunctionObj,
    InstanceObj,
    Lazy,
    ListObj,
    ModuleObj,
    Names,
    Namespace,
    Opaque,
    Partial,
    Place,
    Ref,
    Scope,
    Super,
    TupleValue,
    Unbound,
    Union,
    Unknown,
    Value,
    Wrapped,
)

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
ANNOTATIONS = "\0annotations"
KEYWORD_ONLY = "\0kw_only"


# -- what touches a component ----------------------------------------------------------------


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
    if isinstance(value, Partial | Coroutine):
        parts = (value.function, *value.args, *(v for _, v in value.keywords))
        return any(touches(state, v, depth - 1) for v in parts)
    if isinstance(value, Alias):
        return touches(state, value.origin, depth - 1)
    if isinstance(value, Lazy):
        return touches(state, value.source, depth - 1) or _lazy_touches(state, value, depth - 1)
    if isinstance(value, Super):
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
            or any(touches(state, v, depth - 1) for v in obj.values.values())
        )
    if isinstance(obj, ModuleObj):
        return obj.taint is not None or any(_shallow(state, v) for v in obj.values.values())
    return False


def _shallow(state: State, value: Value) -> bool:
    return isinstance(value, Unknown) or (
        isinstance(value, Ref)
        and isinstance(state.heap.get(value.oid), ClassObj)
        and is_component(state, value)
    )


def function_touches(state: State, function: FunctionObj, depth: int) -> bool:
    """True if a function's code, or code it names, mentions a component or a dynamic construct."""
    if depth <= 0:
        return True
    names = getattr(function.node, "_mentioned", None)
    if names is None:
        found: set[str] = set()
        for node in ast.walk(function.node):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                found.add("import_module")
        names = frozenset(found)
        function.node._mentioned = names  # type: ignore[union-attr]
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


# -- looking at classes ----------------------------------------------------------------------


def is_class(m: Machine, value: Value) -> bool:
    """True if the value certainly is a class."""
    if isinstance(value, Ext):
        return value.kind == "c"
    return isinstance(value, Ref) and isinstance(m.obj(value), ClassObj)


def mro_of(m: Machine, value: Value) -> tuple[Value, ...]:
    """The MRO of a class value, itself first, `object` left out."""
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, ClassObj):
            return (value, *obj.mro)
    if isinstance(value, Ext):
        return (value, *(Ext(p, "c") for p in facts().class_facts(value.path).lineage))
    return (value,)


def class_attribute(m: Machine, cls: Value, name: str) -> Value | None:
    """An attribute found along the MRO in the repository's own classes; None otherwise."""
    for part in mro_of(m, cls):
        if isinstance(part, Ref):
            obj = m.obj(part)
            found = m.read(part.oid, name) if isinstance(obj, ClassObj) else None
            if found is not None:
                return found
    return None


def find_in_mro(m: Machine, cls: Value, name: str) -> tuple[Value, Value] | None:
    """(class, value) of an attribute; an opaque or external class before it hides it."""
    for part in mro_of(m, cls):
        if isinstance(part, Ref):
            obj = m.obj(part)
            found = m.read(part.oid, name) if isinstance(obj, ClassObj) else None
            if found is not None:
                return part, found
        elif isinstance(part, Ext):
            if part.path in BASES.values() and name in ("__init__", "run", "grade"):
                role = "run" if part.path == BASES["workflow"] else "grade"
                if name in ("__init__", role):
                    return part, Ext(f"{part.path}.{name}", "f")
        else:
            return part, part
    return None


def has_opaque_base(m: Machine, cls: Value) -> bool:
    """True if something in the MRO cannot be looked into."""
    return any(not isinstance(part, Ref | Ext) for part in mro_of(m, cls))


def meta_attribute(m: Machine, cls: ClassObj, name: str) -> Value | None:
    """An attribute of the class's own metaclass."""
    for part in cls.meta:
        if isinstance(part, Ref):
            obj = m.obj(part)
            found = m.read(part.oid, name) if isinstance(obj, ClassObj) else None
            if found is not None:
                return found
    return None


def type_operator(m: Machine, left: Value, right: Value) -> Value | None:
    """A metaclass's own `__or__`, which makes `A | B` more than a type."""
    for value in (left, right):
        if isinstance(value, Ref):
            obj = m.obj(value)
            if isinstance(obj, ClassObj):
                for name in ("__or__", "__ror__"):
                    found = meta_attribute(m, obj, name)
                    if found is not None:
                        return found
    return None


def iterate_class(
    m: Machine, frame: Frame, value: Ref, obj: ClassObj, node: ast.AST
) -> tuple[list[Value], Value | None]:
    """Iterating a class: the members of an enum, or a metaclass's `__iter__`."""
    method = meta_attribute(m, obj, "__iter__")
    if method is not None:
        result = calls.call(m, frame, calls.bind(m, method, value), [], {}, node)
        return expressions.items_of(m, frame, result, node)
    if is_enum(obj):
        return [
            v
            for v in obj.values.values()
            if isinstance(v, Ref) and isinstance(m.obj(v), InstanceObj) and m.obj(v).cls == value  # type: ignore[attr-defined]
        ], None
    if any(not isinstance(part, Ref | Ext) for part in (*obj.meta, *obj.mro)):
        return [], Opaque()
    raise m.error(frame, node, "TypeError", f"the class {obj.name} cannot be iterated over")


def is_enum(obj: ClassObj) -> bool:
    """True for classes made by EnumType."""
    return any(
        isinstance(p, Ext) and p.path in ("enum.EnumType", "enum.EnumMeta") for p in obj.meta
    )


# -- exceptions ------------------------------------------------------------------------------


def exception_matches(m: Machine, value: Value, kind: Value) -> bool | None:
    """Whether `except kind` catches an exception; None if it may."""
    if isinstance(kind, TupleValue):
        answers = [exception_matches(m, value, k) for k in kind.items]
        return True if True in answers else (None if None in answers else False)
    if kind in (Ext("builtins.BaseException"), Ext("builtins.Exception")) and isinstance(
        value, Opaque
    ):
        return True
    cls: Value = value
    if isinstance(value, Ref):
        obj = m.obj(value)
        cls = obj.cls if isinstance(obj, InstanceObj) else value
    if not isinstance(cls, Ref | Ext) or not isinstance(kind, Ref | Ext):
        return None
    lineage = mro_of(m, cls)
    if kind in lineage:
        return True
    return None if any(not isinstance(p, Ref | Ext) for p in lineage) else False


def class_of(m: Machine, value: Value) -> Value:
    """The class of an exception value."""
    if isinstance(value, Ref):
        obj = m.obj(value)
        return obj.cls if isinstance(obj, InstanceObj) else value
    return value if isinstance(value, Ext) else Ext("builtins.Exception", "c")


def suppressed_exceptions(manager: Value) -> tuple[Value, ...] | None:
    """The exceptions that `contextlib.suppress(...)` swallows; None for other managers."""
    if isinstance(manager, Decorator) and manager.name == "suppress":
        return tuple(v for _, v in manager.parts)
    return None


# -- making classes --------------------------------------------------------------------------


def note_annotation(m: Machine, frame: Frame, node: ast.AnnAssign, value: Value | None) -> None:
    """Remember an annotated name of a class body, for `dataclass`."""
    assert isinstance(node.target, ast.Name) and frame.scope is not None
    text = ast.unparse(node.annotation)
    scope = m.space(frame.scope)
    old = scope.values.get(ANNOTATIONS)
    items = old.items if isinstance(old, TupleValue) else ()
    entry = TupleValue((Const(node.target.id), Const(text)))
    kept = tuple(
        i for i in items if not (isinstance(i, TupleValue) and i.items[0] == Const(node.target.id))
    )
    if len(kept) != len(items):
        return
    m.state.change(frame.scope).values[ANNOTATIONS] = TupleValue(  # type: ignore[attr-defined]
        (*items, entry)
    )


def define(m: Machine, frame: Frame, state: State, node: ast.ClassDef) -> list[Outcome]:
    """Execute a `class` statement."""
    out: list[Outcome] = []
    type_params = list(getattr(node, "type_params", ()) or ())
    at = m.place(frame, node)

    def head() -> tuple[list[Value], list[Value], dict[str, Value], Frame, Value | None]:
        decorators = [expressions.evaluate(m, frame, d) for d in node.decorator_list]
        inner = expressions.with_type_params(m, frame, type_params)
        bases: list[Value] = []
        rest: Value | None = None
        for base in node.bases:
            if isinstance(base, ast.Starred):
                found, more = expressions.items_of(
                    m, inner, expressions.evaluate(m, inner, base.value), base
                )
                bases += found
                rest = rest or more
            else:
                bases.append(expressions.evaluate(m, inner, base))
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = expressions.evaluate(m, inner, keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            else:
                calls.spread(m, frame, value, keywords, keyword.value)
        if type_params:
            bases.append(Alias(Ext("typing.Generic", "c")))
        return decorators, bases, keywords, inner, rest

    for after, found in m.branches(state, head):
        if isinstance(found, Raised):
            out.append(Outcome(after, Kind.RAISE, raised=found))
            continue
        decorators, bases, keywords, inner, rest = found
        m.state = after
        scope = Scope("class", owned(node).names)
        scope.declared_global = owned(node).declared_global
        scope.declared_nonlocal = owned(node).declared_nonlocal
        plain = getattr(node, "plain_name", node.name)
        qualname = frame.prefix + plain
        if node.name in _declared_global(m, frame):
            qualname = node.name
        module = m.space(frame.module)
        scope.values["__module__"] = module.values.get("__name__", Const(""))
        scope.values["__qualname__"] = Const(qualname)
        ref = m.new(scope)
        closure = inner.closure if inner.scope is None else (inner.scope, *inner.closure)
        body = replace(
            frame,
            scope=ref.oid,
            closure=closure,
            kind="class",
            prefix=qualname + ".",
            function=None,
        )
        for result in statements_block(m, body, after, node.body):
            if result.kind is not Kind.NORMAL:
                out.append(result)
                continue
            out += _finish(m, frame, result.state, node, ref, bases, keywords, decorators, rest, at)
    return m.join(out)


def _declared_global(m: Machine, frame: Frame) -> frozenset[str]:
    if frame.scope is None:
        return frozenset()
    scope = m.state.heap[frame.scope]
    return scope.declared_global if isinstance(scope, Scope) else frozenset()


def statements_block(m: Machine, frame: Frame, state: State, body: list[ast.stmt]) -> list[Outcome]:
    """`statements.block`, imported late because statements need classes too."""
    from gitsync.check.python import statements

    return statements.block(m, frame, state, body)


def _finish(
    m: Machine,
    frame: Frame,
    state: State,
    node: ast.ClassDef,
    scope: Ref,
    bases: list[Value],
    keywords: dict[str, Value],
    decorators: list[Value],
    rest: Value | None,
    at: Place,
) -> list[Outcome]:
    out: list[Outcome] = []

    def make() -> None:
        m.at = at
        body = m.settle(scope.oid)
        if body.taint is not None or rest is not None:
            value: Value = body.taint or m.unknown(frame, node, "the bases are not known")
        else:
            values = dict(body.values)
            plain = getattr(node, "plain_name", node.name)
            value = build(m, frame, plain, bases, keywords, values, node)
        if isinstance(value, Ref):
            made = m.obj(value)
            if isinstance(made, ClassObj):
                inside = m.state.change(scope.oid)
                assert isinstance(inside, Scope)
                inside.class_ref = value
        for decorator, where in zip(
            reversed(decorators), reversed(node.decorator_list), strict=True
        ):
            value = m.concrete(calls.decorate(m, frame, decorator, value, where))
        m.at = at
        m.bind(frame, node.name, value)

    for after, done in m.branches(state, make):
        if isinstance(done, Raised):
            out.append(Outcome(after, Kind.RAISE, raised=done))
        else:
            out.append(Outcome(after))
    return out


def resolve_bases(m: Machine, frame: Frame, bases: list[Value], node: ast.AST) -> list[Value]:
    """`__mro_entries__`: aliases stand for their origin, typing helpers for theirs."""
    out: list[Value] = []
    for base in bases:
        if isinstance(base, Alias):
            origin = base.origin
            if origin == Ext("typing.Generic") and any(
                isinstance(b, Alias)
                and b is not base
                and b.origin != Ext("typing.Generic")
                or b == Ext("typing.Protocol")
                for b in bases[bases.index(base) + 1 :]
            ):
                continue
            if origin not in out or origin != Ext("typing.Generic"):
                out.append(origin)
            continue
        if isinstance(base, Ext) and base.path in ("typing.NamedTuple", "typing.TypedDict"):
            out.append(
                Ext("builtins.tuple" if base.path.endswith("Tuple") else "builtins.dict", "c")
            )
            continue
        if isinstance(base, Ref):
            obj = m.obj(base)
            if isinstance(obj, InstanceObj):
                method = class_attribute(m, obj.cls, "__mro_entries__")
                if method is not None:
                    result = calls.call(
                        m, frame, calls.bind(m, method, base), [TupleValue(tuple(bases))], {}, node
                    )
                    out.extend(expressions.items_of(m, frame, result, node)[0])
                    continue
        out.append(base)
    return out


def build(
    m: Machine,
    frame: Frame,
    name: str,
    raw_bases: list[Value],
    keywords: dict[str, Value],
    values: dict[str, Value],
    node: ast.AST,
) -> Value:
    """What `metaclass(name, bases, namespace, **keywords)` gives."""
    bases = resolve_bases(m, frame, raw_bases, node)
    for base in bases:
        if isinstance(base, Unknown):
            return base
        if isinstance(base, Opaque | Ext):
            if isinstance(base, Ext) and base.kind == "v" and not facts().is_class(base.path):
                if base.path.startswith("builtins."):
                    raise m.error(frame, node, "TypeError", "a base of the class is no class")
            continue
        if not isinstance(base, Ref) or not isinstance(m.obj(base), ClassObj):
            if isinstance(base, Ref) and isinstance(m.obj(base), InstanceObj):
                return m.unknown(frame, node, "a base of the class is no class")
            raise m.error(frame, node, "TypeError", f"a base of the class {name} is no class")
    keywords = dict(keywords)
    explicit = keywords.pop("metaclass", None)
    meta = _metaclass(m, frame, explicit, bases, node)
    if isinstance(meta, Unknown):
        return meta
    own = [p for p in meta if isinstance(p, Ref)]
    if own:
        return _by_metaclass(m, frame, meta, name, bases, keywords, values, node)
    if any(not isinstance(p, Ref | Ext) for p in meta) and any(
        is_component(m.state, b) for b in bases
    ):
        return m.unknown(frame, node, "the metaclass cannot be looked into")
    return create(m, frame, meta, name, bases, keywords, values, node)


def _metaclass(
    m: Machine, frame: Frame, explicit: Value | None, bases: list[Value], node: ast.AST
) -> tuple[Value, ...] | Unknown:
    """The MRO of the most derived metaclass; raises on a conflict."""
    winner: tuple[Value, ...] = (Ext("builtins.type", "c"),)
    candidates: list[tuple[Value, ...]] = []
    if explicit is not None:
        if isinstance(explicit, Unknown):
            return explicit
        if isinstance(explicit, Ext | Opaque) or is_class(m, explicit):
            candidates.append(mro_of(m, explicit))
        else:
            return m.unknown(frame, node, "the metaclass is not a class")
    for base in bases:
        if isinstance(base, Ref):
            obj = m.obj(base)
            if isinstance(obj, ClassObj):
                candidates.append(obj.meta)
        elif isinstance(base, Ext):
            found = facts().class_facts(base.path).metaclass
            candidates.append(tuple(Ext(p, "c") for p in found) or winner[-1:])
    for candidate in candidates:
        if not candidate or candidate[0] in winner:
            continue
        if winner[0] in candidate or winner == (Ext("builtins.type"),):
            winner = candidate
        elif any(not isinstance(p, Ref | Ext) for p in (*candidate, *winner)):
            return m.unknown(frame, node, "the metaclasses cannot be compared")
        else:
            raise m.error(
                frame, node, "TypeError", "the metaclasses of the bases conflict with each other"
            )
    return winner


def _by_metaclass(
    m: Machine,
    frame: Frame,
    meta: tuple[Value, ...],
    name: str,
    bases: list[Value],
    keywords: dict[str, Value],
    values: dict[str, Value],
    node: ast.AST,
) -> Value:
    """A metaclass of the repository: run its `__new__` and `__init__`."""
    first = meta[0]
    for part in meta:
        obj = m.obj(part) if isinstance(part, Ref) else None
        if isinstance(obj, ClassObj) and (
            {"__prepare__", "__call__", "__getattribute__"} & set(obj.values)
        ):
            if "__prepare__" in obj.values:
                return m.unknown(frame, node, "the metaclass prepares its own namespace")
    space = DictObj({Const(k): v for k, v in values.items()})
    args: list[Value] = [Const(name), TupleValue(tuple(bases)), m.new(space)]
    new = _meta_lookup(m, meta, "__new__")
    if new is None:
        made: Value = create(m, frame, meta, name, bases, keywords, values, node)
    else:
        function = new.function if isinstance(new, Wrapped) else new
        made = m.concrete(calls.call(m, frame, function, [first, *args], dict(keywords), node))
    if isinstance(made, Ref) and isinstance(m.obj(made), ClassObj):
        init = _meta_lookup(m, meta, "__init__")
        if init is not None and first in m.obj(made).meta:  # type: ignore[attr-defined]
            calls.call(m, frame, init, [made, *args], dict(keywords), node)
    return made


def _meta_lookup(m: Machine, meta: tuple[Value, ...], name: str) -> Value | None:
    for part in meta:
        obj = m.obj(part) if isinstance(part, Ref) else None
        if isinstance(part, Ref) and isinstance(obj, ClassObj):
            found = m.read(part.oid, name)
            if found is not None:
                return found
    return None


def create(
    m: Machine,
    frame: Frame,
    meta: tuple[Value, ...],
    name: str,
    bases: list[Value],
    keywords: dict[str, Value],
    values: dict[str, Value],
    node: ast.AST,
) -> Value:
    """`type.__new__`: the class object itself, its hooks called."""
    module = _text(values.get("__module__"))
    if module is None:
        module = _text(m.space(frame.module).values.get("__name__")) or ""
        values.setdefault("__module__", Const(module))
    qualname = _text(values.pop("__qualname__", None)) or name
    place = m.place(frame, node)
    cls = ClassObj(name, qualname, shown_module(m, frame, module), place)
    cls.node = node if isinstance(node, ast.ClassDef) else None
    cls.bases = tuple(bases) or (Ext("builtins.object", "c"),)
    cls.meta = meta
    cls.mro = _linearise(m, frame, bases, name, node)
    annotations = values.pop(ANNOTATIONS, None)
    for hook in ("__init_subclass__", "__class_getitem__"):
        found = values.get(hook)
        if isinstance(found, Ref) and isinstance(m.obj(found), FunctionObj):
            values[hook] = Wrapped("classmethod", found)
    found = values.get("__new__")
    if isinstance(found, Ref) and isinstance(m.obj(found), FunctionObj):
        values["__new__"] = Wrapped("staticmethod", found)
    cls.values = values
    if annotations is not None:
        cls.values[ANNOTATIONS] = annotations
    _check_bases(m, frame, cls, bases, keywords, node)
    ref = m.new(cls)
    if is_enum(cls):
        _make_members(m, ref)
    for key, value in list(values.items()):
        if isinstance(value, Ref):
            obj = m.obj(value)
            if isinstance(obj, FunctionObj) and obj.owner is not None:
                continue
            if isinstance(obj, InstanceObj):
                method = class_attribute(m, obj.cls, "__set_name__")
                if method is not None:
                    calls.call(m, frame, calls.bind(m, method, value), [ref, Const(key)], {}, node)
    if _is_abc(cls):
        changed = m.state.change(ref.oid)
        assert isinstance(changed, ClassObj)
        changed.abstract = abstract_names(m, ref)
    _init_subclass(m, frame, ref, keywords, node)
    return ref


def _is_abc(cls: ClassObj) -> bool:
    return any(isinstance(p, Ext) and p.path.endswith("ABCMeta") for p in cls.meta)


def shown_module(m: Machine, frame: Frame, name: str) -> str:
    """A module's dotted path from the rollout folder, whatever it is called privately."""
    prefix = m.importer.private + "."
    if name.startswith(prefix):
        return name[len(prefix) :]
    return "__init__" if name == m.importer.private else name


def _text(value: Value | None) -> str | None:
    return value.value if isinstance(value, Const) and isinstance(value.value, str) else None


def _linearise(
    m: Machine, frame: Frame, bases: list[Value], name: str, node: ast.AST
) -> tuple[Value, ...]:
    """C3 over the bases; classes that cannot be looked into count as they stand."""
    if len(set(bases)) != len(bases):
        third = [b for b in bases if isinstance(b, Opaque)]
        if len(third) < 2 or len(set(third)) == len(third):
            raise m.error(frame, node, "TypeError", f"a base of {name} is given twice")
    sequences = [list(mro_of(m, b)) for b in bases if b != Ext("builtins.object")]
    sequences.append([b for b in bases if b != Ext("builtins.object")])
    if Ext("builtins.object") in bases[:-1]:
        raise m.error(frame, node, "TypeError", f"the bases of {name} cannot be put in an order")
    merged: list[Value] = []
    sequences = [s for s in sequences if s]
    while sequences:
        for sequence in sequences:
            head = sequence[0]
            if not any(head in other[1:] for other in sequences):
                break
        else:
            raise m.error(
                frame, node, "TypeError", f"the bases of {name} cannot be put in an order (MRO)"
            )
        merged.append(head)
        for sequence in sequences:
            if sequence[0] == head:
                del sequence[0]
        sequences = [s for s in sequences if s]
    return tuple(merged)


_FINAL = frozenset(
    f"builtins.{n}"
    for n in ("bool", "NoneType", "range", "slice", "memoryview", "function", "ellipsis")
)


_SOLID = frozenset(
    f"builtins.{n}"
    for n in (
        "int", "str", "bytes", "bytearray", "tuple", "list", "dict", "set", "frozenset", "float",
        "complex", "type", "BaseException", "property", "super",
    )
)


def _check_bases(
    m: Machine,
    frame: Frame,
    cls: ClassObj,
    bases: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> None:
    """Rules of `type.__new__` and of typing that refuse some bases; doubts of opaque ones."""
    for base in bases:
        if isinstance(base, Ext) and base.path in _FINAL:
            raise m.error(frame, node, "TypeError", f"{base.path} cannot be a base class")
    solid = {p for p in cls.mro if isinstance(p, Ext) and p.path in _SOLID}
    solid -= {Ext(p) for s in solid for p in facts().class_facts(s.path).lineage}
    if len(solid) > 1:
        names = ", ".join(sorted(s.path.rpartition(".")[2] for s in solid))
        raise m.error(frame, node, "TypeError", f"the bases {names} do not fit together")
    if Ext("typing.Protocol") in bases:
        for base in bases:
            ok = isinstance(base, Ext) and (
                base.path.startswith("collections.abc.")
                or base.path in ("typing.Protocol", "typing.Generic", "builtins.object")
            )
            if isinstance(base, Ref):
                obj = m.obj(base)
                ok = isinstance(obj, ClassObj) and Ext("typing.Protocol") in obj.bases
            elif isinstance(base, Ext) and not is_component(m.state, base):
                ok = True
            if not ok and not isinstance(base, Opaque):
                raise m.error(
                    frame, node, "TypeError", "a Protocol can only inherit from other protocols"
                )
    for base in bases:
        if isinstance(base, Ref):
            obj = m.obj(base)
            if (
                isinstance(obj, ClassObj)
                and is_enum(obj)
                and any(
                    isinstance(v, Ref)
                    and isinstance(m.obj(v), InstanceObj)
                    and m.obj(v).cls == base  # type: ignore[attr-defined]
                    for v in obj.values.values()
                )
            ):
                raise m.error(frame, node, "TypeError", f"the enum {obj.name} cannot be extended")
    for part in cls.mro:
        if isinstance(part, Opaque) and part.third and cls.third_base is None:
            cls.third_base = m.place(frame, node)
    for name in ("__subclasshook__",):
        if name in cls.values and any(is_component(m.state, b) for b in bases):
            reason = f"{cls.name} decides itself what its subclasses are"
            m.doubt(m.unknown(frame, node, reason))
    for part in cls.meta:
        obj2 = m.obj(part) if isinstance(part, Ref) else None
        if isinstance(obj2, ClassObj) and "__subclasscheck__" in obj2.values:
            if any(is_component(m.state, b) for b in bases):
                reason = "the metaclass decides what its subclasses are"
                m.doubt(m.unknown(frame, node, reason))


def _make_members(m: Machine, ref: Ref) -> None:
    """The members of an enum become instances of it."""
    cls = m.state.change(ref.oid)
    assert isinstance(cls, ClassObj)
    for key, value in list(cls.values.items()):
        if key.startswith("_") or isinstance(value, Wrapped | Bound):
            continue
        if isinstance(value, Ref) and isinstance(m.obj(value), FunctionObj):
            continue
        member = InstanceObj(ref)
        member.values = {"value": value, "_value_": value, "name": Const(key), "_name_": Const(key)}
        cls.values[key] = m.new(member)


def abstract_names(m: Machine, ref: Ref) -> frozenset[str]:
    """`__abstractmethods__` as ABCMeta works it out when the class statement ends."""
    cls = m.obj(ref)
    assert isinstance(cls, ClassObj)
    names = {k for k, v in cls.values.items() if is_abstract(m, v)}
    for base in cls.bases:
        inherited: frozenset[str] | tuple[str, ...] = ()
        if isinstance(base, Ref):
            obj = m.obj(base)
            inherited = obj.abstract if isinstance(obj, ClassObj) else ()
        elif isinstance(base, Ext):
            inherited = facts().class_facts(base.path).abstract
        for name in inherited:
            found = _mro_value(m, ref, name)
            if found is None or is_abstract(m, found):
                names.add(name)
    return frozenset(names)


def _mro_value(m: Machine, ref: Ref, name: str) -> Value | None:
    for part in mro_of(m, ref):
        if isinstance(part, Ref):
            obj = m.obj(part)
            own = m.read(part.oid, name) if isinstance(obj, ClassObj) else None
            if own is not None:
                return own
        elif isinstance(part, Ext):
            found = facts().class_facts(part.path)
            if name in found.abstract:
                return None
            kind = facts()._classes.get(part.path)
            if kind is None and part.path.split(".")[0] not in facts().stdlib:
                continue
            if part.path.startswith("builtins.") and hasattr(__builtins_class(part.path), name):
                return Ext(f"{part.path}.{name}", "f")
        else:
            return Opaque()
    return None


def __builtins_class(path: str) -> object:
    import builtins

    return getattr(builtins, path.rpartition(".")[2], object)


def is_abstract(m: Machine, value: Value) -> bool:
    """`__isabstractmethod__` of a value."""
    value = m.concrete(value)
    if isinstance(value, Wrapped):
        return value.abstract or is_abstract(m, value.function)
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, FunctionObj | InstanceObj):
            flag = obj.values.get("__isabstractmethod__")
            if flag is None and isinstance(obj, InstanceObj):
                flag = class_attribute(m, obj.cls, "__isabstractmethod__")
            return isinstance(flag, Const) and bool(flag.value)
        if isinstance(obj, ClassObj):
            flag = obj.values.get("__isabstractmethod__")
            return isinstance(flag, Const) and bool(flag.value)
    if isinstance(value, Partial):
        return is_abstract(m, value.function) if False else False
    return isinstance(value, Ext) and value.path in (
        "osmosis_ai.rollout.agent_workflow.AgentWorkflow.run",
        "osmosis_ai.rollout.grader.Grader.grade",
    )


def _init_subclass(
    m: Machine, frame: Frame, ref: Ref, keywords: dict[str, Value], node: ast.AST
) -> None:
    """Call the parent's `__init_subclass__`."""
    cls = m.obj(ref)
    assert isinstance(cls, ClassObj)
    for part in cls.mro:
        if isinstance(part, Ref):
            obj = m.obj(part)
            hook = m.read(part.oid, "__init_subclass__") if isinstance(obj, ClassObj) else None
            if hook is not None:
                function = hook.function if isinstance(hook, Wrapped) else hook
                calls.call(m, frame, Bound(function, ref), [], dict(keywords), node)
                return
        elif not isinstance(part, Ext):
            return
    external = any(
        isinstance(p, Ext) and p.path not in (*BASES.values(), "abc.ABC", "typing.Generic")
        for p in (*cls.mro, *cls.meta[:-1])
        if not (isinstance(p, Ext) and p.path.endswith("ABCMeta"))
    )
    if keywords and not external:
        raise m.error(
            frame, node, "TypeError", f"{cls.name} passes keywords that no __init_subclass__ takes"
        )


def apply_dataclass(m: Machine, ref: Ref, options: dict[str, Value]) -> Value:
    """`@dataclass`: a generated constructor, and the abstract methods worked out anew."""
    cls = m.state.change(ref.oid)
    assert isinstance(cls, ClassObj)
    fields: dict[str, tuple[str, bool, bool]] = {}
    for part in reversed(cls.mro):
        obj = m.obj(part) if isinstance(part, Ref) else None
        if isinstance(obj, ClassObj) and obj.fields is not None:
            fields.update({f[0]: f for f in obj.fields})
    keyword_only = options.get("kw_only") == Const(True)
    annotations = cls.values.get(ANNOTATIONS)
    own: list[str] = []
    for entry in annotations.items if isinstance(annotations, TupleValue) else ():
        assert isinstance(entry, TupleValue)
        name, text = (p.value if isinstance(p, Const) else "" for p in entry.items)
        head = str(text).split("[")[0].rpartition(".")[2].strip("\"' ")
        if head == "ClassVar":
            continue
        if head == "KW_ONLY":
            keyword_only = True
            continue
        default = cls.values.get(str(name))
        required = default is None
        only = keyword_only
        if isinstance(default, Decorator) and default.name == "field":
            parts = dict(default.parts)
            if parts.get("init") == Const(False):
                fields.pop(str(name), None)
                own.append(str(name))
                continue
            required = not ({"default", "default_factory"} & set(parts))
            if "kw_only" in parts:
                only = parts["kw_only"] == Const(True)
            if "default" in parts:
                cls.values[str(name)] = parts["default"]
            else:
                cls.values.pop(str(name), None)
        fields[str(name)] = (str(name), required, only)
    cls.fields = tuple(fields.values())
    if options.get("init") != Const(False) and "__init__" not in cls.values:
        cls.values["__init__"] = Decorator(
            "dataclass-init",
            tuple((n, TupleValue((Const(r), Const(k)))) for n, r, k in cls.fields),
        )
    if _is_abc(cls):
        cls.abstract = abstract_names(m, ref)
    return ref


__all__ = ["Coroutine", "attributes", "build", "define", "touches"]
