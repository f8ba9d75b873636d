"""The patch of a plan does with git exactly what the plan does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gitsync.template.diff import patch
from gitsync.template.disk import DiskTree
from gitsync.template.plan import Plan
from gitsync.tree import Kind
from tests.template.builders import commit_all, put, repository, snapshot
from tests.template.test_journal import CHANGES, OLD, expected_new

CASES = {
    "everything": (OLD, CHANGES),
    "no newline": ({"a": "x\ny"}, {"a": (Kind.FILE, b"x\nz"), "b": (Kind.FILE, b"q")}),
    "newline comes": ({"a": "x\ny"}, {"a": (Kind.FILE, b"x\ny\n")}),
    "newline goes": ({"a": "x\ny\n"}, {"a": (Kind.FILE, b"x\ny")}),
    "empty files": (
        {"a": "", "b": ""},
        {"a": (Kind.FILE, None), "c": (Kind.FILE, b""), "b": (Kind.FILE, b"x\n")},
    ),
    "mode alone": ({"a": "x\n"}, {"a": (Kind.EXECUTABLE, b"x\n")}),
    "mode and text": ({"a": ("exe", "x\n")}, {"a": (Kind.FILE, b"y\n")}),
    "binary": (
        {"a": bytes(range(256)), "b": b"\x00"},
        {
            "a": (Kind.FILE, bytes(reversed(range(256))) * 50),
            "b": (Kind.FILE, None),
            "c": (Kind.FILE, b"\0\1" * 999),
        },
    ),
    "latin-1": ({"a": b"caf\xe9\n"}, {"a": (Kind.FILE, b"caf\xe8\n")}),
    "carriage returns": ({"a": b"x\r\ny\r\n"}, {"a": (Kind.FILE, b"x\r\nz\r\n")}),
    "odd separators": (
        {"a": "a\x0cb\u2028c\x85d\n"},
        {"a": (Kind.FILE, "a\x0cB\u2028c\x85d\n".encode())},
    ),
    "names": (
        {"sp ace": "x\n", 'q"uote': "x\n", "ümlaut": "x\n"},
        {
            "sp ace": (Kind.FILE, b"y\n"),
            'q"uote': (Kind.FILE, b"y\n"),
            "ümlaut": (Kind.FILE, b"y\n"),
            "tab\there": (Kind.FILE, b"n\n"),
        },
    ),
    "link retargeted": ({"a": "x", "l": ("link", "a")}, {"l": (Kind.LINK, b"b")}),
    "long": (
        {"a": "".join(f"{n}\n" for n in range(15_000))},
        {"a": (Kind.FILE, "".join(f"{n * 2}\n" for n in range(15_000)).encode())},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_git_apply_gives_the_planned_tree(tmp_path: Path, name):
    old, changes = CASES[name]
    root = put(repository(tmp_path / "ws"), old)
    commit_all(root)
    before = snapshot(root)
    text = patch(DiskTree(root), Plan("", (), changes))
    done = subprocess.run(
        ["git", "apply", "--index", "--whitespace=nowarn", "-"],
        cwd=root, input=text, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode() + text.decode("utf-8", "replace")[:2000]
    if name == "everything":
        assert snapshot(root) == expected_new()
        return
    expected = {p: f for p, f in before.items() if p not in changes}
    expected |= {p: (k.value, d) for p, (k, d) in changes.items() if d is not None}
    assert snapshot(root) == expected
