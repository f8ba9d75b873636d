"""`osmosis model list|info`: the models that training may start from.

gitsync trains nothing itself: `GITSYNC_BASE_MODELS` says what the executors can train. Evaluations
name models of providers, which need not be listed. LoRA models stay where they were trained.
"""

from __future__ import annotations

import hashlib
from typing import Any, Never

from fastapi import APIRouter

from gitsync.errors import NotFound
from gitsync.instance import Instance
from gitsync.web.auth import InstanceDep
from gitsync.web.cli_api.answers import PieceDep
from gitsync.web.cli_api.scope import CliRoute, ScopedReader

router = APIRouter(route_class=CliRoute)
routers = (router,)


class ModelNotFound(NotFound):
    """No model of this name can be trained here."""

    code = "MODEL_NOT_FOUND"


def model_json(name: str) -> dict[str, Any]:
    """A base model, which is as old as the operator's settings: no times are known."""
    return {
        "id": f"mo_{hashlib.sha256(name.encode()).hexdigest()[:16]}",
        "model_name": name,
        "base_model": None,
        "creator_name": None,
        "created_at": "",
        "updated_at": "",
        "namespace": name.partition("/")[0] if "/" in name else "",
    }


def _unknown(name: str, instance: Instance) -> Never:
    known = ", ".join(instance.settings.base_models) or "none"
    raise ModelNotFound(f"Model not found: {name}. Base models here: {known}.", field="name")


@router.get("/models/base")
def list_base(scoped: ScopedReader, instance: InstanceDep, piece: PieceDep) -> dict[str, Any]:
    """The base models, as the settings list them."""
    names = instance.settings.base_models
    return piece.answer("models", [model_json(name) for name in piece.of(names)], len(names))


@router.get("/models/lora")
def list_lora(scoped: ScopedReader, piece: PieceDep) -> dict[str, Any]:
    """None; without `active_deployments`, so that the CLI shows no columns for them."""
    return piece.answer("models", [], 0)


@router.get("/models/base/{name:segment}")
def show_base(name: str, scoped: ScopedReader, instance: InstanceDep) -> dict[str, Any]:
    """One base model by name or id, whatever its case."""
    for model in instance.settings.base_models:
        found = model_json(model)
        if name.lower() == model.lower() or name == found["id"]:
            return found
    _unknown(name, instance)


@router.get("/models/{name:segment}")
def show(name: str, scoped: ScopedReader, instance: InstanceDep) -> dict[str, Any]:
    """A LoRA model: there are none here."""
    _unknown(name, instance)
