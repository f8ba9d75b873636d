"""Which entrypoints a tree has, and what is said of each: kept, known to the caller, or checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from gitsync.check.cache import Memo
from gitsync.check.config import Config
from gitsync.check.links import End, Links
from gitsync.check.python import NamedAt, check_entrypoint
from gitsync.check.rollouts import Rollout
from gitsync.model import CheckOptions, EntrypointReport
from gitsync.tree import Tree


class Known(Protocol):
    """Stored assessments of the caller, made with the same options and `fingerprint()`."""

    def lookup(self, rollout: str, tree_oid: str, entrypoint: str) -> EntrypointReport | None:
        """The report for a rollout folder with this object id, if one is stored."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A rollout, one of its entrypoints, and where a config first names them."""

    rollout: str
    entrypoint: str
    named_at: NamedAt | None


def pairs(
    configs: Sequence[Config],
    rollouts: Sequence[Rollout],
    *,
    only: tuple[str, str | None] | None = None,
) -> tuple[Pair, ...]:
    """Every pair that a config names, and `main.py` of each rollout that none does.

    `only` picks one rollout, or one pair whether it is named or not.
    """
    found: dict[tuple[str, str], Pair] = {}
    for config in configs:
        if config.kind == "benchmark" or config.is_default or config.document is None:
            continue
        rollout, entrypoint = config.text("rollout"), config.text("entrypoint")
        if rollout is None or entrypoint is None or (rollout, entrypoint) in found:
            continue
        places = [config.document.value("experiment", k) for k in ("rollout", "entrypoint")]
        found[rollout, entrypoint] = Pair(
            rollout, entrypoint, NamedAt(config.path, *places[0], *places[1])
        )
    named = {rollout for rollout, _ in found}
    for folder in rollouts:
        if folder.name not in named and folder.is_rollout:
            found[folder.name, "main.py"] = Pair(folder.name, "main.py", None)
    if only is not None:
        rollout, entrypoint = only
        if entrypoint is not None:
            pair = found.get((rollout, entrypoint), Pair(rollout, entrypoint, None))
            return (pair,)
        found = {k: v for k, v in found.items() if k[0] == rollout} or {
            (rollout, "main.py"): Pair(rollout, "main.py", None)
        }
    return tuple(found[key] for key in sorted(found))


def check_pairs(
    tree: Tree,
    wanted: Sequence[Pair],
    rollouts: Sequence[Rollout],
    *,
    links: Links,
    memo: Memo,
    options: CheckOptions,
    known: Known | None,
) -> Iterator[EntrypointReport]:
    """One report per pair; an unchanged rollout that needs nothing outside is not read again."""
    by_name = {r.name: r for r in rollouts}
    for pair in wanted:
        folder = by_name.get(pair.rollout)

        def check(pair: Pair = pair) -> EntrypointReport:
            return check_entrypoint(
                tree, pair.rollout, pair.entrypoint, options=options, named_at=pair.named_at
            )

        if folder is None or folder.oid is None or not _stands_alone(folder, links, memo):
            yield check()
            continue
        kept = memo.peek("entrypoint", folder.oid, pair.rollout, pair.entrypoint, options)
        if kept is None and known is not None:
            kept = known.lookup(pair.rollout, folder.oid, pair.entrypoint)
        if kept is not None and _is_inside(kept, folder.path):
            yield kept
            continue
        report = check()
        if _is_inside(report, folder.path):
            memo.keep("entrypoint", folder.oid, report, pair.rollout, pair.entrypoint, options)
        yield report


def _is_inside(report: EntrypointReport, folder: str) -> bool:
    """True if no finding stands in a config, whose lines may have moved since."""
    return all(f.path == folder or f.path.startswith(f"{folder}/") for f in report.findings)


def _stands_alone(folder: Rollout, links: Links, memo: Memo) -> bool:
    """True if no link in the folder leads out of it: then its object id says everything."""
    if not folder.holding.links:
        return True
    for path in folder.holding.links:
        target = links.follow(path)
        if target.end is not End.INSIDE or not target.path.startswith(f"{folder.path}/"):
            return False
    return True
