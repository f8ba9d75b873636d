"""`git-remote-gitsync` by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.kit import IDENTITY, TOKEN, Stage, git, home_env

HELPER = [sys.executable, "-m", "gitsync.remote_helper"]


def test_it_becomes_gits_own_helper(stage: Stage, tmp_path: Path) -> None:
    url = stage.url.replace("://", f"://x:{TOKEN}@") + f"/git/{IDENTITY}.git"
    out = git("ls-remote", f"gitsync::{url}", cwd=tmp_path)
    assert out == ""
    repo = tmp_path / "r"
    repo.mkdir()
    git("init", "-q", cwd=repo)
    git("remote", "add", "up.stream", f"gitsync::{url}", cwd=repo)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=repo)
    git("push", "up.stream", "HEAD:main", cwd=repo)
    assert "refs/heads/main" in git("ls-remote", "up.stream", cwd=repo)
    git("config", "remote.label.url", "https://github.com/a/b.git", cwd=repo)
    git("config", "remote.label.vcs", "gitsync", cwd=repo)
    git("config", "remote.label.gitsyncurl", url, cwd=repo)
    git("remote", "rename", "label", "New.Name", cwd=repo)
    assert "refs/heads/main" in git("ls-remote", "New.Name", cwd=repo)


def test_shallow_and_partial_clones_pass_through(stage: Stage, tmp_path: Path) -> None:
    url = f"gitsync::{stage.url.replace('://', f'://x:{TOKEN}@')}/git/{IDENTITY}.git"
    source = tmp_path / "source"
    source.mkdir()
    git("init", "-q", "-b", "main", cwd=source)
    for number in range(3):
        (source / "file").write_text(str(number))
        git("add", "file", cwd=source)
        git("commit", "-q", "-m", str(number), cwd=source)
    git("push", "-q", url, "main", cwd=source)
    git("clone", "-q", "--depth", "1", url, "shallow", cwd=tmp_path)
    assert git("rev-list", "--count", "HEAD", cwd=tmp_path / "shallow").strip() == "1"
    git("fetch", "-q", "--unshallow", cwd=tmp_path / "shallow")
    assert git("rev-list", "--count", "HEAD", cwd=tmp_path / "shallow").strip() == "3"


def run(cwd: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HELPER, *args], cwd=cwd, env=home_env(cwd), capture_output=True, text=True, timeout=20
    )


def test_a_remote_without_the_real_url_never_reaches_github(tmp_path: Path) -> None:
    git("init", "-q", cwd=tmp_path)
    git("config", "remote.origin.vcs", "gitsync", cwd=tmp_path)
    done = run(tmp_path, "origin", "https://github.com/a/b.git")
    assert done.returncode == 128 and "remote.origin.gitsyncurl is not set" in done.stderr


def test_only_http_is_spoken(tmp_path: Path) -> None:
    git("init", "-q", cwd=tmp_path)
    git("config", "remote.origin.gitsyncurl", "ext::sh -c id", cwd=tmp_path)
    done = run(tmp_path, "origin", "https://github.com/a/b.git")
    assert done.returncode == 128 and "http or https" in done.stderr
    assert run(tmp_path).returncode == 2


def test_it_loads_nothing_but_the_standard_library(tmp_path: Path) -> None:
    code = (
        "import sys; before = set(sys.modules); import gitsync.remote_helper; "
        "print(sorted(set(sys.modules) - before - {'__future__'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['gitsync', 'gitsync.remote_helper']"
