"""How the bytes of an upload come and go: signed URLs, parts on disk, the stored content.

Promise: a URL of ours allows one thing with one part for a while; a part is kept only when all its
bytes are on disk, and the same bytes sent again change nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import secrets
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from gitsync.artifacts.bucket import StoreUnavailable, dataset_key, upload_key
from gitsync.data_records import Dataset, DatasetState
from gitsync.errors import Conflict, Forbidden, GitSyncError, InvalidInput
from gitsync.instance import Instance
from gitsync.store import datasets
from gitsync.text import printable

UPLOAD_LIFE = timedelta(hours=24)
DOWNLOAD_LIFE = timedelta(hours=1)
OPEN = (DatasetState.PENDING, DatasetState.UPLOADING)


class UploadEnded(Conflict):
    """The upload was cancelled, replaced or deleted, or took too long."""

    code = "UPLOAD_ENDED"


class NotReady(InvalidInput):
    """The data set is not `uploaded`, so nobody can use it."""

    code = "DATASET_NOT_READY"


class LinkInvalid(Forbidden):
    """A signed URL that is not ours, was altered, or is over."""

    code = "LINK_INVALID"


@dataclass(frozen=True, slots=True)
class UploadPart:
    """Where one part goes."""

    number: int
    url: str
    size: int


# -- signed URLs ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a signed URL of ours allows: to send one part, or (number 0) to fetch the content."""

    dataset_id: str
    number: int
    size: int


def _signature(instance: Instance, text: bytes) -> bytes:
    return hmac.digest(instance.sealer.derive("upload-urls"), text, hashlib.sha256)


def _sign(instance: Instance, ticket: Ticket, *, life: timedelta) -> str:
    ends = int((instance.now() + life).timestamp())
    text = json.dumps([ticket.dataset_id, ticket.number, ticket.size, ends]).encode()
    return _base64(text) + "." + _base64(_signature(instance, text))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def read_ticket(instance: Instance, signed: str) -> Ticket:
    """What the URL allows; `LinkInvalid` if it is not ours or its time is over."""
    try:
        head, _, tail = signed.encode("ascii").partition(b".")
        text = base64.urlsafe_b64decode(head + b"=" * (-len(head) % 4))
        given = base64.urlsafe_b64decode(tail + b"=" * (-len(tail) % 4))
    except (ValueError, binascii.Error):
        text, given = b"", b""
    if not hmac.compare_digest(_signature(instance, text), given):
        raise LinkInvalid("This link was not made here, or was altered.")
    dataset_id, number, size, ends = json.loads(text)
    if instance.now().timestamp() >= ends:
        raise LinkInvalid("The time of this link is over. Begin the upload anew.")
    return Ticket(dataset_id, number, size)


def upload_parts(instance: Instance, dataset: Dataset) -> tuple[UploadPart, ...]:
    """Where each part is to be sent with PUT."""
    parts = []
    for number in range(1, dataset.total_parts + 1):
        size = part_bytes(dataset, number)
        if instance.bucket.is_local:
            signed = _sign(instance, Ticket(dataset.id, number, size), life=UPLOAD_LIFE)
            url = f"{instance.settings.url}/uploads/{signed}"
        else:
            url = instance.bucket.sign("PUT", upload_key(dataset.id, number), life=UPLOAD_LIFE)
        parts.append(UploadPart(number, url, size))
    return tuple(parts)


def part_bytes(dataset: Dataset, number: int) -> int:
    """How many bytes a part has: the last one the rest."""
    return min(dataset.part_size, dataset.size - (number - 1) * dataset.part_size)


# -- parts that come to us ------------------------------------------------------------------------


def part_path(instance: Instance, dataset_id: str, number: int, etag: str) -> Path:
    """Where a part that has arrived lies."""
    return instance.uploads / dataset_id / f"{number}-{etag}"


_keeping = threading.Lock()


