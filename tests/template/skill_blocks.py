"""Commands and proofs of the shipped skills, as data: what a test runs and what must hold then.

`<name>` in a command is a placeholder. `fill` puts values in, so that whoever has a server and a
workspace can run every block and every proof; see `PLACEHOLDERS` for what they stand for.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from gitsync.template.catalogue import builtin

PLACEHOLDERS = {
    "<rollout>": "name of a rollout of the workspace",
    "<starter>": "name of a starter",
    "<dataset>": "name of an uploaded dataset",
    "<data-file>": "a file under data/, without the folder",
    "<run>": "name of an evaluation or training run, whichever the command is about",
    "<code>": "a finding code",
    "<file>": "a file of the template, by its path",
    "<path>": "a path of the workspace",
    "<base-model>": "name of a base model",
    "<package>": "name of a Python package",
}
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_FIELD = re.compile(r"`(\.[A-Za-z_][A-Za-z0-9_.\[\]]*)`")
PROGRAMS = ("osmosis", "gitsync")


@dataclass(frozen=True)
class Proof:
    """One line of a skill's last table."""

    question: str
    command: str
    proof: str

    @property
    def fields(self) -> tuple[str, ...]:
        """JSON paths that the proof names."""
        return tuple(_FIELD.findall(self.proof))


def skill_texts() -> dict[str, dict[str, str]]:
    """Skill → file → text, of everything that ships."""
    return {
        skill.name: {path: file.data.decode() for path, file in skill.files.items()}
        for skill in builtin().skills.values()
    }


def blocks(text: str) -> list[str]:
    """The shell blocks of a text, in order."""
    return _BLOCK.findall(text)


def commands(text: str) -> list[str]:
    """The lines of all shell blocks, comments and blanks left out."""
    lines = [line.split("  #")[0].strip() for block in blocks(text) for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def inline_commands(text: str) -> list[str]:
    """Inline code that runs one of the two programs with at least a command."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    found = [c for c in _CODE.findall(outside) if c.split()[0] in PROGRAMS and len(c.split()) > 1]
    return [c for c in found if "…" not in c and "..." not in c]


def proofs(text: str) -> list[Proof]:
    """The table under `## Proofs`."""
    section = text.partition("## Proofs")[2].partition("\n## ")[0]
    rows = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[1].startswith("`"):
            rows.append(Proof(cells[0], cells[1].strip("`"), cells[2]))
    return rows


def fill(command: str, values: Mapping[str, str]) -> list[str]:
    """The command's words with placeholders replaced; an unknown one is a mistake of the text."""
    for name, value in values.items():
        command = command.replace(name, value)
    left = re.findall(r"<[a-z-]+>", command)
    if left:
        raise ValueError(f"{command}: no value for {', '.join(left)}")
    return shlex.split(command)


EXAMPLE_VALUES = {
    "<rollout>": "chess",
    "<starter>": "minimal-local",
    "<dataset>": "multiply",
    "<data-file>": "multiply.jsonl",
    "<run>": "happy-fox-1",
    "<code>": "no-grader",
    "<file>": "CLAUDE.md",
    "<path>": "x",
    "<base-model>": "Qwen/Qwen3.6-35B-A3B",
    "<package>": "x",
}
