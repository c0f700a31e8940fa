"""Connections to the database: the one writer's engine, and the reader's recipe for every state of the writer.

The writer: WAL, `synchronous=FULL`, every transaction starts with BEGIN IMMEDIATE. The reader never creates a file,
never writes, and holds a short transaction for each request. No process opens the file in any other way while SQLite
has it open: closing such a descriptor would drop SQLite's locks (POSIX).
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from supervisor.errors import CheckvisorError
from supervisor.store.migrations import HEAD

FILE_NAME = "checkvisor.db"
APPLICATION_ID = 0x43484B56  # "CHKV" in the header of every file we create
BUSY_TIMEOUT_S = 5.0
WAL_LIMIT_BYTES = 64 * 1024 * 1024
READ_TIMEOUT_S = 2.0
READ_DEADLINE_S = 1.0
_STEPS_BETWEEN_LOOKS = 2000  # virtual machine steps of SQLite between two looks at the clock


# --- the writer ------------------------------------------------------------------------------------------------------


def writer_engine(path: Path, *, foreign_keys: bool = True, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Engine:
    """The engine of the only writer. Opening fails with sqlite3's errors; a missing file is created.

    Use it with one connection: `engine.begin()` is BEGIN IMMEDIATE ... COMMIT.
    """

    def connect() -> sqlite3.Connection:
        raw = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False)
        try:
            _prepare_writer(raw, foreign_keys=foreign_keys)
        except BaseException:
            raw.close()
            raise
        return raw

    return _engine(connect, "BEGIN IMMEDIATE")


def _prepare_writer(raw: sqlite3.Connection, *, foreign_keys: bool) -> None:
    """The pragmas. auto_vacuum can only be chosen before the first page is written, and WAL writes the first page."""
    if raw.execute("PRAGMA page_count").fetchone()[0] == 0:
        raw.execute("PRAGMA auto_vacuum=INCREMENTAL")
        raw.execute(f"PRAGMA application_id={APPLICATION_ID}")
    raw.execute("PRAGMA journal_mode=WAL").fetchone()
    raw.execute("PRAGMA synchronous=FULL")
    raw.execute(f"PRAGMA journal_size_limit={WAL_LIMIT_BYTES}").fetchone()
    raw.execute(f"PRAGMA foreign_keys={'ON' if foreign_keys else 'OFF'}")
    raw.execute("PRAGMA cache_size=-16384")  # 16 MB: the right edge of every target's index range stays in memory


def _engine(connect: Callable[[], sqlite3.Connection], begin: str) -> Engine:
    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def sqlite_error(error: BaseException) -> sqlite3.Error | None:
    """The sqlite3 error in (or under) an exception of SQLAlchemy, or the exception itself if it is one."""
    if isinstance(error, DBAPIError):
        error = error.orig if error.orig is not None else error
    return error if isinstance(error, sqlite3.Error) else None


def error_code(error: BaseException) -> int | None:
    """SQLite's primary result code of an error, None where there is none."""
    found = sqlite_error(error)
    code = getattr(found, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


FAULTS = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,  # too many collisions on the locks: busy under another name
    }
)


def is_fault(error: BaseException) -> bool:
    """Whether the store failed (and will work again), not what was to be written."""
    return isinstance(error, OSError) or error_code(error) in FAULTS


def at_rest(path: Path) -> bool:
    """Whether nobody has the database open and nothing waits in its log: then it can be read as an immutable file."""
    wal = _stat(f"{path}-wal")
    return _stat(f"{path}-shm") is None and (wal is None or wal.st_size == 0)


def open_readonly(path: Path) -> sqlite3.Connection:
    """One plain read-only connection, for a backup or a look at start. It creates no side file of a file at rest."""
    parameters = "mode=ro&immutable=1" if at_rest(path) else "mode=ro"
    uri = f"file:{quote(str(path))}?{parameters}"
    return sqlite3.connect(uri, uri=True, timeout=READ_TIMEOUT_S, isolation_level=None, check_same_thread=False)


# --- the reader ------------------------------------------------------------------------------------------------------


class ReadError(CheckvisorError):
    """The database gave no answer; `str()` says why."""


class NoDatabaseError(ReadError):
    """There is no database yet, or the supervisor is just making it."""


class UnreadableError(ReadError):
    """The database is there and can't be read: rights, corrupt, another version, locked, no WAL index."""


class TooSlowError(UnreadableError):
    """The reader's own deadline passed."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One request's view of the database. `stale`: no supervisor has it open, it was read as an immutable file."""

    connection: Connection
    stale: bool


@dataclass(frozen=True, slots=True)
class _Files:
    """What lies on disk: which database this is, and whether SQLite's two side files are there."""

    database: tuple[int, int]
    content: tuple[int, int]  # size and mtime: unchanged by a reader
    wal_bytes: int | None
    index: tuple[int, int] | None

    @property
    def at_rest(self) -> bool:
        """Nobody has the database open and nothing waits in the log."""
        return self.index is None and not self.wal_bytes

    @property
    def same(self) -> tuple[object, ...]:
        """A connection is good as long as this does not change."""
        return self.database, self.index