class Receiver:
    """One part on its way to the disk: `write` its bytes, then `finish`, or `abandon` it."""

    def __init__(self, instance: Instance, ticket: Ticket) -> None:
        self._instance, self._ticket = instance, ticket
        with instance.database.write(durable=False) as db:
            dataset = datasets.get_dataset(db, ticket.dataset_id)
            if dataset is None or not datasets.change_state(
                db, ticket.dataset_id, DatasetState.UPLOADING, only_from=OPEN, now=instance.now()
            ):
                raise UploadEnded("This upload is complete, or was cancelled.")
        self._folder = instance.uploads / ticket.dataset_id
        self._path = self._folder / f".{ticket.number}-{secrets.token_hex(8)}"
        self._digest, self._size = hashlib.sha256(), 0
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._file = self._path.open("wb")
        except OSError as e:
            raise _disk(e) from e

    def write(self, piece: bytes) -> None:
        """Some bytes; more than announced are refused."""
        self._size += len(piece)
        if self._size > self._ticket.size:
            raise InvalidInput(f"This part has {self._ticket.size} bytes, and more were sent.")
        self._digest.update(piece)
        try:
            self._file.write(piece)
        except OSError as e:
            raise _disk(e) from e

    def finish(self) -> str:
        """Keep the part; its ETag. The same bytes again give the same."""
        ticket, instance = self._ticket, self._instance
        if self._size != ticket.size:
            raise InvalidInput(
                f"This part has {ticket.size} bytes, and {self._size} arrived. Send it again."
            )
        etag = self._digest.hexdigest()[:32]
        path = part_path(instance, ticket.dataset_id, ticket.number, etag)
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as e:
            raise _disk(e) from e
        with _keeping:  # else one of two equal numbers would remove the other's file
            self._keep(path, etag)
        return etag

    def _keep(self, path: Path, etag: str) -> None:
        ticket, instance = self._ticket, self._instance
        try:
            self._path.rename(path)
            _sync_folder(self._folder)
        except OSError as e:
            raise _disk(e) from e
        instance.at("dataset.part_kept")
        now = instance.now()
        with instance.database.write() as db:
            if not datasets.change_state(
                db, ticket.dataset_id, DatasetState.UPLOADING, only_from=OPEN, now=now
            ):
                raise UploadEnded("This upload is complete, or was cancelled.")
            datasets.put_part(
                db, ticket.dataset_id, ticket.number, size=self._size, etag=etag, now=now
            )
        for other in self._folder.glob(f"{ticket.number}-*"):
            if other != path:
                other.unlink(missing_ok=True)

    def abandon(self) -> None:
        """Forget what came; also after `finish`, where there is nothing to forget."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def _disk(e: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"The part cannot be stored: {e.strerror}.")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- reading the content --------------------------------------------------------------------------


def content_key(dataset: Dataset) -> str:
    """Where the content of an uploaded data set lies."""
    return dataset_key(dataset.workspace_id, dataset.id, dataset.format)


def download_url(instance: Instance, dataset: Dataset) -> str:
    """A URL that gives the content to whoever has it, for an hour."""
    if dataset.state is not DatasetState.UPLOADED:
        raise NotReady(f"{printable(dataset.name)} is {dataset.state.value}, not uploaded.")
    if not instance.bucket.is_local:
        return instance.bucket.sign("GET", content_key(dataset), life=DOWNLOAD_LIFE)
    signed = _sign(instance, Ticket(dataset.id, 0, dataset.size), life=DOWNLOAD_LIFE)
    return f"{instance.settings.url}/downloads/{signed}"


def content(instance: Instance, dataset: Dataset) -> Iterator[bytes]:
    """The bytes of an uploaded data set."""
    return instance.bucket.pieces(content_key(dataset))


# -- removing bytes -------------------------------------------------------------------------------


def drop_parts(instance: Instance, dataset: Dataset) -> None:
    """Remove what was uploaded as parts; what is not there is fine."""
    shutil.rmtree(instance.uploads / dataset.id, ignore_errors=True)
    if not instance.bucket.is_local:
        for number in range(1, dataset.total_parts + 1):
            instance.bucket.delete(upload_key(dataset.id, number))


def drop_bytes(instance: Instance, dataset: Dataset) -> None:
    """Remove everything that is stored of an upload."""
    drop_parts(instance, dataset)
    instance.bucket.delete(content_key(dataset))


def drop_all(instance: Instance, found: Sequence[Dataset]) -> None:
    """Remove the bytes of uploads whose rows are gone."""
    for dataset in found:
        with suppress(GitSyncError):  # the rows are gone: what is left over harms nobody
            drop_bytes(instance, dataset)
