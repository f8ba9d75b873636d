"""The starters really run: the unmodified CLI, their own environments, a streaming policy."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import httpx
import pytest

from gitsync.template import starter_files, workspace_files
from gitsync.template.sample_data import multiply_jsonl
from tests.template.builders import lay_out, repository
from tests.template.policy import Policy, serve

pytestmark = pytest.mark.slow
ROWS = [json.loads(line) for line in multiply_jsonl(3).splitlines()]
REPO = Path(__file__).parents[2]
PYTHON = getattr(sys, "_base_executable", sys.executable)
KEPT = ("PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "UV_CACHE_DIR", "LANG", "TMPDIR")


def find_uv() -> str:
    """uv from PATH, or the one `make` puts into the checkout."""
    for found in (shutil.which("uv"), str(REPO / ".uv/bin/uv")):
        if (
            found
            and subprocess.run([found, "--version"], capture_output=True, cwd=REPO).returncode == 0
        ):
            return found
    pytest.fail("uv is needed to build the starters' environments")


def environment(home: Path, **more: str) -> dict[str, str]:
    """Index and cache settings of the machine, nothing else of the user's."""
    env = {k: v for k, v in os.environ.items() if k in KEPT or k.startswith(("PIP_", "UV_"))}
    for name in (".config/uv", ".config/pip", ".cache/uv"):  # the same index, the same cache
        source, target = Path.home() / name, home / name
        if source.exists() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(source)
    env |= {"HOME": str(home), "UV_PYTHON": PYTHON, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return env | {"OSMOSIS_TOKEN_STORE": "file", **more}


@pytest.fixture(scope="session")
def client(tmp_path_factory) -> Path:
    """A folder with the `osmosis` command and its extra `eval`."""
    venv = tmp_path_factory.mktemp("client") / "venv"
    uv = find_uv()
    for command in (
        [uv, "venv", "-q", "-p", PYTHON, str(venv)],
        [uv, "pip", "install", "-q", "-p", str(venv / "bin/python"), "osmosis-ai[eval]==0.3.8"],
    ):
        done = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return venv / "bin"


@pytest.fixture(scope="session")
def workspace(tmp_path_factory) -> Path:
    root = repository(tmp_path_factory.mktemp("run") / "ws")
    names = ["minimal-local", "multiply-local-openai", "multiply-local-strands"]
    return lay_out(root, workspace_files(names, [], {}))


def evaluate(workspace: Path, client: Path, home: Path, name: str, policy: Policy) -> dict:
    """`osmosis --json eval run` over three rows; its resource."""
    with serve(policy) as url:
        env = environment(home, OPENAI_API_KEY="none", OPENAI_API_BASE=url)
        env["PATH"] = f"{client}{os.pathsep}{env['PATH']}"
        done = subprocess.run(
            [
                str(client / "osmosis"),
                "--json",
                "eval",
                "run",
                f"configs/eval/{name}.toml",
                "--dataset-file",
                "data/multiply.jsonl",
                "--rows",
                "0-2",
                "--yes",
            ],
            cwd=workspace,
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return json.loads(done.stdout)["resource"]


@pytest.mark.parametrize(
    "name", ["minimal-local", "multiply-local-openai", "multiply-local-strands"]
)
def test_an_evaluation_of_a_starter(workspace, client, tmp_path, name):
    uses_tools = name != "minimal-local"
    right = Policy()
    resource = evaluate(workspace, client, tmp_path, name, right)
    assert resource["failed"] == 0 and resource["metrics"]["graded"] == 3
    assert resource["metrics"]["reward_stats"]["min"] == 1.0
    trips = {q: n for q, n in right.tool_results.items() if q.startswith("What is the product")}
    assert len(trips) == 3
    assert all(n >= 2 for n in trips.values()) if uses_tools else set(trips.values()) == {0}
    # the client's bridge streams to the rollout, and asks the provider for whole answers
    assert len(right.requests) >= 3 and not any(r.get("stream") for r in right.requests)

    # Two wrong answers, and one policy that never stops calling tools: stopped, and graded.
    poor = Policy(wrong=True, loops_on=ROWS[2]["user_prompt"])
    resource = evaluate(workspace, client, tmp_path, name, poor)
    assert resource["failed"] == 0 and resource["metrics"]["graded"] == 3
    assert resource["metrics"]["reward_stats"]["max"] == 0.0
    if uses_tools:
        assert 7 <= poor.tool_results[ROWS[2]["user_prompt"]] <= 17

    left = subprocess.run(
        ["git", "status", "--short", "--untracked-files=all", f"rollouts/{name}", ".osmosis"],
        cwd=workspace,
        capture_output=True,
        text=True,
    ).stdout
    assert not [
        line
        for line in left.splitlines()
        if "egg-info" in line or ".venv" in line or "evals" in line
    ]


@pytest.fixture(scope="session")
def harbor(tmp_path_factory) -> tuple[Path, Path]:
    """The Harbor starter and an environment built from its own pyproject.toml."""
    folder = tmp_path_factory.mktemp("harbor")
    root = lay_out(folder / "ws", starter_files("multiply-harbor-strands"))
    rollout, venv, uv = root / "rollouts/multiply-harbor-strands", folder / "venv", find_uv()
    project = tomllib.loads((rollout / "pyproject.toml").read_text())["project"]
    for command in (
        [uv, "venv", "-q", "-p", PYTHON, str(venv)],
        [uv, "pip", "install", "-q", "-p", str(venv / "bin/python"), *project["dependencies"]],
    ):
        done = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return rollout, venv / "bin/python"


def test_the_harbor_starter_builds_its_wheel_and_is_healthy(harbor, tmp_path):
    rollout, python = harbor
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = environment(tmp_path, _OSMOSIS_HARBOR_PREWARM="off", _OSMOSIS_ROLLOUT_PORT=str(port))
    server = subprocess.Popen(
        [str(python), "main.py"],
        cwd=rollout,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.monotonic() + 300  # importing Harbor takes long on a busy machine
        while True:
            assert server.poll() is None, server.stdout.read()
            assert time.monotonic() < deadline
            try:
                health = httpx.get(f"http://127.0.0.1:{port}/health").json()
                break
            except httpx.TransportError:
                time.sleep(0.2)
        assert health["backend"] == "harbor" and health["status"] == "ok"
        assert health["agent"] == "multiply_rollout.workflow:MultiplyWorkflow"
        assert health["chat_endpoint"]["environment"] == "docker"
        assert list(tmp_path.rglob("multiply_harbor_strands-0.1.0-*.whl"))
    finally:
        server.terminate()
        server.communicate(timeout=20)


SANDBOXES = [
    ({}, "docker"),
    ({"DAYTONA_API_KEY": "x"}, "daytona"),
    ({"OPENSANDBOX_API_KEY": "x"}, "opensandbox"),
    ({"OPENSANDBOX_API_KEY": "x", "DAYTONA_API_KEY": "x"}, "opensandbox"),
    ({"OPENSANDBOX_API_KEY": ""}, "docker"),
]
CHOOSE = """
import json, os, sys
from pathlib import Path
import main
from harbor.models.task.config import TaskConfig

for keys in json.loads(sys.argv[1]):
    for name in ("OPENSANDBOX_API_KEY", "DAYTONA_API_KEY"):
        os.environ.pop(name, None)
    os.environ.update(keys)
    print(main.choose_environment().value)
task = TaskConfig.model_validate_toml(Path("multiply_harbor_task/task.toml").read_text())
assert task.environment.docker_image and task.agent.timeout_sec
"""


def test_the_harbor_starter_prefers_a_managed_sandbox(harbor, tmp_path):
    rollout, python = harbor
    done = subprocess.run(
        [str(python), "-c", CHOOSE, json.dumps([keys for keys, _ in SANDBOXES])],
        cwd=rollout,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == [kind for _, kind in SANDBOXES], done.stderr


def test_a_wheel_holds_template_and_skills(tmp_path):
    import zipfile

    from gitsync.template.catalogue import builtin, load_catalogue

    done = subprocess.run(
        [find_uv(), "build", "-q", "--wheel", "-p", PYTHON, "-o", str(tmp_path), str(REPO)],
        cwd=REPO,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "x")
    package = tmp_path / "x/gitsync"
    found = load_catalogue(package / "template_repo", package / "skills_repo")
    assert found == builtin()
    assert (found.files, found.skills) == (builtin().files, builtin().skills)
