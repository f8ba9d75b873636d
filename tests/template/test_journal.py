"""Writing into a checkout: all or nothing, whatever happens in between."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gitsync.errors import Conflict
from gitsync.template.disk import JOURNAL, DiskTree
from gitsync.template.journal import apply_plan, recover
from gitsync.template.plan import Plan, side_of
from gitsync.tree import Kind
from tests.template.builders import put, snapshot

OLD = {
    "a.txt": "old a\n",
    "keep.txt": "kept\n",
    "was-file": "soon a folder\n",
    "was-folder/one": "1\n",
    "was-folder/two": "2\n",
    "was-link": ("link", "keep.txt"),
    "deep/er/gone.txt": "gone\n",
    "run.sh": "#!/bin/sh\n",
}
CHANGES = {
    "a.txt": (Kind.FILE, b"new a\n"),
    "run.sh": (Kind.EXECUTABLE, b"#!/bin/sh\n"),
    "was-file": (Kind.FILE, None),
    "was-file/inside": (Kind.FILE, b"in\n"),
    "was-folder/one": (Kind.FILE, None),
    "was-folder/two": (Kind.FILE, None),
    "was-folder": (Kind.LINK, b"keep.txt"),
    "was-link": (Kind.FILE, b"a file now\n"),
    "deep/er/gone.txt": (Kind.FILE, None),
    "new/very/deep/file": (Kind.FILE, b"x" * 100_000),
    "new/link": (Kind.LINK, b"../keep.txt"),
}


def plan_for(root: Path, changes=CHANGES) -> Plan:
    tree = DiskTree(root)
    before = {path: side_of(tree, path) for path in changes}
    return Plan("test", (), changes, (), before)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return put(tmp_path / "ws", OLD)


def expected_new() -> dict[str, tuple[str, bytes]]:
    return {
        "keep.txt": ("100644", b"kept\n"),
        **{p: (k.value, d) for p, (k, d) in CHANGES.items() if d is not None},
    }


def test_apply_makes_every_change_and_leaves_nothing_behind(old):
    apply_plan(old, plan_for(old))
    assert snapshot(old) == expected_new()


def test_emptied_folders_go_and_used_ones_stay(old):
    put(old, {"deep/other": "stays\n"})
    apply_plan(old, plan_for(old))
    assert (old / "deep/other").exists() and not (old / "deep/er").exists()


WRITES = {"os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir", "os.truncate"}


def run_killed(root: Path, limit: int) -> tuple[bool, int]:
    """Apply in a child that kills itself before write `limit`: was it killed, how many writes."""
    plan = plan_for(root)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        count = 0

        def watch(event, args):
            nonlocal count
            if event in WRITES or (
                event == "open" and isinstance(args[2], int) and args[2] & os.O_CREAT
            ):
                count += 1
                if count == limit:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        try:
            apply_plan(root, plan)
            os.write(writer, str(count).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = pipe.read()
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status), int(told or 0)


@pytest.mark.slow
def test_a_kill_before_any_write_leaves_the_old_or_the_new_tree(tmp_path):
    """Every single write is a point to be killed at: there are more than fifty of them."""
    before = snapshot(put(tmp_path / "model", OLD))
    killed, total = run_killed(put(tmp_path / "count", OLD), 10**6)
    assert not killed and total >= 50
    seen = set()
    for limit in range(1, total + 1):
        root = put(tmp_path / f"k{limit}", OLD)
        assert run_killed(root, limit)[0]
        recover(root)
        after = snapshot(root)
        assert after in (before, expected_new()), limit
        seen.add(after == before)
        if after == before:
            apply_plan(root, plan_for(root))
        assert snapshot(root) == expected_new()
    assert seen == {True, False}


def test_a_kill_and_a_link_swapped_in_never_write_outside(tmp_path):
    """After the kill a folder becomes a link to the outside: nothing goes there."""
    rng = random.Random(20_261_129)
    for round_ in range(12):
        root = put(tmp_path / f"r{round_}" / "ws", OLD)
        outside = put(
            tmp_path / f"r{round_}" / "outside", {"er/precious": "mine\n", "precious": "mine\n"}
        )
        before, untouched = snapshot(root), snapshot(outside)
        assert run_killed(root, rng.randrange(22, 50))[0]
        swapped = None
        for name in ("deep", "new", "was-file", "was-folder"):
            if (root / name).is_dir() and not (root / name).is_symlink():
                swapped = name
                os.rename(root / name, root / f"{name}.aside")
                os.symlink(outside, root / name)
                break
        with contextlib.suppress(Conflict):  # a folder is a link now: that cannot be undone yet
            recover(root)
        assert snapshot(outside) == untouched
        if swapped:
            if (root / swapped).is_symlink():
                (root / swapped).unlink()
            if not (root / swapped).exists():
                os.rename(root / f"{swapped}.aside", root / swapped)
            recover(root)
            assert snapshot(outside) == untouched
        else:
            assert snapshot(root) in (before, expected_new())


def test_a_link_swapped_in_between_plan_and_write_stops_everything(old, tmp_path):
    outside = put(tmp_path / "outside", {"er/gone.txt": "theirs\n"})
    plan = plan_for(old)
    (old / "deep/er/gone.txt").unlink()
    (old / "deep/er").rmdir()
    (old / "deep").rmdir()
    os.symlink(outside, old / "deep")
    before = snapshot(old)
    with pytest.raises(Conflict, match="Everything is as before"):
        apply_plan(old, plan)
    assert snapshot(old) == before
    assert snapshot(outside) == {"er/gone.txt": ("100644", b"theirs\n")}


@pytest.mark.parametrize("path", ["a.txt", "was-folder/two", "was-link"])
def test_an_edit_between_plan_and_write_is_not_lost(old, path):
    plan = plan_for(old)
    (old / path).unlink()
    (old / path).write_text("edited meanwhile\n")
    before = snapshot(old)
    with pytest.raises(Conflict, match="changed meanwhile|Everything is as before"):
        apply_plan(old, plan)
    assert snapshot(old) == before


def test_a_file_that_appears_between_plan_and_write_is_not_overwritten(old):
    plan = plan_for(old)
    put(old, {"new/link": "somebody was faster\n"})
    before = snapshot(old)
    with pytest.raises(Conflict):
        apply_plan(old, plan)
    assert snapshot(old) == before


def test_a_folder_that_takes_a_files_place_is_put_back(old):
    plan = plan_for(old)
    (old / "a.txt").unlink()
    put(old, {"a.txt/inside": "x\n"})
    before = snapshot(old)
    with pytest.raises(Conflict):
        apply_plan(old, plan)
    assert snapshot(old) == before


def test_an_edit_after_the_kill_is_kept_and_told(tmp_path):
    root = put(tmp_path / "ws", OLD)
    for limit in range(30, 60):
        root = put(tmp_path / f"k{limit}", OLD)
        run_killed(root, limit)
        if (
            (root / "a.txt").exists()
            and (root / "a.txt").read_text() == "new a\n"
            and (root / JOURNAL / "journal.json").exists()
        ):
            break
    else:
        pytest.fail("no kill point after a.txt was put")
    (root / "a.txt").write_text("edited after the crash\n")
    with pytest.raises(Conflict, match=r"a\.txt"):
        recover(root)
    assert (root / "a.txt").read_text() == "edited after the crash\n"
    (root / "a.txt").unlink()
    assert recover(root)
    assert (root / "a.txt").read_text() == "old a\n"
    assert not (root / JOURNAL).exists()


def test_only_one_apply_at_a_time(old):
    holder = subprocess.Popen(
        [
            sys.executable, "-c",
            "import fcntl,os,sys\nos.mkdir(sys.argv[1])\nf=os.open(sys.argv[1],os.O_RDONLY)\n"
            "fcntl.flock(f,fcntl.LOCK_EX)\nprint('held',flush=True)\nsys.stdin.read()",
            str(old / JOURNAL),
        ],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Conflict, match="at work"):
            apply_plan(old, plan_for(old))
        holder.stdin.close()
    apply_plan(old, plan_for(old))
    assert snapshot(old) == expected_new()


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_journal_that_is_no_folder_is_refused(old, tmp_path, kind):
    outside = put(tmp_path / "outside", {"x": "y\n"})
    if kind == "link":
        os.symlink(outside, old / JOURNAL)
    else:
        (old / JOURNAL).write_text("?")
    with pytest.raises(Conflict, match="no folder"):
        apply_plan(old, plan_for(old))
    assert snapshot(outside) == {"x": ("100644", b"y\n")}


@pytest.mark.parametrize(
    "path", ["../evil", "/etc/evil", ".git/hooks/post-checkout", "x/.GIT/config", "a//b"]
)
def test_a_committed_journal_cannot_write_elsewhere(old, path):
    """A hostile repository may bring a journal of its own."""
    import json

    moves = [{"path": path, "old": "100644 " + "0" * 40, "new": None}]
    put(
        old,
        {
            f"{JOURNAL}/journal.json": json.dumps({"schema": 1, "folders": [], "moves": moves}),
            f"{JOURNAL}/old-0": "evil",
        },
    )
    from gitsync.errors import InvalidInput

    with pytest.raises(InvalidInput):
        recover(old)
    assert not (old.parent / "evil").exists() and not (old / ".git").exists()


@pytest.mark.parametrize("limit", [None, *range(22, 60, 3)])
def test_file_systems_without_hard_links(tmp_path, monkeypatch, limit):
    """Some network and container file systems refuse them: then files are moved."""
    import errno

    def refuse(*args, **kwargs):
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    root = put(tmp_path / "ws", OLD)
    before = snapshot(root)
    if limit is None:
        apply_plan(root, plan_for(root))
        assert snapshot(root) == expected_new()
        return
    killed, _ = run_killed(root, limit)
    recover(root)
    assert snapshot(root) == (before if killed else expected_new()) or killed
    assert snapshot(root) in (before, expected_new())


def test_a_full_disk_leaves_everything_as_it_was(old):
    """A limit on the size of files stands for it: the largest new file cannot be written."""
    plan, before = plan_for(old), snapshot(old)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
            apply_plan(old, plan)
        except Conflict as e:
            code = 7 if "cannot be written" in e.message else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert snapshot(old) == before
