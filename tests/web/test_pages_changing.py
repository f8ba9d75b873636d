"""Templates and skills on the dashboard: gallery, form, preview, one commit."""

from __future__ import annotations

import re

import pytest

from gitsync.errors import InvalidInput
from gitsync.web.pages.change_forms import parameters_of
from gitsync.web.pages.plan_view import view
from tests.live import NO_GRADER, git, workspace_files
from tests.web.dashboard import enter, text_of


@pytest.fixture
def place(live):
    """A published workspace of one's own: its path and its checkout."""
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files(demo="# nothing\n"))
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha)
    return f"/workspaces/{workspace['id']}", checkout, sha


def shown(answer) -> dict[str, str]:
    """What the button that commits sends along: the commit and the values of the plan."""
    return {
        name: re.search(f'name="{name}" value="([0-9a-f]+)"', answer.text)[1]
        for name in ("base", "planned")
    }


def field(answer, name: str) -> str:
    """The tag of one field of a form."""
    return re.search(f'<input [^>]*name="{re.escape(name)}"[^>]*>', answer.text)[0]


def minimal(here: str, **fields: str) -> dict[str, str]:
    """The form of a starter."""
    form = {"form_of": f"{here}/templates/minimal-local", "operation": "apply"}
    return {**form, "starter": "minimal-local", **fields}


def test_the_gallery_shows_starters_and_skills(chief, place):
    said = text_of(chief.get(place[0] + "/templates"))
    for starter in ("minimal-local", "multiply-local-openai"):
        assert starter in said
    assert "plan-training" in said and "not installed" in said


def test_the_form_is_made_from_the_schema(chief, place):
    text = chief.get(place[0] + "/templates/minimal-local").text
    assert re.search(
        r'name="p.max_concurrent"[^>]* type="number" required value="16" min="2" max="256"', text
    )
    assert "Name of the platform dataset" in text
    assert chief.get(place[0] + "/templates/nothing").status_code == 404


def test_a_plan_is_shown_then_committed_as_shown(live, chief, place):
    here, _, sha = place
    form = minimal(here, rollout="sums", **{"p.max_concurrent": "4", "p.training": "no"})
    planned = chief.send(f"{here}/changes", go="preview", **form)
    said = text_of(planned)
    assert planned.status_code == 200 and "rollouts/sums/main.py" in said
    assert "configs/training/sums.toml</td>" not in planned.text  # as the form says
    assert "+from osmosis_ai.rollout import" in said and "diff --git" not in said
    assert shown(planned)["base"] == sha
    assert live.get(f"{here}/versions")["total_count"] == 1  # nothing was written

    commit = {"go": "commit", **shown(planned), **form}
    done = chief.send(f"{here}/changes", **commit, message="Add sums")
    assert done.status_code == 303, text_of(done)
    commit = done.headers["location"].rpartition("/")[2]
    found = live.get(f"{here}/commits/{commit}?wait=30")
    assert "sums" in [r["name"] for r in found["rollouts"]]
    assert "Add sums" in text_of(chief.get(done.headers["location"]))
    assert "used as sums" in text_of(chief.get(f"{here}/templates"))


def test_what_was_typed_after_the_plan_is_not_committed(live, chief, place):
    here, _, sha = place
    form = minimal(here, rollout="older")
    plan = shown(chief.send(f"{here}/changes", go="preview", **form))
    typed = {**form, "rollout": "newer"}
    late = chief.send(f"{here}/changes", go="commit", message="Kept", **plan, **typed)
    said = text_of(late)
    assert late.status_code == 409 and "nothing was committed" in said
    assert "rollouts/newer/main.py" in said and "rollouts/older/main.py" not in said
    assert 'value="Kept"' in field(late, "message")
    assert live.get(f"{here}/versions")["total_count"] == 1
    without = chief.send(f"{here}/changes", go="commit", base=sha, **form)
    assert without.status_code == 409
    done = chief.send(f"{here}/changes", go="commit", **shown(late), **typed)
    assert done.status_code == 303


