"""Templates in process: a starter planned and committed against copier, and a big update.

The baseline is copier's API copying the same rendered files into an empty folder: it renders
nothing, makes no commit and syncs nothing to the disk, while ours is durable when it is measured:
the comparison favours it.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from benchmarks import Result, in_turn, median_ratio, seconds
from gitsync.apply import commit_plan
from gitsync.git.objects import open_commit
from gitsync.model import Sha, Signature
from gitsync.template import select_workspace, starter_files
from gitsync.template.catalogue import Catalogue, SourceFile, builtin
from gitsync.template.disk import DiskTree
from gitsync.template.files import EmptyTree
from gitsync.template.journal import apply_plan
from gitsync.template.plan import Plan
from gitsync.template.selection import use_starter
from gitsync.template.starter import plan_starter, plan_workspace
from gitsync.template.update import plan_update
from gitsync.tree import Kind
from tests.template.builders import lay_out

STARTER = "multiply-local-strands"
WHO = Signature("Robin", "robin@example.com", 1_700_000_000)


def workspace(folder: Path) -> tuple[Path, Sha]:
    """A bare repository with a fresh workspace as its first commit."""
    repo = folder / "repo.git"
    subprocess.run(["git", "init", "-q", "--bare", str(repo)], check=True)
    plan = plan_workspace(EmptyTree(), builtin(), select_workspace(builtin(), [], None))
    return repo, commit_plan(repo, base=None, plan=plan, message="First", author=WHO)


def apply_rate(folder: Path, times: int) -> Iterator[Result]:
    """Plan and commit one starter, against copier copying its files."""
    from copier import run_copy

    repo, base = workspace(folder)
    source = lay_out(folder / "source", starter_files(STARTER))
    counter = iter(range(10**6))

    def ours() -> None:
        use = use_starter(builtin(), STARTER, rollout=f"r{next(counter)}")
        plan = plan_starter(open_commit(repo, base), builtin(), use)
        commit_plan(repo, base=base, plan=plan, message="Add", author=WHO)

    def theirs() -> None:
        target = folder / "copies" / str(next(counter))
        run_copy(str(source), target, quiet=True, defaults=True)

    mine, copies = in_turn(ours, theirs, times=times)
    ratio = median_ratio(copies, mine)
    yield Result(
        "starter planned and committed, durable",
        statistics.median(mine) * 1000,
        "ms",
        baseline="rate of copier.run_copy",
        baseline_value=statistics.median(copies) * 1000,
        ratio=ratio,
        target=">= 10 x",
        is_met=ratio >= 10,
        details={"files": len(starter_files(STARTER)) + 1, "times": times},
    )


def grown(files: int, *, version: str) -> Catalogue:
    """The shipped template with many more files; the version is in each of them."""
    shipped = builtin()
    more = {
        f"docs/{n % 40:02}/page-{n:04}.md": SourceFile(
            Kind.FILE, f"# Page {n}\n\nVersion {version}\n".encode() * 8, False
        )
        for n in range(files)
    }
    return Catalogue(
        name=shipped.name,
        version=version,
        description="",
        parameters=shipped.parameters,
        managed=shipped.managed,
        additive=shipped.additive,
        renames={},
        files={**shipped.files, **more},
        starters=shipped.starters,
        skills=shipped.skills,
    )


def big_update(folder: Path, files: int) -> Iterator[Result]:
    """Every file changed in the template, one in ten edited by the user."""
    old, new = grown(files, version="1.0.0"), grown(files, version="2.0.0")
    root = folder / "checkout"
    root.mkdir()
    apply_plan(root, plan_workspace(DiskTree(root), old, select_workspace(old, [], None)))
    for page in sorted(root.glob("docs/*/*.md"))[::10]:
        page.write_text("mine\n")
    plans = []
    planning = seconds(lambda: plans.append(plan_update(DiskTree(root), new)))
    assert len(plans[0].conflicts) == files / 10
    writing = seconds(lambda: apply_plan(root, plans[0]))
    yield Result(
        f"update of {files} files in a checkout planned", planning * 1000, "ms",
        details={"conflicts": files // 10, "changes": len(plans[0].changes)},
    )  # fmt: skip
    yield Result(f"update of {files} files written with journal", writing * 1000, "ms")


def big_commit(folder: Path, files: int) -> Iterator[Result]:
    """The same update as the service makes it: from a commit to a commit, durable.

    The baseline is git's own three-way merge of the same trees, which compares no lock, explains
    nothing and syncs nothing.
    """
    old, new = grown(files, version="1.0.0"), grown(files, version="2.0.0")
    repo = folder / "repo.git"
    subprocess.run(["git", "init", "-q", "--bare", str(repo)], check=True)
    counter = iter(range(10**6))

    def commit(base: Sha | None, plan: Plan) -> Sha:
        # no two are equal: what is stored already would not be written again
        message = f"Update {next(counter)}"
        return commit_plan(repo, base=base, plan=plan, message=message, author=WHO)

    def workspace_of(catalogue: Catalogue) -> Plan:
        selection = select_workspace(catalogue, [], None)
        return plan_workspace(EmptyTree(), catalogue, selection)

    first = commit(None, workspace_of(old))
    pages = sorted(p for p in workspace_of(old).changes if p.startswith("docs/"))[::10]
    edits = {page: (Kind.FILE, b"mine\n") for page in pages}
    ours = commit(first, Plan("", (), edits))
    theirs = commit(first, Plan("", (), {p: f for p, f in workspace_of(new).changes.items()}))

    plans: list[Plan] = []

    def update() -> None:
        plans.append(plan_update(open_commit(repo, ours), new))
        commit(ours, plans[-1])

    def merge() -> None:
        command = ["git", "merge-tree", "--write-tree", "--no-messages", ours, theirs]
        done = subprocess.run(command, cwd=repo, capture_output=True)
        assert done.returncode == 1, done.stderr  # there are conflicts

    mine, merges = in_turn(update, merge, times=3)
    yield Result(
        f"update of {files} files planned and committed, durable",
        statistics.median(mine) * 1000,
        "ms",
        baseline="time of git merge-tree",
        baseline_value=statistics.median(merges) * 1000,
        ratio=median_ratio(mine, merges),
        details={"conflicts": len(plans[0].conflicts), "changes": len(plans[0].changes)},
    )
    plans.clear()
    tracemalloc.start()
    update()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    yield Result(f"memory to plan and commit {files} files", peak / 2**20, "MiB")


def measure(quick: bool) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        yield from apply_rate(Path(name), 10 if quick else 60)
    with tempfile.TemporaryDirectory() as name:
        yield from big_update(Path(name), 2000)
    with tempfile.TemporaryDirectory() as name:
        yield from big_commit(Path(name), 2000)
