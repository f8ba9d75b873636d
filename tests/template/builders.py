"""Folders and trees for the tests of templates."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from gitsync.template.files import Changes
from gitsync.tree import Kind


def put(root: Path, files: Mapping[str, object]) -> Path:
    """Write files: str or bytes are content, ("link", text) a link, ("exe", text) an executable."""
    for path, value in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(value, tuple) and value[0] == "link":
            os.symlink(value[1], target)
            continue
        body = value[1] if isinstance(value, tuple) else value
        target.write_bytes(body.encode() if isinstance(body, str) else body)
        if isinstance(value, tuple):
            target.chmod(0o755)
    return root


def lay_out(root: Path, changes: Changes) -> Path:
    """Write a mapping of rendered files naively."""
    for path, (kind, data) in changes.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if kind is Kind.LINK:
            os.symlink(os.fsdecode(data), target)
        else:
            target.write_bytes(data)
            if kind is Kind.EXECUTABLE:
                target.chmod(0o755)
    return root


def snapshot(root: Path, *, hidden: tuple[str, ...] = (".git",)) -> dict[str, tuple[str, bytes]]:
    """Everything below `root`: path → (mode, bytes); empty folders too, with a final slash."""
    out: dict[str, tuple[str, bytes]] = {}
    for here, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in hidden]
        for name in [*folders, *names]:
            path = Path(here, name)
            relative = path.relative_to(root).as_posix()
            if path.is_symlink():
                out[relative] = ("120000", os.fsencode(os.readlink(path)))
            elif path.is_dir():
                if not any(path.iterdir()):
                    out[relative + "/"] = ("40000", b"")
            else:
                mode = "100755" if path.stat().st_mode & 0o100 else "100644"
                out[relative] = (mode, path.read_bytes())
    return out


def git(root: Path, *args: str) -> str:
    """Run git in a folder; its output."""
    done = subprocess.run(["git", *args], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout


def repository(root: Path, *, identity: str = "acme/demo") -> Path:
    """A repository with an origin, without a commit."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q", "-b", "main")
    git(root, "remote", "add", "origin", f"https://github.com/{identity}.git")
    return root


def commit_all(root: Path, message: str = "All") -> str:
    """Commit everything that is not ignored; the sha."""
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD").strip()


MANIFEST = """\
schema = 1
name = "small"
version = "{version}"
managed = ["README.md", "link", "tool/**"]
additive = ["configs/**"]
executable = ["tool/run"]

[parameters.title]
type = "string"
default = "One"
pattern = "[A-Za-z ]*"
"""
STARTER = """\
schema = 1
name = "tiny"
owned = ["rollouts/{rollout}"]
files = ["configs/eval/{rollout}.toml"]
shared = ["data/rows.jsonl"]

[parameters.model]
type = "string"
default = "openai/a"
"""
SMALL = {
    "README.md.jinja": "# {{ title }}\n",
    "tool/run": "#!/bin/sh\n",
    "link": ("link", "README.md"),
    "rollouts/tiny/template.toml": STARTER,
    "rollouts/tiny/main.py.jinja": "NAME = '{{ rollout }}'\n",
    "configs/eval/tiny.toml.jinja": "[experiment]\nmodel_path = {{ model | toml }}\nlimit = 1\n",
    "data/rows.jsonl": "{}\n",
}


def small_template(root: Path, changes: Mapping[str, object] | None = None, *, version="1") -> Path:
    """A small template folder; `changes` adds, replaces or (None) removes source files."""
    files = {"template.toml": MANIFEST.replace("{version}", version), **SMALL, **(changes or {})}
    return put(root, {p: v for p, v in files.items() if v is not None})
