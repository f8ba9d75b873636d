"""What a build of a rollout would pick up: setuptools' discovery and the SDK's for Harbor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.check import aging
from gitsync.check.links import Links
from gitsync.tree import Entry, Kind, Tree

# Folders that osmosis-ai 0.3.8 does not take for the package of a bundle.
_NO_BUNDLE = {
    "__pycache__",
    ".git",
    ".venv",
    "venv",
    "dist",
    "build",
    "node_modules",
    ".pytest_cache",
    ".ruff_cache",
}


def flat_layout(tree: Tree, folder: str, pyproject: Mapping[str, Any]) -> str | None:
    """What setuptools finds too much of; None if it builds, or another backend does."""
    if not _discovers(pyproject):
        return None
    children = tree.children(folder)
    links = Links(tree)
    if {c.name for c in children} & {"setup.py", "setup.cfg"}:
        return None
    if any(c.name == "src" and _is_folder(links, folder, c) for c in children):
        return None
    left_out = aging.rules("packages")["flat_layout"]
    packages = [
        c.name
        for c in children
        if _is_folder(links, folder, c)
        and c.name.isidentifier()
        and c.name not in left_out["packages"]
        and not c.name.startswith("_")
    ]
    if packages:
        return _several("top-level packages", packages)
    modules = [
        c.name.removesuffix(".py")
        for c in children
        if c.name.endswith(".py") and not _is_folder(links, folder, c)
    ]
    found = [
        m
        for m in modules
        if m.isidentifier() and not m.startswith("_") and m not in left_out["modules"]
    ]
    return _several("top-level modules", found)


def _discovers(pyproject: Mapping[str, Any]) -> bool:
    system = pyproject.get("build-system")
    if not isinstance(system, dict):  # uv does not build it then
        return False
    backend = system.get("build-backend", "setuptools.build_meta")
    if not isinstance(backend, str) or backend.split(":")[0] != "setuptools.build_meta":
        return False
    tool = pyproject.get("tool")
    options = tool.get("setuptools") if isinstance(tool, dict) else None
    if not isinstance(options, dict):
        return True
    if "packages" in options or "py-modules" in options or "ext-modules" in options:
        return False
    return not options.get("package-dir")


def _several(kind: str, names: list[str]) -> str | None:
    if len(names) < 2:
        return None
    listed = ", ".join(f"`{n}`" for n in sorted(names)[:6])
    return f"{len(names)} {kind} ({listed}{', …' * (len(names) > 6)})"


def _is_folder(links: Links, folder: str, entry: Entry) -> bool:
    if entry.kind is Kind.LINK:
        return links.follow(entry.name, base=folder).is_folder
    return entry.kind in (Kind.FOLDER, Kind.GITLINK)


def harbor_packages(tree: Tree, folder: str) -> list[str]:
    """The packages from which the SDK would choose the one to put into the sandbox."""
    found: set[str] = set()
    for root in (folder, f"{folder}/src"):
        for child in tree.children(root):
            if child.kind is Kind.FOLDER and child.name not in _NO_BUNDLE:
                init = tree.entry(f"{root}/{child.name}/__init__.py")
                if init is not None and init.kind is not Kind.FOLDER:
                    found.add(child.name)
    return sorted(found)
