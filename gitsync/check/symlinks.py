"""Symlinks and modes: links between skills and Claude Code, links astray, task folders.

Promise: a link gets at most one finding. Links that leave the repository, or that no system could
make, refuse the commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gitsync.check.files import FileAt, Files, Holding
from gitsync.check.found import finding, shown
from gitsync.check.links import End, Links
from gitsync.check.skills import FOLDER
from gitsync.model import Finding
from gitsync.tree import Kind, TooLarge

CLAUDE = ".claude/skills"
TARGET = "../../.agents/skills/"
_AS_TEXT = re.compile(r"(?:\.\./)+\.agents/skills/[^/\s]+/?")
_TEXT_LIMIT = 4096
_MODULES = re.compile(
    r"^\s*(?:\[submodule\s+\"(?:[^\"\n]*/)?\.\.(?:/[^\"\n]*)?\"\]|(?:path|url)\s*=\s*\"?-)",
    re.MULTILINE,
)


def check_links(files: Files, links: Links, holding: Holding) -> tuple[list[Finding], bool]:
    """The findings, and whether one of the links refuses the commit."""
    found: list[Finding] = []
    refused = False
    tasks = [f.path.removesuffix("task.toml") for f in holding.files if _is_task(f.path)]
    tasks += [p.removesuffix("task.toml") for p in holding.links if _is_task(p)]
    whole = any(p in holding.links for p in (".claude", CLAUDE))
    for path in holding.links:
        note, bad = _link(links, path, tuple(tasks))
        refused = refused or bad
        if note is not None:
            found.append(note)
    if not whole:
        found.extend(_claude(files, links))
    found.extend(_scripts(holding, tasks))
    modules = _submodules(files, holding)
    return [*found, *modules], refused or bool(modules)


def _is_task(path: str) -> bool:
    return path.endswith("/task.toml") and path.startswith("rollouts/") and path.count("/") >= 2


def _link(links: Links, path: str, tasks: tuple[str, ...]) -> tuple[Finding | None, bool]:
    folder = path.rpartition("/")[0]
    text = links.text(path)
    unsafe = not text or "\0" in text
    end = End.NOWHERE if not text or "\0" in text else links.follow(text, base=folder).end
    refused = unsafe or end is End.OUTSIDE
    if tasks and path.startswith(tasks):
        return (
            finding(
                "symlink-in-task",
                path,
                "A Harbor task must not hold symlinks, and this one does. Replace the link by a "
                "copy of the file.",
            ),
            refused,
        )
    if unsafe:
        return (
            finding(
                "unsafe-link",
                path,
                "The text of this symlink is empty, too long or holds a NUL, so no system can "
                "make it. Remove the link.",
            ),
            True,
        )
    target = shown(text, limit=120)
    if end is End.OUTSIDE:
        return (
            finding(
                "escaping-symlink",
                path,
                f"The link points at `{target}`, outside the repository. Commit the file itself.",
                subject=text or "",
            ),
            True,
        )
    if path in (".claude", CLAUDE):
        return (
            finding(
                "whole-directory-link",
                path,
                f"`{path}` is one link as a whole, so no skill can be added for Claude Code only. "
                f"Make `{CLAUDE}` a folder with one link per skill.",
            ),
            False,
        )
    if folder == CLAUDE:
        return _skill_link(path, text or "", end), False
    if end is End.NOWHERE:
        return (
            finding(
                "dangling-symlink",
                path,
                f"The link points at `{target}`, where there is nothing. Correct or remove it.",
                subject=text or "",
            ),
            False,
        )
    return None, False


def _skill_link(path: str, text: str, end: End) -> Finding | None:
    exact = TARGET + path.rpartition("/")[2]
    if end is End.NOWHERE:
        return finding(
            "dangling-skill-link",
            path,
            f"The link points at `{shown(text)}`, where there is no skill, so Claude Code does not "
            f"see it. Link to `{shown(exact)}`, without a line end.",
            subject=text,
        )
    if text != exact:
        return finding(
            "inexact-skill-link",
            path,
            f"The link says `{shown(text)}`; tools compare it with `{shown(exact)}`. Write it so.",
            subject=text,
        )
    return None


def _claude(files: Files, links: Links) -> Iterator[Finding]:
    """What stands in `.claude/skills` instead of links, and what is not there."""
    entry = files.tree.entry(CLAUDE)
    if entry is None or entry.kind is not Kind.FOLDER:
        return
    skills = {c.name for c in files.tree.children(FOLDER) if c.kind is Kind.FOLDER}
    children = files.tree.children(CLAUDE)
    for child in children:
        path = f"{CLAUDE}/{child.name}"
        if child.kind is Kind.FOLDER and child.name in skills:
            yield finding(
                "skill-link-as-copy",
                path,
                f"`{shown(child.name)}` is a copy of the skill, and copies drift apart. Replace it "
                f"by a link to `{TARGET}{shown(child.name)}`.",
            )
        elif child.is_file and _is_link_text(files, path):
            yield finding(
                "skill-link-as-text",
                path,
                "This is the text of a link in a regular file, from a clone without symlinks. Make "
                f"it a symlink to `{TARGET}{shown(child.name)}`.",
            )
    held = {c.name for c in children}
    for name in skills - held:
        yield finding(
            "skill-unlinked",
            f"{FOLDER}/{name}",
            f"Claude Code does not see the skill `{shown(name)}`. Add the link "
            f"`{CLAUDE}/{shown(name)}`.",
        )


def _is_link_text(files: Files, path: str) -> bool:
    try:
        data = files.tree.read(path, limit=_TEXT_LIMIT)
    except TooLarge:
        return False
    return bool(_AS_TEXT.fullmatch(data.decode("utf-8", "replace").strip()))


def _scripts(holding: Holding, tasks: list[str]) -> Iterator[Finding]:
    scripts = {f"{task}tests/test.sh" for task in tasks}
    for file in holding.files:
        if file.path in scripts and file.entry.kind is Kind.FILE:
            yield finding(
                "test-script-mode",
                file.path,
                "The verifier script of the task is not executable, so it cannot run. "
                "`chmod +x` sets the bit; where the disk has none, `git update-index --chmod=+x`.",
            )


def _submodules(files: Files, holding: Holding) -> list[Finding]:
    """A `.gitmodules` that old clients obey to their harm."""
    modules = [f for f in holding.files if f.path == ".gitmodules"]
    if not modules or not _climbs(files, modules[0]):
        return []
    return [
        finding(
            "unsafe-submodule",
            ".gitmodules",
            "A submodule's name climbs out of its folder, or its path or URL reads as an option. "
            "Remove the entry.",
        )
    ]


def _climbs(files: Files, file: FileAt) -> bool:
    try:
        data = files.tree.read(file.path, limit=64 * 1024)
    except TooLarge:
        return True
    return bool(_MODULES.search(data.decode("utf-8", "replace")))
