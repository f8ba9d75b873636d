"""A workspace from nothing: one call, one commit, published; or a clear refusal and nothing."""

from __future__ import annotations

import uuid

import pytest

from gitsync.template.catalogue import builtin
from tests.live import git


def name() -> str:
    return f"born-{uuid.uuid4().hex[:8]}"


def ask(live, body, status=201, **more):
    return live.post("/workspaces", body, status=status, **more)


def born(live, *, starters=("minimal-local",), skills=None, parameters=None, **more):
    create = {"starters": list(starters), "parameters": parameters or {}}
    if skills is not None:
        create["skills"] = skills
    called = more.pop("name", None) or name()
    return ask(
        live, {"name": called, "identity": f"{called}--local/chess", "create": create, **more}
    )


def repositories(live):
    return set((live.data_dir / "repos").glob("*.git"))


def test_one_call_makes_a_workspace_that_is_published_and_can_be_cloned(live):
    made = born(live)
    sha = made["commit_sha"]
    assert made["clone_command"] == f"gitsync clone {made['identity']} --server {live.url}"
    assert made["webhook"]["secret"] and made["warnings"] == []
    status = live.status(made, sha)
    assert status["state"] == "published"
    assert [(r["name"], r["verdict"]) for r in status["rollouts"]] == [("minimal-local", "ok")]
    sync = live.get(f"/workspaces/{made['id']}/syncs/{made['sync_id']}?wait=30")
    assert (sync["trigger"], sync["outcome"]) == ("connect", "published")
    (branch,) = live.get(f"/workspaces/{made['id']}")["branches"]
    assert (branch["name"], branch["published_sha"]) == ("main", sha)

    copy = live.scratch / name()
    git(live.scratch, "clone", "-q", live.git_url(made), str(copy))
    assert git(copy, "rev-list", "--count", "HEAD").stdout.strip() == "1"
    assert (copy / ".claude/skills/create-rollouts").is_symlink()
    assert (copy / ".osmosis/template.lock.toml").is_file()
    assert (copy / "README.md").read_text().startswith("# chess\n")
    assert git(copy, "log", "-1", "--format=%an <%ae>").stdout.strip() == (
        "Administrator <admin@localhost.invalid>"
    )
    manifest = live.get(f"/workspaces/{made['id']}/versions/{sha}")
    found = {(f["code"], f["severity"]) for f in manifest["findings"]}
    assert found == {("unknown-dataset", "hint")}  # it is not uploaded yet
    assert [e["findings"] for r in manifest["rollouts"] for e in r["entrypoints"]] == [[]]


def test_starters_skills_parameters_and_the_branch_are_as_asked(live):
    made = born(
        live,
        starters=["minimal-local", "multiply-local-openai"],
        skills=["plan-eval"],
        parameters={"workspace": "my-team"},
        default_branch="trunk",
    )
    assert live.status(made, made["commit_sha"])["state"] == "published"
    copy = live.scratch / name()
    git(live.scratch, "clone", "-q", live.git_url(made), str(copy))
    assert git(copy, "branch", "--show-current").stdout.strip() == "trunk"
    assert sorted(p.name for p in (copy / "rollouts").iterdir() if p.is_dir()) == [
        "minimal-local",
        "multiply-local-openai",
    ]
    assert [p.name for p in (copy / ".agents/skills").iterdir()] == ["plan-eval"]
    assert (copy / "README.md").read_text().startswith("# my-team\n")


def test_the_template_alone_is_a_workspace_too(live):
    made = born(live, starters=[], skills=[])
    assert live.status(made, made["commit_sha"])["state"] == "published"


