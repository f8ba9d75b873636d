"""Functions of builtins, the standard library and the SDK that matter while a module is imported."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable

from gitsync.check.python import subscripts
from gitsync.check.python import storing
from gitsync.check.python import comparing
from gitsync.check.python import instances
from gitsync.check.python import attributes, calls, classes, containers, expressions, making, reach
from gitsync.check.python.facts import CREATE_SERVER, METHODS
from gitsync.check.python.machine import SYS_PATH, Frame, Machine, Raised
from gitsync.check.python.values import (
    FALSE,
    NONE,
    TRUE,
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
    ListObj,
    Method,
    ModuleObj,
    Names,
    Namespace,
    Opaque,
    Partial,
    PathValue,
    Ref,
    TupleValue,
    Unknown,
    Value,
    Wrapped,
)

type Rule = Callable[[Machine, Frame, list[Value], dict[str, Value], ast.AST], Value]

# Results are Unknown although no argument shows it: these can bring in anything.
_DYNAMIC = (
    "importlib.",
    "runpy.",
    "pkgutil.",
    "imp.",
    "code.",
    "zipimport.",
    "marshal.",
    "gc.",
    "inspect.getmembers",
    "inspect.getmodule",
    "sys._getframe",
    "inspect.currentframe",
    "inspect.stack",
    "ctypes.",
    "weakref.ref",
    "osmosis_ai.rollout.utils.imports.resolve_object",
)
_SHOWN_ONLY = frozenset(
    """builtins.print builtins.repr builtins.str builtins.id builtins.hash builtins.len builtins.dir
    builtins.callable builtins.format builtins.ascii builtins.open builtins.input
    inspect.iscoroutinefunction asyncio.iscoroutinefunction inspect.isclass inspect.isfunction
    inspect.isabstract inspect.signature inspect.getsource inspect.getdoc inspect.getfile
    typing.get_type_hints logging.getLogger logging.info logging.debug logging.warning
    logging.basicConfig atexit.register signal.signal warnings.warn typing.TypeVar typing.NewType
    typing.get_args dataclasses.fields dataclasses.is_dataclass pprint.pprint textwrap.dedent
    json.dumps abc.update_abstractmethods""".split()
)
# Decorators that leave what they decorate as it is.
_IDENTITY = frozenset(
    """typing.final typing.override typing_extensions.override typing_extensions.final
    typing.no_type_check typing.runtime_checkable typing_extensions.runtime_checkable
    typing.overload typing.dataclass_transform functools.total_ordering enum.unique enum.member
    enum.nonmember types.coroutine asyncio.coroutine atexit.register typing.cast abc.ABC.register
    contextlib.ContextDecorator typing_extensions.deprecated warnings.deprecated
    enum.verify typing_extensions.dataclass_transform typing_extensions.runtime""".split()
)
_WITH_ARGUMENTS = frozenset(
    """typing_extensions.deprecated warnings.deprecated typing.dataclass_transform
    typing_extensions.dataclass_transform enum.verify""".split()
)


# -- calls seen in passing -------------------------------------------------------------------


def notice(
    m: Machine,
    frame: Frame,
    function: Ext | Opaque,
    args: list[Value],
    keywords: dict[str, Value],
    unknown: Value | None,
    node: ast.AST,
) -> None:
    """Remember calls that the warnings are about."""
    path = function.path
    if path == CREATE_SERVER:
        m.seen.server_created = True
    elif path.startswith("osmosis_ai."):
        calls.record_backend(m, frame, path, keywords, unknown, node)
    elif path in ("uvicorn.run", "uvicorn.main.run") or path in (
        "uvicorn.Server().run",
        "uvicorn.Server().serve",
        "uvicorn.server.Server().serve",
    ):
        m.seen.started.append(m.place(frame, node))
    if m.speculative and not (isinstance(function, Opaque) and function.routed):
        from gitsync.check.python import policy

        policy.notice(m, frame, path, args, keywords, node)


# -- the dispatcher --------------------------------------------------------------------------


def call_external(
    m: Machine,
    frame: Frame,
    function: Ext,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    unknown: Value | None,
) -> Value:
    """Call something of builtins, the standard library or the SDK."""
    path = function.path
    rule = RULES.get(path)
    if rule is not None and unknown is None:
        return rule(m, frame, args, keywords, node)
    if path in FRAME_CALLS:
        return FRAME_CALLS[path](m, frame, args, keywords, node)
    if path in _IDENTITY and len(args) >= 1 and path not in _WITH_ARGUMENTS:
        return args[0]
    if path in _WITH_ARGUMENTS:
        return Decorator("keep")
    if path.endswith(".register") and function.kind in ("v", "f"):
        from gitsync.check.python.class_methods import register

        return register(
            m, frame, Ext(path[: -len(".register")], "c"), args[0] if args else NONE, node
        )
    if path.endswith(".__subclasses__"):
        base = Ext(path[: -len(".__subclasses__")], "c")
        found = [
            Ref(oid)
            for oid, obj in sorted(m.state.heap.items())
            if isinstance(obj, ClassObj) and base in obj.bases
        ]
        return m.list_of(list(found))
    everything = [*args, *keywords.values(), *([unknown] if unknown is not None else [])]
    if function.kind == "c" and m.facts.class_facts(path).lineage:
        if "builtins.BaseException" in m.facts.class_facts(path).lineage:
            return m.new(InstanceObj(function, tuple(args)))
    if function.kind == "c" and m.facts.class_facts(path).abstract:
        raise m.error(frame, node, "TypeError", f"the abstract class {path} is instantiated")
    if path == "builtins.BaseException":
        return m.new(InstanceObj(function, tuple(args)))
    if path.startswith(("sys.meta_path", "sys.path_hooks")):
        m.doubt(m.unknown(frame, node, "the import system is changed"))
    if path in ("threading.Thread", "threading.Timer") and any(
        isinstance(v, Ref | Bound | Partial) and reach.touches(m.state, v) for v in everything
    ):
        m.doubt(m.unknown(frame, node, "a thread runs code beside the import"))
    if any(path.startswith(prefix) for prefix in _DYNAMIC):
        if path.startswith("importlib.") and _harmless_importlib(path):
            return Opaque(f"{path}()")
        return m.unknown(frame, node, f"{path} can bring in anything")
    m.may_raise(m.place(frame, node))
    if path in _SHOWN_ONLY or path.startswith("osmosis_ai."):
        return Opaque(f"{path}()")
    if any(reach.touches(m.state, v) for v in everything):
        if function.kind != "c" or not _plain_library_class(m, function):
            if any(_direct(m, v) for v in everything):
                return m.unknown(frame, node, f"{path} is given a component class")
        return Opaque(f"{path}()", carries=True)
    return Opaque(f"{path}()")


def _harmless_importlib(path: str) -> bool:
    return path.startswith(("importlib.metadata.", "importlib.resources.")) or path in (
        "importlib.util.find_spec",
        "importlib.invalidate_caches",
    )


def _plain_library_class(m: Machine, function: Ext) -> bool:
    return not function.path.startswith("builtins.")


def _direct(m: Machine, value: Value) -> bool:
    """A component class itself, or a container of some: a function may hand it back."""
    if isinstance(value, Unknown | TupleValue | Names):
        return reach.touches(m.state, value)
    if isinstance(value, Ref):
        obj = m.obj(value)
        return isinstance(obj, ClassObj | ListObj | DictObj | ModuleObj) and reach.touches(
            m.state, value
        )
    return False


# -- constructs that need the frame ----------------------------------------------------------


def _globals(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return Names(frame.module)


def _locals(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return Names(frame.scope if frame.scope is not None else frame.module)


def _vars(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if not args:
        return _locals(m, frame, args, keywords, node)
    value = args[0]
    if isinstance(value, Ref) and isinstance(m.obj(value), Namespace):
        return Names(value.oid)
    if isinstance(value, Unknown):
        return value
    return Opaque()


def _exec(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`exec`: it may bind anything in the namespace it is given, else in this one."""
    cause = m.unknown(frame, node, "exec runs code that is not known")
    spaces = [*args[1:], *keywords.values()]
    if not spaces:
        m.taint(frame.scope if frame.scope is not None else frame.module, cause)
        if frame.scope is not None:
            m.taint(frame.module, cause)
    for space in spaces:
        if isinstance(space, Names):
            m.taint(space.oid, cause)
        elif isinstance(space, Ref):
            obj = m.state.change(space.oid)
            if isinstance(obj, DictObj | ListObj):
                obj.rest = cause
    return NONE


