"""The workspace cases of the corpus, made into real repositories as their format says."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent.parent / "corpus" / "workspaces"


@dataclass(frozen=True, slots=True)
class Case:
    """One case: its folder and what is expected of a check."""

    name: str
    folder: Path
    expected: dict[str, Any]

    @property
    def findings(self) -> set[tuple[str, str, str, int | None]]:
        """(code, severity, path, line); a line of None is not compared."""
        return {(f["code"], f["severity"], f["path"], f["line"]) for f in self.expected["findings"]}


def cases(root: Path = CASES) -> list[Case]:
    """All cases, by name."""
    return [
        Case(p.parent.name, p.parent, json.loads(p.read_text("utf-8")))
        for p in sorted(root.glob("*/expected.json"))
    ]


def materialise(case: Case, target: Path, *, commit: bool = True) -> Path:
    """A copy with its links, modes and generated files; with one commit if asked for."""
    shutil.copytree(case.folder, target, symlinks=True)
    expected = case.expected
    for path, recipe in expected.get("generate", {}).items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_bytes(recipe))
    for path, text in expected.get("symlinks", {}).items():
        link = target / path
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_symlink() or link.exists():
            link.unlink()
        link.symlink_to(text)
    for path, mode in expected.get("modes", {}).items():
        (target / path).chmod(int(mode, 8))
    if commit:
        git(target, "init", "-q", "-b", "main")
        git(target, "add", "-A")
        if expected.get("force_add"):
            git(target, "add", "-f", "--", *expected["force_add"])
        for path, sha in expected.get("gitlinks", {}).items():
            git(target, "update-index", "--add", "--cacheinfo", f"160000,{sha},{path}")
        git(target, "commit", "-q", "-m", "case")
    return target


def git(folder: Path, *args: str) -> str:
    """Run git in a folder."""
    done = subprocess.run(
        ["git", "-C", str(folder), *args], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _bytes(recipe: dict[str, Any]) -> bytes:
    if "text" in recipe:
        return recipe["text"].encode()
    if "parts" in recipe:
        return "".join(recipe["parts"]).encode()
    if "repeat" in recipe:
        text, count = recipe["repeat"]
        return (text * count).encode()
    return base64.b64decode(recipe["base64"])


def differences(case: Case, findings: list[dict[str, Any]]) -> list[str]:
    """How a check's outer findings differ from the expected ones."""
    found = {(f["code"], f["severity"], f["path"], f["line"]) for f in findings}
    loose = {(c, s, p) for c, s, p, line in case.findings if line is None}
    exact = {f for f in case.findings if f[3] is not None}
    out = [f"missing {f}" for f in sorted(exact - found)]
    out += [f"missing {f}" for f in sorted(loose - {f[:3] for f in found})]
    out += [f"too much {f}" for f in sorted(found - exact, key=str) if f[:3] not in loose]
    return out
