"""The check of a whole workspace: 1,000 rollouts from scratch, with one changed, and a big file.

Times are those of the processor, so that a busy machine does not change them; the warm check is
also given as a ratio to the cold one of the same run.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import Result
from gitsync.check import inspect
from gitsync.check.cache import forget
from gitsync.check.data import check_rows
from gitsync.git.objects import open_commit
from tests.check.trees import EVAL, GOOD, MAIN, PYPROJECT, TRAINING

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin:/usr/local/bin",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Robin",
    "GIT_AUTHOR_EMAIL": "robin@example.com",
    "GIT_COMMITTER_NAME": "Robin",
    "GIT_COMMITTER_EMAIL": "robin@example.com",
}


def git(folder: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *args],
        check=True,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    return done.stdout.strip()


def make(folder: Path, rollouts: int) -> None:
    """A workspace with that many rollouts, each with code of its own and both configs."""
    files = dict(GOOD)
    for n in range(rollouts):
        name = f"r{n:04}"
        files[f"rollouts/{name}/main.py"] = MAIN.replace("Adds two", f"Adds {n} and two")
        files[f"rollouts/{name}/pyproject.toml"] = PYPROJECT.replace('"demo"', f'"{name}"')
        files[f"rollouts/{name}/README.md"] = f"# {name}\n"
        files[f"configs/eval/{name}.toml"] = EVAL.replace('"demo"', f'"{name}"')
        files[f"configs/training/{name}.toml"] = TRAINING.replace('"demo"', f'"{name}"')
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(text), encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all")


def many_rollouts(rollouts: int = 1000, changes: int = 9) -> dict[str, Any]:
    """Cold rate, and the time with one rollout changed, in a process that lives on."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, rollouts)
        git_dir = folder / ".git"
        forget()
        start = time.process_time()
        report = inspect(open_commit(git_dir, "HEAD"))
        cold = time.process_time() - start
        assert report.verdict == "ok", report.findings[:3]
        warm = []
        for n in range(changes):
            main = folder / f"rollouts/r{n:04}/main.py"
            main.write_text(main.read_text("utf-8") + f"\n# {n}\n", encoding="utf-8")
            git(folder, "commit", "-q", "-a", "-m", f"change {n}")
            start = time.process_time()
            changed = inspect(open_commit(git_dir, "HEAD"))
            warm.append(time.process_time() - start)
            assert changed.verdict == "ok"
        return {
            "rollouts": rollouts,
            "cold_seconds": round(cold, 3),
            "rollouts_per_second": round(rollouts / cold, 1),
            "one_changed_ms": round(statistics.median(warm) * 1000, 1),
            "one_changed_max_ms": round(max(warm) * 1000, 1),
        }


def big_file(mebibytes: int = 512) -> dict[str, Any]:
    """Rate and memory of one JSONL file that is never held."""
    row = b'{"user_prompt": "What is seven times six, in words?", "ground_truth": "forty-two"}\n'
    piece = row * (65536 // len(row))

    def pieces() -> Iterator[bytes]:
        for _ in range(mebibytes * 2**20 // len(piece)):
            yield piece

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    assert check_rows("data/big.jsonl", pieces(), "jsonl") == ()
    seconds = time.perf_counter() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {
        "mebibytes": mebibytes,
        "mib_per_second": round(mebibytes / seconds, 1),
        "memory_growth_mib": round(grown / 1024, 1),
    }


def measure(*, quick: bool) -> Iterator[Result]:
    """All figures."""
    big = big_file(128 if quick else 2048)
    yield Result(
        "check of a big data file",
        big["mib_per_second"],
        "MiB/s",
        target="memory grows by at most 16 MiB",
        is_met=big["memory_growth_mib"] <= 16,
        details=big,
    )
    many = many_rollouts()
    yield Result(
        f"check of {many['rollouts']} rollouts from scratch",
        many["rollouts_per_second"],
        "rollouts/s of processor time",
        details={"seconds": many["cold_seconds"]},
    )
    yield Result(
        "the same with one rollout changed",
        many["one_changed_ms"],
        "ms of processor time",
        "from scratch",
        many["cold_seconds"] * 1000,
        many["one_changed_ms"] / (many["cold_seconds"] * 1000),
        "< 50 ms",
        many["one_changed_ms"] < 50,
        {"slowest": many["one_changed_max_ms"]},
    )
