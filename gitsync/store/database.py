"""Connections and transactions on SQLite (WAL) and PostgreSQL.

Promise: `write()` is serialisable against every other `write()` of this process on SQLite (one
fair lock, `BEGIN IMMEDIATE`, `synchronous=FULL`; decision 28) and never holds the lock while
waiting for anything but the database. `read()` sees one snapshot on SQLite.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import ConnectionPoolEntry

from gitsync.errors import StoreError


class FairLock:
    """A mutex that serves its waiters in the order they came, urgent ones before the others.

    Of `IN_A_ROW` turns the last is not urgent, so that nobody waits for ever.
    """

    IN_A_ROW = 8

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._held = False
        self._waiting: tuple[deque[threading.Event], deque[threading.Event]] = (deque(), deque())
        self._in_a_row = 0

    @contextmanager
    def held(self, *, urgent: bool = False) -> Iterator[None]:
        """Wait for the lock and hold it."""
        with self._mutex:
            is_free = not self._held
            self._held = True
            turn = threading.Event()
            if not is_free:
                self._waiting[urgent].append(turn)
        if not is_free:
            turn.wait()
        try:
            yield
        finally:
            self._hand_over()

    def _hand_over(self) -> None:
        with self._mutex:
            usual, urgent = self._waiting
            is_urgent = bool(urgent) and (not usual or self._in_a_row < self.IN_A_ROW - 1)
            self._in_a_row = self._in_a_row + 1 if is_urgent else 0
            if is_urgent:
                urgent.popleft().set()  # handed over: still held
            elif usual:
                usual.popleft().set()
            else:
                self._held = False


def _prepare_sqlite(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # driver autocommit: we say BEGIN ourselves
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "busy_timeout=30000",
        "cache_size=-16000",
        "journal_size_limit=67108864",
    ):
        connection.execute(f"PRAGMA {pragma}")


class Database:
    """One database; `after_commit` is called (from any thread) after each write transaction."""

    def __init__(self, url: str, *, after_commit: Callable[[], None] | None = None) -> None:
        self.url = sa.make_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._lock = FairLock()
        self._after_commit = after_commit or (lambda: None)
        try:
            if self.is_sqlite:
                Path(self.url.database or "").parent.mkdir(parents=True, exist_ok=True)
                self.engine: Engine = sa.create_engine(
                    self.url, pool_size=16, max_overflow=48, pool_timeout=30, hide_parameters=True
                )
                sa.event.listen(self.engine, "connect", _prepare_sqlite)
                sa.event.listen(self.engine, "begin", self._begin_sqlite)
            else:
                self.engine = sa.create_engine(
                    self.url,
                    pool_size=16,
                    max_overflow=16,
                    pool_timeout=30,
                    pool_pre_ping=True,
                    hide_parameters=True,  # errors are logged, and values may be anybody's
                )
        except (sa.exc.SQLAlchemyError, ImportError, OSError) as e:
            hint = " Install gitsync[postgres]." if isinstance(e, ImportError) else ""
            raise StoreError(f"The database cannot be opened: {type(e).__name__}.{hint}") from e

    def _begin_sqlite(self, connection: Connection) -> None:
        mode = connection.get_execution_options().get("gitsync_begin", "DEFERRED")
        connection.exec_driver_sql(f"BEGIN {mode}")

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection for reading; whatever is written through it is rolled back."""
        with self.engine.connect() as connection:
            try:
                yield connection
            finally:
                connection.rollback()

    @contextmanager
    def write(self, *, durable: bool = True, urgent: bool = False) -> Iterator[Connection]:
        """One write transaction, committed at the end, rolled back on any exception.

        `durable=False` skips the fsync: for rows whose loss in a power cut changes nothing, since
        all processes are gone with it (turns, git children, last uses). A killed process loses
        nothing either way, and order is kept: a later durable commit brings it along.
        `urgent=True` goes before the writes of syncs: a forge or a `git push` waits for the answer.
        """
        if self.is_sqlite:
            with (
                self._lock.held(urgent=urgent),
                self.engine.connect().execution_options(gitsync_begin="IMMEDIATE") as connection,
                self._synchronous(connection, durable),
                connection.begin(),
            ):
                yield connection
        else:
            with self.engine.begin() as connection:
                if not durable:
                    connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
                yield connection
        self._after_commit()

    @contextmanager
    def _synchronous(self, connection: Connection, durable: bool) -> Iterator[None]:
        """Outside of any transaction, as SQLite wants it for this pragma."""
        if durable:
            yield
            return
        cursor = connection.connection.cursor()
        cursor.execute("PRAGMA synchronous=NORMAL")
        try:
            yield
        finally:
            cursor.execute("PRAGMA synchronous=FULL")
            cursor.close()

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()
