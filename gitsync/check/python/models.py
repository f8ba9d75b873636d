"""Pydantic models, the SDK's config classes among them: what their constructor refuses."""

from __future__ import annotations

import ast

from gitsync.check.python import classes
from gitsync.check.python.facts import MODEL_FIELDS
from gitsync.check.python.heap import ClassObj
from gitsync.check.python.machine import Machine
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
    for field, kind in required.items():
        value = keywords.get(field)
        if value is None:
            raise m.error(frame, node, "ValueError", f"{name}() lacks the field '{field}'")
        if kind is not None and isinstance(value, Const) and not isinstance(value.value, kind):
            reason = f"{name}() is given a '{field}' that is no {kind.__name__}"
            raise m.error(frame, node, "ValueError", reason)


def _required(m: Machine, lineage: tuple[Value, ...]) -> dict[str, type | None] | None:
    """The fields without a default; None if validators or aliases may change what is needed."""
    fields: dict[str, type | None] = {}
    for part in reversed(lineage):
        if isinstance(part, Ext):
            fields.update(MODEL_FIELDS.get(part.path, {}))
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
            is_field = not name.startswith("_") and "ClassVar" not in text
            if is_field and name not in obj.values:
                fields.pop(name, None)
                if "Annotated" not in text:
                    fields[name] = None
    return fields
