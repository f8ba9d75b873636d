"""`pull`: verified bytes, a whole folder or none, and what a bad network may do about it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
import threading
import time
from pathlib import Path

import pytest

from gitsync.client import (
    ArtifactUnsafe,
    DigestMismatch,
    ServerRefused,
    ServerUnreachable,
    TargetExists,
)
from gitsync.client.artifact import pull
from gitsync.client.selector import Selector
from gitsync.errors import InvalidInput
from tests.cli.kit import GITSYNC, TOKEN, WORKSPACE, Stage, gitsync, home_env, special, tar_of

GOOD = tar_of(
    ("data/x.jsonl", b"{}\n"),
    ("rollouts/demo/main.py", b"print('hi')\n" * 20_000),
    ("rollouts/demo/run.sh", b"#!/bin/sh\n"),
    ("rollouts/demo/shared", "../../data"),
    ("rollouts/dém o/ü.py", b""),
)
DIGEST = hashlib.sha256(GOOD).hexdigest()


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"GITSYNC_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)}


@pytest.fixture
def good(stage: Stage) -> Stage:
    stage.artifacts[DIGEST] = GOOD
    stage.on(
        f"POST workspaces/{WORKSPACE}/resolve",
        200,
        {
            "commit_sha": "a" * 40,
            "rollout": "demo",
            "entrypoint": "main.py",
            "digest": DIGEST,
            "size": len(GOOD),
            "verdict": "ok",
            "substituted": False,
        },
    )
    return stage


def left_behind(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir() if p.name.startswith(".") and ".out" in p.name]


def test_a_resolved_rollout_lies_in_the_folder(good: Stage, tmp_path: Path, env) -> None:
    out = tmp_path / "new" / "out"
    found = pull("demo:main.py@branch:feat/x@2", out, place=good.place(), env=env)
    assert (found.digest, found.files, found.from_cache) == (DIGEST, 5, False)
    assert (out / "rollouts/demo/main.py").read_bytes() == b"print('hi')\n" * 20_000
    assert os.readlink(out / "rollouts/demo/shared") == "../../data"
    assert (out / "rollouts/demo/shared/x.jsonl").read_bytes() == b"{}\n"
    assert (out / "rollouts/dém o/ü.py").read_bytes() == b""
    assert good.asked("resolve")[0].body == {
        "rollout": "demo",
        "entrypoint": "main.py",
        "branch": "feat/x@2",
    }
    assert left_behind(out.parent) == []


def test_modes_are_those_of_git_under_the_umask(stage: Stage, tmp_path: Path, env) -> None:
    info = tarfile.TarInfo("run.sh")
    info.mode = 0o755
    data = tar_of(("a.py", b"x"), ("run.sh", info))
    digest = hashlib.sha256(data).hexdigest()
    stage.artifacts[digest] = data
    mask = os.umask(0o027)
    try:
        pull(digest, tmp_path / "out", place=stage.place(), env=env)
    finally:
        os.umask(mask)
    modes = [(tmp_path / "out" / n).stat().st_mode & 0o777 for n in (".", "a.py", "run.sh")]
    assert modes == [0o750, 0o640, 0o750]


def test_a_cached_digest_needs_no_server(good: Stage, tmp_path: Path, env) -> None:
    pull("demo", tmp_path / "out", place=good.place(), env=env)
    asked = len(good.calls)
    again = pull(DIGEST, tmp_path / "again", env=env)
    assert again.from_cache and again.files == 5
    assert len(good.calls) == asked
    with pytest.raises(InvalidInput, match="Which server"):
        pull("0" * 64, tmp_path / "other", env=env)


def test_the_environment_says_where_to_pull_from(good: Stage, tmp_path: Path, env) -> None:
    env |= {"PATH": os.environ["PATH"], "GITSYNC_SERVER": good.url, "GITSYNC_TOKEN": TOKEN}
    found = pull("demo", tmp_path / "out", env=env | {"GITSYNC_WORKSPACE": "Demo team"})
    assert found.digest == DIGEST


def test_a_damaged_cache_entry_is_noticed_and_fetched_anew(
    good: Stage, tmp_path: Path, env
) -> None:
    pull(DIGEST, tmp_path / "out", place=good.place(), env=env)
    entry = tmp_path / "cache" / DIGEST[:2] / f"{DIGEST}.tar"
    entry.write_bytes(entry.read_bytes()[:-1] + b"!")
    found = pull(f"sha256:{DIGEST}", tmp_path / "again", place=good.place(), env=env)
    assert not found.from_cache
    assert hashlib.sha256(entry.read_bytes()).hexdigest() == DIGEST


def test_a_broken_download_goes_on_where_it_stopped(good: Stage, tmp_path: Path, env) -> None:
    good.faults[:] = ["break", "503", "break"]
    seen: list[tuple[int, int | None]] = []
    pull(
        "demo", tmp_path / "out", place=good.place(), env=env, on_progress=lambda *p: seen.append(p)
    )
    ranges = [call.headers.get("range") for call in good.asked("artifacts")]
    half = len(GOOD) // 2
    assert ranges[:3] == [None, f"bytes={half}-", f"bytes={half}-"]
    assert ranges[3] == f"bytes={half + (len(GOOD) - half) // 2}-"
    assert seen[-1] == (len(GOOD), len(GOOD))


def test_the_next_process_goes_on_with_the_part(good: Stage, tmp_path: Path, env) -> None:
    part = tmp_path / "cache" / DIGEST[:2] / f"{DIGEST}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(GOOD[:1000])
    pull("demo", tmp_path / "out", place=good.place(), env=env)
    assert good.asked("artifacts")[0].headers["range"] == "bytes=1000-"
    assert good.asked("artifacts")[0].headers["if-range"] == f'"{DIGEST}"'
    assert not part.exists()


def test_a_killed_pull_leaves_no_folder_and_is_continued(good: Stage, tmp_path: Path, env) -> None:
    good.faults[:] = ["stall"]
    more = {"GITSYNC_SERVER": good.url, "GITSYNC_TOKEN": TOKEN, "GITSYNC_WORKSPACE": WORKSPACE}
    with subprocess.Popen(
        [str(GITSYNC), "pull", "demo", "out"], cwd=tmp_path, env=home_env(tmp_path) | env | more
    ) as child:
        assert good.stalled.wait(30)
        part = tmp_path / "cache" / DIGEST[:2] / f"{DIGEST}.part"
        while not part.exists() or part.stat().st_size < len(GOOD) // 3:
            time.sleep(0.01)
        child.kill()
    good.go_on.set()
    assert not (tmp_path / "out").exists()
    have = part.stat().st_size
    pull("demo", tmp_path / "out", place=good.place(), env=env)
    assert good.asked("artifacts")[-1].headers["range"] == f"bytes={have}-"
    assert (tmp_path / "out/data/x.jsonl").exists()


@pytest.mark.parametrize("begin", [b"rubbish", GOOD, GOOD + b"more"])
def test_a_part_of_something_else_is_thrown_away(
    good: Stage, tmp_path: Path, env, begin: bytes
) -> None:
    part = tmp_path / "cache" / DIGEST[:2] / f"{DIGEST}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(begin)
    pull(DIGEST, tmp_path / "out", place=good.place(), env=env)
    assert (tmp_path / "out/data/x.jsonl").exists()


def test_a_server_without_ranges_starts_anew(good: Stage, tmp_path: Path, env) -> None:
    good.faults[:] = ["break", "no-ranges"]
    pull("demo", tmp_path / "out", place=good.place(), env=env)
    assert (tmp_path / "out/data/x.jsonl").exists()


def test_other_bytes_are_refused_and_leave_nothing(good: Stage, tmp_path: Path, env) -> None:
    good.faults[:] = ["lie", "lie"]
    with pytest.raises(DigestMismatch, match=DIGEST):
        pull("demo", tmp_path / "out", place=good.place(), env=env)
    assert not (tmp_path / "out").exists()
    assert [p.suffix for p in (tmp_path / "cache").rglob("*") if p.is_file()] == [".lock"]
    assert left_behind(tmp_path) == []


def test_bytes_that_were_wrong_once_are_asked_for_again(good: Stage, tmp_path: Path, env) -> None:
    good.faults[:] = ["lie"]
    pull("demo", tmp_path / "out", place=good.place(), env=env)
    assert (tmp_path / "out/data/x.jsonl").exists()


def test_a_download_that_never_moves_gives_up(
    good: Stage, tmp_path: Path, env, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitsync.client.download.ATTEMPTS", 3)
    good.faults[:] = ["503"] * 20
    with pytest.raises(ServerUnreachable):
        pull("demo", tmp_path / "out", place=good.place(), env=env)
    assert len(good.asked("artifacts")) == 3


def test_processes_that_want_the_same_download_it_once(good: Stage, tmp_path: Path, env) -> None:
    errors: list[BaseException] = []

    def one(number: int) -> None:
        try:
            pull("demo", tmp_path / f"out{number}", place=good.place(), env=env)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(good.asked("artifacts")) == 1
    assert all((tmp_path / f"out{n}/data/x.jsonl").exists() for n in range(6))


def test_a_cache_that_cannot_be_written_is_done_without(good: Stage, tmp_path: Path, env) -> None:
    (tmp_path / "cache").write_text("a file")
    found = pull("demo", tmp_path / "out", place=good.place(), env=env)
    assert found.files == 5


def test_a_folder_that_is_there_is_kept_unless_told_otherwise(
    good: Stage, tmp_path: Path, env
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("precious")
    with pytest.raises(TargetExists):
        pull("demo", out, place=good.place(), env=env)
    good.faults[:] = ["lie", "lie"]
    with pytest.raises(DigestMismatch):
        pull("demo", out, place=good.place(), env=env, is_replacing=True)
    assert (out / "mine").read_text() == "precious"
    pull("demo", out, place=good.place(), env=env, is_replacing=True)
    assert sorted(p.name for p in out.iterdir()) == ["data", "rollouts"]
    assert left_behind(tmp_path) == []


def test_an_empty_folder_is_filled(good: Stage, tmp_path: Path, env) -> None:
    (tmp_path / "out").mkdir()
    pull("demo", tmp_path / "out", place=good.place(), env=env)
    assert (tmp_path / "out/rollouts").is_dir()


def test_a_link_in_place_of_the_folder_is_not_followed(good: Stage, tmp_path: Path, env) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").symlink_to("elsewhere")
    with pytest.raises(TargetExists):
        pull("demo", tmp_path / "out", place=good.place(), env=env)
    pull("demo", tmp_path / "out", place=good.place(), env=env, is_replacing=True)
    assert not (tmp_path / "out").is_symlink()
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("name", [".", "..", "../..", "/", "x/.."])
def test_a_folder_that_cannot_be_renamed_is_refused(
    good: Stage, tmp_path: Path, env, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    here = tmp_path / "a" / "b"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    with pytest.raises(InvalidInput):
        pull("demo", Path(name), place=good.place(), env=env, is_replacing=True)
    assert good.calls == []


HOSTILE = {
    "absolute": [("/etc/x", b"x")],
    "parent": [("../x", b"x")],
    "parent-inside": [("a/../../x", b"x")],
    "dot": [("./x", b"x")],
    "empty-part": [("a//x", b"x")],
    "twice": [("a", b"1"), ("a", b"2")],
    "link-then-file": [("a", "b"), ("a", b"2")],
    "file-then-link": [("a", b"2"), ("a", "b")],
    "file-below-link": [("a", "."), ("a/x", b"x")],
    "link-below-link": [("a", "b"), ("a/x", "y")],
    "below-a-file": [("a", b"x"), ("a/x", b"x")],
    "folder-becomes-file": [("a/x", b"x"), ("a", b"x")],
    "folder-becomes-link": [("a/x", b"x"), ("a", "elsewhere")],
    "absolute-link": [("a", "/etc/passwd")],
    "link-up": [("a/b", "../../x")],
    "link-through-link": [("d/e/up", "../.."), ("x", "d/e/up/../secret")],
    "links-in-a-row": [("a", "b"), ("b", "c"), ("c", "../x")],
    "empty-link": [special("a", tarfile.SYMTYPE, linkname="")],
    "hard-link": [("a", b"x"), special("b", tarfile.LNKTYPE, linkname="a")],
    "folder": [special("a", tarfile.DIRTYPE)],
    "pipe": [special("a", tarfile.FIFOTYPE)],
    "device": [special("a", tarfile.CHRTYPE, devmajor=1, devminor=3)],
    "sparse": [special("a", tarfile.GNUTYPE_SPARSE)],
    "long": [("a/" * 2100 + "x", b"x")],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_leave_nothing(stage: Stage, tmp_path: Path, env, name: str) -> None:
    data = tar_of(("fine", b"ok"), *HOSTILE[name])
    digest = hashlib.sha256(data).hexdigest()
    stage.artifacts[digest] = data
    (tmp_path / "secret").write_text("s")
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    with pytest.raises(ArtifactUnsafe):
        pull(digest, tmp_path / "out", place=stage.place(), env=env)
    after = [p for p in sorted(str(p) for p in tmp_path.rglob("*")) if "/cache" not in p]
    assert after == before


@pytest.mark.parametrize(
    "members",
    [
        [("a", "b"), ("b", "a")],  # a loop: the system refuses to follow it
        [("a", "nowhere/x")],
        [("a/b", "../c"), ("c", b"x")],
        [("a/l", "."), ("x", "a/l/l/l/y"), ("a/y", b"")],
    ],
)
def test_links_that_stay_inside_are_kept(stage: Stage, tmp_path: Path, env, members) -> None:
    data = tar_of(*members)
    digest = hashlib.sha256(data).hexdigest()
    stage.artifacts[digest] = data
    pull(digest, tmp_path / "out", place=stage.place(), env=env)
    for name, content in members:
        if isinstance(content, str):
            assert os.readlink(tmp_path / "out" / name) == content


def test_cut_off_archives_are_refused(stage: Stage, tmp_path: Path, env) -> None:
    data = tar_of(("a", b"x" * 5000))[:2000]
    digest = hashlib.sha256(data).hexdigest()
    stage.artifacts[digest] = data
    with pytest.raises(ArtifactUnsafe):
        pull(digest, tmp_path / "out", place=stage.place(), env=env)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("chess", Selector("chess")),
        ("chess:main.py", Selector("chess", "main.py")),
        ("chess@abcdef1", Selector("chess", None, "abcdef1")),
        ("chess:a/b.py@branch:feat/x", Selector("chess", "a/b.py", None, "feat/x")),
        ("chess@branch:a@b", Selector("chess", None, None, "a@b")),
    ],
)
def test_selectors(text: str, expected: Selector) -> None:
    assert Selector.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@abcdef1",
        ":main.py",
        "a:",
        "a@",
        "a@main",
        "a@abc",
        "a@branch:",
        "a/b",
        "a@" + "f" * 41,
    ],
)
def test_bad_selectors(text: str) -> None:
    with pytest.raises(InvalidInput):
        Selector.parse(text)


def test_a_refusal_of_the_server_is_passed_on(stage: Stage, tmp_path: Path, env) -> None:
    body = {
        "error": "x",
        "message": "main.py has no Grader.",
        "code": "ROLLOUT_INVALID",
        "issues": [{"key": "rollouts/demo/main.py:3", "message": "no Grader"}],
    }
    stage.on(f"POST workspaces/{WORKSPACE}/resolve", 400, body)
    with pytest.raises(ServerRefused) as caught:
        pull("demo", tmp_path / "out", place=stage.place(), env=env)
    assert caught.value.server_code == "ROLLOUT_INVALID"


def test_the_command_names_the_last_good_version(stage: Stage, tmp_path: Path) -> None:
    body = {
        "message": "main.py has no Grader.",
        "code": "ROLLOUT_INVALID",
        "last_good": {"commit_sha": "c" * 40, "digest": "d" * 64},
    }
    stage.on(f"POST workspaces/{WORKSPACE}/resolve", 400, body)
    env = {"GITSYNC_SERVER": stage.url, "GITSYNC_TOKEN": TOKEN, "GITSYNC_WORKSPACE": WORKSPACE}
    ran = gitsync("pull", "demo", "out", cwd=tmp_path, env=env)
    assert ran.code == 1 and "no Grader" in ran.err
    assert "cccccccccc" in ran.err and "--prefer-last-good" in ran.err


def test_the_command_pulls_and_says_so_in_json(good: Stage, tmp_path: Path) -> None:
    env = {"GITSYNC_SERVER": good.url, "GITSYNC_TOKEN": "gs_token-of-the-test"}
    ran = gitsync("pull", "demo", "out", "--json", "-w", "Demo team", cwd=tmp_path, env=env)
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["digest"] == DIGEST and ran.json["rollout"] == "demo"
    offline = gitsync("pull", DIGEST, "again", cwd=tmp_path)
    assert offline.code == 0 and "the cache" in offline.out
    taken = gitsync("pull", DIGEST, "again", "--json", cwd=tmp_path)
    assert (taken.code, taken.out, taken.error["code"]) == (1, "", "TARGET_EXISTS")
    unknown = gitsync(
        "pull", "1" * 64, "x", "--json", cwd=tmp_path, env=env | {"GITSYNC_WORKSPACE": WORKSPACE}
    )
    assert (unknown.code, unknown.error["code"]) == (1, "NOT_FOUND")
