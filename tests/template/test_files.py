"""Overlays, the disk as a tree, paths and links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitsync.errors import InvalidInput
from gitsync.template.disk import DiskTree
from gitsync.template.files import (
    EmptyTree,
    OverlayTree,
    blob_id,
    check_link,
    check_path,
    walk,
)
from gitsync.tree import Entry, Kind, TooLarge
from tests.template.builders import git, lay_out, put, snapshot

NAMES = st.sampled_from(["a", "b", "A", "c.txt"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
FILES = st.dictionaries(
    PATHS,
    st.tuples(
        st.sampled_from([Kind.FILE, Kind.EXECUTABLE, Kind.LINK]), st.sampled_from([b"x", b"yy"])
    ),
    max_size=8,
)


def consistent(files):
    """Drop paths that lie below another path."""
    return {p: f for p, f in files.items() if not any(p.startswith(f"{other}/") for other in files)}


def seen(tree) -> dict[str, tuple[str, bytes]]:
    return {p: (e.kind.value, tree.read(p, limit=100)) for p, e in walk(tree, "")}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(FILES, FILES)
def test_an_overlay_is_the_tree_one_would_write(base, after):
    base, after = consistent(base), consistent(after)
    changes = {p: (k, None) for p, (k, _) in base.items() if p not in after}
    changes |= {p: f for p, f in after.items() if base.get(p) != f}
    under = OverlayTree(EmptyTree(), base)
    tree = OverlayTree(under, changes)
    assert seen(tree) == {p: (k.value, d) for p, (k, d) in after.items()}
    folders = {""} | {p[:i] for p in after for i, c in enumerate(p) if c == "/"}
    for path in {*base, *after, *folders, *(p.rsplit("/", 1)[0] for p in base if "/" in p)}:
        entry = tree.entry(path)
        if path in after:
            assert entry == Entry(
                path.rsplit("/", 1)[-1],
                after[path][0],
                blob_id(after[path][1]),
                int(after[path][0].value, 8),
            )
            assert list(tree.children(path)) == []
        elif path in folders:
            assert entry.kind is Kind.FOLDER
        else:
            assert entry is None


def test_the_disk_as_a_tree(tmp_path: Path):
    root = put(
        tmp_path / "ws",
        {
            "b/c.txt": "hello\n",
            "b-side": "x",
            "run": ("exe", "#!/bin/sh\n"),
            "link": ("link", "b"),
            ".git/config": "secret",
            "sub/.git": "gitdir: elsewhere",
            "sub/file": "x",
            ".gitsync-apply/journal.json": "{}",
        },
    )
    os.mkfifo(root / "pipe")
    tree = DiskTree(root)
    assert [e.name for e in tree.children("")] == ["b-side", "b", "link", "pipe", "run", "sub"]
    assert tree.entry("link").kind is Kind.LINK
    assert tree.entry("link/c.txt") is None  # a link is not followed
    assert tree.entry(".git/config") is None and tree.children(".git") == ()
    assert tree.entry("sub").kind is Kind.GITLINK
    assert tree.entry("pipe").kind is Kind.GITLINK
    assert tree.entry("run").kind is Kind.EXECUTABLE
    assert tree.read("link", limit=10) == b"b"
    assert b"".join(tree.stream("b/c.txt")) == b"hello\n" and tree.size("b/c.txt") == 6
    with pytest.raises(TooLarge):
        tree.read("b/c.txt", limit=3)


def test_blob_ids_are_gits(tmp_path: Path):
    put(tmp_path, {"f": b"some\0bytes"})
    assert git(tmp_path, "hash-object", "f").strip() == blob_id(b"some\0bytes")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../b",
        "a//b",
        "a/",
        "./a",
        ".git/hooks/x",
        "a/.git",
        ".GIT/x",
        ".git ./x",
        ".git::$INDEX_ALLOCATION/x",
        "git~1/x",
        ".g\u200cit/x",
        "a\\b",
        "a\nb",
        "a\x00b",
        "a\udcff",
        "x" * 2000,
    ],
)
def test_paths_that_are_never_written(path):
    with pytest.raises(InvalidInput):
        check_path(path)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("l", "/etc/passwd"),
        ("l", "../x"),
        ("a/l", "../../x"),
        ("a/l", "b/../../../x"),
        ("l", "d/.."),
        ("l", ""),
        ("l", "."),
        ("a/l", "../.git/hooks"),
        ("l", "a//b"),
    ],
)
def test_links_that_leave_or_could_leave_the_tree(path, target):
    with pytest.raises(InvalidInput):
        check_link(path, target)


def test_the_links_of_skills_are_fine():
    assert check_link(".claude/skills/x", "../../.agents/skills/x")


def test_builders_write_what_they_say(tmp_path: Path):
    files = {"a/b": (Kind.FILE, b"1"), "l": (Kind.LINK, b"a/b"), "e": (Kind.EXECUTABLE, b"2")}
    assert snapshot(lay_out(tmp_path, files)) == {p: (k.value, d) for p, (k, d) in files.items()}
