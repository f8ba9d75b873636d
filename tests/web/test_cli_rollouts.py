"""`osmosis rollout list` and what names a workspace: identities, aliases, states."""

from __future__ import annotations

import pytest

from gitsync.store import identities
from tests.cli.kit import gitsync
from tests.live import EVAL, GOOD_MAIN, workspace_files
from tests.web.conftest import publish_two


def listed(live, identity: str, query: str = "", status: int = 200, token: str | None = None):
    headers = {"X-Osmosis-Git": identity.lower()}
    answer = live.call("GET", f"//api/cli/rollouts{query}", headers=headers, token=token)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def own(live):
    """A workspace that these tests may change."""
    return publish_two(live)


def test_a_rollout_that_cannot_run_says_why_and_what_was_good(live, published):
    found = listed(live, published.workspace["identity"])
    alpha, beta = found["rollouts"]
    assert (found["total_count"], found["has_more"], found["next_offset"]) == (2, False, None)
    assert alpha["description"] is None and "last_good" not in alpha
    assert alpha["last_synced_commit_sha"] == published.bad
    assert beta["description"] == (
        f"INVALID at {published.bad[:7]}: no-grader rollouts/beta/main.py:1; "
        f"last good {published.good[:7]}"
    )
    assert beta["last_good"]["commit_sha"] == published.good
    assert beta["created_at"] < beta["last_synced_at"]
    assert alpha["id"] != beta["id"] and alpha["repo_full_name"] == published.workspace["identity"]


def test_a_branch_shows_its_own_rollouts_and_unknown_ones_none(live, own):
    assert live.call("PATCH", own.path, json={"watch": "all"}).status_code == 200
    sha = own.checkout.commit({"rollouts/beta/main.py": GOOD_MAIN}, "Repair")
    own.checkout.push("-q", "origin", "HEAD:repair")
    assert live.status(own.workspace, sha)["state"] == "published"
    identity = own.workspace["identity"]
    there = listed(live, identity, "?branch=repair")["rollouts"]
    here = listed(live, identity, "?branch=main")["rollouts"]
    assert [r["description"] for r in there] == [None, None]
    assert {r["last_synced_commit_sha"] for r in there} == {sha}
    assert {r["id"] for r in there} == {r["id"] for r in here}
    assert listed(live, identity)["rollouts"] == here
    for unknown in ("none", "refs/heads/main", "repai"):
        code = listed(live, identity, f"?branch={unknown}", status=404)["code"]
        assert code == "BRANCH_NOT_FOUND", unknown
    for odd in ("", "main%20", "a%0Ab"):
        assert listed(live, identity, f"?branch={odd}", status=400)["field"] == "branch", odd


def test_a_list_is_read_in_pieces(live, published):
    identity = published.workspace["identity"]
    first = listed(live, identity, "?limit=1")
    assert (first["has_more"], first["next_offset"]) == (True, 1)
    rest = listed(live, identity, f"?limit=1&offset={first['next_offset']}")
    assert (rest["has_more"], rest["next_offset"]) == (False, None)
    assert [r["name"] for r in (*first["rollouts"], *rest["rollouts"])] == ["alpha", "beta"]
    assert listed(live, identity, "?offset=999999999")["rollouts"] == []
    for bad in ("limit=0", "limit=51", "limit=x", "limit=", "offset=-1", "offset=1e3", "limit=٣"):
        assert listed(live, identity, f"?{bad}", status=400)["code"] == "INVALID_PAGINATION", bad


def test_an_empty_workspace_lists_nothing(live):
    workspace = live.create()
    assert listed(live, workspace["identity"])["rollouts"] == []
    assert listed(live, workspace["identity"], "?branch=main", status=404)


def test_a_config_without_its_rollout_lists_none(live):
    workspace = live.create()
    checkout = live.checkout(workspace)
    files = workspace_files(alpha=GOOD_MAIN) | {
        "configs/eval/ghost.toml": EVAL.format(name="ghost")
    }
    sha = checkout.commit(files, "A config for nothing")
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha)
    assert [r["name"] for r in listed(live, workspace["identity"])["rollouts"]] == ["alpha"]


def test_a_workspace_that_is_not_followed_goes_on_listing(live):
    own = publish_two(live)
    identity = own.workspace["identity"]
    before = listed(live, identity)
    live.post(f"{own.path}/suspend")
    assert listed(live, identity) == before
    live.post(f"{own.path}/disconnect")
    assert listed(live, identity) == before
    me = live.call("GET", "//api/cli/verify", headers={"X-Osmosis-Git": identity}).json()
    assert me["workspace"]["id"] == own.workspace["id"]
    progress = live.call("GET", f"//api/cli/quickstart?organizationId={own.workspace['id']}")
    assert progress.json()["repo"] == {"connected": False, "full_name": None}


