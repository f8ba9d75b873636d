"""Runs as the real `osmosis` and `gitsync` show them, carried out by the page's example."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.kit import gitsync
from tests.live import GOOD_MAIN, git
from tests.osmosis import Osmosis
from tests.runs.kit import make_team

PAGE = Path(__file__).parents[2] / "docs/executors.md"
EXAMPLE = re.compile(r"<!-- example -->\n```python\n(.*?)```", re.DOTALL)

# the same rollout, which does its work when it is run on a file of rows
RUNS_ITSELF = (
    GOOD_MAIN.partition("def main():")[0]
    + """\
def main():
    import json, os, sys

    print("key ends in", os.environ["OPENAI_API_KEY"][-4:])
    for number, line in enumerate(open(sys.argv[1])):
        row = json.loads(line)
        reward = float(row["ground_truth"] != "4")
        print(json.dumps({"row_index": number, "reward": reward}), flush=True)
    print("done with", os.environ.get("GREETING"), flush=True)


if __name__ == "__main__":
    main()
"""
)


@pytest.fixture(scope="module")
def team(live):
    own = make_team(live)
    own.sha = own.checkout.commit({"rollouts/alpha/main.py": RUNS_ITSELF}, "Run itself")
    own.checkout.push("-q", "origin", "main")
    assert live.status(own.workspace, own.sha)["live"]
    git(
        own.checkout.path,
        "remote",
        "set-url",
        "origin",
        f"https://github.com/{own.workspace['identity']}.git",
    )
    return own


@pytest.fixture
def osmosis(team, tmp_path):
    return Osmosis(team.live.url, team.token, team.workspace["name"], tmp_path / "me")


@pytest.fixture
def example(team, tmp_path):
    """The program on the page, running."""
    code = EXAMPLE.search(PAGE.read_text())[1]
    assert len(code.splitlines()) <= 60
    path = tmp_path / "executor.py"
    path.write_text(code)
    child = subprocess.Popen(
        [sys.executable, str(path)],
        env={
            "PATH": os.environ["PATH"],
            "GITSYNC_SERVER": team.live.url,
            "GITSYNC_TOKEN": team.executor("eval").secret,
            "no_proxy": "*",
        },
    )
    yield child
    child.kill()
    child.wait()


def submit(team, osmosis, tmp_path, kind="eval"):
    keys = tmp_path / "keys.env"
    keys.write_text("OPENAI_API_KEY=sk-1234567890abcdef\n")
    path = team.checkout.path / f"configs/{kind if kind == 'eval' else 'training'}/alpha.toml"
    more = ("--secrets-file", str(keys)) if kind == "eval" else ()
    return osmosis(kind, "submit", str(path), "--yes", *more).data["resource"]


@pytest.mark.slow
def test_osmosis_shows_the_whole_life_of_a_run_that_the_example_carries_out(
    team, osmosis, tmp_path, example
):
    run = submit(team, osmosis, tmp_path)
    end = time.monotonic() + 60
    while True:
        info = osmosis("eval", "info", run["name"]).data["data"]
        if info["eval_run"]["status"] in ("finished", "failed"):
            break
        assert time.monotonic() < end
        time.sleep(0.3)
    logs = [entry["message"] for entry in osmosis("eval", "logs", run["name"]).data["items"]]
    assert info["eval_run"]["status"] == "finished", logs
    assert info["commit_sha"] == team.sha and info["metrics_available"] is True
    assert info["results"]["pass_rate"] == pytest.approx(5 / 6)
    assert any(f"commit {team.sha}" in text for text in logs)
    assert "key ends in cdef" in logs and "The run is finished." in logs
    row = osmosis("eval", "list").data["items"][0]
    assert (row["name"], row["status"]) == (run["name"], "finished")
    shown = osmosis("eval", "info", run["name"], json=False).out
    assert "finished" in shown and "6 graded, 5 passed" in shown
    assert osmosis("eval", "stop", run["name"], "--yes").error["code"] == "CONFLICT"


@pytest.mark.slow
def test_osmosis_train_follows_steps_and_stops(team, osmosis, tmp_path):
    run = submit(team, osmosis, tmp_path, "train")
    executor = team.executor("training")
    claim = executor.claim("training")
    executor.say(claim, "metrics", metrics=[{"key": "reward", "step": 3, "value": 0.25}])
    executor.say(claim, "heartbeat", total_steps=12)
    info = osmosis("train", "info", run["name"]).data["data"]
    assert info["training_run"]["status"] == "running" and info["metrics_available"] is True
    assert info["summary"]["progress"]["completed"] == 3
    assert osmosis("train", "stop", run["name"], "--yes").code == 0
    assert executor.say(claim, "heartbeat")["stop"] is True
    info = osmosis("train", "info", run["name"]).data["data"]
    assert info["training_run"]["status"] == "stopped" and info["training_run"]["completed_at"]


def test_gitsync_run_lists_shows_reads_and_stops(team, tmp_path):
    run = team.submit()
    env = {
        "GITSYNC_SERVER": team.live.url,
        "GITSYNC_TOKEN": team.token,
        "GITSYNC_WORKSPACE": team.workspace["name"],
    }

    def said(*args):
        done = gitsync("run", *args, cwd=tmp_path, env=env)
        assert done.code == 0, done.err
        return done

    assert said("list", "--json").json["items"][0]["name"] == run["name"]
    assert run["name"] in said("list", "--kind", "eval", "--state", "pending").out
    shown = said("show", run["name"]).out
    assert team.sha in shown and "pending" in shown and "OPENAI_API_KEY" in shown
    assert f"commit {team.sha}" in said("logs", run["name"]).out
    assert "stopped" in said("stop", run["name"], "--yes").out
    assert "Stopped by Robin" in said("logs", run["name"], "--follow").out
    assert said("logs", run["name"], "--limit", "1", "--json").json["items"][0]["step"] == "stop"
    again = gitsync("run", "stop", run["name"], "--yes", cwd=tmp_path, env=env)
    assert again.code == 1 and "cannot be stopped" in again.err
