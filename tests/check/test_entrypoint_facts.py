"""The data about the SDK and the standard library is what the installed ones really define."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import subprocess
import sys

import pytest

from gitsync.check.python.facts import (
    BASES,
    CREATE_SERVER,
    LOCAL_BACKEND,
    MODEL_FIELDS,
    OPTIONAL_FIELDS,
    REQUIRED_ARGUMENTS,
    facts,
)
from tests.check import generate_facts


@pytest.mark.parametrize(
    "name",
    [
        "osmosis_ai.rollout",
        "osmosis_ai.rollout.agent_workflow",
        "osmosis_ai.rollout.grader",
        "osmosis_ai.rollout.context",
        "osmosis_ai.rollout.types",
        "osmosis_ai.rollout.server",
        "osmosis_ai.rollout.backend.local",
    ],
)
def test_the_sdk_defines_what_the_data_says(name: str) -> None:
    found = generate_facts.run(sys.executable, generate_facts.ONE, name)
    assert isinstance(found, dict) and "failed" not in found
    assert found["names"] == facts().modules[name]["names"]
    assert (found["all"] or None) == facts().modules[name].get("all")


def test_the_requirements_are_those_of_the_installed_sdk() -> None:
    assert importlib.metadata.version("osmosis-ai") == "0.3.8"
    assert facts().requires == importlib.metadata.requires("osmosis-ai")


def test_the_bases_are_abstract_classes_of_the_sdk() -> None:
    for role, method in (("workflow", "run"), ("grader", "grade")):
        found = facts().class_facts(BASES[role])
        assert found.abstract == (method,)
        assert found.metaclass[0] == "abc.ABCMeta"


def test_a_check_imports_no_third_party_package() -> None:
    code = (
        "import sys; from gitsync.check.python import check_entrypoint\n"
        "from gitsync.model import CheckOptions\n"
        "from tests.check.folder import Memory\n"
        "tree = Memory({'rollouts/demo/main.py': 'import numpy, osmosis_ai.rollout, uvicorn'})\n"
        "check_entrypoint(tree, 'demo', 'main.py', options=CheckOptions())\n"
        "assert not {'osmosis_ai', 'uvicorn', 'numpy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_rules_are_found_under_the_names_that_imports_give() -> None:
    """`functools.reduce` is `_functools.reduce`: a rule under the first name would never apply."""
    from gitsync.check.python import (
        attributes,
        builtin_functions,
        dynamic,
        iterables,
        library,
        standard,
        standard_types,
    )

    known = facts()
    rules = {
        *standard.RULES,
        *standard_types.RULES,
        *iterables.RULES,
        *builtin_functions.RULES,
        *dynamic.FRAME_CALLS,
        *library._IDENTITY,
        *library._SHOWN_ONLY,
        *attributes.SPECIAL,
    }
    lost = []
    for path in sorted(rules):
        module, _, name = path.rpartition(".")
        found = known.export(module, name) if name in _names(known, module) else None
        if found is not None and found[1] != path and found[1] not in rules:
            lost.append(f"{path} is {found[1]}")
    assert lost == []


def _names(known, module: str) -> dict[str, str]:
    return known.modules.get(module, {}).get("names", {})


def test_the_config_classes_need_the_fields_the_data_says() -> None:
    for path, fields in MODEL_FIELDS.items():
        module, _, name = path.rpartition(".")
        model = getattr(importlib.import_module(module), name)
        assert {f for f, i in model.model_fields.items() if i.is_required()} == set(fields)


def test_the_config_classes_annotate_their_other_fields_as_the_data_says() -> None:
    for path, fields in OPTIONAL_FIELDS.items():
        module, _, name = path.rpartition(".")
        model = getattr(importlib.import_module(module), name)
        for field, text in fields.items():
            kind = model.model_fields[field].annotation
            assert text == (kind.__name__ if isinstance(kind, type) else str(kind))


def test_the_calls_need_the_arguments_the_data_says() -> None:
    refs = {
        LOCAL_BACKEND: "osmosis_ai.rollout.backend.local:LocalBackend",
        CREATE_SERVER: "osmosis_ai.rollout.server:create_rollout_server",
    }
    for path, ref in refs.items():
        module, _, name = ref.partition(":")
        value = getattr(importlib.import_module(module), name)
        parameters = inspect.signature(value).parameters.values()
        assert all(p.kind is p.KEYWORD_ONLY for p in parameters)
        needed = tuple(p.name for p in parameters if p.default is p.empty)
        assert needed == REQUIRED_ARGUMENTS[path]
