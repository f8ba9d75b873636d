"""Patterns decide as Git decides, and fast whatever they say."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest

from gitsync.template.disk import DiskTree
from gitsync.template.globs import Globs
from gitsync.template.lock import Lock
from gitsync.template.plan import Draft
from tests.template.builders import put, repository

PIECES = ["a", "b", "*", "?", "**", "[ab]", "[!a]", "a*", "*.txt", "\\*", "ab", "[a-b]c"]
NAMES = ["a", "b", "ab", "bc", "a.txt", "c", "*"]


def ignored_by_git(root: Path, paths: list[str]) -> set[str]:
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=root,
        input="\0".join(paths).encode(),
        capture_output=True,
    )
    assert done.returncode in (0, 1), done.stderr
    return {p for p in done.stdout.decode().split("\0") if p}


def test_gitignore_files_mean_what_git_takes_them_for(tmp_path: Path):
    rng = random.Random(7)
    for round_ in range(100):
        lines = []
        for _ in range(rng.randrange(1, 6)):
            body = "/".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 4)))
            line = rng.choice(["", "", "", "!"]) + rng.choice(["", "", "/"]) + body
            lines.append(line + rng.choice(["", "", "/", " "]))
        root = repository(tmp_path / str(round_))
        put(root, {".gitignore": "\n".join(lines) + "\n", "a/.gitignore": "b\n!ab\n"})
        paths = sorted(
            {"/".join(rng.choice(NAMES) for _ in range(rng.randrange(1, 4))) for _ in range(40)}
        )
        paths = [p for p in paths if p != "a"]  # it is a folder there, and asked for as a file
        draft = Draft(DiskTree(root), Lock())
        mine = {p for p in paths if draft.is_ignored(p)}
        assert mine == ignored_by_git(root, paths), lines


@pytest.mark.parametrize(
    "pattern", ["*a" * 100 + "b", "**/" * 100 + "x", "[" * 200, "a" * 499 + "*"]
)
def test_no_pattern_is_slow(pattern):
    globs = Globs.parse([pattern] * 50)
    started = time.process_time()
    assert not globs.covers("/".join(["a" * 200] * 5))
    assert time.process_time() - started < 2


def test_anchored_lists_reach_folders_but_not_namesakes():
    globs = Globs.parse(["AGENTS.md", "configs/**/default.toml", "data/*"], is_anchored=True)
    assert globs.covers("AGENTS.md") and not globs.covers("configs/AGENTS.md")
    assert globs.covers("configs/eval/default.toml") and globs.covers("configs/default.toml")
    assert globs.covers("data/deep/file") and not globs.covers("data")
