"""The contracts of the exposed class: an async method, its parameters, a constructor that fits."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from gitsync.check.python import calls, classes, models, named_tuples, trials
from gitsync.check.python.facts import BASES, METHODS
from gitsync.check.python.heap import ClassObj, FunctionObj, InstanceObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.state import State
from gitsync.check.python.values import (
    Alias,
    Bound,
    Const,
    DataclassInit,
    Decorated,
    Ext,
    Opaque,
    Partial,
    Place,
    Ref,
    Unknown,
    Value,
    Wrapped,
)
from gitsync.check.python.worlds import Frame, Raised


@dataclass(frozen=True, slots=True)
class Breach:
    """A contract that is not kept; `place` None means that it cannot be decided."""

    code: str
    place: Place
    subject: str
    reason: str
    certain: bool = True


@dataclass(slots=True)
class _Seen:
    """A method looked through: the function, what is bound before its own parameters."""

    function: FunctionObj | None = None
    bound: int = 1
    fixed: frozenset[str] = frozenset()
    is_async: bool | None = None
    opaque: Place | None = None
    decorator: Place | None = None  # the one that cannot be looked into


def breaches(m: Machine, state: State, cls: Value, role: str) -> list[Breach]:
    """All contracts the class breaks in this world; certain is what each of its branches breaks."""
    branches: list[list[Breach]] = []
    for _, found in m.branches(state, lambda: _of_class(m, cls, role)):
        if isinstance(found, Raised):  # handing the method out fails
            subject = f"{_named(m, cls)}.{METHODS[role]}"
            reason = f"reading {subject} fails: {found.reason}"
            found = [Breach(f"{METHODS[role]}-not-async", found.place, subject, reason)]
        branches.append(found)
    codes = [{b.code for b in found} for found in branches]
    everywhere = set.intersection(*codes) if codes else set()
    out: list[Breach] = []
    for breach in (b for found in branches for b in found):
        known = replace(breach, certain=breach.certain and breach.code in everywhere)
        if known not in out:
            out.append(known)
    if isinstance(cls, Ref):
        looked = m.branches(state.fork(), lambda: _to_try(m, cls, METHODS[role]))
        if len(looked) == 1 and not isinstance(looked[0][1], Raised):
            out += _tried(m, state, cls, METHODS[role], looked[0][1], {b.code for b in out})
    return out


def _to_try(m: Machine, cls: Ref, name: str) -> tuple[list[Value | None], _Seen]:
    """What makes an instance, and the method behind its wrappers."""
    obj = m.obj(cls)
    if isinstance(obj, ClassObj) and classes.meta_attribute(m, obj, "__call__") is not None:
        return [], _Seen()
    names = ("__init__", "__new__", "__setattr__", "config")
    method = classes.class_attribute(m, cls, name)
    seen = _look(m, method, m.at) if method is not None else _Seen()
    return [classes.class_attribute(m, cls, n) for n in names], seen


def _tried(
    m: Machine,
    state: State,
    cls: Ref,
    name: str,
    looked: tuple[list[Value | None], _Seen],
    codes: set[str],
) -> list[Breach]:
    """What fails although the signatures fit."""
    obj = state.heap[cls.oid]
    m.state = state
    made, seen = looked
    if not isinstance(obj, ClassObj):
        return []
    out: list[Breach] = []
    if "bad-init" not in codes and any(made):
        functions = [m.obj(v) for v in made[:2] if isinstance(v, Ref)]
        place = next(
            (_function_place(f) for f in functions if isinstance(f, FunctionObj)), obj.place
        )
        raised = trials.failing_constructor(m, state, cls, place)
        if raised is not None:
            reason = f"the constructor of {obj.qualname} always fails: {raised.reason}"
            out.append(Breach("bad-init", place, obj.qualname, reason))
    if codes <= {"bad-init"} and seen.function is not None:
        place = _function_place(seen.function)
        raised = trials.failing_wrapper(m, state, cls, name, seen.function, place)
        if raised is not None:
            subject = f"{obj.qualname}.{name}"
            reason = f"{subject} fails when it is given one argument: {raised.reason}"
            out.append(Breach("bad-signature", place, subject, reason))
    return out


def _named(m: Machine, cls: Value) -> str:
    obj = m.obj(cls) if isinstance(cls, Ref) else None
    return obj.qualname if isinstance(obj, ClassObj) else "?"


def _of_class(m: Machine, cls: Value, role: str) -> list[Breach]:
    obj = m.obj(cls) if isinstance(cls, Ref) else None
    if not isinstance(obj, ClassObj):
        return []
    return [*_method(m, cls, obj, METHODS[role]), *_constructor(m, cls, obj)]


def _function_place(obj: FunctionObj) -> Place:
    return Place(obj.path, obj.node.lineno, obj.node.col_offset + 1)


def _method(m: Machine, cls: Value, obj: ClassObj, name: str) -> list[Breach]:
    subject = f"{obj.qualname}.{name}"
    code = f"{name}-not-async"
    found = classes.find_in_mro(m, cls, name)
    if found is None:
        return [Breach(code, obj.place, subject, f"{obj.qualname} has no method {name}")]
    owner, value = found
    home = m.obj(owner) if isinstance(owner, Ref) else obj
    place = _statement_place(home, name) if isinstance(home, ClassObj) else obj.place
    if isinstance(value, Opaque) and not isinstance(owner, Ref):
        return [
            Breach("unverified-method", obj.place, subject, f"{name} comes from another package")
        ]
    if isinstance(value, Wrapped) and value.kind in ("property", "cached_property"):
        return _from_property(m, obj, value, place, name)
    if value in [Ext(f"{base}.{name}", "f") for base in BASES.values()]:
        return []  # deleted afterwards: the SDK's own, which is a coroutine function
    if (getter := _descriptor(m, value)) is not None:
        return _from_descriptor(m, obj, cls, getter, place, name)
    seen = _look(m, value, place)
    if seen.opaque is not None:
        return [
            Breach(
                "unverified-method",
                seen.decorator or _decorator_place(home, name, seen.opaque),
                subject,
                f"the decorator of {subject} cannot be looked into",
            )
        ]
    if isinstance(value, Unknown):
        return [Breach(code, value.place, subject, value.reason, certain=False)]
    if not seen.is_async:
        at = _function_place(seen.function) if seen.function is not None else place
        return [Breach(code, at, subject, f"{subject} is not a coroutine function")]
    if seen.function is not None and not accepts_one(seen.function, seen.bound, seen.fixed):
        return [
            Breach(
                "bad-signature",
                _function_place(seen.function),
                subject,
                f"{subject} does not accept exactly one positional argument besides self",
            )
        ]
    return []


def _from_property(
    m: Machine, obj: ClassObj, value: Wrapped, place: Place, name: str
) -> list[Breach]:
    """A property may hand out a coroutine function: work its getter out."""
    frame, node = _elsewhere(place)
    given = calls.call(m, frame, value.function, [Opaque("self")], {}, node)
    return _handed_out(m, obj, given, place, name)


def _elsewhere(place: Place) -> tuple[Frame, ast.AST]:
    frame = Frame(module=0, path=place.path)
    return frame, ast.Pass(lineno=place.line, col_offset=place.column - 1)


def _descriptor(m: Machine, value: Value) -> Value | None:
    """`__get__` of an object that stands for the method, bound to it."""
    obj = m.obj(value) if isinstance(value, Ref) else None
    if not isinstance(obj, InstanceObj):
        return None
    found = classes.class_attribute(m, obj.cls, "__get__")
    return None if found is None else calls.bind(m, found, value)


def _from_descriptor(
    m: Machine, obj: ClassObj, cls: Value, getter: Value, place: Place, name: str
) -> list[Breach]:
    """An object with `__get__` hands out what is called: work it out, if that can be done."""
    frame, node = _elsewhere(place)
    try:
        given = calls.call(m, frame, getter, [Opaque("self"), cls], {}, node)
    except Raised:
        given = Opaque("descriptor")  # it may need more of `self` than is known here
    return _handed_out(m, obj, given, place, name)


def _handed_out(m: Machine, obj: ClassObj, given: Value, place: Place, name: str) -> list[Breach]:
    """What reading the attribute gives must be a coroutine function of the context."""
    subject = f"{obj.qualname}.{name}"
    seen = _look(m, given, place)
    if seen.function is not None and seen.is_async:
        if accepts_one(seen.function, _arguments_before(given), seen.fixed):
            return []
        return [Breach("bad-signature", place, subject, f"{subject} does not take the context")]
    if seen.opaque is not None:
        reason = f"what {subject} hands out is not known"
        return [Breach("unverified-method", place, subject, reason)]
    return [Breach(f"{name}-not-async", place, subject, f"{subject} is not a coroutine function")]


def _arguments_before(value: Value) -> int:
    """How many arguments a value that is called directly fills in itself."""
    if isinstance(value, Bound):
        return 1 + _arguments_before(value.function)
    if isinstance(value, Partial):
        return len(value.args) + _arguments_before(value.function)
    return 0


def _statement_place(home: ClassObj, name: str) -> Place:
    """Where a class body binds a name."""
    node = home.node
    if isinstance(node, ast.ClassDef):
        for stmt in reversed(node.body):
            if isinstance(stmt, ast.Assign | ast.AnnAssign):
                targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]
                if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                    return Place(home.place.path, stmt.lineno, stmt.col_offset + 1)
            elif getattr(stmt, "name", None) == name:
                return Place(home.place.path, stmt.lineno, stmt.col_offset + 1)
    return home.place


def _decorator_place(home: object, name: str, default: Place) -> Place:
    node = home.node if isinstance(home, ClassObj) else None
    if isinstance(node, ast.ClassDef) and isinstance(home, ClassObj):
        for stmt in reversed(node.body):
            if (
                isinstance(stmt, ast.FunctionDef | ast.AsyncFunctionDef)
                and stmt.name == name
                and stmt.decorator_list
            ):
                first = stmt.decorator_list[0]
                return Place(home.place.path, first.lineno, first.col_offset + 1)
    return default


def _look(m: Machine, value: Value, place: Place) -> _Seen:
    """Look through wrappers to the function that would be called with the context."""
    value = m.concrete(value)
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, FunctionObj):
            return _Seen(obj, 1, is_async=obj.is_async and not obj.is_generator)
        return _Seen(is_async=False)
    if isinstance(value, Wrapped):
        inner = _look(m, value.function, place)
        if value.kind == "staticmethod":
            inner.bound = max(inner.bound - 1, 0)
        elif value.kind == "partialmethod":
            inner.bound += len(value.args)
            inner.fixed |= {k for k, _ in value.keywords}
        elif value.kind != "classmethod":  # among them caches, whose calls are plain ones
            inner.is_async = False
            inner.function = inner.function if value.kind in ("cache", "context") else None
        return inner
    if isinstance(value, Partial):
        inner = _look(m, value.function, place)
        inner.bound = inner.bound - 1 + len(value.args)
        inner.fixed |= {k for k, _ in value.keywords}
        return inner
    if isinstance(value, Bound):
        return _look(m, value.function, place)
    if isinstance(value, Opaque):
        if value.path.startswith(calls.PLAIN):
            return _Seen(is_async=False)
        at = value.known.place if isinstance(value.known, Decorated) else None
        return _Seen(opaque=place, is_async=True, decorator=at)
    if isinstance(value, Ext):
        if value.kind == "v":
            return _Seen(opaque=place, is_async=True)
        return _Seen(is_async=False)
    if isinstance(value, Unknown):
        return _Seen(is_async=None)
    return _Seen(is_async=False)


def accepts_one(obj: FunctionObj, bound: int, fixed: frozenset[str] = frozenset()) -> bool:
    """True if `bound` arguments and one more positional one fit the parameters."""
    spec = obj.node.args
    positional = [*spec.posonlyargs, *spec.args]
    given = bound + 1
    if any(a.arg in fixed for a in positional[:given]):
        return False
    if given > len(positional) and spec.vararg is None:
        return False
    required = len(positional) - len(obj.defaults)
    missing = [a for a in positional[given:required] if a.arg not in fixed]
    if missing:
        return False
    have = {k for k, _ in obj.kwdefaults} | fixed
    return all(a.arg in have for a in spec.kwonlyargs)


# `__new__` of these wants a value of its own kind, `__init__` of those something to iterate over
_OF_VALUES = ("int", "float", "complex", "bytes", "tuple", "frozenset")
_OF_ITEMS = ("dict", "list", "set", "bytearray")


def _makes_itself(m: Machine, cls: Value) -> bool:
    return classes.class_attribute(m, cls, "__new__") is not None


def _needs_value(m: Machine, cls: Value, obj: ClassObj) -> str | None:
    """The built-in base whose constructor takes a value of its own kind, and no config."""
    if not _makes_itself(m, cls):
        for name in _OF_VALUES:
            if Ext(f"builtins.{name}") in obj.mro:
                return name
    for part in (cls, *obj.mro):
        if part in [Ext(f"builtins.{name}") for name in _OF_ITEMS] and isinstance(part, Ext):
            return part.path.rpartition(".")[2]
        own = m.obj(part) if isinstance(part, Ref) else None
        has_own = isinstance(own, ClassObj) and "__init__" in own.values
        if has_own or part in [Ext(base) for base in BASES.values()] or isinstance(part, Opaque):
            break
    return None


def _constructor(m: Machine, cls: Value, obj: ClassObj) -> list[Breach]:
    out: list[Breach] = []
    harmless = ("abc.ABC", "typing.Generic", "typing.Protocol", "builtins.object")
    if all(isinstance(p, Ref) or p in [Ext(h) for h in harmless] for p in obj.mro) and not any(
        classes.find_in_mro(m, cls, name) for name in ("__new__", "__init__")
    ):
        reason = f"the constructor of {obj.qualname} takes no argument"
        return [Breach("bad-init", obj.place, obj.qualname, reason)]
    hook = classes.meta_attribute(m, obj, "__call__")
    if hook is not None:
        made = m.obj(hook) if isinstance(hook, Ref) else None
        if isinstance(made, FunctionObj) and not accepts_one(made, 1):
            reason = f"the metaclass makes {obj.qualname} from other arguments than one"
            return [Breach("bad-init", _function_place(made), obj.qualname, reason)]
        return []
    if Opaque("collections.namedtuple()") in obj.mro and not _makes_itself(m, cls):
        reason = f"{obj.qualname} is a named tuple, and its fields are not known"
        return [Breach("bad-init", obj.place, obj.qualname, reason, certain=False)]
    fields = named_tuples.fields(m, cls)
    if fields is not None and not _makes_itself(m, cls):
        if not fields or any(required for _, required in fields[1:]):
            reason = f"{obj.qualname} is a named tuple that takes other values than one"
            return [Breach("bad-init", obj.place, obj.qualname, reason)]
    elif (solid := _needs_value(m, cls, obj)) is not None:
        reason = f"{obj.qualname} is a {solid}, which cannot be made of a config"
        return [Breach("bad-init", obj.place, obj.qualname, reason)]
    for name in ("__new__", "__init__"):
        found = classes.find_in_mro(m, cls, name)
        if found is None:
            continue
        owner, value = found
        reason = f"the constructor of {obj.qualname} does not accept exactly one argument"
        if name == "__init__" and models.is_model(owner):
            reason = f"{obj.qualname} is a pydantic model, which takes keyword arguments only"
            out.append(Breach("bad-init", obj.place, obj.qualname, reason))
            continue
        if isinstance(value, DataclassInit):
            taken = [f for f in value.fields if f.accepted]
            positional = [f for f in taken if not f.keyword_only]
            fits = positional and all(f is positional[0] for f in taken if f.required)
            if not fits:
                out.append(Breach("bad-init", obj.place, obj.qualname, reason))
            continue
        bound, fixed = 1, frozenset[str]()
        if isinstance(value, Wrapped):
            if value.kind == "staticmethod" and name == "__init__":
                bound = 0
            if value.kind == "partialmethod":
                bound += len(value.args)
                fixed = frozenset(k for k, _ in value.keywords)
            value = value.function
        if isinstance(value, Ref):
            function = m.obj(value)
            if isinstance(function, FunctionObj):
                if not accepts_one(function, bound, fixed) or (
                    name == "__init__" and (function.is_async or function.is_generator)
                ):
                    out.append(Breach("bad-init", _function_place(function), obj.qualname, reason))
            elif isinstance(function, InstanceObj | ClassObj):
                continue
        elif isinstance(value, Const | Alias):
            out.append(Breach("bad-init", obj.place, obj.qualname, reason))
    return out
