from __future__ import annotations

import pytest

from tests.live import GOOD_MAIN, NO_GRADER, workspace_files


@pytest.fixture
def pushed(live):
    """A workspace with one published commit."""
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files())
    checkout.push("-u", "origin", "main")
    assert live.status(workspace, sha)["state"] == "published"
    return workspace, checkout, sha


def test_a_push_becomes_a_published_version_and_says_so(live):
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files(alpha=GOOD_MAIN, beta=GOOD_MAIN))
    said = checkout.push().stderr
    assert f"remote: gitsync: main {sha[:7]} published: 2 rollouts ok, 2 changed" in said
    status = live.status(workspace, sha)
    assert status["state"] == "published" and status["live"]
    assert [r["verdict"] for r in status["rollouts"]] == ["ok", "ok"]
    assert {step["step"] for step in status["trace"]} >= {"delivery", "look", "check", "publish"}


def test_a_broken_rollout_is_told_in_the_push_with_file_line_and_code(live):
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files(good=GOOD_MAIN, bad=NO_GRADER))
    said = checkout.push().stderr
    assert f"gitsync: main {sha[:7]} published-with-errors: 1 of 2 rollouts cannot run" in said
    assert "error rollouts/bad/main.py:1:1 no-grader" in said
    status = live.status(workspace, sha)
    assert status["state"] == "published_with_errors"
    verdicts = {r["name"]: r["verdict"] for r in status["rollouts"]}
    assert verdicts == {"bad": "error", "good": "ok"}


def test_one_broken_rollout_keeps_its_last_good_version(live, pushed):
    workspace, checkout, good = pushed
    bad = checkout.commit({"rollouts/demo/main.py": NO_GRADER})
    checkout.push()
    assert live.status(workspace, bad)["state"] == "published_with_errors"
    path = f"/workspaces/{workspace['id']}/resolve"
    refused = live.call("POST", path, json={"rollout": "demo"})
    assert refused.status_code == 400 and refused.json()["code"] == "ROLLOUT_INVALID"
    assert refused.json()["last_good"]["commit_sha"] == good
    assert any("no-grader" in issue["message"] for issue in refused.json()["issues"])
    substituted = live.post(path, {"rollout": "demo", "prefer": "last_good"})
    assert substituted["substituted"] and substituted["commit_sha"] == good
    pinned = live.post(path, {"rollout": "demo", "commit_sha": good[:10]})
    assert pinned["commit_sha"] == good and not pinned["substituted"]


def test_the_artifact_is_what_was_checked(live, pushed, tmp_path):
    import hashlib
    import io
    import tarfile

    workspace, _, _ = pushed
    found = live.post(f"/workspaces/{workspace['id']}/resolve", {"rollout": "demo"})
    got = live.call("GET", f"/workspaces/{workspace['id']}/artifacts/{found['digest']}.tar")
    assert hashlib.sha256(got.content).hexdigest() == found["digest"]
    assert len(got.content) == found["size"]
    assert got.headers["etag"] == f'"{found["digest"]}"'
    with tarfile.open(fileobj=io.BytesIO(got.content)) as tar:
        names = tar.getnames()
        assert names == ["rollouts/demo/main.py", "rollouts/demo/pyproject.toml"]
        assert tar.extractfile(names[0]).read().decode() == GOOD_MAIN


def test_a_deleted_branch_and_a_force_push_take_nothing_away(live, pushed):
    workspace, checkout, first = pushed
    from tests.live import git

    git(checkout.path, "checkout", "--quiet", "--orphan", "other")
    second = checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + "# other\n"}, "Unrelated")
    checkout.push("--force", "origin", "other:main")
    assert live.status(workspace, second)["state"] == "published"
    old = live.status(workspace, first)
    assert old["state"] == "published" and not old["live"] and old["superseded_by"] == second
    assert live.get(f"/workspaces/{workspace['id']}/versions/{first}")["commit_sha"] == first
    archive = live.call("GET", f"/workspaces/{workspace['id']}/versions/{first}/archive.tar.gz")
    assert archive.status_code == 200


def test_an_unknown_commit_is_unknown_and_says_what_to_do(live, pushed):
    workspace, _, _ = pushed
    status = live.status(workspace, "1" * 40, wait=1)
    assert status["state"] == "unknown" and "pushed" in status["reason"]


def test_a_rollout_without_its_training_config_gets_a_hint_from_the_service_only(live):
    workspace = live.create()
    checkout = live.checkout(workspace)
    files = workspace_files()
    del files["configs/training/demo.toml"]
    sha = checkout.commit(files)
    said = checkout.push().stderr
    assert "published: 1 rollout ok" in said and "missing-twin" not in said, "hints are not shouted"
    status = live.status(workspace, sha)
    assert status["state"] == "published"
    hints = [f for f in status["findings"] if f["code"] == "missing-twin"]
    assert len(hints) == 1 and hints[0]["severity"] == "hint"
