"""What a form asks to be changed: an operation with typed values, and what tells forms apart."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.template.catalogue import builtin
from gitsync.template.operations import (
    ApplyStarter,
    InstallSkills,
    Operation,
    RepairSkills,
    UninstallSkills,
    UpdateTemplate,
    UpgradeSkills,
)
from gitsync.template.selection import SkillMode
from gitsync.template.threeway import OnConflict
from gitsync.web.session import CheckedForm

_ABOUT = {"csrf", "go", "base", "planned", "message"}  # of the request, not of the change


def wanted(form: CheckedForm) -> list[tuple[str, str]]:
    """The fields that say what to change, in the order of the form."""
    return [
        (key, value)
        for key, value in form.fields.multi_items()
        if isinstance(value, str) and key not in _ABOUT
    ]


def mark_of(form: CheckedForm) -> str:
    """Equal for forms that ask for the same: a plan carries it, and is committed for it only."""
    return hashlib.sha256(json.dumps(sorted(wanted(form))).encode()).hexdigest()


def operation_of(form: CheckedForm) -> Operation:
    """The change itself; what cannot be is refused with the name of its field."""
    kind, is_forced = form.text("operation"), form.text("force") == "yes"
    names = tuple(v for v in form.fields.getlist("skill") if isinstance(v, str))
    if kind == "apply":
        name = form.text("starter")
        schema = builtin().starter(name).to_json()["parameters"]
        given = parameters_of(form, schema)
        return ApplyStarter(name, form.text("rollout") or None, given, is_forced)
    if kind == "update":
        return UpdateTemplate({}, None, (), OnConflict.REPORT)
    if kind == "install":
        return InstallSkills(names, SkillMode.LINK)
    if kind == "upgrade":
        return UpgradeSkills(names, OnConflict.REPORT)
    if kind == "uninstall":
        return UninstallSkills(names, is_forced)
    if kind == "repair":
        return RepairSkills(None, is_forced)
    raise InvalidInput("There is no such change.", field="operation")


def parameters_of(form: CheckedForm, schema: dict[str, Any]) -> dict[str, bool | int | float | str]:
    """The fields `p.NAME` by the types of a JSON Schema; what is not sent keeps its default."""
    found: dict[str, bool | int | float | str] = {}
    for name, rule in schema["properties"].items():
        text = form.fields.get(f"p.{name}")
        if not isinstance(text, str):
            continue
        if rule["type"] == "boolean":
            found[name] = text == "yes"
        elif rule["type"] in ("integer", "number"):
            try:
                found[name] = int(text) if rule["type"] == "integer" else float(text)
            except ValueError:
                raise InvalidInput(
                    f"{rule.get('title', name)} must be a {_NUMBERS[rule['type']]}.",
                    field=f"parameters.{name}",
                ) from None
        else:
            found[name] = text.strip()
    return found


_NUMBERS = {"integer": "whole number", "number": "number"}
