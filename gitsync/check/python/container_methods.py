"""Methods of containers: lists, sets, tuples, dicts and the names of a namespace."""

from __future__ import annotations

import ast
import collections
from typing import cast

from gitsync.check.python import (
    backed,
    containers,
    expressions,
    keys,
    mappings,
    ranking,
    sets,
    subscripts,
)
from gitsync.check.python.heap import DictObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import (
    NONE,
    TRUE,
    Const,
    Names,
    Opaque,
    Ref,
    TupleValue,
    Value,
    View,
)
from gitsync.check.python.worlds import SYS_PATH, Frame


def list_method(
    m: Machine,
    frame: Frame,
    owner: Ref,
    obj: ListObj,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> Value:
    """A method of a list, set, deque or iterator."""
    if name in backed.ITEM_METHODS:
        return backed.call(m, frame, owner, name, args, keywords, node)
    if name in ("copy", "__iter__", "__enter__"):
        kind = "iterator" if name == "__iter__" else obj.kind
        return m.list_of(list(obj.items), kind, obj.rest)
    if name in ("index", "count") and obj.rest is None and len(args) == 1:
        return _found_at(m, frame, obj.items, name, args[0], node)
    if name in ("issubset", "issuperset", "isdisjoint") and len(args) == 1:
        items, rest = expressions.items_of(m, frame, args[0], node)
        return _compared(m, owner, name, sets.new_set(m, items, rest))
    if name in ("index", "count", "__len__", "__contains__"):
        return Opaque("int()")
    if name in ("union", "difference", "intersection", "symmetric_difference") and obj.kind in (
        "set",
        "frozenset",
    ):
        return _joined(m, frame, owner, obj.kind, name, args, node)
    changed = cast(ListObj, m.state.change(owner.oid))
    if owner.oid == SYS_PATH and name in ("insert", "append"):
        value = args[-1] if args else NONE
        at = args[0].value if name == "insert" and isinstance(args[0], Const) else None
        if name == "append":
            changed.items.append(value)
        else:
            changed.items.insert(at if isinstance(at, int) else 0, value)
        return NONE
    if name in ("add", "update") and changed.kind == "set":
        added: list[Value] = list(args)
        for arg in args if name == "update" else ():
            items, rest = expressions.items_of(m, frame, arg, node)
            added = [*added[1:], *items]
            unknown = [r for r in (changed.rest, rest) if r is not None]
            changed.rest = containers.blurred(m, frame, unknown, node) if unknown else None
        for item in added:
            keys.require_hashable(m, frame, item, node)
        made = cast(ListObj, m.obj(sets.new_set(m, [*changed.items, *added], changed.rest)))
        changed = cast(ListObj, m.state.change(owner.oid))
        changed.items, changed.rest = list(made.items), made.rest
        return NONE
    if name in ("append", "appendleft"):
        value = args[0] if args else NONE
        if name == "appendleft":
            changed.items.insert(0, value)
        else:
            changed.items.append(value)
        trim(changed, left=name == "append")
        return NONE
    if name == "extendleft" and len(args) == 1 and obj.rest is None:
        items, rest = expressions.items_of(m, frame, args[0], node)
        if rest is None:
            target = cast(ListObj, m.state.change(owner.oid))
            target.items[:0] = items[::-1]
            trim(target, left=False)
            return NONE
    if name == "rotate" and obj.rest is None and (not args or isinstance(args[0], Const)):
        turned = collections.deque(changed.items)
        turned.rotate(args[0].value if args and isinstance(args[0], Const) else 1)
        changed.items = list(turned)
        return NONE
    if name == "extend":
        for arg in args:
            items, rest = expressions.items_of(m, frame, arg, node)
            target = cast(ListObj, m.state.change(owner.oid))
            if len(target.items) + len(items) > containers.MAX_ITEMS:
                rest = containers.too_many(m, [*target.items[:9], *items[:9]])
                target.items, items = [], []
            target.items.extend(items)
            if rest is not None:
                known = [*([target.rest] if target.rest else []), rest]
                target.rest = containers.blurred(m, frame, known, node)
            trim(target)
        return NONE
    if name == "insert" and len(args) == 2 and isinstance(args[0], Const) and obj.rest is None:
        changed.items.insert(args[0].value, args[1])
        return NONE
    if name in ("pop", "popleft") and obj.rest is None:
        if not changed.items:
            kind = "KeyError" if obj.kind == "set" else "IndexError"
            raise m.error(frame, node, kind, f"the {obj.kind} is empty")
        if obj.kind == "set":
            known = list(changed.items)
            changed.items = []
            changed.rest = containers.blurred(m, frame, known, node) if len(known) > 1 else None
            return known[0] if len(known) == 1 else changed.rest or NONE
        at = (
            0
            if name == "popleft"
            else (
                args[0].value if args and isinstance(args[0], Const) else -1 if not args else None
            )
        )
        if isinstance(at, int) and -len(changed.items) <= at < len(changed.items):
            return m.concrete(changed.items.pop(at))
        if isinstance(at, int):
            raise m.error(frame, node, "IndexError", "the index is out of range")
    if name in ("remove", "discard") and obj.rest is None and args:
        answers = [containers.equal(m, item, args[0]) for item in changed.items]
        if True in answers and None not in answers[: answers.index(True)]:
            del changed.items[answers.index(True)]
            return NONE
        if containers.contains(m, owner, args[0]) is False:
            if name == "remove":
                kind = "KeyError" if obj.kind == "set" else "ValueError"
                raise m.error(frame, node, kind, f"the {obj.kind} has no such item")
            return NONE
    if name == "clear":
        changed.items = []
        changed.rest = None
        return NONE
    if name == "reverse" and obj.rest is None:
        changed.items.reverse()
        return NONE
    if name == "sort" and obj.rest is None:
        made = cast(
            ListObj, m.obj(cast(Ref, ranking.ordered(m, frame, list(obj.items), keywords, node)))
        )
        changed = cast(ListObj, m.state.change(owner.oid))
        changed.items, changed.rest = list(made.items), made.rest
        return NONE
    known = [*changed.items, *args, *([changed.rest] if changed.rest is not None else [])]
    changed.rest = containers.blurred(m, frame, known, node)
    changed.items = []
    return changed.rest if name in ("pop", "popleft") else NONE


def trim(changed: ListObj, *, left: bool = True) -> None:
    """Drop what a deque with `maxlen` does not keep, on the side the new items did not come in."""
    if changed.limit is not None and len(changed.items) > changed.limit:
        count = len(changed.items) - changed.limit
        changed.items = changed.items[count:] if left else changed.items[: changed.limit]


def fill_deque(
    m: Machine,
    frame: Frame,
    made: Ref,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> None:
    """`deque(iterable, maxlen)`; of a length that is not known any item may be lost."""
    given = dict(zip(("iterable", "maxlen"), args, strict=False)) | keywords
    items, rest = expressions.items_of(m, frame, given.get("iterable", TupleValue(())), node)
    limit = given.get("maxlen", NONE)
    changed = cast(ListObj, m.state.change(made.oid))
    changed.items, changed.rest = items, rest
    if isinstance(limit, Const) and isinstance(limit.value, int):
        changed.limit = limit.value
        trim(changed)
    elif limit != NONE:
        changed.limit = 0
        changed.rest = m.unknown(frame, node, "how many items the deque keeps is not known")
        changed.items = []


def _joined(
    m: Machine, frame: Frame, owner: Ref, kind: str, name: str, args: list[Value], node: ast.AST
) -> Value:
    """`union`, `difference` and the like, which take any iterables."""
    so_far: Value = sets.new_set(m, list(cast(ListObj, m.obj(owner)).items), None, kind)
    cast(ListObj, m.obj(cast(Ref, so_far))).rest = cast(ListObj, m.obj(owner)).rest
    for arg in args:
        items, rest = expressions.items_of(m, frame, arg, node)
        made = sets.combine(m, _OPERATORS[name], so_far, sets.new_set(m, items, rest))
        if made is None:
            known = [*cast(ListObj, m.obj(cast(Ref, so_far))).items, *items]
            known += [r for r in (rest, cast(ListObj, m.obj(owner)).rest) if r is not None]
            return m.list_of([], kind, containers.blurred(m, frame, known, node))
        so_far = made
    return so_far


_OPERATORS: dict[str, ast.operator] = {
    "union": ast.BitOr(),
    "intersection": ast.BitAnd(),
    "difference": ast.Sub(),
    "symmetric_difference": ast.BitXor(),
}


def _compared(m: Machine, owner: Ref, name: str, other: Ref) -> Value:
    """`issubset`, `issuperset` and `isdisjoint`."""
    if name == "isdisjoint":
        common = sets.combine(m, ast.BitAnd(), owner, other)
        answer = None if common is None else not cast(ListObj, m.obj(common)).items
    elif name == "issubset":
        answer = sets.is_subset(m, owner, other)
    else:
        answer = sets.is_subset(m, other, owner)
    return Opaque("bool()") if answer is None else Const(answer)


def _found_at(
    m: Machine, frame: Frame, items: list[Value], name: str, wanted: Value, node: ast.AST
) -> Value:
    """`index` and `count` of a list."""
    hits = 0
    for at, item in enumerate(items):
        same = containers.equal(m, item, wanted)
        if same is None:
            return Opaque("int()")
        if same and name == "index":
            return Const(at)
        hits += same
    if name == "index":
        raise m.error(frame, node, "ValueError", "there is no such item")
    return Const(hits)


def tuple_method(
    m: Machine, frame: Frame, owner: TupleValue, name: str, args: list[Value], node: ast.AST
) -> Value:
    """`index` and `count` of a tuple, where it is certain which items are equal."""
    answers: list[bool | None] = [None]
    if args:
        answers = [containers.equal(m, item, args[0]) for item in owner.items]
    if name == "count" and None not in answers:
        return Const(answers.count(True))
    if name == "index" and len(args) == 1:
        if True in answers and None not in answers[: answers.index(True)]:
            return Const(answers.index(True))
        if not any(answer is None for answer in answers):
            raise m.error(frame, node, "ValueError", "the tuple has no such item")
    return Opaque("int()")


def dict_method(
    m: Machine,
    frame: Frame,
    owner: Ref,
    obj: DictObj,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> Value:
    """A method of a dict."""
    if name in backed.ITEM_METHODS:
        return backed.call(m, frame, owner, name, args, keywords, node)
    key = args[0] if args else NONE
    default = args[1] if len(args) > 1 else NONE
    if name in ("get", "pop", "setdefault"):
        keys.require_hashable(m, frame, key, node)
        held = keys.find(m, obj, key)
        if held is not None:
            found = obj.items.get(held)
            if found is None and obj.rest is None:
                if name == "setdefault":
                    subscripts.set_item(m, frame, owner, key, default, node)
                if name == "pop" and len(args) < 2:
                    raise m.error(frame, node, "KeyError", "the dictionary has no such key")
                return default
            values = [v for v in (found, obj.rest) if v is not None]
            if found is None:
                values.append(default)
            value = subscripts.pick_any(m, frame, [m.concrete(v) for v in values], node)
            if name == "pop" and found is not None:
                subscripts.remove_item(m, frame, owner, key, node)
            if name == "setdefault" and found is None:
                subscripts.set_item(m, frame, owner, key, value, node)
            return value
        values = [m.concrete(v) for v in obj.items.values()]
        values += [*([obj.rest] if obj.rest is not None else []), default]
        if name != "get":
            subscripts.remove_item(m, frame, owner, key, node)
        return subscripts.pick_any(m, frame, values, node)
    if name in ("items", "values", "keys"):
        return View(owner, name)
    if name == "copy":
        return m.new(obj.copy())
    changed = cast(DictObj, m.state.change(owner.oid))
    if name == "update":
        for arg in args:
            if isinstance(arg, Ref) and isinstance(m.obj(arg), ListObj):
                items, rest = expressions.items_of(m, frame, arg, node)
                for pair in items:
                    if isinstance(pair, TupleValue) and len(pair.items) == 2:
                        containers.put(m, frame, changed, pair.items[0], pair.items[1], node)
                changed.rest = rest or changed.rest
            else:
                containers.absorb(m, changed, arg)
        for word, value in keywords.items():
            changed.items[Const(word)] = value
        return NONE
    if name == "clear":
        changed.items = {}
        changed.rest = None
        return NONE
    if name == "popitem" and obj.rest is None:
        if not obj.items:
            raise m.error(frame, node, "KeyError", "the dictionary is empty")
        which = expressions.known_truth(m, frame, (*args, keywords.get("last", TRUE))[0], node)
        if which is not None:
            found = list(changed.items)[-1 if which else 0]
            return TupleValue((found, m.concrete(changed.items.pop(found))))
    if name == "move_to_end" and obj.rest is None:
        keys.require_hashable(m, frame, key, node)
        at = keys.find(m, obj, key)
        which = expressions.known_truth(m, frame, (*args[1:], keywords.get("last", TRUE))[0], node)
        if at is not None and which is not None:
            if at not in obj.items:
                raise m.error(frame, node, "KeyError", "the dictionary has no such key")
            moved = changed.items.pop(at)
            changed.items = {**changed.items, at: moved} if which else {at: moved, **changed.items}
            return NONE
    if name in ("popitem", "move_to_end"):
        return containers.spoil(m, frame, owner, node, args) or Opaque()
    return Opaque()


def names_method(
    m: Machine,
    frame: Frame,
    owner: Names,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> Value:
    """A method of a namespace seen as a dict: `globals()`, `vars(x)`, `sys.modules`."""
    space = m.space(owner.oid)
    key = args[0] if args else NONE
    if name in ("get", "pop", "setdefault", "__getitem__"):
        default = args[1] if len(args) > 1 else NONE
        if isinstance(key, Const):
            found = m.read(owner.oid, key.value) if isinstance(key.value, str) else None
            if space.taint is not None:
                return space.taint
            if found is None:
                if name == "setdefault":
                    subscripts.set_name(m, frame, owner, key, default, node)
                if name == "__getitem__" or (name == "pop" and len(args) < 2):
                    raise m.error(frame, node, "KeyError", "there is no such name")
                return default
            if name == "pop":
                subscripts.remove_item(m, frame, owner, key, node)
            return found
        if name != "get":
            m.taint(owner.oid, m.unknown(frame, node, "a name that is not known is changed"))
        values = list(containers.visible(m.settle(owner.oid)).values())
        return subscripts.pick_any(m, frame, values, node)
    if name in ("update", "__ior__"):
        for arg in args:
            new = DictObj({})
            containers.absorb(m, new, arg)
            if not isinstance(arg, Ref | Names) or new.rest is not None:
                m.taint(owner.oid, m.unknown(frame, node, "names that are not known are bound"))
            for k, v in new.items.items():
                subscripts.set_name(m, frame, owner, k, v, node)
        for word, value in keywords.items():
            m.store(owner.oid, word, value)
        return NONE
    if name in ("__setitem__",) and len(args) == 2:
        subscripts.set_name(m, frame, owner, args[0], args[1], node)
        return NONE
    if name == "__delitem__" and args:
        subscripts.remove_item(m, frame, owner, args[0], node)
        return NONE
    if name in ("items", "values", "keys", "copy"):
        space = m.settle(owner.oid)
        shown: dict[Value, Value] = {Const(k): v for k, v in containers.visible(space).items()}
        if name == "copy":
            return m.new(DictObj(shown, space.taint))
        return mappings.shown_by(m, shown, space.taint, name)
    if name == "clear":
        m.taint(owner.oid, m.unknown(frame, node, "all names are deleted"))
        return NONE
    return Opaque()
