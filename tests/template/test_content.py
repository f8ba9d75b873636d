"""What the template says and does: data, starters, agent files, and our own check of it all."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import httpx
import pytest

from gitsync.check import inspect
from gitsync.model import Verdict
from gitsync.template import select_workspace, starter_files, workspace_files
from gitsync.template.catalogue import builtin
from gitsync.template.files import EmptyTree, OverlayTree
from gitsync.template.sample_data import SYSTEM_PROMPT, multiply_jsonl
from gitsync.template.selection import StarterUse, render
from gitsync.template.starter import plan_workspace
from tests.template.builders import lay_out
from tests.template.policy import FACTOR, Policy, serve

STARTERS = list(builtin().starters)
ROWS = [json.loads(line) for line in multiply_jsonl().splitlines()]


def findings_of(selection) -> list:
    plan = plan_workspace(EmptyTree(), builtin(), selection)
    report = inspect(plan.overlay(EmptyTree()))
    assert report.verdict is Verdict.OK
    return [*report.findings, *(f for r in report.rollouts for f in r.findings)]


def test_our_own_check_has_nothing_to_say():
    assert findings_of(select_workspace(builtin(), STARTERS, list(builtin().skills))) == []


@pytest.mark.parametrize("starters", [[], *([s] for s in STARTERS)], ids=str)
def test_nor_about_any_single_starter(starters):
    assert findings_of(select_workspace(builtin(), starters, [])) == []


@pytest.mark.parametrize("starter", STARTERS)
def test_nor_about_other_names_and_parameters(starter):
    values = {
        "eval_model": "anthropic/claude-sonnet-5",
        "eval_secret": "ANTHROPIC_API_KEY",
        "max_concurrent": 2,
    }
    values = builtin().starter(starter).parameters.resolve(values)
    selection = select_workspace(builtin(), [], []).with_starter(StarterUse(starter, "a-1", values))
    assert findings_of(selection) == []


def test_each_starter_exposes_one_workflow_and_one_grader():
    report = inspect(OverlayTree(EmptyTree(), workspace_files(STARTERS, [], {})))
    assert [(r.rollout, bool(r.workflow), bool(r.grader)) for r in report.rollouts] == [
        (name, True, True) for name in STARTERS
    ]


def test_the_data_file_is_what_the_generator_makes():
    assert builtin().files["data/multiply.jsonl"].data == multiply_jsonl()
    assert len(ROWS) >= 100 and len({r["user_prompt"] for r in ROWS}) == len(ROWS)
    assert multiply_jsonl(5) == b"".join(multiply_jsonl().splitlines(keepends=True)[:5])


def test_labels_are_right_in_every_order_of_multiplication():
    for row in ROWS:
        factors = [Decimal(v) for _, v in FACTOR.findall(row["user_prompt"])]
        exact = Decimal(1)
        for factor in factors:
            exact *= factor
        assert row["ground_truth"] == str(exact.quantize(Decimal("0.0001")))
        assert len(factors) in (3, 4) and row["system_prompt"] == SYSTEM_PROMPT
        for order in itertools.permutations(map(float, factors)):
            product = 1.0
            for factor in order:
                product *= factor
            assert abs(product - float(row["ground_truth"])) < 0.0001


def test_starters_share_data_and_nothing_else():
    owners: dict[str, str] = {}
    for starter in STARTERS:
        for path in starter_files(starter):
            assert path == "data/multiply.jsonl" or owners.setdefault(path, starter) == starter


@pytest.mark.parametrize("starter", STARTERS)
def test_code_is_formatted_and_linted(starter, tmp_path):
    root = lay_out(tmp_path, starter_files(starter)) / "rollouts" / starter
    ruff = [str(Path(sys.executable).parent / "ruff")]
    rules = "E,F,I,B,UP,SIM,RUF,ASYNC,D1,ANN,PTH"
    options = ["--isolated", "--no-cache", "--line-length=100", "--target-version=py312"]
    for command in (
        ["check", f"--select={rules}", "--ignore=D107,ANN401"],
        ["format", "--check"],
    ):
        done = subprocess.run(
            [*ruff, *command, *options, "."], cwd=root, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout


ANSWERS = [
    ("#### 12.5", 12.5),
    ("#### -3", -3.0),
    ("####+7.25", 7.25),
    ("write #### 0.5 as asked\n#### 12.5000", 12.5),
    ("#### 12.5.", 12.5),
    ("#### **12.5**", 12.5),
    ("#### 12.5\nthat is it", 12.5),
    ("#### 1,234.5", None),
    ("#### 1e3", None),
    ("#### 12.5 then #### none", None),
    ("####", None),
    ("#### $5", None),
    ("#### ١٢", None),
    ("#### nan", None),
    ("#### .5", None),
    ("no answer 12.5", None),
    ("", None),
]


@pytest.mark.parametrize("starter", STARTERS)
def test_answers_are_read_as_the_prompt_says(starter):
    files = starter_files(starter)
    path = f"rollouts/{starter}/multiply_rollout/answers.py"
    source = files.get(path, files[f"rollouts/{starter}/main.py"])[1].decode()
    space: dict = {"__name__": "read"}
    exec(compile(source, path, "exec"), space)
    assert [(text, space["parse_answer"](text)) for text, _ in ANSWERS] == ANSWERS


def test_the_minimal_grader_decides_by_the_last_answer():
    from osmosis_ai.rollout import GraderContext, RolloutSample

    space: dict = {"__name__": "read"}
    exec(starter_files("minimal-local")["rollouts/minimal-local/main.py"][1].decode(), space)

    def reward(text: str | None, label: str | None = "12.5000") -> float | None:
        messages = [{"role": "user", "content": "#### 12.5"}]
        messages += [{"role": "assistant", "content": text}] if text is not None else []
        sample = RolloutSample(messages=messages)
        asyncio.run(space["ProductGrader"]().grade(GraderContext(label=label, sample=sample)))
        return sample.reward

    assert reward("#### 12.5") == 1.0 and reward("#### 12.509") == 1.0
    assert reward("#### 12.52") == 0.0 and reward("nothing") == 0.0 and reward(None) == 0.0
    assert reward("#### " + "9" * 400) == 0.0
    with pytest.raises(ValueError, match="ground_truth"):
        reward("#### 1", None)
    with pytest.raises(ValueError, match="no sample"):
        asyncio.run(space["ProductGrader"]().grade(GraderContext(label="1")))


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.parametrize("wrong", [False, True])
def test_minimal_local_serves_and_grades_a_rollout(tmp_path, wrong):
    """In the environment of the tests, which has the extra `server`: no index, seconds."""
    root = lay_out(tmp_path, starter_files("minimal-local")) / "rollouts/minimal-local"
    port = free_port()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "_OSMOSIS_ROLLOUT_PORT": str(port)}
    started = time.monotonic()
    server = subprocess.Popen(
        [sys.executable, "main.py"], cwd=root, env=env,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        with (
            serve(Policy(wrong=wrong)) as policy,
            httpx.Client(base_url=f"http://127.0.0.1:{port}") as client,
        ):
            while True:
                assert server.poll() is None and time.monotonic() - started < 120
                try:
                    if client.get("/health").status_code == 200:
                        break
                except httpx.TransportError:
                    time.sleep(0.05)
            row = ROWS[0]
            body = {
                "rollout_id": "r1",
                "chat_completions_url": policy,
                "initial_messages": [
                    {"role": "system", "content": row["system_prompt"]},
                    {"role": "user", "content": row["user_prompt"]},
                ],
                "label": row["ground_truth"],
                "llm_api_key": "key",
            }
            lease = (
                client.post("/rollout", json=body).raise_for_status().json()["polling_lease_token"]
            )
            for _ in range(100):
                answer = client.get(
                    "/rollout/r1/result", headers={"X-Osmosis-Rollout-Lease": lease}
                ).json()
                if answer["status"] in ("success", "failure"):
                    break
                time.sleep(0.05)
            assert answer["status"] == "success", answer
            assert answer["sample"]["reward"] == (0.0 if wrong else 1.0)
    finally:
        server.terminate()
        server.wait(10)


def test_every_file_of_a_starter_renders_without_leftovers():
    selection = select_workspace(builtin(), STARTERS, list(builtin().skills))
    for path, file in render(builtin(), selection).items():
        if path.startswith(("rollouts/", "configs/", "AGENTS", "README")):
            assert b"{{" not in file.data and b"{%" not in file.data, path


def test_claude_gets_the_rules_by_import():
    files = workspace_files([], [], {})
    assert files["CLAUDE.md"][1] == b"@AGENTS.md\n" and files["CLAUDE.md"][0].value == "100644"
    assert len(files["AGENTS.md"][1]) < 6000, "it is always loaded"


def test_secrets_have_names_only():
    for path, (_, data) in workspace_files(STARTERS, None, {}).items():
        if path == ".env.example":
            assert all(line.endswith("=") for line in data.decode().splitlines() if "=" in line)
