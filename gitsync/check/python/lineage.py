"""The bases of a class: `__mro_entries__`, metaclass, MRO, and what Python refuses."""

from __future__ import annotations

import ast

from gitsync.check.python import calls, classes, expressions, generics, reach, slots
from gitsync.check.python.facts import facts
from gitsync.check.python.heap import ClassObj, InstanceObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import Alias, Const, Ext, Opaque, Ref, TupleValue, Unknown, Value
from gitsync.check.python.worlds import Frame


def resolve_bases(m: Machine, frame: Frame, bases: list[Value], node: ast.AST) -> list[Value]:
    """`__mro_entries__`: aliases stand for their origin, typing helpers for theirs."""
    out: list[Value] = []
    for base in bases:
        if isinstance(base, Alias):
            origin = base.origin
            if _is_annotated(origin) and base.args:
                first = base.args[0]
                real = first.items[0] if isinstance(first, TupleValue) and first.items else first
                out.extend(resolve_bases(m, frame, [real], node))
                continue
            _check_alias(m, frame, base, node)
            if origin == Ext("typing.Generic") and any(
                (isinstance(b, Alias) and b is not base and b.origin != Ext("typing.Generic"))
                or b == Ext("typing.Protocol")
                for b in bases[bases.index(base) + 1 :]
            ):
                continue
            if origin not in out or origin != Ext("typing.Generic"):
                out.append(origin)
            continue
        if isinstance(base, Ext):
            _check_external(m, frame, base, bases, node)
        if generics.kind_of(m, base):
            raise m.error(frame, node, "TypeError", "a type variable cannot be a base class")
        if isinstance(base, Ext) and base.path in _TYPING_KINDS:
            out.append(
                Ext("builtins.tuple" if base.path.endswith("Tuple") else "builtins.dict", "c")
            )
            continue
        if isinstance(base, Ref):
            obj = m.obj(base)
            if isinstance(obj, InstanceObj):
                method = classes.class_attribute(m, obj.cls, "__mro_entries__")
                if method is not None:
                    result = calls.call(
                        m, frame, calls.bind(m, method, base), [TupleValue(tuple(bases))], {}, node
                    )
                    if isinstance(result, Const | Ref) and not is_tuple(m, result):
                        reason = "__mro_entries__ must give a tuple"
                        raise m.error(frame, node, "TypeError", reason)
                    out.extend(expressions.items_of(m, frame, result, node)[0])
                    continue
        out.append(base)
    return out


def is_tuple(m: Machine, value: Value) -> bool:
    """True for a tuple, whether all its items are known or not."""
    obj = m.obj(value) if isinstance(value, Ref) else None
    return isinstance(value, TupleValue) or (isinstance(obj, ListObj) and obj.kind == "tuple")


_TYPING_KINDS = ("typing.NamedTuple", "typing.TypedDict")
# forms of typing that describe a type and are no base of one
_NO_BASES = frozenset(
    f"{module}.{name}"
    for module in ("typing", "typing_extensions")
    for name in (
        "ClassVar",
        "Concatenate",
        "Final",
        "Literal",
        "LiteralString",
        "Never",
        "NoReturn",
        "NotRequired",
        "Optional",
        "ReadOnly",
        "Required",
        "Self",
        "TypeAlias",
        "TypeGuard",
        "TypeIs",
        "Union",
        "Unpack",
    )
) | {"types.UnionType"}


def _is_annotated(value: Value) -> bool:
    return isinstance(value, Ext) and value.path.endswith(".Annotated")


def _check_alias(m: Machine, frame: Frame, base: Alias, node: ast.AST) -> None:
    """Raise for `Union[…]` and its like, and for `Generic[int]`."""
    origin = base.origin
    if isinstance(origin, Ext) and origin.path in _NO_BASES:
        shown = origin.path.rpartition(".")[2]
        raise m.error(frame, node, "TypeError", f"{shown} cannot be a base class")
    if origin in (Ext("typing.Generic"), Ext("typing.Protocol")):
        for arg in base.args:
            for item in arg.items if isinstance(arg, TupleValue) else (arg,):
                if isinstance(item, Const) or classes.is_class(m, item):
                    reason = "Generic[...] takes type variables only"
                    raise m.error(frame, node, "TypeError", reason)


