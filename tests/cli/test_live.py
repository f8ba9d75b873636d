"""The commands against the real service, started by `gitsync quickstart` itself."""

from __future__ import annotations

import hashlib
import io
import json
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.kit import BIN, GITSYNC, Ran, git, gitsync, home_env, process

IDENTITY = "demo--local/rollouts"
ROLLOUT = "minimal-local"


@dataclass
class Live:
    """A running service and a clone of its demo workspace."""

    ready: dict[str, Any]
    folder: Path
    data: Path

    @property
    def work(self) -> Path:
        return self.folder / "rollouts"

    def run(self, *args: str, cwd: Path | None = None, given: str = "") -> Ran:
        return gitsync(*args, cwd=cwd or self.work, env=self.env, given=given)

    def ok(self, *args: str, **more: Any) -> Any:
        ran = self.run(*args, "--json", **more)
        assert ran.code == 0, f"gitsync {' '.join(args)}: {ran.err}"
        assert ran.err == ""
        return ran.json

    @property
    def env(self) -> dict[str, str]:
        server = self.ready["api_url"].removesuffix("/api/v1")
        return {"GITSYNC_SERVER": server, "GITSYNC_TOKEN": self.ready["token"]}

    def push(self, path: str, text: str) -> tuple[str, str]:
        """Commit one file and push it; the sha and what git showed."""
        (self.work / path).parent.mkdir(parents=True, exist_ok=True)
        (self.work / path).write_text(text)
        git("add", "-A", cwd=self.work)
        git("commit", "-q", "-m", f"Change {path}", cwd=self.work)
        shown = git("push", cwd=self.work)
        return git("rev-parse", "HEAD", cwd=self.work).strip(), shown


