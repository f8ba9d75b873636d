"""Pydantic models, the SDK's config classes among them: what their constructor refuses."""

from __future__ import annotations

import ast

from gitsync.check.python import classes
from gitsync.check.python.facts import MODEL_FIELDS, OPTIONAL_FIELDS
from gitsync.check.python.heap import ClassObj, DictObj, InstanceObj, ListObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.model_fields import refuses
from gitsync.check.python.values import ANNOTATIONS, Const, Ext, Opaque, Ref, TupleValue, Value
from gitsync.check.python.worlds import Frame

_MODELS = ("pydantic.BaseModel", "pydantic.main.BaseModel", *MODEL_FIELDS)


def is_model(value: Value) -> bool:
    """True for pydantic's base class and the SDK's config classes."""
    return isinstance(value, Ext | Opaque) and value.path in _MODELS


def check_arguments(
    m: Machine,
    frame: Frame,
    cls: Value,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
    unknown: Value | None,
) -> None:
    """Raise for arguments that `BaseModel.__init__` certainly refuses."""
    lineage = classes.mro_of(m, cls)
    models = [p for p in lineage if is_model(p)]
    if not models or any(isinstance(p, Opaque) and p not in models for p in lineage):
        return
    name = m.obj(cls).name if isinstance(cls, Ref) else models[0].path.rpartition(".")[2]  # type: ignore[attr-defined]
    if args:
        raise m.error(frame, node, "TypeError", f"{name}() takes keyword arguments only")
    required = _required(m, lineage)
    if required is None or unknown is not None:
        return
    for field, (text, needed) in required.items():
        value = keywords.get(field)
        if value is None and needed:
            raise m.error(frame, node, "ValueError", f"{name}() lacks the field '{field}'")
        if value is not None and _is_refused(m, field, text, m.concrete(value)):
            reason = f"{name}() is given a '{field}' that is no {text}"
            raise m.error(frame, node, "ValueError", reason)


def _is_refused(m: Machine, field: str, text: str, value: Value) -> bool:
    """True if pydantic certainly does not take the value; the SDK's limits are known."""
    if text == "ConcurrencyConfig":
        obj = m.obj(value) if isinstance(value, Ref) else None
        if isinstance(obj, DictObj):
            inner = obj.items.get(Const("max_concurrent"))
            return inner is not None and _is_refused(m, "max_concurrent", "int | None", inner)
        return isinstance(value, Const | TupleValue) or isinstance(obj, ListObj)
    too_few = isinstance(value, Const) and isinstance(value.value, int) and value.value < 1
    return refuses(m, text, value) or (field == "max_concurrent" and too_few)


def check_body(m: Machine, frame: Frame, cls: ClassObj, node: ast.AST) -> None:
    """Raise for a plain value in the body of a model that has no annotation."""
    if not any(is_model(p) for p in cls.mro) or "model_config" in cls.values:
        return
    annotated: set[str] = set()
    for part in (cls, *(m.obj(p) for p in cls.mro if isinstance(p, Ref))):
        noted = part.values.get(ANNOTATIONS) if isinstance(part, ClassObj) else None
        for entry in noted.items if isinstance(noted, TupleValue) else ():
            name, text = (str(p.value) for p in entry.items[:2])  # type: ignore[attr-defined]
            if part is cls or "ClassVar" in text:
                annotated.add(name)
    for name, value in cls.values.items():
        obj = m.obj(value) if isinstance(value, Ref) else None
        made = m.obj(obj.cls) if isinstance(obj, InstanceObj) and isinstance(obj.cls, Ref) else None
        is_plain = (
            isinstance(value, Const | TupleValue)
            or isinstance(obj, ListObj | DictObj)
            or (isinstance(made, ClassObj) and classes.is_enum(made))
        )
        if is_plain and name not in annotated and not name.startswith(("_", "\0")):
            reason = f"the field {name} of the model {cls.name} has no annotation"
            raise m.error(frame, node, "TypeError", reason)


def _required(m: Machine, lineage: tuple[Value, ...]) -> dict[str, tuple[str, bool]] | None:
    """(annotation, whether there is no default) of each field; None if it cannot be told.

    Validators and aliases may change what is needed.
    """
    fields: dict[str, tuple[str, bool]] = {}
    for part in reversed(lineage):
        if isinstance(part, Ext):
            needed = MODEL_FIELDS.get(part.path, {})
            fields.update({n: (kind.__name__, True) for n, kind in needed.items()})
            optional = OPTIONAL_FIELDS.get(part.path, {})
            fields.update({n: (text, False) for n, text in optional.items()})
        obj = m.obj(part) if isinstance(part, Ref) else None
        if not isinstance(obj, ClassObj):
            continue
        decorated = any(
            isinstance(v, Opaque) and v.path.startswith("decorated:") for v in obj.values.values()
        )
        if decorated or "model_config" in obj.values or "__new__" in obj.values:
            return None
        for name in obj.values:
            fields.pop(name, None)
        annotations = obj.values.get(ANNOTATIONS)
        for entry in annotations.items if isinstance(annotations, TupleValue) else ():
            name, text = (str(part.value) for part in entry.items[:2])  # type: ignore[attr-defined]
            default = obj.values.get(name)
            is_field = not name.startswith("_") and "ClassVar" not in text
            if is_field and (default is None or isinstance(default, Const)):
                fields.pop(name, None)
                if "Annotated" not in text:
                    fields[name] = (text, default is None)
    return fields
