"""Data sets from the first announcement to the complete upload; `dataset_work` checks them.

Promise: an upload is one row whose content never changes; a name is taken over only by another
upload, and given back if that one is cancelled. With a local store the parts come to signed URLs of
our own, with a remote one they go straight there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from gitsync.artifacts.bucket import upload_key
from gitsync.check.parquet import is_readable
from gitsync.check.upload import FORMATS
from gitsync.data_records import Dataset, DatasetState
from gitsync.errors import Conflict, InvalidInput, NotFound
from gitsync.instance import MIB, Instance
from gitsync.records import Workspace, WorkspaceState
from gitsync.store import Connection, dataset_checks, datasets, events, workspaces
from gitsync.text import printable
from gitsync.uploads import (
    OPEN,
    UPLOAD_LIFE,
    UploadEnded,
    UploadPart,
    part_bytes,
    upload_parts,
)

_ID = re.compile(r"ds_[0-9a-z]{16}")
MOST = 10_000  # in one workspace
_DONE = {DatasetState.PROCESSING, DatasetState.UPLOADED, DatasetState.ERROR}


class DatasetMissing(NotFound):
    """No data set of this name or id in the workspace."""

    code = "DATASET_NOT_FOUND"


class NameTaken(Conflict):
    """There is a data set of this name; `existing_dataset_id` in the details may be overwritten."""

    code = "DATASET_EXISTS"


class UploadIncomplete(Conflict):
    """Not all bytes are here; the details name the parts."""

    code = "UPLOAD_INCOMPLETE"


# -- announcing -----------------------------------------------------------------------------------


def announce(
    instance: Instance,
    workspace: Workspace,
    *,
    name: str,
    format: str,
    size: int,
    overwrite: str | None,
    by: str | None,
) -> tuple[Dataset, tuple[UploadPart, ...]]:
    """Take the name for a new upload; where to send its parts."""
    if workspace.state is WorkspaceState.DISCONNECTED:
        raise Conflict("The workspace is disconnected: it takes no data sets.")
    _check_form(instance, name, format, size)
    part_size = instance.settings.upload_part_mb * MIB
    now = instance.now()
    with instance.database.write() as db:
        workspaces.lock_workspace(db, workspace.id)
        known = datasets.find_dataset(db, workspace.id, name)
        _check_overwrite(known, name, overwrite)
        if known is None and datasets.count_datasets(db, workspace.id) >= MOST:
            raise Conflict(f"The workspace has {MOST} data sets already. Delete some.")
        _make_room(db, instance, workspace, size)
        if known is not None:
            _leave(db, known, now=now)
        dataset = datasets.add_dataset(
            db,
            workspace.id,
            name=name,
            format=format,
            size=size,
            part_size=part_size,
            total_parts=-(-size // part_size),
            replaces=known,
            created_by=by,
            expires_at=now + UPLOAD_LIFE,
            now=now,
        )
        text = f"Upload of {size} bytes as {dataset.total_parts} part(s) announced."
        if known is not None:
            text += f" It replaces {known.id}."
        datasets.add_log(db, dataset.id, "info", "upload", text, now=now)
        tell(db, instance, dataset)
    return dataset, upload_parts(instance, dataset)


def _check_form(instance: Instance, name: str, format: str, size: int) -> None:
    if (
        not 1 <= len(name) <= 255
        or name.strip() != name
        or not name.isprintable()
        or "/" in name
        or "\\" in name
        or name in {".", ".."}
        or _ID.fullmatch(name)
    ):
        raise InvalidInput(
            f"{printable(name, limit=80)!r} cannot be the name of a data set: use 1 to 255 "
            "printable characters without slashes. Rename the file.",
            field="file_name",
        )
    if format not in FORMATS:
        raise InvalidInput(
            f"Data sets are {', '.join(FORMATS)}, not {printable(format, limit=40)!r}.",
            field="extension",
        )
    if format == "parquet" and not is_readable():
        raise InvalidInput(
            "This gitsync cannot read Parquet. Upload JSONL or CSV, or ask the operator to "
            "install gitsync[parquet].",
            field="extension",
        )
    most = instance.settings.max_dataset_mb * MIB
    if not 1 <= size <= most:
        raise InvalidInput(
            f"A data set has 1 to {most} bytes (GITSYNC_MAX_DATASET_MB), not {size}.",
            field="file_size",
        )


def _make_room(db: Connection, instance: Instance, workspace: Workspace, size: int) -> None:
    most = instance.settings.max_datasets_mb * MIB
    if datasets.total_size(db, workspace.id) + size <= most:
        return
    dataset_checks.give_up_replaced(db, workspace.id)
    taken = datasets.total_size(db, workspace.id)
    if taken + size > most:
        raise Conflict(
            f"The data sets of this workspace take {taken // MIB} MiB of {most // MIB}, and this "
            f"one has {-(-size // MIB)}. Delete some, or ask the operator to raise "
            "GITSYNC_MAX_DATASETS_MB.",
            field="file_size",
        )


def _check_overwrite(known: Dataset | None, name: str, overwrite: str | None) -> None:
    if known is None:
        if overwrite is not None:
            raise DatasetMissing(
                f"There is no data set {printable(name)} to overwrite.",
                field="overwrite_dataset_id",
            )
    elif overwrite is None:
        raise NameTaken(
            f"A data set named {printable(name)} exists already. Overwrite it, or rename the file.",
            existing_dataset_id=known.id,
        )
    elif overwrite != known.id:
        raise NameTaken(
            f"{printable(name)} was replaced by somebody else meanwhile. Look at it, then "
            "overwrite it again.",
            existing_dataset_id=known.id,
        )


def _leave(db: Connection, dataset: Dataset, *, now: datetime) -> None:
    """An upload that is replaced while it is open ends; a finished one keeps what it is."""
    open_states = [state for state in DatasetState if state.is_open]
    if datasets.change_state(
        db, dataset.id, DatasetState.CANCELLED, only_from=open_states, now=now, owner=None
    ):
        text = "Cancelled: another upload took the name."
        datasets.add_log(db, dataset.id, "warning", "upload", text, now=now)


def tell(db: Connection, instance: Instance, dataset: Dataset) -> None:
    """An event: the data set changed."""
    events.add_event(
        db,
        "dataset.changed",
        {"id": dataset.id, "name": dataset.name, "status": dataset.state.value},
        workspace_id=dataset.workspace_id,
        now=instance.now(),
    )


# -- completing, aborting, deleting ---------------------------------------------------------------


def get(instance: Instance, workspace: Workspace, name_or_id: str) -> Dataset:
    """What a name means now, or one upload; `DatasetMissing` otherwise."""
    with instance.database.read() as db:
        found = datasets.find_dataset(db, workspace.id, name_or_id)
    if found is None:
        raise DatasetMissing(f"There is no data set {printable(name_or_id, limit=80)}.")
    return found


def complete(
    instance: Instance,
    workspace: Workspace,
    dataset_id: str,
    *,
    format: str | None,
    parts: Sequence[tuple[int, str]] | None,
) -> Dataset:
    """All parts were sent: have the content checked. Asked again, it answers how far that is."""
    dataset = get(instance, workspace, dataset_id)
    if format is not None and format != dataset.format:
        raise InvalidInput(
            f"The upload was announced as {dataset.format}, not {printable(format, limit=40)}.",
            field="file_extension",
        )
    if dataset.state in _DONE:
        return dataset
    if dataset.state is DatasetState.CANCELLED:
        raise UploadEnded("This upload was cancelled, replaced, or took too long. Begin it anew.")
    arrived: dict[int, tuple[str, int]] = {}
    if not instance.bucket.is_local:
        arrived = _arrived(instance, dataset)
        _check_parts(dataset, arrived, parts)
    now = instance.now()
    with instance.database.write() as db:
        for number, (etag, size) in arrived.items():
            datasets.put_part(db, dataset.id, number, size=size, etag=etag, now=now)
        if datasets.change_state(
            db, dataset.id, DatasetState.PROCESSING, only_from=OPEN, now=now, due_at=None
        ):
            if instance.bucket.is_local:  # from here on no part is replaced by another
                found_parts = datasets.parts_of(db, dataset.id)
                _check_parts(dataset, {p.number: (p.etag, p.size) for p in found_parts}, parts)
            text = f"All {dataset.size} bytes have arrived; the check follows."
            datasets.add_log(db, dataset.id, "info", "upload", text, now=now)
        found = datasets.get_dataset(db, dataset.id)
        if found is None or found.state is DatasetState.CANCELLED:
            raise UploadEnded("This upload was cancelled at this moment.")
        tell(db, instance, found)
    instance.data_ready.set()
    return found


def _arrived(instance: Instance, dataset: Dataset) -> dict[int, tuple[str, int]]:
    """ETag and size of each part that is in the remote store."""
    numbers = range(1, dataset.total_parts + 1)
    found = {n: instance.bucket.etag(upload_key(dataset.id, n)) for n in numbers}
    return {number: part for number, part in found.items() if part is not None}


def _check_parts(
    dataset: Dataset,
    arrived: dict[int, tuple[str, int]],
    claimed: Sequence[tuple[int, str]] | None,
) -> None:
    numbers = range(1, dataset.total_parts + 1)
    missing = [n for n in numbers if n not in arrived]
    if missing:
        raise UploadIncomplete(
            f"{len(missing)} of {dataset.total_parts} parts are missing (first: {missing[0]}). "
            "Send them, then complete the upload.",
            parts=missing[:100],
        )
    wrong = [n for n in numbers if arrived[n][1] != part_bytes(dataset, n)]
    if wrong:
        raise InvalidInput(
            f"Part {wrong[0]} has {arrived[wrong[0]][1]} bytes, and "
            f"{part_bytes(dataset, wrong[0])} were announced. Send it again.",
            field="parts",
        )
    if claimed is None:
        return
    said = {number: etag.strip('"') for number, etag in claimed}
    if len(said) != len(claimed) or set(said) != set(numbers):
        raise InvalidInput(f"Name each of the {dataset.total_parts} parts once.", field="parts")
    for number in numbers:
        if said[number] != arrived[number][0]:
            raise InvalidInput(
                f"Part {number} is not the one that arrived last. Send it again.", field="parts"
            )


def abort(instance: Instance, workspace: Workspace, dataset_id: str) -> Dataset:
    """End an upload, or dismiss one that was refused; the name goes back to the one before it.

    Nothing happens to an upload that is good, or has ended already.
    """
    dataset = get(instance, workspace, dataset_id)
    with instance.database.write() as db:
        cancel(db, instance, dataset, reason="Cancelled by the person who uploads.")
        return datasets.get_dataset(db, dataset.id) or dataset


def cancel(db: Connection, instance: Instance, dataset: Dataset, *, reason: str) -> bool:
    """End an upload that is not `uploaded`; False if it is, or has ended already."""
    now = instance.now()
    workspaces.lock_workspace(db, dataset.workspace_id)
    endable = [s for s in DatasetState if s not in {DatasetState.UPLOADED, DatasetState.CANCELLED}]
    if not datasets.change_state(
        db, dataset.id, DatasetState.CANCELLED, only_from=endable, now=now, owner=None
    ):
        return False
    earlier = datasets.give_back_name(db, dataset)
    if earlier is not None:
        reason += f" {earlier.id} has the name again."
    datasets.add_log(db, dataset.id, "warning", "upload", reason, now=now)
    tell(db, instance, earlier or datasets.get_dataset(db, dataset.id) or dataset)
    return True


def delete(instance: Instance, workspace: Workspace, name_or_id: str) -> None:
    """Take a data set away with all its older contents; runs that use it keep what they hold."""
    dataset = get(instance, workspace, name_or_id)
    with instance.database.write() as db:
        workspaces.lock_workspace(db, workspace.id)
        datasets.delete_named(db, workspace.id, dataset.name, now=instance.now())
        events.add_event(
            db,
            "dataset.deleted",
            {"id": dataset.id, "name": dataset.name},
            workspace_id=workspace.id,
            now=instance.now(),
        )
