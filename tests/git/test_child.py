"""One hardened git child."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from gitsync.errors import ConfigError
from gitsync.git import child
from gitsync.git.child import MIB, ChildLimits, Guard
from gitsync.git.failures import LimitHit, RepositoryBusy, RepositoryCorrupt
from gitsync.git.lock import RepoLock
from tests.git.kit import checkout, eventually, processes

SLEEP = ["-c", "alias.nap=!sleep 60", "nap"]


def test_a_child_sees_nothing_of_our_environment(monkeypatch):
    monkeypatch.setenv("GITSYNC_SECRET_KEYS", "canary")
    monkeypatch.setenv("HTTPS_PROXY", "http://evil.example")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    ended = child.run(["-c", "alias.surroundings=!env", "surroundings"])
    text = ended.stdout.decode()
    assert ended.ok
    assert "canary" not in text and "evil.example" not in text
    names = {line.partition("=")[0] for line in text.splitlines()}
    assert not {n for n in names if n.startswith("GITSYNC_")} - {"GITSYNC_CHILD"}
    assert "HOME=/nonexistent" in text


def test_user_and_system_configuration_have_no_effect(tmp_path, monkeypatch):
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Canary\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert b"Canary" not in child.run(["config", "--list"]).stdout


def test_the_deadline_ends_the_whole_group():
    begun = time.monotonic()
    ended = child.run(SLEEP, limits=ChildLimits(seconds=0.5))
    assert ended.timed_out and not ended.ok
    assert time.monotonic() - begun < 4
    assert eventually(lambda: not processes("sleep 60"))


def test_a_cancelled_guard_ends_the_child():
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    begun = time.monotonic()
    ended = child.run(SLEEP, guard=Guard(cancel=stop))
    assert ended.cancelled and not ended.timed_out
    assert time.monotonic() - begun < 4
    assert eventually(lambda: not processes("sleep 60"))


def test_the_caller_hears_of_the_group():
    seen: list[tuple[str, int]] = []
    guard = Guard(
        on_start=lambda g: seen.append(("start", os.getpgid(g))),
        on_end=lambda g: seen.append(("end", g)),
    )
    child.run(["version"], guard=guard)
    assert [what for what, _ in seen] == ["start", "end"]
    assert seen[0][1] == seen[1][1]


def test_memory_file_and_output_limits(tmp_path):
    many = ["-c", "alias.zeros=!head -c 5000000 /dev/zero", "zeros"]
    with pytest.raises(LimitHit):
        child.run(many, limits=ChildLimits(output_bytes=MIB))
    fat = ["-c", "alias.fat=!python3 -c 'bytearray(400000000)'", "fat"]
    assert not child.run(fat, limits=ChildLimits(memory=200 * MIB)).ok
    big = ["-c", f"alias.big=!head -c 5000000 /dev/zero > {tmp_path}/big", "big"]
    assert not child.run(big, limits=ChildLimits(file_bytes=MIB)).ok
    assert (tmp_path / "big").stat().st_size <= MIB


def test_stdin_larger_than_a_pipe_and_stdout_at_once(tmp_path):
    work = checkout(tmp_path / "w")
    data = os.urandom(2 * MIB)
    args = [f"--git-dir={work}/.git", "-c", "alias.echo=!cat", "echo"]
    assert child.run(args, stdin=data).stdout == data
    assert child.run(["-c", "alias.deaf=!true", "deaf"], stdin=data).ok


def test_a_stream_that_fails_raises(tmp_path):
    work = checkout(tmp_path / "w")
    with pytest.raises(RepositoryCorrupt):
        list(child.stream([f"--git-dir={work}/.git", "cat-file", "blob", "1" * 40]))


def test_a_stream_that_is_given_up_ends_its_child():
    pieces = child.stream(["-c", "alias.yes=!yes", "yes"])
    assert len(next(pieces)) <= 64 * 1024
    pieces.close()
    assert eventually(lambda: not processes("alias.yes"))


def test_a_turn_begins_only_when_orphans_are_gone(tmp_path):
    """A server that was killed leaves a child; its copy of the lock keeps others out."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from gitsync.git import child\n"
        "from gitsync.git.lock import RepoLock\n"
        f"with RepoLock(Path({str(tmp_path / 'r.git')!r})).held() as fd:\n"
        f"    child.run({SLEEP!r}, guard=child.Guard(lock_fd=fd,\n"
        "        on_start=lambda g: print(g, flush=True)))\n"
    )
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert server.stdout
    group = int(server.stdout.readline())
    server.kill()
    server.wait()
    server.stdout.close()
    lock = RepoLock(tmp_path / "r.git")
    with pytest.raises(RepositoryBusy), lock.held(wait=0.2):
        pass
    assert child.end_group(group)
    with lock.held(wait=2):
        pass
    assert not child.end_group(group)


def test_a_group_that_is_not_ours_is_left_alone():
    other = subprocess.Popen(["sleep", "30"], start_new_session=True)
    try:
        assert not child.end_group(other.pid)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_shared_and_exclusive_locks(tmp_path):
    lock = RepoLock(tmp_path / "r.git")
    first = lock.take(shared=True)
    second = lock.take(shared=True)
    with pytest.raises(RepositoryBusy):
        lock.take()
    os.close(first)
    os.close(second)
    with lock.held(), pytest.raises(RepositoryBusy):
        lock.take(shared=True)


def test_the_programs_that_are_needed(tmp_path, monkeypatch):
    assert child.check_programs()[0].isdigit()
    old = tmp_path / "git"
    old.write_text("#!/bin/sh\necho git version 2.38.1\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ConfigError, match=r"2\.39"):
        child.check_programs()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="timeout"):
        child.check_programs()
