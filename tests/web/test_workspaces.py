"""Workspaces: made, changed, suspended, ended."""

from __future__ import annotations

import threading
import uuid

import pytest

from tests.live import GOOD_MAIN, git, workspace_files


def name() -> str:
    return f"n-{uuid.uuid4().hex[:10]}"


# -- making ---------------------------------------------------------------------------------------


def test_a_new_workspace_can_be_cloned_and_shows_its_webhook_secret_once(live):
    made = live.create("Chess Team 7")
    assert made["identity"] == "chess-team-7--local/rollouts"
    assert made["clone_url"] == f"{live.url}/git/chess-team-7--local/rollouts.git"
    assert len(made["webhook"]["secret"]) == 64 and made["warnings"] == []
    assert (made["provider"], made["state"], made["watch"]) == ("embedded", "active", "default")
    shown = live.get(f"/workspaces/{made['id']}")
    assert "secret" not in shown["webhook"] and shown["webhook"]["url"] == made["webhook"]["url"]
    assert "sync_id" not in shown and shown["branches"] == []


def test_an_identity_that_may_be_somebody_elses_is_warned_of(live):
    made = live.create(name(), identity=f"{name()}/repo")
    assert "may be somebody's repository" in made["warnings"][0]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "   "}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "a\u202eb"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": "{n}", "identity": "noslash"}, "identity"),
        ({"name": "{n}", "identity": "a/b/c"}, "identity"),
        ({"name": "{n}", "identity": "a/.."}, "identity"),
        ({"name": "{n}", "identity": "a/" + "b" * 160}, "identity"),
        ({"name": "{n}", "provider": "gitlab"}, "provider"),
        ({"name": "{n}", "provider": "github"}, "connect.clone_url"),
        ({"name": "{n}", "watch": "some"}, "watch"),
        ({"name": "{n}", "default_branch": "a b"}, "default_branch"),
        *(
            ({"name": "{n}", "default_branch": bad}, "default_branch")
            for bad in ("bad..name", "a~1", "a/", ".a", "a.lock", "a@{1}", "refs/heads/", "a\\b")
        ),
        ({"name": "{n}", "connect": {"clone_url": "https://github.com/a/b"}}, "connect"),
    ],
)
def test_a_workspace_that_cannot_be_is_refused(live, body, field):
    body = body | {"name": body["name"].format(n=name())}
    answer = live.call("POST", "/workspaces", json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field), answer.text


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "file:///etc",
        "git://example.com/a.git",
        "ext::sh -c touch",
        "https://user:hunter2@example.com/a.git",
        "https://example.com/a.git?x=1",
        "-oProxyCommand=x",
        "ssh://-oProxyCommand=x/a",
        "https://exa mple.com/a",
    ],
)
def test_a_clone_url_that_cannot_be_is_refused_and_never_repeated(live, url):
    body = {"name": name(), "provider": "generic", "connect": {"clone_url": url}}
    answer = live.call("POST", "/workspaces", json=body)
    assert answer.status_code == 400, answer.text
    assert "hunter2" not in answer.text


def test_a_github_url_gives_the_identity(live):
    owner = name()
    made = live.post(
        "/workspaces",
        {
            "name": name(),
            "provider": "github",
            "connect": {"clone_url": f"https://github.com/{owner}/Rollouts.git"},
        },
        status=201,
    )
    assert made["identity"] == f"{owner}/Rollouts"
    assert made["webhook"]["url"] == f"{live.url}/hooks/github/{made['id']}"
    live.post(f"/workspaces/{made['id']}/disconnect")


def test_names_and_identities_are_unique_whatever_their_case(live):
    first = name()
    live.create(first, identity=f"{first}--x/Rollouts")
    for body, field in (
        ({"name": first.upper()}, "name"),
        ({"name": name(), "identity": f"{first.upper()}--X/rollouts"}, "identity"),
    ):
        answer = live.call("POST", "/workspaces", json=body)
        assert (answer.status_code, answer.json()["field"]) == (409, field)


def test_two_who_want_the_same_name_at_once(live):
    wanted, codes = name(), []

    def ask():
        codes.append(live.call("POST", "/workspaces", json={"name": wanted}).status_code)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(codes) == [201] + [409] * 5


# -- changing -------------------------------------------------------------------------------------


def test_name_and_identity_can_be_changed_and_conflicts_are_told(live):
    one, two = live.create(), live.create()
    path = f"/workspaces/{one['id']}"
    fresh = name()
    changed = live.call(
        "PATCH", path, json={"name": fresh.upper(), "identity": f"{fresh}--l/Repo"}
    ).json()
    assert (changed["name"], changed["identity"]) == (fresh.upper(), f"{fresh}--l/Repo")
    again = live.call("PATCH", path, json={"name": fresh, "identity": f"{fresh}--L/repo"})
    assert again.status_code == 200  # only the case changed
    for body in ({"identity": two["identity"].upper()}, {"name": two["name"].upper()}):
        refused = live.call("PATCH", path, json=body)
        assert (refused.status_code, refused.json()["field"]) == (409, next(iter(body)))
    for body in ({"identity": "x"}, {"name": ""}, {"watch": "x"}, {"colour": "red"}):
        assert live.call("PATCH", path, json=body).status_code == 400, body
    assert live.call("PATCH", path, json={}).status_code == 200


