"""Downloaded artifacts by digest, shared by all processes of a user.

Promise: a file is handed out only after its sha256 was computed from the very descriptor that is
handed out; a damaged entry is removed and counts as absent; two processes that want the same
artifact download it once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def cache_path(env: Mapping[str, str]) -> Path:
    """`GITSYNC_CACHE`, else `gitsync/artifacts` in the user's cache folder."""
    if env.get("GITSYNC_CACHE"):
        return Path(env["GITSYNC_CACHE"]).absolute()
    base = env.get("XDG_CACHE_HOME") or Path(env.get("HOME") or Path.home()) / ".cache"
    return Path(base) / "gitsync" / "artifacts"


class Cache:
    """One folder of artifacts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    @contextmanager
    def usable(cls, folder: Path) -> Iterator[Cache]:
        """The cache, or a passing one where the folder cannot be written (a container's home)."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(folder)
        except OSError:
            with tempfile.TemporaryDirectory(prefix="gitsync-") as passing:
                yield cls(Path(passing))
        else:
            yield cls(folder)

    def path(self, digest: str) -> Path:
        """Where the artifact lies."""
        return self.folder / digest[:2] / f"{digest}.tar"

    def open(self, digest: str) -> BinaryIO | None:
        """The verified artifact, at its start; None if there is none, or was a damaged one."""
        path = self.path(digest)
        try:
            file = path.open("rb")
        except (FileNotFoundError, NotADirectoryError):
            return None
        if hashlib.file_digest(file, "sha256").hexdigest() == digest:
            file.seek(0)
            return file
        file.close()
        path.unlink(missing_ok=True)
        return None

    @contextmanager
    def claim(self, digest: str) -> Iterator[Path]:
        """Hold the right to download: the path of the part file, which may hold a beginning."""
        path = self.path(digest)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield path.with_suffix(".part")
        finally:
            os.close(lock)  # the file stays: removing it would give two owners

    def adopt(self, digest: str) -> None:
        """Make a finished part the entry; the claim is held."""
        path = self.path(digest)
        path.with_suffix(".part").replace(path)
