"""Trying a remote out, and credentials: sealed, referred to, replaced."""

from __future__ import annotations

import pytest

from tests.live import GOOD_MAIN, Checkout, live_server, workspace_files
from tests.web.remote import Remote, bare

WHO = ("robin", "canary-7f3a-password")


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """A host that asks for a password."""
    root = tmp_path_factory.mktemp("host")
    with Remote(root, auth=WHO) as found:
        yield found


@pytest.fixture(scope="module")
def away(tmp_path_factory, host):
    folder = tmp_path_factory.mktemp("away")
    secrets = folder / "secrets"
    secrets.mkdir()
    with live_server(
        folder, allowed_hosts=(f"127.0.0.1:{host.port}",), credential_dirs=(str(secrets),)
    ) as live:
        live.secrets = secrets
        yield live


@pytest.fixture
def repository(host, tmp_path, request):
    name = f"r{abs(hash(request.node.name)) % 10**9}.git"
    checkout = Checkout.new(tmp_path / "checkout", str(bare(host.root, name)))
    sha = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    return name, checkout, sha


PASSWORD = {"kind": "password", "username": WHO[0], "secret": WHO[1]}


def trial(live, url, credential=None):
    body = {"clone_url": url} | ({"credential": credential} if credential else {})
    found = live.post("/workspaces/test", body)
    return {step["name"]: step for step in found["steps"]}, found


def test_each_step_is_told_by_itself(away, host, repository):
    name, _, _ = repository
    steps, found = trial(away, host.url_of(name), PASSWORD)
    assert list(steps) == ["policy", "dns", "tcp", "authentication", "ref"]
    assert all(step["ok"] for step in steps.values()), steps
    assert found["default_branch"] == "main" and "main" in steps["ref"]["message"]
    assert WHO[1] not in str(found)


def test_a_wrong_password_fails_at_authentication(away, host, repository):
    steps, found = trial(away, host.url_of(repository[0]), PASSWORD | {"secret": "wrong-one"})
    assert list(steps) == ["policy", "dns", "tcp", "authentication"]
    assert not steps["authentication"]["ok"] and "wrong-one" not in str(found)
    steps, _ = trial(away, host.url_of(repository[0]))
    assert not steps["authentication"]["ok"]


@pytest.mark.parametrize(
    ("url", "step", "setting"),
    [
        ("http://127.0.0.1:9/x.git", "policy", "GITSYNC_ALLOWED_HOSTS"),
        ("http://localhost/x.git", "policy", "GITSYNC_ALLOWED_HOSTS"),
        ("http://169.254.169.254/latest.git", "policy", "GITSYNC_ALLOWED_HOSTS"),
        ("http://[::1]/x.git", "policy", "GITSYNC_ALLOWED_HOSTS"),
        ("ssh://git@10.0.0.1/x.git", "policy", "GITSYNC_ALLOWED_HOSTS"),
        ("http://no-such-host.invalid/x.git", "dns", None),
    ],
)
def test_a_refusal_names_the_step_and_the_setting(away, url, step, setting):
    steps, _ = trial(away, url)
    assert list(steps)[-1] == step and not steps[step]["ok"]
    if setting:
        assert setting in steps[step]["message"]


def test_a_port_where_nobody_listens_fails_at_tcp(tmp_path):
    with live_server(tmp_path, allowed_hosts=("127.0.0.1:9",)) as live:
        steps, _ = trial(live, "http://127.0.0.1:9/x.git")
        assert list(steps) == ["policy", "dns", "tcp"] and not steps["tcp"]["ok"]
        steps, _ = trial(live, "https://127.0.0.1:9/x.git")
        assert list(steps) == ["policy", "dns", "tcp"]


@pytest.mark.slow  # the time-out of a connection
def test_a_host_without_tls_fails_at_tls(away, host):
    steps, _ = trial(away, host.url_of("x.git").replace("http://", "https://"))
    assert list(steps) == ["policy", "dns", "tcp", "tls"] and not steps["tls"]["ok"]


def test_an_empty_repository_says_so(away, host):
    bare(host.root, "empty.git")
    steps, found = trial(away, host.url_of("empty.git"), PASSWORD)
    assert steps["ref"]["ok"] and "no commit" in steps["ref"]["message"]
    assert found["default_branch"] is None


def test_a_missing_repository_fails(away, host):
    steps, _ = trial(away, host.url_of("nowhere.git"), PASSWORD)
    assert not steps["authentication"]["ok"]


def connect(live, host, name, credential, **more):
    return live.call(
        "POST",
        "/workspaces",
        json={
            "name": name,
            "provider": "generic",
            "connect": {"clone_url": host.url_of(name), "credential": credential},
            **more,
        },
    )


def test_a_stored_credential_syncs_is_tried_and_is_sealed(away, host, repository):
    name, _, sha = repository
    made = connect(away, host, name, PASSWORD)
    assert made.status_code == 201 and WHO[1] not in made.text
    workspace = made.json()
    assert away.status(workspace, sha)["state"] == "published"
    tried = away.post(f"/workspaces/{workspace['id']}/test")
    assert [step["ok"] for step in tried["steps"]] == [True] * 5
    assert WHO[1] not in str(away.get(f"/workspaces/{workspace['id']}"))
    data = b"".join(p.read_bytes() for p in away.data_dir.glob("gitsync.db*"))
    assert WHO[1].encode() not in data


