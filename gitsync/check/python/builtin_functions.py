"""Plain functions of builtins and the standard library that matter during an import."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Sequence
from typing import cast

from gitsync.check.python import (
    backed,
    calls,
    classes,
    comparing,
    expressions,
    instances,
    named_tuples,
    operators,
    protocols,
    reach,
    sets,
    subscripts,
)
from gitsync.check.python.facts import BASES
from gitsync.check.python.heap import (
    ClassObj,
    DictObj,
    FunctionObj,
    InstanceObj,
    ListObj,
    ModuleObj,
)
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import (
    CHECKABLE,
    FALSE,
    NONE,
    TRUE,
    Alias,
    Bound,
    Const,
    Ext,
    Opaque,
    Partial,
    PathValue,
    Ref,
    TupleValue,
    Unknown,
    Value,
)
from gitsync.check.python.worlds import REGISTRY, Frame, Raised


def _type(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) == 3:
        instances.refuse_aliases(m, frame, args[1], node)
        return instances.class_from_parts(m, frame, args, keywords, node)
    if len(args) != 1 or keywords:
        raise m.error(frame, node, "TypeError", "type() takes one argument or three")
    value = args[0]
    if isinstance(value, Const):
        return Ext(f"builtins.{type(value.value).__name__}", "c")
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, InstanceObj):
            return obj.cls
        if isinstance(obj, ClassObj):
            return obj.meta[0] if obj.meta else Ext("builtins.type", "c")
        if isinstance(obj, ListObj) and obj.kind in ("iterator", "manager"):
            return Opaque("type()")
        names = {DictObj: "dict", FunctionObj: "function", ModuleObj: "module"}
        if isinstance(obj, ListObj) and obj.kind == "deque":
            return Ext("collections.deque", "c")
        name = f"dict_{obj.kind}" if sets.is_view(obj) else getattr(obj, "kind", "")
        return Ext(f"builtins.{names.get(type(obj)) or name}", "c")
    if isinstance(value, TupleValue):
        return Ext("builtins.tuple", "c")
    if isinstance(value, Ext) and value.kind == "c":
        meta = m.facts.class_facts(value.path).metaclass
        return Ext(meta[0] if meta else "builtins.type", "c")
    if isinstance(value, Unknown):
        return value
    return Opaque("type()")


def _union_members(kind: Alias) -> list[Value] | None:
    """The classes of `A | B` or `Union[A, B]`; None for other aliases."""
    if kind.origin not in (Ext("types.UnionType"), Ext("typing.Union")):
        return None
    out: list[Value] = []
    for arg in kind.args:
        for item in arg.items if isinstance(arg, TupleValue) else (arg,):
            nothing = Ext("builtins.NoneType", "c") if item == NONE else item
            inner = _union_members(item) if isinstance(item, Alias) else [nothing]
            out += inner or []
    return out


def _isinstance(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) != 2:
        return Opaque("bool()")
    value, kind = args
    if isinstance(kind, TupleValue):
        return _first_true(lambda k: _isinstance(m, frame, [value, k], {}, node), kind)
    if isinstance(kind, Alias):
        members = _union_members(kind)
        if members is None:
            return Opaque("bool()")
        return _isinstance(m, frame, [value, TupleValue(tuple(members))], {}, node)
    _needs_class(m, frame, "isinstance", kind, node)
    _refuse_checks(m, frame, kind, node)
    if kind == Ext("builtins.type"):
        if classes.is_class(m, value):
            return TRUE
        if isinstance(value, Opaque | Unknown) or (isinstance(value, Ext) and value.kind == "v"):
            return Opaque("bool()")
        return FALSE
    kind_obj = m.obj(kind) if isinstance(kind, Ref) else None
    if isinstance(kind_obj, ClassObj):
        hook = classes.meta_attribute(m, kind_obj, "__instancecheck__")
        if hook is not None and _type(m, frame, [value], {}, node) != kind:
            return _bool(m, frame, [calls.call(m, frame, hook, [kind, value], {}, node)], {}, node)
    if isinstance(value, Opaque | Unknown | Ext):
        return Opaque("bool()")
    cls = _type(m, frame, [value], {}, node)
    if not isinstance(cls, Ref | Ext) or not isinstance(kind, Ref | Ext):
        return Opaque("bool()")
    return _subclass(m, cls, kind)


def _first_true(answer: Callable[[Value], Value], kinds: TupleValue) -> Value:
    """One kind after the other: those behind the first that fits are not even looked at."""
    found: Value = FALSE
    for kind in kinds.items:
        try:
            one = answer(kind)
        except Raised:
            if found == FALSE:
                raise
            return found
        if one == TRUE:
            return TRUE
        found = found if one == FALSE else one
    return found


def _needs_class(m: Machine, frame: Frame, name: str, kind: Value, node: ast.AST) -> None:
    """The second argument that certainly is no class, and has no hook that could answer."""
    obj = m.obj(kind) if isinstance(kind, Ref) else None
    if isinstance(kind, Const) or (obj is not None and not isinstance(obj, ClassObj | InstanceObj)):
        raise m.error(frame, node, "TypeError", f"arg 2 of {name}() is no class")


def _refuse_checks(m: Machine, frame: Frame, kind: Value, node: ast.AST) -> None:
    """Typed dicts, and protocols that are not runtime-checkable, take no class checks."""
    obj = m.obj(kind) if isinstance(kind, Ref) else None
    if not isinstance(obj, ClassObj) or any(isinstance(part, Ref) for part in obj.meta):
        return
    typed = any(Ext("typing.TypedDict") in raw for raw in classes.written_bases(m, cast(Ref, kind)))
    protocol = Ext("typing.Protocol") in obj.bases
    if typed or (protocol and classes.class_attribute(m, kind, CHECKABLE) is None):
        raise m.error(frame, node, "TypeError", f"{obj.name} takes no class checks")


def _registered(m: Machine, lineage: Sequence[Value], kind: Value) -> Value:
    """Whether a class was registered with an abstract one, or with a subclass of it."""
    pairs = m.space(REGISTRY).values.get("registered")
    answer: Value = FALSE
    for pair in pairs.items if isinstance(pairs, TupleValue) else ():
        target, value = cast(TupleValue, pair).items
        if kind in classes.mro_of(m, target):
            if value in lineage:
                return TRUE
            answer = answer if isinstance(value, Ref | Ext) else Opaque("bool()")
    return answer


def _subclass(m: Machine, cls: Value, kind: Value) -> Value:
    if kind == Ext("builtins.object"):
        return TRUE
    if isinstance(kind, Ext) and kind.path in BASES.values():
        return (
            TRUE
            if reach.is_subclass(m.state, cls, kind.path)
            else (Opaque("bool()") if classes.has_opaque_base(m, cls) else FALSE)
        )
    lineage = classes.mro_of(m, cls)
    if kind in lineage:
        return TRUE
    if any(not isinstance(p, Ref | Ext) for p in lineage):
        return Opaque("bool()")
    if isinstance(kind, Ext) and not kind.path.startswith("builtins."):
        return Opaque("bool()")
    if isinstance(kind, Ref):
        obj = m.obj(kind)
        if isinstance(obj, ClassObj) and (
            "__subclasshook__" in obj.values
            or any(isinstance(p, Ref) for p in obj.meta)
            or Ext("typing.Protocol") in obj.mro
        ):
            return Opaque("bool()")
        return _registered(m, (cls, *lineage), kind)
    return FALSE


def _is_class(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return _isinstance(m, frame, [*args[:1], Ext("builtins.type", "c")], {}, node)


def _is_abstract(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Ext) and value.kind == "c":
        return Const(bool(m.facts.class_facts(value.path).abstract))
    obj = m.obj(value) if isinstance(value, Ref) else None
    known = isinstance(obj, ClassObj) and not classes.has_opaque_base(m, value)
    if known and isinstance(value, Ref) and isinstance(obj, ClassObj):
        if classes.UNFINISHED in obj.values:
            return Const(bool(classes.abstract_names(m, value)))
        return Const(bool(obj.abstract))
    return Opaque("bool()") if isinstance(value, Opaque | Unknown) else FALSE


def _issubclass(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) != 2:
        return Opaque("bool()")
    cls, kind = args
    if isinstance(kind, TupleValue):
        return _first_true(lambda k: _issubclass(m, frame, [cls, k], {}, node), kind)
    if isinstance(kind, Alias):
        members = _union_members(kind)
        if members is None:
            return Opaque("bool()")
        return _issubclass(m, frame, [cls, TupleValue(tuple(members))], {}, node)
    _needs_class(m, frame, "issubclass", kind, node)
    _refuse_checks(m, frame, kind, node)
    if not classes.is_class(m, cls):
        if isinstance(cls, Opaque | Unknown | Ext):
            return Opaque("bool()")
        raise m.error(frame, node, "TypeError", "issubclass is given something that is no class")
    hook = operators.operator_method(m, frame, "__subclasscheck__", kind, [cls], node)
    if hook is not None and classes.is_class(m, kind):
        return _bool(m, frame, [hook], {}, node)
    return _subclass(m, cls, kind)


def _len(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = backed.plain(m, args[0]) if args else NONE
    if isinstance(value, Const):
        try:
            return Const(len(value.value))
        except TypeError:
            raise m.error(frame, node, "TypeError", "this value has no length") from None
    if isinstance(value, TupleValue):
        return Const(len(value.items))
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, ListObj | DictObj) and obj.rest is None:
            return Const(len(obj.items))
        if isinstance(obj, InstanceObj) and (fields := named_tuples.items(m, obj)) is not None:
            return Const(len(fields))
        if isinstance(obj, InstanceObj):
            method = classes.class_attribute(m, obj.cls, "__len__")
            if method is not None:
                return calls.call(m, frame, calls.bind(m, method, value), [], {}, node)
            if protocols.whole_class(m, value) is not None:
                raise m.error(frame, node, "TypeError", "this value has no length")
        if isinstance(obj, ClassObj) and classes.is_enum(obj):
            return Const(len(classes.iterate_class(m, frame, value, obj, node)[0]))
    return Opaque("int()")


def _str(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if not args:
        return Const("")
    value = protocols.own_text(m, frame, args[0], node) or args[0]
    text = comparing.as_text(m, value) if len(args) == 1 else None
    return Const(text) if text is not None else Opaque("str()")


def _number(kind: type) -> Rule:
    def convert(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        if not args:
            return Const(kind())
        if len(args) == 1 and isinstance(args[0], Const):
            text = args[0].value
            if isinstance(text, str) and len(text) > 200:
                return Opaque()
            try:
                return Const(kind(text))
            except ValueError:
                raise m.error(frame, node, "ValueError", "the text is no number") from None
            except TypeError:
                raise m.error(frame, node, "TypeError", "the value is no number") from None
            except OverflowError:
                return Opaque()
        own = ("__float__", "__index__") if kind is float else ("__int__", "__index__")
        for name in own:
            found = operators.operator_method(m, frame, name, args[0], [], node)
            if found is not None:
                return found
        wanted = ("__int__", "__float__", "__index__", "__trunc__")
        if args and not isinstance(args[0], Const) and protocols.lacks(m, args[0], *wanted):
            raise m.error(frame, node, "TypeError", "the value is no number")
        m.may_raise(m.place(frame, node))
        return Opaque(f"{kind.__name__}()")

    return convert


def _bool(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    known = expressions.known_truth(m, frame, args[0], node) if args else False
    return Opaque("bool()") if known is None else Const(known)


def _callable(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if classes.is_class(m, value) or isinstance(value, Bound | Partial):
        return TRUE
    if isinstance(value, Ext) and value.kind == "f":
        return TRUE
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, FunctionObj):
            return TRUE
        if isinstance(obj, ListObj | DictObj | ModuleObj):
            return FALSE
    return FALSE if isinstance(value, Const | TupleValue) else Opaque("bool()")


def _exit(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    raise m.error(frame, node, "SystemExit", "the process exits here")


def _path(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value: Value = PathValue(".") if not args else args[0]
    if isinstance(value, Const) and isinstance(value.value, str):
        value = PathValue(posixpath.normpath(value.value))
    if not isinstance(value, PathValue):
        return Opaque("pathlib.Path()")
    for more in args[1:]:
        value = comparing.join_path(value, more) or Opaque("pathlib.Path()")
    return value


def _os_path(name: str) -> Rule:
    def work(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        texts = [comparing.as_text(m, a) for a in args]
        if None in texts or not texts:
            return Opaque("str()")
        plain = [t for t in texts if t is not None]
        if name == "join":
            return Const(posixpath.join(*plain))
        if name in ("abspath", "realpath", "normpath"):
            return Const(posixpath.normpath(plain[0]))
        if name == "dirname":
            return Const(posixpath.dirname(plain[0]))
        if name == "basename":
            return Const(posixpath.basename(plain[0]))
        if name == "splitext":
            return TupleValue(tuple(Const(p) for p in posixpath.splitext(plain[0])))
        return Const(plain[0])

    return work


RULES: dict[str, Rule] = {
    "builtins.type": _type,
    "abc.ABCMeta": _type,
    "inspect.isclass": _is_class,
    "inspect.isabstract": _is_abstract,
    "builtins.isinstance": _isinstance,
    "builtins.issubclass": _issubclass,
    "builtins.len": _len,
    "builtins.str": _str,
    "builtins.int": _number(int),
    "builtins.float": _number(float),
    "builtins.bool": _bool,
    "builtins.callable": _callable,
    "builtins.quit": _exit,
    "builtins.exit": _exit,
    "sys.exit": _exit,
    "posix._exit": _exit,
    "posix.abort": _exit,
    "posix.execv": _exit,
    "posix.execve": _exit,
    "os.execvp": _exit,
    "os.execvpe": _exit,
    "os.execl": _exit,
    "pathlib.Path": _path,
    "pathlib.PurePath": _path,
    "pathlib.PosixPath": _path,
    "posix.fspath": _str,
    **{
        f"{module}.{name}": _os_path(name)
        for module in ("os.path", "posixpath")
        for name in ("join", "abspath", "realpath", "normpath", "dirname", "basename", "splitext")
    },
    "_operator.getitem": lambda m, f, a, k, n: subscripts.item(m, f, a[0], a[1], n),
}
