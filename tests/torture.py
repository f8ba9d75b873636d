"""The full counts: hostile repositories, servers and deliveries, 200 kills at random moments,
50,000 generated rollouts, 200,000 mutated files.

    python -m tests.torture [--only PART …] [--seed N]

Writes `reports/torture-DATE.md`; exit status 1 if anything does not hold. Takes about half an hour
and, for the big repositories, 1 GB of disk and 700 MB of memory beside the service's own.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KILLS = 150  # of a server that follows a remote
PUSH_KILLS = 50  # of one that is pushed to
POSTGRES_KILLS = 25  # of each kind on PostgreSQL
PROGRAMS = 50_000  # generated rollouts
INPUTS = 200_000  # mutated files of a workspace


def _prepare() -> None:
    """The same clean environment that the tests have."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "GITSYNC_", "OSMOSIS_")):
            del os.environ[name]
    os.environ["GIT_CONFIG_NOSYSTEM"] = "1"
    os.environ["GIT_CONFIG_GLOBAL"] = os.devnull
    for who in ("AUTHOR", "COMMITTER"):
        os.environ[f"GIT_{who}_NAME"] = "Robin Tester"
        os.environ[f"GIT_{who}_EMAIL"] = "robin@example.com"


def repositories(folder: Path, _seed: int) -> str:
    """Every repository of the kit, the expensive ones alone and with their own bounds."""
    from tests.hostile_runs import kit
    from tests.hostile_runs.repos import run_cases

    cases = kit.build(folder / "repos", big=True)
    big = {case.name for case in kit.make_repos.book.cases if case.big}
    lines, faults = [], []
    usual = {name: entry for name, entry in cases.items() if name not in big}
    for title, chosen in (
        ("usual", usual),
        *((name, {name: cases[name]}) for name in sorted(big)),
    ):
        (folder / title).mkdir()
        seconds = max(entry["bounds"]["seconds"] for entry in chosen.values())
        limits = {"fetch_deadline_s": seconds, "check_deadline_s": seconds}
        result = run_cases(folder / title, folder / "repos", chosen, **limits)
        lines.append(f"### {title}\n\n{result.summary()}")
        faults += result.faults
    if faults:
        raise AssertionError("\n".join(faults))
    return "\n\n".join(lines)


def kills(folder: Path, seed: int) -> str:
    """Blind kills on both kinds of repository."""
    from tests.crash.blind import run_blind
    from tests.crash.scene import EmbeddedScene, Scene
    from tests.hostile_runs import kit
    from tests.postgres import fresh_postgres

    lines = []
    for kind, runs, is_sqlite in (
        (Scene, KILLS, True),
        (EmbeddedScene, PUSH_KILLS, True),
        (Scene, POSTGRES_KILLS, False),
        (EmbeddedScene, POSTGRES_KILLS, False),
    ):
        place = folder / f"{kind.__name__}-{'sqlite' if is_sqlite else 'postgres'}"
        (place / "root").mkdir(parents=True)
        with ExitStack() as stack:
            more = {}
            if not is_sqlite:
                url = stack.enter_context(fresh_postgres())
                more["database_url"] = url.replace("postgresql+psycopg", "postgresql")
            host = stack.enter_context(kit.Host(place / "root"))
            scene = stack.enter_context(kind(place, host, **more))
            found = run_blind(scene, seed=seed, runs=runs)
        lines.append(f"{place.name}: {found.summary()}")
        growth = (found.bytes[-1] - found.bytes[0]) / max(1, found.runs - 1)
        lines.append(f"growth per run {growth:.0f} bytes")
        assert growth < 100_000, found.bytes
    return "\n\n".join(lines)


def _pytest(*paths: str) -> Callable[[Path, int], str]:
    def run(folder: Path, _seed: int) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--basetemp={folder / 'tmp'}", *paths],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=3600,
        )
        if done.returncode:
            raise AssertionError(done.stdout[-6000:])
        return done.stdout.strip().splitlines()[-1]

    return run


def _told(disagreements: Sequence[tuple[int, str, Any]]) -> str:
    """Each with its number, which makes the program again."""
    parts = [f"{len(disagreements)} disagreements"]
    for number, why, made in disagreements:
        files = "\n".join(f"--- {path}\n{text}" for path, text in made.files.items())
        parts.append(f"{number}: {why}\n{files}")
    return "\n\n".join(parts)


def programs(_folder: Path, seed: int) -> str:
    """Random rollouts, checked and really imported."""
    from tests.check.generated import run_generated

    found = run_generated(PROGRAMS, seed)
    assert not found.disagreements, _told(found.disagreements)
    assert found.valid_share >= 0.3 and found.unresolvable_share <= 0.05
    return (
        f"{found.programs} programs, {found.valid_share:.1%} valid; "
        f"{found.unresolvable_share:.2%} of the valid, deterministic ones unresolvable; "
        f"no disagreement. Said: {found.said}"
    )


def fuzz(_folder: Path, seed: int) -> str:
    """Mutated bytes for every reader of files, led by the lines they reach."""
    from tests.check.fuzz import guided_fuzz

    found = guided_fuzz(INPUTS, seed)
    total = sum(found.executions.values())
    return "\n".join([f"{total} executions; no crash, no hang.", "", *found.lines()])


def judges(folder: Path, seed: int) -> str:
    """Generated configs, data and skills, judged by us and by their own readers."""
    from tests.check.test_differential import compare_configs, compare_data, compare_skills

    compare_configs(4_000, seed, folder)
    compare_data(4_000, seed, folder)
    compare_skills(1_000, seed, folder)
    return "4,000 configs, 4,000 data files and 1,000 skills: no disagreement."


PARTS: dict[str, Callable[[Path, int], str]] = {
    "repos": repositories,
    "servers": _pytest("tests/hostile_runs/test_servers.py"),
    "deliveries": _pytest("tests/hostile_runs/test_deliveries.py"),
    "canary": _pytest("tests/hostile_runs/test_canary.py"),
    "points": _pytest(
        "tests/crash/test_points.py",
        "tests/crash/test_embedded.py",
        "tests/crash/test_recovery.py",
        "tests/crash/test_apply.py",
        "tests/crash/test_bootstrap.py",
        "tests/crash/test_order.py",
    ),
    "stories": _pytest("tests/stories/test_sync_story.py"),
    "kills": kills,
    "programs": programs,
    "judges": judges,
    "fuzz": fuzz,
}


def main() -> int:
    """Run the parts and write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    _prepare()
    begun = datetime.now(UTC)
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout
    report = [
        f"# Torture of {begun:%Y-%m-%d %H:%M} UTC",
        f"Seed {args.seed}; {git.strip()}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores.",
    ]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="torture-") as scratch:
        for name in args.only:
            folder = Path(scratch) / name
            folder.mkdir()
            start = time.monotonic()
            try:
                told, verdict = PARTS[name](folder, args.seed), "holds"
            except Exception:  # one part that fails must not hide the others
                told, verdict = f"```\n{traceback.format_exc()[-8000:]}\n```", "DOES NOT HOLD"
                failed += 1
            took = time.monotonic() - start
            report.append(f"## {name}: {verdict} ({took:.0f} s)\n\n{told}")
            print(f"{name}: {verdict} ({took:.0f} s)", flush=True)
    target = ROOT / "reports" / f"torture-{begun:%Y-%m-%d-%H%M}.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n\n".join(report) + "\n")
    print(f"report: {target}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