def _eval(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    cause = m.unknown(frame, node, "eval gives a value that is not known")
    source = args[0] if args else NONE
    if isinstance(source, Const) and isinstance(source.value, str) and len(args) == 1:
        if source.value.isidentifier():
            return m.load(frame, source.value, node)
    return cause


def _super(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return calls.super_of(m, frame, args, node)


def _import_function(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`__import__(name)`."""
    name = args[0] if args else keywords.get("name", NONE)
    if not isinstance(name, Const) or not isinstance(name.value, str):
        cause = m.unknown(frame, node, "the module that __import__ loads is not known")
        m.doubt(cause)
        return cause
    level = args[4] if len(args) > 4 else keywords.get("level", Const(0))
    if level != Const(0):
        return m.unknown(frame, node, "__import__ with a level")
    module = m.importer.load_here(frame, name.value, node)
    fromlist = args[3] if len(args) > 3 else keywords.get("fromlist")
    if fromlist is not None and expressions.known_truth(m, frame, fromlist, node) is not False:
        return module
    top = name.value.partition(".")[0]
    return module if top == name.value else m.importer.load_here(frame, top, node)


def _import_module(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`importlib.import_module(name, package)`."""
    name = args[0] if args else keywords.get("name", NONE)
    if not isinstance(name, Const) or not isinstance(name.value, str):
        cause = m.unknown(frame, node, "the module that import_module loads is not known")
        m.doubt(cause)
        return cause
    text = name.value
    if text.startswith("."):
        package = args[1] if len(args) > 1 else keywords.get("package", NONE)
        if not isinstance(package, Const) or not isinstance(package.value, str):
            return m.unknown(frame, node, "the package that import_module starts from is not known")
        level = len(text) - len(text.lstrip("."))
        parts = package.value.split(".")
        if level > len(parts):
            raise m.error(frame, node, "ImportError", "the relative import goes too far up")
        base = ".".join(parts[: len(parts) - level + 1])
        text = f"{base}.{text.lstrip('.')}" if text.strip(".") else base
    return m.importer.load_here(frame, text, node)


def _getattr(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) < 2:
        return Opaque()
    owner, name = args[0], args[1]
    if isinstance(name, Const) and isinstance(name.value, str):
        if len(args) == 2:
            return m.concrete(attributes.get(m, frame, owner, name.value, node))
        guards = m.guards
        m.guards = 0
        try:
            return m.concrete(attributes.get(m, frame, owner, name.value, node))
        except Raised as raised:
            if raised.refused is None and classes.exception_matches(
                m, raised.value, Ext("builtins.AttributeError", "c")
            ):
                return args[2]
            raise
        finally:
            m.guards = guards
    if isinstance(owner, Ref | Unknown | Names) or reach.touches(m.state, owner):
        if isinstance(owner, Ref):
            obj = m.obj(owner)
            if isinstance(obj, Namespace):
                values = list(containers.visible(m.settle(owner.oid)).values())
                if obj.taint is not None:
                    return obj.taint
                if any(reach.touches(m.state, v) for v in (*values, *args[2:])):
                    return m.unknown(frame, node, "getattr with a name that is not known")
                return Opaque()
        return m.unknown(frame, node, "getattr with a name that is not known")
    return Opaque()


def _setattr(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) != 3:
        return NONE
    owner, name, value = args
    if isinstance(name, Const) and isinstance(name.value, str):
        storing.put(m, frame, owner, name.value, value, node)
        return NONE
    cause = m.unknown(frame, node, "setattr with a name that is not known")
    if isinstance(owner, Ref) and isinstance(m.obj(owner), Namespace):
        if not isinstance(m.obj(owner), InstanceObj) or reach.touches(m.state, value):
            if isinstance(m.obj(owner), ClassObj) and not reach.is_component(m.state, owner):
                return NONE
            m.taint(owner.oid, cause)
    return NONE


def _delattr(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) == 2:
        if isinstance(args[1], Const):
            storing.remove(m, frame, args[0], str(args[1].value), node)
        elif isinstance(args[0], Ref) and isinstance(m.obj(args[0]), ModuleObj):
            m.taint(args[0].oid, m.unknown(frame, node, "a name that is not known is deleted"))
    return NONE


def _hasattr(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) == 2 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        if isinstance(args[0], Opaque | Unknown):
            return Opaque("bool()")
        guards = m.guards
        m.guards = 0
        try:
            found = attributes.get(m, frame, args[0], args[1].value, node)
        except Raised:
            return FALSE
        finally:
            m.guards = guards
        if isinstance(args[0], Ext) and isinstance(found, Ext) and found.kind == "v":
            return Opaque("bool()")
        return Opaque("bool()") if isinstance(found, Opaque | Unknown | Method) else TRUE
    return Opaque("bool()")


# -- plain functions -------------------------------------------------------------------------


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
    if isinstance(kind, Ext) and kind.path in classes.BASES.values():
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
    ref = _dict(m, frame, args[1:], keywords, node)
    assert isinstance(ref, Ref)
    obj = m.state.change(ref.oid)
    assert isinstance(obj, DictObj)
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
                changed = m.state.change(value.oid)
                assert isinstance(changed, ListObj)
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
        items, rest = calls.run_generator(m, frame, value, node)
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


# -- standard decorators ---------------------------------------------------------------------


def _wrapper(kind: str) -> Rule:
    def wrap(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        function = args[0] if args else keywords.get("fget", NONE)
        return Wrapped(kind, function, classes.is_abstract(m, function))

    return wrap


def _abstract(kind: str) -> Rule:
    def wrap(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        return Wrapped(kind, args[0] if args else NONE, True)

    return wrap


def _abstractmethod(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Ref) and isinstance(m.obj(value), FunctionObj | ClassObj | InstanceObj):
        m.store(value.oid, "__isabstractmethod__", TRUE)
        return value
    if isinstance(value, Wrapped):
        return Wrapped(value.kind, value.function, True, value.args, value.keywords)
    return value


def _partial(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if not args:
        raise m.error(frame, node, "TypeError", "partial() needs a function")
    return Partial(args[0], tuple(args[1:]), tuple(keywords.items()))


def _partialmethod(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return Wrapped(
        "partialmethod", args[0] if args else NONE, False, tuple(args[1:]), tuple(keywords.items())
    )


def _decorator(name: str, *, first: str | None = None) -> Rule:
    """A decorator that is used with or without arguments."""

    def make(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        if first is None and len(args) == 1 and not keywords:
            return apply_decorator(m, frame, Decorator(name), args[0], node)
        parts = list(keywords.items())
        if first is not None:
            parts += [(first, a) for a in args]
        return Decorator(name, tuple(parts))

    return make


def apply_decorator(
    m: Machine, frame: Frame, decorator: Decorator, value: Value, node: ast.AST
) -> Value:
    """Apply a standard decorator that was made with arguments."""
    name = decorator.name
    if name == "dataclass":
        if isinstance(value, Ref) and isinstance(m.obj(value), ClassObj):
            options = dict(decorator.parts)
            if options.get("slots") == TRUE and reach.touches(m.state, value):
                made = m.obj(value)
                assert isinstance(made, ClassObj)
                copied = made.copy()
                copied.bases = made.bases
                value = m.new(copied)
            return making.apply_dataclass(m, frame, value, options, node)
        return value
    if name == "wraps":
        if isinstance(value, Ref):
            obj = m.obj(value)
            wrapped = dict(decorator.parts).get("wrapped")
            if isinstance(obj, FunctionObj) and isinstance(wrapped, Ref):
                m.store(value.oid, "__wrapped__", wrapped)
                inner = m.obj(wrapped)
                if isinstance(inner, FunctionObj) and "__isabstractmethod__" in inner.values:
                    m.store(value.oid, "__isabstractmethod__", TRUE)
            elif isinstance(obj, ClassObj) and isinstance(wrapped, Ref):
                other = m.obj(wrapped)
                if isinstance(other, ClassObj):
                    changed = m.state.change(value.oid)
                    assert isinstance(changed, ClassObj)
                    changed.name, changed.qualname = other.name, other.qualname
                    changed.module = other.module
        return value
    if name == "cache":
        return Wrapped("cache", value, classes.is_abstract(m, value))
    if name == "keep" and decorator.parts:
        return decorator.parts[0][1]
    return value


def _namespace(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    made = InstanceObj(Ext("types.SimpleNamespace", "c"))
    made.values = dict(keywords)
    return m.new(made)


def _new_class(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`types.new_class(name, bases, kwds, exec_body)`."""
    name = args[0] if args else keywords.get("name", NONE)
    bases = args[1] if len(args) > 1 else keywords.get("bases", TupleValue(()))
    space: Value = m.new(DictObj({}))
    body = args[3] if len(args) > 3 else keywords.get("exec_body")
    if body is not None and body != NONE:
        calls.call(m, frame, body, [space], {}, node)
    words: dict[str, Value] = {}
    kwds = args[2] if len(args) > 2 else keywords.get("kwds")
    if kwds is not None and kwds != NONE:
        calls.spread(m, frame, kwds, words, node)
    return instances.class_from_parts(m, frame, [name, bases, space], words, node)


def _make_dataclass(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    bases = keywords.get("bases", TupleValue(()))
    if reach.touches(m.state, bases):
        return m.unknown(frame, node, "make_dataclass makes a component class")
    return Opaque("type()")


def _cast(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return args[1] if len(args) > 1 else NONE


def _copy(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Ref):
        obj = m.obj(value)
        if isinstance(obj, ListObj | DictObj | InstanceObj):
            return m.new(obj.copy())
    return value


def _reduce(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) < 2:
        return Opaque()
    items, rest = expressions.items_of(m, frame, args[1], node)
    if len(args) > 2:
        items = [args[2], *items]
    if rest is not None or not items:
        return containers.blurred(m, frame, [*items, *args[:1], *((rest,) if rest else ())], node)
    value = items[0]
    for item in items[1:]:
        value = calls.call(m, frame, args[0], [value, item], {}, node)
    return value


def _run_async(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Coroutine):
        return calls.run_coroutine(m, frame, value, node)
    return value if isinstance(value, Unknown) else Opaque()


def _reload(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Ref) and isinstance(m.obj(value), ModuleObj):
        m.taint(value.oid, m.unknown(frame, node, "a module is loaded again"))
    return value


def _itemgetter(kind: str) -> Rule:
    def make(
        m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        return Partial(Ext(f"gitsync.{kind}", "f"), tuple(args), ())

    return make


def _get_item(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) != 2:
        return m.unknown(frame, node, "itemgetter with several items")
    return subscripts.item(m, frame, args[1], args[0], node)


def _get_attribute(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    if len(args) != 2 or not isinstance(args[0], Const):
        return m.unknown(frame, node, "attrgetter with several names")
    value = args[1]
    for part in str(args[0].value).split("."):
        value = m.concrete(attributes.get(m, frame, value, part, node))
    return value


def _max_min(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    items = args
    rest = None
    if len(args) == 1:
        items, rest = expressions.items_of(m, frame, args[0], node)
    if rest is None and len(items) == 1:
        return items[0]
    values = [*items, *([rest] if rest is not None else [])]
    return subscripts.pick_any(m, frame, values, node)


def _object(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    return m.new(InstanceObj(Ext("builtins.object", "c")))


def _type_new(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """`type.__new__(meta, name, bases, namespace)` or `ABCMeta.__new__`."""
    from gitsync.check.python.methods import _new_class as new_class

    if len(args) == 4:
        return new_class(m, frame, args, keywords, node)
    return Opaque()


def _object_new(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    cls = args[0] if args else NONE
    if isinstance(cls, Ref) and isinstance(m.obj(cls), ClassObj):
        return m.new(InstanceObj(cls))
    return Opaque()


def _update_abstract(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    value = args[0] if args else NONE
    if isinstance(value, Ref) and isinstance(m.obj(value), ClassObj):
        changed = m.state.change(value.oid)
        assert isinstance(changed, ClassObj)
        changed.abstract = classes.abstract_names(m, value)
    return value


def _module_type(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    name = args[0].value if args and isinstance(args[0], Const) else "?"
    made = ModuleObj(str(name), str(name), None, None)
    made.values["__name__"] = Const(str(name))
    return m.new(made)


FRAME_CALLS: dict[str, Rule] = {
    "builtins.globals": _globals,
    "builtins.locals": _locals,
    "builtins.vars": _vars,
    "builtins.exec": _exec,
    "builtins.eval": _eval,
    "builtins.super": _super,
    "builtins.__import__": _import_function,
    "importlib.import_module": _import_module,
    "importlib.__import__": _import_function,
    "importlib.reload": _reload,
    "builtins.getattr": _getattr,
    "builtins.setattr": _setattr,
    "builtins.delattr": _delattr,
    "builtins.hasattr": _hasattr,
}
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
    "builtins.max": _max_min,
    "builtins.min": _max_min,
    "builtins.str": _str,
    "builtins.int": _number(int),
    "builtins.float": _number(float),
    "builtins.bool": _bool,
    "builtins.callable": _callable,
    "builtins.object": _object,
    "builtins.object.__new__": _object_new,
    "builtins.type.__new__": _type_new,
    "abc.ABCMeta.__new__": _type_new,
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
    "builtins.staticmethod": _wrapper("staticmethod"),
    "builtins.classmethod": _wrapper("classmethod"),
    "builtins.property": _wrapper("property"),
    "functools.cached_property": _wrapper("cached_property"),
    "types.DynamicClassAttribute": _wrapper("property"),
    "enum.property": _wrapper("property"),
    "abc.abstractmethod": _abstractmethod,
    "abc.abstractproperty": _abstract("property"),
    "abc.abstractclassmethod": _abstract("classmethod"),
    "abc.abstractstaticmethod": _abstract("staticmethod"),
    "abc.update_abstractmethods": _update_abstract,
    "functools.partial": _partial,
    "functools.partialmethod": _partialmethod,
    "functools.wraps": _decorator("wraps", first="wrapped"),
    "functools.cache": _decorator("cache"),
    "functools.lru_cache": _decorator("cache"),
    "functools.reduce": _reduce,
    "contextlib.contextmanager": _wrapper("contextmanager"),
    "contextlib.asynccontextmanager": _wrapper("contextmanager"),
    "contextlib.suppress": _decorator("suppress", first="kind"),
    "dataclasses.dataclass": _decorator("dataclass"),
    "dataclasses.field": _decorator("field", first="default"),
    "dataclasses.make_dataclass": _make_dataclass,
    "types.SimpleNamespace": _namespace,
    "types.new_class": _new_class,
    "types.ModuleType": _module_type,
    "typing.cast": _cast,
    "typing.assert_type": _copy,
    "typing.NewType": _cast,
    "copy.copy": _copy,
    "copy.deepcopy": _copy,
    "asyncio.run": _run_async,
    "asyncio.runners.run": _run_async,
    "operator.itemgetter": _itemgetter("item"),
    "operator.attrgetter": _itemgetter("attribute"),
    "gitsync.item": _get_item,
    "gitsync.attribute": _get_attribute,
    "operator.getitem": lambda m, f, a, k, n: subscripts.item(m, f, a[0], a[1], n),
}
__all__ = ["METHODS", "SYS_PATH", "Alias", "call_external", "notice"]