class _Kept:
    """A thread's open connection, the files it was opened on, and the deadline of the request that uses it now."""

    __slots__ = ("connection", "files", "until")

    def __init__(self, files: _Files) -> None:
        self.connection: Connection | None = None
        self.files = files
        self.until = 0.0

    def expired(self) -> int:
        return 1 if time.monotonic() > self.until else 0


class Reader:
    """Reads the database at `path`, one connection a thread, in whatever state the writer is.

    `with reader.read() as reading:` raises NoDatabaseError or UnreadableError, also for what goes wrong in the block.
    """

    def __init__(self, path: Path, *, deadline_s: float = READ_DEADLINE_S) -> None:
        self.path = path
        self._deadline_s = deadline_s
        self._local = threading.local()
        self._open: list[_Kept] = []
        self._lock = threading.Lock()

    @contextmanager
    def read(self, *, deadline_s: float | None = None) -> Iterator[Reading]:
        """One short read transaction; roll back, fetch everything, keep nothing open."""
        files = self._look()
        stale = files.at_rest
        kept: _Kept | None = None
        try:
            kept = self._immutable(files) if stale else self._shared(files)
            kept.until = time.monotonic() + (self._deadline_s if deadline_s is None else deadline_s)
            assert kept.connection is not None
            with kept.connection.begin() as transaction:
                self._check_schema(kept.connection)
                yield Reading(kept.connection, stale)
                transaction.rollback()
        except (DBAPIError, sqlite3.Error) as error:
            self._drop(kept)
            raise self._explain(error) from error
        except ReadError:
            self._drop(kept)
            raise
        finally:
            if stale:
                self._drop(kept)
        if stale and self._look().content != files.content:
            raise UnreadableError(f"{self.path} was changed while it was read: the supervisor is starting; try again")

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._lock:
            kept, self._open = self._open, []
        for one in kept:
            if one.connection is not None:
                one.connection.close()
        self._local = threading.local()

    def _look(self) -> _Files:
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NoDatabaseError(f"there is no database {self.path} yet: is the supervisor running?") from error
        except OSError as error:
            raise UnreadableError(f"{self.path} can't be reached: {error.strerror}") from error
        if found.st_size == 0:
            raise NoDatabaseError(f"the database {self.path} is still empty: the supervisor is starting")
        wal, index = _stat(f"{self.path}-wal"), _stat(f"{self.path}-shm")
        return _Files(
            (found.st_dev, found.st_ino),
            (found.st_size, found.st_mtime_ns),
            None if wal is None else wal.st_size,
            None if index is None else (index.st_dev, index.st_ino),
        )

    def _shared(self, files: _Files) -> _Kept:
        """This thread's connection beside the writer, opened again when the files are other ones."""
        kept: _Kept | None = getattr(self._local, "kept", None)
        if kept is not None and kept.connection is not None and kept.files.same == files.same:
            return kept
        self._drop(kept)
        if files.index is None:  # opening would create the index as this user, and block the supervisor's next start
            raise UnreadableError(
                f"{self.path}-wal has content but {self.path}-shm is missing: start the supervisor, it makes it anew"
            )
        kept = self._connect(files, "mode=ro")
        self._local.kept = kept
        return kept

    def _immutable(self, files: _Files) -> _Kept:
        """A connection for one request to a file that nobody writes."""
        return self._connect(files, "mode=ro&immutable=1")

    def _connect(self, files: _Files, parameters: str) -> _Kept:
        kept = _Kept(files)
        uri = f"file:{quote(str(self.path))}?{parameters}"

        def connect() -> sqlite3.Connection:
            raw = sqlite3.connect(uri, uri=True, timeout=READ_TIMEOUT_S, isolation_level=None, check_same_thread=False)
            raw.execute("PRAGMA query_only=1")
            raw.set_progress_handler(kept.expired, _STEPS_BETWEEN_LOOKS)
            return raw

        kept.until = time.monotonic() + self._deadline_s
        kept.connection = _engine(connect, "BEGIN").connect()
        with self._lock:
            self._open.append(kept)
        return kept

    def _drop(self, kept: _Kept | None) -> None:
        if kept is None or kept.connection is None:
            return
        kept.connection.close()
        kept.connection = None
        with self._lock:
            if kept in self._open:
                self._open.remove(kept)

    def _check_schema(self, connection: Connection) -> None:
        raw: Any = connection.connection.driver_connection
        try:
            row = raw.execute("SELECT version_num FROM alembic_version").fetchone()
        except sqlite3.OperationalError as error:
            if error_code(error) != sqlite3.SQLITE_ERROR:
                raise
            row = None
        if row is None:
            raise NoDatabaseError(f"the database {self.path} has no tables yet: the supervisor is starting")
        if row[0] != HEAD:
            newer = "newer: update and restart this program" if row[0] > HEAD else "older: restart the supervisor"
            raise UnreadableError(f"{self.path} has schema {row[0]}, this program reads {HEAD}; the file is {newer}")

    def _explain(self, error: BaseException) -> ReadError:
        code = error_code(error)
        reason = str(sqlite_error(error) or error)
        if code == sqlite3.SQLITE_INTERRUPT:
            return TooSlowError(f"the query took longer than {self._deadline_s:g} s and was ended")
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return UnreadableError(f"{self.path} is not a sound Checkvisor database: {reason}")
        return UnreadableError(f"{self.path} can't be read: {reason}")


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - on every request, and Path costs more than the call
    except OSError:
        return None