def test_the_list_of_workspaces_tells_what_is_connected(live):
    live._count += 1
    _, token = live.user(f"lena-{live._count}@example.com")
    one, two = (
        live.post("/workspaces", {"name": f"lena {n} {live._count}"}, token=token) for n in "ab"
    )
    live.post(f"/workspaces/{two['id']}/disconnect", token=token)
    found = live.call("GET", "//api/cli/workspaces", token=token).json()["workspaces"]
    assert {w["id"]: w["connected_repo"] for w in found} == {
        one["id"]: {"repo_full_name": one["identity"]},
        two["id"]: None,
    }


# -- identities -----------------------------------------------------------------------------------


def change(live, workspace, identity: str, status: int = 200):
    answer = live.call("PATCH", f"/workspaces/{workspace['id']}", json={"identity": identity})
    assert answer.status_code == status, answer.text
    return answer.json()


def release(live, workspace, identity: str) -> int:
    return live.call("DELETE", f"/workspaces/{workspace['id']}/aliases/{identity}").status_code


def test_an_old_identity_works_until_it_is_released(live, own):
    old, new = own.workspace["identity"], f"moved-{live._count}--local/Rollouts"
    before = listed(live, old)["rollouts"]
    changed = change(live, own.workspace, new)
    assert (changed["identity"], changed["aliases"], changed["warnings"]) == (new, [old], [])
    for name in (old, new, new.upper().lower()):
        assert {r["id"] for r in listed(live, name)["rollouts"]} == {r["id"] for r in before}
    assert listed(live, old)["rollouts"][0]["repo_full_name"] == new
    own.checkout.commit({"note.txt": "through the old URL\n"}, "Note")
    own.checkout.push("-q", "origin", "HEAD:old-url")
    taken = live.call("POST", "/workspaces", json={"name": "thief", "identity": old.upper()})
    assert (taken.status_code, taken.json()["field"]) == (409, "identity")
    other = live.create()
    assert change(live, other, old, status=409)["code"] == "CONFLICT"
    assert release(live, own.workspace, new) == 409  # it is in use
    assert release(live, other, old) == 404
    assert release(live, own.workspace, old.upper()) == 204
    assert listed(live, old, status=403)["code"] == "GIT_SCOPE_HEADER_ACCESS_DENIED"
    assert change(live, other, old)["identity"] == old  # now it belongs to another one
    assert listed(live, old)["rollouts"] == []
    assert change(live, own.workspace, old, status=409)


def test_the_commands_change_and_release_an_identity(live, tmp_path):
    def run(*args: str):
        env = {"GITSYNC_SERVER": live.url, "GITSYNC_TOKEN": live.token}
        return gitsync("workspace", *args, cwd=tmp_path, env=env)

    workspace = live.create()
    old, new = workspace["identity"], f"cmd-{live._count}/r"
    renamed = run("rename", workspace["id"], "--identity", new)
    assert renamed.code == 0 and "GitHub" in renamed.err
    assert old in run("show", old).out
    assert run("release", workspace["id"], old).code != 0  # not without being sure
    assert run("release", workspace["id"], old, "--yes").out == f"{old} is released.\n"
    assert run("show", old).code != 0


def test_a_workspace_takes_its_own_alias_back(live):
    workspace = live.create()
    first, second = workspace["identity"], f"second-{live._count}--local/r"
    assert change(live, workspace, second)["aliases"] == [first]
    assert change(live, workspace, first)["aliases"] == [second]
    other_case = first.replace("rollouts", "Rollouts")
    assert change(live, workspace, other_case)["identity"] == other_case
    assert live.get(f"/workspaces/{workspace['id']}")["aliases"] == [second]


def test_an_identity_that_may_be_a_strangers_is_warned_about(live):
    workspace = live.create()
    (warning,) = change(live, workspace, f"acme-{live._count}/rollouts")["warnings"]
    assert "GitHub" in warning and "`--`" in warning


def test_nobody_hoards_identities(live, monkeypatch):
    monkeypatch.setattr(identities, "MOST", 3)
    workspace = live.create()
    for n in range(2):
        change(live, workspace, f"hoard-{live._count}--local/r{n}")
    refused = change(live, workspace, f"hoard-{live._count}--local/r2", status=409)
    assert "Release one" in refused["message"]


def test_a_deleted_workspace_leaves_its_identities_free(live):
    workspace = live.create()
    old, new = workspace["identity"], f"gone-{live._count}--local/r"
    change(live, workspace, new)
    live.post(f"/workspaces/{workspace['id']}/disconnect")
    assert live.call("DELETE", f"/workspaces/{workspace['id']}").status_code == 204
    for n, identity in enumerate((old, new)):
        live.create(f"heir-{n}-{live._count}", identity=identity)
