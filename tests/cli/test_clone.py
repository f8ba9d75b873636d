"""`clone`: real git, no prompt, and every way of working that people expect."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gitsync.client.dotenv import quoted
from tests.cli.kit import BIN, IDENTITY, TOKEN, WORKSPACE, Stage, git, gitsync, home_env

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


LABEL = f"https://github.com/{IDENTITY}.git"
FILES = {
    "AGENTS.md": "a",
    "CLAUDE.md": "c",
    "configs/AGENTS.md": "x",
    "configs/eval/.gitkeep": "",
    "configs/training/.gitkeep": "",
    "data/.gitkeep": "",
    "rollouts/.gitkeep": "",
}


def env(stage: Stage) -> dict[str, str]:
    return {"GITSYNC_SERVER": stage.url, "GITSYNC_TOKEN": TOKEN}


def bare(stage: Stage) -> Path:
    assert stage.repos is not None
    return stage.repos / f"{IDENTITY}.git"


def fill(stage: Stage, tmp_path: Path, branch: str = "main", **more: str) -> str:
    """Put a first commit into the hosted repository, behind the server's back."""
    source = tmp_path / f"source-{branch.replace('/', '_')}"
    source.mkdir()
    git("init", "-q", "-b", branch, cwd=source)
    for name, text in {**FILES, **more}.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    git("add", "-A", "-f", cwd=source)
    git("commit", "-q", "-m", "first", cwd=source)
    git("push", "-q", str(bare(stage)), branch, cwd=source)
    return git("rev-parse", "HEAD", cwd=source).strip()


def commit(work: Path, name: str) -> str:
    (work / name).write_text(name)
    git("add", name, cwd=work)
    git("commit", "-q", "-m", name, cwd=work)
    return git("rev-parse", "HEAD", cwd=work).splitlines()[-1]


def config(work: Path, key: str) -> str:
    return git("config", key, cwd=work).strip()


def hosted(stage: Stage, ref: str) -> str:
    return git("rev-parse", ref, cwd=bare(stage)).strip()


@pytest.fixture(params=["helper", "alias", "second-remote"])
def work(request: Any, stage: Stage, tmp_path: Path) -> Path:
    """A clone in a folder with spaces, made in each of the three ways."""
    fill(stage, tmp_path)
    more, args = env(stage), []
    if request.param == "alias":
        more["PATH"] = path_without_helper(tmp_path)
    if request.param == "second-remote":
        args = ["--without-helper"]
    target = tmp_path / "my wörk 'dir'"
    ran = gitsync("clone", IDENTITY, str(target), "--json", *args, cwd=tmp_path, env=more)
    assert ran.code == 0, ran.err
    assert ran.json["via"] == request.param.replace("alias", "helper")
    return target


def path_without_helper(tmp_path: Path) -> str:
    """A PATH that holds git and sh and surely no helper."""
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    for name in ("git", "sh", "cat", "env"):
        found = subprocess.run(["which", name], capture_output=True, text=True, check=True)
        (tools / name).symlink_to(found.stdout.strip())
    return str(tools)


def test_push_pull_and_new_branches_work(work: Path, stage: Stage, tmp_path: Path) -> None:
    sha = commit(work, "one")
    git("push", cwd=work)
    assert hosted(stage, "main") == sha
    git("switch", "-q", "-c", "feature/ü", cwd=work)
    sha = commit(work, "two")
    git("push", "-u", "origin", "feature/ü", cwd=work)
    assert hosted(stage, "feature/ü") == sha
    git("fetch", "--all", cwd=work)
    git("switch", "-q", "main", cwd=work)
    other = tmp_path / "other"
    git("clone", "-q", str(bare(stage)), str(other), cwd=tmp_path)
    theirs = commit(other, "three")
    git("push", "-q", cwd=other)
    git("pull", cwd=work)
    assert git("rev-parse", "HEAD", cwd=work).strip() == theirs
    (work / "deep").mkdir()
    git("fetch", cwd=work / "deep")


