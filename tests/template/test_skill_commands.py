"""What the skills tell an agent to run, runs: all that needs no server, in good and bad state.

A line is run here, or is one that needs a server and is run by `test_skill_commands_live`; a new
line that is neither fails. `skill_blocks` has the extraction for both.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gitsync import cli
from gitsync.template import workspace_files
from tests.template.builders import commit_all, lay_out, put, repository
from tests.template.skill_blocks import EXAMPLE_VALUES, commands, fill, proofs, skill_texts

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


BIN = Path(sys.executable).parent
VALUES = EXAMPLE_VALUES | {"<rollout>": "minimal-local"}
NEEDS_SERVER = (
    "gitsync status",
    "git push",
    *(
        f"osmosis --json {group}"
        for group in (
            "rollout list", "dataset list", "dataset preview", "dataset info", "model list",
            "eval submit", "eval info", "eval logs", "eval list", "train submit", "train info",
            "train logs", "secret list",
        )
    ),
)  # fmt: skip
NEEDS_MODEL = ("osmosis --json eval run",)  # run by test_starters_run
EVERY = sorted({c for texts in skill_texts().values() for t in texts.values() for c in commands(t)})
LOCAL = [c for c in EVERY if not c.startswith((*NEEDS_SERVER, *NEEDS_MODEL))]
PROOFS = [p for texts in skill_texts().values() for p in proofs(texts["SKILL.md"])]


@dataclass
class Ran:
    code: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        return json.loads(self.stdout)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return put(tmp_path / "home", {"x": ""})


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    root = repository(tmp_path / "ws")
    lay_out(root, workspace_files(["minimal-local"], None, {}))
    commit_all(root)
    return root


def run(root: Path, home: Path, line: str) -> Ran:
    words = fill(line, VALUES)
    if words[0] == "gitsync":
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(root),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = cli.execute(words[1:])
        return Ran(code, out.getvalue(), err.getvalue())
    env = {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "OSMOSIS_PLATFORM_URL": "http://127.0.0.1:9",
        "OSMOSIS_TOKEN_STORE": "file",
    }
    done = subprocess.run(words, cwd=root, env=env, capture_output=True, text=True)
    return Ran(done.returncode, done.stdout, done.stderr)


def field(document: Any, path: str) -> Any:
    """The value at a path such as `.rollouts[].workflow`: a list if the path has `[]`."""
    for part in path.strip(".").split("."):
        name = part.removesuffix("[]")
        if isinstance(document, list):
            document = [item[name] for item in document]
        else:
            document = document[name]
    return document


def test_every_line_is_known():
    assert len(EVERY) >= 30
    assert {c.split()[0] for c in EVERY} <= {"osmosis", "gitsync", "git", "python", "ls"}
    assert len(LOCAL) >= 10


@pytest.mark.parametrize("line", LOCAL)
def test_local_lines_succeed_in_a_good_workspace(ws, home, line):
    if "template apply" in line:
        line = line.replace("<rollout>", "another")
    done = run(ws, home, line)
    assert done.code == 0, done
    if "--json" in line or "--format json" in line:
        done.json()


def test_local_proofs_hold_in_a_good_workspace(ws, home):
    held, answers = 0, {}
    for proof in PROOFS:
        if proof.command.startswith((*NEEDS_SERVER, *NEEDS_MODEL)):
            continue
        done = answers.get(proof.command) or run(ws, home, proof.command)
        answers[proof.command] = done
        assert done.code == 0, done
        values = [field(done.json(), path) for path in proof.fields]
        if ".resource.workspace" in proof.fields:
            assert values == [None], "not logged in: exit 0 and no connection, as the skill warns"
        elif ".resource.missing" in proof.fields:
            assert values == [[]]
        elif ".verdict" in proof.fields:
            assert values == ["ok"]
        elif ".rollouts[].workflow" in proof.fields:
            assert values == [["main:SingleAnswerWorkflow"], ["main:ProductGrader"]]
        else:
            assert values == [True], proof
        held += 1
    assert held >= 10


BAD = {
    "rollouts/minimal-local/main.py": "from osmosis_ai.rollout import AgentWorkflow\nx = (\n",
    "data/multiply.jsonl": '{"user_prompt": "x"}\n',
    ".claude/skills/plan-training": "../../.agents/skills/plan-training\n",
}


def test_proofs_tell_a_bad_workspace(ws, home):
    (ws / ".claude/skills/plan-training").unlink()
    (ws / "AGENTS.md").unlink()
    put(ws, BAD)
    commit_all(ws)
    expected = {
        "gitsync check": 1,
        "osmosis --json doctor": 1,
        "osmosis --json dataset": 1,
        "gitsync skills": 1,
    }
    seen, answers = set(), {}
    for proof in PROOFS:
        if proof.command.startswith((*NEEDS_SERVER, *NEEDS_MODEL)):
            continue
        done = answers.get(proof.command) or run(ws, home, proof.command)
        answers[proof.command] = done
        (kind,) = [k for k in expected if proof.command.startswith(k)]
        assert done.code == expected[kind], done
        seen.add(kind)
        if ".verdict" in proof.fields:
            assert done.json()["verdict"] == "error"
        if ".ok" in proof.fields:
            assert done.json()["ok"] is False
        if ".resource.missing" in proof.fields:
            error = json.loads(done.stderr.splitlines()[-1])["error"]
            assert error["details"]["missing"] == ["AGENTS.md"]
    assert seen == set(expected)
    assert run(ws, home, "gitsync skills repair").code == 0
    assert run(ws, home, "gitsync template update --restore AGENTS.md").code == 0
    assert run(ws, home, "osmosis --json doctor").code == 0
