"""`gitsync pull`: one artifact, verified, in a folder that appears finished or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gitsync.client.cache import Cache, cache_path
from gitsync.client.download import OnProgress, download, quiet
from gitsync.client.extract import extract
from gitsync.client.failures import AnswerMalformed, DigestMismatch, TargetExists, TargetUnwritable
from gitsync.client.place import Place, find_place
from gitsync.client.selector import Selector, parse_digest
from gitsync.client.server import Json, Server, segment
from gitsync.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Pulled:
    """What lies in the folder now; `resolved` is the server's answer, if it was asked."""

    path: Path
    digest: str
    files: int
    from_cache: bool
    resolved: Json | None

    def to_json(self) -> Json:
        """The document of `gitsync pull --json`."""
        keys = ("commit_sha", "rollout", "entrypoint", "verdict", "workflow", "grader")
        known = self.resolved or {}
        return {
            "schema_version": 1,
            "path": str(self.path),
            "digest": self.digest,
            "files": self.files,
            "from_cache": self.from_cache,
            **{key: known.get(key) for key in keys},
            "substituted": bool(known.get("substituted")),
        }


def pull(
    what: str,
    folder: Path,
    *,
    place: Place | None = None,
    prefer: str | None = None,
    is_replacing: bool = False,
    on_progress: OnProgress = quiet,
    env: Mapping[str, str] | None = None,
) -> Pulled:
    """Bring a rollout version, or the artifact with a digest, to `folder`.

    Without `place` it is looked up as by `find_place`, and only if the cache does not hold the
    digest: a cached one needs no server. The folder must not exist, or be empty, unless
    `is_replacing`; it is renamed into place, so nobody sees a half-filled one.
    """
    folder = _target(folder)
    if not is_replacing:
        _must_be_free(folder)
    try:
        return _pull(what, folder, place, prefer, is_replacing, on_progress, env)
    except OSError as e:
        where = f" ({e.filename})" if e.filename else ""
        raise TargetUnwritable(f"The files cannot be written: {e.strerror}{where}.") from e


def _pull(
    what: str,
    folder: Path,
    place: Place | None,
    prefer: str | None,
    is_replacing: bool,
    on_progress: OnProgress,
    env: Mapping[str, str] | None,
) -> Pulled:
    digest, resolved = parse_digest(what), None
    with Cache.usable(cache_path(os.environ if env is None else env)) as cache:
        from_cache = True
        if digest is not None and (found := cache.open(digest)) is not None:
            archive = found
        else:
            selector = Selector.parse(what) if digest is None else None
            place = place or find_place(env=env)
            with place.open() as server:
                workspace_id = server.workspace_id(place.need_workspace())
                size: int | None = None
                if selector is not None:
                    resolved = server.post(
                        f"workspaces/{segment(workspace_id)}/resolve", selector.body(prefer=prefer)
                    )
                    digest = parse_digest(str(resolved.get("digest")))
                    size = resolved.get("size")
                if digest is None or not (size is None or isinstance(size, int)):
                    raise AnswerMalformed("The server resolved this to something without digest.")
                archive, from_cache = _obtain(
                    cache, server, workspace_id, digest, size=size, on_progress=on_progress
                )
        with archive:
            files = _place(archive, folder, is_replacing=is_replacing)
    return Pulled(folder, digest, files, from_cache, resolved)


def _obtain(
    cache: Cache,
    server: Server,
    workspace_id: str,
    digest: str,
    *,
    size: int | None,
    on_progress: OnProgress,
) -> tuple[BinaryIO, bool]:
    """The verified artifact from the cache or the server, and whether it was the cache."""
    if (found := cache.open(digest)) is not None:
        return found, True
    with cache.claim(digest) as part:
        if (found := cache.open(digest)) is not None:  # somebody else was faster
            return found, True
        download(server, workspace_id, digest, part, size=size, on_progress=on_progress)
        cache.adopt(digest)
        if (found := cache.open(digest)) is None:
            raise DigestMismatch(
                f"The artifact {digest} was damaged on the way to the disk; is the disk sound?",
                digest=digest,
            )
        return found, False


def _target(folder: Path) -> Path:
    """The folder with a real parent and a name of its own, so that it can be renamed into place."""
    if folder.name in {"", ".."}:
        raise InvalidInput(f"{folder} is no name for a new folder.", field="dir")
    found = Path(os.path.realpath(folder.parent)) / folder.name
    if found == Path.cwd() or found in Path.cwd().parents:
        raise InvalidInput("Give a folder other than the one you are in.", field="dir")
    return found


def _must_be_free(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise TargetExists(f"{folder} exists and is no folder.")
    if folder.is_dir() and any(folder.iterdir()):
        raise TargetExists(f"{folder} is not empty. Give another folder, or --force to replace it.")


def _place(archive: BinaryIO, folder: Path, *, is_replacing: bool) -> int:
    """Extract beside the folder, then rename; nothing is left behind if that fails."""
    mark = secrets.token_hex(6)
    fresh = folder.with_name(f".{folder.name}.{mark}.new")
    old = folder.with_name(f".{folder.name}.{mark}.old")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir(mode=0o700)
    except OSError as e:
        raise InvalidInput(f"{folder} cannot be made: {e.strerror}.", field="dir") from e
    try:
        files = extract(archive, fresh)
        fresh.chmod(0o777 & ~_umask())
        try:
            if is_replacing and os.path.lexists(folder):
                folder.rename(old)
            fresh.rename(folder)
        except OSError as e:
            raise TargetExists(f"{folder} cannot be put in place: {e.strerror}.") from e
    finally:
        if os.path.lexists(old) and not os.path.lexists(folder):
            old.rename(folder)
        shutil.rmtree(fresh, ignore_errors=True)
        if old.is_symlink() or old.is_file():
            old.unlink()
        shutil.rmtree(old, ignore_errors=True)
    return files


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
