"""`.osmosis/template.lock.toml`: what came from the template, and in which state.

Promise: reading checks everything (the file is a stranger's), writing is deterministic, and the
lock changes only together with the files it describes. Per path it holds owner, mode and blob id:
the base of every later three-way decision.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.template.files import check_path
from gitsync.template.parameters import Value
from gitsync.template.selection import (
    Selection,
    SkillMode,
    SkillUse,
    StarterUse,
    check_rollout_name,
)
from gitsync.template.toml import MAX_TOML_BYTES, read_toml
from gitsync.tree import Kind, Tree

LOCK_PATH = ".osmosis/template.lock.toml"
_HEADER = (
    "# Written by gitsync: what came from the template, and in which state. Keep it in Git, and\n"
    "# let `gitsync template` and `gitsync skills` change it.\n"
)
_BLOB = re.compile(r"[0-9a-f]{40}")
_OWNER = re.compile(r"workspace|shared|starter:[a-z0-9-]{1,60}|skill:[a-z0-9-]{1,64}")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,40}")
_MODE = re.compile(r"100644|100755|120000")


@dataclass(frozen=True, slots=True)
class LockedFile:
    """A file as the template last gave it."""

    owner: str
    kind: Kind
    blob: str


@dataclass(frozen=True, slots=True)
class Lock:
    """The whole record; an empty one stands for a workspace that no template has touched."""

    template: str = ""
    version: str = ""
    selection: Selection = field(default_factory=Selection)
    files: Mapping[str, LockedFile] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The file's text; equal locks give equal bytes."""
        lines = [
            _HEADER,
            "schema = 1",
            f"template = {_toml(self.template)}",
            f"version = {_toml(self.version)}",
        ]
        if self.selection.workspace is not None:
            lines += ["", "[workspace]", *_table(self.selection.workspace)]
        for use in self.selection.starters:
            lines += ["", f"[starters.{use.rollout}]", f"starter = {_toml(use.starter)}"]
            if use.parameters:
                lines += ["", f"[starters.{use.rollout}.parameters]", *_table(use.parameters)]
        for skill in self.selection.skills:
            lines += ["", f"[skills.{skill.name}]", f"mode = {_toml(skill.mode.value)}"]
        lines += ["", "[files]"]
        for path, file in sorted(self.files.items()):
            lines.append(
                f"{_toml(path)} = {{ owner = {_toml(file.owner)}, mode = {_toml(file.kind.value)}, "
                f"blob = {_toml(file.blob)} }}"
            )
        return ("\n".join(lines) + "\n").encode()


def _toml(value: Value) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _table(values: Mapping[str, Value]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in values.items()]


def read_lock(tree: Tree) -> Lock:
    """The lock of a tree; empty if there is none, `InvalidInput` if it is damaged."""
    entry = tree.entry(LOCK_PATH)
    if entry is None:
        return Lock()
    if not entry.is_file:
        raise InvalidInput(f"{LOCK_PATH} is no regular file.", field=LOCK_PATH)
    return parse_lock(tree.read(LOCK_PATH, limit=MAX_TOML_BYTES))


def parse_lock(data: bytes) -> Lock:
    """Read and check the bytes of a lock."""
    table = read_toml(data, name=LOCK_PATH)
    try:
        if table.get("schema") != 1:
            raise ValueError("only schema 1 is understood")
        return Lock(
            template=str(table["template"])[:100],
            version=_matched(_VERSION, table["version"]),
            selection=_selection(table),
            files={
                check_path(path): LockedFile(
                    _matched(_OWNER, file["owner"]),
                    _kind(file["mode"]),
                    _matched(_BLOB, file["blob"]),
                )
                for path, file in table.get("files", {}).items()
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError, InvalidInput) as e:
        raise InvalidInput(
            f"{LOCK_PATH} is damaged ({str(e)[:200]}). Restore it from Git's history.",
            field=LOCK_PATH,
        ) from e


def _selection(table: Mapping[str, Any]) -> Selection:
    workspace = table.get("workspace")
    return Selection(
        workspace=None if workspace is None else _values(workspace),
        starters=tuple(
            StarterUse(
                _matched(_NAME, use["starter"]),
                check_rollout_name(rollout),
                _values(use.get("parameters", {})),
            )
            for rollout, use in sorted(table.get("starters", {}).items())
        ),
        skills=tuple(
            SkillUse(_matched(_NAME, name), SkillMode(use["mode"]))
            for name, use in sorted(table.get("skills", {}).items())
        ),
    )


def _values(table: Mapping[str, Any]) -> dict[str, Value]:
    for key, value in table.items():
        if not isinstance(value, (str, int, float, bool)):
            raise ValueError(f"parameter {key[:40]} is no plain value")
    return dict(table)


def _matched(pattern: re.Pattern[str], value: object) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{str(value)[:60]!r} is not as expected")
    return value


def _kind(mode: object) -> Kind:
    return Kind(_matched(_MODE, mode))
