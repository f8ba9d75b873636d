"""Plain functions of builtins and the standard library that matter during an import."""

from __future__ import annotations

import ast
import posixpath
from typing import cast

from gitsync.check.python import (
    calls,
    classes,
    comparing,
    containers,
    expressions,
    instances,
    invoking,
    reach,
    subscripts,
)
from gitsync.check.python.facts import BASES
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.values import (
    FALSE,
    NONE,
    TRUE,
    Bound,
    ClassObj,
    Const,
    Coroutine,
    DictObj,
    Ext,
    FunctionObj,
    InstanceObj,
    ListObj,
    ModuleObj,
    Opaque,
    Partial,
    PathValue,
    Ref,
    TupleValue,
    Unknown,
    Value,
)
from gitsync.check.python.worlds import Frame


def _type(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) == 3:
        return instances.class_from_parts(m, frame, args, keywords, node)
    value = args[0] if args else NONE
    if isinstance(value, Const):
        return Ext(f"builtins.{type(value.value).__name__}", "c")
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, InstanceObj):
            return obj.cls
        if isinstance(obj, ClassObj):
            return obj.meta[0] if obj.meta else Ext("builtins.type", "c")
        names = {DictObj: "dict", FunctionObj: "function", ModuleObj: "module"}
        return Ext(f"builtins.{names.get(type(obj), 'list')}", "c")
    if isinstance(value, Ext) and value.kind == "c":
        meta = m.facts.class_facts(value.path).metaclass
        return Ext(meta[0] if meta else "builtins.type", "c")
    if isinstance(value, Unknown):
        return value
    return Opaque("type()")


def _isinstance(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) != 2:
        return Opaque("bool()")
    value, kind = args
    if isinstance(kind, TupleValue):
        answers = [_isinstance(m, frame, [value, k], {}, node) for k in kind.items]
        if TRUE in answers:
            return TRUE
        return FALSE if all(a == FALSE for a in answers) else Opaque("bool()")
    if kind == Ext("builtins.type"):
        if classes.is_class(m, value):
            return TRUE
        if isinstance(value, Opaque | Unknown) or (isinstance(value, Ext) and value.kind == "v"):
            return Opaque("bool()")
        return FALSE
    if isinstance(value, Opaque | Unknown | Ext):
        return Opaque("bool()")
    cls = _type(m, frame, [value], {}, node)
    if not isinstance(cls, Ref | Ext) or not isinstance(kind, Ref | Ext):
        return Opaque("bool()")
    return _subclass(m, cls, kind)


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
    if isinstance(obj, ClassObj) and not classes.has_opaque_base(m, value):
        return Const(bool(obj.abstract))
    return Opaque("bool()") if isinstance(value, Opaque | Unknown) else FALSE


def _issubclass(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) != 2:
        return Opaque("bool()")
    cls, kind = args
    if isinstance(kind, TupleValue):
        answers = [_issubclass(m, frame, [cls, k], {}, node) for k in kind.items]
        if TRUE in answers:
            return TRUE
        return FALSE if all(a == FALSE for a in answers) else Opaque("bool()")
    if not classes.is_class(m, cls):
        if isinstance(cls, Opaque | Unknown | Ext):
            return Opaque("bool()")
        raise m.error(frame, node, "TypeError", "issubclass is given something that is no class")
    return _subclass(m, cls, kind)


