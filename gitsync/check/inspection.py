"""The story of one tree: survey, files, configs, packages, data, skills, links, entrypoints.

Promise: every problem is told at once; nothing of the tree is executed; a failure of our own in one
part becomes one finding of that part. Only an error of the tree's reader is raised, because then
nothing can be said of the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from gitsync.check.across import check_across
from gitsync.check.boundary import attempt
from gitsync.check.cache import Memo
from gitsync.check.config import Config
from gitsync.check.configs import read_configs, toml_finding, unreachable
from gitsync.check.data import check_data, stem_of
from gitsync.check.entrypoints import Known, check_pairs, pairs
from gitsync.check.files import Files, Holding, is_data_set, over_the_sum
from gitsync.check.layout import check_layout
from gitsync.check.links import Links
from gitsync.check.package import check_package
from gitsync.check.rollouts import Rollout, read_rollouts
from gitsync.check.skills import Skill, check_instructions, read_skills
from gitsync.check.suppress import read_suppressions
from gitsync.check.survey import survey
from gitsync.check.symlinks import CLAUDE, check_links
from gitsync.check.toml import MAX_BYTES, TomlError, parse_values
from gitsync.model import CheckOptions, EntrypointReport, Finding, Report
from gitsync.tree import TooLarge, Tree

_REFUSING = {"file-over-limit", "tree-too-large"}
_NO_ROLLOUTS: tuple[Rollout, ...] = ()
_NO_CONFIGS: tuple[Config, ...] = ()
Only = tuple[str, str | None]


def inspect(
    tree: Tree,
    *,
    options: CheckOptions | None = None,
    known: Known | None = None,
    only: Only | None = None,
) -> Report:
    """Check a tree; `only` limits the answer to one rollout, and to one of its entrypoints."""
    options = options or CheckOptions()
    memo = Memo()
    stopped = survey(tree, options=options, memo=memo)
    if stopped:
        return Report(findings=stopped, refused=True)
    return _Inspection(tree, options, memo).report(known, only)


class _Inspection:
    def __init__(self, tree: Tree, options: CheckOptions, memo: Memo) -> None:
        self._tree = tree
        self._options = options
        self._memo = memo
        self._files = Files(tree, memo)
        self._links = Links(tree)
        self._found: list[Finding] = []

    def report(self, known: Known | None, only: Only | None) -> Report:
        holding = self._try(".", self._files.all, Holding())
        self._found.extend(holding.found)
        self._found.extend(over_the_sum(holding.bytes))
        refused = any(f.code in _REFUSING for f in self._found)
        rollouts = self._try(
            "rollouts", lambda: read_rollouts(self._files, self._links), _NO_ROLLOUTS
        )
        configs = self._configs(holding)
        skills = self._try(
            ".agents/skills", lambda: read_skills(self._files, self._links), tuple[Skill, ...]()
        )
        for skill in skills:
            self._found.extend(skill.found)
        refused = self._parts(holding, rollouts, configs) or refused
        reports = self._entrypoints(configs, rollouts, known, only)
        marks = self._try(
            "rollouts", lambda: read_suppressions(self._files, holding.marked, rollouts), None
        )
        found: Sequence[Finding] = self._found
        if marks is not None:
            found = marks.apply(found)
            reports = [marks.apply_to(r) for r in reports]
            if only is None:
                found = [*found, *marks.unused()]
        if only is not None:
            found = _of_rollout(found, configs, only[0])
        return Report(
            rollouts=tuple(reports),
            findings=_ordered(found),
            refused=refused,
            configs=tuple(c.facts() for c in configs),
            skills=tuple(self._skill_fact(s) for s in skills),
        )

    def _try[T](self, path: str, step: Callable[[], T], otherwise: T) -> T:
        """The result of a step; an unforeseen failure becomes a finding and `otherwise`."""

        def failed(found: Finding) -> T:
            self._found.append(found)
            return otherwise

        return attempt(path, step, failed)

    def _collect(self, path: str, step: Callable[[], Iterable[Finding]]) -> None:
        self._found.extend(self._try(path, lambda: list(step()), []))

    def _configs(self, holding: Holding) -> tuple[Config, ...]:
        files, links = self._files, self._links
        configs = self._try("configs", lambda: read_configs(files, holding, links), _NO_CONFIGS)
        for config in configs:
            self._found.extend(config.found)
        return configs

    def _parts(
        self, holding: Holding, rollouts: Sequence[Rollout], configs: Sequence[Config]
    ) -> bool:
        """All outer groups but configs and skills; True if one of them refuses the commit."""
        files, links = self._files, self._links
        data = [f for f in holding.files if f.path.startswith("data/")]
        stems = [stem_of(f.path) for f in data if is_data_set(f.path)]
        held = {f.path: f for f in holding.files}
        self._collect(".", lambda: check_layout(files, links))
        self._collect("configs", lambda: unreachable(holding))
        self._collect("pyproject.toml", self._root_project)
        self._collect("configs", lambda: check_across(configs, rollouts, stems))
        for rollout in rollouts:
            self._collect(rollout.path, partial(self._package, rollout))
        self._collect("data", lambda: check_data(files, data))
        self._collect("AGENTS.md", lambda: check_instructions(files, links, held))
        found, refused = self._try(
            ".", lambda: check_links(files, links, holding), (list[Finding](), False)
        )
        self._found.extend(found)
        return refused

    def _package(self, rollout: Rollout) -> tuple[Finding, ...]:
        if rollout.holding.links:
            return check_package(self._tree, rollout)
        return self._memo.get(
            "package",
            rollout.oid,
            rollout.path,
            lambda: check_package(self._tree, rollout),
            rollout.path,
        )

    def _root_project(self) -> list[Finding]:
        entry = self._tree.entry("pyproject.toml")
        if entry is None or not entry.is_file:
            return []
        try:
            parse_values(self._tree.read("pyproject.toml", limit=MAX_BYTES))
        except TooLarge as e:
            error = TomlError(f"It has {e.details['size']} bytes.", limit=True)
            return [toml_finding("pyproject.toml", error)]
        except TomlError as e:
            return [toml_finding("pyproject.toml", e)]
        return []

    def _entrypoints(
        self,
        configs: Sequence[Config],
        rollouts: Sequence[Rollout],
        known: Known | None,
        only: Only | None,
    ) -> list[EntrypointReport]:
        wanted = pairs(configs, rollouts, only=only)
        none: list[EntrypointReport] = []
        return self._try(
            "rollouts",
            lambda: list(
                check_pairs(
                    self._tree,
                    wanted,
                    rollouts,
                    links=self._links,
                    memo=self._memo,
                    options=self._options,
                    known=known,
                )
            ),
            none,
        )

    def _skill_fact(self, skill: Skill) -> dict[str, Any]:
        target = self._links.follow(f"{CLAUDE}/{skill.name}")
        return {
            "name": skill.name,
            "path": skill.path,
            "valid": skill.is_valid,
            "linked": target.path == skill.path,
        }


def _ordered(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sorted, and no two equal in what identifies a finding."""
    unique: dict[tuple[bytes, int, int, str, str], Finding] = {}
    for one in found:
        unique.setdefault(one.order, one)
    return tuple(unique[key] for key in sorted(unique))


def _of_rollout(found: Iterable[Finding], configs: Sequence[Config], rollout: str) -> list[Finding]:
    """Those about one rollout: in its folder, or in a config that names it."""
    naming = {c.path for c in configs if c.text("rollout") == rollout}
    folder = f"rollouts/{rollout}"
    return [
        f for f in found if f.path in naming or f.path == folder or f.path.startswith(f"{folder}/")
    ]
