"""One running gitsync: its settings and its owners, built once and handed to stories and doors."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from gitsync.artifacts import Bucket
from gitsync.errors import ConfigError, StoreError
from gitsync.git.address import AddressPolicy
from gitsync.git.remote import Network
from gitsync.pool import Pool
from gitsync.settings import Settings
from gitsync.signals import ALONE_S, ELSEWHERE_S, Signals, Waker
from gitsync.store import Database, Dead, Sealer, migrate, new_id
from gitsync.store.seal import new_key

MIB = 1024 * 1024


def _no_point(_name: str) -> None:
    """Where a test may stop us; nothing in production."""


def utc_now() -> datetime:
    """The only clock of the service."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Instance:
    """Everything a story needs. `boot` names this start; `at` marks crash points for tests."""

    settings: Settings
    database: Database
    sealer: Sealer
    bucket: Bucket
    pool: Pool
    data_pool: Pool  # for data sets, so that a large one does not hold up pushes
    network: Network
    signals: Signals
    boot: str
    stopping: threading.Event = field(default_factory=threading.Event)
    at: Callable[[str], None] = _no_point
    now: Callable[[], datetime] = utc_now
    wake: Waker = field(default_factory=Waker)
    data_ready: threading.Event = field(default_factory=threading.Event)  # one waits to be checked

    @property
    def repos(self) -> Path:
        """Embedded repositories: primary data."""
        return self.settings.data_dir / "repos"

    @property
    def mirrors(self) -> Path:
        """Mirrors of external remotes: caches."""
        return self.settings.data_dir / "mirrors"

    @property
    def uploads(self) -> Path:
        """Parts of data sets that are on their way, a folder each; with a local store only."""
        return self.settings.data_dir / "uploads"

    @property
    def staging(self) -> Path:
        """Artifacts and packs before they are stored; empty when idle.

        Each start has its own, so that a worker that outlives its server writes to no later one.
        """
        return self.settings.data_dir / "staging" / self.boot

    def dead_boots(self) -> Dead:
        """At a start: servers that are dead, told by the staging folders they left.

        One server at a time holds the data folder. None on SQLite: all others are.
        """
        if self.database.is_sqlite:
            return None
        return {path.name for path in self.staging.parent.iterdir()} - {self.boot}

    def repository_of(self, workspace_id: str, *, is_embedded: bool) -> Path:
        """Where the objects of a workspace lie."""
        return (self.repos if is_embedded else self.mirrors) / f"{workspace_id}.git"

    def close(self) -> None:
        """End the worker processes and close the database."""
        self.stopping.set()
        self.pool.close()
        self.data_pool.close()
        self.database.close()
        shutil.rmtree(self.staging, ignore_errors=True)


class DataFolder:
    """The data folder, owned by one server at a time on SQLite (decision 24)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            for name in ("repos", "mirrors", "staging", "uploads"):
                (path / name).mkdir(exist_ok=True, mode=0o700)
        except OSError as e:
            raise ConfigError(
                f"The data folder {path} (GITSYNC_DATA_DIR) cannot be used: {e.strerror}."
            ) from e
        self._descriptor: int | None = None

    def lock(self) -> None:
        """Hold the folder until `unlock`, or until this process ends."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            os.close(descriptor)
            raise StoreError(
                f"Another gitsync server uses the data folder {self.path}. Stop it, or give this "
                "one its own folder with GITSYNC_DATA_DIR."
            ) from e
        self._descriptor = descriptor

    def unlock(self) -> None:
        """Let another server in."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def secret_key(self) -> str:
        """The key made at the first start, for those who set none; mode 0600."""
        path = self.path / "secret.key"
        if path.exists():
            return path.read_text().strip()
        key = new_key()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(key + "\n")
            file.flush()
            os.fsync(file.fileno())
        return key


def make_sealer(settings: Settings, folder: DataFolder) -> Sealer:
    """The sealer with the operator's keys, or with the one in the data folder."""
    return Sealer(settings.secret_keys or (folder.secret_key(),))


def make_network(settings: Settings) -> Network:
    """What the settings say about outgoing connections."""
    if settings.ca_bundle is not None and not settings.ca_bundle.is_file():
        raise ConfigError(f"GITSYNC_CA_BUNDLE: there is no file {settings.ca_bundle}.")
    return Network(
        policy=AddressPolicy.of(settings.allowed_hosts),
        ca_bundle=settings.ca_bundle,
        proxy=settings.proxy or "",
        look_seconds=settings.look_deadline_s,
        look_refs=settings.max_refs,
    )


def make_bucket(settings: Settings) -> Bucket:
    """The artifact store the settings name."""
    secret = settings.s3_secret_access_key
    return Bucket(
        settings.artifact_url,
        endpoint=settings.s3_endpoint,
        region=settings.s3_region,
        access_key_id=settings.s3_access_key_id,
        secret_access_key=secret.get_secret_value() if secret else None,
    )


def open_instance(
    settings: Settings,
    folder: DataFolder,
    *,
    at: Callable[[str], None] = _no_point,
    now: Callable[[], datetime] = utc_now,
) -> Instance:
    """Open all owners and bring the schema up to date; the caller holds the folder's lock."""
    sealer, network, bucket = (
        make_sealer(settings, folder),
        make_network(settings),
        make_bucket(settings),
    )
    is_alone = settings.sqlalchemy_url.startswith("sqlite")
    signals = Signals(pause_s=ALONE_S if is_alone else ELSEWHERE_S)
    database = Database(settings.sqlalchemy_url, after_commit=signals.notify)
    migrate.upgrade(database, now=now(), at=at)
    pool = Pool(
        processes=settings.check_processes,
        memory_bytes=settings.check_memory_mb * MIB,
        deadline_s=settings.check_deadline_s,
    )
    data_pool = Pool(
        processes=1,
        memory_bytes=settings.check_memory_mb * MIB,
        deadline_s=settings.dataset_deadline_s,
        subject="the data set",
        deadline_setting="GITSYNC_DATASET_DEADLINE_S",
    )
    boot = new_id("boot")
    (settings.data_dir / "staging" / boot).mkdir(mode=0o700)
    return Instance(
        settings=settings,
        database=database,
        sealer=sealer,
        bucket=bucket,
        pool=pool,
        data_pool=data_pool,
        network=network,
        signals=signals,
        boot=boot,
        at=at,
        now=now,
    )
