"""`match` patterns: matched, not matched, or (None) not certain."""

from __future__ import annotations

import ast

from gitsync.check.python import (
    attributes,
    builtin_functions,
    classes,
    comparing,
    containers,
    expressions,
    reach,
)
from gitsync.check.python.heap import DictObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    FALSE,
    TRUE,
    Const,
    Ext,
    Opaque,
    Ref,
    TupleValue,
    Unknown,
    Value,
)
from gitsync.check.python.worlds import Frame, Raised


def match(m: Machine, frame: Frame, pattern: ast.pattern, subject: Value) -> bool | None:
    """Match a subject against a pattern, binding its names."""
    if isinstance(pattern, ast.MatchValue):
        value = expressions.evaluate(m, frame, pattern.value)
        return containers.equal(m, subject, value)
    if isinstance(pattern, ast.MatchSingleton):
        return comparing.identical(m, subject, Const(pattern.value))
    if isinstance(pattern, ast.MatchAs):
        answer: bool | None = True
        if pattern.pattern is not None:
            answer = match(m, frame, pattern.pattern, subject)
        if answer is not False and pattern.name is not None:
            m.bind(frame, pattern.name, subject)
        return answer
    if isinstance(pattern, ast.MatchOr):
        for part in pattern.patterns:
            answer = match(m, frame, part, subject)
            if answer is not False:
                return answer
        return False
    if isinstance(pattern, ast.MatchSequence):
        return _sequence(m, frame, pattern, subject)
    if isinstance(pattern, ast.MatchClass):
        return _class(m, frame, pattern, subject)
    if isinstance(pattern, ast.MatchMapping):
        return _mapping(m, frame, pattern, subject)
    return None


def _part(m: Machine, frame: Frame, owner: Value) -> Value:
    if isinstance(owner, Unknown):
        return owner
    if reach.touches(m.state, owner):
        return Unknown(m.at, "a pattern takes an object apart")
    return Opaque()


def _sequence(m: Machine, frame: Frame, pattern: ast.MatchSequence, subject: Value) -> bool | None:
    items: list[Value] | None = None
    if isinstance(subject, TupleValue):
        items = list(subject.items)
    elif isinstance(subject, Ref):
        obj = m.obj(subject)
        if isinstance(obj, ListObj) and obj.rest is None and obj.kind == "list":
            items = [m.concrete(i) for i in obj.items]
        elif not isinstance(obj, ListObj):
            return False if isinstance(obj, DictObj) else None
    elif isinstance(subject, Const):
        return False
    stars = [i for i, p in enumerate(pattern.patterns) if isinstance(p, ast.MatchStar)]
    if items is None:
        for part in pattern.patterns:
            _bind_all(m, frame, part, _part(m, frame, subject))
        return None
    if not stars and len(items) != len(pattern.patterns):
        return False
    if stars and len(items) < len(pattern.patterns) - 1:
        return False
    answers: list[bool | None] = []
    for index, part in enumerate(pattern.patterns):
        if isinstance(part, ast.MatchStar):
            after = len(pattern.patterns) - index - 1
            if part.name is not None:
                m.bind(frame, part.name, m.list_of(items[index : len(items) - after]))
            continue
        at = index if not stars or index < stars[0] else index - len(pattern.patterns)
        answers.append(match(m, frame, part, items[at]))
    return False if False in answers else (None if None in answers else True)


def _class(m: Machine, frame: Frame, pattern: ast.MatchClass, subject: Value) -> bool | None:
    kind = expressions.evaluate(m, frame, pattern.cls)
    answer = builtin_functions._isinstance(m, frame, [subject, kind], {}, pattern)
    if answer == FALSE:
        return False
    certain = answer == TRUE and not pattern.patterns and not pattern.kwd_patterns
    if answer == TRUE and len(pattern.patterns) == 1 and isinstance(kind, Ext):
        if kind.path in _WHOLE and not pattern.kwd_patterns:
            return match(m, frame, pattern.patterns[0], subject)
    elif answer == TRUE and isinstance(kind, Ref):
        found = _attributes(m, frame, pattern, subject, kind)
        if found is not None:
            answers: list[bool | None] = []
            for part, value in found:
                answers.append(match(m, frame, part, value) if value is not None else False)
                if answers[-1] is False:
                    return False
            return None if None in answers else True
    for part in (*pattern.patterns, *pattern.kwd_patterns):
        _bind_all(m, frame, part, _part(m, frame, subject))
    return True if certain else None


# Built-in classes whose single positional pattern stands for the whole subject.
_WHOLE = frozenset(
    f"builtins.{name}"
    for name in (
        "bool",
        "bytearray",
        "bytes",
        "dict",
        "float",
        "frozenset",
        "int",
        "list",
        "set",
        "str",
        "tuple",
    )
)


def _attributes(
    m: Machine, frame: Frame, pattern: ast.MatchClass, subject: Value, kind: Value
) -> list[tuple[ast.pattern, Value | None]] | None:
    """Sub-patterns with the attributes they are about; None if those are not known."""
    names: list[str] = []
    if pattern.patterns:
        listed = classes.class_attribute(m, kind, "__match_args__")
        if not isinstance(listed, TupleValue):
            return None
        names = [i.value for i in listed.items if isinstance(i, Const)]
        if len(names) != len(listed.items) or len(names) < len(pattern.patterns):
            return None
    parts = [*zip(names, pattern.patterns, strict=False)]
    parts += zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True)
    out: list[tuple[ast.pattern, Value | None]] = []
    for name, part in parts:
        try:
            out.append((part, m.concrete(attributes.get(m, frame, subject, name, pattern))))
        except Raised as raised:
            wanted = Ext("builtins.AttributeError", "c")
            if classes.exception_matches(m, raised.value, wanted) is not True:
                raise
            out.append((part, None))
    return out


def _mapping(m: Machine, frame: Frame, pattern: ast.MatchMapping, subject: Value) -> bool | None:
    obj = m.obj(subject) if isinstance(subject, Ref) else None
    if isinstance(obj, DictObj) and obj.rest is None:
        answers: list[bool | None] = []
        for key_node, part in zip(pattern.keys, pattern.patterns, strict=True):
            key = expressions.evaluate(m, frame, key_node)
            found = obj.items.get(key)
            if found is None:
                return False
            answers.append(match(m, frame, part, m.concrete(found)))
        if pattern.rest is not None:
            left = obj.copy()
            for key_node in pattern.keys:
                left.items.pop(expressions.evaluate(m, frame, key_node), None)
            m.bind(frame, pattern.rest, m.new(left))
        return False if False in answers else (None if None in answers else True)
    if isinstance(subject, Const | TupleValue):
        return False
    for part in pattern.patterns:
        _bind_all(m, frame, part, _part(m, frame, subject))
    if pattern.rest is not None:
        m.bind(frame, pattern.rest, _part(m, frame, subject))
    return None


def _bind_all(m: Machine, frame: Frame, pattern: ast.pattern, value: Value) -> None:
    """Bind every name of a pattern whose match is not certain."""
    for node in ast.walk(pattern):
        name = getattr(node, "name", None) or getattr(node, "rest", None)
        if isinstance(name, str):
            m.bind(frame, name, value)
