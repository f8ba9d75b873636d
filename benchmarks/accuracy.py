"""Right, false ok and false error on entrypoints whose answer is known, for several ways to ask.

`python -m benchmarks.accuracy` writes the table of `docs/check.md`. The cases are the vendored
corpus and our own tables of cases; all answers were confirmed by really importing the entrypoint.

- *checker*: what `gitsync check` says.
- *grep*: exactly one `class X(…AgentWorkflow…)` and one `class X(…Grader…)` in the entrypoint.
- *grep, all files*: the same over all Python files of the rollout.
- *griffe*: a static reader of packages that follows imports and bases; the classes among the names
  of the entrypoint that descend from the SDK's, with `run` or `grade` of their own or inherited.

Type checkers are not in the table: they say what an expression is, not which names a module ends up
with, and answer no question about a name that they were not given.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import Result
from gitsync.check.python import check_entrypoint
from gitsync.model import CheckOptions
from tests.check.cases import all_cases
from tests.check.folder import Folder

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "corpus" / "entrypoints"
PAGE = ROOT / "docs" / "check.md"
MARKS = re.compile(r"(<!-- accuracy -->\n).*?(<!-- /accuracy -->)", re.DOTALL)
BASES = {
    "osmosis_ai.rollout.agent_workflow.AgentWorkflow": "run",
    "osmosis_ai.rollout.grader.Grader": "grade",
}


@dataclass(frozen=True, slots=True)
class Known:
    """An entrypoint on the disk and the verdicts that a correct answer may give."""

    root: Path
    rollout: str
    entrypoint: str
    accept: frozenset[str]
    options: CheckOptions

    @property
    def folder(self) -> Path:
        return self.root / "rollouts" / self.rollout


@dataclass(slots=True)
class Score:
    """How one way to ask did."""

    right: int = 0
    false_ok: int = 0
    false_error: int = 0
    undecided: int = 0
    cases: int = field(default=0)

    def note(self, answer: str, accept: frozenset[str]) -> None:
        self.cases += 1
        if answer in accept:
            self.right += 1
        elif answer == "ok":
            self.false_ok += 1
        elif answer == "error":
            self.false_error += 1
        else:
            self.undecided += 1


def corpus(scratch: Path) -> Iterator[Known]:
    """The vendored cases, with their links made."""
    for path in sorted(CORPUS.glob("*/expected.json")):
        expected = json.loads(path.read_text())
        root = scratch / "corpus" / path.parent.name
        for source in sorted(path.parent.rglob("*")):
            if source.is_file():
                target = root / source.relative_to(path.parent)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read_bytes())
        for link, target in expected.get("symlinks", {}).items():
            (root / link).parent.mkdir(parents=True, exist_ok=True)
            (root / link).symlink_to(target)
        yield Known(
            root,
            expected["rollout"],
            expected["entrypoint"],
            frozenset(expected["accept"]),
            CheckOptions(**expected.get("options", {})),
        )


def own(scratch: Path) -> Iterator[Known]:
    """The cases of our tables."""
    for case in all_cases():
        root = scratch / "own" / case.name
        for name, text in case.files.items():
            target = root / "rollouts/demo" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        accept = {case.verdict} | ({"unresolvable"} if "any" in case.options else set())
        options = {o[7:]: True for o in case.options if o.startswith("option:")}
        yield Known(root, "demo", case.entrypoint, frozenset(accept), CheckOptions(**options))


# -- ways to ask ----------------------------------------------------------------------------------


def checker(known: Known) -> str:
    report = check_entrypoint(
        Folder(known.root), known.rollout, known.entrypoint, options=known.options
    )
    return report.verdict.value


def _matches(text: str) -> list[int]:
    return [
        len(re.findall(rf"^class \w+\([^)]*\b{base}\b", text, re.M))
        for base in ("AgentWorkflow", "Grader")
    ]


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.is_file() else ""


def grep(known: Known) -> str:
    return "ok" if _matches(_text(known.folder / known.entrypoint)) == [1, 1] else "error"


def grep_all(known: Known) -> str:
    texts = [_text(p) for p in sorted(known.folder.rglob("*.py"))] if known.folder.is_dir() else []
    return "ok" if _matches("\n".join(texts)) == [1, 1] else "error"


class Griffe:
    """Reads the SDK once, then one rollout after the other."""

    def __init__(self) -> None:
        import griffe

        self._griffe = griffe
        logging.getLogger("griffe").setLevel(logging.CRITICAL)
        spec = importlib.util.find_spec("osmosis_ai")
        assert spec is not None and spec.origin is not None
        self._site = Path(spec.origin).parents[1]
        self._sdk: Any = None

    def __call__(self, known: Known) -> str:
        griffe = self._griffe
        loader = griffe.GriffeLoader(search_paths=[known.folder, self._site])
        if self._sdk is None:
            self._sdk = loader.load("osmosis_ai")
        loader.modules_collection["osmosis_ai"] = self._sdk
        name = known.entrypoint.removesuffix(".py").replace("/", ".")
        try:
            loader.load(name.split(".")[0])
            for path in known.folder.iterdir():
                if path.suffix == ".py" or (path / "__init__.py").is_file():
                    with contextlib.suppress(Exception):
                        loader.load(path.stem)
            loader.resolve_aliases(implicit=True, external=False)
            module = loader.modules_collection[name]
            found = self._classes(module)
        except Exception:  # whatever a reader gives up on, it has not said ok
            return "error"
        return "ok" if [len(v) for v in found.values()] == [1, 1] else "error"

    def _classes(self, module: Any) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {base: set() for base in BASES}
        for member in module.members.values():
            with contextlib.suppress(Exception):
                cls = member.final_target if member.is_alias else member
                if not cls.is_class:
                    continue
                lineage = [c.path for c in cls.mro()]
                for base, method in BASES.items():
                    if base in lineage and self._has(cls, method, base):
                        found[base].add(cls.path)
        return found

    def _has(self, cls: Any, method: str, base: str) -> bool:
        """The method is defined somewhere below the SDK's abstract one."""
        for each in (cls, *cls.mro()):
            if each.path == base:
                return False
            if method in each.members:
                return "abstractmethod" not in each.members[method].labels
        return False


