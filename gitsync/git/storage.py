"""Bare repositories on disk: made whole, and cleaned of what a killed git left.

Promise: a repository appears under its name complete or not at all. Leftovers are removed only
while the caller holds the exclusive `RepoLock`, when no child of ours can be writing.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

_OLD = 3600.0

CONFIG = """[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
\thooksPath = /dev/null
[transfer]
\thideRefs = refs/gitsync
[gc]
\tauto = 0
[receive]
\tautogc = false
"""


def make_bare(path: Path, *, head: str = "refs/heads/main") -> bool:
    """Create an empty bare repository; False if there is one already."""
    if (path / "HEAD").exists():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
            (scratch / folder).mkdir(parents=True)
        _write(scratch / "config", CONFIG)
        _write(scratch / "HEAD", f"ref: {head}\n")
        sync_folder(scratch)
        scratch.chmod(0o700)
        if path.exists() and not any(path.iterdir()):
            path.rmdir()
        try:
            scratch.rename(path)
        except OSError:
            if (path / "HEAD").exists():
                return False
            raise
        sync_folder(path.parent)
        return True
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Make names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_leftovers(path: Path) -> int:
    """Remove lock files, half packs and quarantine folders; the number of things removed.

    Call it under the exclusive lock of the repository only.
    """
    removed = 0
    objects = path / "objects"
    packs = objects / "pack"
    doomed = [*path.glob("*.lock"), *objects.glob("tmp_objdir*")]
    doomed += [*packs.glob("tmp_*"), *packs.glob(".tmp-*"), *packs.glob("*.lock")]
    # single objects are also written by this process, which needs no lock for that
    loose = [
        *objects.glob("tmp_obj_*"),
        *objects.glob("tmp_object*"),
        *objects.glob("??/tmp_obj_*"),
    ]
    doomed += [p for p in loose if _age(p) > _OLD]
    # a pack without its index is what a git leaves that died between the two
    doomed += [
        p for p in packs.glob("pack-*") if p.suffix != ".idx" and not p.with_suffix(".idx").exists()
    ]
    for folder, _, names in os.walk(path / "refs"):
        doomed += [Path(folder) / name for name in names if name.endswith(".lock")]
    for thing in doomed:
        if thing.is_dir() and not thing.is_symlink():
            shutil.rmtree(thing, ignore_errors=True)
        else:
            thing.unlink(missing_ok=True)
        removed += 1
    return removed


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
