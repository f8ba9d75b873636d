"""Trees in memory, and a workspace with nothing wrong, for tests of single rules."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from gitsync.check import inspect
from gitsync.tree import Entry, Kind, TooLarge

Content = str | bytes | tuple[str, str] | None

MAIN = '''\
"""Adds two numbers."""

import uvicorn
from osmosis_ai.rollout import AgentWorkflow, Grader, LocalBackend
from osmosis_ai.rollout.server import create_rollout_server


class Adder(AgentWorkflow):
    async def run(self, ctx):
        return [*ctx.prompt, {"role": "assistant", "content": "4"}]


class Exact(Grader):
    async def grade(self, ctx):
        ctx.set_reward(1.0 if ctx.sample.messages[-1]["content"] == ctx.label else 0.0)


def main() -> None:
    backend = LocalBackend(workflow=Adder, grader=Exact)
    uvicorn.run(create_rollout_server(backend=backend), host="0.0.0.0", port=8000)


if __name__ == "__main__":
    main()
'''
PYPROJECT = """\
[project]
name = "demo"
version = "0.1.0"
requires-python = ">=3.12"
dependencies = ["osmosis-ai[server]>=0.3.8,<0.4"]

[build-system]
requires = ["setuptools>=61.0"]
build-backend = "setuptools.build_meta"
"""
EVAL = """\
[experiment]
rollout = "demo"
entrypoint = "main.py"
model_path = "openai/gpt-5-mini"
dataset = "sums"

[evaluation]
limit = 4

[secrets]
required = ["OPENAI_API_KEY"]
"""
TRAINING = """\
[experiment]
rollout = "demo"
entrypoint = "main.py"
model_path = "Qwen/Qwen3.6-35B-A3B"
dataset = "sums"

[training]
lr = 1e-5
"""
BENCHMARK = """\
[experiment]
benchmark = "gaia"

[[agents]]
harness = "codex"

[agents.model]
type = "provider"
model = "openai/gpt-5-mini"
api_key_secret = "OPENAI_API_KEY"
"""
ROWS = "".join(f'{{"user_prompt": "{n} + 1 = ?", "ground_truth": "{n + 1}"}}\n' for n in range(5))
SKILL = """\
---
name: plan-work
description: Plans the work before any of it is done.
---

# Plan

Read `AGENTS.md` first.
"""
GOOD: dict[str, Content] = {
    "AGENTS.md": "# Workspace\n",
    "CLAUDE.md": "@AGENTS.md\n",
    "configs/AGENTS.md": "# Configs\n",
    "configs/eval/demo.toml": EVAL,
    "configs/training/demo.toml": TRAINING,
    "data/sums.jsonl": ROWS,
    "rollouts/demo/main.py": MAIN,
    "rollouts/demo/pyproject.toml": PYPROJECT,
}


def link(text: str) -> tuple[str, str]:
    """A symlink with this text."""
    return ("link", text)


def executable(text: str) -> tuple[str, str]:
    """A file with the executable bit."""
    return ("executable", text)


def gitlink(sha: str = "1" * 40) -> tuple[str, str]:
    """A submodule."""
    return ("gitlink", sha)


def workspace(files: Mapping[str, Content] | None = None, *, oids: bool = True) -> MemoryTree:
    """The good workspace with these files put in, or taken out where the content is None."""
    merged = {**GOOD, **(files or {})}
    return MemoryTree({p: c for p, c in merged.items() if c is not None}, oids=oids)


def outer(files: Mapping[str, Content]) -> list[str]:
    """`code path:line` of every outer finding for the good workspace with these files."""
    return [f"{f.code} {f.path}:{f.line}" for f in inspect(workspace(files)).findings]


class MemoryTree:
    """A `Tree` over a mapping; object ids are made like Git's, unless they are not wanted."""

    def __init__(self, files: Mapping[str, Content], *, oids: bool = True) -> None:
        self._blobs: dict[str, bytes] = {}
        self._kinds: dict[str, Kind] = {}
        self.reads: list[str] = []
        self._oids = oids
        for path, content in files.items():
            kind = Kind.FILE
            if isinstance(content, tuple):
                kinds = {
                    "link": Kind.LINK,
                    "executable": Kind.EXECUTABLE,
                    "gitlink": Kind.GITLINK,
                }
                kind, content = kinds[content[0]], content[1]
            data = content if isinstance(content, bytes) else (content or "").encode()
            self._blobs[path] = data
            self._kinds[path] = kind
        self._children: dict[str, dict[str, Kind]] = {"": {}}
        for path in self._blobs:
            self._add(path, self._kinds[path])
        self._known: dict[str, str] = {}

    def _add(self, path: str, kind: Kind) -> None:
        parent, _, name = path.rpartition("/")
        if parent not in self._children:
            self._children[parent] = {}
            self._add(parent, Kind.FOLDER)
        self._children[parent][name] = kind

    def _oid(self, path: str, kind: Kind) -> str | None:
        if not self._oids:
            return None
        if path not in self._known:
            if kind is Kind.FOLDER:
                body = "".join(
                    f"{k.value} {n} {self._oid(f'{path}/{n}' if path else n, k)}\n"
                    for n, k in sorted(self._children.get(path, {}).items())
                ).encode("utf-8", "surrogateescape")
            else:
                body = self._blobs[path]
            self._known[path] = hashlib.sha1(kind.value[:2].encode() + body).hexdigest()
        return self._known[path]

    def entry(self, path: str) -> Entry | None:
        if not path:
            return Entry("", Kind.FOLDER, self._oid("", Kind.FOLDER), 0o40000)
        parent, _, name = path.rpartition("/")
        kind = self._children.get(parent, {}).get(name)
        if kind is None:
            return None
        return Entry(name, kind, self._oid(path, kind), int(kind.value, 8))

    def children(self, path: str) -> list[Entry]:
        found = [
            e
            for name in self._children.get(path, {})
            if (e := self.entry(f"{path}/{name}" if path else name)) is not None
        ]
        return sorted(
            found,
            key=lambda e: (
                e.name.encode("utf-8", "surrogateescape") + b"/" * (e.kind is Kind.FOLDER)
            ),
        )

    def size(self, path: str) -> int:
        return len(self._blobs[path])

    def read(self, path: str, *, limit: int) -> bytes:
        self.reads.append(path)
        data = self._blobs[path]
        if len(data) > limit:
            raise TooLarge(f"{len(data)} bytes", size=len(data))
        return data

    def stream(self, path: str) -> Iterator[bytes]:
        self.reads.append(path)
        data = self._blobs[path]
        for at in range(0, len(data), 65536):
            yield data[at : at + 65536]
