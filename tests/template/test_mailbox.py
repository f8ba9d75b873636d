"""A plan as a mail: `git am` makes the planned commit of it, whatever stands in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitsync.model import Sha, Signature
from gitsync.template.diff import file_patches
from gitsync.template.disk import DiskTree
from gitsync.template.mailbox import mailbox
from gitsync.template.plan import Plan
from gitsync.tree import Kind
from tests.template.builders import commit_all, git, put, repository
from tests.template.test_commit import tree_of
from tests.template.test_journal import CHANGES, OLD, expected_new


def send(root: Path, changes, author: Signature, message: str) -> str:
    """Make the mail of a plan, and let git take it; the log of what came of it."""
    tree = DiskTree(root)
    mail = mailbox(file_patches(tree, Plan("", (), changes)), author=author, message=message)
    file = root.parent / "mail"
    file.write_bytes(mail.encode())
    git(root, "am", "--quiet", str(file))
    return git(root, "log", "-1", "--format=%an|%ae|%ad|%B", "--date=raw").strip()


@pytest.mark.parametrize(
    "name, message",
    [
        ("Robin Tester", "Add x"),
        ("Ürsula Ñandú", "Füge x hinzu\n\nZwei\nZeilen"),
        ('A "quoted" <name>', "Subject: no header\n\nFrom: nobody\n\nbody"),
        ("R", "A subject that is " + "very " * 40 + "long"),
        ("", "---\n\n--- a\n+++ b\ndiff --git a b\nFrom 123 Mon"),
    ],
)
def test_author_time_and_message_arrive(tmp_path: Path, name: str, message: str):
    root = put(repository(tmp_path / "ws"), {"a": "1\n"})
    commit_all(root)
    who = Signature(name, "robin@example.com", 1_700_000_000, -90)
    said = send(root, {"b": (Kind.FILE, b"2\n")}, who, message)
    wanted = name.replace('"', "").replace("<", "").replace(">", "") or "gitsync"
    assert said.startswith(f"{wanted}|robin@example.com|1700000000 -0130|")
    body = said.split("|", 3)[3]
    assert body.split("\n")[0] == " ".join(message.split("\n")[0].split())
    rest = [line.strip() for line in message.split("\n")[1:] if line]
    assert [line.strip() for line in body.split("\n")[1:] if line] == rest


def test_modes_links_deletions_and_binaries_arrive(tmp_path: Path):
    root = put(repository(tmp_path / "ws"), OLD)
    commit_all(root)
    send(root, CHANGES, Signature("R", "r@example.com", 1), "All of it")
    made = Sha(git(root, "rev-parse", "HEAD").strip())
    assert tree_of(root, made) == expected_new()


@pytest.mark.parametrize("data", [b"a\r\nb\r\n", b"a\r\nb\nc\r", b"\0\r\n\xff", b"x" * 5000])
def test_bytes_arrive_as_they_are(tmp_path: Path, data: bytes):
    root = put(repository(tmp_path / "ws"), {"a": "1\n"})
    commit_all(root)
    send(root, {"b": (Kind.FILE, data)}, Signature("R", "r@example.com", 1), "Bytes")
    made = Sha(git(root, "rev-parse", "HEAD").strip())
    assert tree_of(root, made)["b"] == ("100644", data)
