"""Bytes of data sets under signed URLs: `PUT /uploads/…` takes a part, `GET /downloads/…` gives.

Promise: no token is needed and none helps; the URL allows one part of one upload, a body is
streamed to disk, and no more than announced is ever stored.
"""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import Awaitable
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect

from gitsync.data_records import Dataset, DatasetState
from gitsync.errors import GitSyncError, InvalidInput, LimitExceeded, NotFound
from gitsync.instance import Instance
from gitsync.store import datasets
from gitsync.uploads import Receiver, Ticket, content_key, read_ticket
from gitsync.web.auth import InstanceDep

router = APIRouter(include_in_schema=False)
Signed = Annotated[str, Path(max_length=500)]

MOST_AT_ONCE = 32
MOST_OF_ONE = 8  # of one upload: slow senders must not keep everybody else out
IDLE_S = 60.0
WHOLE_S = 3600.0
_PIECE = 1024 * 1024


class TooSlow(GitSyncError):
    """The bytes did not come in time."""

    code = "REQUEST_TIMEOUT"
    transient = True


class Receiving:
    """How many bodies are on their way."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def enter(self, dataset_id: str) -> None:
        """`LimitExceeded` if there are too many; the client tries again."""
        if self._open.total() >= MOST_AT_ONCE:
            raise LimitExceeded(f"{MOST_AT_ONCE} uploads are on their way already.", retry_after=5)
        if self._open[dataset_id] >= MOST_OF_ONE:
            raise LimitExceeded(
                f"{MOST_OF_ONE} parts of this upload are on their way already.", retry_after=5
            )
        self._open[dataset_id] += 1

    def leave(self, dataset_id: str) -> None:
        """This one is over."""
        self._open[dataset_id] -= 1
        self._open = +self._open  # without those that are at 0


@router.put("/uploads/{signed}")
async def receive(signed: Signed, request: Request, instance: InstanceDep) -> Response:
    """Take one part; its ETag is what completing the upload names."""
    ticket = read_ticket(instance, signed)
    if ticket.number == 0:
        raise NotFound("This link gives a content; it takes none.")
    length = request.headers.get("content-length", "")
    if length != str(ticket.size):
        raise InvalidInput(
            f"Send exactly {ticket.size} bytes with their Content-Length.", field="Content-Length"
        )
    receiving: Receiving = request.app.state.receiving
    receiving.enter(ticket.dataset_id)
    try:
        etag = await _receive(request, instance, ticket)
    except ClientDisconnect:
        return Response(status_code=400)  # to nobody
    finally:
        receiving.leave(ticket.dataset_id)
    return Response(status_code=200, headers={"ETag": f'"{etag}"'})


async def _receive(request: Request, instance: Instance, ticket: Ticket) -> str:
    receiver = await asyncio.to_thread(Receiver, instance, ticket)
    try:
        async with asyncio.timeout(WHOLE_S):
            held = bytearray()
            pieces = request.stream()
            while piece := await _within(IDLE_S, anext(pieces, b"")):
                held += piece
                if len(held) >= _PIECE:
                    await asyncio.to_thread(receiver.write, bytes(held))
                    held.clear()
            await asyncio.to_thread(receiver.write, bytes(held))
        return await asyncio.to_thread(receiver.finish)
    except TimeoutError as e:
        raise TooSlow("The part did not arrive in time. Send it again.") from e
    finally:
        await asyncio.shield(asyncio.to_thread(receiver.abandon))


async def _within[T](seconds: float, wanted: Awaitable[T]) -> T:
    async with asyncio.timeout(seconds):
        return await wanted


@router.get("/downloads/{signed}")
def download(signed: Signed, instance: InstanceDep) -> Response:
    """The content of a data set."""
    ticket = read_ticket(instance, signed)
    with instance.database.read() as db:
        dataset = datasets.get_dataset(db, ticket.dataset_id)
    if ticket.number != 0 or dataset is None or dataset.deleted_at is not None:
        raise NotFound("This data set was deleted.")
    return content_response(instance, dataset)


def content_response(instance: Instance, dataset: Dataset) -> Response:
    """The bytes of an uploaded data set, as a file."""
    if dataset.state is not DatasetState.UPLOADED or dataset.object_key is None:
        raise NotFound("The content of this data set is not kept any more.")
    digest = base64.b64encode(bytes.fromhex(dataset.digest or "")).decode()
    name = quote(f"{dataset.name}.{dataset.format}", safe="")
    return StreamingResponse(
        instance.bucket.apieces(content_key(dataset)),
        media_type="application/octet-stream",
        headers={
            "Content-Length": str(dataset.size),
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
            "Repr-Digest": f"sha-256=:{digest}:",
            "Cache-Control": "private, no-store",
        },
    )