def first_object(child: subprocess.Popen[str], errors: Path) -> dict[str, Any]:
    assert child.stdout is not None
    lines: list[str] = []
    for line in child.stdout:
        lines.append(line)
        if line.startswith("}"):
            return json.loads("".join(lines))
    raise AssertionError(f"quickstart ended without its object: {errors.read_text()[-3000:]}")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("live")
    with (
        (folder / "errors").open("w") as errors,
        subprocess.Popen(
            [str(GITSYNC), "quickstart", "--data-dir", "data", "--port", "0", "--json"],
            cwd=folder,
            env=home_env(folder),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as child,
    ):
        try:
            found = Live(first_object(child, folder / "errors"), folder, folder / "data")
            cloned = found.run("clone", IDENTITY, cwd=folder)
            assert cloned.code == 0, cloned.err
            yield found
            child.send_signal(signal.SIGINT)
            assert child.wait(20) == 0
            assert child.stdout is not None and child.stdout.read() == ""
        finally:
            child.kill()


def test_quickstart_says_what_was_published(live: Live) -> None:
    ready = live.ready
    assert ready["state"] == "published"
    assert ready["api_url"].endswith("/api/v1")
    rollouts = [(r["name"], r["verdict"]) for r in ready["rollouts"]]
    assert rollouts == [(ROLLOUT, "ok"), ("multiply-local-strands", "ok")]
    assert len(ready["rollouts"][0]["digest"]) == 64
    assert ready["clone_url"].endswith(f"/git/{IDENTITY}.git")
    token = live.data / "quickstart.token"
    assert token.stat().st_mode & 0o777 == 0o600 and ready["token"] in token.read_text()


@pytest.mark.slow
def test_quickstart_goes_on_with_what_is_there(tmp_path: Path) -> None:
    args = ["quickstart", "--data-dir", "d", "--port", "0", "--exit", "--json"]
    first = process(*args, cwd=tmp_path)
    assert first.code == 0, first.err
    second = process(*args, cwd=tmp_path)
    assert second.code == 0, second.err
    pushed = git("log", "--format=%s", cwd=next((tmp_path / "d/repos").glob("*.git")))
    assert pushed.splitlines() == [
        "Add the starter multiply-local-strands",
        "Start from the workspace template",
    ]
    keys = ("token", "workspace", "commit_sha", "rollouts")
    assert [first.json[key] for key in keys] == [second.json[key] for key in keys]
    told = process(*args[:-1], cwd=tmp_path)
    assert told.code == 0 and f"clone {IDENTITY}" in told.out


def test_a_push_is_live_and_its_bytes_are_pulled(live: Live) -> None:
    sha, shown = live.push(f"rollouts/{ROLLOUT}/notes.txt", "one\n")
    assert "remote: gitsync:" in shown
    ran = gitsync("status", "--wait", "--json", cwd=live.work)  # all from the checkout
    assert (ran.code, ran.err) == (0, "")
    found = ran.json
    assert (found["commit_sha"], found["live"], found["branch"]) == (sha, True, "main")
    digest = found["rollouts"][0]["digest"]
    pulled = live.ok("pull", f"{ROLLOUT}:main.py@{sha}", "../pulled")
    assert pulled["digest"] == digest and not pulled["from_cache"]
    assert (live.folder / f"pulled/rollouts/{ROLLOUT}/notes.txt").read_text() == "one\n"
    assert gitsync("pull", digest, "../again", "--json", cwd=live.work).json["from_cache"]


def test_a_broken_rollout_says_where_and_keeps_the_last_good(live: Live) -> None:
    path = f"rollouts/{ROLLOUT}/main.py"
    good = (live.work / path).read_text()
    before = live.ok("pull", ROLLOUT, "../good")
    sha, shown = live.push(path, "from osmosis_ai.rollout import nothing_like_this\n")
    ran = live.run("status", sha, "--wait", "--json")
    assert ran.code == 1
    assert ran.json["state"] == "published_with_errors"
    places = [f["path"] for r in ran.json["rollouts"] for f in r["findings"]]
    assert path in places
    text = live.run("status", "--wait").out
    assert f"{path}:1:" in text and "1 not runnable" in text
    refused = live.run("pull", ROLLOUT, "../bad", "--json")
    assert (refused.code, refused.out) == (1, "")
    assert refused.error["last_good"]["digest"] == before["digest"]
    assert not (live.folder / "bad").exists()
    other = live.ok("pull", ROLLOUT, "../substitute", "--prefer-last-good")
    assert (other["digest"], other["substituted"]) == (before["digest"], True)
    live.push(path, good)
    assert live.run("status", "--wait").code == 0
    old = live.run("status", sha, "--json")
    assert (old.code, old.json["live"]) == (1, False)


def test_status_of_a_commit_that_was_not_pushed(live: Live) -> None:
    git("commit", "-q", "--allow-empty", "-m", "local", cwd=live.work)
    try:
        ran = live.run("status", "--json")
        assert ran.code in {4, 5} and ran.json["state"] in {"unknown", "unreachable"}
        assert "pushed" in live.run("status").out or ran.code == 4
    finally:
        git("reset", "-q", "--hard", "HEAD~1", cwd=live.work)


def test_versions_are_listed_shown_compared_and_kept(live: Live) -> None:
    old = live.ok("version", "list")["items"][0]["commit_sha"]
    new, _ = live.push(f"rollouts/{ROLLOUT}/more.txt", "x\n")
    assert live.run("status", "--wait").code == 0
    items = live.ok("version", "list", "--limit", "2")["items"]
    assert [v["commit_sha"] for v in items] == [new, old]
    assert live.ok("version", "show", new[:8])["commit_sha"] == new
    outside = live.ok("version", "show", old[:9], "-w", IDENTITY, cwd=live.folder)
    assert outside["commit_sha"] == old
    found = live.ok("version", "diff", old, new)
    assert [r["name"] for r in found["rollouts"]["changed"]] == [ROLLOUT]
    assert [f["path"] for f in found["files"]] == [f"rollouts/{ROLLOUT}/more.txt"]
    assert "more.txt" in live.run("version", "diff", old).out
    assert live.ok("version", "pin", old, "paper", "--reason", "r", "--until", "2099-01-01")
    assert [p["name"] for p in live.ok("version", "show", old)["pins"]] == ["paper"]
    assert "paper" in live.run("version", "show", old).out
    live.ok("version", "unpin", old, "paper")
    assert live.ok("version", "show", old)["pins"] == []
    assert live.ok("version", "recheck", new)["commit_sha"] == new
    missing = live.run("version", "show", "1234567", "--json")
    assert (missing.code, missing.error["code"]) == (1, "NOT_FOUND")


def test_an_archive_holds_the_whole_tree(live: Live) -> None:
    made = live.ok("version", "archive", "HEAD", "../tree.tar.gz")
    path = live.folder / "tree.tar.gz"
    assert made["size"] == path.stat().st_size
    with tarfile.open(path) as tar:
        names = {member.name for member in tar if member.isfile()}
    listed = set(git("ls-files", cwd=live.work).split())
    assert any(name.endswith("AGENTS.md") for name in names)
    assert len(names) >= len({n for n in listed if not (live.work / n).is_symlink()})
    taken = live.run("version", "archive", "HEAD", "../tree.tar.gz", "--json")
    assert taken.error["code"] == "TARGET_EXISTS"
    piped = subprocess.run(
        [str(GITSYNC), "version", "archive", "HEAD", "-"],
        cwd=live.work,
        env=home_env(live.work) | live.env,
        capture_output=True,
        timeout=60,
    )
    assert piped.returncode == 0, piped.stderr
    with tarfile.open(fileobj=io.BytesIO(piped.stdout)) as tar:
        assert {member.name for member in tar if member.isfile()} == names


def test_workspaces_from_birth_to_end(live: Live) -> None:
    made = live.ok("workspace", "create", "Second team", "--identity", "second/rollouts")
    assert "Second team" in live.run("workspace", "list").out
    assert live.ok("workspace", "show", "second team")["id"] == made["id"]
    assert live.ok("workspace", "rename", "second/rollouts", "--name", "2nd")["name"] == "2nd"
    synced = live.run("workspace", "sync", "2nd", "--wait", "--json")
    assert synced.code == 0 and synced.json["outcome"] in {"waiting", "unchanged"}
    assert live.ok("workspace", "suspend", "2nd")["state"] == "suspended"
    assert live.ok("workspace", "resume", "2nd")["state"] == "active"
    rotated = live.ok("workspace", "rotate-secret", "2nd", "--overlap", "10")
    assert rotated["secret"] and rotated["url"]
    careful = live.run("workspace", "disconnect", "2nd", "--json")
    assert careful.code == 2 and "--yes" in careful.error["message"]
    assert live.ok("workspace", "disconnect", "2nd", "--yes")["state"] == "disconnected"
    assert live.ok("workspace", "delete", "2nd", "--yes")["deleted"] is True
    assert live.run("workspace", "show", "2nd", "--json").error["code"] == "NOT_FOUND"


def test_a_workspace_is_made_from_starters_and_skills(live: Live) -> None:
    born = ["workspace", "create", "born--local/chess", "--wait"]
    wrong = live.run(*born, "--starter", "nope", "--json")
    assert (wrong.code, wrong.error["code"]) == (1, "VALIDATION")
    assert wrong.error["field"] == "create.starters"
    assert live.run(*born, "--skill", "plan-eval", "--no-skills", "--json").code == 2
    made = live.ok(
        *born, "--starter", "minimal-local", "--skill", "plan-eval", "--set", "workspace=chess-team"
    )
    assert (made["name"], made["identity"]) == ("born--local/chess", "born--local/chess")
    assert made["first_version"]["state"] == "published"
    version = live.ok("version", "show", made["commit_sha"], "-w", "born--local/chess")
    assert [r["name"] for r in version["rollouts"]] == ["minimal-local"]
    shown = live.run("workspace", "create", "bare--local/x", "--name", "Bare", "--no-skills")
    assert shown.out.startswith("Created Bare (bare--local/x).\nIts first commit is ")
    assert f"gitsync clone bare--local/x --server {live.env['GITSYNC_SERVER']}" in shown.out


def test_an_external_remote_is_tried_step_by_step(live: Live) -> None:
    closed = "http://127.0.0.1:9/x.git"
    ran = live.run("workspace", "connect", closed, "--test", "--json")
    assert ran.code == 1
    assert [(s["name"], s["ok"]) for s in ran.json["steps"]] == [("policy", False)]
    assert "GITSYNC_ALLOWED_HOSTS" in ran.json["steps"][0]["message"]
    assert "FAILED" in live.run("workspace", "connect", closed, "--test").out
    for args in (
        ["--git-token-file", "-", "--generate-key"],
        ["--credential-path", "nothing"],
        ["--git-username", "x"],
        ["--known-hosts-file", "absent", "--generate-key"],
    ):
        assert live.run("workspace", "connect", closed, "--test", *args, given="t").code == 2
    assert live.run("workspace", "connect", closed, "--json").error["code"] == "VALIDATION"


def test_an_ssh_key_made_inside_shows_only_its_public_half(live: Live) -> None:
    url = "ssh://git@git.example.com/team/rollouts.git"
    made = live.ok(
        "workspace", "connect", url, "--name", "ssh", "--identity", "ssh/r", "--generate-key"
    )
    assert made["public_key"].startswith("ssh-ed25519 ")
    again = live.ok("workspace", "credential", "ssh", "--generate-key")
    assert again["public_key"] != made["public_key"]
    live.ok("workspace", "disconnect", "ssh", "--yes")


def test_people_members_and_tokens(live: Live) -> None:
    added = live.ok("user", "add", "robin@example.com", "--name", "Robin")
    assert "/login/" in added["login_url"]
    assert "robin@example.com" in live.run("user", "list").out
    assert "/login/" in live.run("user", "link", "ROBIN@example.com").out
    who = live.ok("workspace", "member", "set", "robin@example.com", "reader", "-w", IDENTITY)
    assert who["role"] == "reader"
    assert "robin@example.com" in live.run("workspace", "member", "list").out
    live.ok("workspace", "member", "remove", "robin@example.com", "-w", IDENTITY)
    made = live.run("token", "create", "ci", "--role", "read", "-w", IDENTITY)
    secret = made.out.strip()
    assert made.code == 0 and secret.startswith("gs_") and "\n" not in secret
    machine = {"GITSYNC_TOKEN": secret, "GITSYNC_SERVER": live.env["GITSYNC_SERVER"]}
    pulled = gitsync("pull", ROLLOUT, "../by-machine", "-w", IDENTITY, cwd=live.work, env=machine)
    assert pulled.code == 0, pulled.err
    mine = next(t for t in live.ok("token", "list")["items"] if t["name"] == "ci")
    live.ok("token", "revoke", mine["id"], "--yes")
    after = gitsync("status", "-w", IDENTITY, "--json", cwd=live.work, env=machine)
    assert (after.code, after.out) == (6, "")
    live.ok("user", "disable", "robin@example.com", "--yes")


def test_deliveries_are_listed_and_repeated(live: Live) -> None:
    live.push("README.md", "again\n")
    assert live.run("status", "--wait").code in {0, 1}
    items = live.ok("workspace", "delivery", "list")["items"]
    assert items and items[0]["outcome"]
    assert str(items[0]["id"]) in live.run("workspace", "delivery", "list").out
    again = live.ok("workspace", "delivery", "redeliver", str(items[0]["id"]))
    assert again["redelivery_of"] == items[0]["id"]


def test_a_reset_link_signs_in_once(live: Live) -> None:
    ran = gitsync(
        "user",
        "reset",
        "admin@localhost.invalid",
        "--data-dir",
        str(live.data),
        "--json",
        cwd=live.folder,
    )
    assert ran.code == 0, ran.err
    assert "/login/" in ran.json["url"]
    missing = gitsync(
        "user", "reset", "x@y", "--data-dir", str(live.data), "--json", cwd=live.folder
    )
    assert (missing.code, missing.error["code"]) == (1, "NOT_FOUND")


def test_the_database_is_sound(live: Live) -> None:
    ran = gitsync("db", "check", "--data-dir", str(live.data), "--json", cwd=live.folder)
    assert ran.code == 0 and ran.json["problems"] == []
    used = gitsync("db", "upgrade", "--data-dir", str(live.data), "--json", cwd=live.folder)
    assert (used.code, used.error["code"]) == (1, "STORE")
    none = gitsync("db", "check", "--data-dir", "nowhere", "--json", cwd=live.folder)
    assert (none.code, none.error["code"]) == (1, "STORE")
    assert not (live.folder / "nowhere").exists()


def test_osmosis_works_at_once(live: Live) -> None:
    def osmosis(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / "osmosis"), "--json", *args],
            cwd=live.work,
            env=home_env(live.folder) | {"OSMOSIS_TOKEN_STORE": "file"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    doctor = osmosis("doctor")
    assert doctor.returncode == 0, doctor.stderr
    assert json.loads(doctor.stdout)["resource"]["git"]["identity"] == IDENTITY
    applied = osmosis("template", "apply", "multiply-local-openai")
    assert applied.returncode == 0, applied.stderr
    assert (live.work / "rollouts/multiply-local-openai/main.py").is_file()
    git("clean", "-qfd", cwd=live.work)


def test_the_artifact_is_the_tar_with_that_digest(live: Live) -> None:
    found = live.ok("version", "show", "HEAD")
    digest = found["rollouts"][0]["digest"]
    with httpx.Client(headers={"Authorization": f"Bearer {live.ready['token']}"}) as client:
        url = f"{live.ready['api_url']}/workspaces/{live.ready['workspace']}/artifacts/{digest}.tar"
        data = client.get(url).content
    assert hashlib.sha256(data).hexdigest() == digest
