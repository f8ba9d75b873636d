"""An artifact's bytes brought into a part file: verified while they stream, resumed after a break.

Promise: when `download` returns, the file's sha256 is the digest; a break leaves a part from which
the next attempt, or the next process, goes on with `Range` and `If-Range`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import httpx
import tenacity

from gitsync.client.failures import AnswerMalformed, DigestMismatch, ServerUnreachable
from gitsync.client.server import Server, helps_to_wait, pause, segment

type OnProgress = Callable[[int, int | None], None]

PIECE = 1024 * 1024
ATTEMPTS = 6  # in a row without a single new byte
MOST_BYTES = 64 * 1024**3
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


def quiet(_done: int, _total: int | None) -> None:
    """Progress for nobody."""


class _Stalled(tenacity.stop.stop_base):
    """Stop after `ATTEMPTS` failures in a row during which nothing arrived."""

    def __init__(self, size: Callable[[], int]) -> None:
        self._size, self._seen, self._count = size, -1, 0

    def __call__(self, _state: tenacity.RetryCallState) -> bool:
        now = self._size()
        self._count = self._count + 1 if now == self._seen else 1
        self._seen = now
        return self._count >= ATTEMPTS


def download(
    server: Server,
    workspace_id: str,
    digest: str,
    part: Path,
    *,
    size: int | None = None,
    on_progress: OnProgress = quiet,
) -> None:
    """Fetch into `part`, going on with what is there; `DigestMismatch` after two wrong answers."""
    path = f"workspaces/{segment(workspace_id)}/artifacts/{digest}.tar"
    for is_last in (False, True):
        with part.open("ab+") as file:
            retrying = tenacity.Retrying(
                stop=_Stalled(lambda file=file: file.seek(0, 2)),  # type: ignore[misc]
                wait=pause,
                retry=tenacity.retry_if_exception(helps_to_wait),
                reraise=True,
            )
            found = retrying(_attempt, server, path, digest, file, size, on_progress)
        if found == digest:
            return
        part.unlink()  # a part of something else, or bytes that went wrong on the way
        if is_last:
            raise DigestMismatch(
                f"The server sent something else than the artifact {digest}: its sha256 is "
                f"{found}. Nothing was extracted.",
                digest=digest,
                received=found,
            )


def _attempt(
    server: Server,
    path: str,
    digest: str,
    file: BinaryIO,
    size: int | None,
    on_progress: OnProgress,
) -> str:
    """One request; the sha256 of the whole file once it is complete."""
    file.seek(0)
    state = hashlib.sha256()
    while piece := file.read(PIECE):
        state.update(piece)
    have = file.tell()
    if size is not None and have == size:
        return state.hexdigest()
    headers = {"Range": f"bytes={have}-", "If-Range": f'"{digest}"'} if have else {}
    with server.stream(path, headers) as response:
        if response.status_code == 416:  # all there already, or not from this artifact
            return state.hexdigest()
        if response.status_code == 206:
            total = _total_of(response, have)
        else:
            file.truncate(0)
            file.seek(0)
            state, have = hashlib.sha256(), 0
            length = response.headers.get("content-length", "")
            total = int(length) if length.isdecimal() else None
        limit = size or total or MOST_BYTES
        on_progress(have, size or total)
        for piece in response.iter_raw():
            have += len(piece)
            if have > limit:
                raise AnswerMalformed("The server sends more bytes than it announced.")
            state.update(piece)
            file.write(piece)
            on_progress(have, size or total)
        file.flush()
    expected = size or total
    if expected is not None and have < expected:
        raise ServerUnreachable("The server ended the download early.", server=server.url)
    return state.hexdigest()


def _total_of(response: httpx.Response, have: int) -> int | None:
    found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
    if found is None or int(found[1]) != have:
        raise AnswerMalformed("The server sent another part of the artifact than was asked for.")
    return None if found[2] == "*" else int(found[2])
