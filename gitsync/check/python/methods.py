"""Calls of built-in methods: those of texts and paths here, of other values where they belong."""

from __future__ import annotations

import ast
import posixpath

from gitsync.check.python import (
    backed,
    calls,
    class_methods,
    comparing,
    container_methods,
    containers,
    definitions,
    generators,
    interrupting,
    named_tuples,
    protocols,
    reading,
    specials,
)
from gitsync.check.python.heap import ClassObj, DictObj, InstanceObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    NONE,
    Const,
    Coroutine,
    Lazy,
    Managed,
    Method,
    Names,
    Opaque,
    PathValue,
    Ref,
    Super,
    TupleValue,
    Value,
)
from gitsync.check.python.worlds import Frame

_TEXT = frozenset(
    [
        "upper",
        "lower",
        "strip",
        "lstrip",
        "rstrip",
        "split",
        "rsplit",
        "replace",
        "startswith",
        "endswith",
        "removeprefix",
        "removesuffix",
        "title",
        "capitalize",
        "partition",
        "rpartition",
        "splitlines",
        "isdigit",
        "isalpha",
        "isidentifier",
        "isupper",
        "islower",
        "isspace",
        "find",
        "rfind",
        "index",
        "count",
        "casefold",
        "swapcase",
        "encode",
        "decode",
        "isnumeric",
        "isalnum",
        "hex",
        "as_integer_ratio",
        "bit_length",
    ]
)


_CODECS = frozenset({"utf-8", "utf8", "ascii", "latin-1", "UTF-8"})


def call_method(
    m: Machine,
    frame: Frame,
    method: Method,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    *,
    unknown: Value | None = None,
) -> Value:
    """Call a built-in method."""
    owner, name = method.owner, method.name
    if isinstance(owner, Const):
        return _text_method(m, frame, owner, name, args, keywords, node)
    if isinstance(owner, PathValue):
        return _path_method(m, frame, owner, name, args, node)
    if isinstance(owner, Names):
        return container_methods.names_method(m, frame, owner, name, args, keywords, node)
    if isinstance(owner, Super):
        return class_methods.super_method(m, frame, owner, name, args, keywords, node, unknown)
    if isinstance(owner, TupleValue):
        return container_methods.tuple_method(m, frame, owner, name, args, node)
    if isinstance(owner, Coroutine | Lazy):
        return generators.method(m, frame, owner, name, args, node)
    if isinstance(owner, Managed) and name in ("__enter__", "__aenter__"):
        return definitions.entered_value(m, frame, owner, node)
    if isinstance(owner, Managed) and name in ("__exit__", "__aexit__"):
        return interrupting.leave(m, frame, owner.generator, args, node)
    if isinstance(owner, Ref):
        obj = m.obj(owner)
        if isinstance(obj, ListObj):
            return container_methods.list_method(m, frame, owner, obj, name, args, keywords, node)
        if isinstance(obj, DictObj):
            return container_methods.dict_method(m, frame, owner, obj, name, args, keywords, node)
        if isinstance(obj, ClassObj):
            return class_methods.class_method(m, frame, owner, obj, name, args, keywords, node)
        if isinstance(obj, InstanceObj) and name == "__setattr__" and len(args) == 2:
            if isinstance(args[0], Const):
                m.store(owner.oid, str(args[0].value), args[1])
            return NONE
        if backed.has_method(m, owner, name):
            return backed.call(m, frame, owner, name, args, keywords, node)
        if name in ("_replace", "_asdict"):
            return named_tuples.call_method(m, frame, owner, name, keywords, node)
        if name == "__get__":
            return calls.bind(m, owner, args[0] if args else NONE)
    return Opaque()


def _text_method(
    m: Machine,
    frame: Frame,
    owner: Const,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> Value:
    value = owner.value
    if name == "join" and isinstance(value, str) and args:
        texts = calls.strings_of(m, frame, args[0], node)
        if texts is not None and sum(map(len, texts)) < 65536:
            return Const(value.join(texts))
        return Opaque("str()")
    if name == "format" and isinstance(value, str):
        for arg in (*args, *keywords.values()):
            if specials.formatted(m, frame, arg, Opaque("str()"), node) is None:
                protocols.own_text(m, frame, arg, node)
        plain = [comparing.as_text(m, a) for a in args]
        named = {k: comparing.as_text(m, v) for k, v in keywords.items()}
        if (
            None not in plain
            and None not in named.values()
            and len(value) < 4096
            and not any(c in value for c in ".[!:")
        ):
            try:
                return Const(value.format(*plain, **named))
            except (IndexError, KeyError, ValueError) as error:
                raise m.error(
                    frame, node, type(error).__name__, "the text cannot be formatted"
                ) from None
        return Opaque("str()")
    raw = [a.value if isinstance(a, Const) else a for a in args]
    flat = [
        tuple(i.value for i in a.items if isinstance(i, Const)) if isinstance(a, TupleValue) else a
        for a in raw
    ]
    if name in _TEXT and not keywords and not any(isinstance(a, Value) for a in flat):
        if name in ("encode", "decode") and flat and flat[0] not in _CODECS:
            return Opaque()
        if name == "replace" and isinstance(value, str) and len(value) > 4096:
            return Opaque()
        try:
            result = getattr(value, name)(*flat)
        except (TypeError, ValueError, LookupError) as error:
            kind = type(error).__name__
            raise m.error(frame, node, kind, f"{name}() does not work here") from None
        except OverflowError:
            return Opaque()
        if isinstance(result, list):
            return m.list_of([Const(r) for r in result])
        return containers.constant(result)
    return Opaque(f"{type(value).__name__}()")


def _path_method(
    m: Machine, frame: Frame, owner: PathValue, name: str, args: list[Value], node: ast.AST
) -> Value:
    text = owner.text
    first = args[0].value if args and isinstance(args[0], Const) else None
    if name in ("resolve", "absolute", "expanduser"):
        return PathValue(posixpath.normpath(text))
    if name == "joinpath":
        value: Value = owner
        for arg in args:
            value = comparing.join_path(value, arg) or Opaque()
        return value
    if name == "with_name" and isinstance(first, str):
        return PathValue(posixpath.join(posixpath.dirname(text), first))
    if name == "with_suffix" and isinstance(first, str):
        return PathValue(posixpath.splitext(text)[0] + first)
    if name in ("as_posix", "__str__", "__fspath__"):
        return Const(text)
    reading.notice_method(m, frame, owner, name, args, node)
    m.may_raise(m.place(frame, node))
    return Opaque(f"pathlib.Path().{name}()")
