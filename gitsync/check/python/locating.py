"""Where the rollout and the entrypoint are, or why they are nowhere: the first fatal codes."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from gitsync.check.python.files import Files
from gitsync.check.python.findings import Fatal, Findings
from gitsync.check.python.values import Place
from gitsync.check.suggest import nearest
from gitsync.model import Severity
from gitsync.tree import Tree


@dataclass(frozen=True, slots=True)
class NamedAt:
    """Where a config names the rollout and the entrypoint; lines and columns count from 1."""

    path: str
    rollout_line: int
    rollout_column: int
    entrypoint_line: int
    entrypoint_column: int


class Locator(Findings):
    """What a config names, looked up in the commit."""

    def __init__(self, tree: Tree, rollout: str, entrypoint: str, named_at: NamedAt | None) -> None:
        super().__init__()
        self.files = Files(tree)
        self.rollout = rollout
        self.entrypoint = entrypoint
        self.named_at = named_at
        self.folder = f"rollouts/{rollout}"

    def _at_entrypoint(self) -> Place:
        named = self.named_at
        if named is not None:
            return Place(named.path, named.entrypoint_line, named.entrypoint_column)
        return Place(self.folder, 1, 1)

    def locate(self) -> tuple[str, str]:
        """(resolved entrypoint from the resolved rollout folder, that folder)."""
        rollout, entrypoint = self.rollout, self.entrypoint
        if "/" in rollout or "\\" in rollout or rollout in ("", ".", "..") or "\0" in rollout:
            raise self.fatal(
                "entrypoint-outside-rollout",
                self._at_entrypoint(),
                rollout,
                f"The rollout name {rollout!r} is no name of a folder under rollouts",
                "Write the folder's name only",
            )
        folder = self.files.resolve(self.folder)
        if folder is None or not self.files.is_folder(self.folder):
            named = self.named_at
            place = Place("rollouts", 1, 1)
            if named is not None:
                place = Place(named.path, named.rollout_line, named.rollout_column)
            raise self.fatal(
                "rollout-missing",
                place,
                rollout,
                f"There is no folder rollouts/{rollout} in the commit",
                "Create it, or name an existing rollout",
            )
        if not self.files.is_file(f"{self.folder}/pyproject.toml"):
            self.add(
                "missing-pyproject",
                Severity.WARNING,
                Place(self.folder, 1, 1),
                rollout,
                f"The rollout {rollout} has no pyproject.toml",
                "Add one that declares its dependencies",
            )
        return self._locate_file(entrypoint, folder), folder

    def _locate_file(self, entrypoint: str, folder: str) -> str:
        place = self._at_entrypoint()
        parts = entrypoint.split("/")
        if entrypoint.startswith("/") or "\0" in entrypoint:
            raise self._outside(place)
        if ".." in parts:  # it may lead back into the folder
            target = self.files.resolve(f"{self.folder}/{entrypoint}")
            if not _inside(target or posixpath.normpath(f"{folder}/{entrypoint}"), folder):
                raise self._outside(place)
        if not entrypoint.endswith(".py") or parts[-1] == ".py":
            raise self.fatal(
                "entrypoint-not-python",
                place,
                entrypoint,
                f"The entrypoint {entrypoint} is no Python file",
                "Name a file that ends in .py",
            )
        whole = f"{self.folder}/{entrypoint}"
        real = self.files.resolve(whole)
        if real is not None and not _inside(real, folder):
            raise self._outside(place)
        if real is None or not self.files.is_file(whole):
            what = f"There is no file {entrypoint} in rollouts/{self.rollout}"
            if real is None and entrypoint in self.files.names(self.folder):
                what = f"The entrypoint {entrypoint} is a link to a file that the commit lacks"
            raise self.fatal("entrypoint-missing", place, entrypoint, what, self._did_you_mean())
        if not real.endswith(".py"):
            raise self.fatal(
                "entrypoint-not-python",
                place,
                entrypoint,
                f"The entrypoint {entrypoint} is a link to a file that is no Python file",
                "Let it point to a file that ends in .py",
            )
        return real[len(folder) + 1 :] if folder else real

    def _outside(self, place: Place) -> Fatal:
        return self.fatal(
            "entrypoint-outside-rollout",
            place,
            self.entrypoint,
            f"The entrypoint {self.entrypoint} leads out of rollouts/{self.rollout}",
            "Name a file inside the rollout folder",
        )

    def _did_you_mean(self) -> str:
        here = sorted(
            name
            for name in self.files.names(self.folder)
            if name.endswith(".py") and self.files.is_file(f"{self.folder}/{name}")
        )
        if not here:
            return "Add the file, or correct the entrypoint in the config"
        return f"Name a file that exists, such as {nearest(self.entrypoint, here) or here[0]}"


def _inside(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(folder + "/")
