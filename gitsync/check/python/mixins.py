"""Methods that `collections` writes in terms of a class's own: they run as the code they are."""

from __future__ import annotations

import ast
import functools

from gitsync.check.python import classes
from gitsync.check.python.heap import FunctionObj, InstanceObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import Bound, Const, Ext, Ref, TupleValue, Value
from gitsync.check.python.worlds import Frame

_MAPPING = """
def get(self, key, default=None):
    try:
        return self[key]
    except KeyError:
        return default
def __contains__(self, key):
    try:
        self[key]
    except KeyError:
        return False
    return True
def keys(self):
    return [key for key in self]
def values(self):
    return [self[key] for key in self]
def items(self):
    return [(key, self[key]) for key in self]
"""
_MUTABLE_MAPPING = """
def pop(self, key, *default):
    try:
        value = self[key]
    except KeyError:
        if default:
            return default[0]
        raise
    del self[key]
    return value
def popitem(self):
    for key in self:
        value = self[key]
        del self[key]
        return key, value
    raise KeyError
def clear(self):
    for key in [key for key in self]:
        del self[key]
def setdefault(self, key, default=None):
    try:
        return self[key]
    except KeyError:
        self[key] = default
    return default
def update(self, other=(), /, **words):
    if hasattr(other, "keys"):
        for key in other.keys():
            self[key] = other[key]
    else:
        for key, value in other:
            self[key] = value
    for key, value in words.items():
        self[key] = value
"""
_USER_DICT = """
def get(self, key, default=None):
    if key in self:
        return self[key]
    return default
"""
_SEQUENCE = """
def __contains__(self, value):
    for item in self:
        if item is value or item == value:
            return True
    return False
def __reversed__(self):
    for at in range(len(self) - 1, -1, -1):
        yield self[at]
def count(self, value):
    return sum(1 for item in self if item is value or item == value)
"""
_MUTABLE_SEQUENCE = """
def append(self, value):
    self.insert(len(self), value)
def extend(self, values):
    for value in [value for value in values]:
        self.append(value)
def pop(self, index=-1):
    value = self[index]
    del self[index]
    return value
def clear(self):
    while len(self):
        self.pop()
"""
_MUTABLE_SET = """
def remove(self, value):
    if value not in self:
        raise KeyError(value)
    self.discard(value)
def pop(self):
    for value in self:
        self.discard(value)
        return value
    raise KeyError
def clear(self):
    for value in [value for value in self]:
        self.discard(value)
"""
_SOURCES = {
    "Mapping": (_MAPPING,),
    "MutableMapping": (_MAPPING, _MUTABLE_MAPPING),
    "UserDict": (_MAPPING, _MUTABLE_MAPPING, _USER_DICT),
    "Sequence": (_SEQUENCE,),
    "MutableSequence": (_SEQUENCE, _MUTABLE_SEQUENCE),
    "MutableSet": (_MUTABLE_SET,),
}
_OF_DICT = frozenset({"__contains__"})  # what `UserDict` does by its dictionary itself


@functools.cache
def _methods(kind: str) -> dict[str, ast.FunctionDef]:
    tree = ast.parse("".join(_SOURCES[kind]))
    found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr | ast.arg | ast.keyword):
            node.lineno, node.col_offset = 1, 0
    if kind == "UserDict":
        return {name: node for name, node in found.items() if name not in _OF_DICT}
    return found


def bound(m: Machine, frame: Frame, owner: Value, name: str) -> Value | None:
    """The method that a class of `collections` brings to an instance; None if there is none."""
    obj = m.obj(owner) if isinstance(owner, Ref) else None
    if not isinstance(obj, InstanceObj):
        return None
    for part in classes.mro_of(m, obj.cls):
        if not isinstance(part, Ext):
            continue
        room, _, kind = part.path.rpartition(".")
        if kind not in _SOURCES or room not in ("collections", "collections.abc", "typing"):
            continue
        node = _methods(kind).get(name)
        if node is not None:
            return Bound(_function(m, frame, node), owner)
    return None


def _function(m: Machine, frame: Frame, node: ast.FunctionDef) -> Ref:
    function = FunctionObj(node, node.name, node.name, frame.module, frame.path)
    function.is_generator = any(isinstance(part, ast.Yield) for part in ast.walk(node))
    function.defaults = tuple(
        TupleValue(()) if isinstance(default, ast.Tuple) else Const(ast.literal_eval(default))
        for default in node.args.defaults
    )
    return m.new(function)
