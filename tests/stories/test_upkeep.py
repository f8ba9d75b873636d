"""What keeps an old instance healthy, and never removes what somebody uses."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gitsync import upkeep
from gitsync.artifacts.bucket import artifact_key
from tests.live import GOOD_MAIN, git, live_server, workspace_files

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with live_server(tmp_path_factory.mktemp("upkeep"), keep_versions_days=30) as live:
        yield live


@pytest.fixture
def history(server):
    """Three versions; the last one is served, all have artifacts of their own."""
    workspace = server.create()
    checkout = server.checkout(workspace)
    checkout.commit(workspace_files())
    shas = []
    for number in range(3):
        code = GOOD_MAIN + f"# {workspace['id']} {number}\n"  # artifacts of this test alone
        shas.append(checkout.commit({"rollouts/demo/main.py": code}))
        checkout.push()
        assert server.status(workspace, shas[-1])["state"] == "published"
    return workspace, checkout, shas


def later(server, **delta):
    """The instance as it will be: only its clock differs."""
    instance = server.running.instance
    return replace(instance, now=lambda: instance.now() + timedelta(**delta))


def artifact(server, workspace, sha):
    manifest = server.get(f"/workspaces/{workspace['id']}/versions/{sha}")
    return manifest["rollouts"][0]["digest"]


def fetch(server, workspace, digest):
    return server.call("GET", f"/workspaces/{workspace['id']}/artifacts/{digest}.tar")


def test_only_versions_that_nothing_refers_to_are_retired(server, history):
    workspace, _, (old, pinned, tip) = history
    server.call(
        "PUT", f"/workspaces/{workspace['id']}/versions/{pinned}/pins/paper", json={"reason": "x"}
    )
    digests = [artifact(server, workspace, sha) for sha in (old, pinned, tip)]
    assert upkeep.retire_versions(later(server, days=29)) == 0
    assert upkeep.retire_versions(later(server, days=31)) >= 1
    assert upkeep.sweep_artifacts(later(server, hours=1)) == 0, "it may belong to a running publish"
    assert upkeep.sweep_artifacts(later(server, days=2)) >= 1
    assert fetch(server, workspace, digests[0]).status_code == 404
    assert fetch(server, workspace, digests[1]).status_code == 200
    assert fetch(server, workspace, digests[2]).status_code == 200
    gone = server.call("GET", f"/workspaces/{workspace['id']}/versions/{old}")
    assert gone.status_code == 404


def test_a_swept_artifact_is_built_again_when_its_content_comes_back(server, history):
    workspace, checkout, (old, _, _) = history
    upkeep.retire_versions(later(server, days=31))
    upkeep.sweep_artifacts(later(server, days=2))
    git(checkout.path, "checkout", "--quiet", old, "--", "rollouts")
    sha = checkout.commit({}, "Back to the old code")
    checkout.push()
    assert server.status(workspace, sha)["state"] == "published"
    assert fetch(server, workspace, artifact(server, workspace, sha)).status_code == 200


@pytest.mark.parametrize("harm", ["flip", "cut", "delete"])
def test_a_damaged_artifact_is_found_and_rebuilt_byte_for_byte(server, history, harm):
    workspace, _, shas = history
    digest = artifact(server, workspace, shas[0])
    good = fetch(server, workspace, digest).content
    path = Path(server.running.instance.settings.artifact_url) / artifact_key(digest)
    data = bytearray(path.read_bytes())
    if harm == "flip":
        data[700] ^= 1
        path.write_bytes(data)
    elif harm == "cut":
        path.write_bytes(data[:1000])
    else:
        path.unlink()
    assert upkeep.scrub(later(server, days=31), limit=1000) == [digest]
    assert fetch(server, workspace, digest).content == good
    assert upkeep.scrub(later(server, days=31), limit=1000) == []


def test_a_lost_repository_comes_back_from_its_packs(server, history):
    workspace, checkout, shas = history
    instance = server.running.instance
    path = instance.repository_of(workspace["id"], is_embedded=True)
    before = [
        server.call("GET", f"/workspaces/{workspace['id']}/versions/{sha}/archive.tar.gz").content
        for sha in shas
    ]
    shutil.rmtree(path)
    after = [
        server.call("GET", f"/workspaces/{workspace['id']}/versions/{sha}/archive.tar.gz").content
        for sha in shas
    ]
    assert after == before
    fresh = checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + "# after the loss\n"})
    checkout.push()
    assert server.status(workspace, fresh)["state"] == "published"
    assert git(checkout.path, "ls-remote", "origin", "main").stdout.startswith(fresh)


def test_repacking_keeps_versions_of_dropped_history(server, history):
    workspace, checkout, shas = history
    git(checkout.path, "checkout", "--quiet", "--orphan", "fresh")
    tip = checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + "# new history\n"})
    checkout.push("--force", "origin", "fresh:main")
    assert server.status(workspace, tip)["state"] == "published"
    instance = server.running.instance
    path = instance.repository_of(workspace["id"], is_embedded=True)
    assert upkeep.repack(instance, over=0) >= 1
    git(path, "gc", "--quiet", "--prune=now")
    for sha in shas:
        answer = server.call("GET", f"/workspaces/{workspace['id']}/versions/{sha}/archive.tar.gz")
        assert answer.status_code == 200


def test_a_changed_checker_assesses_served_versions_anew(server, history, monkeypatch):
    workspace, _, shas = history
    monkeypatch.setattr(upkeep, "fingerprint", lambda: "another")
    from gitsync.sync import prepare

    monkeypatch.setattr(prepare, "fingerprint", lambda: "another")
    digest = artifact(server, workspace, shas[-1])
    assert upkeep.reassess(server.running.instance) >= 1
    assert upkeep.reassess(server.running.instance) == 0
    assert artifact(server, workspace, shas[-1]) == digest


def test_old_rows_are_forgotten(server, history):
    found = upkeep.forget_old_rows(later(server, days=40))
    assert found["deliveries"] >= 3 and found["events"] >= 3