def _len(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
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
    return Opaque("int()")


def _sequence(kind: str) -> Rule:
    def build(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        items, rest = expressions.items_of(m, frame, args[0], node) if args else ([], None)
        if kind == "tuple" and rest is None:
            return TupleValue(tuple(items))
        if kind in ("set", "frozenset"):
            return containers.new_set(m, items, rest, kind)
        return m.list_of(items, kind, rest)

    return build


def _dict(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    obj = DictObj({})
    if args:
        first = args[0]
        is_list = (
            isinstance(first, TupleValue)
            or (isinstance(first, Ref) and isinstance(m.obj(first), ListObj))
            or isinstance(first, Coroutine)
        )
        if is_list:
            items, rest = expressions.items_of(m, frame, first, node)
            for pair in items:
                parts, more = expressions.items_of(m, frame, pair, node)
                if len(parts) == 2 and more is None:
                    containers.put(m, frame, obj, parts[0], parts[1], node)
                else:
                    obj.rest = containers.blurred(m, frame, [pair], node)
            obj.rest = rest or obj.rest
        else:
            containers.absorb(m, obj, first)
    for name, value in keywords.items():
        obj.items[Const(name)] = value
    return m.new(obj)


def _defaultdict(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    ref = cast(Ref, _dict(m, frame, args[1:], keywords, node))
    obj = cast(DictObj, m.state.change(ref.oid))
    obj.factory = args[0] if args else None
    return ref


def _map(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) != 2:
        return Opaque()
    items, rest = expressions.items_of(m, frame, args[1], node)
    out = [calls.call(m, frame, args[0], [i], {}, node) for i in items]
    more = None if rest is None else calls.call(m, frame, args[0], [rest], {}, node)
    return m.list_of(out, "iterator", more)


def _filter(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) != 2:
        return Opaque()
    items, rest = expressions.items_of(m, frame, args[1], node)
    out: list[Value] = []
    for item in items:
        test = item if args[0] == NONE else calls.call(m, frame, args[0], [item], {}, node)
        if expressions.is_true(m, frame, test, node):
            out.append(item)
    return m.list_of(out, "iterator", rest)


def _zip(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    columns = [expressions.items_of(m, frame, a, node) for a in args]
    if any(rest is not None for _, rest in columns):
        everything = [v for items, rest in columns for v in (*items, *((rest,) if rest else ()))]
        blurred = containers.blurred(m, frame, everything, node)
        return m.list_of([], "iterator", TupleValue((blurred,) * len(columns)))
    return m.list_of(
        [TupleValue(tuple(row)) for row in zip(*(c[0] for c in columns), strict=False)], "iterator"
    )


def _enumerate(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    items, rest = expressions.items_of(m, frame, args[0], node) if args else ([], None)
    start = args[1] if len(args) > 1 else keywords.get("start", Const(0))
    base = start.value if isinstance(start, Const) and isinstance(start.value, int) else 0
    return m.list_of(
        [TupleValue((Const(base + i), v)) for i, v in enumerate(items)],
        "iterator",
        None if rest is None else TupleValue((Opaque("int()"), rest)),
    )


def _range(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    numbers = [a.value for a in args if isinstance(a, Const) and isinstance(a.value, int)]
    if len(numbers) == len(args) and 1 <= len(args) <= 3:
        try:
            span = range(*numbers)
        except ValueError:
            raise m.error(frame, node, "ValueError", "range() needs a step") from None
        if len(span) <= 2000:
            return TupleValue(tuple(Const(i) for i in span))
    return m.list_of([], "list", Opaque("int()"))


def _reversed(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    items, rest = expressions.items_of(m, frame, args[0], node) if args else ([], None)
    if rest is not None:
        return m.list_of([], "iterator", containers.blurred(m, frame, [*items, rest], node))
    return m.list_of(items[::-1], "iterator")


def _sorted(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    items, rest = expressions.items_of(m, frame, args[0], node) if args else ([], None)
    key = keywords.get("key")
    if rest is None and len(items) < 2:
        return m.list_of(items)
    if rest is None:
        keys = items
        if key is not None and key != NONE:
            keys = [calls.call(m, frame, key, [i], {}, node) for i in items]
        if all(isinstance(k, Const) for k in keys):
            pairs = list(zip(keys, items, strict=True))
            backwards = expressions.known_truth(m, frame, keywords.get("reverse", FALSE), node)
            if backwards is not None:
                try:
                    pairs.sort(key=lambda p: p[0].value, reverse=backwards)  # type: ignore[attr-defined]
                    return m.list_of([i for _, i in pairs])
                except TypeError:
                    raise m.error(frame, node, "TypeError", "the items cannot be ordered") from None
    everything = [*items, *([rest] if rest is not None else [])]
    return m.list_of([], "list", containers.blurred(m, frame, everything, node))


def _next(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    default = args[1] if len(args) > 1 else None
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, ListObj) and obj.kind == "iterator":
            if obj.items:
                changed = cast(ListObj, m.state.change(value.oid))
                return m.concrete(changed.items.pop(0))
            if obj.rest is not None:
                return subscripts.pick_any(
                    m, frame, [obj.rest, *([default] if default is not None else [])], node
                )
            if default is not None:
                return default
            raise m.error(frame, node, "StopIteration", "the iterator is empty")
        if isinstance(obj, InstanceObj):
            method = classes.class_attribute(m, obj.cls, "__next__")
            if method is not None:
                return calls.call(m, frame, calls.bind(m, method, value), [], {}, node)
    if isinstance(value, Coroutine):
        items, rest = invoking.run_generator(m, frame, value, node)
        if len(items) == 1 or (items and not reach.touches(m.state, value)):
            return items[0]
        if not items and rest is None and default is not None:
            return default
        return m.unknown(frame, node, "a generator is advanced by hand")
    if isinstance(value, Unknown):
        return value
    return Opaque()


def _iter(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Coroutine) or len(args) != 1:
        return value
    items, rest = expressions.items_of(m, frame, value, node)
    return m.list_of(items, "iterator", rest)


def _any_all(wanted: bool) -> Rule:
    def test(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        items, rest = expressions.items_of(m, frame, args[0], node) if args else ([], None)
        for item in items:
            if expressions.is_true(m, frame, item, node) is wanted:
                return TRUE if wanted else FALSE
        if rest is not None:
            return Opaque("bool()")
        return FALSE if wanted else TRUE

    return test


def _str(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if not args:
        return Const("")
    text = comparing.as_text(m, args[0]) if len(args) == 1 else None
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
    "builtins.list": _sequence("list"),
    "builtins.tuple": _sequence("tuple"),
    "builtins.set": _sequence("set"),
    "builtins.frozenset": _sequence("frozenset"),
    "collections.deque": _sequence("list"),
    "builtins.dict": _dict,
    "collections.OrderedDict": _dict,
    "types.MappingProxyType": _dict,
    "builtins.mappingproxy": _dict,
    "collections.defaultdict": _defaultdict,
    "builtins.map": _map,
    "builtins.filter": _filter,
    "builtins.zip": _zip,
    "builtins.enumerate": _enumerate,
    "builtins.range": _range,
    "builtins.reversed": _reversed,
    "builtins.sorted": _sorted,
    "builtins.next": _next,
    "builtins.iter": _iter,
    "builtins.any": _any_all(True),
    "builtins.all": _any_all(False),
    "builtins.str": _str,
    "builtins.int": _number(int),
    "builtins.float": _number(float),
    "builtins.bool": _bool,
    "builtins.callable": _callable,
    "builtins.quit": _exit,
    "builtins.exit": _exit,
    "sys.exit": _exit,
    "os._exit": _exit,
    "os.abort": _exit,
    "os.execv": _exit,
    "os.execve": _exit,
    "os.execvp": _exit,
    "os.execvpe": _exit,
    "os.execl": _exit,
    "pathlib.Path": _path,
    "pathlib.PurePath": _path,
    "pathlib.PosixPath": _path,
    "os.fspath": _str,
    **{
        f"{module}.{name}": _os_path(name)
        for module in ("os.path", "posixpath")
        for name in ("join", "abspath", "realpath", "normpath", "dirname", "basename", "splitext")
    },
    "operator.getitem": lambda m, f, a, k, n: subscripts.item(m, f, a[0], a[1], n),
}
