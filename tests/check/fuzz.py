"""Byte-level fuzzing of everything that reads files of a workspace.

`guided_fuzz` mutates good inputs and feeds them to the readers; a reader may refuse in its own way,
and nothing else. It keeps what reaches lines that nothing reached before and mutates that too.
`python -m tests.check.fuzz COUNT SEED` prints what was executed, how many lines of the checker that
reached, and what it took.
"""

from __future__ import annotations

import functools
import io
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gitsync import check as package
from gitsync.check import toml
from gitsync.check.configs import read_config
from gitsync.check.data import check_rows
from gitsync.check.gitindex import parse_index
from gitsync.check.ignore import add_rules
from gitsync.check.inspection import inspect
from gitsync.check.markdown import read_page, relative_path
from gitsync.check.parquet import check_parquet
from gitsync.check.python import check_entrypoint
from gitsync.check.secrets import read_content
from gitsync.check.skills import FrontError, read_front
from gitsync.check.source import read_source
from gitsync.model import CheckOptions
from tests.check.cases import all_cases
from tests.check.folder import Memory
from tests.check.linecov import Watched, watching
from tests.check.trees import BENCHMARK, EVAL, MAIN, PYPROJECT, ROWS, SKILL, TRAINING, workspace

SLOW = 5.0
PAGE = """\
# Title

- [a](b.md "t") ![i](<x y.png>) `osmosis eval run` <https://x.example>
- [r][s] <!-- [c](d.md) --> \\[e](f)

> [q](r.md)

```sh
osmosis --json train submit x && osmosis deploy
```

[s]: t.md 'u'
"""
CODE = """\
import os as o
from os import environ as e
from osmosis_ai.rollout.backend.harbor import HarborBackend
try:
    e["A_TOKEN"]
except (KeyError, ValueError):
    pass
B = HarborBackend(agent=Flow, max_concurrent=4)
if "X_SECRET" in o.environ: o.environ["X_SECRET"]
"""
INDEX = bytes.fromhex("44495243000000020000000100000000") + bytes(58) + b"a.txt" + bytes(5 + 20)
CSV = 'user_prompt,ground_truth\n"a\nb",c\nd,"e""f"\ng,h\ni,j\n'
META = '{"metadata": {"a": [1, {"b": null}], "c": "d"}}\n' * 5
PIECES = [
    b"[", b"]", b"{", b"}", b'"', b"'''", b'"""', b"=", b".", b",", b"\n", b"\r", b"\0", b"\xff",
    b"\xef\xbb\xbf", b"---\n", b"`", b"```\n", b"<", b">", b"(", b")", b"\\", b"#", b"&a", b"*a",
    b"!!x", b"9" * 5000, b"[" * 300, b"{" * 300, b"a." * 100, b"\xe2\x80\xae", b"\x1b[2J", b"- ",
    b": ", b"| \n", b"%", b"nan", b"1979-05-27T00:32:00Z", b"\xed\xa0\x80", b"0x", b"\t",
]  # fmt: skip


def rows(suffix: str) -> Callable[[bytes, random.Random], None]:
    def read(data: bytes, chance: random.Random) -> None:
        size = chance.choice([1, 7, 4096])
        check_rows("data/x", (data[i : i + size] for i in range(0, len(data), size)), suffix)

    return read


def front(data: bytes, _: random.Random) -> None:
    with suppress(FrontError):
        read_front(data.decode("utf-8", "replace"))


def page(data: bytes, _: random.Random) -> None:
    for link in read_page(data.decode("utf-8", "replace")).links:
        relative_path(link.target)


def values(data: bytes, _: random.Random) -> None:
    with suppress(toml.TomlError):
        toml.parse(data)


def ignore(data: bytes, _: random.Random) -> None:
    rules = add_rules(None, "", data)
    if rules is not None:
        rules.ignores("a/b/c.log", is_folder=False)


def secrets(data: bytes, _: random.Random) -> None:
    read_content([data])


def config(kind: str) -> Callable[[bytes, random.Random], None]:
    return lambda data, _: read_config(f"configs/{kind}/x.toml", kind, data) and None


def whole(path: str) -> Callable[[bytes, random.Random], None]:
    def read(data: bytes, _: random.Random) -> None:
        report = inspect(workspace({path: data}, oids=False))
        assert "check-failed" not in {f.code for f in report.findings}
        assert report.to_json()

    return read


@functools.cache
def programs() -> list[bytes]:
    """Entrypoints that reach far into the checker: those of our own cases."""
    found = [case.files.get("main.py", "") for case in all_cases()]
    return [MAIN.encode(), CODE.encode(), *(text.encode() for text in found if text)]


def entrypoint(data: bytes, _: random.Random) -> None:
    tree = Memory({"rollouts/demo/main.py": data, "rollouts/demo/impl.py": MAIN})
    report = check_entrypoint(tree, "demo", "main.py", options=CheckOptions())
    assert not [f for f in report.findings if "The checker failed" in f.message]


@functools.cache
def tables() -> list[bytes]:
    """Small Parquet files of both modes."""
    import pyarrow
    import pyarrow.parquet

    prompts = [{"user_prompt": "a", "ground_truth": "b"}] * 5
    objects = [{"metadata": {"a": 1, "b": ["c"]}}] * 5
    found = []
    for rows in (prompts, objects):
        out = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), out, compression="NONE")
        found.append(out.getvalue())
    return found