def test_watching_all_branches_publishes_those_that_are_there(live):
    workspace = live.create()
    checkout, path = live.checkout(workspace), f"/workspaces/{workspace['id']}"
    one = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, one)["state"] == "published"
    git(checkout.path, "checkout", "-q", "-b", "side/branch")
    two = checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + "# side\n"})
    checkout.push("-q", "origin", "side/branch")
    assert live.status(workspace, two, wait=1)["state"] != "published"
    assert live.call("PATCH", path, json={"watch": "all"}).json()["watch"] == "all"
    assert live.status(workspace, two)["state"] == "published"
    names = {b["name"]: b["published_sha"] for b in live.get(path)["branches"]}
    assert names == {"main": one, "side/branch": two}
    found = live.post(f"{path}/resolve", {"rollout": "demo", "branch": "side/branch"})
    assert (found["commit_sha"], found["branch"]) == (two, "side/branch")
    assert live.post(f"{path}/resolve", {"rollout": "demo"})["commit_sha"] == one


def test_another_default_branch_is_served_and_can_be_undone(live):
    workspace = live.create()
    checkout, path = live.checkout(workspace), f"/workspaces/{workspace['id']}"
    one = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, one)["state"] == "published"
    git(checkout.path, "checkout", "-q", "-b", "next")
    two = checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + "# next\n"})
    checkout.push("-q", "origin", "next")
    changed = live.call("PATCH", path, json={"default_branch": "next"}).json()
    assert changed["chosen_branch"] == "next"
    assert live.status(workspace, two)["state"] == "published"
    assert live.post(f"{path}/resolve", {"rollout": "demo"})["commit_sha"] == two
    assert live.call("PATCH", path, json={"default_branch": None}).json()["chosen_branch"] is None
    sync = live.post(f"{path}/sync")["sync_id"]
    live.get(f"{path}/syncs/{sync}", params={"wait": 20})
    assert live.post(f"{path}/resolve", {"rollout": "demo"})["commit_sha"] == one
    assert live.get(f"{path}/versions/{two}")["commit_sha"] == two


# -- ending ---------------------------------------------------------------------------------------


def test_a_suspended_workspace_serves_refuses_pushes_and_catches_up(live):
    workspace = live.create()
    checkout, path = live.checkout(workspace), f"/workspaces/{workspace['id']}"
    one = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, one)["state"] == "published"
    assert live.post(f"{path}/suspend")["state"] == "suspended"
    assert live.post(f"{path}/suspend")["state"] == "suspended"  # again changes nothing
    two = checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + "# two\n"})
    assert checkout.push("origin", "main", check=False).returncode != 0
    assert git(checkout.path, "fetch", "origin").returncode == 0
    assert live.post(f"{path}/resolve", {"rollout": "demo"})["commit_sha"] == one
    refused = live.call("POST", f"{path}/sync")
    assert (refused.status_code, refused.json()["state"]) == (409, "suspended")
    status = live.status(workspace, two, wait=0.5)
    assert status["state"] == "unknown" and "suspended" in status["reason"]
    assert live.post(f"{path}/resume")["state"] == "active"
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, two)["state"] == "published"


def test_a_workspace_is_disconnected_before_it_is_deleted(live):
    workspace = live.create()
    checkout, path = live.checkout(workspace), f"/workspaces/{workspace['id']}"
    sha = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, sha)["state"] == "published"
    early = live.call("DELETE", path)
    assert early.status_code == 409 and "Disconnect" in early.json()["message"]
    assert live.post(f"{path}/disconnect")["state"] == "disconnected"
    for method, place in (
        ("POST", "/resume"),
        ("POST", "/suspend"),
        ("POST", "/sync"),
        ("POST", "/webhook-secret/rotate"),
    ):
        refused = live.call(method, path + place)
        assert refused.status_code == 409, place
    assert live.get(f"{path}/versions/{sha}")["commit_sha"] == sha
    repo = live.data_dir / "repos" / f"{workspace['id']}.git"
    assert repo.exists()
    assert live.call("DELETE", path).status_code == 204
    assert live.call("GET", path).status_code == 404
    assert live.call("DELETE", path).status_code == 404
    assert not repo.exists()
    left = [p for p in (live.data_dir / "artifacts").rglob("*") if workspace["id"] in str(p)]
    assert not [p for p in left if p.is_file()]
    again = live.create(workspace["name"])  # the name is free again
    assert again["id"] != workspace["id"]


def test_secrets_of_a_hook_rotate_with_an_overlap_of_a_day_by_default(live):
    from gitsync import connect

    workspace = live.create()
    path = f"/workspaces/{workspace['id']}/webhook-secret/rotate"
    new = live.post(path)
    assert new["url"] == workspace["webhook"]["url"]
    found = connect.webhook_secrets_of(live.running.instance, workspace["id"])
    assert found == [new["secret"], workspace["webhook"]["secret"]]
    for overlap in (-1, 31 * 86400, "x", 1e400):
        content = f'{{"overlap_s": {overlap}}}' if overlap != "x" else '{"overlap_s": "x"}'
        answer = live.call(
            "POST", path, content=content, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 400, overlap
    data = b"".join(p.read_bytes() for p in live.data_dir.glob("gitsync.db*"))
    assert new["secret"].encode() not in data  # sealed at rest
