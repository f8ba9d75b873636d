"""What is known of each rollout folder: its files, its Python facts, the words in its texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from gitsync.check.files import FileAt, Files, Holding
from gitsync.check.links import Links
from gitsync.check.source import EMPTY, MAX_BYTES, SourceFacts, read_source
from gitsync.tree import Entry, Kind, TooLarge

_WORD = re.compile(rb"[A-Z][A-Z0-9_]*")
_MOST_WORDS = 5_000
_TEXT_LIMIT = 4 * 1024 * 1024
_NOT_CODE = {"__pycache__", ".venv", "venv", "node_modules", ".pytest_cache", ".git"}
_PLATFORM = ("OSMOSIS_", "_OSMOSIS_")
_GIVEN = {"DAYTONA_API_KEY", "OPENSANDBOX_API_KEY"}
_SECRET_ENDS = ("API_KEY", "TOKEN", "SECRET", "PASSWORD")


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """The facts of all Python files of a rollout together."""

    secrets: tuple[str, ...] = ()
    limits: tuple[int, ...] = ()
    backends: frozenset[str] = frozenset()
    packages_agent: bool = False
    has_workflow_config: bool = False

    @property
    def limit(self) -> int | None:
        """The one concurrency limit that the code names, if it is one."""
        return self.limits[0] if len(self.limits) == 1 and self.limits[0] >= 1 else None


class Rollout:
    """One folder directly under `rollouts/`."""

    def __init__(self, files: Files, links: Links, entry: Entry) -> None:
        self._files = files
        self._links = links
        self.name = entry.name
        self.oid = entry.oid
        self.path = f"rollouts/{entry.name}"

    @cached_property
    def holding(self) -> Holding:
        """Everything in the folder."""
        return self._files.below(self.path, self.oid)

    def has(self, name: str) -> bool:
        """True if the folder itself has a file, or a link, of this name."""
        entry = self._files.tree.entry(f"{self.path}/{name}")
        return entry is not None and (entry.is_file or entry.kind is Kind.LINK)

    @cached_property
    def is_rollout(self) -> bool:
        """True if it would be a rollout without any config."""
        return self.has("main.py") or self.has("pyproject.toml")

    @cached_property
    def code(self) -> CodeFacts:
        """What its Python files say."""
        return self._remembered("code", self._read_code)

    def mentions(self, word: str) -> bool:
        """True if the word occurs in some text file, or if that is too much to tell."""
        words = self._remembered("words", self._read_words)
        return words is None or word in words or any(word in w for w in words)

    def _remembered[T](self, kind: str, compute: Callable[[], T]) -> T:
        """The result for the folder; its id says nothing of what links lead to."""
        oid = None if self.holding.links else self.oid
        return self._files.memo.get(kind, oid, self.path, compute)

    @cached_property
    def _reached(self) -> tuple[tuple[str, FileAt], ...]:
        """The files of the folder and those that its links lead to, by their path in it."""
        found = [(f.path, f) for f in self.holding.files]
        for path in self.holding.links:
            target = self._links.follow(path)
            if target.entry is None or f"{self.path}/".startswith(f"{target.path}/"):
                continue
            if target.path.startswith(f"{self.path}/"):
                continue
            if target.is_file:
                size = self._files.tree.size(target.path)
                found.append((path, FileAt(target.path, target.entry, size)))
            elif target.is_folder:
                for file in self._files.below(target.path, target.entry.oid).files:
                    found.append((path + file.path[len(target.path) :], file))
        return tuple(found)

    def _python(self) -> list[tuple[str, FileAt]]:
        return [
            (path, file)
            for path, file in self._reached
            if path.endswith(".py") and not _NOT_CODE.intersection(path.split("/"))
        ]

    def _read_code(self) -> CodeFacts:
        secrets: dict[str, None] = {}
        limits: list[int] = []
        backends: set[str] = set()
        packages = configured = False
        for path, file in self._python():
            facts = self._source(file)
            limits.extend(facts.limits)
            backends.update(facts.backends)
            packages = packages or facts.packages_agent
            configured = configured or facts.has_workflow_config
            if not self._is_test(path):
                secrets.update((n, None) for n in facts.environment if _is_secret(n))
        return CodeFacts(
            tuple(sorted(secrets)), tuple(limits), frozenset(backends), packages, configured
        )

    def _source(self, file: FileAt) -> SourceFacts:
        if file.size > MAX_BYTES:
            return EMPTY
        return self._files.memo.get(
            "source",
            file.entry.oid,
            file.path,
            lambda: read_source(self._files.tree.read(file.path, limit=MAX_BYTES)),
        )

    def _is_test(self, path: str) -> bool:
        *folders, name = path.removeprefix(f"{self.path}/").split("/")
        return "tests" in folders or name == "conftest.py" or name.startswith("test_")

    def _read_words(self) -> frozenset[str] | None:
        words: set[str] = set()
        for _, file in self._reached:
            found = self._words_of(file)
            if found is None:
                return None
            words |= found
            if len(words) > _MOST_WORDS:
                return None
        return frozenset(words)

    def _words_of(self, file: FileAt) -> frozenset[str] | None:
        try:
            data = self._files.tree.read(file.path, limit=_TEXT_LIMIT)
        except TooLarge:
            return None
        if b"\0" in data[:8000]:
            return frozenset()
        return frozenset(w.decode() for w in set(_WORD.findall(data)))


def read_rollouts(files: Files, links: Links) -> tuple[Rollout, ...]:
    """The folders directly under `rollouts/`, by name."""
    found = [e for e in files.tree.children("rollouts") if e.kind is Kind.FOLDER]
    found.sort(key=lambda e: e.name.encode("utf-8", "surrogateescape"))
    return tuple(Rollout(files, links, e) for e in found)


def _is_secret(name: str) -> bool:
    return name.endswith(_SECRET_ENDS) and not name.startswith(_PLATFORM) and name not in _GIVEN