def test_the_label_and_the_identity_are_what_osmosis_wants(work: Path) -> None:
    assert git("remote", "get-url", "origin", cwd=work).strip() == LABEL
    assert config(work, "gitsync.workspace") == WORKSPACE


def test_secrets_are_private_and_never_committed(work: Path, stage: Stage) -> None:
    for name in (".env", ".git/gitsync-credential"):
        assert (work / name).stat().st_mode & 0o777 == 0o600
        assert TOKEN in (work / name).read_text()
    assert TOKEN not in (work / ".git/config").read_text()
    assert git("status", "--porcelain", "--untracked-files=all", cwd=work) == ""
    lines = (work / ".env").read_text().splitlines()
    assert f"OSMOSIS_PLATFORM_URL={stage.url}" in lines
    assert f"OSMOSIS_TOKEN={TOKEN}" in lines
    assert f"OSMOSIS_TOKEN_PLATFORM_URL={stage.url}" in lines


def test_status_works_in_the_clone_without_any_setting(work: Path, stage: Stage) -> None:
    sha = git("rev-parse", "HEAD", cwd=work).strip()
    answer = {"commit_sha": sha, "state": "published", "live": True, "rollouts": []}
    stage.on(f"GET workspaces/{WORKSPACE}/commits/{sha}", 200, answer)
    assert gitsync("status", "--json", cwd=work).code == 0


