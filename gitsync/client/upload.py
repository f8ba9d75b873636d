"""Uploading a data set: announce it, send its parts to where the server says, complete it.

Promise: no token goes to where the parts go; a part that fails is sent again; what cannot be
finished is aborted, so that the name is free again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import httpx
import tenacity

from gitsync.client.failures import AnswerMalformed, ServerRefused, ServerUnreachable
from gitsync.client.server import Json, Server, segment, transport_failure
from gitsync.errors import GitSyncError, InvalidInput

FORMATS = ("csv", "jsonl", "parquet")
_PIECE = 256 * 1024
_PART_S = 600.0
_ATTEMPTS = 5
_AGAIN = {429, 500, 502, 503, 504}
_POLL_S = 0.3

type OnProgress = Callable[[int, int | None], None]


class _TryAgain(ServerUnreachable):
    """The store did not take the part now."""


def upload_dataset(
    server: Server,
    workspace_id: str,
    path: Path,
    *,
    name: str | None = None,
    is_overwriting: bool = False,
    on_progress: OnProgress = lambda _done, _total: None,
) -> Json:
    """Send a file; the data set as the server knows it once all bytes are there."""
    format = path.suffix.lstrip(".").lower()
    if format not in FORMATS:
        raise InvalidInput(f"{path.name} is none of {', '.join(f'.{f}' for f in FORMATS)}.")
    try:
        file = path.open("rb")
    except OSError as e:
        raise InvalidInput(f"{path} cannot be read: {e.strerror}.") from e
    with file:
        size = file.seek(0, 2)
        base = f"workspaces/{workspace_id}/datasets"
        body: Json = {"name": name or path.stem, "format": format, "size": size}
        if is_overwriting and (known := _known(server, f"{base}/{segment(body['name'])}")):
            body["overwrite"] = known
        announced = server.post(base, body)
        dataset_id = str(announced["dataset"]["id"])
        try:
            parts = list(_send_all(file, announced["parts"], size, on_progress))
            return server.post(f"{base}/{dataset_id}/complete", {"parts": parts})
        except BaseException:
            with suppress(GitSyncError):  # it ends by itself after a while
                server.post(f"{base}/{dataset_id}/abort")
            raise


def _known(server: Server, path: str) -> str | None:
    try:
        return str(server.get(path)["id"])
    except ServerRefused as e:
        if e.status == 404:
            return None
        raise


def _send_all(
    file: IO[bytes], parts: list[Json], size: int, on_progress: OnProgress
) -> Iterator[Json]:
    start = 0
    with httpx.Client(timeout=httpx.Timeout(_PART_S, connect=30.0)) as client:
        for part in parts:
            length = int(part["size"])
            etag = _send(client, file, str(part["url"]), start, length, size, on_progress)
            yield {"number": part["number"], "etag": etag}
            start += length
    if start != size:
        raise AnswerMalformed("The server asked for other parts than the file has.")


@tenacity.retry(
    stop=tenacity.stop_after_attempt(_ATTEMPTS),
    wait=tenacity.wait_exponential(multiplier=0.5, max=8),
    retry=tenacity.retry_if_exception_type(ServerUnreachable),
    reraise=True,
)
def _send(
    client: httpx.Client,
    file: IO[bytes],
    url: str,
    start: int,
    length: int,
    size: int,
    on_progress: OnProgress,
) -> str:
    def pieces() -> Iterator[bytes]:
        file.seek(start)
        left = length
        while left and (piece := file.read(min(_PIECE, left))):
            left -= len(piece)
            on_progress(start + length - left, size)
            yield piece

    where = url.partition("?")[0].rpartition("/")[0]  # the rest is a secret
    try:
        answer = client.put(url, content=pieces(), headers={"Content-Length": str(length)})
    except httpx.HTTPError as e:
        raise transport_failure(e, where) from e
    if answer.status_code in _AGAIN:
        raise _TryAgain(f"{where} did not take the part ({answer.status_code}).")
    if not answer.is_success:
        raise ServerRefused(_said(answer, where), status=answer.status_code)
    etag = str(answer.headers.get("etag", "")).strip('"')
    if not etag:
        raise AnswerMalformed(f"{where} took the part and gave it no ETag.")
    return etag


def _said(answer: httpx.Response, where: str) -> str:
    with suppress(ValueError):
        body = answer.json()
        if isinstance(body, dict) and isinstance(body.get("message"), str):
            return str(body["message"])
    return f"{where} refused the part ({answer.status_code})."


def wait_checked(server: Server, workspace_id: str, dataset_id: str, *, seconds: float) -> Json:
    """The data set once its check has come to an end, or as it is after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        found = server.get(f"workspaces/{workspace_id}/datasets/{dataset_id}")
        if found["state"] != "processing" or time.monotonic() > end:
            return found
        time.sleep(_POLL_S)
