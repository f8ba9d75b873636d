"""The README and docs say what is so: settings, commands, links."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gitsync.settings import Settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BEGIN, END = "<!-- settings -->\n", "<!-- /settings -->"


def settings_table() -> str:
    rows = ["| setting | default | meaning |", "| --- | --- | --- |"]
    for name, field in Settings.model_fields.items():
        default = field.default
        text = ",".join(default) if isinstance(default, tuple) else default
        shown = "" if text in (None, "") else f"`{text}`"
        rows.append(f"| `GITSYNC_{name.upper()}` | {shown} | {field.description} |")
    return "\n".join(rows) + "\n"


def test_the_readme_lists_every_setting_with_its_default():
    text = (ROOT / "README.md").read_text()
    assert text.split(BEGIN)[1].split(END)[0] == settings_table(), (
        "run `python -m tests.test_readme` to write the table anew"
    )


@pytest.mark.slow
def test_the_five_minute_tour_works_as_it_is_written(tmp_path):
    """Every line, in a fresh folder; only the port is another one."""
    tour = README.split("## Five minutes")[1].split("```console\n")[1].split("```")[0]
    first, *lines = [line.removeprefix("$ ").partition("  #")[0] for line in tour.splitlines()]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "HOME": str(tmp_path), "no_proxy": "*"}
    server = subprocess.Popen(
        [*shlex.split(first), "--port", "0", "--json"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        said = ""
        for line in server.stdout:
            said += line
            if line == "}\n":
                break
        url = json.loads(said)["api_url"].removesuffix("/api/v1")
        script = "\n".join(lines).replace("http://127.0.0.1:8750", url)
        done = subprocess.run(
            ["bash", "-euxo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "remote: gitsync: main" in done.stderr
        assert (tmp_path / "code/rollouts/chess/main.py").is_file()
    finally:
        server.terminate()
        server.communicate(timeout=30)


def test_links_between_documents_lead_somewhere():
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]:
        text = re.sub(r"(?ms)^```.*?^```|`[^`\n]+`", "", document.read_text())
        for target in re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", text):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_every_dependency_has_a_reason():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    text = (ROOT / "docs/dependencies.md").read_text()
    wanted = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["postgres"],
        *project["dependency-groups"]["dev"],
    ]
    for requirement in wanted:
        name = re.match(r"[A-Za-z0-9_-]+", requirement)[0]
        assert f"`{name}`" in text, f"docs/dependencies.md does not say why {name}"


def test_every_module_is_short_enough_to_be_read():
    for path in sorted((ROOT / "gitsync").rglob("*.py")):
        lines = len(path.read_text().splitlines())
        assert lines <= 500 or "migrations" in path.parts, f"{path.name} has {lines} lines"


if __name__ == "__main__":
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(BEGIN)
    readme.write_text(before + BEGIN + settings_table() + END + rest.partition(END)[2])
    sys.exit(0)
