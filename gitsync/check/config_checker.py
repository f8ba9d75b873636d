"""What one config file alone says: sections, keys, types, names, references.

Promise: all problems of a file at once, each at its key or value; what the loaders of
`osmosis-ai` 0.3.8 refuse is an error here too, and default files are judged by nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from gitsync.check import toml
from gitsync.check.config import FREE, KEYS, PLACEHOLDER, REMOVED, REQUIRED
from gitsync.check.found import finding, shown
from gitsync.check.suggest import did_you_mean
from gitsync.model import Finding

# As in the SDK, where `$` lets one final line end pass.
_ENV_NAME = re.compile(r"[A-Z_][A-Z0-9_]*\n?")
_SECRET_NAME = re.compile(r"[A-Z][A-Z0-9_]*\n?")
_COMMIT = re.compile(r"[0-9a-fA-F]{7,40}")
_DATA_SUFFIX = re.compile(r"\.(?:jsonl|csv|parquet)$", re.IGNORECASE)


class Checker:
    """Collects the findings of one parsed file; what only benchmarks have is judged elsewhere."""

    def __init__(self, path: str, kind: str, document: toml.Document) -> None:
        self.path = path
        self.kind = kind
        self.document = document
        self.values = document.values
        self.is_default = path.endswith("/default.toml")
        self.found: list[Finding] = []

    def add(self, code: str, message: str, at: toml.Place, subject: str = "") -> None:
        """One more finding."""
        self.found.append(finding(code, self.path, message, at=at, subject=subject))

    def check(self) -> None:
        """What the kinds share, and the values of evaluation and training; in no order."""
        self._sections()
        self._experiment()
        self.env("env")
        if self.kind != "benchmark":
            self._secrets()

    def _sections(self) -> None:
        known = (*KEYS[self.kind], *FREE[self.kind])
        for name in self.values:
            if name not in known:
                where = self.document.opened.get((name,), (1, 1))
                hint = did_you_mean(name, known)
                homes = [s for s, keys in KEYS[self.kind].items() if name in keys]
                if homes and not isinstance(self.values[name], dict | list):
                    hint = f" It belongs in `[{homes[0]}]`."
                elif not hint and name in REMOVED:
                    hint = " It belongs to an older version."
                self.add(
                    "unknown-section",
                    f"`{shown(name)}` is no section of {_article(self.kind)} config.{hint} "
                    f"The sections are {_list(known)}.",
                    where,
                    name,
                )
        needed = {"eval": ("experiment", "secrets"), "benchmark": ("experiment", "agents")}
        for name in needed.get(self.kind, ("experiment",)):
            if name not in self.values:
                brackets = "[[agents]]" if name == "agents" else f"[{name}]"
                more = " Write `required = []` in it if no secret is needed." * (name == "secrets")
                self.add(
                    "missing-section",
                    f"The section `{brackets}` is missing. Add it.{more}",
                    (1, 1),
                    name,
                )
        for name, keys in KEYS[self.kind].items():
            if name != "agents":
                table = self.table(name)
                if table is not None:
                    self.unknown_keys(table, keys, name)
        for name in FREE[self.kind]:
            self.table(name)

    def table(self, *steps: str | int) -> dict[str, Any] | None:
        """The table at these steps; a finding and None if something else is there."""
        value: Any = self.values
        for step in steps:
            if isinstance(value, Mapping) and step not in value:
                return None
            value = value[step]
        if isinstance(value, dict):
            return value
        if not any(f.code == "wrong-type" and f.subject == _dotted(steps) for f in self.found):
            self.add(
                "wrong-type",
                f"`{shown(_dotted(steps))}` must be a table, not {_kind_of(value)}.",
                self.document.value(*steps),
                _dotted(steps),
            )
        return None

    def unknown_keys(
        self, table: Mapping[str, Any], keys: Iterable[str], *steps: str | int
    ) -> None:
        """A finding for each key that the section does not have."""
        for key in table:
            if key in keys:
                continue
            elsewhere = [
                section
                for section, names in KEYS[self.kind].items()
                if key in names and section != steps[0]
            ]
            hint = (
                f" It belongs in `[{elsewhere[0]}]`." if elsewhere else did_you_mean(key, keys)
            ) or f" The keys are {_list(keys)}."
            self.add(
                "unknown-key",
                f"`{shown(key)}` is no key of `{_dotted(s for s in steps if isinstance(s, str))}`."
                f"{hint}",
                self.document.key(*steps, key),
                key,
            )

    def missing(self, table: Mapping[str, Any], keys: Iterable[str], *steps: str | int) -> None:
        """A finding for each key that is not there, at the table's header."""
        for key in keys:
            if key not in table:
                self.add(
                    "missing-key",
                    f"`{_dotted(s for s in steps if isinstance(s, str))}` lacks the key `{key}`. "
                    "Add it.",
                    self.document.table(*steps),
                    key,
                )

    def string(self, value: Any, *steps: str | int) -> str | None:
        """The value if it is text; else a finding and None."""
        if isinstance(value, str):
            return value
        self.add(
            "wrong-type",
            f"`{shown(_dotted(steps))}` must be text in quotes, not {_kind_of(value)}.",
            self.document.value(*steps),
            _dotted(steps),
        )
        return None

    def strings(self, value: Any, *steps: str | int) -> list[tuple[int, str]] | None:
        """The texts of a list with their indices; findings for whatever else is there."""
        if not isinstance(value, list):
            self.add(
                "wrong-type",
                f"`{shown(_dotted(steps))}` must be a list of texts, not {_kind_of(value)}.",
                self.document.value(*steps),
                _dotted(steps),
            )
            return None
        texts = ((i, self.string(v, *steps, i)) for i, v in enumerate(value))
        return [(i, text) for i, text in texts if text is not None]

    def placeholder(self, value: str, *steps: str | int) -> None:
        """A finding if the value still has to be filled in."""
        if not self.is_default and PLACEHOLDER.search(value):
            self.add(
                "placeholder-left",
                f"`{shown(value)}` is a placeholder. Replace it by a real value.",
                self.document.value(*steps),
                _dotted(steps),
            )

    def _experiment(self) -> None:
        table = self.table("experiment")
        if table is None:
            return
        required = ("benchmark",) if self.kind == "benchmark" else REQUIRED
        self.missing(table, required, "experiment")
        for key, value in table.items():
            known = key in KEYS[self.kind]["experiment"]
            text = self.string(value, "experiment", key) if known else value
            if not isinstance(text, str):
                continue
            self.placeholder(text, "experiment", key)
            if key in required and not self.is_default and not text.strip():
                self.add(
                    "empty-value",
                    f"`{key}` is empty. Give it a value.",
                    self.document.value("experiment", key),
                    key,
                )
        if self.kind != "benchmark":
            self._references(table)

    def _references(self, table: Mapping[str, Any]) -> None:
        branch, commit, dataset = (table.get(k) for k in ("branch", "commit_sha", "dataset"))
        if isinstance(branch, str) and (not branch or any(c.isspace() for c in branch)):
            self.add(
                "invalid-branch",
                f"`{shown(branch)}` is no branch: it is empty or holds white space. Name a branch "
                "or remove the key.",
                self.document.value("experiment", "branch"),
                branch,
            )
        if isinstance(commit, str) and not _COMMIT.fullmatch(commit):
            self.add(
                "invalid-commit",
                f"`{shown(commit)}` is no commit id. Write 7 to 40 hexadecimal digits.",
                self.document.value("experiment", "commit_sha"),
                commit,
            )
        if isinstance(branch, str) and isinstance(commit, str):
            places = [self.document.key("experiment", k) for k in ("branch", "commit_sha")]
            self.add(
                "branch-and-commit",
                "`branch` and `commit_sha` exclude each other. Keep one of them.",
                max(places),
            )
        if isinstance(dataset, str) and not self.is_default and _is_path(dataset):
            name = re.split(r"[/\\]", dataset)[-1]
            self.add(
                "dataset-is-path",
                f"`{shown(dataset)}` is a path; `dataset` is the name of an uploaded data set."
                f" Write `{shown(_DATA_SUFFIX.sub('', name))}`.",
                self.document.value("experiment", "dataset"),
                dataset,
            )

    def env(self, *steps: str | int) -> None:
        """Names and values of an env table."""
        table = self.table(*steps)
        for key, value in (table or {}).items():
            at = self.document.key(*steps, key)
            if not _ENV_NAME.fullmatch(key):
                self.add(
                    "invalid-env-name",
                    f"`{shown(key)}` is no name for an environment variable. Use upper-case "
                    "letters, digits and underscores, no digit first.",
                    at,
                    key,
                )
            if key.startswith("_OSMOSIS_"):
                self.add(
                    "reserved-env-name",
                    f"`{shown(key)}` starts with `_OSMOSIS_`, which the platform keeps for itself."
                    " Choose another name.",
                    at,
                    key,
                )
            self.string(value, *steps, key)

    def secret_name(self, name: str, *steps: str | int) -> bool:
        """A finding and False if the name cannot be one of a secret."""
        if _SECRET_NAME.fullmatch(name):
            return True
        is_value = len(name) >= 16 and any(c.isdigit() for c in name)
        told = f"{name[:4]}…" if is_value else name
        self.add(
            "invalid-secret-name",
            f"`{shown(told)}` is no name for a secret. Use upper-case letters, digits and "
            "underscores, a letter first; the value itself never belongs here.",
            self.document.value(*steps),
            told,
        )
        return False

    def _secrets(self) -> None:
        table = self.table("secrets")
        if table is None:
            return
        self.missing(table, ("required",), "secrets")
        if "required" not in table:
            return
        names = self.strings(table["required"], "secrets", "required") or []
        counts: dict[str, int] = {}
        for index, name in names:
            self.secret_name(name, "secrets", "required", index)
            counts[name] = counts.get(name, 0) + 1
            if counts[name] == 2:
                self.add(
                    "duplicate-secret",
                    f"`{shown(name)}` is listed twice. Remove one.",
                    self.document.value("secrets", "required", index),
                    name,
                )
        env = self.values.get("env")
        for key in env if isinstance(env, dict) else ():
            if key in counts:
                self.overlap(key, "`[secrets].required`", "env")

    def overlap(self, key: str, other: str, *steps: str | int) -> None:
        """A name that is given twice: as a plain value and as a secret."""
        at = self.document.key(*steps, key)
        if not any(
            f.code == "env-secret-overlap" and (f.line, f.column) == at and f.subject == key
            for f in self.found
        ):
            self.add(
                "env-secret-overlap",
                f"`{shown(key)}` is set here and named in {other}. Keep one of the two.",
                at,
                key,
            )

    def invalid(self, section: str, key: str, wanted: str) -> None:
        """A value with which no run starts."""
        value = cast(dict[str, Any], self.values[section])[key]
        self.add(
            "invalid-value",
            f"`{key}` must be {wanted}, not `{shown(value)}`.",
            self.document.value(section, key),
            key,
        )

    def questionable(self, section: str, key: str, why: str) -> None:
        """A value that is accepted and hardly meant."""
        value = cast(dict[str, Any], self.values[section])[key]
        self.add(
            "questionable-value",
            f"`{key} = {shown(value)}` {why}. Check the value.",
            self.document.value(section, key),
            key,
        )


def _is_path(dataset: str) -> bool:
    return bool(re.search(r"[/\\]", dataset) or _DATA_SUFFIX.search(dataset))


def _dotted(steps: Iterable[str | int]) -> str:
    return ".".join(str(s) for s in steps)


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)


def _article(kind: str) -> str:
    return "an evaluation" if kind == "eval" else f"a {kind}"


def _kind_of(value: object) -> str:
    kinds = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "a table",
    }
    return kinds.get(type(value), "a date")
