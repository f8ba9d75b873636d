"""A push to somebody else's Git host becomes a published version through its webhook."""

from __future__ import annotations

import time

import pytest

from tests.live import GOOD_MAIN, Checkout, git, live_server, workspace_files
from tests.web.remote import Remote, bare, deliver, push_payload

pytestmark = pytest.mark.slow  # CI and `make test-all` run it

NOBODY = "0" * 40


@pytest.fixture(scope="module")
def away(tmp_path_factory):
    """A Git host, and a gitsync that may connect to exactly it."""
    folder = tmp_path_factory.mktemp("away")
    (folder / "host").mkdir()
    with (
        Remote(folder / "host") as host,
        live_server(folder / "gitsync", allowed_hosts=(f"127.0.0.1:{host.port}",)) as live,
    ):
        live.host = host
        yield live


@pytest.fixture
def connected(away, tmp_path):
    """A workspace of the provider github that follows a new repository."""
    return connect(away, tmp_path)


@pytest.fixture(scope="module")
def steady(away, tmp_path_factory):
    """One for tests that push nothing and end nothing."""
    return connect(away, tmp_path_factory.mktemp("steady"))


def connect(away, tmp_path):
    away._count += 1
    name = f"demo-{away._count}"
    path = bare(away.host.root, f"acme/{name}.git")
    checkout = Checkout.new(tmp_path / "checkout", str(path))
    sha = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    workspace = away.post(
        "/workspaces",
        {
            "name": name,
            "provider": "github",
            "connect": {"clone_url": away.host.url_of(f"acme/{name}.git")},
        },
        status=201,
    )
    assert away.status(workspace, sha)["state"] == "published"
    return workspace, checkout, sha, f"acme/{name}"


def push(checkout: Checkout, files, message="Change") -> str:
    sha = checkout.commit(files, message)
    checkout.push("-q", "origin", "HEAD")
    return sha


def test_a_signed_delivery_publishes_the_push_and_the_log_says_so(away, connected):
    workspace, checkout, first, name = connected
    sha = push(checkout, {"rollouts/demo/main.py": GOOD_MAIN + "# two\n"})
    hook = workspace["webhook"]
    assert hook["url"].endswith(f"/hooks/github/{workspace['id']}")
    begin = time.monotonic()
    answer = deliver(hook["url"], hook["secret"], push_payload(first, sha, repository=name))
    assert answer.status_code == 202 and time.monotonic() - begin < 5
    assert answer.json()["outcome"] == "queued" and answer.json()["after_sha"] == sha
    status = away.status(workspace, sha)
    assert status["state"] == "published" and status["live"]
    assert status["trace"][0]["step"] == "delivery"
    row = away.get(f"/workspaces/{workspace['id']}/deliveries/{answer.json()['id']}")
    assert (row["outcome"], row["ref"], row["times"]) == ("published", "refs/heads/main", 1)
    assert row["settled_at"] and row["sync_id"] == status["sync_id"]
    sync = away.get(f"/workspaces/{workspace['id']}/syncs/{row['sync_id']}")
    assert (sync["trigger"], sync["outcome"], sync["status"]) == ("webhook", "published", "success")


def test_the_same_delivery_again_counts_and_looks_again(away, connected):
    workspace, checkout, first, name = connected
    hook, payload = workspace["webhook"], push_payload(first, first, repository=name)
    one = deliver(hook["url"], hook["secret"], payload, delivery_id="d-1")
    two = deliver(hook["url"], hook["secret"], payload, delivery_id="d-1")
    assert one.json()["id"] == two.json()["id"] and two.json()["times"] == 2
    row = _settled(away, workspace, one.json()["id"])
    assert row["outcome"] == "published"  # what became of the commit it names
    # the push whose own delivery was lost is found by the look of an old one
    sha = push(checkout, {"rollouts/demo/main.py": GOOD_MAIN + "# three\n"})
    assert deliver(hook["url"], hook["secret"], payload, delivery_id="d-1").status_code == 202
    assert away.status(workspace, sha)["state"] == "published"


def test_a_delivery_can_be_taken_again_from_the_log(away, connected):
    workspace, checkout, first, name = connected
    hook = workspace["webhook"]
    answer = deliver(hook["url"], hook["secret"], push_payload(NOBODY, first, repository=name))
    old = _settled(away, workspace, answer.json()["id"])
    sha = push(checkout, {"rollouts/demo/main.py": GOOD_MAIN + "# again\n"})
    path = f"/workspaces/{workspace['id']}/deliveries"
    fresh = away.post(f"{path}/{old['id']}/redeliver", status=202)
    assert fresh["redelivery_of"] == old["id"] and fresh["id"] != old["id"]
    assert away.status(workspace, sha)["state"] == "published"
    row = _settled(away, workspace, fresh["id"])  # it names the older commit
    assert row["outcome"] == "superseded" and sha in row["reason"]
    items = away.get(path)["items"]
    assert [item["id"] for item in items][:2] == [fresh["id"], old["id"]]


