"""The pages of a version and of the difference of two: files, lines, bounds."""

from __future__ import annotations

import os
import re
import shutil
from html import unescape

import httpx

from gitsync import version_files
from gitsync.web.pages import version as version_page
from tests.live import EVAL, GOOD_MAIN, git, workspace_files
from tests.web.conftest import publish_two
from tests.web.dashboard import HOSTILE, text_of


def files_card(answer: httpx.Response) -> str:
    html = answer.text.partition('id="files"')[2].partition("</section>")[0]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", "<" + html)).split())


def published_of(live, files, message="First"):
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(files, message)
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, sha)["state"].startswith("published")
    return workspace, checkout, sha


def test_a_version_shows_its_files_in_pieces(live, chief, monkeypatch):
    monkeypatch.setattr(version_page, "FILES", 4)
    workspace, checkout, _ = published_of(live, workspace_files(alpha=GOOD_MAIN))
    (checkout.path / "rollouts/alpha/run.sh").write_text("#!/bin/sh\n")
    (checkout.path / "rollouts/alpha/run.sh").chmod(0o755)
    os.symlink("run.sh", checkout.path / "rollouts/alpha/zlink")
    sha = checkout.commit({"z.txt": "x" * 1234, "<i>z.txt": ""}, "More")
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha)
    here = f"/workspaces/{workspace['id']}/versions/{sha}"
    names = git(checkout.path, "ls-tree", "-r", "--name-only", "-z", sha).stdout.split("\0")[:-1]
    answer = chief.get(here)
    said = text_of(answer)
    assert f"{len(names)} files Path Mode Size" in said
    assert f"1 to 4 of {len(names)}" in said and '?file=4#files"' in answer.text
    seen = ""
    for start in range(0, len(names), 4):
        seen += " " + files_card(chief.get(f"{here}?file={start}"))
    places = [seen.index(f" {name} ") for name in names]
    assert places == sorted(places)  # all of them, in the order of Git
    assert "z.txt 100644 1.2 kB" in seen and "rollouts/alpha/run.sh 100755 executable" in seen
    assert "rollouts/alpha/zlink 120000 link 6 B" in seen and "<i>z.txt" not in answer.text
    assert "There are no more files." in text_of(chief.get(f"{here}?file=900"))


def test_a_large_tree_is_read_only_as_far_as_it_is_shown(live, chief, monkeypatch):
    monkeypatch.setattr(version_files, "COUNTED", 20)
    monkeypatch.setattr(version_page, "FILES", 5)
    files = {f"data/{n:03d}.txt": str(n) for n in range(60)}
    workspace, _, sha = published_of(live, {**workspace_files(alpha=GOOD_MAIN), **files})
    here = f"/workspaces/{workspace['id']}/versions/{sha}"
    said = text_of(chief.get(here))
    assert "Many files Path" in said and "1 to 5 of many" in said
    assert "data/050.txt" in files_card(chief.get(f"{here}?file=54"))


def test_a_version_is_shown_without_its_repository(live, chief):
    published = publish_two(live)
    path = next(live.data_dir.rglob(f"{published.workspace['id']}.git"))
    shutil.move(path / "objects", path / "away")
    (path / "objects").mkdir()
    try:
        answer = chief.get(f"{published.path}/versions/{published.bad}")
    finally:
        shutil.rmtree(path / "objects")
        shutil.move(path / "away", path / "objects")
    assert answer.status_code == 200
    assert "The repository cannot be read now" in text_of(answer)


def test_a_changed_file_shows_its_lines(live, chief):
    workspace, checkout, one = published_of(
        live,
        {
            **workspace_files(alpha=GOOD_MAIN),
            "notes.md": "".join(f"line {n}\n" for n in range(30)),
            "blob.bin": "a\0b",
            "large.txt": "x\n" * 100_000,
        },
    )
    notes = "".join(f"line {n}\n" if n != 20 else f"{HOSTILE}\n" for n in range(30))
    two = checkout.commit(
        {
            "notes.md": notes,
            "blob.bin": "a\0c",
            "large.txt": "y\n" * 100_000,
            "long.txt": "".join(f"new {n}\n" for n in range(400)),
        },
        "Second",
    )
    checkout.push("-q", "origin", "main")
    live.status(workspace, two)
    answer = chief.get(f"/workspaces/{workspace['id']}/versions/{two}/diff?from={one}")
    said = text_of(answer)
    assert "4 files" in said
    assert '<span class="line gone">-line 20</span>' in answer.text
    assert '<span class="line plus">+&lt;img src=x' in answer.text
    assert "<img src=x" not in answer.text and "\u202e" not in answer.text
    assert " line 15" not in said and " line 17" in said  # three lines around it
    assert "blob.bin not text" in said and "large.txt too large to compare by lines" in said
    assert "+new 248" in said and "+new 249" not in said and "151 more lines" in said
    back = chief.get(f"/workspaces/{workspace['id']}/versions/{one}/diff?from={two}")
    assert '<span class="line plus">+line 20</span>' in back.text


def test_a_diff_of_many_files_stays_short(live, chief, monkeypatch):
    monkeypatch.setattr(version_files, "ALL_LINES", 400)
    workspace, checkout, one = published_of(live, workspace_files(alpha=GOOD_MAIN))
    files = {f"configs/eval/c-{n:03d}.toml": EVAL.format(name=f"gone-{n}") for n in range(120)}
    two = checkout.commit(files, "Many configs")
    checkout.push("-q", "origin", "main")
    live.status(workspace, two)
    here = f"/workspaces/{workspace['id']}/versions/{two}/diff?from={one}"
    answer = chief.get(here)
    said = text_of(answer)
    assert "and 80 more added" in said and "gone-0 " in said
    shown = text_of(chief.get(here.partition("/diff")[0]))  # where no rollout has an artifact
    assert "It holds no artifact." in shown or "not in this commit" in shown
    assert "120 configs" in said and "and 80 more configs" in said
    assert "120 files" in said and "1 to 50 of 120" in said
    assert answer.text.count('class="line plus"') <= 400
    assert len(answer.content) < 200_000
    last = text_of(chief.get(f"{here}&start=100"))
    assert "101 to 120 of 120" in last and "configs/eval/c-119.toml" in last


def test_a_long_subject_is_read_in_full(live, chief):
    subject = "A subject that goes on " + "and on " * 25 + "until its very end"
    workspace, checkout, sha = published_of(live, workspace_files(alpha=GOOD_MAIN), subject)
    here = f"/workspaces/{workspace['id']}"
    for page in ("commits", "versions"):
        assert "until its very end" in text_of(chief.get(f"{here}/{page}/{sha}")), page
    short = checkout.commit({"n.md": "n"}, "Short")
    checkout.push("-q", "origin", "main")
    live.status(workspace, short)
    for page in ("commits", "versions"):
        assert "Show all of it" not in text_of(chief.get(f"{here}/{page}/{short}")), page


def test_an_older_piece_of_a_list_leads_back_to_the_newest(live, chief):
    published = publish_two(live)
    here = f"{published.path}/versions"
    first = chief.get(f"{here}?limit=1")
    older = re.search(r'href="([^"]*after=[^"]*)"', first.text)[1]
    assert ">Newest<" not in first.text
    second = chief.get(f"{unescape(older)}&limit=1").text
    assert published.good in second and published.bad not in second
    assert f'href="{here}?">Newest</a>' in second and "2 rows in all" in second