def test_a_push_between_plan_and_commit_is_told_with_the_new_plan(live, chief, place):
    here, checkout, sha = place
    form = minimal(here, rollout="sums")
    plan = shown(chief.send(f"{here}/changes", go="preview", **form))
    pushed = checkout.commit({"notes.md": "mine"}, "Meanwhile")
    checkout.push("-q", "origin", "main")
    live.get(f"{here}/commits/{pushed}?wait=30")
    late = chief.send(f"{here}/changes", go="commit", **plan, **form)
    assert late.status_code == 409
    assert "Somebody pushed meanwhile; nothing was committed." in text_of(late)
    assert shown(late)["base"] == pushed
    done = chief.send(f"{here}/changes", go="commit", **shown(late), **form)
    assert done.status_code == 303, text_of(done)


def test_a_refused_form_keeps_its_values_and_says_where_it_is_wrong(chief, place):
    here = place[0]
    form = minimal(here, rollout="Not A Name", go="preview", **{"p.max_concurrent": "7"})
    refused = chief.send(f"{here}/changes", **form)
    assert refused.status_code == 400
    assert 'value="Not A Name"' in field(refused, "rollout")
    assert 'aria-invalid="true"' in field(refused, "rollout")
    assert 'value="7"' in field(refused, "p.max_concurrent")
    assert "no name for a rollout" in re.search(r'id="wrong-rollout">([^<]*)', refused.text)[1]
    assert f'href="{here}/templates"' in refused.text and 'href="#rollout"' in refused.text
    for wrong in ("", "9999", "many", "1.5"):
        answer = chief.send(
            f"{here}/changes", **minimal(here, go="", **{"p.max_concurrent": wrong})
        )
        assert answer.status_code == 400
        assert 'aria-invalid="true"' in field(answer, "p.max_concurrent"), wrong
    branch = chief.send(f"{here}/changes", **minimal(here, go="preview", branch="a..b"))
    assert 'aria-invalid="true"' in field(branch, "branch")


def test_the_live_preview_tells_a_refusal_in_its_place(chief, place):
    here = place[0]
    form = minimal(here, go="preview", **{"p.max_concurrent": "9999"})
    chief.http.headers["HX-Request"] = "true"
    part = chief.send(f"{here}/changes", **form)
    del chief.http.headers["HX-Request"]
    assert part.status_code == 200 and "This cannot be done." in text_of(part)
    assert "at most 256" in re.search(r'id="wrong-p-max_concurrent">(.*)</p>', part.text)[1]


def test_a_change_that_cannot_be_has_a_way_back(chief, place):
    here = place[0]
    unknown = chief.send(f"{here}/changes", form_of=f"{here}/templates", operation="x", go="")
    assert unknown.status_code == 400
    assert "Back to templates" in text_of(unknown) and "Preview again" in text_of(unknown)


def test_a_skill_is_installed_and_removed(live, chief, place):
    here, _, sha = place
    form = {"form_of": f"{here}/templates", "skill": "plan-eval"}
    planned = chief.send(f"{here}/changes", operation="install", go="preview", **form)
    assert ".agents/skills/plan-eval/SKILL.md" in text_of(planned)
    assert shown(planned)["base"] == sha
    commit = {"operation": "install", "go": "commit", **shown(planned), **form}
    done = chief.send(f"{here}/changes", **commit)
    assert done.status_code == 303, text_of(done)
    commit = done.headers["location"].rpartition("/")[2]
    live.get(f"{here}/commits/{commit}?wait=30")
    assert "Installed" in text_of(chief.get(f"{here}/templates"))
    planned = chief.send(f"{here}/changes", operation="uninstall", go="preview", **form)
    assert "delete" in text_of(planned)


def row(answer, name: str) -> str:
    """What the gallery says of one skill."""
    rows = re.findall(r"<tr>.*?</tr>", answer.text, re.DOTALL)
    return next(r for r in rows if f"<strong>{name}</strong>" in r)