@pytest.mark.parametrize(
    ("event", "payload", "reason"),
    [
        ("ping", {"zen": "Anything added dilutes everything else.", "hook_id": 1}, "ping"),
        ("push", {"ref": "refs/tags/v1"}, "no branch"),
        ("push", {"ref": "refs/heads/other"}, "not watched"),
        ("pull_request", {"action": "opened"}, "pull_request"),
    ],
)
def test_what_asks_for_no_look_is_logged_with_its_reason(away, steady, event, payload, reason):
    workspace, _, first, name = steady
    hook = workspace["webhook"]
    body = push_payload(NOBODY, first, repository=name) | payload
    if event == "ping":
        del body["ref"], body["repository"]  # as for an organisation
    answer = deliver(hook["url"], hook["secret"], body, event=event)
    assert answer.status_code == 200, answer.text
    assert answer.json()["outcome"] == "ignored" and reason in answer.json()["reason"]


def test_a_rotated_secret_leaves_two_that_verify_until_the_overlap_ends(away, steady):
    workspace, _, first, name = steady
    rotate = f"/workspaces/{workspace['id']}/webhook-secret/rotate"
    url, old = workspace["webhook"]["url"], workspace["webhook"]["secret"]
    payload = push_payload(NOBODY, first, repository=name)
    new = away.post(rotate)["secret"]
    assert new != old and len(new) == 64
    assert [deliver(url, s, payload).status_code for s in (old, new)] == [202, 202]
    newer = away.post(rotate)["secret"]  # the oldest ends at once: never three
    assert [deliver(url, s, payload).status_code for s in (old, new, newer)] == [401, 202, 202]
    newest = away.post(rotate, {"overlap_s": 0})["secret"]
    codes = [deliver(url, s, payload).status_code for s in (old, new, newer, newest)]
    assert codes == [401, 401, 401, 202]
    workspace["webhook"]["secret"] = newest  # for the other tests


def test_a_renamed_repository_is_known_by_its_number(away, steady):
    workspace, _, first, name = steady
    hook = workspace["webhook"]
    payload = push_payload(NOBODY, first, repository=name, number=99)
    assert deliver(hook["url"], hook["secret"], payload).status_code == 202
    renamed = push_payload(NOBODY, first, repository="acme/renamed", number=99)
    assert deliver(hook["url"], hook["secret"], renamed).status_code == 202
    foreign = push_payload(NOBODY, first, repository="acme/renamed", number=100)
    answer = deliver(hook["url"], hook["secret"], foreign)
    assert (answer.status_code, answer.json()["code"]) == (404, "FOREIGN_REPOSITORY")


@pytest.mark.slow
def test_a_suspended_workspace_takes_deliveries_and_does_nothing(away, connected):
    workspace, checkout, first, name = connected
    hook, path = workspace["webhook"], f"/workspaces/{workspace['id']}"
    away.post(f"{path}/suspend")
    sha = push(checkout, {"rollouts/demo/main.py": GOOD_MAIN + "# later\n"})
    answer = deliver(hook["url"], hook["secret"], push_payload(first, sha, repository=name))
    assert answer.status_code == 200 and "suspended" in answer.json()["reason"]
    again = away.call("POST", f"{path}/deliveries/{answer.json()['id']}/redeliver")
    assert again.status_code == 409 and again.json()["state"] == "suspended"
    assert away.call("POST", f"{path}/sync").status_code == 409
    away.post(f"{path}/resume")
    assert away.status(workspace, sha)["state"] == "published"


@pytest.mark.slow
def test_a_disconnected_workspace_forgets_its_secret_and_keeps_its_versions(away, connected):
    workspace, _, first, name = connected
    hook, path = workspace["webhook"], f"/workspaces/{workspace['id']}"
    away.post(f"{path}/disconnect")
    payload = push_payload(NOBODY, first, repository=name)
    assert deliver(hook["url"], hook["secret"], payload).status_code == 401
    assert away.get(f"{path}/versions/{first}")["commit_sha"] == first
    assert away.post(f"{path}/resolve", {"rollout": "demo"})["commit_sha"] == first
    assert away.call("POST", f"{path}/resume").status_code == 409


def test_a_deleted_branch_is_told_by_the_delivery_and_nothing_is_lost(away, connected):
    workspace, checkout, first, name = connected
    hook, path = workspace["webhook"], f"/workspaces/{workspace['id']}"
    git(checkout.path, "push", "-q", "origin", "HEAD:refs/heads/keep")
    git(checkout.path, "--git-dir", checkout.url, "symbolic-ref", "HEAD", "refs/heads/keep")
    git(checkout.path, "push", "-q", "origin", ":refs/heads/main")
    answer = deliver(hook["url"], hook["secret"], push_payload(first, NOBODY, repository=name))
    assert answer.status_code == 202
    row = _settled(away, workspace, answer.json()["id"])
    assert row["outcome"] == "branch_gone"
    assert away.get(path)["default_branch"] == "keep"
    assert away.get(f"{path}/versions/{first}")["commit_sha"] == first


def _settled(away, workspace, row_id):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        row = away.get(f"/workspaces/{workspace['id']}/deliveries/{row_id}")
        if row["settled_at"] is not None:
            return row
        time.sleep(0.05)
    raise AssertionError(f"not settled: {row}")
