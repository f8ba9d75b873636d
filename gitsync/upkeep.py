"""What keeps an old instance healthy: retention, scrub, repacking, re-assessment.

Promise: nothing that a branch, pin or lease refers to is ever removed; rows go before objects
(decision 5); every job may be killed and runs again.
"""

from __future__ import annotations

import hashlib
import logging
from datetime import timedelta

from gitsync.artifacts import Bucket, ObjectMissing
from gitsync.artifacts.bucket import artifact_key
from gitsync.check import fingerprint
from gitsync.dataset_work import sweep_datasets
from gitsync.errors import GitSyncError
from gitsync.git.lock import RepoLock
from gitsync.git.mirror import Mirror
from gitsync.instance import Instance
from gitsync.model import Sha
from gitsync.store import (
    devices,
    events,
    jobs,
    objects,
    pins,
    sessions,
    syncs,
    versions,
    workspaces,
)
from gitsync.sync.objects import child_guard, is_usable, repository_of
from gitsync.sync.publish import publish_one

log = logging.getLogger(__name__)

GRACE = timedelta(hours=24)  # an artifact younger than this may belong to a running publish
SCRUB_EVERY = timedelta(days=30)
REPACK_OVER = 50  # packs in a repository
BATCH = 50


def forget_old_rows(instance: Instance) -> dict[str, int]:
    """Drop deliveries, events, idempotency keys and ended sessions past their retention."""
    now, settings = instance.now(), instance.settings
    with instance.database.write() as db:
        return {
            "deliveries": syncs.drop_deliveries(
                db, before=now - timedelta(days=settings.keep_deliveries_days)
            ),
            "events": events.drop_events(
                db, before=now - timedelta(days=settings.keep_events_days)
            ),
            "jobs": jobs.drop_jobs(db, before=now - timedelta(days=settings.keep_deliveries_days)),
            "idempotency": objects.drop_idempotent(db, before=now - GRACE),
            "sessions": sessions.drop_sessions(db, before=now - GRACE),
            "device_logins": devices.drop_device_logins(db, before=now - GRACE),
        }


def retire_versions(instance: Instance) -> int:
    """Remove versions past GITSYNC_KEEP_VERSIONS_DAYS that nothing refers to; default: none."""
    days = instance.settings.keep_versions_days
    if days is None:
        return 0
    now = instance.now()
    with instance.database.write() as db:
        found = pins.removable(db, before=now - timedelta(days=days), now=now, limit=BATCH)
        for version_id in found:
            pins.delete_version(db, version_id)
    return len(found)


def sweep_artifacts(instance: Instance) -> int:
    """Delete artifacts that no version refers to: mark, delete the object, then the row."""
    with instance.database.write() as db:
        digests = objects.mark_unreferenced(db, before=instance.now() - GRACE, limit=BATCH)
    instance.at("sweep.marked")
    for digest in digests:
        instance.bucket.delete(artifact_key(digest))
        instance.at("sweep.deleted")
        with instance.database.write() as db:
            objects.drop_artifact(db, digest)
    return len(digests)


def is_sound(bucket: Bucket, digest: str) -> bool:
    """True if the stored bytes still have their digest."""
    found = hashlib.sha256()
    try:
        for piece in bucket.pieces(artifact_key(digest)):
            found.update(piece)
    except ObjectMissing:
        return False
    return found.hexdigest() == digest


def scrub(instance: Instance, *, every: timedelta = SCRUB_EVERY, limit: int = BATCH) -> list[str]:
    """Re-hash stored artifacts; bad ones are quarantined and rebuilt. The bad digests."""
    now = instance.now()
    with instance.database.read() as db:
        batch = objects.next_to_scrub(db, before=now - every, limit=limit)
    bad = []
    for digest, _ in batch:
        if instance.stopping.is_set():
            break
        sound = is_sound(instance.bucket, digest)
        with instance.database.write() as db:
            objects.note_scrub(db, digest, is_sound=sound, now=instance.now())
        if not sound:
            log.error("artifact damaged digest=%s", digest)
            bad.append(digest)
    for digest in quarantined(instance):
        heal(instance, digest)
    return bad


def quarantined(instance: Instance) -> list[str]:
    """Digests whose stored bytes are bad."""
    with instance.database.read() as db:
        return objects.quarantined(db)


def heal(instance: Instance, digest: str) -> bool:
    """Build a quarantined artifact again from a version that refers to it."""
    with instance.database.read() as db:
        where = versions.find_by_digest(db, digest)
        if where is None:
            return False
        workspace = workspaces.get_workspace(db, where[0])
    try:
        publish_one(instance, workspace, Sha(where[1]))
    except GitSyncError as e:
        log.warning("artifact not healed digest=%s reason=%s", digest, e.message)
        return False
    log.info("artifact healed digest=%s", digest)
    return True


def reassess(instance: Instance) -> int:
    """Assess served versions anew after the checker changed (decision 8)."""
    with instance.database.read() as db:
        batch = versions.outdated(db, fingerprint(), limit=BATCH)
    done = 0
    for workspace_id, sha in batch:
        if instance.stopping.is_set():
            break
        with instance.database.read() as db:
            workspace = workspaces.get_workspace(db, workspace_id)
        try:
            publish_one(instance, workspace, Sha(sha), is_fresh=True)
            done += 1
        except GitSyncError as e:
            log.warning("not assessed workspace=%s reason=%s", workspace_id, e.message)
    return done


def repack(instance: Instance, *, over: int = REPACK_OVER) -> int:
    """Run `git gc` where packs pile up; pins and tips keep all that versions need."""
    done = 0
    with instance.database.read() as db:
        ids = workspaces.all_ids(db, active=False)
    for workspace_id in ids:
        if instance.stopping.is_set():
            break
        with instance.database.read() as db:
            workspace = workspaces.get_workspace(db, workspace_id)
        path = repository_of(instance, workspace)
        if not is_usable(path) or Mirror(path).loose_weight() <= over:
            continue
        try:
            # pushes may go on beside it: pins and tips keep what they need, young objects stay
            with RepoLock(path).held(shared=workspace.is_embedded) as descriptor:
                Mirror(path, child_guard(instance, workspace_id, lock_fd=descriptor)).gc()
                done += 1
        except GitSyncError as e:
            log.info("not repacked workspace=%s reason=%s", workspace_id, e.message)
    return done


JOBS = (
    ("forget_old_rows", 600.0, forget_old_rows),
    ("reassess", 60.0, reassess),
    ("retire_versions", 3600.0, retire_versions),
    ("sweep_artifacts", 3600.0, sweep_artifacts),
    ("sweep_datasets", 600.0, sweep_datasets),
    ("scrub", 3600.0, scrub),
    ("repack", 1800.0, repack),
)