def parquet(data: bytes, _: random.Random) -> None:
    check_parquet("data/x.parquet", [data])


type Seeds = list[str | bytes] | Callable[[], list[bytes]]
TARGETS: dict[str, tuple[Seeds, Callable[[bytes, random.Random], None]]] = {
    "toml": ([EVAL, BENCHMARK, PYPROJECT], values),
    "eval": ([EVAL], config("eval")),
    "training": ([TRAINING], config("training")),
    "benchmark": ([BENCHMARK], config("benchmark")),
    "jsonl": ([ROWS, META], rows("jsonl")),
    "csv": ([CSV], rows("csv")),
    "frontmatter": ([SKILL], front),
    "markdown": ([PAGE, SKILL], page),
    "index": ([INDEX], lambda data, _: parse_index(data) and None),
    "ignore": (["*.log\n!a\n/b/**/c\n[a-z]?\n"], ignore),
    "python": ([CODE, MAIN], lambda data, _: read_source(data) and None),
    "secrets": ([b"ghp_" + b"a1B2" * 9 + b" AKIA" + b"Q3" * 8], secrets),
    "project": ([PYPROJECT], whole("rollouts/demo/pyproject.toml")),
    "skill": ([SKILL], whole(".agents/skills/plan-work/SKILL.md")),
    "page": ([PAGE], whole("AGENTS.md")),
    "lock": (['version = 1\n[[package]]\nname = "demo"\n'], whole("rollouts/demo/uv.lock")),
    "entrypoint": (programs, entrypoint),
    "parquet": (tables, parquet),
    "modules": (['[submodule "x"]\n\tpath = y\n'], whole(".gitmodules")),
}  # fmt: skip


def mutate(data: bytes, chance: random.Random) -> bytes:
    """A few random edits: pieces put in, cut out, doubled, bytes changed, other inputs spliced."""
    for _ in range(chance.choice([1, 1, 2, 3, 8])):
        at, to = sorted((chance.randrange(len(data) + 1), chance.randrange(len(data) + 1)))
        kind = chance.randrange(6)
        if kind == 0:
            data = data[:at] + chance.choice(PIECES) + data[at:]
        elif kind == 1:
            data = data[:at] + data[min(to, at + 20) :]
        elif kind == 2:
            data = data[:to] + data[at : at + 200] + data[to:]
        elif kind == 3 and at < len(data):
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        elif kind == 4:
            data = data[:at] + chance.choice(PIECES) * chance.randrange(1, 40) + data[at:]
        else:
            data = data[:at] + data[to : to + 100] + data[at:]
    return data[:200_000]


def seeds_of(name: str) -> list[bytes]:
    """The good inputs of a reader."""
    seeds = TARGETS[name][0]
    found = seeds() if callable(seeds) else seeds
    return [seed if isinstance(seed, bytes) else seed.encode() for seed in found]


def execute(name: str, data: bytes, chance: random.Random) -> float:
    """Feed one input to a reader; the processor seconds it took."""
    start = time.process_time()
    try:
        TARGETS[name][1](data, chance)
    except Exception as e:
        raise AssertionError(f"{name} failed with {e!r} on {data!r}") from e
    took = time.process_time() - start
    if took > SLOW:
        raise AssertionError(f"{name} took {took:.1f} s on {data[:2000]!r}")
    return took


@dataclass(slots=True)
class Found:
    """What guided fuzzing executed and reached."""

    executions: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    memory_mib: float = 0.0
    watched: Watched = field(default_factory=lambda: Watched(CHECKER))

    def lines(self) -> Iterator[str]:
        """A table of executions, and the share of lines."""
        yield "| reader | executions | inputs kept |"
        yield "|---|---|---|"
        for name, count in self.executions.items():
            yield f"| {name} | {count} | {self.kept[name]} |"
        yield ""
        for title, folder in (("the checker", CHECKER), ("`check/python` alone", PYTHON)):
            seen, there = self.watched.share(folder)
            yield f"- lines inside the functions of {title}: {seen} of {there} ({seen / there:.0%})"
        yield f"- slowest execution {self.slowest:.2f} s, largest memory {self.memory_mib:.0f} MiB"


CHECKER = Path(package.__file__).parent
PYTHON = CHECKER / "python"
_MOST_MEMORY_MIB = 1024


def guided_fuzz(count: int, seed: int) -> Found:
    """Raises what a reader must not, or if one takes too long or too much memory."""
    chance = random.Random(seed)
    pools = {name: seeds_of(name) for name in TARGETS}
    found = Found()
    names = list(TARGETS)
    with watching(found.watched) as watched:
        for name, pool in pools.items():
            for data in pool:
                execute(name, data, chance)
        watched.take_fresh()
        for n in range(count):
            name = names[n % len(names)]
            data = mutate(chance.choice(pools[name]), chance)
            found.slowest = max(found.slowest, execute(name, data, chance))
            found.executions[name] += 1
            if watched.take_fresh():
                pools[name].append(data)
                found.kept[name] += 1
    found.memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert found.memory_mib < _MOST_MEMORY_MIB, f"{found.memory_mib:.0f} MiB"
    return found


if __name__ == "__main__":
    result = guided_fuzz(int(sys.argv[1]), int(sys.argv[2]))
    print(f"{sum(result.executions.values())} executions", *result.lines(), sep="\n")
