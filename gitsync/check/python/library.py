"""Calls of builtins, the standard library and the SDK while a module is imported."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
from typing import cast

from gitsync.check.python import (
    backed,
    backends,
    builtin_functions,
    callables,
    callbacks,
    constructors,
    copying,
    dynamic,
    exceptions,
    import_tools,
    iterables,
    iterator_tools,
    models,
    numbers,
    ranking,
    reach,
    reading,
    reflection,
    specials,
    standard,
    standard_types,
)
from gitsync.check.python.facts import CREATE_SERVER, REQUIRED_ARGUMENTS
from gitsync.check.python.heap import ClassObj, DictObj, FunctionObj, InstanceObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.scopes import owned
from gitsync.check.python.values import (
    NONE,
    Bound,
    Const,
    Decorator,
    Ext,
    Opaque,
    Partial,
    Ref,
    Value,
)
from gitsync.check.python.worlds import Frame

# Results are Unknown although no argument shows it: these can bring in anything.
_DYNAMIC = (
    "importlib.",
    "_frozen_importlib",
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
    "pydoc.locate",
    "pydoc.resolve",
    "pydoc.safeimport",
    "operator.call",
    "_operator.call",
    "osmosis_ai.rollout.utils.imports.resolve_object",
)
_SHOWN_ONLY = frozenset(
    [
        "builtins.print",
        "builtins.repr",
        "builtins.str",
        "builtins.id",
        "builtins.hash",
        "builtins.len",
        "builtins.dir",
        "builtins.callable",
        "builtins.format",
        "builtins.ascii",
        "_io.open",
        "builtins.input",
        "inspect.isclass",
        "inspect.isabstract",
        "inspect.getsource",
        "inspect.getdoc",
        "inspect.getfile",
        "logging.getLogger",
        "logging.info",
        "logging.debug",
        "logging.warning",
        "logging.basicConfig",
        "atexit.register",
        "signal.signal",
        "_warnings.warn",
        "typing.TypeVar",
        "typing.NewType",
        "dataclasses.is_dataclass",
        "pprint.pprint",
        "textwrap.dedent",
        "json.dumps",
        "abc.update_abstractmethods",
    ]
)
# Decorators that leave what they decorate as it is.
_IDENTITY = frozenset(
    [
        "typing.final",
        "typing.override",
        "typing.no_type_check",
        "typing.dataclass_transform",
        "functools.total_ordering",
        "types.coroutine",
        "asyncio.coroutine",
        "atexit.register",
        "typing.cast",
        "typing.reveal_type",
        "typing.assert_type",
        "inspect.markcoroutinefunction",
        "unittest.case.expectedFailure",
        "abc.ABC.register",
        "warnings.deprecated",
        "enum.verify",
    ]
)
_WITH_ARGUMENTS = frozenset(
    [
        "warnings.deprecated",
        "typing.dataclass_transform",
        "enum.verify",
    ]
)


# -- calls seen in passing -------------------------------------------------------------------


def notice(
    m: Machine,
    frame: Frame,
    function: Ext | Opaque,
    args: list[Value],
    keywords: dict[str, Value],
    rest: Value | None,
    kwrest: Value | None,
    node: ast.AST,
) -> None:
    """Remember calls that the warnings are about."""
    path = function.path
    if path == CREATE_SERVER:
        m.seen.server_created = True
    elif path.startswith("osmosis_ai."):
        backends.record(m, frame, path, keywords, rest or kwrest, node)
    elif path in ("uvicorn.run", "uvicorn.main.run") or path in (
        "uvicorn.Server().run",
        "uvicorn.Server().serve",
        "uvicorn.server.Server().serve",
    ):
        m.seen.started.append(m.place(frame, node))
    if m.rehearsal is not None:
        from gitsync.check.python import policy, rehearsals

        if not (isinstance(function, Opaque) and function.routed):
            policy.notice(m, frame, path, args, keywords, kwrest, node)
        rehearsals.follow(m, frame, function, args, keywords, rest or kwrest, node)


_TABLES = (
    builtin_functions.RULES,
    callables.RULES,
    constructors.RULES,
    iterables.RULES,
    standard.RULES,
    copying.RULES,
    standard_types.RULES,
    numbers.RULES,
    ranking.RULES,
    iterator_tools.RULES,
    import_tools.RULES,
    reflection.RULES,
    backends.RULES,
)


# -- the dispatcher --------------------------------------------------------------------------


@functools.cache
def _form(name: str) -> inspect.Signature | None:
    """The parameters of a built-in function or class, where Python tells them."""
    try:
        return inspect.signature(getattr(builtins, name))
    except (AttributeError, TypeError, ValueError):
        return None


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
    if path.startswith("builtins.") and function.kind in ("f", "c") and unknown is None:
        form = _form(path.partition(".")[2])
        if form is not None:
            try:
                form.bind(*args, **keywords)
            except TypeError as error:
                raise m.error(frame, node, "TypeError", str(error)) from None
    if path in specials.PATHS and args and unknown is None:
        own = specials.own_result(m, frame, path, args, node)
        if own is not None:
            return own
    rule = next(
        (t[path] for t in _TABLES if path in t),
        None,
    )
    if rule is not None and unknown is None:
        return rule(m, frame, args, keywords, node)
    parts = path.split(".")
    if len(parts) == 3 and parts[1] in ("dict", "list", "set") and args and unknown is None:
        given = _method_of_container(m, frame, parts[2], args, keywords, node)
        if given is not None:
            return given
    if path in dynamic.FRAME_CALLS:
        return dynamic.FRAME_CALLS[path](m, frame, args, keywords, node)
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
    if (
        function.kind == "c"
        and m.facts.class_facts(path).lineage
        and "builtins.BaseException" in m.facts.class_facts(path).lineage
    ):
        return m.new(InstanceObj(function, tuple(args) if unknown is None else None))
    if function.kind == "c" and m.facts.class_facts(path).abstract:
        raise m.error(frame, node, "TypeError", f"the abstract class {path} is instantiated")
    if path == "builtins.BaseException":
        return m.new(InstanceObj(function, tuple(args) if unknown is None else None))
    is_init = path.endswith(".__init__") and args and isinstance(args[0], Ref)
    others = args[1:] if unknown is None else None
    if is_init and exceptions.set_arguments(m, cast(Ref, args[0]), others):
        return NONE
    if path.startswith(("sys.meta_path", "sys.path_hooks")):
        m.doubt(m.unknown(frame, node, "the import system is changed"))
    if path in ("threading.Thread", "threading.Timer") and any(
        isinstance(v, Ref | Bound | Partial) and reach.touches(m.state, v) for v in everything
    ):
        m.doubt(m.unknown(frame, node, "a thread runs code beside the import"))
    unpickled = path in ("pickle.loads", "_pickle.loads") and any(
        isinstance(v, Const) for v in args
    )
    if unpickled or any(path.startswith(prefix) for prefix in _DYNAMIC):
        if path.startswith("importlib.") and _harmless_importlib(path):
            return Opaque(f"{path}()")
        return m.unknown(frame, node, f"{path} can bring in anything")
    if path in ("builtins.open", "_io.open") and unknown is None:
        reading.opened(m, frame, args, keywords, node)
    reading.notice_call(m, path, third=False)
    if path in REQUIRED_ARGUMENTS and unknown is None and not m.speculative:
        _check_sdk_call(m, frame, path, args, keywords, node)
        backends.build(m, frame, path, keywords, node)
    models.check_arguments(m, frame, function, args, keywords, node, unknown)
    m.may_raise(m.place(frame, node))
    if path in _SHOWN_ONLY or path.startswith("osmosis_ai."):
        return Opaque(f"{path}()")
    callbacks.called(m, frame, path, everything, node)
    if any(reach.touches(m.state, v) for v in everything):
        if any(_binds_names(m, v) for v in everything):
            m.doubt(m.unknown(frame, node, f"{path} is given a function that binds names"))
        made_here = function.kind == "c" and _plain_library_class(m, function)
        if not made_here and not path.startswith(_TELLS):
            return m.unknown(frame, node, f"{path} is given a component class")
        return Opaque(f"{path}()", carries=True)
    return Opaque(f"{path}()")


def _method_of_container(
    m: Machine,
    frame: Frame,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> Value | None:
    """`dict.update(container, …)`: a method of a built-in container, called on the class."""
    if name == "__init__" and backed.fill(m, frame, args[0], args[1:], keywords, node):
        return NONE
    obj = m.obj(args[0]) if isinstance(args[0], Ref) else None
    if backed.has_method(m, args[0], name) or isinstance(obj, ListObj | DictObj):
        return backed.call(m, frame, args[0], name, args[1:], keywords, node)
    return None


def _check_sdk_call(
    m: Machine,
    frame: Frame,
    path: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> None:
    """Raise for arguments that a backend or the server does not take, or lacks."""
    name = path.rpartition(".")[2]
    if args:
        raise m.error(frame, node, "TypeError", f"{name}() takes keyword arguments only")
    for word in keywords:
        if word not in m.facts.signatures[path]:
            raise m.error(frame, node, "TypeError", f"{name}() has no argument '{word}'")
    for word in REQUIRED_ARGUMENTS[path]:
        if word not in keywords:
            raise m.error(frame, node, "TypeError", f"{name}() lacks the argument '{word}'")


def _harmless_importlib(path: str) -> bool:
    return path.startswith(("importlib.metadata.", "importlib.resources.")) or path in (
        "importlib.util.find_spec",
        "importlib.invalidate_caches",
    )


def _plain_library_class(m: Machine, function: Ext) -> bool:
    return not function.path.startswith("builtins.")


# functions that tell something of what they are given, or keep it, but do not hand it out
_TELLS = (
    "inspect.is",
    "asyncio.iscoroutine",
    "functools.cmp_to_key",
    "functools.singledispatch",
    "signal.",
    "_signal.",
    "_functools.cmp_to_key",
    "sys.set",
    "atexit.",
    "timeit.",
    "warnings.",
    "logging.",
    "pprint.",
    "reprlib.",
    "re.",
)


def _binds_names(m: Machine, value: Value) -> bool:
    """A function that may bind names of its module while a library calls it."""
    while isinstance(value, Bound | Partial):
        value = value.function
    obj = m.obj(value) if isinstance(value, Ref) else None
    if not isinstance(obj, FunctionObj) or not reach.touches(m.state, value):
        return False
    names = reach.mentioned(obj)
    return bool(owned(obj.node).declared_global or names & _BINDING)


_BINDING = frozenset({"globals", "setattr", "exec", "vars", "__dict__", "modules"})
