"""Checking what was uploaded, and sweeping what is left over.

Promise: a check belongs to one process at a time by a lease in the row; killed anywhere, it is done
again from the parts, and its result is written only by who still holds it.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from gitsync import datasets as story
from gitsync import uploads
from gitsync.artifacts import ObjectMissing
from gitsync.artifacts.bucket import StoreUnavailable, upload_key
from gitsync.check.upload import Examined, examine_upload
from gitsync.data_records import Dataset, DatasetState
from gitsync.errors import GitSyncError
from gitsync.instance import Instance
from gitsync.model import Finding, Severity
from gitsync.pool import JobFailed, PoolUnavailable
from gitsync.store import Connection, Dead, dataset_checks, datasets
from gitsync.text import printable

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=60)
_RENEW_S = 15.0
_MOST_ATTEMPTS = 5
_PAUSE = timedelta(seconds=15)
_GRACE = timedelta(hours=1)  # a slow PUT to a remote store may still be on its way
_BATCH = 50
_MOST_LOGGED = 50
_PIECE = 1024 * 1024


class _Refused(Exception):
    """The content is no good; what the person is told."""

    def __init__(self, message: str, issues: tuple[dict[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.message, self.issues = message, issues


def work_off(instance: Instance) -> int:
    """Check what waits until nothing does; how many."""
    done = 0
    while not instance.stopping.is_set():
        with instance.database.read() as db:
            if not dataset_checks.is_due(db):
                break
        with instance.database.write() as db:
            dataset = dataset_checks.claim(db, owner=instance.boot, lease=LEASE)
        if dataset is None:
            break
        instance.at("dataset.claimed")
        with _renewed(instance, dataset):
            _check(instance, dataset)
        done += 1
    return done


@contextmanager
def _renewed(instance: Instance, dataset: Dataset) -> Iterator[None]:
    """Keep the lease while a large file is read."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(_RENEW_S):
            with suppress(Exception), instance.database.write(durable=False) as db:
                dataset_checks.renew(db, dataset.id, owner=instance.boot, lease=LEASE)

    thread = threading.Thread(target=renew, name="dataset-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=5)


def _check(instance: Instance, dataset: Dataset) -> None:
    if dataset.attempts > _MOST_ATTEMPTS:
        _end_badly(
            instance, dataset, f"The check did not come to an end in {_MOST_ATTEMPTS} attempts."
        )
        return
    try:
        with _staged(instance, dataset) as path:
            examined = _examine(instance, dataset, path)
            instance.at("dataset.examined")
            instance.bucket.put_file(uploads.content_key(dataset), path)
        instance.at("dataset.stored")
        _publish(instance, dataset, examined)
    except _Refused as e:
        _end_badly(instance, dataset, e.message, e.issues)
    except (ObjectMissing, FileNotFoundError):
        _end_badly(instance, dataset, "What was uploaded is not there any more. Upload it anew.")
    except (JobFailed, StoreUnavailable, PoolUnavailable, OSError) as e:
        reason = e.message if isinstance(e, GitSyncError) else (e.strerror or type(e).__name__)
        log.warning("data set not checked dataset=%s reason=%s", dataset.id, reason)
        with instance.database.write() as db:
            datasets.add_log(
                db,
                dataset.id,
                "warning",
                "check",
                f"The check is repeated in a moment: {reason}",
                now=instance.now(),
            )
            dataset_checks.release(
                db,
                dataset.id,
                owner=instance.boot,
                pause=_PAUSE,
                counts=isinstance(e, JobFailed),
            )


@contextmanager
def _staged(instance: Instance, dataset: Dataset) -> Iterator[Path]:
    """The whole content as one file."""
    with instance.database.read() as db:
        parts = datasets.parts_of(db, dataset.id)
    if instance.bucket.is_local and len(parts) == 1:
        yield uploads.part_path(instance, dataset.id, 1, parts[0].etag)
        return
    path = instance.staging / f"{secrets.token_hex(8)}.{dataset.format}"
    try:
        with path.open("wb") as out:
            for part in parts:
                for piece in _part_pieces(instance, dataset, part.number, part.etag):
                    out.write(piece)
                    if out.tell() > dataset.size:
                        raise _Refused("A part grew after the upload was complete. Upload anew.")
        yield path
    finally:
        path.unlink(missing_ok=True)


def _part_pieces(instance: Instance, dataset: Dataset, number: int, etag: str) -> Iterator[bytes]:
    if not instance.bucket.is_local:
        yield from instance.bucket.pieces(upload_key(dataset.id, number))
        return
    with uploads.part_path(instance, dataset.id, number, etag).open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _examine(instance: Instance, dataset: Dataset, path: Path) -> Examined:
    label = f"{dataset.name}.{dataset.format}"
    try:
        examined = instance.data_pool.run(examine_upload, str(path), dataset.format, label)
    except JobFailed as e:
        if e.details["reason"] == "died":  # by the file, by the kernel, or by our own end
            raise
        raise _Refused(e.message) from e
    if examined.size != dataset.size:
        raise _Refused(
            f"{dataset.size} bytes were announced, and {examined.size} are there. Upload it anew."
        )
    _note(instance, dataset, examined.findings)
    if examined.has_errors:
        errors = [f for f in examined.findings if f.severity is Severity.ERROR]
        first = errors[0]
        more = f" ({len(errors) - 1} more, see the log.)" if len(errors) > 1 else ""
        raise _Refused(
            f"{first.code} in line {first.line}: {first.message}{more}",
            tuple({"key": f"{f.path}:{f.line}", "message": f.message} for f in errors),
        )
    return examined


def _note(instance: Instance, dataset: Dataset, findings: tuple[Finding, ...]) -> None:
    with instance.database.write() as db:
        for finding in findings[:_MOST_LOGGED]:
            level = "error" if finding.severity is Severity.ERROR else "warning"
            datasets.add_log(
                db,
                dataset.id,
                level,
                "check",
                f"{finding.path}:{finding.line}: {finding.code}: {finding.message}",
                now=instance.now(),
                details={"code": finding.code, "line": finding.line},
            )


def _publish(instance: Instance, dataset: Dataset, examined: Examined) -> None:
    with instance.database.write() as db:
        is_ours = dataset_checks.finish(
            db,
            dataset.id,
            owner=instance.boot,
            state=DatasetState.UPLOADED,
            now=instance.now(),
            object_key=uploads.content_key(dataset),
            digest=examined.digest,
            row_count=examined.row_count,
            preview=list(examined.preview),
        )
        if is_ours:
            _told(
                db,
                instance,
                dataset,
                "info",
                f"Ready: {examined.row_count} rows, sha256 {examined.digest}.",
            )
    log.info("data set checked dataset=%s rows=%d", dataset.id, examined.row_count)
    if is_ours:
        instance.at("dataset.published")
        uploads.drop_parts(instance, dataset)
        with instance.database.write(durable=False) as db:
            dataset_checks.drop_parts(db, dataset.id)


def _end_badly(
    instance: Instance, dataset: Dataset, message: str, issues: tuple[dict[str, str], ...] = ()
) -> None:
    error: dict[str, Any] = {"code": "DATASET_INVALID", "message": message, "issues": list(issues)}
    with instance.database.write() as db:
        if dataset_checks.finish(
            db,
            dataset.id,
            owner=instance.boot,
            state=DatasetState.ERROR,
            now=instance.now(),
            error=error,
        ):
            text = f"Refused: {message}"
            if dataset.replaces is not None:
                text += " Abort this upload to have the content before it back."
            _told(db, instance, dataset, "error", text)
    log.info("data set refused dataset=%s reason=%s", dataset.id, printable(message, limit=200))


def _told(db: Connection, instance: Instance, dataset: Dataset, level: str, text: str) -> None:
    datasets.add_log(db, dataset.id, level, "check", text, now=instance.now())
    now_is = datasets.get_dataset(db, dataset.id)
    if now_is is not None:
        story.tell(db, instance, now_is)


# -- left over ------------------------------------------------------------------------------------


def end_expired(instance: Instance) -> int:
    """Cancel uploads that were begun and not completed in time."""
    with instance.database.read() as db:
        found = dataset_checks.expired(db, now=instance.now(), limit=_BATCH)
    for dataset in found:
        with instance.database.write() as db:
            hours = uploads.UPLOAD_LIFE // timedelta(hours=1)
            story.cancel(
                db, instance, dataset, reason=f"Cancelled: not complete within {hours} hours."
            )
    return len(found)


def sweep_datasets(instance: Instance) -> int:
    """Remove the bytes of uploads that nobody can want any more."""
    end_expired(instance)
    now = instance.now()
    kept = timedelta(days=instance.settings.keep_replaced_datasets_days)
    with instance.database.read() as db:
        found = dataset_checks.unswept(
            db, before=now - _GRACE, replaced_before=now - kept, limit=_BATCH
        )
        with_parts = dataset_checks.with_parts_left(db, limit=_BATCH)
    for dataset in found:
        uploads.drop_bytes(instance, dataset)
        instance.at("dataset.swept")
        with instance.database.write() as db:
            dataset_checks.note_swept(db, dataset.id)
    for dataset in with_parts:
        uploads.drop_parts(instance, dataset)
        with instance.database.write() as db:
            dataset_checks.drop_parts(db, dataset.id)
    return len(found)


def recover(instance: Instance, dead: Dead) -> int:
    """At a start: checks of dead servers begin anew, half-received parts of this folder go."""
    with instance.database.write() as db:
        released = dataset_checks.release_claims(db, dead)
    for leftover in instance.uploads.glob("*/.*"):
        leftover.unlink(missing_ok=True)
    with instance.database.read() as db:
        known = dataset_checks.ids_among(db, [path.name for path in instance.uploads.iterdir()])
    for path in instance.uploads.iterdir():
        if path.name not in known:
            shutil.rmtree(path, ignore_errors=True)
    return released