def _check_external(m: Machine, frame: Frame, base: Ext, bases: list[Value], node: ast.AST) -> None:
    """Raise for functions and forms that are given as a base."""
    # `typing.List` and its like can be called too, and are bases all the same
    is_function = base.kind == "f" and not base.path.startswith(("typing", "collections."))
    if is_function or base.kind == "m" or base.path in _NO_BASES:
        shown = base.path.rpartition(".")[2]
        raise m.error(frame, node, "TypeError", f"{shown} is no class that can be a base")
    if base.path in _TYPING_KINDS:
        for other in bases:
            if not classes.is_class(m, other):
                continue
            meta = _meta_of(m, other)
            if meta and meta != (Ext("builtins.type", "c"),):
                shown = base.path.rpartition(".")[2]
                raise m.error(
                    frame, node, "TypeError", f"{shown} cannot be a base beside other classes"
                )


def _meta_of(m: Machine, cls: Value) -> tuple[Value, ...]:
    if isinstance(cls, Ext):
        return tuple(Ext(p, "c") for p in facts().class_facts(cls.path).metaclass)
    obj = m.obj(cls) if isinstance(cls, Ref) else None
    return obj.meta if isinstance(obj, ClassObj) else ()


def metaclass(
    m: Machine, frame: Frame, explicit: Value | None, bases: list[Value], node: ast.AST
) -> tuple[Value, ...] | Unknown:
    """The MRO of the most derived metaclass; raises on a conflict."""
    winner: tuple[Value, ...] = (Ext("builtins.type", "c"),)
    candidates: list[tuple[Value, ...]] = []
    if explicit is not None:
        if isinstance(explicit, Unknown):
            return explicit
        if isinstance(explicit, Ext | Opaque) or classes.is_class(m, explicit):
            candidates.append(classes.mro_of(m, explicit))
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


def linearise(
    m: Machine, frame: Frame, bases: list[Value], name: str, node: ast.AST
) -> tuple[Value, ...]:
    """C3 over the bases; classes that cannot be looked into count as they stand."""
    if len(set(bases)) != len(bases):
        third = [b for b in bases if isinstance(b, Opaque)]
        if len(third) < 2 or len(set(third)) == len(third):
            raise m.error(frame, node, "TypeError", f"a base of {name} is given twice")
    if len(bases) == 1 and isinstance(bases[0], Ref | Ext) and bases[0] != Ext("builtins.object"):
        return classes.mro_of(m, bases[0])
    sequences = [list(classes.mro_of(m, b)) for b in bases if b != Ext("builtins.object")]
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


def check_typed_dict(m: Machine, frame: Frame, bases: list[Value], node: ast.AST) -> None:
    """A `TypedDict` inherits from other ones only."""
    mark = Ext("typing.TypedDict")
    typed = [
        any(mark in raw for raw in classes.written_bases(m, base))
        for base in bases
        if isinstance(base, Ref)
    ]
    if False in typed and (True in typed or mark in bases):
        raise m.error(frame, node, "TypeError", "a TypedDict cannot inherit from other classes")


def check_bases(
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
    slots.check_layout(m, frame, cls, node)
    slots.check_slots(m, frame, cls, node)
    if Ext("typing.Protocol") in bases:
        for base in bases:
            ok = isinstance(base, Ext) and (
                base.path.startswith("collections.abc.")
                or base.path in ("typing.Protocol", "typing.Generic", "builtins.object")
            )
            if isinstance(base, Ref):
                obj = m.obj(base)
                ok = isinstance(obj, ClassObj) and Ext("typing.Protocol") in obj.bases
            elif isinstance(base, Ext) and not reach.is_component(m.state, base):
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
                and classes.is_enum(obj)
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
        if name in cls.values and any(reach.is_component(m.state, b) for b in bases):
            reason = f"{cls.name} decides itself what its subclasses are"
            m.doubt(m.unknown(frame, node, reason))
    for part in cls.meta:
        obj2 = m.obj(part) if isinstance(part, Ref) else None
        if (
            isinstance(obj2, ClassObj)
            and "__subclasscheck__" in obj2.values
            and any(reach.is_component(m.state, b) for b in bases)
        ):
            reason = "the metaclass decides what its subclasses are"
            m.doubt(m.unknown(frame, node, reason))
