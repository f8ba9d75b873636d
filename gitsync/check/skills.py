"""Agent Skills and the instruction files: frontmatter, length, links and commands.

Promise: frontmatter is read as the reference validator reads it (strict YAML, all scalars text),
within limits of size that keep its parser fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import strictyaml

from gitsync.check.boundary import attempt
from gitsync.check.commands import unknown_command
from gitsync.check.files import FileAt, Files
from gitsync.check.found import finding, shown
from gitsync.check.links import End, Links
from gitsync.check.markdown import MAX_BYTES, Page, read_page, relative_path, universal
from gitsync.check.suggest import did_you_mean
from gitsync.model import Finding, Severity
from gitsync.tree import Entry, Kind, TooLarge

FOLDER = ".agents/skills"
FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_KEY = re.compile(r"([\"']?)([^\s:\"'][^:\"']*?)\1\s*:(?:\s|$)")
_MAX_MANIFEST = 4 * 1024 * 1024
_MAX_FRONTMATTER = 16 * 1024
_BODY_LINES = 500
_INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md", "configs/AGENTS.md")


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill: its findings, and whether an agent could load it."""

    name: str
    path: str
    found: tuple[Finding, ...]

    @property
    def is_valid(self) -> bool:
        """True if no finding of its own is an error."""
        return not any(f.severity in (Severity.ERROR, Severity.UNRESOLVED) for f in self.found)


@dataclass(frozen=True, slots=True)
class Front:
    """A frontmatter: its fields, the line of each, and the line that closes it.

    `is_cut` if a `---` inside a line ends it earlier for the reference validator.
    """

    fields: Mapping[str, Any]
    lines: Mapping[str, int]
    closed_at: int
    is_cut: bool = False


def read_skills(files: Files, links: Links) -> tuple[Skill, ...]:
    """Every folder directly under `.agents/skills/`."""
    found: list[Skill] = []
    for entry in files.tree.children(FOLDER):
        if entry.kind is Kind.FOLDER:
            path = f"{FOLDER}/{entry.name}"
            step = partial(_skill, files, links, path, entry)
            found.append(Skill(entry.name, path, attempt(path, step, lambda f: (f,))))
    return tuple(found)


def _skill(files: Files, links: Links, path: str, folder: Entry) -> tuple[Finding, ...]:
    return tuple(_findings(files, links, path, folder))


def _findings(files: Files, links: Links, path: str, folder: Entry) -> Iterator[Finding]:
    name = _file_name(files, links, path)
    if name is None:
        yield finding(
            "skill-missing-file",
            path,
            f"The skill `{shown(folder.name)}` has no `SKILL.md`, so no agent sees it. Add one, or "
            "move the folder elsewhere.",
        )
    else:
        found = _checked(files, links, path, name, folder)
        yield from found
        if name != "SKILL.md" and not any(f.code == "skill-frontmatter" for f in found):
            yield finding(
                "skill-file-name",
                f"{path}/{name}",
                f"`{shown(name)}` is not found by every agent. Rename it to `SKILL.md`.",
            )
    for file in files.below(path, folder.oid).files:
        if file.path.lower().endswith(".md"):
            yield from check_page(files, links, file, manifest=file.path == f"{path}/{name}")


def _checked(
    files: Files, links: Links, path: str, name: str, folder: Entry
) -> tuple[Finding, ...]:
    """The findings of the manifest itself; none if it is only a pointer to one."""
    target = links.follow(f"{path}/{name}")
    for file in files.below(path, folder.oid).files:
        if file.path == target.path and files.content(file).is_lfs_pointer:
            return ()
    manifest = f"{path}/{name}"
    return files.memo.get(
        "skill",
        target.entry.oid if target.entry else None,
        manifest,
        lambda: tuple(_manifest(files, manifest, target.path, folder.name)),
        manifest,
    )


def _file_name(files: Files, links: Links, path: str) -> str | None:
    names = [
        c.name
        for c in files.tree.children(path)
        if c.name.lower() == "skill.md" and links.follow(f"{path}/{c.name}").is_file
    ]
    return "SKILL.md" if "SKILL.md" in names else min(names, default=None)


def _manifest(files: Files, path: str, source: str, folder: str) -> Iterator[Finding]:
    try:
        text = universal(files.tree.read(source, limit=_MAX_MANIFEST).decode("utf-8"))
        front = read_front(text)
    except UnicodeDecodeError:
        yield _bad_front(path, "it is not UTF-8")
        return
    except TooLarge:
        yield _bad_front(path, f"the file has more than {_MAX_MANIFEST} bytes")
        return
    except FrontError as e:
        yield _bad_front(path, str(e), e.line)
        return
    yield from _fields(path, front, folder)
    body = text.split("\n")[front.closed_at :]
    while body and not body[-1].strip():
        body.pop()
    if len(body) > _BODY_LINES:
        yield finding(
            "skill-body-long",
            path,
            f"The body has {len(body)} lines, all of which an agent reads at once. Move details to "
            "`references/` and link them.",
            at=(front.closed_at + _BODY_LINES + 1, 1),
        )


def _bad_front(path: str, reason: str, line: int = 1) -> Finding:
    return finding(
        "skill-frontmatter",
        path,
        f"The frontmatter cannot be read: {reason}. Begin the file with `---`, plain "
        "`key: value` lines, and `---`.",
        at=(line, 1),
    )


