"""Agreement with the unmodified `osmosis` command of the environment."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gitsync.apply import export_template
from gitsync.template import starter_files, workspace_files
from gitsync.template.catalogue import builtin
from gitsync.template.disk import DiskTree
from gitsync.template.journal import apply_plan
from gitsync.template.lock import LOCK_PATH
from gitsync.template.sample_data import multiply_jsonl
from gitsync.template.selection import use_starter
from gitsync.template.starter import plan_starter
from tests.template.builders import commit_all, lay_out, put, repository, snapshot

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


CATALOGUE_OF_THE_SDK = (
    "multiply-local-strands",
    "multiply-local-openai",
    "multiply-harbor-strands",
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("export") / "template"
    assert export_template(target) > 50
    return target


@pytest.fixture
def osmosis(tmp_path: Path, exported: Path):
    home = tmp_path / "home"
    home.mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "OSMOSIS_WORKSPACE_TEMPLATE_PATH": str(exported),
        "OSMOSIS_TOKEN_STORE": "file",
        "OSMOSIS_PLATFORM_URL": "http://127.0.0.1:9",
        "GIT_CONFIG_NOSYSTEM": "1",
    }

    def run(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).parent / "osmosis"), "--json", *args]
        return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True)

    return run


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = repository(tmp_path / "ws")
    lay_out(root, workspace_files(["minimal-local"], None, {}))
    commit_all(root)
    return root


@pytest.mark.parametrize("name", CATALOGUE_OF_THE_SDK)
def test_template_apply_gives_the_bytes_we_give(osmosis, workspace, name):
    before = snapshot(workspace)
    done = osmosis(workspace, "template", "apply", name)
    assert done.returncode == 0, done.stderr
    added = {p: f for p, f in snapshot(workspace).items() if before.get(p) != f}
    ours = {p: (k.value, d) for p, (k, d) in starter_files(name).items() if p not in before}
    assert added == ours
    assert "data/multiply.jsonl" in before, "shared by minimal-local, and equal: the CLI skips it"


def test_template_list_names_only_what_we_have(osmosis, workspace):
    items = json.loads(osmosis(workspace, "template", "list").stdout)["items"]
    assert {i["name"] for i in items} == set(CATALOGUE_OF_THE_SDK) <= set(builtin().starters)


def test_doctor_finds_a_fresh_workspace_valid(osmosis, workspace):
    done = osmosis(workspace, "doctor")
    assert done.returncode == 0, done.stderr
    resource = json.loads(done.stdout)["resource"]
    assert resource["valid"] and resource["missing"] == []
    assert resource["git"]["identity"] == "acme/demo"


@pytest.mark.parametrize("gone", [["AGENTS.md", "data", "rollouts"], ["CLAUDE.md", "configs"]])
def test_doctor_fix_repairs_a_damaged_workspace(osmosis, workspace, gone):
    for name in gone:
        path = workspace / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    details = json.loads(osmosis(workspace, "doctor").stderr.splitlines()[-1])["error"]["details"]
    assert {m.split("/")[0] for m in details["missing"]} == set(gone)
    done = osmosis(workspace, "doctor", "--fix")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["resource"]["valid"]
    files = workspace_files([], [], {})
    for name in ("CLAUDE.md", "configs/AGENTS.md"):
        assert (workspace / name).read_bytes() == files[name][1]


def test_every_config_loads_with_the_loaders_of_the_sdk(workspace, tmp_path):
    from osmosis_ai.platform.cli.benchmark_config import load_benchmark_submit_config
    from osmosis_ai.platform.cli.eval_config import load_eval_submit_config
    from osmosis_ai.platform.cli.training_config import load_train_submit_config

    root = lay_out(tmp_path / "all", workspace_files(list(builtin().starters), [], {}))
    loaders = {
        "eval": load_eval_submit_config,
        "training": load_train_submit_config,
        "benchmark": load_benchmark_submit_config,
    }
    seen = 0
    for kind, load in loaders.items():
        for path in sorted((root / "configs" / kind).glob("*.toml")):
            load(path)
            seen += 1
    assert seen == 2 * (len(builtin().starters) + 1) + 1


def uncommented(text: str) -> str:
    """A default.toml with its commented keys and sections switched on."""
    import re

    return re.sub(r"^# (?=\[|[a-z_A-Z]+ *= )", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("kind", ["eval", "training", "benchmark"])
def test_every_key_of_a_default_is_one_the_sdk_knows_and_none_is_missing(tmp_path, kind):
    """With every commented line switched on the loader still takes it, and no key is missing."""
    from osmosis_ai.platform.cli import benchmark_config, eval_config, training_config

    text = uncommented(workspace_files([], [], {})[f"configs/{kind}/default.toml"][1].decode())
    text = text.replace('commit_sha = "0123abc"', '# commit_sha = "0123abc"')
    if kind == "benchmark":
        text = text.replace(
            'harness_api_key_secret = "CURSOR', '# harness_api_key_secret = "CURSOR'
        )
        text = text.replace('judge_api_key_secret = "OPENAI', 'judge_api_key_secret = "JUDGE')
    path = tmp_path / "x.toml"
    path.write_text(text)
    if kind == "eval":
        config = eval_config.load_eval_submit_config(path)
        assert set(config.evaluation_config) == set(type(config.evaluation).model_fields)
    elif kind == "training":
        config = training_config.load_train_submit_config(path)
        assert set(config.training_config) == set(type(config.training).model_fields)
        assert set(config.sampling_config) == set(type(config.sampling).model_fields)
        assert set(config.checkpoints_config) == set(type(config.checkpoints).model_fields)
    else:
        config = benchmark_config.load_benchmark_submit_config(path)
        assert set(config.tasks.model_fields_set) == set(type(config.tasks).model_fields)
        assert set(config.execution.model_fields_set) == set(type(config.execution).model_fields)
        assert config.verifier.required and config.secrets.required and config.env
    if kind != "benchmark":
        assert config.env and config.secrets and config.experiment_branch == "experiment"


def test_the_submit_preflight_takes_our_starters(osmosis, workspace):
    """`eval submit` reads layout, config and rollout before it would log in: it fails there."""
    done = osmosis(workspace, "eval", "submit", "configs/eval/minimal-local.toml", "--yes")
    assert json.loads(done.stderr.splitlines()[-1])["error"]["code"] == "AUTH_REQUIRED"


def test_dataset_validate_takes_the_rows(osmosis, workspace):
    done = osmosis(workspace, "dataset", "validate", "data/multiply.jsonl")
    assert done.returncode == 0 and json.loads(done.stdout)["data"]["valid"], done.stderr


def test_state_of_the_client_is_ignored_and_the_lock_is_not(workspace):
    put(
        workspace,
        {
            ".osmosis/evals/x/logs.txt": "x",
            "rollouts/minimal-local/.venv/pyvenv.cfg": "x",
            ".env": "K=v",
            "rollouts/minimal-local/x.egg-info/PKG": "x",
        },
    )
    from tests.template.builders import git

    assert git(workspace, "status", "--short") == ""
    assert git(workspace, "ls-files", ".osmosis").split() == [
        ".osmosis/template-ignore",
        ".osmosis/template.json",
        ".osmosis/template.lock.toml",
    ]


STATES = list(
    itertools.product((False, True), (False, True), (False, True), range(3), (False, True))
)


@pytest.mark.parametrize(("folder", "evaluation", "training", "data", "force"), STATES)
def test_conflict_and_force_mean_what_they_mean_there(
    tmp_path, exported, monkeypatch, folder, evaluation, training, data, force
):
    """The client's own function on one copy, ours on another: same verdict, same tree.

    The one difference is intended: force does not replace shared data that was edited.
    """
    from osmosis_ai.cli.errors import CLIError
    from osmosis_ai.templates.cli import _copy_template

    monkeypatch.setenv("OSMOSIS_WORKSPACE_TEMPLATE_PATH", str(exported))
    name = "multiply-local-openai"
    state: dict[str, object] = {"README.md": "x\n"}
    if folder:
        state |= {f"rollouts/{name}/main.py": "old\n", f"rollouts/{name}/old/gone.py": "old\n"}
    if evaluation:
        state[f"configs/eval/{name}.toml"] = "old\n"
    if training:
        state[f"configs/training/{name}.toml"] = "old\n"
    if data:
        state["data/multiply.jsonl"] = "mine\n" if data == 2 else multiply_jsonl()
    theirs, ours = put(tmp_path / "theirs", state), put(tmp_path / "ours", state)

    try:
        _copy_template(name, theirs, force=force)
        refused = False
    except CLIError as e:
        assert e.code == "CONFLICT"
        refused = True
    use = use_starter(builtin(), name)
    plan = plan_starter(DiskTree(ours), builtin(), use, force=force)
    assert plan.is_blocked == refused
    apply_plan(ours, plan)
    mine = {p: f for p, f in snapshot(ours).items() if p != LOCK_PATH}
    if data == 2 and force:
        assert mine.pop("data/multiply.jsonl")[1] == b"mine\n"
        (theirs / "data/multiply.jsonl").unlink()
        (theirs / "data").rmdir()
    assert mine == {p: f for p, f in snapshot(theirs).items() if not p.endswith("/")}
