"""Where stored bytes lie: a local folder by default, an S3-compatible store by URL.

Promise: when `put_file` returns, a local object survives a power cut (file and folders are synced;
decision 4: obstore itself does not). Keys are made by us, never taken from outside.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Literal

import obstore
from obstore.exceptions import NotFoundError
from obstore.store import LocalStore, S3Store

from gitsync.errors import ConfigError, GitSyncError

PIECE = 256 * 1024
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)


class ObjectMissing(GitSyncError):
    """An object that a row names is not in the store."""

    code = "OBJECT_MISSING"


class StoreUnavailable(GitSyncError):
    """The artifact store does not answer, or refuses."""

    code = "ARTIFACT_STORE_UNAVAILABLE"
    transient = True


def artifact_key(digest: str) -> str:
    """The key of an artifact by its sha256."""
    return f"artifacts/{digest[:2]}/{digest}.tar"


def pack_key(workspace_id: str, name: str) -> str:
    """The key of an incremental pack."""
    return f"packs/{workspace_id}/{name}.pack"


def dataset_key(workspace_id: str, dataset_id: str, format: str) -> str:
    """The key of a data set's content."""
    return f"datasets/{workspace_id}/{dataset_id}.{format}"


def upload_key(dataset_id: str, number: int) -> str:
    """The key of one part of an upload that goes straight to a remote store."""
    return f"uploads/{dataset_id}/{number:05d}"


def _part(start: int, length: int | None) -> obstore.GetOptions:
    if length is not None:
        return {"range": (start, start + length)}
    return {"range": {"offset": start}} if start else {}


