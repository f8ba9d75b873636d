"""The data about the SDK and the standard library is what the installed ones really define."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

from gitsync.check.python.facts import BASES, facts
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