def test_osmosis_doctor_shows_the_identity(work: Path, stage: Stage) -> None:
    done = subprocess.run(
        [str(BIN / "osmosis"), "--json", "doctor"],
        cwd=work,
        env=home_env(work.parent) | {"OSMOSIS_TOKEN_STORE": "file"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert IDENTITY in done.stdout


def test_a_moved_checkout_and_a_linked_work_tree_keep_working(
    work: Path, stage: Stage, tmp_path: Path
) -> None:
    moved = work.rename(tmp_path / "moved")
    git("fetch", "--all", cwd=moved)
    git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"), cwd=moved)
    sha = commit(tmp_path / "side", "from-the-side")
    git("push", "origin", "side", cwd=tmp_path / "side")
    assert hosted(stage, "side") == sha


def test_a_branch_pushed_with_u_is_pulled_through_the_helper(stage: Stage, tmp_path: Path) -> None:
    fill(stage, tmp_path)
    gitsync("clone", IDENTITY, "w", cwd=tmp_path, env=env(stage))
    work = tmp_path / "w"
    git("switch", "-q", "-c", "b", cwd=work)
    commit(work, "x")
    git("push", "-u", "origin", "b", cwd=work)
    git("pull", cwd=work)
    shown = git("remote", "show", "origin", cwd=work)
    assert "HEAD branch: main" in shown and shown.count("tracked") == 2


@pytest.mark.parametrize("args", [[], ["--without-helper"]])
def test_an_empty_workspace_is_cloned_and_pushed_to(
    stage: Stage, tmp_path: Path, args: list[str]
) -> None:
    stage.default_branch = None
    ran = gitsync("clone", "Demo team", "w", "--json", *args, cwd=tmp_path, env=env(stage))
    assert ran.code == 0, ran.err
    assert (ran.json["commit_sha"], ran.json["branch"]) == (None, "main")
    assert any("empty" in line for line in ran.json["notes"])
    sha = commit(tmp_path / "w", "first")
    git("push", cwd=tmp_path / "w")
    assert hosted(stage, "main") == sha
    git("pull", cwd=tmp_path / "w")


def test_names_and_ids_lead_to_the_same_workspace(stage: Stage, tmp_path: Path) -> None:
    for ref in ("Demo team", WORKSPACE, IDENTITY.upper()):
        ran = gitsync("clone", ref, "w" + ref[:2], "--json", cwd=tmp_path, env=env(stage))
        assert ran.code == 0 and ran.json["identity"] == IDENTITY
    missing = gitsync("clone", "no/such", "--json", cwd=tmp_path, env=env(stage))
    assert (missing.code, missing.error["code"]) == (1, "NOT_FOUND")
    assert not (tmp_path / "such").exists()


def test_the_remotes_own_default_branch_is_checked_out(stage: Stage, tmp_path: Path) -> None:
    fill(stage, tmp_path, "trunk/x")
    git("symbolic-ref", "HEAD", "refs/heads/trunk/x", cwd=bare(stage))
    ran = gitsync("clone", IDENTITY, "--json", cwd=tmp_path, env=env(stage))
    assert ran.json["branch"] == "trunk/x"
    work = tmp_path / "rollouts"
    assert git("status", "-sb", cwd=work).startswith("## trunk/x...origin/trunk/x")


@pytest.mark.parametrize("args", [[], ["--without-helper"]])
@pytest.mark.parametrize(
    "name", ["HEAD", "-x", "a$(touch$IFS''pwned)'b", "refs/heads/main", "ü/ö", "@"]
)
def test_odd_default_branches_are_checked_out_exactly(
    stage: Stage, tmp_path: Path, name: str, args: list[str]
) -> None:
    sha = fill(stage, tmp_path, "tmp")
    git("update-ref", f"refs/heads/{name}", sha, cwd=bare(stage))
    git("update-ref", "-d", "refs/heads/tmp", cwd=bare(stage))
    git("symbolic-ref", "HEAD", f"refs/heads/{name}", cwd=bare(stage))
    ran = gitsync("clone", IDENTITY, "w", "--json", *args, cwd=tmp_path, env=env(stage))
    assert ran.code == 0, ran.err
    assert (ran.json["branch"], ran.json["commit_sha"]) == (name, sha)
    work = tmp_path / "w"
    assert git("symbolic-ref", "HEAD", cwd=work).strip() == f"refs/heads/{name}"
    changes = git("status", "--porcelain", cwd=work).splitlines()
    assert [line for line in changes if not line.startswith("warning:")] == []  # HEAD is ambiguous
    assert git("rev-parse", f"refs/heads/{name}", cwd=work).strip() == sha
    new = commit(work, "more")
    git("push", cwd=work)
    assert hosted(stage, f"refs/heads/{name}") == new
    assert not list(tmp_path.rglob("pwned"))


def test_a_branch_can_be_chosen(stage: Stage, tmp_path: Path) -> None:
    fill(stage, tmp_path)
    sha = fill(stage, tmp_path, "dev")
    ran = gitsync("clone", IDENTITY, "--json", "-b", "dev", cwd=tmp_path, env=env(stage))
    assert (ran.json["branch"], ran.json["commit_sha"]) == ("dev", sha)
    for name, code in (("nope", "GIT_FAILED"), ("-x", "USAGE"), ("a..b", "VALIDATION")):
        bad = gitsync("clone", IDENTITY, "x", "--json", "-b", name, cwd=tmp_path, env=env(stage))
        assert bad.code != 0 and not (tmp_path / "x").exists()
        assert bad.error["code"] in {code, "VALIDATION", "GIT_FAILED"}


def test_what_is_there_is_not_touched(stage: Stage, tmp_path: Path) -> None:
    target = tmp_path / "rollouts"
    target.mkdir()
    (target / "mine").write_text("precious")
    ran = gitsync("clone", IDENTITY, "--json", cwd=tmp_path, env=env(stage))
    assert (ran.code, ran.error["code"]) == (1, "TARGET_EXISTS")
    assert os.listdir(target) == ["mine"]
    (tmp_path / "file").write_text("x")
    ran = gitsync("clone", IDENTITY, "file", "--json", cwd=tmp_path, env=env(stage))
    assert ran.error["code"] == "TARGET_EXISTS"


def test_a_failed_clone_leaves_nothing(stage: Stage, tmp_path: Path) -> None:
    fill(stage, tmp_path)
    bare(stage).rename(tmp_path / "gone")
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        ran = gitsync("clone", IDENTITY, name, "--json", cwd=tmp_path, env=env(stage))
        assert (ran.code, ran.error["code"]) == (1, "GIT_FAILED")
        assert TOKEN not in ran.err
    assert not (tmp_path / "new").exists()
    assert os.listdir(tmp_path / "empty") == []


def test_a_committed_env_file_is_left_alone(stage: Stage, tmp_path: Path) -> None:
    fill(stage, tmp_path, **{".env": "MINE=1\n"})
    ran = gitsync("clone", IDENTITY, "w", "--json", cwd=tmp_path, env=env(stage))
    assert (tmp_path / "w/.env").read_text() == "MINE=1\n"
    assert any("OSMOSIS_TOKEN" in line and TOKEN not in line for line in ran.json["notes"])


def test_without_any_helper_there_is_a_second_remote(stage: Stage, tmp_path: Path) -> None:
    fill(stage, tmp_path)
    # a copy of the program in a folder of its own, beside which no helper lies
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "gitsync").write_text(
        "import sys\nsys.executable = sys.argv[0]\nfrom gitsync.cli import main\nmain()\n"
    )
    done = subprocess.run(
        [str(BIN / "python"), str(alone / "gitsync"), "clone", IDENTITY, "w"],
        cwd=tmp_path,
        env=home_env(tmp_path) | env(stage) | {"PATH": path_without_helper(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "git-remote-gitsync is not installed" in done.stderr
    work = tmp_path / "w"
    real = f"{stage.url}/git/{IDENTITY}.git"
    assert config(work, "remote.origin.url") == LABEL
    assert config(work, "remote.origin.pushurl") == real
    assert config(work, "remote.origin.skipFetchAll") == "true"
    assert config(work, "remote.gitsync.url") == real
    assert config(work, "branch.main.remote") == "gitsync"
    assert config(work, "remote.pushDefault") == "gitsync"
    git("fetch", "--all", cwd=work)


def test_a_shell_without_the_helper_on_path_still_pushes(stage: Stage, tmp_path: Path) -> None:
    fill(stage, tmp_path)
    gitsync("clone", IDENTITY, "w", cwd=tmp_path, env=env(stage))
    sha = commit(tmp_path / "w", "x")
    bare_path = {"PATH": path_without_helper(tmp_path)}
    git("push", cwd=tmp_path / "w", env=bare_path)
    assert hosted(stage, "main") == sha


def test_a_clone_made_inside_a_hook_leaves_the_outer_repository_alone(
    stage: Stage, tmp_path: Path
) -> None:
    fill(stage, tmp_path)
    outer = tmp_path / "outer"
    outer.mkdir()
    git("init", "-q", cwd=outer)
    before = (outer / ".git/config").read_text()
    inside = {
        "GIT_DIR": str(outer / ".git"),
        "GIT_WORK_TREE": str(outer),
        "GIT_INDEX_FILE": str(outer / ".git/index"),
        "GIT_DEFAULT_HASH": "sha256",
    }
    ran = gitsync("clone", IDENTITY, "outer/w", "--json", cwd=tmp_path, env=env(stage) | inside)
    assert ran.code == 0, ran.err
    assert (outer / ".git/config").read_text() == before
    assert not (outer / ".git/index").exists()
    git("fetch", cwd=outer / "w")


def test_a_revoked_token_fails_without_a_question(stage: Stage, tmp_path: Path) -> None:
    fill(stage, tmp_path)
    gitsync("clone", IDENTITY, "w", cwd=tmp_path, env=env(stage))
    kept = tmp_path / "w/.git/gitsync-credential"
    kept.write_text(kept.read_text().replace(TOKEN, "gs_revoked"))
    done = subprocess.run(
        ["git", "fetch"],
        cwd=tmp_path / "w",
        env=home_env(tmp_path) | {"GIT_TERMINAL_PROMPT": "0"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode != 0 and "Authentication failed" in done.stderr


def test_users_url_rewrites_do_not_matter(stage: Stage, tmp_path: Path) -> None:
    fill(stage, tmp_path)
    personal = tmp_path / "gitconfig"
    personal.write_text('[url "git@github.com:"]\n\tinsteadOf = https://github.com/\n')
    mine = {"GIT_CONFIG_GLOBAL": str(personal)}
    ran = gitsync("clone", IDENTITY, "w", "--json", cwd=tmp_path, env=env(stage) | mine)
    assert ran.code == 0, ran.err
    sha = commit(tmp_path / "w", "x")
    git("push", cwd=tmp_path / "w", env=mine)
    assert hosted(stage, "main") == sha


def test_the_users_own_credential_helpers_learn_nothing(stage: Stage, tmp_path: Path) -> None:
    fill(stage, tmp_path)
    personal, learnt = tmp_path / "gitconfig", tmp_path / "learnt"
    personal.write_text(f'[credential]\n\thelper = "!f() {{ echo $1 >> {learnt}; }}; f"\n')
    mine = {"GIT_CONFIG_GLOBAL": str(personal)}
    gitsync("clone", IDENTITY, "w", cwd=tmp_path, env=env(stage) | mine)
    git("fetch", cwd=tmp_path / "w", env=mine)
    assert not learnt.exists()


def test_a_real_github_repository_is_cloned_plainly(stage: Stage, tmp_path: Path) -> None:
    shown = stage.workspace() | {"provider": "github", "clone_url": LABEL}
    stage.on(f"GET workspaces/{WORKSPACE}", 200, shown)
    personal = tmp_path / "gitconfig"
    personal.write_text(f'[url "{bare(stage)}"]\n\tinsteadOf = {LABEL}\n')
    mine = {"GIT_CONFIG_GLOBAL": str(personal)}
    fill(stage, tmp_path)
    ran = gitsync("clone", WORKSPACE, "w", "--json", cwd=tmp_path, env=env(stage) | mine)
    assert ran.code == 0, ran.err
    assert ran.json["via"] == "origin"
    assert "vcs" not in (tmp_path / "w/.git/config").read_text()


def ssh_on_this_machine(tmp_path: Path) -> dict[str, str]:
    """What stands for ssh: it runs the command of the other side here."""
    script = tmp_path / "ssh"
    script.write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    script.chmod(0o755)
    return {"GIT_SSH": str(script), "GIT_SSH_VARIANT": "simple"}


@pytest.mark.parametrize("form", ["ssh://git@git.example.com{}", "git@git.example.com:{}"])
def test_a_remote_over_ssh_is_a_second_remote(stage: Stage, tmp_path: Path, form: str) -> None:
    sha = fill(stage, tmp_path)
    shown = stage.workspace() | {"provider": "generic", "clone_url": form.format(bare(stage))}
    stage.on(f"GET workspaces/{WORKSPACE}", 200, shown)
    more = ssh_on_this_machine(tmp_path)
    ran = gitsync("clone", WORKSPACE, "w", "--json", cwd=tmp_path, env=env(stage) | more)
    assert ran.code == 0, ran.err
    assert (ran.json["via"], ran.json["commit_sha"]) == ("second-remote", sha)
    assert git("remote", "get-url", "origin", cwd=tmp_path / "w").strip() == LABEL
    pushed = commit(tmp_path / "w", "x")
    git("push", cwd=tmp_path / "w", env=more)
    assert hosted(stage, "main") == pushed


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% pwned",
        "ext::sh -c touch% a@b:c",
        "-u@h:x",
        "a@-h:x",
        "file:///etc",
        "--upload-pack=x",
        "",
    ],
)
def test_clone_urls_that_git_should_not_follow_are_refused(
    stage: Stage, tmp_path: Path, url: str
) -> None:
    shown = stage.workspace() | {"provider": "generic", "clone_url": url}
    stage.on(f"GET workspaces/{WORKSPACE}", 200, shown)
    ran = gitsync("clone", WORKSPACE, "w", "--json", cwd=tmp_path, env=env(stage))
    assert (ran.code, ran.error["code"]) == (6, "ANSWER_MALFORMED")
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("value", ["plain", "with space", "it's", "back\\slash", "ü#x", ""])
def test_dotenv_values_are_read_back(tmp_path: Path, value: str) -> None:
    from dotenv import dotenv_values

    path = tmp_path / "x.env"
    path.write_text(f"A={quoted(value)}\n")
    assert dotenv_values(path) == {"A": value}