def test_damaged_and_edited_skills_have_a_way_out(live, chief, place):
    here, checkout, _ = place
    for skill in ("plan-eval", "submit-eval"):
        form = {"form_of": f"{here}/templates", "skill": skill, "operation": "install"}
        plan = chief.send(f"{here}/changes", **form)
        done = chief.send(f"{here}/changes", go="commit", **shown(plan), **form)
        commit = done.headers["location"].rpartition("/")[2]
        live.get(f"{here}/commits/{commit}?wait=30")
    git(checkout.path, "pull", "-q", "origin", "main")
    skills = checkout.path / ".agents/skills"
    (skills / "plan-eval/SKILL.md").unlink()
    edited = (skills / "submit-eval/SKILL.md").read_text() + "\nmine\n"
    changed = {
        ".agents/skills/submit-eval/SKILL.md": edited,
        ".agents/skills/own-one/notes.md": "no skill",
    }
    sha = checkout.commit(changed, "Mess")
    checkout.push("-q", "origin", "main")
    live.get(f"{here}/commits/{sha}?wait=30")
    gallery = chief.get(f"{here}/templates")
    assert "Damaged" in row(gallery, "plan-eval") and "Repair" in row(gallery, "plan-eval")
    assert "no agent sees the skill" in row(gallery, "plan-eval")
    assert "Edited" in row(gallery, "submit-eval")
    own = row(gallery, "own-one")
    assert "Damaged" in own and "Yours to mend" in own and "<button" not in own

    repair = chief.send(f"{here}/changes", form_of=f"{here}/templates", operation="repair")
    assert "plan-eval/SKILL.md" in text_of(repair) and "it was missing" in text_of(repair)

    form = {"form_of": f"{here}/templates", "skill": "submit-eval", "operation": "uninstall"}
    blocked = chief.send(f"{here}/changes", go="preview", **form)
    said = text_of(blocked)
    assert "Conflicts stop the whole plan." in said and "edited here" in said
    assert "--force" not in said and "choose to replace" not in said
    assert re.search(r'name="force" value="yes">Remove it all the same<', blocked.text)
    forced = chief.send(f"{here}/changes", force="yes", **form)
    assert "Conflicts" not in text_of(forced) and "Remove it all" not in text_of(forced)
    done = chief.send(f"{here}/changes", go="commit", force="yes", **shown(forced), **form)
    assert done.status_code == 303, text_of(done)


def test_a_plan_does_not_blame_a_change_for_older_errors(live, chief, place):
    here, checkout, _ = place
    sha = checkout.commit(workspace_files(beta=NO_GRADER), "Break beta")
    checkout.push("-q", "origin", "main")
    live.get(f"{here}/commits/{sha}?wait=30")
    plan = chief.send(f"{here}/changes", **minimal(here))
    said = text_of(plan)
    assert "The check passes" in said and "rollouts/beta/main.py" in said
    own, _, rest = plan.text.partition("that this change does not touch")
    assert "no-grader" not in own and "no-grader" in rest
    assert '<div class="note bad">' not in plan.text


@pytest.mark.parametrize(
    ("path", "is_of"),
    [
        ("rollouts/new/main.py", True),
        ("rollouts/new/other.py", True),
        ("rollouts/new", True),
        ("rollouts/newer/main.py", False),
        ("configs/eval/new.toml", True),
        ("configs/eval/old.toml", False),
        ("AGENTS.md", False),
    ],
)
def test_a_finding_is_of_the_change_that_touches_its_rollout(path, is_of):
    steps = [
        {"action": "create", "path": "rollouts/new/main.py", "reason": "new"},
        {"action": "create", "path": "configs/eval/new.toml", "reason": "new"},
        {"action": "skip", "path": "AGENTS.md", "reason": "yours; --restore AGENTS.md does it"},
    ]
    found = view({"steps": steps, "findings": [{"severity": "error", "path": path}]})
    assert (len(found["bad"]), len(found["elsewhere"])) == (is_of, not is_of)
    assert found["steps"][2]["reason"] == "yours"


def test_a_reader_previews_and_cannot_commit(live, place):
    here = place[0]
    live._count += 1
    email = f"reads-{live._count}@example.com"
    with enter(live, email, is_admin=False) as reader:
        live.call("PUT", f"{here}/members/{email}", json={"role": "reader"})
        form = {"form_of": f"{here}/templates", "operation": "install", "skill": "plan-eval"}
        gallery = reader.get(f"{here}/templates").text
        assert ">Preview</button>" in gallery and ">Install</button>" not in gallery
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