def test_a_refused_credential_stops_the_looks_until_it_is_replaced(away, host, repository):
    name, _, sha = repository
    workspace = connect(away, host, name, PASSWORD | {"secret": "old-one"}).json()
    path = f"/workspaces/{workspace['id']}"
    sync = away.get(f"{path}/syncs/{workspace['sync_id']}", params={"wait": 30})
    assert sync["outcome"] == "error" and sync["error"]["code"] == "AUTHENTICATION_FAILED"
    assert sync["error"]["transient"] is False and "old-one" not in str(sync)
    shown = away.get(path)
    assert shown["last_error"]["code"] == "AUTHENTICATION_FAILED" and shown["not_before"]
    put = away.call("PUT", f"{path}/credential", json=PASSWORD)
    assert put.status_code == 200 and put.json() == {"public_key": None}
    assert away.status(workspace, sha)["state"] == "published"
    assert away.get(path)["last_error"] is None


def test_a_credential_in_a_file_is_read_at_each_use(away, host, repository):
    name, checkout, sha = repository
    file = away.secrets / f"{name}.txt"
    file.write_text(WHO[1] + "\n")
    given = {"kind": "password", "username": WHO[0], "path": str(file)}
    workspace = connect(away, host, name, given).json()
    path = f"/workspaces/{workspace['id']}"
    assert away.status(workspace, sha)["state"] == "published"
    file.write_text("changed-meanwhile\n")
    sync = away.post(f"{path}/sync")["sync_id"]
    failed = away.get(f"{path}/syncs/{sync}", params={"wait": 30})
    assert failed["error"]["code"] == "AUTHENTICATION_FAILED"
    file.unlink()
    sync = away.post(f"{path}/sync")["sync_id"]
    failed = away.get(f"{path}/syncs/{sync}", params={"wait": 30})
    assert failed["error"]["code"] == "CREDENTIAL_UNREADABLE"
    assert away.call("POST", f"{path}/test").status_code == 400
    file.write_text(WHO[1])
    new = checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + "# new\n"})
    checkout.push("-q", "origin", "main")
    away.post(f"{path}/sync")
    assert away.status(workspace, new)["state"] == "published"


@pytest.mark.parametrize("place", ["/etc/passwd", "{secrets}/../gitsync.db", "relative", "{link}"])
def test_a_file_outside_the_allowed_folders_is_refused(away, host, place):
    link = away.secrets / "link"
    if not link.is_symlink():
        link.symlink_to("/etc/passwd")
    given = {"kind": "token", "path": place.format(secrets=away.secrets, link=link)}
    for answer in (
        connect(away, host, "elsewhere.git", given),
        away.call(
            "POST",
            "/workspaces/test",
            json={"clone_url": host.url_of("x.git"), "credential": given},
        ),
    ):
        assert answer.status_code == 400, answer.text
        assert answer.json()["code"] == "CREDENTIAL_UNREADABLE"
        assert "GITSYNC_CREDENTIAL_DIRS" in answer.json()["message"]
        assert "root:" not in answer.text


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "token"},
        {"kind": "token", "secret": "a", "path": "/x"},
        {"kind": "password", "secret": "a"},
        {"kind": "password", "username": "a:b", "secret": "a"},
        {"kind": "token", "secret": "line\nbreak"},
        {"kind": "ssh", "secret": "no key"},
        {"kind": "token", "generate_key": True},
        {"kind": "ssh", "generate_key": True, "secret": "x"},
        {"kind": "other", "secret": "x"},
        {"kind": "token", "secret": "x" * 70_000},
    ],
)
def test_a_credential_that_makes_no_sense_is_refused(away, host, given):
    answer = connect(away, host, "none.git", given)
    assert answer.status_code == 400, answer.text


def test_a_generated_key_shows_only_its_public_half(away):
    body = {
        "name": "with a key",
        "provider": "generic",
        "connect": {
            "clone_url": "ssh://git@127.0.0.1:1/x.git",
            "credential": {"kind": "ssh", "generate_key": True},
        },
    }
    made = away.post("/workspaces", body, status=201)
    assert made["public_key"].startswith("ssh-ed25519 AAAA")
    path = f"/workspaces/{made['id']}"
    again = away.call("PUT", f"{path}/credential", json={"kind": "ssh", "generate_key": True})
    assert again.json()["public_key"] != made["public_key"]
    assert "PRIVATE" not in again.text + str(made)
    away.post(f"{path}/disconnect")


def test_a_workspace_on_the_embedded_host_has_no_credential(away):
    workspace = away.create()
    path = f"/workspaces/{workspace['id']}"
    for answer in (
        away.call("PUT", f"{path}/credential", json={"kind": "token", "secret": "x"}),
        away.call("POST", f"{path}/test"),
    ):
        assert answer.status_code == 409