async def _file_pieces(path: Path, start: int, length: int | None) -> AsyncIterator[memoryview]:
    """A local object, ten times faster than through the store's stream.

    What lies in the page cache is read at once; a thread waits for what does not.
    """
    try:
        descriptor = await asyncio.to_thread(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as e:
        raise ObjectMissing(f"The stored object {path.name} is missing.") from e
    try:
        left = os.fstat(descriptor).st_size - start if length is None else length
        while left > 0:
            piece = bytearray(min(left, PIECE))
            try:
                count = os.preadv(descriptor, [piece], start, _NOWAIT)
            except OSError:  # not in the cache, or a file system that cannot tell
                count = await asyncio.to_thread(os.preadv, descriptor, [piece], start)
            if not count:
                raise ObjectMissing(f"The stored object {path.name} is shorter than its row says.")
            yield memoryview(piece)[:count]
            start, left = start + count, left - count
    finally:
        os.close(descriptor)


class Bucket:
    """One object store."""

    def __init__(
        self,
        url: str,
        *,
        endpoint: str | None = None,
        region: str = "us-east-1",
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
    ) -> None:
        self._root: Path | None = None
        self._synced: set[Path] = set()  # folders that this process knows to be on the disk
        self._store: LocalStore | S3Store
        try:
            if url.startswith("s3://"):
                options: dict[str, str] = {"region": region}
                if endpoint:
                    options |= {"endpoint": endpoint, "virtual_hosted_style_request": "false"}
                if access_key_id and secret_access_key:
                    options |= {
                        "access_key_id": access_key_id,
                        "secret_access_key": secret_access_key,
                    }
                self._store = S3Store.from_url(
                    url,
                    config=options,  # type: ignore[arg-type]
                    client_options={"allow_http": bool(endpoint and endpoint[:5] == "http:")},
                )
            elif "://" in url:
                raise ConfigError("GITSYNC_ARTIFACT_STORE must be a folder or an s3:// URL.")
            else:
                self._root = Path(url)
                self._root.mkdir(parents=True, exist_ok=True)
                self._store = LocalStore(self._root)
        except (OSError, ValueError, obstore.exceptions.BaseError) as e:
            raise ConfigError(f"The artifact store {url} cannot be opened: {e}") from e

    @property
    def is_local(self) -> bool:
        """True for a folder: nobody but us can put something there."""
        return self._root is not None

    def sign(self, method: Literal["GET", "PUT"], key: str, *, life: timedelta) -> str:
        """A URL of a remote store that does this one thing with one object, for a while."""
        if isinstance(self._store, LocalStore):
            raise ConfigError("A local artifact store signs no URLs.")
        try:
            return obstore.sign(self._store, method, key, life)
        except obstore.exceptions.BaseError as e:
            raise StoreUnavailable(f"The artifact store failed: {type(e).__name__}.") from e

    def put_file(self, key: str, path: Path) -> None:
        """Store a file, replacing what is there."""
        try:
            obstore.put(self._store, key, path)
            if self._root is not None:
                self._sync(key)
        except (OSError, obstore.exceptions.BaseError) as e:
            raise StoreUnavailable(f"The artifact store refused {key}: {type(e).__name__}.") from e

    def _sync(self, key: str) -> None:
        target = (self._root or Path()) / key
        folders = list(target.parents)[: key.count("/") + 1]
        # the folder that got a new name, and once those above it, which may be new themselves
        above = [folder for folder in folders[1:] if folders[0] not in self._synced]
        for path in (target, folders[0], *above):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        self._synced.add(folders[0])

    def size(self, key: str) -> int | None:
        """Bytes of an object, None if it is not there."""
        try:
            return int(obstore.head(self._store, key)["size"])
        except (NotFoundError, FileNotFoundError):
            return None
        except obstore.exceptions.BaseError as e:
            raise StoreUnavailable(f"The artifact store failed: {type(e).__name__}.") from e

    def etag(self, key: str) -> tuple[str, int] | None:
        """What a remote store calls an object's content, and its bytes; None if it is not there."""
        try:
            found = obstore.head(self._store, key)
        except (NotFoundError, FileNotFoundError):
            return None
        except obstore.exceptions.BaseError as e:
            raise StoreUnavailable(f"The artifact store failed: {type(e).__name__}.") from e
        return (found["e_tag"] or "").strip('"'), int(found["size"])

    def pieces(self, key: str, *, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes of an object, or a part of it."""
        try:
            yield from map(bytes, self._get(key, start, length).stream(min_chunk_size=PIECE))
        except (NotFoundError, FileNotFoundError) as e:
            raise ObjectMissing(f"The stored object {key} is missing.") from e
        except obstore.exceptions.BaseError as e:
            raise StoreUnavailable(f"The artifact store failed: {type(e).__name__}.") from e

    def _get(self, key: str, start: int, length: int | None) -> obstore.GetResult:
        return obstore.get(self._store, key, options=_part(start, length))

    async def apieces(
        self, key: str, *, start: int = 0, length: int | None = None
    ) -> AsyncIterator[bytes | memoryview]:
        """As `pieces`, for answers of the web server."""
        if self._root is not None:
            async for part in _file_pieces(self._root / key, start, length):
                yield part
            return
        try:
            result = await obstore.get_async(self._store, key, options=_part(start, length))
            async for piece in result.stream(min_chunk_size=PIECE):
                yield bytes(piece)
        except (NotFoundError, FileNotFoundError) as e:
            raise ObjectMissing(f"The stored object {key} is missing.") from e

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is fine."""
        try:
            obstore.delete(self._store, key)
        except (NotFoundError, FileNotFoundError):
            return
        except obstore.exceptions.BaseError as e:
            raise StoreUnavailable(f"The artifact store failed: {type(e).__name__}.") from e

    def local_ages(self) -> Iterator[tuple[str, float]]:
        """Key and age in seconds of every object of a local store; a remote one lists nothing."""
        if self._root is not None:
            now = time.time()
            for path in self._root.rglob("*"):
                if path.is_file():
                    yield path.relative_to(self._root).as_posix(), now - path.stat().st_mtime

    def sweep_leftovers(self) -> int:
        """Remove half-written files (`NAME#N`) that a killed local store left behind."""
        removed = 0
        if self._root is not None:
            for path in self._root.rglob("*#*"):
                if path.is_file():
                    path.unlink(missing_ok=True)
                    removed += 1
        return removed
