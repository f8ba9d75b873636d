"""The check of one entrypoint against really importing it; growth with the number of modules.

Times are those of the processor, so that a busy machine does not change them.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks import Result
from gitsync.apply import export_template
from gitsync.check.python import check_entrypoint
from gitsync.model import CheckOptions
from tests.check.folder import Folder, Memory

CORPUS = Path(__file__).parents[1] / "tests" / "corpus" / "entrypoints"
CASE = "package-beside-main"
OPTIONS = CheckOptions()
_IMPORT = (
    "import sys; from pathlib import Path\n"
    "from osmosis_ai.platform.cli.rollout_entrypoint import load_rollout_entrypoint as load\n"
    "load(Path(sys.argv[1]), 'main.py')"
)
_HEAD = "from osmosis_ai.rollout import AgentWorkflow, Grader, LocalBackend\n"
_MODULE = """\
import logging, os
LOG = logging.getLogger(__name__)
class Tool{n}:
    size = {n}
    def use(self, value):
        return value + self.size
def helper{n}(a, b=2):
    return a * b
VALUE = helper{n}(3)
FLAG = 1 if os.environ.get("A{n}") else 2
"""
_REST = """\
from osmosis_ai.rollout.server import create_rollout_server
class Flow(AgentWorkflow):
    async def run(self, ctx): ...
class Score(Grader):
    async def grade(self, ctx): ctx.set_reward(1.0)
def main():
    create_rollout_server(backend=LocalBackend(workflow=Flow, grader=Score))
"""


def processor(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def importing(folder: Path) -> float:
    """Processor seconds of a fresh process that imports the entrypoint."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", _IMPORT, str(folder)], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def modules(count: int) -> Memory:
    files: dict[str, str | bytes] = {
        "rollouts/demo/pyproject.toml": '[project]\nname = "demo"\n'
        'dependencies = ["osmosis-ai[server]"]\n',
        "rollouts/demo/main.py": _HEAD + "".join(f"import m{n}\n" for n in range(count)) + _REST,
    }
    for n in range(count):
        files[f"rollouts/demo/m{n}.py"] = _MODULE.format(n=n)
    return Memory(files)


def _median(workspace: Path, rollout: str, times: int) -> float:
    def check() -> object:
        return check_entrypoint(Folder(workspace), rollout, "main.py", options=OPTIONS)

    return statistics.median(processor(check) for _ in range(times))


def measure(*, quick: bool) -> Iterator[Result]:
    case = CORPUS / CASE
    tree = Folder(case)

    def check() -> object:
        return check_entrypoint(Folder(case), "demo", "main.py", options=OPTIONS)

    assert check_entrypoint(tree, "demo", "main.py", options=OPTIONS).verdict == "ok"
    times = [processor(check) for _ in range(20 if quick else 200)]
    real = [importing(case / "rollouts" / "demo") for _ in range(5 if quick else 25)]
    ours, theirs = statistics.median(times), statistics.median(real)
    yield Result(
        "check of one entrypoint, warm",
        round(ours * 1000, 2),
        "ms of processor time",
        "importing it in a fresh process",
        round(theirs * 1000, 1),
        ours / theirs,
        "50 times faster: at most 0.02",
        ours * 50 <= theirs,
    )
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        exported = Path(scratch) / "workspace"
        export_template(exported)
        starters = {
            folder.name: _median(exported, folder.name, 5 if quick else 25)
            for folder in sorted((exported / "rollouts").iterdir())
            if folder.is_dir()
        }
    slowest = max(starters, key=lambda name: starters[name])
    yield Result(
        f"check of the slowest starter, {slowest}",
        round(starters[slowest] * 1000, 2),
        "ms of processor time",
        details={name: round(value * 1000, 2) for name, value in starters.items()},
    )
    cases = sorted(folder for folder in CORPUS.iterdir() if (folder / "rollouts/demo").is_dir())
    corpus = {folder.name: _median(folder, "demo", 3) for folder in cases}
    slowest = max(corpus, key=lambda name: corpus[name])
    yield Result(
        f"check of a corpus case, median of {len(corpus)}",
        round(statistics.median(corpus.values()) * 1000, 2),
        "ms of processor time",
        details={"slowest": slowest, "ms": round(corpus[slowest] * 1000, 2)},
    )
    patient = replace(OPTIONS, seconds_per_entrypoint=120.0)
    per_module: dict[int, float] = {}
    for count in (10, 100, 499):
        loaded = modules(count)
        runs = [
            processor(partial(check_entrypoint, loaded, "demo", "main.py", options=patient))
            for _ in range(3)
        ]
        per_module[count] = min(runs) / count
        yield Result(
            f"check of an entrypoint that loads {count} modules",
            round(min(runs) * 1000, 1),
            "ms of processor time",
        )
    yield Result(
        "time per module, 499 modules against 100",
        round(per_module[499] * 1000, 3),
        "ms",
        "the same with 100 modules",
        round(per_module[100] * 1000, 3),
        per_module[499] / per_module[100],
        "linear: at most 2",
        per_module[499] <= 2 * per_module[100],
    )
