"""Making class objects: the `class` statement, `type()`, metaclasses and hooks."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import cast

from gitsync.check.python import (
    calls,
    classes,
    definitions,
    expressions,
    generics,
    lineage,
    models,
    reach,
)
from gitsync.check.python.facts import BASES, facts
from gitsync.check.python.heap import ClassObj, DictObj, FunctionObj, InstanceObj, Scope
from gitsync.check.python.machine import Machine
from gitsync.check.python.scopes import owned
from gitsync.check.python.state import State
from gitsync.check.python.values import (
    ANNOTATIONS,
    Alias,
    Bound,
    Const,
    Ext,
    Opaque,
    Place,
    Ref,
    TupleValue,
    Unknown,
    Value,
    Wrapped,
)
from gitsync.check.python.worlds import Frame, Kind, Outcome, Raised


def note_annotation(m: Machine, frame: Frame, node: ast.AnnAssign, value: Value | None) -> None:
    """Remember an annotated name of a class body, for `dataclass`."""
    if not isinstance(node.target, ast.Name) or frame.scope is None:
        return
    text = ast.unparse(node.annotation)
    scope = m.space(frame.scope)
    old = scope.values.get(ANNOTATIONS)
    items = old.items if isinstance(old, TupleValue) else ()
    entry = TupleValue((Const(node.target.id), Const(text), value or Const(text)))
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

    def head() -> tuple[
        list[Value], list[Value], dict[str, Value], Frame, Value | None, dict[str, Value] | Unknown
    ]:
        decorators = definitions.decorators_of(m, frame, node)
        inner = definitions.with_type_params(m, frame, type_params)
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
            names = m.space(inner.scope or 0).values
            own = TupleValue(tuple(names[p.name] for p in type_params))
            bases.append(Alias(Ext("typing.Generic", "c"), (own,)))
        prepared = _prepare(m, frame, getattr(node, "plain_name", node.name), bases, keywords, node)
        return decorators, bases, keywords, inner, rest, prepared

    for after, found in m.branches(state, head):
        if isinstance(found, Raised):
            out.append(Outcome(after, Kind.RAISE, raised=found))
            continue
        decorators, bases, keywords, inner, rest, prepared = found
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
        if isinstance(prepared, Unknown):
            scope.taint = prepared
        else:
            scope.values = prepared | scope.values
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


_PREPARED = "\0prepared"


def _prepare(
    m: Machine,
    frame: Frame,
    name: str,
    bases: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> dict[str, Value] | Unknown:
    """What `__prepare__` of the metaclass puts into the namespace before the body runs."""
    metas = [keywords["metaclass"]] if "metaclass" in keywords else []
    for base in bases:
        obj = m.obj(base) if isinstance(base, Ref) else None
        metas += obj.meta[:1] if isinstance(obj, ClassObj) else ()
    for meta in metas:
        hook = classes.class_attribute(m, meta, "__prepare__")
        if hook is None:
            continue
        function = hook
        if isinstance(hook, Wrapped):
            is_static = hook.kind == "staticmethod"
            function = hook.function if is_static else Bound(hook.function, meta)
        words = {k: v for k, v in keywords.items() if k != "metaclass"}
        args: list[Value] = [Const(name), TupleValue(tuple(bases))]
        space = m.concrete(calls.call(m, frame, function, args, words, node))
        obj = m.obj(space) if isinstance(space, Ref) else None
        if not isinstance(obj, DictObj) or obj.rest is not None or obj.factory is not None:
            return m.unknown(frame, node, "the metaclass prepares its own namespace")
        texts = {k.value: v for k, v in obj.items.items() if isinstance(k, Const)}
        return {str(k): v for k, v in texts.items()} | {_PREPARED: Const(True)}
    return {}


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
                inside = cast(Scope, m.state.change(scope.oid))
                inside.class_ref = value
        for decorator, where in zip(
            reversed(decorators), reversed(node.decorator_list), strict=True
        ):
            m.at = m.place(frame, where)
            value = m.concrete(calls.decorate(m, frame, decorator, value, where))
        m.at = at
        m.bind(frame, node.name, value)

    for after, done in m.branches(state, make):
        if isinstance(done, Raised):
            out.append(Outcome(after, Kind.RAISE, raised=done))
        else:
            out.append(Outcome(after))
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
    made = _build(m, frame, name, raw_bases, keywords, values, node)
    obj = m.obj(made) if isinstance(made, Ref) else None
    if isinstance(made, Ref) and isinstance(obj, ClassObj) and obj.raw_bases is None:
        cast(ClassObj, m.state.change(made.oid)).raw_bases = tuple(raw_bases)
    return made


def _build(
    m: Machine,
    frame: Frame,
    name: str,
    raw_bases: list[Value],
    keywords: dict[str, Value],
    values: dict[str, Value],
    node: ast.AST,
) -> Value:
    from gitsync.check.python import named_tuples

    generics.check_bases(m, frame, raw_bases, node)
    named_tuples.check_fields(m, frame, raw_bases, values, node)
    lineage.check_typed_dict(m, frame, raw_bases, node)
    bases = lineage.resolve_bases(m, frame, raw_bases, node)
    for base in bases:
        if isinstance(base, Unknown):
            return base
        if isinstance(base, Opaque | Ext):
            if (
                isinstance(base, Ext)
                and base.kind == "v"
                and not facts().is_class(base.path)
                and base.path.startswith("builtins.")
            ):
                raise m.error(frame, node, "TypeError", "a base of the class is no class")
            continue
        if not isinstance(base, Ref) or not isinstance(m.obj(base), ClassObj):
            made = m.obj(base) if isinstance(base, Ref) else None
            if isinstance(made, InstanceObj) and len(bases) == 1 and not keywords:
                # the type of the base is what makes the "class"
                space = m.new(DictObj({Const(k): v for k, v in values.items()}))
                parts: list[Value] = [Const(name), TupleValue(tuple(bases)), space]
                return calls.call(m, frame, made.cls, parts, {}, node)
            raise m.error(frame, node, "TypeError", f"a base of the class {name} is no class")
    prepared = values.pop(_PREPARED, None) is not None
    keywords = dict(keywords)
    explicit = keywords.pop("metaclass", None)
    meta = lineage.metaclass(m, frame, explicit, bases, node)
    if isinstance(meta, Unknown):
        return meta
    own = [p for p in meta if isinstance(p, Ref)]
    if own:
        if not prepared and _meta_lookup(m, meta, "__prepare__") is not None:
            return m.unknown(frame, node, "the metaclass prepares its own namespace")
        return _by_metaclass(m, frame, meta, name, bases, keywords, values, node)
    if any(not isinstance(p, Ref | Ext) for p in meta) and any(
        reach.is_component(m.state, b) for b in bases
    ):
        return m.unknown(frame, node, "the metaclass cannot be looked into")
    return create(m, frame, meta, name, bases, keywords, values, node)


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
    given = values.pop("__qualname__", None)
    if isinstance(given, Const) and not isinstance(given.value, str):
        raise m.error(frame, node, "TypeError", "__qualname__ must be text")
    qualname = _text(given) or name
    place = m.place(frame, node)
    cls = ClassObj(name, qualname, shown_module(m, frame, module), place)
    cls.node = node if isinstance(node, ast.ClassDef) else None
    cls.bases = tuple(bases) or (Ext("builtins.object", "c"),)
    cls.meta = meta
    cls.mro = lineage.linearise(m, frame, bases, name, node)
    annotations = values.pop(ANNOTATIONS, None)
    for hook in ("__init_subclass__", "__class_getitem__"):
        found = values.get(hook)
        if isinstance(found, Ref) and isinstance(m.obj(found), FunctionObj):
            values[hook] = Wrapped("classmethod", found)
    if "__eq__" in values and "__hash__" not in values:
        values["__hash__"] = Const(None)
    found = values.get("__new__")
    if isinstance(found, Ref) and isinstance(m.obj(found), FunctionObj):
        values["__new__"] = Wrapped("staticmethod", found)
    cls.values = values
    if annotations is not None:
        cls.values[ANNOTATIONS] = annotations
    lineage.check_bases(m, frame, cls, bases, keywords, node)
    models.check_body(m, frame, cls, node)
    ref = m.new(cls)
    if classes.is_enum(cls):
        from gitsync.check.python import enums

        enums.make_members(m, frame, ref, node)
    for key, value in list(values.items()):
        if isinstance(value, Ref):
            obj = m.obj(value)
            if isinstance(obj, FunctionObj) and obj.owner is not None:
                continue
            if isinstance(obj, InstanceObj):
                method = classes.class_attribute(m, obj.cls, "__set_name__")
                if method is not None:
                    calls.call(m, frame, calls.bind(m, method, value), [ref, Const(key)], {}, node)
    cls.values[classes.UNFINISHED] = Const(True)
    _init_subclass(m, frame, ref, keywords, node)
    cast(ClassObj, m.state.change(ref.oid)).values.pop(classes.UNFINISHED, None)
    if is_abc(cls):  # after the hooks, which may still fill methods in
        changed = cast(ClassObj, m.state.change(ref.oid))
        changed.abstract = classes.abstract_names(m, ref)
    return ref


def is_abc(cls: ClassObj) -> bool:
    """True if ABCMeta made it."""
    return any(isinstance(p, Ext) and p.path.endswith("ABCMeta") for p in cls.meta)


def shown_module(m: Machine, frame: Frame, name: str) -> str:
    """A module's dotted path from the rollout folder, whatever it is called privately."""
    prefix = m.importer.private + "."
    if name.startswith(prefix):
        return name[len(prefix) :]
    return "__init__" if name == m.importer.private else name


def _text(value: Value | None) -> str | None:
    return value.value if isinstance(value, Const) and isinstance(value.value, str) else None


def _init_subclass(
    m: Machine, frame: Frame, ref: Ref, keywords: dict[str, Value], node: ast.AST
) -> None:
    """Call the parent's `__init_subclass__`."""
    cls = cast(ClassObj, m.obj(ref))
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
