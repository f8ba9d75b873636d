"""Templates and skills on the dashboard: gallery, form, preview, one commit."""

from __future__ import annotations

import pytest

from gitsync.errors import InvalidInput
from gitsync.web.pages.changing import parameters_of
from tests.live import workspace_files
from tests.web.test_pages import enter, text_of


@pytest.fixture(scope="module")
def chief(live):
    with enter(live) as browser:
        yield browser


@pytest.fixture
def place(live):
    """A published workspace of one's own: its path and its checkout."""
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files(demo="# nothing\n"))
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha)
    return f"/workspaces/{workspace['id']}", checkout, sha


def test_the_gallery_shows_starters_and_skills(chief, place):
    said = text_of(chief.get(place[0] + "/templates"))
    for starter in ("minimal-local", "multiply-local-openai"):
        assert starter in said
    assert "plan-training" in said and "not installed" in said


def test_the_form_is_made_from_the_schema(chief, place):
    text = chief.get(place[0] + "/templates/minimal-local").text
    assert 'name="p.max_concurrent" type="number" required value="16" min="2" max="256"' in text
    assert "Name of the platform dataset" in text
    assert chief.get(place[0] + "/templates/nothing").status_code == 404


def test_a_plan_is_shown_then_committed_as_shown(live, chief, place):
    here, _, sha = place
    form = {
        "form_of": f"{here}/templates/minimal-local",
        "operation": "apply",
        "starter": "minimal-local",
        "rollout": "sums",
        "p.max_concurrent": "4",
        "p.training": "no",
    }
    planned = chief.send(f"{here}/changes", go="preview", **form)
    said = text_of(planned)
    assert planned.status_code == 200 and "rollouts/sums/main.py" in said
    assert "configs/training/sums.toml</td>" not in planned.text  # as the form says
    assert "+from osmosis_ai.rollout import" in said and "diff --git" not in said
    assert f'name="base" value="{sha}"' in planned.text
    assert live.get(f"{here}/versions")["total_count"] == 1  # nothing was written

    stale = chief.send(f"{here}/changes", go="commit", base="1" * 40, **form)
    assert stale.status_code == 409 and "This cannot be done." in text_of(stale)

    done = chief.send(f"{here}/changes", go="commit", base=sha, message="Add sums", **form)
    assert done.status_code == 303, text_of(done)
    commit = done.headers["location"].rpartition("/")[2]
    found = live.get(f"{here}/commits/{commit}?wait=30")
    assert "sums" in [r["name"] for r in found["rollouts"]]
    assert "Add sums" in text_of(chief.get(done.headers["location"]))
    assert "used as sums" in text_of(chief.get(f"{here}/templates"))


def test_a_wrong_parameter_is_told_in_its_place(chief, place):
    here = place[0]
    form = {
        "form_of": f"{here}/templates/minimal-local",
        "operation": "apply",
        "starter": "minimal-local",
        "go": "preview",
    }
    refused = chief.send(f"{here}/changes", **form, **{"p.max_concurrent": "many"})
    assert refused.status_code == 400 and "must be a number" in text_of(refused)
    chief.http.headers["HX-Request"] = "true"
    part = chief.send(f"{here}/changes", **form, **{"p.max_concurrent": "9999"})
    del chief.http.headers["HX-Request"]
    assert part.status_code == 200 and "This cannot be done." in text_of(part)
    unknown = chief.send(f"{here}/changes", form_of=f"{here}/templates", operation="x", go="")
    assert unknown.status_code == 400


def test_a_skill_is_installed_and_removed(live, chief, place):
    here, _, sha = place
    form = {"form_of": f"{here}/templates", "skill": "plan-eval"}
    planned = chief.send(f"{here}/changes", operation="install", go="preview", **form)
    assert ".agents/skills/plan-eval/SKILL.md" in text_of(planned)
    done = chief.send(f"{here}/changes", operation="install", go="commit", base=sha, **form)
    assert done.status_code == 303, text_of(done)
    commit = done.headers["location"].rpartition("/")[2]
    live.get(f"{here}/commits/{commit}?wait=30")
    assert "Installed" in text_of(chief.get(f"{here}/templates"))
    planned = chief.send(f"{here}/changes", operation="uninstall", go="preview", **form)
    assert "delete" in text_of(planned)


def test_a_reader_previews_and_cannot_commit(live, place):
    here = place[0]
    live._count += 1
    email = f"reads-{live._count}@example.com"
    with enter(live, email, is_admin=False) as reader:
        live.call("PUT", f"{here}/members/{email}", json={"role": "reader"})
        form = {"form_of": f"{here}/templates", "operation": "install", "skill": "plan-eval"}
        planned = reader.send(f"{here}/changes", go="preview", **form)
        assert planned.status_code == 200
        assert "A member of the workspace can commit it." in text_of(planned)
        assert reader.send(f"{here}/changes", go="commit", **form).status_code == 403


def test_an_empty_workspace_has_a_gallery(live, chief):
    workspace = live.create()
    answer = chief.get(f"/workspaces/{workspace['id']}/templates")
    assert answer.status_code == 200 and "minimal-local" in answer.text


class _Form:
    def __init__(self, **fields):
        self.fields = fields


def test_parameters_have_the_types_of_their_schema():
    rules = {"a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"type": "string"}}
    schema = {"properties": rules | {"d": {"type": "number"}, "e": {"type": "string"}}}
    form = _Form(**{"p.a": "3", "p.b": "yes", "p.c": " x ", "p.d": "1.5"})
    assert parameters_of(form, schema) == {"a": 3, "b": True, "c": "x", "d": 1.5}
    with pytest.raises(InvalidInput):
        parameters_of(_Form(**{"p.a": "1.5"}), schema)
