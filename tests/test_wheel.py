"""The wheel works by itself: installed into an empty environment, outside the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def uv() -> str:
    found = shutil.which("uv") or str(ROOT / ".uv/bin/uv")
    if not Path(found).exists():
        pytest.skip("uv is not installed; `make venv` brings it")
    return found


def run(*args: str | Path, cwd: Path) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GITSYNC_", "PYTHON"))}
    env["GIT_CONFIG_GLOBAL"] = os.devnull
    done = subprocess.run(
        [str(a) for a in args], cwd=cwd, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{args}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.slow
def test_an_installed_wheel_does_the_main_job(tmp_path):
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    run(
        uv(), "build", "--quiet", "--wheel", "--python", base, "--out-dir", tmp_path / "dist", ROOT,
        cwd=tmp_path,
    )  # fmt: skip
    wheel = next((tmp_path / "dist").glob("*.whl"))
    run(uv(), "venv", "--quiet", "--python", base, tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv/bin/python"
    run(uv(), "pip", "install", "--quiet", "--python", python, wheel, cwd=tmp_path)
    program = tmp_path / "venv/bin/gitsync"
    said = run(
        program, "quickstart", "--exit", "--json", "--port", "0", "--data-dir", tmp_path / "data",
        cwd=tmp_path,
    )  # fmt: skip
    ready = json.loads(said)
    assert ready["state"] == "published" and ready["api_url"].endswith("/api/v1")
    assert [r["verdict"] for r in ready["rollouts"]] == ["ok", "ok"]
    assert len(ready["rollouts"][0]["digest"]) == 64
    assert (tmp_path / "venv/bin/git-remote-gitsync").exists()
    again = json.loads(
        run(
            program, "quickstart", "--exit", "--json", "--port", "0", "--data-dir",
            tmp_path / "data", cwd=tmp_path,
        )
    )  # fmt: skip
    assert (again["token"], again["commit_sha"]) == (ready["token"], ready["commit_sha"])