def test_with_everything_in_it_nothing_is_found_and_every_config_loads(live):
    from osmosis_ai.platform.cli.eval_config import load_eval_submit_config
    from osmosis_ai.platform.cli.training_config import load_train_submit_config

    made = born(live, starters=list(builtin().starters), skills=list(builtin().skills))
    assert live.status(made, made["commit_sha"])["state"] == "published"
    manifest = live.get(f"/workspaces/{made['id']}/versions/{made['commit_sha']}")
    # what only the service can know: nothing is uploaded yet, and there is no sandbox key
    hints = {(f["code"], f["severity"]) for f in manifest["findings"]}
    assert hints == {("unknown-dataset", "hint"), ("sandbox-key-missing", "hint")}
    found = {r["name"]: [e["findings"] for e in r["entrypoints"]] for r in manifest["rollouts"]}
    assert found == {name: [[]] for name in builtin().starters}
    copy = live.scratch / name()
    git(live.scratch, "clone", "-q", live.git_url(made), str(copy))
    loaders = {"eval": load_eval_submit_config, "training": load_train_submit_config}
    for kind, load in loaders.items():
        paths = sorted((copy / "configs" / kind).glob("*.toml"))
        assert len(paths) == len(builtin().starters) + 1
        for path in paths:
            load(path)


@pytest.mark.parametrize(
    ("more", "field", "says"),
    [
        ({"create": {"starters": ["nope"]}}, "create.starters", "minimal-local"),
        ({"create": {"skills": ["nope"]}}, "create.skills", "plan-training"),
        ({"create": {"parameters": {"nope": 1}}}, "create.parameters.nope", "workspace"),
        (
            {"create": {"parameters": {"workspace": "No Good"}}},
            "create.parameters.workspace",
            "No Good",
        ),
        ({"create": {"starters": ["../../etc"]}}, "create.starters", "no starter"),
        ({"create": {"starters": "minimal-local"}}, "create.starters", "list"),
        ({"create": {"starter": []}}, "create.starter", ""),
        (
            {"create": {"parameters": {"workspace": None}}},
            "create.parameters.workspace",
            "must be text",
        ),
        (
            {"create": {"parameters": {"workspace": "x" * 10_001}}},
            "create.parameters.workspace",
            "10000",
        ),
        ({"create": {"parameters": {"workspace": 7}}}, "create.parameters.workspace", "7"),
        ({"create": {}, "provider": "github"}, "create", "Connect"),
        ({"create": {}, "connect": {"clone_url": "https://github.com/a/b"}}, "create", "adopt"),
        ({"create": {}, "default_branch": "a..b"}, "default_branch", "branch"),
        ({"create": {}, "default_branch": "a b"}, "default_branch", "no valid name"),
        ({"create": {}, "identity": "noslash"}, "identity", "OWNER/REPO"),
        ({"create": {}, "name": " "}, "name", "printable"),
    ],
)
def test_what_cannot_be_made_is_refused_and_leaves_nothing(live, more, field, says):
    called = name()
    before = repositories(live)
    answer = live.call("POST", "/workspaces", json={"name": called, **more})
    assert answer.status_code == 400, answer.text
    assert field is None or answer.json()["field"] == field, answer.text
    assert says in answer.json()["message"]
    assert repositories(live) == before
    assert live.get("/workspaces", params={"name": called})["items"] == []
    ask(live, {"name": called})  # the name is free


def test_a_name_or_identity_that_is_taken_is_a_conflict_that_names_it(live):
    made = born(live)
    before = repositories(live)
    for body, field in (
        ({"name": made["name"].upper()}, "name"),
        ({"name": name(), "identity": made["identity"].upper()}, "identity"),
    ):
        answer = live.call("POST", "/workspaces", json={"create": {}, **body})
        assert (answer.status_code, answer.json()["field"]) == (409, field), answer.text
    assert repositories(live) == before


def test_the_same_key_gives_the_same_workspace(live):
    body = {"name": name(), "create": {"starters": ["minimal-local"]}}
    key = {"Idempotency-Key": uuid.uuid4().hex}
    first = ask(live, body, headers=key)
    assert ask(live, body, headers=key) == first
    other = live.call("POST", "/workspaces", json=body | {"watch": "all"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_MISMATCH")
    _, token = live.user(f"{name()}@example.com")
    foreign = live.call("POST", "/workspaces", json=body, headers=key, token=token)
    assert (foreign.status_code, foreign.json()["field"]) == (409, "name"), "keys are per person"
