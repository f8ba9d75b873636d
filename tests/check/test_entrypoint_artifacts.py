"""What was checked is what is served: every `ok` rollout imports from its artifact's files alone.

The artifact is the rollout folder plus the targets of links inside the commit (decision 1).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.check.import_oracle import ImportOracle
from tests.check.test_entrypoint_corpus import CORPUS, on_disk

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


OK = sorted(
    path.parent.name
    for path in CORPUS.glob("*/expected.json")
    for case in [json.loads(path.read_text())]
    if case["verdict"] == "ok" and case.get("oracle") == "import"
)
# Packages that a rollout's own environment has and the test environment may lack.
STUBS = ("strands", "harbor", "agents", "openai", "litellm", "toml", "platformdirs", "yaml", "uv")


@pytest.fixture(scope="module")
def oracle() -> Iterator[ImportOracle]:
    with ImportOracle() as running:
        yield running


def extract(root: Path, rollout: str, target: Path) -> None:
    """Copy the rollout folder, links as links, and every in-commit file they lead to."""
    pending = [root / "rollouts" / rollout]
    seen: set[Path] = set()
    while pending:
        path = pending.pop()
        if path in seen or not os.path.lexists(path):
            continue
        seen.add(path)
        there = target / path.relative_to(root)
        there.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            there.symlink_to(os.readlink(path))
            reached = Path(os.path.normpath(path.parent / os.readlink(path)))
            if reached.is_relative_to(root):
                pending.append(reached)
        elif path.is_dir():
            there.mkdir(exist_ok=True)
            pending.extend(path.iterdir())
        else:
            shutil.copyfile(path, there)


@pytest.mark.parametrize("name", OK)
def test_the_artifact_of_an_ok_case_imports_alone(
    name: str, oracle: ImportOracle, tmp_path: Path
) -> None:
    root, expected = on_disk(name, tmp_path)
    target = tmp_path / "extracted"
    extract(root, expected["rollout"], target)
    shutil.rmtree(root)
    folder = target / "rollouts" / expected["rollout"]
    stubs = (*STUBS, *expected.get("oracle_stubs", []))
    answer = oracle.ask(folder, expected["entrypoint"], stubs=stubs)
    for role in ("workflow", "grader"):
        names = [found["name"] for found in answer.get(role, [])]
        assert names == [n for n in [expected[role]] if n], answer
