"""What a worker makes of one operation on one commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitsync.apply import commit_plan
from gitsync.git.host import create_repository
from gitsync.model import CheckOptions, EntrypointReport, Finding, Severity, Verdict
from gitsync.planning import Ask, edits_of, plan_operation, skills_of, state_of
from gitsync.template import select_workspace
from gitsync.template.catalogue import builtin
from gitsync.template.files import EmptyTree
from gitsync.template.operations import Adopt, ApplyStarter, UpdateTemplate, from_json
from gitsync.template.starter import plan_workspace
from gitsync.template.threeway import OnConflict
from tests.template.service_kit import stage
from tests.template.test_commit import AUTHOR

STORED = Finding("stored", Severity.WARNING, "rollouts/minimal-local/main.py", 1, 1, "x", "Stored.")


@pytest.fixture(scope="module")
def commit(tmp_path_factory) -> tuple[str, str]:
    """A repository and its one commit: a workspace with the smallest starter."""
    repo = tmp_path_factory.mktemp("planning") / "r.git"
    create_repository(repo)
    selection = select_workspace(builtin(), ["minimal-local"], None)
    plan = plan_workspace(EmptyTree(), builtin(), selection)
    return str(repo), commit_plan(repo, base=None, plan=plan, message="First", author=AUTHOR)


@pytest.mark.parametrize("rollout, is_spared", [("chess", True), ("minimal-local", False)])
def test_rollouts_that_the_plan_spares_are_not_checked_again(commit, rollout: str, is_spared: bool):
    stored = EntrypointReport("minimal-local", "main.py", Verdict.OK, "a:B", "a:C", (STORED,))
    operation = ApplyStarter("minimal-local", rollout, {"max_concurrent": 3}, force=True)
    ask = Ask(*commit, operation, CheckOptions(), known={"minimal-local": (stored,)})
    planned = plan_operation(ask)
    assert planned.plan.changes and planned.findings == ((STORED,) if is_spared else ())


def test_operations_keep_their_meaning_as_json():
    for operation in (
        ApplyStarter("minimal-local", "chess", {"max_concurrent": 3}, True),
        UpdateTemplate({"x": 1}, "chess", ("a", "b"), OnConflict.BESIDE),
        Adopt(None),
        Adopt(()),
    ):
        again = from_json(operation.to_json())
        assert again == operation and type(again) is type(operation)


def test_the_state_of_a_fresh_workspace(commit):
    state = state_of(*commit)
    assert state["version"] == state["available_version"] and state["tracked"] > 20
    assert not (state["edited"] or state["missing"] or state["outdated"])
    assert edits_of(*commit) == ()
    assert {s["name"] for s in skills_of(*commit) if s["installed"]} == set(
        builtin().default_skills
    )
    nothing = state_of(commit[0], None)
    assert (nothing["template"], nothing["starters"], nothing["tracked"]) == (None, [], 0)


@pytest.mark.slow
def test_what_cannot_be_checked_in_time_is_planned_all_the_same(tmp_path: Path):
    with stage(tmp_path, check_deadline_s=1.0) as scene:
        place = scene.embedded("minimal-local")
        main = (place.checkout.path / "rollouts/minimal-local/main.py").read_text()
        many = {f"rollouts/r{n}/main.py": f"{main}# {n}\n" for n in range(400)}
        place.push(many)
        done = place.apply("chess")
        assert done["outcome"] == "committed" and place.head() == done["commit_sha"]
        assert any("could not be checked" in note for note in done["notes"])