def ways() -> dict[str, Callable[[Known], str]]:
    """Those that can be asked here."""
    found: dict[str, Callable[[Known], str]] = {
        "`gitsync check`": checker,
        "grep for class names in the entrypoint": grep,
        "the same in all files of the rollout": grep_all,
    }
    if importlib.util.find_spec("griffe") is not None:
        found["griffe (follows imports and bases)"] = Griffe()
    return found


def scores() -> dict[str, dict[str, Score]]:
    """By set of cases and way to ask."""
    asked = ways()
    tally: dict[str, dict[str, Score]] = {}
    with tempfile.TemporaryDirectory() as name:
        for title, source in (("corpus", corpus), ("own cases", own)):
            by_way = tally.setdefault(title, {way: Score() for way in asked})
            for known in source(Path(name)):
                for way, ask in asked.items():
                    by_way[way].note(ask(known), known.accept)
    return tally


# -- the table ------------------------------------------------------------------------------------


def table(tally: dict[str, dict[str, Score]]) -> str:
    lines = [
        "| cases | asked | right | false ok | false error | undecided |",
        "|---|---|---|---|---|---|",
    ]
    for title, by_way in tally.items():
        for way, score in by_way.items():
            lines.append(
                f"| {title} ({score.cases}) | {way} | {score.right} | {score.false_ok} "
                f"| {score.false_error} | {score.undecided} |"
            )
    return "\n".join(lines) + "\n"


def measure(*, quick: bool) -> Iterator[Result]:
    for title, by_way in scores().items():
        for way, score in by_way.items():
            is_ours = "gitsync" in way
            yield Result(
                f"{title}: right answers of {way}",
                score.right,
                f"of {score.cases} cases",
                target="no false ok" if is_ours else "",
                is_met=score.false_ok == 0 if is_ours else None,
                details={"false_ok": score.false_ok, "false_error": score.false_error},
            )


def main() -> int:
    page = PAGE.read_text()
    found = table(scores())
    PAGE.write_text(MARKS.sub(lambda mark: mark[1] + found + mark[2], page))
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