def _fields(path: str, front: Front, folder: str) -> Iterator[Finding]:
    def at(key: str) -> tuple[int, int]:
        return (front.lines.get(key, 1), 1)

    for key in ("name", "description"):
        value = front.fields.get(key)
        if not isinstance(value, str) or not value.strip():
            yield finding(
                "skill-missing-field",
                path,
                f"The frontmatter has no `{key}`, which agents need to choose the skill. Add it"
                + (
                    ", and leave no `---` inside a line, which ends it there." * front.is_cut or "."
                ),
                at=at(key) if key in front.fields else (1, 1),
                subject=key,
            )
    name = front.fields.get("name")
    if isinstance(name, str) and name.strip():
        name = name.strip()
        if len(name) > 64 or not _NAME.fullmatch(name):
            yield finding(
                "skill-name",
                path,
                f"`{shown(name)}` is no skill name. Use at most 64 of `a-z`, `0-9` and single "
                "hyphens between them.",
                at=at("name"),
                subject=name,
            )
        if name != folder:
            yield finding(
                "skill-name-differs",
                path,
                f"The skill is called `{shown(name)}`, its folder `{shown(folder)}`. Use one name.",
                at=at("name"),
                subject=name,
            )
    description, compatibility = (front.fields.get(k) for k in ("description", "compatibility"))
    if isinstance(description, str) and len(description) > 1024:
        yield finding(
            "skill-field-length",
            path,
            f"`description` has {len(description)} characters; 1024 is the most. Shorten it.",
            at=at("description"),
            subject="description",
        )
    if "compatibility" in front.fields and not (
        isinstance(compatibility, str) and len(compatibility) <= 500
    ):
        yield finding(
            "skill-field-length",
            path,
            "`compatibility` must be text of at most 500 characters. Shorten or remove it.",
            at=at("compatibility"),
            subject="compatibility",
        )
    for key in front.fields:
        if key not in FIELDS:
            yield finding(
                "skill-unknown-field",
                path,
                f"`{shown(key)}` is no field of a skill.{did_you_mean(key, FIELDS)} Put own data "
                "under `metadata`.",
                at=at(key),
                subject=key,
            )


class FrontError(Exception):
    """The frontmatter is not there, not closed, or no strict YAML mapping."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


def read_front(text: str) -> Front:
    """The frontmatter of a text; `FrontError` if there is no good one."""
    text = universal(text)
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        raise FrontError("the first line is not `---`")
    end = next((i for i, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if end is None:
        raise FrontError("it is not closed by a line `---`")
    # The reference validator ends it at the next `---`, wherever that stands.
    source = text.split("---", 2)[1]
    if len(source) > _MAX_FRONTMATTER:
        raise FrontError(f"it has more than {_MAX_FRONTMATTER} characters")
    if _depth(source.split("\n")) > 20:
        raise FrontError("it nests too deep")
    is_cut = source.count("\n") < end
    cut = " (it ends at the first `---`, also inside a line)" * is_cut
    try:
        fields = strictyaml.load(source).data
    except strictyaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        reason = shown(getattr(e, "problem", None) or "no strict YAML")
        raise FrontError(reason + cut, line) from e
    except (RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError) as e:
        raise FrontError(f"no strict YAML ({type(e).__name__})") from e
    if not isinstance(fields, dict):
        raise FrontError("it is no mapping of fields to values")
    return Front(fields, _places(source), end + 1, is_cut)


def _places(source: str) -> dict[str, int]:
    """The line of each field; line 1 is what is left of the opening `---`."""
    lines = source.split("\n")
    first = next((x for x in lines if x.strip() and not x.lstrip().startswith("#")), "")
    indent = first[: len(first) - len(first.lstrip())]
    places: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        found = _KEY.match(line.removeprefix(indent))
        if found:
            places.setdefault(found[2], number)
    return places


def _depth(lines: list[str]) -> int:
    indents = {len(line) - len(line.lstrip()) for line in lines if line.strip()}
    dashes = max(
        (len(m[0].split()) for m in (re.match(r"(?:\s*- )*", x) for x in lines) if m), default=0
    )
    return len(indents) + dashes


def check_instructions(files: Files, links: Links, held: Mapping[str, FileAt]) -> Iterator[Finding]:
    """Links and commands of the instruction files."""
    for path in _INSTRUCTIONS:
        if path in held:
            yield from check_page(files, links, held[path])


def check_page(
    files: Files, links: Links, file: FileAt, *, manifest: bool = False
) -> Iterator[Finding]:
    """Dead links and unknown commands of one Markdown file."""
    page = files.memo.get(
        "page", file.entry.oid, file.path, lambda: _page(files, file, manifest), manifest
    )
    folder = file.path.rpartition("/")[0]
    for link in page.links:
        path = relative_path(link.target)
        if path is None or links.follow(path, base=folder).end is End.INSIDE:
            continue
        yield finding(
            "dead-link",
            file.path,
            f"`{shown(link.target)}` leads nowhere in the repository. Correct the path or add the "
            "file.",
            at=(link.line, link.column),
            subject=link.target,
        )
    for snippet in page.snippets:
        for offset, command, meant in unknown_command(snippet.text):
            hint = f" Did you mean `osmosis {meant}`?" if meant else ""
            yield finding(
                "unknown-osmosis-command",
                file.path,
                f"`osmosis {shown(command)}` is no command of osmosis-ai 0.3.8.{hint} Correct it, "
                "so that nobody runs it in vain.",
                at=(snippet.line, snippet.column + offset),
                subject=command,
            )


def _page(files: Files, file: FileAt, manifest: bool) -> Page:
    try:
        text = universal(files.tree.read(file.path, limit=MAX_BYTES).decode("utf-8", "replace"))
    except TooLarge:
        return Page()
    skip = 0
    if manifest:
        try:
            skip = read_front(text).closed_at
        except FrontError:
            return Page()
    return read_page(text, skip_lines=skip)
