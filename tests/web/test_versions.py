"""Versions outlive what happens to their repository; diffs, pins, rechecks, dry runs, resolving."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
from datetime import UTC, datetime, timedelta

import pytest

from gitsync.pool import JobFailed
from tests.live import GOOD_MAIN, NO_GRADER, git, live_server, workspace_files
from tests.web.conftest import publish_two
from tests.web.remote import Remote, bare

# -- archives -------------------------------------------------------------------------------------


def kept(live, path, *shas):
    """Everything a version promises to serve for ever."""
    found = {}
    for sha in shas:
        archive = live.call("GET", f"{path}/versions/{sha}/archive.tar.gz")
        assert archive.status_code == 200, archive.text
        manifest = live.get(f"{path}/versions/{sha}")
        found[sha] = [archive.content, manifest["tree"], manifest["rollouts"]]
        for rollout in manifest["rollouts"]:
            answer = live.call("GET", f"{path}/artifacts/{rollout['digest']}.tar")
            found[sha].append(answer.content)
    found["diff"] = live.get(f"{path}/versions/{shas[-1]}/diff", params={"from": shas[0]})
    return found


def test_an_archive_is_the_whole_tree_and_the_same_each_time(live, published):
    path = f"{published.path}/versions/{published.good}/archive.tar.gz"
    one, two = live.call("GET", path), live.call("GET", path)
    assert one.content == two.content and one.headers["etag"] == f'W/"{published.good}"'
    again = live.call("GET", path, headers={"If-None-Match": one.headers["etag"]})
    assert again.status_code == 304 and again.content == b""
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(one.content))) as tar:
        names = tar.getnames()
        assert names == sorted(names, key=str.encode)
        assert set(names) == set(workspace_files(alpha="", beta=""))
        main = tar.extractfile("rollouts/alpha/main.py").read().decode()
        assert main == GOOD_MAIN
        assert {(m.mtime, m.uid, m.uname) for m in tar.getmembers()} == {(0, 0, "")}
    gone = live.call("GET", f"{published.path}/versions/{'0' * 40}/archive.tar.gz")
    assert gone.status_code == 404


def test_an_embedded_repository_can_be_rewritten_pruned_and_lost(live):
    made = publish_two(live)
    before = kept(live, made.path, made.good, made.bad)
    git(made.checkout.path, "checkout", "--quiet", "--orphan", "fresh")
    new = made.checkout.commit({"README.md": "anew\n"}, "Anew")
    made.checkout.push("-q", "--force", "origin", "fresh:main")
    assert live.status(made.workspace, new)["live"]
    made.checkout.push("-q", "origin", "fresh:side", ":main", check=False)
    repo = live.data_dir / "repos" / f"{made.workspace['id']}.git"
    git(repo, "reflog", "expire", "--expire=now", "--all")
    git(repo, "gc", "--quiet", "--prune=now")
    assert kept(live, made.path, made.good, made.bad) == before
    shutil.rmtree(repo)
    assert kept(live, made.path, made.good, made.bad) == before


@pytest.mark.slow
def test_a_remote_can_be_rewritten_and_its_mirror_lost(tmp_path):
    (tmp_path / "host").mkdir()
    with (
        Remote(tmp_path / "host") as host,
        live_server(tmp_path, allowed_hosts=(f"127.0.0.1:{host.port}",)) as live,
    ):
        origin = bare(host.root, "demo.git")
        from tests.live import Checkout

        checkout = Checkout.new(tmp_path / "checkout", str(origin))
        shas = [checkout.commit(workspace_files())]
        checkout.push("-q", "origin", "main")
        workspace = live.post(
            "/workspaces",
            {
                "name": "away",
                "provider": "generic",
                "connect": {"clone_url": host.url_of("demo.git")},
            },
            status=201,
        )
        path = f"/workspaces/{workspace['id']}"
        assert live.status(workspace, shas[0])["state"] == "published"
        shas.append(checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + "# two\n"}))
        checkout.push("-q", "origin", "main")
        live.post(f"{path}/sync")
        assert live.status(workspace, shas[1])["state"] == "published"
        before = kept(live, path, *shas)

        git(checkout.path, "checkout", "--quiet", "--orphan", "fresh")
        new = checkout.commit({"README.md": "anew\n"}, "Anew")
        checkout.push("-q", "--force", "origin", "fresh:main")
        git(origin, "gc", "--quiet", "--prune=now")
        live.post(f"{path}/sync")
        assert live.status(workspace, new)["state"] == "published"
        mirror = live.data_dir / "mirrors" / f"{workspace['id']}.git"
        git(mirror, "gc", "--quiet", "--prune=now")
        assert kept(live, path, *shas) == before
        shutil.rmtree(mirror)
        assert kept(live, path, *shas) == before
        shutil.rmtree(origin)  # and the remote is gone for good
        shutil.rmtree(mirror)
        live.post(f"{path}/disconnect")
        assert kept(live, path, *shas) == before


# -- diffs ----------------------------------------------------------------------------------------


def test_a_difference_names_rollouts_classes_config_keys_and_files(live):
    workspace = live.create()
    checkout, path = live.checkout(workspace), f"/workspaces/{workspace['id']}"
    one = checkout.commit(workspace_files(same=GOOD_MAIN, old=GOOD_MAIN, edit=GOOD_MAIN))
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, one)["state"] == "published"
    renamed = GOOD_MAIN.replace("EchoFlow", "LoudFlow")
    training = (checkout.path / "configs/training/edit.toml").read_text()
    two = checkout.commit(
        {
            "rollouts/old": None,
            "configs/eval/old.toml": None,
            "configs/training/old.toml": None,
            "rollouts/edit/main.py": renamed,
            "configs/training/edit.toml": training.replace("Qwen3.6", "Qwen4"),
            **{k: v for k, v in workspace_files(new=NO_GRADER).items() if "new" in k},
        }
    )
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, two)["state"] == "published_with_errors"
    diff = live.get(f"{path}/versions/{two}/diff", params={"from": one})
    assert (diff["from"], diff["to"]) == (one, two)
    assert (diff["rollouts"]["added"], diff["rollouts"]["removed"]) == (["new"], ["old"])
    (edit,) = diff["rollouts"]["changed"]
    assert edit["name"] == "edit" and edit["digest"]["from"] != edit["digest"]["to"]
    (change,) = edit["entrypoints"]
    assert change["from"]["workflow"].endswith("EchoFlow")
    assert change["to"]["workflow"].endswith("LoudFlow")
    configs = {c["path"]: c for c in diff["configs"]}
    assert configs["configs/eval/old.toml"]["change"] == "removed"
    assert configs["configs/training/new.toml"]["change"] == "added"
    keys = configs["configs/training/edit.toml"]["keys"]
    assert [k["key"] for k in keys] == ["experiment.model_path"]
    assert (keys[0]["from"], keys[0]["to"]) == ("Qwen/Qwen3.6-35B-A3B", "Qwen/Qwen4-35B-A3B")
    files = {f["path"]: f["change"] for f in diff["files"]}
    assert files["rollouts/edit/main.py"] == "changed"
    assert files["rollouts/new/main.py"] == "added"
    assert files["rollouts/old/main.py"] == "removed"
    back = live.get(f"{path}/versions/{one}/diff", params={"from": two})
    assert back["rollouts"]["added"] == ["old"] and back["rollouts"]["removed"] == ["new"]
    none = live.get(f"{path}/versions/{one}/diff", params={"from": one})
    assert none["files"] == none["configs"] == none["rollouts"]["changed"] == []
    assert live.call("GET", f"{path}/versions/{two}/diff").status_code == 400
    other = live.call("GET", f"{path}/versions/{two}/diff", params={"from": "0" * 40})
    assert other.status_code == 404


def test_odd_values_of_a_config_can_be_shown(live):
    workspace = live.create()
    checkout, path = live.checkout(workspace), f"/workspaces/{workspace['id']}"
    odd = 'a = inf\nb = nan\nc = 1979-05-27T07:32:00Z\nd = "\\u0007\\u202E"\n'
    odd += "z = 9223372036854775807\n"
    eval_toml = workspace_files()["configs/eval/demo.toml"] + "\n[extra]\n" + odd
    sha = checkout.commit(workspace_files() | {"configs/eval/demo.toml": eval_toml})
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, sha)["live"]
    configs = {c["path"]: c for c in live.get(f"{path}/versions/{sha}")["configs"]}
    extra = configs["configs/eval/demo.toml"]["content"]["extra"]
    assert (extra["a"], extra["b"], extra["z"]) == ("inf", "nan", 2**63 - 1)


@pytest.mark.parametrize(
    "name",
    [
        b"\xff\xfe.py",
        pytest.param(b"\x1b[31mred.py", marks=pytest.mark.slow),
        "\u202egnp.py".encode(),
        pytest.param(b"a\nb.py", marks=pytest.mark.slow),
    ],
)
def test_odd_names_of_files_can_be_shown(live, name):
    workspace = live.create()
    checkout, path = live.checkout(workspace), f"/workspaces/{workspace['id']}"
    checkout.commit(workspace_files())
    (checkout.path / "rollouts/demo" / os.fsdecode(name)).write_bytes(b"x = 1\n")
    sha = checkout.commit({})
    said = checkout.push("origin", "main").stderr
    assert "\x1b[31m" not in said and "\u202e" not in said
    status = live.status(workspace, sha)
    assert status["state"] in ("refused", "published", "published_with_errors")
    sync = live.get(f"{path}/syncs/{status['sync_id']}")
    if status["state"] == "refused":
        assert "\\x" in sync["findings"][0]["path"] or "\\u" in sync["findings"][0]["path"]
    else:
        files = live.get(f"{path}/versions/{sha}/diff", params={"from": sha})["files"]
        assert files == []
    for place in (f"{path}/syncs", f"{path}/versions", f"{path}/rollouts", f"{path}/deliveries"):
        assert live.call("GET", place).status_code == 200


# -- pins -----------------------------------------------------------------------------------------


def test_an_older_commit_becomes_a_version_when_it_is_pinned(live):
    workspace = live.create()
    checkout, path = live.checkout(workspace), f"/workspaces/{workspace['id']}"
    older = checkout.commit(workspace_files())
    tip = checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + "# tip\n"})
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, tip)["state"] == "published"
    assert live.status(workspace, older)["state"] == "superseded"
    assert live.call("GET", f"{path}/versions/{older}").status_code == 404
    pin = f"{path}/versions/{older}/pins/paper"
    manifest = live.call("PUT", pin, json={"reason": "Table 2"}).json()
    assert manifest["commit_sha"] == older and manifest["rollouts"][0]["verdict"] == "ok"
    assert [(p["name"], p["reason"]) for p in manifest["pins"]] == [("paper", "Table 2")]
    assert live.status(workspace, older)["state"] == "published"
    assert live.get(path)["branches"][0]["published_sha"] == tip  # no branch moved
    found = live.post(f"{path}/resolve", {"rollout": "demo", "commit_sha": older[:12]})
    assert found["commit_sha"] == older and found["branch"] is None
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    changed = live.call("PUT", pin, json={"reason": "", "expires_at": later}).json()
    assert [p["reason"] for p in changed["pins"]] == [""] and changed["pins"][0]["expires_at"]
    assert live.call("DELETE", pin).status_code == 204
    assert live.call("DELETE", pin).status_code == 404
    assert live.get(f"{path}/versions/{older}")["pins"] == []


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("a%20b", {}, 400),
        ("x" * 201, {}, 400),
        ("ok", {"expires_at": "2030-01-01T00:00:00"}, 400),
        ("ok", {"expires_at": "tomorrow"}, 400),
        ("ok", {"expires_at": "9999-12-31T23:59:59-14:00"}, 400),
        ("ok", {"until": "2030-01-01T00:00:00Z"}, 400),
    ],
)
def test_an_odd_pin_is_refused(live, published, name, body, status):
    path = f"{published.path}/versions/{published.good}/pins/{name}"
    assert live.call("PUT", path, json=body).status_code == status


def test_a_commit_that_no_watched_branch_contains_cannot_be_pinned(live, published):
    for sha in ("0" * 40, "f" * 40):
        answer = live.call("PUT", f"{published.path}/versions/{sha}/pins/x", json={})
        assert (answer.status_code, answer.json()["code"]) == (404, "COMMIT_NOT_FOUND")
    # nor one that only an unwatched branch has
    git(published.checkout.path, "checkout", "--quiet", "-b", "hidden")
    hidden = published.checkout.commit({"x.txt": "x"})
    published.checkout.push("-q", "origin", "hidden")
    git(published.checkout.path, "checkout", "--quiet", "main")
    answer = live.call("PUT", f"{published.path}/versions/{hidden}/pins/x", json={})
    assert answer.status_code == 404


# -- recheck and dry run --------------------------------------------------------------------------


def test_a_recheck_changes_neither_bytes_nor_digests(live, published):
    path = f"{published.path}/versions/{published.bad}"
    before = live.get(path)
    after = live.post(f"{path}/recheck")
    # hints tell what the workspace has by now, such as data sets
    assert before.pop("findings") is not None and after.pop("findings") is not None
    assert after == before
    missing = live.call("POST", f"{published.path}/versions/{'0' * 40}/recheck")
    assert missing.status_code == 404


def test_a_dry_run_reports_and_publishes_nothing(live):
    workspace = live.create()
    checkout, path = live.checkout(workspace), f"/workspaces/{workspace['id']}"
    older = checkout.commit(workspace_files(demo=NO_GRADER))
    tip = checkout.commit({"rollouts/demo/main.py": GOOD_MAIN})
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, tip)["state"] == "published"
    good = live.post(f"{path}/check", {"ref": "main"})
    assert (good["commit_sha"], good["verdict"], good["refused"]) == (tip, "ok", False)
    bad = live.post(f"{path}/check", {"ref": older})
    assert bad["verdict"] == "error" and bad["rollouts"][0]["findings"][0]["code"] == "no-grader"
    assert live.get(f"{path}/versions")["total_count"] == 1
    for ref, status in (("none", 400), ("a b", 400), ("f" * 40, 404), ("", 400)):
        assert live.call("POST", f"{path}/check", json={"ref": ref}).status_code == status, ref


# -- resolving ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        ({"rollout": "none"}, 404, "ROLLOUT_NOT_FOUND", "rollout"),
        ({"rollout": "alpha", "entrypoint": "x.py"}, 404, "ENTRYPOINT_NOT_FOUND", "entrypoint"),
        ({"rollout": "alpha", "branch": "none"}, 404, "BRANCH_NOT_FOUND", "branch"),
        ({"rollout": "alpha", "branch": "a b"}, 400, "VALIDATION", "branch"),
        ({"rollout": "alpha", "commit_sha": "f" * 40}, 404, "COMMIT_NOT_FOUND", "commit_sha"),
        ({"rollout": "alpha", "commit_sha": "abc"}, 400, "VALIDATION", "commit_sha"),
        ({"rollout": "alpha", "commit_sha": "xyzxyzx"}, 400, "VALIDATION", "commit_sha"),
        ({"rollout": "alpha", "commit_sha": "f" * 9}, 404, "COMMIT_NOT_FOUND", "commit_sha"),
        (
            {"rollout": "alpha", "branch": "main", "commit_sha": "f" * 40},
            400,
            "VALIDATION",
            "commit_sha",
        ),
        ({"rollout": "alpha", "prefer": "newest"}, 400, "VALIDATION", "prefer"),
        ({}, 400, "VALIDATION", "rollout"),
    ],
)
def test_what_cannot_be_resolved_is_refused_precisely(live, published, body, status, code, field):
    answer = live.call("POST", f"{published.path}/resolve", json=body)
    found = answer.json()
    assert (answer.status_code, found["code"], found["field"]) == (status, code, field)


def test_a_rollout_that_cannot_run_is_refused_with_its_last_good_version(live, published):
    path = f"{published.path}/resolve"
    answer = live.call("POST", path, json={"rollout": "beta"})
    body = answer.json()
    assert (answer.status_code, body["code"], body["field"]) == (400, "ROLLOUT_INVALID", "rollout")
    assert body["last_good"]["commit_sha"] == published.good
    assert body["issues"][0]["code"] == "no-grader"
    assert body["issues"][0]["key"].startswith("rollouts/beta/main.py:")
    pinned = live.call("POST", path, json={"rollout": "beta", "commit_sha": published.bad})
    assert pinned.status_code == 400 and pinned.json()["last_good"]["commit_sha"] == published.good
    found = live.post(path, {"rollout": "beta", "prefer": "last_good"})
    assert found["substituted"] and found["commit_sha"] == published.good
    assert found["digest"] == body["last_good"]["digest"]
    fine = live.post(path, {"rollout": "alpha", "prefer": "last_good"})
    assert not fine["substituted"] and fine["commit_sha"] == published.bad


def test_a_rollout_that_was_never_good_has_no_last_good_version(live):
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files(demo=NO_GRADER))
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha)
    path = f"/workspaces/{workspace['id']}/resolve"
    for body in ({"rollout": "demo"}, {"rollout": "demo", "prefer": "last_good"}):
        answer = live.call("POST", path, json=body)
        assert answer.status_code == 400 and answer.json()["last_good"] is None


def test_a_short_sha_that_fits_two_commits_is_refused(live, published):
    from gitsync.store import commits

    instance = live.running.instance
    with instance.database.write() as db:
        for tail in ("a", "b"):
            commits.put_commit(
                db,
                published.workspace["id"],
                "abcdef0" + tail * 33,
                commits.CommitState.ERROR,
                now=instance.now(),
            )
    answer = live.call(
        "POST", f"{published.path}/resolve", json={"rollout": "alpha", "commit_sha": "ABCDEF0"}
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "AMBIGUOUS_SHA")


def test_a_commit_on_its_way_is_told_as_such(live):
    from gitsync.store import commits

    workspace = live.create()
    first = f"/workspaces/{workspace['id']}/syncs/{workspace['sync_id']}"
    assert live.get(first, params={"wait": 20})["status"] == "success"
    instance = live.running.instance
    with instance.database.write() as db:
        commits.put_commit(
            db, workspace["id"], "c" * 40, commits.CommitState.QUEUED, now=instance.now()
        )
    answer = live.call(
        "POST",
        f"/workspaces/{workspace['id']}/resolve",
        json={"rollout": "demo", "commit_sha": "c" * 40},
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "SYNC_IN_PROGRESS")


def test_a_commit_the_checker_cannot_finish_is_refused_and_no_error_of_ours(live, monkeypatch):
    workspace = live.create()
    checkout, path = live.checkout(workspace), f"/workspaces/{workspace['id']}"
    older = checkout.commit(workspace_files())
    sha = checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + "# tip\n"})
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, sha)["state"] == "published"

    def too_long(*args):
        raise JobFailed("It took too long (GITSYNC_CHECK_DEADLINE_S).", reason="deadline")

    monkeypatch.setattr(live.running.instance.pool, "run", too_long)
    report = live.post(f"{path}/check", {"ref": sha})
    assert report["refused"] and report["findings"][0]["code"] == "inspection-failed"
    pinned = live.call("PUT", f"{path}/versions/{older}/pins/x", json={})
    assert pinned.status_code == 409 and "cannot be published" in pinned.json()["message"]
