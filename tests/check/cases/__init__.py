"""Our own entrypoint cases: tables of files with the answer each must get.

A file holds cases of this form; lines that start with `%` are shorthand (see `_EXPAND`):

    === name | verdict | codes, ... | workflow | grader | options
    --- main.py
    %head
    %flow EchoFlow
    %score EchoScore
    %tail EchoFlow EchoScore

An empty workflow or grader means null. Options: `env=NAME` (another environment in which a real
import must agree with the answer's claim), `noimport` (cannot be imported here), `any` (verdict
`unresolvable` or the given one), `option:accept_harbor_native`, `entry:PATH`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

_FLOW = """class {0}({1}):
    async def run(self, ctx):
        return [*ctx.prompt]
"""
_SCORE = """class {0}({1}):
    async def grade(self, ctx):
        ctx.set_reward(1.0)
"""
_HEAD = """from osmosis_ai.rollout import AgentWorkflow, Grader, LocalBackend
from osmosis_ai.rollout.server import create_rollout_server
"""
_TAIL = """def main():
    create_rollout_server(backend=LocalBackend(workflow={0}, grader={1}))
"""
_PYPROJECT = """[project]
name = "demo"
version = "0.1.0"
requires-python = ">=3.12"
dependencies = ["osmosis-ai[server]>=0.3.8,<0.4"{0}]
"""


@dataclass(slots=True)
class Case:
    """One case of a table."""

    name: str
    verdict: str
    codes: list[str]
    workflow: str | None
    grader: str | None
    options: list[str]
    files: dict[str, str] = field(default_factory=dict)

    @property
    def entrypoint(self) -> str:
        for option in self.options:
            if option.startswith("entry:"):
                return option[6:]
        return "main.py"

    @property
    def environments(self) -> list[dict[str, str]]:
        out: list[dict[str, str]] = [{}]
        out += [{o[4:]: "1"} for o in self.options if o.startswith("env=")]
        return out


def _expand(line: str) -> str:
    words = line[1:].split()
    if words[0] == "head":
        return _HEAD
    if words[0] == "flow":
        return _FLOW.format(words[1], words[2] if len(words) > 2 else "AgentWorkflow")
    if words[0] == "score":
        return _SCORE.format(words[1], words[2] if len(words) > 2 else "Grader")
    if words[0] == "tail":
        return _TAIL.format(*words[1:])
    raise ValueError(line)


def read_cases(path: Path) -> list[Case]:
    """The cases of one table."""
    cases: list[Case] = []
    name = ""
    for line in path.read_text().split("\n"):
        if line.startswith("=== "):
            parts = [p.strip() for p in line[4:].split("|")] + [""] * 6
            cases.append(
                Case(
                    parts[0],
                    parts[1],
                    sorted(parts[2].replace(",", " ").split()),
                    parts[3] or None,
                    parts[4] or None,
                    parts[5].split(),
                )
            )
        elif line.startswith("--- "):
            name = line[4:].strip()
            cases[-1].files[name] = ""
        elif line.startswith("%"):
            cases[-1].files[name] += _expand(line)
        elif cases and name and name in cases[-1].files:
            cases[-1].files[name] += line + "\n"
    for case in cases:
        extra = "".join(f', "{o[8:]}"' for o in case.options if o.startswith("require:"))
        if "nopyproject" not in case.options:
            case.files.setdefault("pyproject.toml", _PYPROJECT.format(extra))
    return cases


def all_cases() -> list[Case]:
    """Every case of every table, in order."""
    found = [c for p in sorted(Path(__file__).parent.glob("*.cases")) for c in read_cases(p)]
    names = [c.name for c in found]
    assert len(names) == len(set(names)), [n for n in names if names.count(n) > 1]
    return found
